"""Noise of each row and sample weights of a Gaussian process, beside dense algebra and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor as Dense
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.gp import training
from gramian.gp.calibration import BandCheck
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
