"""Factorisations without the interpreter's lock, against SciPy's, in every order of memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la

from gramian._lapack import (
    cho_solve,
    cholesky,
    inverse_of_factored,
    inverse_of_triangle,
    pivoted_cholesky,
    solve_triangular,
)

SIZES = (1, 2, 5, 64, 65, 130)
ORDERS = {
    "by rows": np.ascontiguousarray,
    "by columns": np.asfortranarray,
    "a slice by rows": lambda a: np.pad(a, 3)[3:-3, 3:-3],
    "a slice by columns": lambda a: np.pad(a.T, 3).T[3:-3, 3:-3],
    "neither": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
}


EMPTY = {
    "0 × 0": np.zeros((0, 0)),
    "a slice": np.zeros((5, 5))[2:2, 2:2],
    "a product": np.zeros((0, 3)) @ np.zeros((3, 0)),
}


def definite(m: int, dtype: type) -> np.ndarray:
    A = np.random.default_rng(m).standard_normal((m, 2 * m))
    return (A @ A.T / m + np.eye(m)).astype(dtype)


def close(found: np.ndarray, wanted: np.ndarray, dtype: type) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("order", ORDERS)
def test_cholesky_in_every_order(m, order, dtype):
    A = definite(m, dtype)
    given = ORDERS[order](A)
    found = cholesky(given)
    close(found, la.cholesky(A.astype(np.float64), lower=True), dtype)
    assert found.dtype == dtype
    assert not np.triu(found, 1).any()
    np.testing.assert_array_equal(given, A)  # nothing was written
    np.testing.assert_array_equal(cholesky(given.copy(order="K"), overwrite=True), found)


def test_cholesky_reads_the_lower_triangle_and_names_the_minor():
    A = definite(20, np.float64)
    np.testing.assert_array_equal(cholesky(np.tril(A)), cholesky(A))
    A[6, 6] = -1.0
    with pytest.raises(la.LinAlgError, match="minor of order 7 "):
        cholesky(A)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [None, 1, 3, 70])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("factor_order", ORDERS)
def test_solutions_in_every_order(factor_order, order, outputs, dtype):
    for m in SIZES:
        A = definite(m, dtype)
        lower = ORDERS[factor_order](cholesky(A))
        b = np.random.default_rng(0).standard_normal((m, outputs) if outputs else m).astype(dtype)
        right = ORDERS[order](b) if outputs else b
        for transposed in (False, True):
            wanted = la.solve_triangular(lower.astype(np.float64), b, lower=True, trans="NT"[transposed])
            close(solve_triangular(lower, right, transposed=transposed), wanted, dtype)
            np.testing.assert_array_equal(right, b)
            target = right.copy(order="K")
            found = solve_triangular(lower, target, transposed=transposed, overwrite=True)
            close(found, wanted, dtype)
            close(target, wanted, dtype)
        close(cho_solve(lower, right), np.linalg.solve(A.astype(np.float64), b), dtype)


def test_mixed_precision_is_solved_in_the_higher_one():
    A = definite(30, np.float64)
    b = np.ones((30, 2), np.float32)
    found = cho_solve(cholesky(A), b)
    assert found.dtype == np.float64
    close(A @ found, b, np.float64)


def test_nothing_to_solve():
    empty = np.zeros((0, 0))
    assert cholesky(empty).shape == (0, 0)
    assert solve_triangular(empty, np.zeros((0, 3))).shape == (0, 3)
    assert solve_triangular(np.eye(4), np.zeros((4, 0))).shape == (4, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pivots_stop_at_the_rank(dtype):
    F = np.random.default_rng(1).standard_normal((80, 12)).astype(dtype)
    A = F @ F.T
    lower, order = pivoted_cholesky(A, 1e3 * float(np.finfo(dtype).eps))
    assert lower.shape == (80, 12)
    assert sorted(order) == list(range(80))
    close(lower @ lower.T, A[np.ix_(order, order)], dtype)
    assert not np.triu(lower[:12], 1).any()


@pytest.mark.parametrize("order", ["by rows", "by columns", "neither"])
@pytest.mark.parametrize("m", SIZES)
def test_inverses(m, order):
    A = definite(m, np.float64)
    lower = cholesky(A)
    close(inverse_of_triangle(ORDERS[order](lower)) @ lower, np.eye(m), np.float64)
    close(inverse_of_factored(ORDERS[order](lower).copy(order="K")) @ A, np.eye(m), np.float64)


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_empty_matrices_print_nothing(empty, capfd):
    """LAPACK wrote "On entry to DPOTRF parameter number 4 had an illegal value" to the terminal."""
    assert cholesky(empty).shape == (0, 0)
    assert cholesky(empty.copy(), overwrite=True).shape == (0, 0)
    assert cho_solve(empty, np.zeros((0, 2))).shape == (0, 2)
    assert solve_triangular(empty, np.zeros(0)).shape == (0,)
    assert inverse_of_triangle(empty).shape == (0, 0)
    assert inverse_of_factored(empty.copy()).shape == (0, 0)
    assert pivoted_cholesky(empty, 0.0)[0].shape == (0, 0)
    assert capfd.readouterr() == ("", "")
