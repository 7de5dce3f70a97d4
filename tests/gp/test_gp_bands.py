"""The exact mean beside nested deviations, and whether bands cover what they say."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as la
from scipy.stats import norm

import gramian as gm
from gramian.compression.storage import operator_of
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.gp import training
from gramian.gp.calibration import BandCheck, leave_one_out
from gramian.gp.choice import Chosen, held_out_check
from gramian.outer_product import average_gradient_outer_product

RNG = np.random.default_rng(0)
X = RNG.random((2_300, 3)) * np.array([1.0, 100.0, 0.01])
Y = np.c_[np.sin(8 * X[:, 0]) + X[:, 1] / 100, np.cos(X[:, 1] / 20)] + 0.1 * RNG.standard_normal((2_300, 2))
NEW = RNG.random((200, 3)) * np.array([1.0, 100.0, 0.01])
KERNEL = 1.5 * gm.Matern((0.4, 60.0, 0.05), nu=1.5)
FIXED = {"optimizer": None, "noise": 0.02, "random_state": 0}


def exact(nested, near, *held):
    return Chosen(True, 0, {"exact mean": 0.0}), held_out_check(nested, *held)


@pytest.fixture(scope="module")
def solved():
    """A model with the exact mean and the deviations of the nested bases, whatever the densities say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "choose_posterior", exact)
        return gm.GaussianProcessRegressor(KERNEL, **FIXED).fit(X, Y)


def dense(X, Y, new, kernel, noise):
    K = np.asarray(kernel(X)) + noise * np.eye(len(X))
    cross = np.asarray(kernel(new, X))
    return cross @ la.solve(K, Y), kernel.diagonal(new) - np.einsum("ij,ji->i", cross, la.solve(K, cross.T))


def test_the_mean_is_the_exact_one_and_deviations_are_a_little_larger(solved):
    assert "the mean solved from all rows (held-out loss: exact mean 0.000)" in solved.plan_.reason
    y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    expected, variance = dense(X, y, NEW, KERNEL, 0.02)
    mean, std = solved.predict(NEW, return_std=True)
    error = (mean - Y.mean(axis=0)) / Y.std(axis=0) - expected
    assert np.sqrt(np.mean(error**2)) < 0.02 * np.sqrt(variance.mean())  # the solve stops at 1e-3
    ratio = (std[:, 0] / Y[:, 0].std()) ** 2 / variance
    assert np.quantile(ratio, 0.02) > 0.95
    assert np.median(ratio) < 1.3


@pytest.mark.slow
def test_samples_scatter_about_the_exact_mean(solved):
    mean = solved.predict(NEW[:5])
    for draws in (solved.sample_y(NEW[:5], 4_000, random_state=1), solved.sample_paths(4_000, 1)(NEW[:5])):
        spread = solved.predict(NEW[:5], return_std=True)[1].max(axis=0)
        np.testing.assert_allclose(draws.mean(axis=2), mean, atol=0.08 * spread.max())


@pytest.mark.repeat
@pytest.mark.slow
def test_without_memory_for_the_tiles_the_blocks_give_the_mean():
    rows = RNG.random((8_000, 3)) * np.array([1.0, 100.0, 0.01])
    target = np.sin(8 * rows[:, 0]) + rows[:, 1] / 100
    model = gm.GaussianProcessRegressor(KERNEL, memory_budget="150MB", n_jobs=1, **FIXED).fit(rows, target)
    assert "memory holds no kernel matrix of 8000 rows" in model.plan_.reason
    assert model.posterior_.mean is None
    assert model.score(rows[::40], target[::40]) > 0.9


@pytest.mark.slow
def test_blocks_are_formed_in_units_of_the_lengthscales(solved):
    scale = np.array(KERNEL.kernel.lengthscale)
    one = gm.GaussianProcessRegressor(1.5 * gm.Matern(1.0, nu=1.5), **FIXED).fit(X / scale, Y)
    # The same rows in other units: bisection ends in the same blocks up to the order of rounding.
    for found, other in ((solved, one),):
        std = found.predict(NEW, return_std=True)[1]
        again = other.predict(NEW / scale, return_std=True)[1]
        assert np.median(np.abs(std / again - 1.0)) < 0.1
    features = solved.posterior_.features
    labels = features.partition.route(X, Engine(1))
    inside = np.mean([np.var((X / scale)[labels == b], axis=0).sum() for b in np.unique(labels)])
    assert inside < 0.8 * np.var(X / scale, axis=0).sum()


