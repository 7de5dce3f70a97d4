"""The posterior from the nearest rows, beside dense algebra, and the choice between posteriors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from scipy.stats import multivariate_normal, norm

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.explanation.machines import machines_of
from gramian.gp import choice, composite, neighbours
from gramian.gp.calibration import BandCheck
from gramian.gp.choice import Chosen, choose_posterior, clearly_better, leave_one_out_judge
from gramian.gp.composite import Composite, CompositeBlock, Prior, conditional_rows
from gramian.gp.neighbours import NearestRows, NeighbourPosterior
from gramian.gp.plan import neighbour_bytes, takes_neighbours
from gramian.gp.prior import Hyperparameters
from gramian.kernels import Cauchy
from gramian.kernels.gradient import contract, stacked_contraction, stacked_grams
from gramian.outer_product import average_gradient_outer_product

ENGINE = Engine(1)
RNG = np.random.default_rng(0)
X = RNG.random((400, 3)) * np.array([1.0, 10.0, 0.1]) + 100.0
Y = np.c_[np.sin(6 * X[:, 0]) + X[:, 1] / 10, np.cos(X[:, 1])] + 0.1 * RNG.standard_normal((400, 2))
NEW = RNG.random((30, 3)) * np.array([1.0, 10.0, 0.1]) + 100.0
SCALE = np.array([0.7, 3.0, 0.2])
KERNELS = {
    "features": 1.3 * gm.Matern(tuple(SCALE), nu=1.5),
    "sum": 1.5 * gm.Matern(0.6, nu=2.5) + gm.Gaussian(2.0),
    "product": gm.Laplacian((1.0, 2.0, 0.5)) * Cauchy(0.9),
    "one": gm.Exponential(2.0),
}


def labelled(rows, targets):
    return LabelledRows(as_source(rows), NumberTargets(targets, len(targets)))


def posterior(kernel=KERNELS["features"], noise=0.05, count=20, rows=X, targets=Y):
    hyper = Hyperparameters(kernel, noise)
    return NeighbourPosterior.of(labelled(rows, targets), hyper, count, np.random.default_rng(0))


def expected(kernel, noise, rows, targets, new):
    """Return mean and variance of one new observation by dense algebra."""
    K = np.asarray(kernel(rows)) + noise * np.eye(len(rows))
    cross = np.asarray(kernel(new[None], rows))[0]
    solved = la.solve(K, cross, assume_a="pos")
    return solved @ targets, kernel.diagonal(new[None])[0] + noise - cross @ solved


def whole_density(hyper, block):
    """Return log p(y) of a block's rows, summed over outputs, by SciPy."""
    K = np.asarray(hyper.kernel(block.rows)) + hyper.noise * np.eye(len(block))
    return sum(multivariate_normal(cov=K).logpdf(y) for y in block.targets.T)


@pytest.mark.parametrize("name", KERNELS)
def test_stacks_are_kernel_matrices(name):
    points = RNG.random((4, 7, 3)) * SCALE + 50.0
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 2e-5)):
        found = stacked_grams(KERNELS[name], points, dtype)
        assert found.dtype == dtype
        for gram, rows in zip(found, points, strict=True):
            np.testing.assert_allclose(gram, KERNELS[name](rows), atol=tolerance)


@pytest.mark.parametrize("name", KERNELS)
def test_mean_and_variance_are_those_of_the_nearest_rows(name):
    kernel = KERNELS[name]
    near = posterior(kernel)
    mean, variance = near.moments(NEW, ENGINE)
    scale = SCALE if name == "features" else np.ones(3)
    for i, row in enumerate(NEW):
        closest = np.argsort(np.square((X - row) / scale).sum(axis=1))[:20]
        m, v = expected(kernel, 0.05, X[closest], Y[closest], row)
        np.testing.assert_allclose(mean[i], m, atol=1e-8)
        assert variance[i] == pytest.approx(v, rel=1e-8)


def test_a_row_is_left_out_of_its_own_neighbours():
    numbers = np.array([3, 250, 17])
    mean, variance = posterior().moments(X[numbers], ENGINE, without=numbers)
    for i, number in enumerate(numbers):
        away = np.square((X - X[number]) / SCALE).sum(axis=1)
        closest = np.argsort(away)[1:21]
        m, v = expected(KERNELS["features"], 0.05, X[closest], Y[closest], X[number])
        np.testing.assert_allclose(mean[i], m, atol=1e-8)
        assert variance[i] == pytest.approx(v, rel=1e-8)


