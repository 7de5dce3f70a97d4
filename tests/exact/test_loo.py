"""The dense leave-one-out error: against refits, its gradient against differences, its minimum."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.exact.loo import leave_one_out, refine_kernel
from gramian.exceptions import InputError
from gramian.kernels import Cosine
from gramian.kernels.gradient import log_parameters, with_log_parameters

KERNELS = {
    "gaussian": gm.Gaussian(0.8),
    "lengthscales": gm.Gaussian((0.5, 0.9, 2.0)),
    "matern": gm.Matern(0.9, nu=1.5),
    "laplacian": gm.Laplacian((1.0, 0.6, 1.5)),
    "sum": 0.5 * gm.Gaussian(0.4) + gm.Linear(1.5),
}


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    Y = np.column_stack([np.sin(6 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.standard_normal((n, 2))
    return X, Y, rng.uniform(0.3, 2.0, n)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_residuals_equal_n_refits(weighted, intercept):
    X, Y, w = table()
    kernel, alpha = gm.Gaussian(0.6), 0.05
    found = leave_one_out(kernel, X, Y, alpha, weights=w if weighted else None, intercept=intercept)
    for i in range(len(X)):
        on = np.delete(np.arange(len(X)), i)
        model = gm.KernelRidge(alpha, kernel=kernel, fit_intercept=intercept, tile_dtype="float64", n_jobs=1)
        model.fit(X[on], Y[on], sample_weight=w[on] if weighted else None)
        np.testing.assert_allclose(found.residuals[i], Y[i] - model.predict(X[i : i + 1])[0], atol=1e-7)
    weights = w if weighted else np.ones(len(X))
    assert found.loss == pytest.approx(float((weights @ found.residuals**2).sum()), rel=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_equals_differences(name, weighted, intercept):
    X, Y, w = table()
    kernel, options = KERNELS[name], {"weights": w if weighted else None, "intercept": intercept}
    theta = np.append(log_parameters(kernel), np.log(0.07))
    found = leave_one_out(kernel, X, Y, 0.07, **options)

    def loss(t):
        return leave_one_out(with_log_parameters(kernel, t[:-1]), X, Y, np.exp(t[-1]), **options).loss

    step = 1e-5
    expected = [(loss(theta + step * u) - loss(theta - step * u)) / (2 * step) for u in np.eye(len(theta))]
    gradient = np.append(found.by_kernel, found.by_alpha)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8 * found.loss)


def test_refinement_finds_which_feature_matters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    Y = np.sin(3 * X[:, :1]) + 0.05 * rng.standard_normal((200, 1))
    found = refine_kernel(gm.Gaussian((1.0,) * 4), X, Y, 0.1)
    assert found.after < 0.1 * found.before
    assert found.n_rows == 200
    scale = np.asarray(found.kernel.lengthscale)
    assert (scale[1:] > 10 * scale[0]).all()
    again = leave_one_out(found.kernel, X, Y, found.alpha)
    assert again.loss / 200 == pytest.approx(found.after, rel=1e-9)
    # At a minimum that no bound holds, alpha's derivative vanishes beside the error.
    assert abs(again.by_alpha) < 1e-2 * again.loss


def test_targets_without_error_are_left_as_they_are():
    X = table()[0]
    found = refine_kernel(gm.Gaussian(1.0), X, np.zeros((40, 1)), 0.1)
    assert found.kernel == gm.Gaussian(1.0)
    assert (found.before, found.after, found.evaluations) == (0.0, 0.0, 1)


def test_kernels_without_a_gradient_are_refused():
    X, Y, _ = table()
    with pytest.raises(InputError, match="no known gradient with respect to its parameters"):
        refine_kernel(Cosine(), X, Y, 0.1)
