"""Noise of each row, sample weights and factors of rows of a Gaussian process, beside dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as la
import scipy.optimize
from scipy.stats import multivariate_normal
from scipy.stats import t as student_t
from sklearn.gaussian_process import GaussianProcessRegressor as Dense
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.gp import training
from gramian.gp.calibration import AGREEING_ROWS, BandCheck, RowScale
from gramian.gp.choice import Chosen, held_out_check
from gramian.gp.composite import Composite, CompositeBlock, Prior, conditional_rows
from gramian.gp.prior import Hyperparameters

RNG = np.random.default_rng(0)
X = RNG.random((120, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(120)
NOISE = np.where(np.arange(120) % 2, 0.004, 0.3)
NEW = RNG.random((20, 2)) * 1.2
KERNEL = 1.7 * gm.Gaussian((0.5, 0.8))
FIXED = {"optimizer": None, "random_state": 0, "n_jobs": 1}
NAMES = ("exact", "multiresolution", "neighbours")


@pytest.mark.parametrize("normalize", [True, False])
def test_noise_of_each_row_is_scikit_learn_s_alpha(normalize):
    ours = gm.GaussianProcessRegressor(KERNEL, noise=NOISE, normalize_y=normalize, **FIXED).fit(X, Y)
    theirs = Dense(ConstantKernel(1.7) * RBF((0.5, 0.8)), alpha=NOISE, optimizer=None, normalize_y=normalize)
    theirs.fit(X, Y)
    for found, expected in zip(ours.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
    assert ours.noise_ == pytest.approx(NOISE.mean())


@pytest.mark.parametrize("name", NAMES)
def test_every_posterior_takes_a_weight_w_as_noise_over_w(name, tmp_path):
    weights = RNG.integers(0, 4, 120).astype(float)
    rows = np.flatnonzero(weights)
    chosen = gm.MultiResolution(root_rank=len(rows), n_levels=1) if name == "multiresolution" else name
    model = gm.GaussianProcessRegressor(KERNEL, noise=0.1, normalize_y=False, approximation=chosen, **FIXED)
    model.fit(X, Y, weights)
    gm.save(model, tmp_path / "process.gramian")
    kept = gm.load(tmp_path / "process.gramian")
    np.testing.assert_array_equal(kept.predict_interval(NEW, 0.5), model.predict_interval(NEW, 0.5))
    twice = np.repeat(np.arange(120), weights.astype(int))
    K = np.asarray(KERNEL(X[twice])) + 0.1 * np.eye(len(twice))
    cross = np.asarray(KERNEL(NEW, X[twice]))
    if name == "neighbours":
        near = model.posterior_.near
        some = near.neighbours(NEW, Engine(1), without=np.full(20, -1))
        for i in range(20):
            own, w = near.near.points[some[i]] * np.array([0.5, 0.8]), near.weights[some[i]]
            S = np.asarray(KERNEL(own)) + np.diag(0.1 / w)
            c = np.asarray(KERNEL(NEW[i : i + 1], own))[0]
            mean, std = model.predict(NEW[i : i + 1], return_std=True)
            assert mean[0] == pytest.approx(c @ la.solve(S, near.targets[some[i], 0]), abs=1e-4)
            assert std[0] ** 2 == pytest.approx(1.7 - c @ la.solve(S, c), abs=1e-4)
        return
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, cross @ la.solve(K, Y[twice]), atol=1e-6)
    variance = 1.7 - np.einsum("ij,ji->i", cross, la.solve(K, cross.T))
    np.testing.assert_allclose(std, np.sqrt(variance), atol=1e-6)
    S = np.asarray(KERNEL(X[rows])) + np.diag(0.1 / weights[rows])
    expected = multivariate_normal.logpdf(Y[rows], cov=S)
    value, slope = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(expected, rel=1e-8)
    step = 1e-5 * np.eye(len(slope))
    ask = model.log_marginal_likelihood
    numeric = [(ask(model.theta_ + s) - ask(model.theta_ - s)) / 2e-5 for s in step]
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-4)
    # A row is left out with all that it stands for; the deviation is that of one observation.
    for i in range(0, len(rows), 17):
        rest = np.delete(np.arange(len(rows)), i)
        c, inner = np.asarray(KERNEL(X[rows[i]][None], X[rows[rest]]))[0], S[np.ix_(rest, rest)]
        at = model.calibration_
        assert at.errors[i, 0] == pytest.approx(Y[rows[i]] - c @ la.solve(inner, Y[rows[rest]]), abs=1e-7)
        assert at.deviations[i] ** 2 == pytest.approx(1.8 - c @ la.solve(inner, c), rel=1e-7)
    np.testing.assert_array_equal(model.calibration_.weights, weights[rows])


@pytest.mark.slow
def test_the_exact_mean_takes_weights(monkeypatch):
    rng = np.random.default_rng(1)
    rows, weights = rng.random((2_050, 2)), rng.integers(1, 9, 2_050).astype(float)
    y = np.sin(5 * rows[:, 0]) + np.sqrt(0.1 / weights) * rng.standard_normal(2_050)
    exact = Chosen(True, 0, {"exact mean": 0.0})
    monkeypatch.setattr(
        training, "choose_posterior", lambda nested, _, *held: (exact, held_out_check(nested, *held))
    )
    model = gm.GaussianProcessRegressor(KERNEL, noise=0.1, normalize_y=False, **FIXED).fit(rows, y, weights)
    S = np.asarray(KERNEL(rows)) + np.diag(0.1 / weights)
    expected = np.asarray(KERNEL(NEW, rows)) @ la.solve(S, y, assume_a="pos")
    np.testing.assert_allclose(model.predict(NEW), expected, atol=2e-3)


def test_the_density_given_neighbours_takes_weights():
    weights = 1.0 + 3.0 * RNG.random(120)
    hyper = Hyperparameters(KERNEL, 0.1)
    prior = Prior(hyper.theta, np.full(len(hyper.theta), np.inf))
    rng = np.random.default_rng(0)
    sample = CompositeBlock(X[:30], Y[:30, None], weights[:30])
    known = LabelledRows(as_source(X), NumberTargets(Y[:, None], len(Y)), weights)
    near = conditional_rows(known, hyper, Engine(1), rng)
    found = Composite([sample], hyper, prior, Engine(1), near)
    own = np.asarray(KERNEL(X[:30])) + np.diag(0.1 / weights[:30])
    total = multivariate_normal.logpdf(Y[:30], cov=own)
    for points, y, w in zip(near.rows, near.targets[:, :, 0], near.weights):
        S = np.asarray(KERNEL(points)) + np.diag(0.1 / w)
        total += multivariate_normal.logpdf(y, cov=S) - multivariate_normal.logpdf(y[:-1], cov=S[:-1, :-1])
    loss, slope = found.loss(hyper.theta)
    assert loss == pytest.approx(-total, rel=1e-8)
    steps = 1e-5 * np.eye(len(slope))
    numeric = [(found.loss(hyper.theta + s)[0] - found.loss(hyper.theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("approximation", ["auto", "neighbours"])
def test_learned_models_do_not_depend_on_the_unit_of_weights_and_leave_out_weight_0(approximation):
    weights = np.where(np.arange(120) < 100, 1.0 + RNG.random(120), 0.0)
    wild = np.where(weights > 0, Y, 1e3)

    def ends(X, y, w):
        model = gm.GaussianProcessRegressor(approximation=approximation, random_state=0, n_jobs=1)
        return model.fit(X, y, w).predict_interval(NEW)

    expected = ends(X[:100], Y[:100], weights[:100])
    np.testing.assert_allclose(ends(X, wild, weights), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ends(X, wild, 4.0 * weights), expected, rtol=1e-4, atol=1e-4)


def test_bands_count_rows_by_their_weights():
    errors, ones = RNG.standard_normal((40, 2)), np.ones(40)
    plain = BandCheck(errors, ones, held_out=True)
    few = np.where(np.arange(40) < 20, 1.0, 1e-9)
    first = BandCheck(errors[:20], ones[:20], held_out=True)
    for given, expected in ((5.0 * ones, plain), (few, first)):
        seen = BandCheck(errors, ones, held_out=True, weights=given)
        for p in (0.1, 0.3, 0.5, 0.8):
            np.testing.assert_allclose(seen.quantile(p, 0), expected.quantile(p, 0), atol=1e-6)
            np.testing.assert_allclose(seen.half_width(p, 0), expected.half_width(p, 0), atol=1e-6)
        for name in ("nlpd", "rmse", "spread", "loss"):
            np.testing.assert_allclose(getattr(seen, name), getattr(expected, name), rtol=1e-6)
        assert seen.coverage(0.5) == pytest.approx(expected.coverage(0.5))


def test_unusable_noise_of_rows_is_refused():
    for noise, text in (
        (np.ones(3), r"noise has 3 entries, but X has 120 rows\. Give one number, or one variance"),
        (np.r_[0.0, np.ones(119)], r"(?s)noise=.*expected one number, or \(n,\) finite variances above 0"),
        (np.ones((120, 1)), r"shape \(120, 1\); expected one number"),
    ):
        with pytest.raises(gm.InputError, match=text):
            gm.GaussianProcessRegressor(noise=noise).fit(X, Y)


# ---- factors of rows on a Gaussian process's deviations ---------------------------------------------

DRAWS = np.random.default_rng(5)
MEANS, DEVIATIONS = DRAWS.normal(2.0, 3.0, (900, 2)), np.exp(DRAWS.normal(-1.0, 0.3, 900))
#: The first output's errors grow with its mean; the second's are as predicted, but half as large again.
TRUE = np.column_stack([np.exp(0.25 * (MEANS[:, 0] - 2.0)), np.full(900, 1.5)])
ERRORS = TRUE * DEVIATIONS[:, None] * DRAWS.standard_normal((900, 2))


def terms(means, deviations, wanted):
    """1, a, m and m² − 1 of one output, standardised by the rows that are checked."""
    sizes = np.log(DEVIATIONS)
    a = np.clip((np.log(deviations) - sizes.mean()) / sizes.std(), -2.5, 2.5)
    m = np.clip((means[:, wanted] - MEANS[:, wanted].mean()) / MEANS[:, wanted].std(), -2.5, 2.5)
    return np.column_stack([np.ones(len(m)), a, m, m * m - 1.0])


def test_weights_are_those_of_largest_penalised_density():
    F, squares = terms(MEANS, DEVIATIONS, 0), (ERRORS[:, 0] / DEVIATIONS) ** 2

    def loss(w):
        density = student_t.logpdf(np.sqrt(squares) * np.exp(-F @ w), 4) - F @ w
        return 0.5 * AGREEING_ROWS * (w[1:] ** 2).sum() - density.sum()

    found = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    np.testing.assert_allclose(scale.weights[1:, 0], found[1:], atol=1e-4)
    # The least mean square of the rows with the smallest factors, and the level beside it.
    smallest = squares[np.argsort(F[:, 1:] @ found[1:])]
    means = (np.cumsum(smallest) + AGREEING_ROWS) / (np.arange(1, 901) + AGREEING_ROWS)
    assert scale.least[0] == pytest.approx(np.sqrt(means.min()), rel=1e-3)
    factors = scale.factor(MEANS, DEVIATIONS)[:, 0]
    np.testing.assert_allclose(factors, np.maximum(np.exp(F @ scale.weights[:, 0]), scale.least[0]))
    level = np.exp(2.0 * scale.weights[0, 0])
    assert (squares / factors**2).sum() + AGREEING_ROWS / level == pytest.approx(900 + AGREEING_ROWS)


def near_copies(seed, n, odd):
    """Errors, means and deviations of rows, most near-copies; one of ``odd`` copies has another target."""
    rng = np.random.default_rng(seed)
    copy = rng.random(n) < 0.7
    means = rng.standard_t(3, (n, 1))
    deviations = np.where(copy, 0.1, 1.0) * np.exp(0.2 * rng.standard_normal(n))
    errors = deviations * np.where(copy, 0.1, 1.0) * rng.standard_normal(n)
    wrong = copy & (rng.random(n) < 1.0 / odd)
    errors[wrong] = rng.standard_normal(wrong.sum())
    return errors[:, None], means, deviations


def density(scale, errors, means, deviations):
    wide = deviations * scale.factor(means, deviations)[:, 0]
    return float(np.mean(0.5 * np.square(errors[:, 0] / wide) + np.log(wide)))


@pytest.mark.parametrize("odd", [20, 60, 1e9])
def test_factors_of_rows_are_no_smaller_than_unseen_copies_allow(odd):
    losses = []
    for seed in range(8):
        known, new = near_copies(seed, 1_000, odd), near_copies(100 + seed, 20_000, odd)
        one = replace(scale := RowScale.of(*known), weights=np.zeros((4, 1)), least=np.zeros(1))
        score = np.square(known[0][:, 0] / known[2]).sum()
        one.weights[0] = 0.5 * np.log((score + AGREEING_ROWS) / (1_000 + AGREEING_ROWS))
        losses.append(density(scale, *new) - density(one, *new))
    assert max(losses) < 0.02, losses
    if odd == 1e9:  # factors of rows still pay where copies agree
        assert max(losses) < -0.3, losses


def test_a_factor_differs_from_row_to_row_only_where_errors_do():
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    assert scale.by_row
    found = scale.factor(MEANS, DEVIATIONS)
    assert np.corrcoef(np.log(found[:, 0]), np.log(TRUE[:, 0]))[0, 1] > 0.95
    squares = np.square(ERRORS[:, 1] / DEVIATIONS).sum()
    np.testing.assert_allclose(found[:, 1], np.sqrt((squares + AGREEING_ROWS) / (900 + AGREEING_ROWS)))
    few = RowScale.of(ERRORS[:60], MEANS[:60], DEVIATIONS[:60])
    assert not few.by_row


def test_factors_far_from_the_checked_rows_are_those_of_the_nearest():
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    far = scale.factor(np.array([[1e3, 0.0], [1e9, 0.0]]), np.array([0.3, 0.3]))
    assert far[0, 0] == far[1, 0] <= 1.2 * scale.factor(MEANS, DEVIATIONS)[:, 0].max()


@pytest.mark.parametrize("errors", [np.zeros((300, 1)), 1e-150 * DRAWS.standard_normal((300, 1))])
def test_errors_of_nothing_have_a_factor(errors):
    scale = RowScale.of(errors, MEANS[:300, :1], np.ones(300))
    assert np.isfinite(scale.factor(MEANS[:, :1], DEVIATIONS)).all()
    assert (scale.factor(MEANS[:, :1], DEVIATIONS) > 0).all()


@pytest.fixture(scope="module")
def grows():
    """A process of targets whose noise grows with their level, and further rows of the same kind."""
    rng = np.random.default_rng(2)
    X = rng.random((3_600, 2))
    level = np.sin(3.0 * X[:, 0]) + X[:, 1]
    y = level + 0.3 * level**2 * rng.standard_normal(3_600)
    return gm.GaussianProcessRegressor(learning_rows=300, random_state=0).fit(X[:1_600], y[:1_600]), X, y


def test_bands_follow_noise_that_grows_with_the_level(grows):
    model, X, y = grows
    assert model.calibration_.scale.by_row
    mean, deviation = model.predict(X[1_600:], return_std=True, include_noise=True)
    ends = model.predict_interval(X[1_600:], 0.9)
    inside = (ends[:, 0] <= y[1_600:]) & (y[1_600:] <= ends[:, 1])
    thirds = np.array_split(np.argsort(mean), 3)
    assert [0.82 < inside[third].mean() < 0.97 for third in thirds] == [True, True, True]
    # One deviation for all rows covers nearly all of the first third and far less of the last.
    one = np.quantile(np.abs(y[1_600:] - mean), 0.9)
    alike = np.abs(y[1_600:] - mean) <= one
    assert alike[thirds[0]].mean() - alike[thirds[2]].mean() > 0.15
    assert deviation[thirds[2]].mean() > 3.0 * deviation[thirds[0]].mean()


def test_answers_agree_and_files_keep_them(grows, tmp_path):
    model, X, _ = grows
    rows = X[1_600:1_640]
    mean, deviation = model.predict(rows, return_std=True, include_noise=True)
    covariance = model.predict(rows, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), deviation, rtol=1e-6)
    ends = model.predict_interval(rows, 0.8)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / deviation, (ends[0] @ [-1, 1]) / deviation[0])
    upper = model.predict_quantiles(rows, 0.9) - mean
    np.testing.assert_allclose(upper / deviation, upper[0] / deviation[0])
    gm.save(model, tmp_path / "process.gramian")
    again = gm.load(tmp_path / "process.gramian")
    np.testing.assert_array_equal(again.predict_interval(rows, 0.8), ends)
    plain = gm.GaussianProcessRegressor(calibration=None, optimizer=None, random_state=0).fit(
        X[:300], X[:300, 0]
    )
    assert plain.calibration_.scale is None
