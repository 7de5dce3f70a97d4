"""Representative columns: Algorithms 1 and 3 against greedy pivots written as loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from approximation_market import GAMMA, gram

import gramian as gm
from gramian.approximations.block_basis_sampled import BlockRow, important_rows, sample_columns
from gramian.engine import Engine
from gramian.landmarks.picking import pivot_columns

KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(7).random((300, 3))


def greedy(matrix, count):
    """The column of largest residual norm, and again of what it leaves."""
    left, chosen = matrix.astype(float).copy(), []
    for _ in range(min(count, *matrix.shape)):
        best = int(np.linalg.norm(left, axis=0).argmax())
        q = left[:, best] / np.linalg.norm(left[:, best])
        left -= np.outer(q, q @ left)
        chosen.append(best)
    return chosen


def algorithm_1(matrix, count, rounds, rng):
    """Return the columns, with the same draws in the same order."""
    rows = []
    for _ in range(rounds):
        rows = sorted({*rows, *np.sort(rng.choice(matrix.shape[0], count, replace=False))})
        drawn = np.sort(rng.choice(matrix.shape[1], count, replace=False))
        columns = sorted({*greedy(matrix[rows], count), *drawn})
        rows = greedy(matrix[:, columns].T, count)
    return columns, rows


def test_pivots_are_greedy_and_leave_out_what_lies_in_the_span():
    A = np.random.default_rng(0).standard_normal((6, 9))
    np.testing.assert_array_equal(pivot_columns(A, 4), greedy(A, 4))
    repeated = np.repeat(A[:, :3], 4, axis=1)
    assert sorted(pivot_columns(repeated, 10) // 4) == [0, 1, 2]
    assert len(pivot_columns(np.zeros((4, 5)), 3)) == 0


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_algorithm_1_equals_its_naive_form(points, rounds):
    row = BlockRow(KERNEL, points[:80], points)
    found = sample_columns(row, 12, rounds, np.random.default_rng(3))
    columns, rows = algorithm_1(gram(points[:80], points), 12, rounds, np.random.default_rng(3))
    np.testing.assert_array_equal(found.columns, columns)
    np.testing.assert_array_equal(found.rows, rows)
    assert len(found.columns) <= 24
    np.testing.assert_allclose(found.matrix, gram(points[:80], points[found.columns]), atol=1e-12)


def test_the_columns_span_nearly_what_the_best_vectors_do(points):
    M = gram(points[:80], points)
    found = sample_columns(BlockRow(KERNEL, points[:80], points), 10, 2, np.random.default_rng(0))
    Q = np.linalg.qr(M[:, found.columns])[0]
    best = np.linalg.svd(M, compute_uv=False)
    r = len(found.columns) // 2
    assert np.linalg.norm(M - Q @ (Q.T @ M)) < 1.5 * np.linalg.norm(best[r:])


def test_sparse_rows_sample_the_same_columns(points):
    dense = sample_columns(BlockRow(KERNEL, points[:80], points), 8, 2, np.random.default_rng(1))
    wide = sp.csr_array(points)
    thin = sample_columns(BlockRow(KERNEL, wide[:80], wide), 8, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(dense.columns, thin.columns)
    np.testing.assert_allclose(dense.matrix, thin.matrix, atol=1e-12)


def test_rounds_end_early_where_the_columns_stay():
    """With more columns wanted than there are, a round changes nothing."""
    row = Counted(KERNEL, np.eye(5), np.eye(5))
    Counted.calls = 0
    found = sample_columns(row, 9, 50, np.random.default_rng(0))
    np.testing.assert_array_equal(found.columns, np.arange(5))
    assert Counted.calls == 3


class Counted(BlockRow):
    calls = 0

    def entries(self, rows, columns):
        Counted.calls += 1
        return super().entries(rows, columns)


def test_important_rows_are_pivots_of_each_block(points):
    members = [np.arange(0, 120), np.arange(120, 125), np.zeros(0, np.intp), np.arange(125, 300)]
    counts = np.array([10, 10, 10, 10])

    def found(n_jobs):
        streams = [np.random.default_rng(s) for s in range(4)]
        return important_rows(KERNEL, points, members, counts, streams, Engine(n_jobs))

    one = found(1)
    np.testing.assert_array_equal(one, found(3))
    drawn = np.sort(np.random.default_rng(0).choice(300, 10, replace=False))
    expected = greedy(gram(points[:120], points[drawn]).T, 10)
    np.testing.assert_array_equal(one[one < 120], np.sort(expected))
    np.testing.assert_array_equal(one[(one >= 120) & (one < 125)], np.arange(120, 125))
    assert np.count_nonzero(one >= 125) == 10
