"""Kernels of a user's function: evaluated like any other, and refused where the function is no kernel."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gramian as gm
from gramian.exceptions import InputError, NumericalWarning
from gramian.kernels import FunctionKernel


def gaussian_function(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(-0.1 * cdist(X, Z, "sqeuclidean"))


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((40, 3))


@pytest.fixture
def Z() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((7, 3))


class TestFunctionKernel:
    def test_is_a_kernel_like_any_other(self, X: np.ndarray, Z: np.ndarray) -> None:
        kernel = FunctionKernel(gaussian_function)
        np.testing.assert_allclose(kernel(X, Z), gaussian_function(X, Z))
        np.testing.assert_allclose(kernel.matvec(X, Z, np.ones(len(Z))), gaussian_function(X, Z).sum(axis=1))
        assert kernel(X.astype("f4")).dtype == np.float32
        both = kernel + gm.Linear()
        np.testing.assert_allclose(both(X, Z), gaussian_function(X, Z) + X @ Z.T)
        assert pickle.loads(pickle.dumps(kernel)) == kernel

    def test_diagonal_takes_small_blocks(self) -> None:
        shapes = []

        def f(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
            shapes.append((len(X), len(Z)))
            return X @ Z.T

        X = np.random.default_rng(0).standard_normal((150, 3))
        np.testing.assert_allclose(FunctionKernel(f).diagonal(X), (X**2).sum(axis=1))
        assert shapes == [(64, 64), (64, 64), (22, 22)]

    @pytest.mark.parametrize(
        ("result", "text"),
        [
            (
                lambda X, Z: np.ones(len(X)),
                r"returned shape \(4,\) and dtype float64 for 4 rows and 3 points",
            ),
            (
                lambda X, Z: np.ones((len(X), len(Z)), complex),
                r"dtype complex128 .* shape \(4, 3\)\. Return an array",
            ),
            (lambda X, Z: np.full((len(X), len(Z)), "a"), "expected real numbers"),
        ],
    )
    def test_bad_answers_are_refused(self, result: Callable, text: str) -> None:
        with pytest.raises(InputError, match=text):
            FunctionKernel(result)(np.ones((4, 2)), np.ones((3, 2)))

    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (
                lambda A, B: np.exp(-(((A[:, None] - B[None] - 0.5) ** 2).sum(axis=2))),
                r"is not symmetric: k\(x, z\) is .* and k\(z, x\) is .*\. Return \(f\(X, Z\) \+ f\(Z, X\)",
            ),
            (cdist, r"gives 0 for k\(x, x\), beside values of size .*: it is no kernel.*gamma"),
            (lambda A, B: -A @ B.T, r"gives -.* for k\(x, x\)"),
        ],
    )
    @pytest.mark.parametrize("approximation", ["auto", "exact", gm.Nystrom(rank=10)])
    def test_what_is_no_kernel_is_refused(
        self, function: Callable, text: str, approximation: object, X: np.ndarray
    ) -> None:
        y = X[:, 0]
        with pytest.raises(InputError, match=text):
            gm.KernelRidge(kernel=function, approximation=approximation).fit(X, y)
        with pytest.raises(InputError, match=text):
            gm.KernelRidge(kernel=gm.Linear() * 1e-9 + FunctionKernel(function)).fit(X, y)

    def test_an_indefinite_function_warns_with_the_amount(self, X: np.ndarray) -> None:
        indefinite = FunctionKernel(lambda A, B: np.tanh(5.0 * (A @ B.T) + 1.0))
        assert np.linalg.eigvalsh(indefinite(X)).min() < -0.1
        for kernel in (indefinite, 2.0 * indefinite, indefinite * gm.Gaussian(9.0)):
            assert not kernel.definite
            with pytest.warns(NumericalWarning, match="negative eigenvalues with sum -.* were clipped"):
                gm.KernelRidge(kernel=kernel).fit(X, X[:, 0])
        assert (gm.Gaussian() + 2.0 * gm.Linear()).definite

    def test_needs_a_function(self) -> None:
        with pytest.raises(InputError, match=r"function=3 is not callable. Give f\(X, Z\)"):
            FunctionKernel(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "params", "text"),
    [
        (lambda A, B, g: g * A @ B.T, None, "cannot be called as f.*'g'.*other arguments in kernel_params"),
        (lambda A, B: A @ B.T, {"g": 1.0}, "cannot be called as f.*'g'"),
        (lambda A: A, None, "cannot be called as f.*two blocks of rows"),
    ],
)
def test_functions_of_other_arguments_are_refused(
    function: Callable, params: dict | None, text: str, X: np.ndarray
) -> None:
    with pytest.raises(InputError, match=text):
        gm.KernelRidge(kernel=function, kernel_params=params).fit(X, X[:, 0])


def truncated(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return max(0, 1 − r²/9), which is no kernel of two features or more."""
    return np.maximum(0.0, 1.0 - cdist(A, B, "sqeuclidean") / 9.0)


@pytest.mark.parametrize("given", [truncated, "precomputed"])
def test_methods_without_landmarks_warn_too(given: object, X: np.ndarray) -> None:
    rows = truncated(X, X) if given == "precomputed" else X
    assert np.linalg.eigvalsh(truncated(X, X)).min() < -0.1
    with pytest.warns(NumericalWarning, match="centred matrix of 40 rows is indefinite.*were clipped"):
        gm.KernelPCA(2, kernel=given).fit(rows)
    with pytest.warns(NumericalWarning, match="the kernel is indefinite: on 40 rows.*several optima"):
        gm.DCSVC(kernel=given).fit(rows, X[:, 0] > 0.0)


def test_an_indefinite_function_whose_landmarks_look_definite_is_told():
    # Two landmarks have a definite matrix; that of more rows has large negative eigenvalues.
    def squared_distance_complement(A, B):
        return 1.0 - 0.5 * np.square(A[:, None] - B[None]).sum(axis=2) ** 1.5

    X = np.random.default_rng(0).standard_normal((300, 2)) * 0.5
    model = gm.KernelRidge(
        kernel=squared_distance_complement, approximation=gm.Nystrom(rank=2), random_state=0
    )
    with pytest.warns(NumericalWarning, match=r"kernel is indefinite: on 256 rows .* landmarks show none"):
        model.fit(X, X[:, 0])
