"""Learning of hyperparameters: the blocks of rows, the stages, and ways to end."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import AccuracyWarning
from gramian.gp import composite
from gramian.gp.composite import Composite, CompositeBlock, Prior, neighbour_blocks
from gramian.gp.learning import block_sizes
from gramian.gp.prior import Hyperparameters

RNG = np.random.default_rng(0)
X = RNG.random((300, 3)) * np.array([1.0, 10.0, 0.1])
Y = np.c_[np.sin(6 * X[:, 0]) + X[:, 1] / 10, np.cos(X[:, 1])] + 0.1 * RNG.standard_normal((300, 2))
HYPER = Hyperparameters(1.3 * gm.Matern((0.7, 3.0, 0.2), nu=1.5), 0.05)


def blocks():
    return [
        CompositeBlock(X[:40], Y[:40]),
        CompositeBlock(X[50:130], Y[50:130]),
        CompositeBlock(X[200:215], Y[200:215]),
    ]


def test_the_likelihood_of_blocks_is_the_sum_of_normal_densities():
    theta = HYPER.theta
    prior = Prior(theta - 0.3, np.array([np.inf, 1.5, 1.5, 1.5, np.inf]))
    objective = Composite(blocks(), HYPER, prior, Engine(2))
    expected = 0.0
    for block in blocks():
        K = np.asarray(HYPER.kernel(block.rows)) + HYPER.noise * np.eye(len(block))
        expected += sum(multivariate_normal(cov=K).logpdf(y) for y in block.targets.T)
    expected -= 0.5 * 3 * (0.3 / 1.5) ** 2
    value, slope = objective.loss(theta)
    assert value == pytest.approx(-expected, rel=1e-9)
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        change = (objective.loss(theta + step)[0] - objective.loss(theta - step)[0]) / 2e-5
        assert slope[i] == pytest.approx(change, rel=1e-5, abs=1e-5)


def test_a_covariance_that_cannot_be_factorised_is_the_worst_value():
    twice = CompositeBlock(np.repeat(X[:5], 2, axis=0), np.arange(10.0)[:, None])
    objective = Composite([twice], HYPER, Prior(HYPER.theta, np.full(5, np.inf)))
    value, slope = objective.loss(np.append(HYPER.theta[:-1], np.nan))
    assert value >= 1e20
    assert not slope.any()


@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_are_the_nearest_rows_in_units_of_the_lengthscales(sparse, monkeypatch):
    monkeypatch.setattr(composite, "CHUNK_BYTES", 8 * 3 * 37)  # chunks of 37 rows
    monkeypatch.setattr(composite, "NEIGHBOURS", 20)
    rows = sp.csr_matrix(X) if sparse else X
    known = LabelledRows(as_source(rows), NumberTargets(Y, len(Y)))
    found = neighbour_blocks(known, HYPER, 4, np.random.default_rng(5))
    centers = X[np.sort(np.random.default_rng(5).choice(300, 4, replace=False))]
    scale = np.array([0.7, 3.0, 0.2])
    for block, center in zip(found, centers, strict=True):
        distance = np.square((X - center) / scale).sum(axis=1)
        expected = np.sort(np.argsort(distance)[:20])
        np.testing.assert_array_equal(block.rows, X[expected])
        np.testing.assert_array_equal(block.targets, Y[expected])


def test_learning_rows_are_a_sample_and_blocks_of_neighbours():
    assert block_sizes(300) == (300,)
    assert block_sizes(2_000) == (2_000,)
    assert block_sizes(5_000) == (1_000,) + (250,) * 16
    assert block_sizes(50_000) == (2_000,) + (250,) * 192


@pytest.mark.repeat
@pytest.mark.slow
def test_neighbours_teach_what_a_thin_sample_cannot():
    rows = RNG.random((6_000, 2))
    target = np.sin(60 * rows[:, 0]) + rows[:, 1] + 0.05 * RNG.standard_normal(6_000)
    errors = []
    for count in (500, 3_000):
        model = gm.GaussianProcessRegressor(learning_rows=count, n_restarts_optimizer=0, random_state=0)
        model.fit(rows[:5_000], target[:5_000])
        errors.append(np.sqrt(np.mean(np.square(model.predict(rows[5_000:]) - target[5_000:]))))
    assert errors[0] > 0.3  # all noise, to 500 rows
    assert errors[1] < 0.07  # the noise is 0.05
    assert [stage.n_blocks for stage in model.learning_.stages] == [1, 10, 3_000, 3_000]
    best = min(model.learning_.stages, key=lambda stage: stage.loss)
    np.testing.assert_allclose(model.theta_, best.theta, rtol=1e-12)


@pytest.mark.slow
# With one lengthscale the only feature that matters is lost among those of a larger scale.
@pytest.mark.filterwarnings("ignore:.*explains nothing of the targets:gramian.exceptions.AccuracyWarning")
def test_each_feature_gets_the_lengthscale_that_it_needs():
    rows = RNG.standard_normal((800, 6)) * 10.0 ** np.arange(-3, 3)
    target = np.sin(3 * rows[:, 0] / 1e-3) + 0.05 * RNG.standard_normal(800)
    model = gm.GaussianProcessRegressor(random_state=0).fit(rows, target)
    lengths = np.array(model.kernel_.kernel.lengthscale) / rows.std(axis=0)
    assert lengths[1:].min() > 3.0 * lengths[0]
    assert model.noise_ * target.var() == pytest.approx(0.05**2, rel=0.7)
    with pytest.warns(UserWarning, match="differ in scale"):
        one = gm.GaussianProcessRegressor(random_state=0, ard=False).fit(rows, target)
    assert isinstance(one.kernel_.kernel.lengthscale, float)
    many = gm.GaussianProcessRegressor(random_state=0).fit(RNG.random((60, 120)), np.arange(60.0))
    assert isinstance(many.kernel_.kernel.lengthscale, float)  # ard="auto" stops at 100 features


def test_an_end_at_a_bound_is_told_by_name():
    with pytest.warns(gm.AccuracyWarning, match=r"bounds of signal variance \([\d.]+\).*Widen bounds"):
        model = gm.GaussianProcessRegressor(bounds=(0.9, 1.1), random_state=0).fit(X, Y[:, 0])
    assert model.learning_.at_bounds


def test_an_interrupt_keeps_the_best_so_far():
    def interrupted(objective, start, bounds):
        objective(start)
        objective(start + 0.1)
        raise KeyboardInterrupt

    model = gm.GaussianProcessRegressor(optimizer=interrupted, random_state=0)
    with pytest.warns(gm.AccuracyWarning, match="learning was interrupted in stage 1"):
        model.fit(X, Y[:, 0])
    assert model.learning_.interrupted
    assert not model.learning_.converged
    assert np.isfinite(model.predict(X)).all()


def test_no_progress_is_told(monkeypatch):
    def wrong(self, theta):
        return 1e6 + 1e3 * np.abs(theta).sum(), -1e6 * np.ones(len(theta))  # no descent where it points

    monkeypatch.setattr(composite.Composite, "loss", wrong)
    with pytest.warns(gm.AccuracyWarning, match="learning made no progress from a gradient of 1e"):
        gm.GaussianProcessRegressor(random_state=0).fit(X, Y[:, 0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the learned kernel explains nothing")  # some targets are random
@pytest.mark.parametrize(
    ("rows", "target"),
    [
        (np.repeat(X[:100], 3, axis=0), RNG.standard_normal(300)),
        (np.c_[X, np.full(300, 7.0)], Y[:, 0]),
        (RNG.standard_normal((20, 60)), RNG.standard_normal(20)),
        (np.c_[X, X[:, 0] * 1e9 + 1e12], Y[:, 0]),
    ],
    ids=["repeated rows", "a constant feature", "more features than rows", "far from the origin"],
)
@pytest.mark.filterwarnings("ignore:200 of 300 rows repeat")
def test_awkward_rows_have_an_answer(rows, target):
    model = gm.GaussianProcessRegressor(random_state=0).fit(rows, target)
    mean, std = model.predict(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert np.sqrt(np.mean(np.square(mean - target))) < 1.05 * target.std()


def test_ard_is_checked():
    with pytest.raises(gm.InputError, match="ard='yes' must be True, False or 'auto'"):
        gm.GaussianProcessRegressor(ard="yes").fit(X, Y[:, 0])


@pytest.mark.parametrize(
    "answer",
    [lambda f, start, bounds: start, lambda f, start, bounds: (start[:1], 0.0), lambda *_: ([np.nan], 0)],
)
def test_an_optimizer_returns_theta_and_its_loss(answer):
    X = np.random.default_rng(0).random((30, 1))
    with pytest.raises(
        gm.InputError, match=r"optimizer returned .*expected θ, 3 finite.*\(theta_opt, func_min\)"
    ):
        gm.GaussianProcessRegressor(optimizer=answer).fit(X, X[:, 0])


def test_bounds_may_leave_no_room():
    X = np.random.default_rng(0).random((30, 1))
    with pytest.warns(AccuracyWarning, match="ended at the bounds"):
        model = gm.GaussianProcessRegressor(bounds=(1.0, 1.0), random_state=0).fit(X, np.sin(9.0 * X[:, 0]))
    np.testing.assert_allclose(model.theta_[[0, 2]], np.log([1.0, 0.1]))


@pytest.mark.parametrize("theta", ["a", [800.0] * 3, [-800.0] * 3, [0.0]])
def test_theta_holds_logarithms_of_positive_numbers(theta):
    X = np.random.default_rng(0).random((30, 1))
    model = gm.GaussianProcessRegressor(optimizer=None).fit(X, X[:, 0])
    with pytest.raises(gm.InputError, match="theta"):
        model.log_marginal_likelihood(theta)
