"""Kernels of scikit-learn's Gaussian processes, given to the estimators here."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

import gramian as gm
from gramian.estimator.sklearn_kernels import translated, without_noise
from gramian.exceptions import AccuracyWarning, InputError

X = np.random.default_rng(0).uniform(0, 5, (60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(2.0),
        RBF([1.0, 3.0]),
        Matern(2.0, nu=0.5),
        Matern([2.0, 1.0], nu=1.5),
        Matern(2.0, nu=2.5),
        Matern(2.0, nu=np.inf),
        RationalQuadratic(2.0, alpha=0.5),
        DotProduct(1.5),
        DotProduct(0.5) ** 2,
        2.0 * RBF(2.0),
        RBF(2.0) * 3.0 + DotProduct(1.0),
        ConstantKernel(0.5) * (RBF(2.0) + Matern(1.0)) * RationalQuadratic(1.0),
        RBF(2.0) ** 3 + ConstantKernel(1.5),
        PairwiseKernel(gamma=0.3, metric="laplacian") + PairwiseKernel(metric="cosine"),
    ],
    ids=str,
)
def test_translated_kernels_have_the_same_values(kernel):
    np.testing.assert_allclose(translated(kernel, 2)(X), kernel(X), rtol=1e-8, atol=1e-10)
    ours = gm.KernelRidge(kernel=kernel, tile_dtype="float64").fit(X, Y)
    np.testing.assert_allclose(
        ours.predict(X),
        gm.KernelRidge(kernel=translated(kernel, 2), tile_dtype="float64").fit(X, Y).predict(X),
    )


def test_a_periodic_kernel_of_one_feature_is_translated():
    kernel, x = ExpSineSquared(1.3, 2.5) * RBF(9.0), X[:, :1]
    np.testing.assert_allclose(translated(kernel, 1)(x), kernel(x), rtol=1e-8, atol=1e-10)


class Own(RBF):
    """A user's own kernel."""


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (ExpSineSquared(), "of 2 features is a function of ‖x − z‖, and not positive"),
        (PairwiseKernel(metric="sigmoid"), "not positive semi-definite"),
        (Own(), "no counterpart here. Use a kernel of gramian.kernels such as"),
        (RBF() ** 2.5, "no counterpart here"),
        (Matern(nu=0.7), "Give 0.5, 1.5 or 2.5"),
        (RBF() * WhiteKernel(), "noise and no function of the rows"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [gm.KernelRidge, gm.GaussianProcessRegressor])
def test_kernels_without_a_counterpart_are_refused(kind, kernel: Kernel, words: str):
    with pytest.raises(InputError, match=words):
        kind(kernel=kernel).fit(X, Y)


def test_white_noise_is_the_noise_of_a_process_and_refused_elsewhere():
    kernel = 2.0 * RBF(1.5) + WhiteKernel(0.2) + 0.5 * WhiteKernel(0.2)
    assert without_noise(kernel) == (2.0 * RBF(1.5), pytest.approx(0.3))
    fixed = gm.GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y)
    assert (fixed.kernel_, fixed.noise_) == (2.0 * gm.Gaussian(1.5), pytest.approx(0.3))
    learned = gm.GaussianProcessRegressor(RBF() + WhiteKernel(0.1), random_state=0).fit(X, Y)
    assert isinstance(learned.kernel_, gm.Gaussian)
    assert learned.kernel_ != gm.Gaussian(1.0)
    assert learned.noise_ < 0.1
    with pytest.raises(InputError, match="Leave one of them out"):
        gm.GaussianProcessRegressor(kernel, noise=0.7).fit(X, Y)
    with pytest.raises(InputError, match="is noise alone"):
        gm.GaussianProcessRegressor(WhiteKernel(0.2)).fit(X, Y)
    with pytest.raises(InputError, match="other estimators have alpha"):
        gm.KernelRidge(kernel=kernel).fit(X, Y)
    with pytest.raises(InputError, match=r"length_scale of kernel=.* is 'fixed'.*optimizer=None"):
        gm.GaussianProcessRegressor(RBF(1.0, "fixed")).fit(X, Y)
    gm.GaussianProcessRegressor(RBF(1.0, "fixed"), optimizer=None).fit(X, Y)
    with pytest.raises(InputError, match="a Kernel instance carries its lengthscale"):
        gm.KernelRidge(kernel=RBF(), gamma=1.0).fit(X, Y)


def test_a_process_that_explains_nothing_says_so():
    noise = np.random.default_rng(2).standard_normal(60)
    with pytest.warns(AccuracyWarning, match=r"explains nothing.*raise n_restarts_optimizer=2"):
        gm.GaussianProcessRegressor(random_state=0).fit(X, noise)
    wave, grid = np.sin(3.0 * np.linspace(0, 5, 25)), np.linspace(0, 5, 25)[:, None]
    with pytest.warns(AccuracyWarning, match="explains nothing of the targets"):  # all noise
        gm.GaussianProcessRegressor(1.0 * gm.Gaussian(50.0), n_restarts_optimizer=0).fit(grid, wave)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.GaussianProcessRegressor(random_state=0).fit(grid, wave)