def test_leaving_one_out_is_what_it_says():
    few, y = X[:90], Y[:90] - Y[:90].mean(axis=0)
    tree = gm.MultiResolution(root_rank=20, rank=8, n_blocks=3)
    model = gm.GaussianProcessRegressor(
        KERNEL, noise=0.05, optimizer=None, approximation=tree, normalize_y=False, random_state=0
    ).fit(few, y)
    prior = operator_of(model.posterior_.features, as_source(few), chunk_rows=90, engine=Engine(1)).to_dense()
    np.fill_diagonal(prior, 1.5)  # K̃ + D
    seen = leave_one_out(model._training.likelihood(), few, y, Engine(1))
    for i in range(0, 90, 7):
        rest = np.delete(np.arange(90), i)
        K, cross = prior[np.ix_(rest, rest)] + 0.05 * np.eye(89), prior[i, rest]
        np.testing.assert_allclose(seen.errors[i], y[i] - cross @ la.solve(K, y[rest]), atol=1e-8)
        variance = 1.5 + 0.05 - cross @ la.solve(K, cross)
        assert seen.deviations[i] ** 2 == pytest.approx(variance, rel=1e-8)
    np.testing.assert_allclose(model.calibration_.errors, seen.errors)
    assert not model.calibration_.held_out


def test_what_a_check_says():
    errors = np.array([[-3.0], [-1.0], [0.5], [2.0]])
    seen = BandCheck(errors, np.array([1.0, 2.0, 1.0, 1.0]), held_out=True)
    np.testing.assert_allclose(seen.scores.ravel(), [-3.0, -0.5, 0.5, 2.0])
    assert seen.coverage(0.5) == 0.5
    assert seen.half_width(0.6, 3) == 2.0  # held out: no hyperparameter was chosen on these rows
    assert replace(seen, held_out=False).half_width(0.6, 3) == 3.0
    assert seen.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert seen.pit[1, 0] == pytest.approx(0.30854, abs=1e-5)
    assert seen.nlpd == pytest.approx(-norm.logpdf(errors.ravel(), scale=seen.deviations).mean())


@pytest.mark.parametrize("count", [30, 31])
@pytest.mark.parametrize("held_out", [True, False])
def test_quantiles_are_symmetric_and_what_the_rows_chose_moves_the_ends_alone(count, held_out):
    errors = np.sort(RNG.standard_normal((count, 2)), axis=0)
    seen, mirrored = (BandCheck(e, np.ones(count), held_out=held_out) for e in (errors, -errors))
    wanted = np.linspace(0.04, 0.96, 93)
    found = np.array([seen.quantile(p, 22) for p in wanted])
    np.testing.assert_allclose(found, [-mirrored.quantile(1.0 - p, 22) for p in wanted], atol=1e-9)
    np.testing.assert_allclose(seen.quantile(0.5, 22), np.median(errors, axis=0))
    steps = np.diff(found, axis=0)
    assert (steps >= 0).all()
    assert steps[40:52].max() < 0.5 * np.diff(errors[5:-5], axis=0).max() + 1e-9  # no jump at the middle
    plain = np.quantile(errors, wanted, axis=0, method="weibull")
    beyond = np.sign(wanted - 0.5)[:, None] * (found - plain)
    assert (beyond >= -1e-9).all()
    assert bool((beyond[[0, -1]] > 1e-9).all()) != held_out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gramian.exceptions.AccuracyWarning")  # some draws are nearly noise
@pytest.mark.parametrize("make", [gm.GaussianProcessRegressor, gm.TabularRegressor])
def test_intervals_of_few_rows_cover_although_the_rows_chose_hyperparameters(make):
    covered = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((530, 4))
        y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.4 * rng.standard_normal(530)
        ends = make(random_state=seed).fit(X[:30], y[:30]).predict_interval(X[30:], 0.9)
        covered.append(np.mean((ends[:, 0] <= y[30:]) & (y[30:] <= ends[:, 1])))
    assert np.mean(covered) > 0.88  # split conformal's rank alone: 0.83 and 0.875 on other seeds


