"""Gradients of kernels by their log parameters, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import InputError
from gramian.kernels import Cauchy, Constant, Cosine, FunctionKernel, OnFeatures, Periodic, PoweredExponential
from gramian.kernels.gradient import contract, log_parameters, with_log_parameters
from gramian.kernels.precomputed import Precomputed

KERNELS = [
    gm.Gaussian(0.7),
    gm.Gaussian((0.7, 1.5, 0.3)),
    gm.Exponential(0.8),
    gm.Exponential((0.8, 0.5, 2.0)),
    gm.Matern(0.6, nu=0.5),
    gm.Matern((0.6, 1.0, 2.0), nu=1.5),
    gm.Matern(0.6, nu=2.5),
    gm.RationalQuadratic(0.9, shape=1.7),
    Cauchy((0.9, 1.0, 1.1)),
    gm.Laplacian(1.3),
    gm.Laplacian((1.3, 0.5, 0.9)),
    PoweredExponential(0.9, p=2.0, q=2.0),
    PoweredExponential((1.3, 0.5, 0.9), p=2.0, q=0.7),
    PoweredExponential((1.3, 0.5, 0.9), p=1.0, q=0.7),
    PoweredExponential(0.9, p=1.5, q=1.2),
    OnFeatures(gm.Gaussian((0.7, 1.5)), (2, 0)) * OnFeatures(2.0 * gm.Laplacian(0.9), (1,)),
    OnFeatures(gm.Linear((0.7, 1.5)), (0, 1)) + gm.Gaussian(1.0),
    Periodic(gm.Matern(0.9, nu=2.5), 0.7) * gm.Gaussian(2.0) + 0.5 * Constant(),
    Periodic(gm.Gaussian(0.9), (0.7, 1.5, 0.9)),
    gm.Linear(2.0),
    gm.Polynomial((1.0, 2.0, 3.0), degree=3, offset=0.5),
    2.5 * gm.Gaussian(0.7) + gm.Linear((1.0, 2.0, 0.5)),
    3.0 * (gm.Matern(0.6, nu=2.5) * gm.Gaussian((0.7, 1.5, 0.3))),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_equals_differences(kernel):
    rng = np.random.default_rng(0)
    X, Z, W = rng.random((70, 3)) + 5.0, rng.random((9, 3)) + 5.0, rng.standard_normal((70, 9))
    Z[:4] = X[:4]
    theta = log_parameters(kernel)
    found = contract(kernel, X, Z, W)
    assert found.shape == theta.shape
    for p in range(len(theta)):
        step = np.zeros(len(theta))
        step[p] = 1e-6
        up, down = (np.vdot(W, with_log_parameters(kernel, theta + sign * step)(X, Z)) for sign in (1, -1))
        assert found[p] == pytest.approx((up - down) / 2e-6, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_parameters_go_there_and_back(kernel):
    theta = log_parameters(kernel)
    again = with_log_parameters(kernel, theta)
    np.testing.assert_allclose(log_parameters(again), theta, rtol=1e-12)
    X = np.random.default_rng(0).random((5, 3))
    np.testing.assert_allclose(again(X), kernel(X), rtol=1e-12)
    with pytest.raises(InputError, match="too many"):
        with_log_parameters(kernel, np.append(theta, 0.0))
    with pytest.raises(InputError, match="too short"):
        with_log_parameters(kernel, theta[:-1])


@pytest.mark.parametrize(
    "kernel", [Cosine(), Precomputed(), FunctionKernel(lambda X, Z: X @ Z.T), 2.0 * Cosine()]
)
def test_kernels_without_a_gradient_say_so(kernel):
    with pytest.raises(InputError, match="has no known gradient with respect to its parameters"):
        log_parameters(kernel)
