"""Gradients of kernels by their rows and by their log parameters, against differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gramian as gm
from gramian.exceptions import InputError
from gramian.kernels import (
    Cauchy,
    Constant,
    Cosine,
    Exponential,
    FunctionKernel,
    Kernel,
    Laplacian,
    OnFeatures,
    Periodic,
    PoweredExponential,
)
from gramian.kernels.gradient import contract, log_parameters, with_log_parameters
from gramian.kernels.input_gradient import input_gradient
from gramian.kernels.precomputed import Precomputed
from gramian.metric.metric import Metric

D = 4
ELL = (0.7, 1.0, 2.0, 1.5)
POWERS = ((2, 2), (2, 1.4), (2, 0.6), (1, 0.7), (1.5, 1.2), (0.9, 0.9))
KERNELS: list[Kernel] = [
    gm.Gaussian(1.3),
    gm.Gaussian(ELL),
    gm.Laplacian(2.0),
    gm.Laplacian(ELL),
    gm.Exponential(ELL),
    gm.Matern(1.3, nu=0.5),
    gm.Matern(ELL, nu=1.5),
    gm.Matern(1.3, nu=2.5),
    gm.RationalQuadratic(ELL, shape=0.7),
    Cauchy(1.3),
    gm.Linear(ELL),
    *(PoweredExponential(ELL, p=p, q=q) for p, q in POWERS),
    OnFeatures(gm.Gaussian((1.0, 2.0)), (2, 0)) * OnFeatures(gm.Laplacian(2.0), (1,)),
    Periodic(gm.Gaussian(0.9), ELL) * gm.Laplacian(2.0) + Constant(),
    gm.Polynomial(ELL, degree=3, offset=0.5),
    gm.Polynomial(2.0, degree=1),
    Cosine(ELL),
    2.0 * gm.Gaussian(1.3) + gm.Linear(),
    gm.Laplacian(2.0) * gm.Matern(ELL, nu=2.5),
    0.5 * (Cosine() + gm.Exponential(2.0)) * gm.Polynomial(3.0, degree=2) * Cauchy(ELL),
]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def differences(kernel: Kernel, X: np.ndarray, Z: np.ndarray, kappa: np.ndarray, h: float) -> np.ndarray:
    """The obvious oracle: f on both sides of each row, feature by feature."""
    out = np.empty((*X.shape, kappa.shape[1]))
    for j in range(X.shape[1]):
        step = np.zeros(X.shape[1])
        step[j] = h
        out[:, j] = (kernel(X + step, Z) - kernel(X - step, Z)) @ kappa / (2 * h)
    return out


@kernels
def test_agrees_with_differences(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    X, Z, kappa = rng.normal(1, 1, (9, D)), rng.normal(1, 1, (12, D)), rng.standard_normal((12, 3))
    found = input_gradient(kernel, X, Z, kappa)
    assert found.shape == (9, D, 3)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, differences(kernel, X, Z, kappa, 1e-6), atol=1e-6)


@kernels
def test_tiles_sparse_rows_and_one_output_agree(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X, Z, kappa = rng.standard_normal((21, D)), rng.standard_normal((17, D)), rng.standard_normal(17)
    X[X < 0.3] = 0
    whole = input_gradient(kernel, X, Z, kappa)
    assert whole.shape == (21, D, 1)
    for name, value in (("TILE_ROWS", 4), ("TILE_POINTS", 5), ("SMALL_ROWS", 3), ("SMALL_POINTS", 2)):
        monkeypatch.setattr(f"gramian.kernels.input_gradient.{name}", value)
    np.testing.assert_allclose(input_gradient(kernel, X, Z, kappa[:, None]), whole, atol=1e-12)
    np.testing.assert_allclose(
        input_gradient(kernel, sp.csr_array(X), sp.csr_array(Z), kappa), whole, atol=1e-12
    )


@kernels
def test_offset_float32_and_read_only_rows(kernel: Kernel) -> None:
    rng = np.random.default_rng(2)
    X, Z = rng.standard_normal((5, D)).astype("f4") + 1, rng.standard_normal((7, D)).astype("f4")
    kappa = rng.standard_normal((7, 2)).astype("f4")
    for array in (X, Z, kappa):
        array.setflags(write=False)
    wide = input_gradient(kernel, X.astype(float), Z.astype(float), kappa.astype(float))
    np.testing.assert_array_equal(input_gradient(kernel, X, Z, kappa), wide)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if "Cosine" not in repr(k)], ids=repr)
def test_at_the_points_themselves(kernel: Kernel) -> None:
    """A kernel of a distance has the slope 0 at r = 0, even where the slope on either side is infinite."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((1, D))
    far = Z + 100.0 * np.ones(D)
    stationary = not any(name in repr(kernel) for name in ("Linear", "Polynomial"))
    found = input_gradient(kernel, np.vstack([Z, far]), np.vstack([Z, Z]), np.array([1.0, 0.5]))
    assert np.isfinite(found).all()
    if stationary:
        np.testing.assert_array_equal(found[0], 0.0)