@pytest.mark.parametrize("size", [600, pytest.param(2_600, marks=pytest.mark.slow)])
def test_intervals_cover_although_the_errors_are_not_normal(size):
    rng = np.random.default_rng(1)
    rows = rng.random((size + 3_000, 2))
    target = np.sin(7 * rows[:, 0]) + 0.2 * rng.standard_t(3, len(rows))
    model = gm.GaussianProcessRegressor(random_state=0).fit(rows[:size], target[:size])
    assert model.calibration_.held_out == (size > 2_000)
    for wanted in (0.5, 0.8, 0.9, 0.95):
        ends = model.predict_interval(rows[size:], wanted)
        assert ends.shape == (3_000, 2)
        covered = np.mean((ends[:, 0] <= target[size:]) & (target[size:] <= ends[:, 1]))
        # Three deviations of a share of the rows that were checked.
        assert (
            abs(covered - wanted)
            < 3.0 * np.sqrt(wanted * (1 - wanted) / len(model.calibration_.errors)) + 0.01
        )


def test_learning_does_not_see_the_rows_that_check_the_band(monkeypatch):
    seen, learn = [], training.learn

    def watched(hyper, rows, *rest, **options):
        seen.append((rows.source.shape[0], len(rows.numbers)))
        return learn(hyper, rows, *rest, **options)

    monkeypatch.setattr(training, "learn", watched)
    model = gm.GaussianProcessRegressor(learning_rows=100, max_iter=1, random_state=0)
    with pytest.warns(gm.AccuracyWarning, match="learning"):
        model.fit(X, Y[:, 0])
    assert seen == [(2_070, 2_070)]
    assert len(model.calibration_.errors) == 230
    assert model.posterior_.features.rank > 0


def test_questions_about_intervals_are_checked(solved):
    with pytest.raises(gm.InputError, match=r"coverage=1\.0 must be a number between 0 and 1"):
        solved.predict_interval(NEW, 1.0)
    few = gm.GaussianProcessRegressor(KERNEL, **FIXED).fit(X[:20], Y[:20, 0])
    with pytest.raises(gm.InputError, match=r"coverage=0\.99 needs 99 held-out rows, but there were 20"):
        few.predict_interval(NEW, 0.99)
    assert solved.predict_interval(NEW).shape == (200, 2, 2)


def test_files_and_pickles_hold_the_exact_mean(solved, tmp_path):
    gm.save(solved, tmp_path / "process.gramian")
    for kept in (gm.load(tmp_path / "process.gramian"), pickle.loads(pickle.dumps(solved))):
        np.testing.assert_array_equal(kept.predict(NEW), solved.predict(NEW))
        np.testing.assert_array_equal(kept.predict_interval(NEW), solved.predict_interval(NEW))


def test_gradients_are_those_of_the_exact_mean(solved):
    found = average_gradient_outer_product(solved, X[:50], n_rows=50)
    step = 1e-4 * np.array([1.0, 100.0, 0.01])
    moves = [(solved.predict(X[:50] + s) - solved.predict(X[:50] - s)) / (2 * s.max()) for s in np.diag(step)]
    slopes = np.stack(moves, axis=-1)  # rows, outputs, features
    expected = np.einsum("nof,nog->fg", slopes, slopes) / 50
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, 16])  # where the density of near rows alone preferred 2 and 3 times 1.2
def test_bands_hold_in_a_gap_between_dense_rows(seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, 6_000))
    x = x[(x < 4) | (x > 6)]
    y = np.sin(2 * x) + 0.3 * x + 0.15 * rng.standard_normal(len(x))
    model = gm.GaussianProcessRegressor("rbf", random_state=0).fit(x[:, None], y)
    line = np.linspace(4.02, 5.98, 200)
    mean, deviation = model.predict(line[:, None], return_std=True)
    assert (np.abs(mean - np.sin(2 * line) - 0.3 * line) < 3.5 * deviation).all()
    assert np.abs(np.diff(mean)).max() < 0.04  # the truth's is 0.022
    assert 0.8 < model.kernel_.kernel.lengthscale < 1.8
