"""The exact K as an operator, against the dense matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import cg

import gramian as gm
from gramian.exceptions import InputError
from gramian.operators import BasisLevel, BlockOperator, CoupledCore
from gramian.operators import base as base_module
from gramian.operators.kernel import COLUMNS, KernelOperator, triangle_bytes

KERNELS = [
    gm.Gaussian(0.7),
    gm.Matern((0.5, 1.0, 2.0), nu=1.5),
    gm.Laplacian(0.5),
    gm.Polynomial(degree=2),
    2.0 * gm.Gaussian(0.3) + gm.Linear(),
]


def rows(n, d=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).random((n, d)).astype(dtype)


class TestProducts:
    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    @pytest.mark.parametrize("n", [1, 7, COLUMNS, 2 * COLUMNS + 300])
    @pytest.mark.parametrize("p", [1, 2, 6])
    def test_symmetric_equals_dense(self, kernel, n, p):
        X, V = rows(n), np.random.default_rng(1).standard_normal((n, p))
        np.testing.assert_allclose(KernelOperator(kernel, X, n_jobs=2) @ V, kernel(X) @ V, rtol=0, atol=1e-6)

    @settings(max_examples=20, deadline=None)
    @given(st.integers(1, 2500), st.integers(1, 1500), st.integers(0, 5))
    def test_rectangular_equals_dense(self, n, m, p):
        X, Z = rows(n), rows(m, seed=2)
        V = np.random.default_rng(1).standard_normal((m, p))
        K = KernelOperator(gm.Gaussian(0.5), X, Z, n_jobs=1)
        np.testing.assert_allclose(K @ V, gm.Gaussian(0.5)(X, Z) @ V, rtol=0, atol=1e-8)
        W = np.random.default_rng(3).standard_normal(n)
        np.testing.assert_allclose(K.T @ W, gm.Gaussian(0.5)(Z, X) @ W, rtol=0, atol=1e-8)
        np.testing.assert_allclose(W @ K, K.T @ W, rtol=0, atol=1e-10)

    def test_vector_and_matrix_agree(self):
        X, v = rows(1500), np.random.default_rng(1).standard_normal(1500)
        K = KernelOperator(gm.Gaussian(0.5), X)
        assert (K @ v).shape == (1500,)
        np.testing.assert_allclose(K @ v, (K @ v[:, None])[:, 0], rtol=0, atol=1e-10)

    @pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
    def test_float32_tiles_of_any_scale(self, scale):
        X = rows(1300, dtype=np.float32)
        V = np.random.default_rng(1).standard_normal((1300, 3)) * [1.0, scale, 0.0]
        truth = gm.Gaussian(0.5)(X.astype(np.float64)) @ V
        K = KernelOperator(gm.Gaussian(0.5), X)
        assert K.tile_dtype == np.float32
        error = np.linalg.norm(K @ V - truth, axis=0)
        assert (error <= 1e-5 * np.linalg.norm(V, axis=0)).all()
        exact = K.with_dtype("float64")
        np.testing.assert_allclose(exact @ V, truth, rtol=0, atol=1e-9 * max(1.0, scale))

    def test_sparse_rows(self):
        X = sp.random_array((1400, 40), density=0.1, rng=np.random.default_rng(0), format="csr")
        V = np.random.default_rng(1).standard_normal((1400, 2))
        K = KernelOperator(gm.Gaussian(1.0), X)
        np.testing.assert_allclose(K @ V, gm.Gaussian(1.0)(X.toarray()) @ V, atol=1e-9)

    def test_result_does_not_depend_on_threads(self):
        X, V = rows(5000, dtype=np.float32), np.random.default_rng(1).standard_normal((5000, 2))
        one, two = (KernelOperator(gm.Gaussian(0.5), X, n_jobs=jobs) @ V for jobs in (1, 3))
        np.testing.assert_array_equal(one, two)

    def test_repeated_rows_meet_the_exact_diagonal(self):
        X = np.repeat(rows(3), 4, axis=0)
        K = KernelOperator(gm.Gaussian(1e-9), X)
        np.testing.assert_array_equal(K @ np.ones(12), np.full(12, 4.0))


class TestCost:
    def test_half_of_the_kernel_is_computed(self):
        n = 12 * COLUMNS
        K = KernelOperator(gm.Gaussian(0.5), rows(n, dtype=np.float32))
        K @ np.ones(n)
        assert K.evaluations <= 0.55 * n * n
        R = KernelOperator(gm.Gaussian(0.5), K.rows, rows(100))
        R @ np.ones(100)
        assert R.evaluations == 100 * n

    def test_nothing_grows_with_the_square(self):
        X, v = rows(12_000, dtype=np.float32), np.ones(12_000)
        K = KernelOperator(gm.Gaussian(0.5), X, n_jobs=2)
        tracemalloc.start()
        K @ v
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 12_000_000


class TestWords:
    def test_entries_diagonal_and_dense(self):
        X = rows(50)
        K, truth = KernelOperator(gm.Matern(0.5), X), gm.Matern(0.5)(X)
        np.testing.assert_allclose(K.to_dense(), truth)
        np.testing.assert_allclose(
            K.entries(np.array([3, 5]), np.array([5, 3, 3])), truth[[3, 5]][:, [5, 3, 3]]
        )
        np.testing.assert_allclose(K.diagonal(), truth.diagonal())
        assert K.T is K
        assert K.dtype == np.float64
        assert K.nbytes == 0

    def test_scipy_solves_with_it(self):
        X, y = rows(400), np.random.default_rng(1).standard_normal(400)
        K = KernelOperator(gm.Gaussian(0.3), X)
        shifted = K.as_scipy() + 1.0 * KernelOperator(gm.Gaussian(1e-12), X).as_scipy()
        found, info = cg(shifted, y, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(found, np.linalg.solve(gm.Gaussian(0.3)(X) + np.eye(400), y), atol=1e-8)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: KernelOperator(gm.Gaussian(), rows(5), rows(5, d=2)), "3 features, columns has 2"),
            (lambda: KernelOperator(gm.Gaussian(), np.ones(5)), "two-dimensional"),
            (lambda: KernelOperator(gm.Gaussian(), rows(5), dtype="int32"), "not a tile type"),
            (lambda: KernelOperator(gm.Gaussian(), rows(5)) @ np.ones(4), r"shape \(4,\)"),
            (lambda: KernelOperator(gm.Gaussian(), rows(5), rows(2)).diagonal(), "has no diagonal"),
        ],
    )
    def test_bad_input(self, make, message):
        with pytest.raises(InputError, match=message):
            make()


class TestKeptTiles:
    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", [gm.Gaussian(0.7), gm.Laplacian(0.5)], ids=repr)
    @pytest.mark.parametrize("n", [1, COLUMNS, 2 * COLUMNS + 300, 12 * COLUMNS + 700])
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_later_products_read_them(self, kernel, n, jobs):
        X, V = rows(n, dtype=np.float32), np.random.default_rng(1).standard_normal((n, 2))
        size = triangle_bytes(n, np.float32)
        kept = KernelOperator(kernel, X, n_jobs=jobs, keep_bytes=size)
        computed = KernelOperator(kernel, X, n_jobs=jobs, keep_bytes=size - 1)
        assert kept.nbytes == computed.nbytes == 0
        for k in (1, 2):
            np.testing.assert_array_equal(kept @ V, computed @ V)
            assert computed.evaluations == k * kept.evaluations
            assert (kept.nbytes, computed.nbytes) == (size, 0)
        assert 4 * kept.evaluations == size
        np.testing.assert_array_equal(kept @ V[::-1], computed @ V[::-1])

    def test_rectangles_are_not_kept(self):
        K = KernelOperator(gm.Gaussian(0.5), rows(50), rows(40, seed=1), keep_bytes=1 << 30)
        K @ np.ones(40)
        assert K.nbytes == 0
        K @ np.ones(40)
        assert K.evaluations == 2 * 50 * 40


# ---- every refusal of bases and operators -----------------------------------------------------------


def two_blocks(n: int = 4) -> BasisLevel:
    return BasisLevel(n, [np.array([0, 1]), np.array([2, 3])], [np.ones((2, 1)), np.ones((2, 1))])


BAD_BASES = {
    r"rows has 1 row sets, but blocks has 2 arrays": lambda: BasisLevel(4, [[0]], [np.ones((1, 1))] * 2),
    r"rows has numbers from 0 to 4, but the operator has 4 rows": lambda: BasisLevel(
        4, [[0, 4]], [np.ones((2, 1))]
    ),
    r"Row 2 is in more than one place": lambda: BasisLevel(
        4, [[0, 2], [2]], [np.ones((2, 1)), np.ones((1, 1))]
    ),
    r"Block 0 has dtype int64, but a basis is float32 or float64": lambda: BasisLevel.whole(
        np.ones((2, 1), int)
    ),
    r"Block 0 has shape \(3, 1\), but its row set has 2 rows": lambda: BasisLevel(
        4, [[0, 1]], [np.ones((3, 1))]
    ),
}


@pytest.mark.parametrize("text", BAD_BASES)
def test_bad_bases(text):
    with pytest.raises(InputError, match=text):
        BAD_BASES[text]()


BAD_OPERATORS = {
    r"levels is empty": lambda: BlockOperator([]),
    r"different numbers of rows: \[4, 5\]": lambda: BlockOperator([two_blocks(), two_blocks(5)]),
    r"core has ranks \(2,\), but the blocks of the last level have \(1, 1\)": lambda: BlockOperator(
        [two_blocks()], CoupledCore(np.eye(2), (2,))
    ),
    r"Block 0 of level 1 has rows in 2 places of level 0 \(blocks \[0, 1\]": lambda: BlockOperator(
        [two_blocks(), BasisLevel.whole(np.ones((4, 1)))]
    ),
    r"Block 0 of level 1 has rows in 1 places of level 0 \(blocks \[-1\]": lambda: BlockOperator(
        [two_blocks(5), BasisLevel(5, [[4]], [np.ones((1, 1))])]
    ),
    r"G has shape \(3, 1\); pass shape \(4, rank\)": lambda: BlockOperator.from_parts(4, G=np.ones((3, 1))),
    r"rows and W go together": lambda: BlockOperator.from_parts(4, rows=[[0]]),
    r"levels is empty. Pass at least one": lambda: BlockOperator.from_parts(4),
    r"n_jobs=0": lambda: BlockOperator([two_blocks()], n_jobs=0),
}


@pytest.mark.parametrize("text", BAD_OPERATORS)
def test_bad_operators(text):
    with pytest.raises(InputError, match=text):
        BAD_OPERATORS[text]()


BAD_CALLS = {
    r"The right operand has shape \(3,\), but the operator is 4 × 4": lambda op: op @ np.ones(3),
    r"The right operand has shape \(4, 1, 1\)": lambda op: op @ np.ones((4, 1, 1)),
    r"The right operand has dtype complex128; pass real numbers": lambda op: op @ np.ones(4, complex),
    r"y has shape \(2, 2\), but the operator is 4 × 4": lambda op: op.solve(np.ones((2, 2)), 1.0),
    r"y has dtype <U1; pass real numbers": lambda op: op.solve(np.array(list("abcd")), 1.0),
    r"y contains NaN or infinity": lambda op: op.solve(np.array([1.0, np.nan, 0, 0]), 1.0),
    r"alpha=0 must be a positive, finite number": lambda op: op.solve(np.ones(4), 0),
    r"alpha=-1.0 must be": lambda op: op.logdet(-1.0),
    r"alpha=nan must be": lambda op: op.solve(np.ones(4), float("nan")),
    r"alpha=None must be": lambda op: op.logdet(None),
    r"rows has numbers from -1 to 2; pass numbers from 0 to 3": lambda op: op.entries([-1, 2], [0]),
    r"cols has dtype float64 and 1 dimensions": lambda op: op.entries([0], [0.5]),
    r"Block 2 does not exist: the last level has blocks 0 to 1": lambda op: op.block(2),
}


@pytest.mark.parametrize("text", BAD_CALLS)
def test_bad_calls(text):
    with pytest.raises(InputError, match=text):
        BAD_CALLS[text](BlockOperator([two_blocks()]))


def test_to_dense_is_guarded(monkeypatch):
    monkeypatch.setattr(base_module, "DENSE_LIMIT", 3)
    op = BlockOperator([two_blocks()])
    with pytest.raises(InputError, match=r"to_dense\(\) would need 128 B for 4 × 4 numbers"):
        op.to_dense()
    assert op.to_dense(force=True).shape == (4, 4)
