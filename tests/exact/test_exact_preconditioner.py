"""Blocks of nearby rows, and preconditioners of a root and blocks, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gramian as gm
from gramian.engine import Engine
from gramian.exact.blocks import LARGEST, balanced_blocks
from gramian.exact.preconditioner import RootAndBlocks
from gramian.kernels.precomputed import Precomputed, StoredMatrix
from gramian.landmarks.picking import rpcholesky_factor


def rows(n, d=3, seed=0):
    return np.random.default_rng(seed).random((n, d))


def blocks_of(X, size, kernel=None):
    return balanced_blocks(X, kernel or gm.Gaussian(0.5), size, np.random.default_rng(0), Engine(1))


class TestBlocks:
    @pytest.mark.slow
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 700), st.integers(1, 300), st.integers(0, 3))
    def test_a_permutation_in_parts_that_are_small_enough(self, n, size, repeats):
        X = np.repeat(rows(n), repeats + 1, axis=0)
        found = blocks_of(X, size)
        np.testing.assert_array_equal(np.sort(found.order), np.arange(len(X)))
        lengths = np.diff(found.edges)
        assert found.edges[0] == 0
        assert found.edges[-1] == len(X)
        assert lengths.min() > 0
        assert found.largest == lengths.max() <= max(1, LARGEST * size)

    def test_rows_of_a_block_are_near_each_other(self):
        X = rows(4000, d=2)
        found = blocks_of(X, 250)
        spread = [X[found.order[part]].var(axis=0).sum() for part in found.slices]
        assert np.mean(spread) < 0.15 * X.var(axis=0).sum()

    def test_one_dense_cluster_is_cut_along_its_length(self):
        rng = np.random.default_rng(0)
        line = np.column_stack([np.linspace(0, 10, 900), 0.01 * rng.random(900)])
        X = np.concatenate([line, [[1e3, 0.0], [-1e3, 0.0]]])
        found = blocks_of(X, 100)
        widths = [np.ptp(X[found.order[part]][:, 0]) for part in found.slices]
        assert np.median(widths) < 2.0

    def test_sparse_rows_and_a_precomputed_kernel(self):
        X = rows(300)
        sparse = blocks_of(sp.csr_array(X), 60)
        assert sparse.largest <= 75
        kernel = Precomputed(StoredMatrix(gm.Gaussian(0.3)(X), symmetric=True))
        stored = blocks_of(np.arange(300.0)[:, None], 60, kernel)
        assert stored.largest <= 75
        spread = [X[stored.order[part]].var(axis=0).sum() for part in stored.slices]
        assert np.mean(spread) < 0.6 * X.var(axis=0).sum()


def parts(n, rank, size, kernel, shift, jobs=1):
    X = rows(n)
    found = blocks_of(X, size, kernel) if size else None
    X = X if found is None else X[found.order]
    factor = np.zeros((0, n))
    if rank:
        factor = rpcholesky_factor(kernel, X, rank, np.random.default_rng(0), n_jobs=1).factor
    dense = factor.T @ factor + np.diag(shift)
    if found is not None:
        for part in found.slices:
            dense[part, part] = kernel(X[part]) + np.diag(shift[part])
    slices = [] if found is None else found.slices
    made = RootAndBlocks(kernel, X, shift, factor.copy(), slices, Engine(jobs))
    return made, dense, X


@pytest.mark.parametrize(("rank", "size"), [(0, 50), (20, 0), (20, 50), (60, 400), (0, 0)])
@pytest.mark.parametrize("jobs", [1, 3])
def test_inverse_and_determinant_are_those_of_the_dense_matrix(rank, size, jobs):
    shift = np.random.default_rng(1).uniform(0.01, 0.1, 300)
    made, dense, _ = parts(300, rank, size, gm.Gaussian(0.4), shift, jobs)
    V = np.random.default_rng(2).standard_normal((300, 3))
    np.testing.assert_allclose(made(V), la.solve(dense, V, assume_a="pos"), rtol=1e-6, atol=1e-6)
    assert made.logdet == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-9)
    assert made.jitter == 0.0


def test_whole_blocks_are_the_matrix_itself():
    shift = np.full(300, 1e-3)
    made, dense, X = parts(300, 40, 300, gm.Gaussian(0.4), shift)
    np.testing.assert_allclose(dense, gm.Gaussian(0.4)(X) + np.diag(shift), atol=1e-12)
    V = np.random.default_rng(2).standard_normal((300, 2))
    np.testing.assert_allclose(dense @ made(V), V, atol=1e-7)
    assert made.evaluations == 300 * 300


def test_bytes_are_those_of_the_parts():
    made, _, _ = parts(400, 20, 100, gm.Gaussian(0.4), np.full(400, 0.1))
    assert 8 * 400 * (20 + 60) <= made.nbytes <= 8 * (400 * (20 + 125) + 400)


def test_a_singular_block_takes_jitter_without_a_warning():
    kernel, shift = gm.Gaussian(0.5), np.full(40, 1e-17)
    made = RootAndBlocks(
        kernel, np.repeat(rows(10), 4, axis=0), shift, np.zeros((0, 40)), [slice(0, 40)], Engine(1)
    )
    assert made.jitter > 0
    V = np.random.default_rng(0).standard_normal((40, 4))
    assert (np.einsum("ij,ij->j", V, made(V)) > 0).all()
