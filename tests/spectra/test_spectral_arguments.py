"""Arguments of the spectral functions: few rows, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import InputError
from gramian.operators import KernelOperator
from gramian.spectra import effective_dimension, leverage_scores, log_determinant, top_eigenpairs

X = np.random.default_rng(0).random((40, 2))
K = KernelOperator(gm.Gaussian(0.3), X)


@pytest.mark.parametrize("n", [1, 2, 16])
@pytest.mark.parametrize("method", ["auto", "direct", "stochastic"])
def test_few_rows_are_exact_by_every_method(n: int, method: str) -> None:
    few, alpha = KernelOperator(gm.Gaussian(0.3), X[:n]), 0.1
    inverse = np.linalg.inv(gm.Gaussian(0.3)(X[:n]) + alpha * np.eye(n))
    found = log_determinant(few, alpha, method=method, n_probes=16)
    assert found == pytest.approx(-np.linalg.slogdet(inverse)[1])
    assert found.standard_error == 0.0
    size = effective_dimension(few, alpha, method=method, n_probes=16)
    assert size == pytest.approx(n - alpha * np.trace(inverse))
    scores = leverage_scores(few, alpha, method=method, n_probes=16).values
    np.testing.assert_allclose(scores, 1.0 - alpha * np.diag(inverse))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: top_eigenpairs(K, 2.5), "count=2.5 must be a whole number of at least 1"),
        (lambda: top_eigenpairs(K, "3"), "count='3' must be a whole number"),
        (lambda: top_eigenpairs(K, 41), "41 eigenpairs of a matrix of 40 rows: ask for 1 to 40"),
        (lambda: top_eigenpairs(K, 2, max_products=0), "max_products=0 must be a whole number"),
        (lambda: top_eigenpairs(K, 2, start=np.full((40, 2), np.nan)), "start holds NaN.*finite vectors"),
        (lambda: top_eigenpairs(K, 2, start=np.ones((40, 0))), r"start has shape \(40, 0\).*\(40, q\)"),
        (lambda: top_eigenpairs(K, 2, start=np.ones((40, 1)) * 1j), "start cannot be read.*complex"),
        (lambda: top_eigenpairs(K, 2, start=[["a"]] * 40), "start cannot be read as numbers.*one column a"),
        (lambda: log_determinant(K, ["a"] * 40), "alpha cannot be read as numbers.*Give 40 positive numbers"),
        (lambda: log_determinant(KernelOperator(gm.Gaussian(), X[:0]), 0.1), "operator has no rows"),
    ],
)
def test_bad_arguments_say_what_to_do(call, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


@pytest.mark.parametrize("call", [lambda K: top_eigenpairs(K, 2), lambda K: log_determinant(K, 0.1)])
@pytest.mark.parametrize(
    ("value", "kernel", "text"),
    [
        (np.nan, gm.Gaussian(0.3), "rows hold NaN or infinity. Drop such rows"),
        (np.inf, gm.Gaussian(0.3), "rows hold NaN or infinity"),
        (1e160, gm.Gaussian(0.3), "X holds 1e.160 in row 3, column 1"),
        (1e120, gm.kernels.Polynomial(1.0), "is inf on some of the rows, beyond the range of float64. Scale"),
    ],
)
def test_rows_without_finite_kernel_values_are_refused(call, value: float, kernel, text: str) -> None:
    rows = np.random.default_rng(0).random((300, 2))
    rows[3, 1] = value
    with pytest.raises(InputError, match=text):
        call(KernelOperator(kernel, rows))


@pytest.mark.parametrize(
    "model",
    [
        gm.DCSVC(kernel="poly", random_state=0),
        gm.KernelPCA(2, kernel="poly", approximation="nystrom", random_state=0),
    ],
)
def test_a_late_row_on_which_the_kernel_overflows_is_refused(model) -> None:
    rows = np.random.default_rng(0).random((1200, 2))
    rows[1100, 1] = 1e120  # the first thousand rows decide on the type of tiles
    with pytest.raises(InputError, match="is inf on some of the rows"):
        model.fit(rows, rows[:, 0] > 0.5)