def test_near_duplicates_far_from_the_origin_do_not_blow_up() -> None:
    rng = np.random.default_rng(4)
    Z = 1e4 + rng.standard_normal((30, D))
    X = np.vstack([Z[:5] + 1e-9, Z[5:10] + 1e-13])
    kappa = rng.standard_normal((30, 1))
    for kernel in (gm.Exponential(1.0), gm.Laplacian(1.0), gm.Matern(1.0, nu=0.5)):
        found = input_gradient(kernel, X, Z, kappa)
        assert np.abs(found).max() <= np.abs(kappa).sum()


def test_a_row_of_zeros_has_no_angle() -> None:
    found = input_gradient(Cosine(), np.zeros((1, 2)), np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones(2))
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.slow
@given(
    kernel=st.sampled_from([gm.Gaussian(1.0), gm.Laplacian(ELL), gm.Matern(2.0, nu=1.5), gm.Linear(2.0)]),
    factor=st.floats(0.1, 10),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_linear_in_the_coefficients_and_even_under_reflection(
    kernel: Kernel, factor: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, Z, kappa = rng.standard_normal((4, D)), rng.standard_normal((6, D)), rng.standard_normal((6, 2))
    found = input_gradient(kernel, X, Z, kappa)
    both = input_gradient(kernel, X, Z, kappa @ np.array([[factor], [1.0]]))
    np.testing.assert_allclose(both[:, :, 0], found @ np.array([factor, 1.0]), atol=1e-10)
    np.testing.assert_allclose(input_gradient(kernel, -X, -Z, kappa), -found, atol=1e-12)


ROWS = np.ones((3, 2))
ERRORS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: input_gradient(FunctionKernel(lambda X, Z: X @ Z.T), ROWS, ROWS, np.ones(3)),
        "has no known gradient with respect to its rows: it is not built from gramian's families",
    ),
    (
        lambda: input_gradient(gm.Gaussian() + Precomputed(), ROWS, ROWS, np.ones(3)),
        "no known gradient with respect to its rows",
    ),
    (
        lambda: input_gradient(gm.Gaussian(), ROWS, np.ones((3, 4)), np.ones(3)),
        r"X has shape \(3, 2\), Z \(3, 4\) and coefficients \(3,\); expected \(n, d\)",
    ),
    (lambda: input_gradient(gm.Gaussian(), ROWS, ROWS, np.ones(4)), "one row of coefficients for each point"),
    (lambda: input_gradient(gm.Gaussian((1, 2, 3)), ROWS, ROWS, np.ones(3)), "lengthscale has 3 values"),
    (lambda: input_gradient(gm.Gaussian(), ROWS[0], ROWS, np.ones(3)), r"X has shape \(2,\)"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_to_do(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


@pytest.mark.parametrize("kernel", [Laplacian(3.0), Exponential(3.0)])
def test_rows_of_another_precision_are_as_equal_as_the_points(kernel: Kernel) -> None:
    """Mapped in float64, a row is not the point that it was stored as in float32: 1e-8 away."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (200, 20)).astype(np.float32)
    for metric in (Metric(rng.uniform(0.1, 2.0, 20)), Metric(matrix=rng.standard_normal((20, 20)))):
        if metric.matrix is not None and isinstance(kernel, Laplacian):
            continue
        points, rows = metric.apply(X), metric.apply(X.astype(np.float64))
        coefficients = rng.standard_normal((200, 1))
        want = input_gradient(kernel, points, points.astype(np.float64), coefficients)
        got = input_gradient(kernel, rows, points, coefficients)
        np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())


# ---- gradients of kernels by their log parameters ---------------------------------------------------

BY_PARAMETER = [
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


@pytest.mark.parametrize("kernel", BY_PARAMETER, ids=repr)
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


@pytest.mark.parametrize("kernel", BY_PARAMETER, ids=repr)
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