def test_all_rows_as_neighbours_are_the_exact_posterior():
    mean, variance = posterior(count=10_000).moments(NEW, ENGINE)
    for i, row in enumerate(NEW[:5]):
        m, v = expected(KERNELS["features"], 0.05, X, Y, row)
        np.testing.assert_allclose(mean[i], m, atol=1e-7)
        assert variance[i] == pytest.approx(v, rel=1e-7)


def test_the_search_finds_most_neighbours_and_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(neighbours, "SEARCHED_ROWS", 640)
    points = np.random.default_rng(1).random((6_000, 4))
    near = NearestRows.of(points, np.random.default_rng(0))
    assert near.partition.n_blocks == 47
    rows = np.random.default_rng(2).random((300, 4))
    hits = 0
    for leaf, numbers in near.groups(rows, ENGINE):
        found = near.numbers[near.find(leaf, rows[numbers], 30)]
        for row, one in zip(rows[numbers], found, strict=True):
            assert len(set(one)) == 30
            hits += len(np.intersect1d(one, np.argsort(np.square(points - row).sum(axis=1))[:30]))
    assert hits > 0.8 * 30 * 300
    hyper = Hyperparameters(gm.Gaussian(0.5), 0.1)
    made = NeighbourPosterior.of(labelled(points, points[:, :1]), hyper, 30, np.random.default_rng(0))
    for one, other in zip(made.moments(rows, Engine(1)), made.moments(rows, Engine(3)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_float32_is_taken_where_nobody_notices():
    numbers = np.arange(50)
    near = posterior()
    fast = near.narrowed(X[:50], ENGINE, without=numbers)
    assert fast.dtype == np.float32
    np.testing.assert_allclose(fast.chunk(NEW, ENGINE), near.chunk(NEW, ENGINE), atol=1e-3)
    smooth = posterior(gm.Gaussian((5.0, 50.0, 1.0)), noise=1e-9, count=60)
    assert smooth.narrowed(X[:50], ENGINE, without=numbers).dtype == np.float64
    # Factors that do not exist in float32 are computed in float64.
    forced = replace(smooth, dtype=np.dtype(np.float32))
    assert np.isfinite(forced.chunk(NEW, ENGINE)).all()


def test_repeated_rows_without_noise_have_the_mean_of_their_targets_and_a_warning():
    rows, targets = np.repeat(X[:30], 3, axis=0), Y[:90]
    with pytest.warns(gm.AccuracyWarning, match=r"noise=1e-300 is too small to solve for rows"):
        near = posterior(noise=1e-300, rows=rows, targets=targets)
    mean, variance = near.moments(rows[::3], ENGINE)
    np.testing.assert_allclose(mean, targets.reshape(30, 3, 2).mean(axis=1), atol=1e-3)
    assert (variance > 0).all()


def test_rows_far_away_have_the_prior_and_few_rows_are_all_neighbours():
    mean, variance = posterior().moments(np.array([[1e200, 0.0, 0.0], [1e8, 0.0, 0.0]]), ENGINE)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(variance, 1.35, rtol=1e-6)
    one = posterior(rows=X[:1], targets=Y[:1])
    assert one.count == 1
    alone, prior = one.moments(X[:1], ENGINE, without=np.array([0]))
    np.testing.assert_allclose(alone, 0.0)
    np.testing.assert_allclose(prior, 1.35)


def test_hyperparameters_are_judged_by_left_out_rows():
    judge = leave_one_out_judge(labelled(X, Y), ENGINE, np.random.default_rng(0))
    good = Hyperparameters(KERNELS["features"], 0.01)
    assert judge(good) < judge(Hyperparameters(1.3 * gm.Matern((1e-3, 1e-3, 1e-3)), 0.01)) - 0.3
    assert judge(good) == judge(good)
    whole = posterior(noise=0.01, count=64).moments(X, ENGINE, without=np.arange(400))
    scores = (Y - whole[0]) / np.sqrt(whole[1])[:, None]
    spread = np.sqrt((np.square(scores).sum(axis=0) + 10) / 410)
    wide = np.sqrt(whole[1])[:, None] * spread
    density = 0.5 * (scores / spread) ** 2 + np.log(wide) + 0.5 * np.log(2 * np.pi)
    one = 0.5 * np.log(np.mean((Y - whole[0]) ** 2)) + 0.5 * np.log(2 * np.pi * np.e)
    far = -whole_density(good, CompositeBlock(X, Y)) / Y.size  # of 500 rows at most, hence all
    assert judge(good) == pytest.approx(0.5 * (density.mean() + one) + 0.1 * far, rel=1e-9)


def test_the_fastest_of_nearly_equal_posteriors_is_chosen():
    rows = np.random.default_rng(3).random((900, 2))
    targets = np.sin(20 * rows[:, :1]) * np.cos(20 * rows[:, 1:])
    hyper = Hyperparameters(gm.Gaussian(0.2), 1e-6)
    near = NeighbourPosterior.of(labelled(rows[:800], targets[:800]), hyper, 8, np.random.default_rng(0))
    found, _ = choose_posterior(None, near, rows[800:], targets[800:], 1e-6, ENGINE)
    assert found.neighbours > 8  # the more rows, the smaller the error
    assert not found.exact
    assert f"the nearest {found.neighbours} rows (held-out loss" in found.reason
    noise = np.random.default_rng(4).standard_normal((900, 1))
    far = Hyperparameters(gm.Gaussian(1e-3), 1.0)
    near = NeighbourPosterior.of(labelled(rows[:800], noise[:800]), far, 8, np.random.default_rng(0))
    assert choose_posterior(None, near, rows[800:], noise[800:], 1.0, ENGINE)[0].neighbours == 8


def test_a_gain_is_clear_beyond_two_standard_errors():
    rng = np.random.default_rng(5)
    noise, other = rng.standard_normal((2, 400, 2))
    good = BandCheck(noise, np.ones(400), held_out=True)
    for share, clear in ((0.02, False), (0.05, False), (1.0, True)):  # of errors that another mean adds
        worse = BandCheck(noise + share * other, np.ones(400), held_out=True)
        assert clearly_better(good, worse) == clear
        assert not clearly_better(worse, good)
    assert not clearly_better(good, good)


def test_all_held_out_rows_choose_where_500_cannot_tell(monkeypatch):
    rng = np.random.default_rng(11)
    noise, other = rng.standard_t(3, (2_000, 1)), 0.5 * rng.standard_normal((2_000, 1))

    def check(errors, rows):
        return BandCheck(errors[: len(rows)], np.ones(len(rows)), held_out=True, means=errors[: len(rows)])

    monkeypatch.setattr(choice, "near_check", lambda near, rows, *_, **__: check(noise, rows))
    monkeypatch.setattr(choice, "held_out_check", lambda nested, rows, *_: check(noise + other, rows))
    nested = gm.GaussianProcessRegressor(optimizer=None).fit(X[:50], Y[:50]).posterior_
    for n, clear in ((500, False), (2_000, True)):
        chosen, judged = choose_posterior(nested, posterior(), other[:n], noise[:n], 0.05, ENGINE)
        assert (chosen.neighbours > 0) == clear
        np.testing.assert_array_equal(judged.errors, noise if clear else (noise + other)[:n])


def test_two_views_that_differ_in_a_gap_are_told():
    x = np.sort(np.random.default_rng(12).uniform(0, 10, 3_000))
    x = x[(x < 4) | (x > 6)]
    y = np.sin(2 * x) + 0.3 * x + 0.15 * np.random.default_rng(0).standard_normal(len(x))
    fixed = {"optimizer": None, "noise": 0.02, "approximation": "neighbours", "random_state": 0}
    with pytest.warns(gm.AccuracyWarning, match=r"more than 3 deviations at \d+% of 400 points .* set"):
        gm.GaussianProcessRegressor(2.0 * gm.Gaussian(3.25), **fixed).fit(x[:, None], y)
    gm.GaussianProcessRegressor(2.0 * gm.Gaussian(1.2), **fixed).fit(x[:, None], y)  # no warning


def test_reasons_say_what_was_chosen():
    assert Chosen(True, 0, {}).reason == "the mean solved from all rows"
    both = Chosen(True, 64, {"exact mean": 0.5}).reason
    assert both == (
        "the mean solved from all rows, the deviation from the nearest 64 rows "
        "(held-out loss: exact mean 0.500)"
    )
    assert Chosen(False, 0, {}).reason.startswith("mean and deviation by the multi-resolution")


@pytest.fixture(scope="module")
def model():
    return gm.GaussianProcessRegressor(
        KERNELS["features"], noise=0.02, optimizer=None, approximation="neighbours", random_state=0
    ).fit(X, Y)


def test_an_estimator_of_neighbours_answers_everything(model, tmp_path):
    assert "mean and deviation from the nearest" in model.plan_.reason
    near = model.posterior_.near
    mean, variance = near.moments(NEW, ENGINE)
    found, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, mean * Y.std(axis=0) + Y.mean(axis=0))
    np.testing.assert_allclose(std, np.sqrt(variance - 0.02)[:, None] * Y.std(axis=0), rtol=1e-5)
    covariance = model.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance[:, :, 0])), std[:, 0], rtol=1e-5)
    assert la.eigvalsh(covariance[:, :, 1]).min() > -1e-8
    noisy = model.predict(NEW, return_std=True, include_noise=True)[1]
    spread = model.calibration_.spread
    np.testing.assert_allclose(noisy, np.sqrt(variance)[:, None] * Y.std(axis=0) * spread, rtol=1e-5)
    draws = model.sample_y(NEW[:4], 4_000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=2), found[:4], atol=0.1 * std[:4].max())
    paths = model.sample_paths(2_000, random_state=1)(NEW[:4])
    np.testing.assert_allclose(paths.mean(axis=2), found[:4], atol=0.1 * std[:4].max())
    np.testing.assert_allclose(paths.std(axis=2), std[:4], rtol=0.12)
    gm.save(model, tmp_path / "process.gramian")
    for kept in (gm.load(tmp_path / "process.gramian"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(kept.predict(NEW), found)
        np.testing.assert_array_equal(kept.predict_interval(NEW), model.predict_interval(NEW))


def test_quantiles_are_those_of_left_out_errors(model):
    ends = model.predict_quantiles(NEW, (0.1, 0.5, 0.9))
    assert ends.shape == (30, 2, 3)
    assert (np.diff(ends, axis=2) >= 0).all()
    np.testing.assert_array_equal(model.predict_quantiles(NEW, 0.5), ends[:, :, 1])
    scores = np.sort(model.calibration_.scores, axis=0)
    mean, std = model.predict(NEW), model.predict(NEW, return_std=True, include_noise=True)[1]
    raw = std / model.calibration_.spread
    for at, wanted in enumerate((0.1, 0.5, 0.9)):
        own = np.quantile(scores, wanted, axis=0, method="weibull")
        np.testing.assert_allclose(ends[:, :, at], mean + raw * own)
    with pytest.raises(gm.InputError, match=r"quantiles=1\.5 must be a number between 0 and 1"):
        model.predict_quantiles(NEW, 1.5)


def test_neighbours_are_refused_where_they_cannot_be():
    def function(A, B):
        return np.exp(-np.abs(A[:, :1] - B[:, 0]))

    with pytest.raises(gm.InputError, match="approximation='neighbours' needs a kernel with lengthscales"):
        gm.GaussianProcessRegressor(function, approximation="neighbours").fit(X, Y)
    hyper = Hyperparameters(KERNELS["features"], 0.1)
    needed = neighbour_bytes(20_000, 300, 1, 1)
    with pytest.raises(gm.BudgetError, match=r"too small for approximation='neighbours'.*20000 dense rows"):
        takes_neighbours("neighbours", 20_000, hyper, needed, 100_000_000)
    assert not takes_neighbours("auto", 20_000, hyper, needed, 100_000_000)
    assert takes_neighbours("auto", 20_000, hyper, needed, 1_000_000_000)
    with pytest.raises(gm.InputError, match="calibration='yes' is unknown"):
        gm.GaussianProcessRegressor(calibration="yes").fit(X, Y)


def test_sparse_rows_have_neighbours_too():
    sparse = sp.csr_array(X)
    options = {"noise": 0.02, "optimizer": None, "approximation": "neighbours", "random_state": 0}
    found = gm.GaussianProcessRegressor(KERNELS["features"], **options).fit(sparse, Y)
    dense = gm.GaussianProcessRegressor(KERNELS["features"], **options).fit(X, Y)
    np.testing.assert_allclose(found.predict(sparse[:20]), dense.predict(X[:20]), rtol=1e-6)


def test_contractions_of_stacks_are_those_of_each_set():
    points = RNG.random((4, 6, 3)) * SCALE + 5.0
    weights = RNG.standard_normal((4, 6, 6))
    weights += weights.transpose(0, 2, 1)
    for kernel in KERNELS.values():
        expected = sum(contract(kernel, x, x, w) for x, w in zip(points, weights, strict=True))
        np.testing.assert_allclose(
            stacked_contraction(kernel, points, weights), expected, rtol=1e-8, atol=1e-9
        )


@pytest.mark.parametrize("name", KERNELS)
def test_the_density_of_rows_given_their_neighbours_and_its_gradient(name, monkeypatch):
    monkeypatch.setattr(composite, "CONDITIONAL_ROWS", 40)
    monkeypatch.setattr(composite, "CONDITIONAL_NEIGHBOURS", 9)
    hyper = Hyperparameters(KERNELS[name], 0.05)
    theta = hyper.theta
    prior = Prior(theta - 0.3, np.full(len(theta), 1.5))
    sample = CompositeBlock(X[50:90], Y[50:90])
    near = conditional_rows(labelled(X, Y), hyper, ENGINE, np.random.default_rng(1))
    made = Composite([sample], hyper, prior, ENGINE, near)
    assert (made.n_rows, near.rows.shape) == (40, (40, 10, 3))
    total = -0.5 * len(theta) * (0.3 / 1.5) ** 2 + whole_density(hyper, sample)
    for rows, targets in zip(near.rows, near.targets, strict=True):
        m, v = expected(hyper.kernel, 0.05, rows[:-1], targets[:-1], rows[-1])
        total += norm.logpdf(targets[-1], m, np.sqrt(v)).sum()
        number = np.argmin(np.square(X - rows[-1]).sum(axis=1))
        np.testing.assert_allclose(targets[-1], Y[number])
        away = np.square((X - rows[-1]) / (SCALE if name == "features" else 1.0)).sum(axis=1)
        others = np.sort(X[np.argsort(away)[1:10]], axis=0)
        np.testing.assert_allclose(np.sort(rows[:-1], axis=0), others)
    value, slope = made.loss(theta)
    assert value == pytest.approx(-total, rel=1e-9)
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        change = (made.loss(theta + step)[0] - made.loss(theta - step)[0]) / 2e-5
        assert slope[i] == pytest.approx(change, rel=1e-5, abs=1e-5)
    assert made.loss(np.append(theta[:-1], np.nan))[0] >= 1e20


def test_gradients_are_those_of_the_multi_resolution_mean_and_shares_of_rows_are_refused(model):
    found = average_gradient_outer_product(model, NEW, form="diagonal", n_rows=30)
    smooth = replace(model.posterior_, near=None)
    step = 1e-5 * SCALE
    moves = [smooth(NEW + s, ENGINE) - smooth(NEW - s, ENGINE) for s in np.diag(step)]
    slopes = np.stack(moves) * Y.std(axis=0) / (2 * step)[:, None, None]
    np.testing.assert_allclose(found, np.square(slopes).sum(axis=2).mean(axis=1), rtol=1e-4)
    with pytest.raises(gm.InputError, match="predicts each row from its nearest rows"):
        machines_of(model)


def test_nan_from_a_user_s_kernel_names_the_pair():
    def broken(A, B):
        K = np.exp(-np.square(A[:, None] - B).sum(axis=2))
        return np.where(K < 0.5, np.nan, K)

    with pytest.raises(gm.InputError, match=r"the kernel function returned NaN, first for row \d+ and point"):
        gm.GaussianProcessRegressor(broken).fit(X, Y)


@pytest.mark.filterwarnings("ignore:the learned kernel explains nothing")
@pytest.mark.parametrize(
    ("rows", "target"),
    [
        (X[:1], Y[:1, 0]),
        (X[:40], Y[:40, 0]),
        (X[:100], np.full(100, 3.0)),
        (np.c_[X[:100], np.full(100, 7.0)], Y[:100, 0]),
        (RNG.standard_normal((70, 90)), RNG.standard_normal(70)),
        (np.repeat(X[:40], 3, axis=0), RNG.standard_normal(120)),
    ],
    ids=["a row", "fewer rows than neighbours", "one value", "constant feature", "wide", "repeated rows"],
)
def test_awkward_rows_have_neighbours(rows, target):
    model = gm.GaussianProcessRegressor(approximation="neighbours", random_state=0, n_jobs=1)
    mean, std = model.fit(rows, target).predict(rows, return_std=True, include_noise=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert (model.posterior_.near is None) == (len(rows) <= 64)
    assert np.sqrt(np.mean(np.square(mean - target))) <= 1.05 * target.std() + 1e-6
