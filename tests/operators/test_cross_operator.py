"""Laws of the rectangular K̃, over the market of operators: both sides from one stall, and from fits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from approximation_market import GAMMA, settings, tree
from operator_market import MARKET, N, Stall, basis, dense_psd_core, rows_of

import gramian as gm
from gramian._tiles import one_blas_thread
from gramian.exceptions import InputError
from gramian.operators import BasisLevel, BlockOperator, CrossOperator

M = 50  # rows of the left side


@pytest.fixture(scope="module", autouse=True)
def _one_blas_thread():
    with one_blas_thread():
        yield


@pytest.fixture(params=MARKET, ids=lambda f: f.__name__)
def stall(request) -> Stall:
    return request.param(np.random.default_rng(7), "float64")


def made(stall: Stall, dtype: str = "float64", n_jobs: int = 1) -> tuple[CrossOperator, np.ndarray]:
    """A left side of 50 rows over the stall's blocks, and the dense oracle."""
    rng = np.random.default_rng(5)
    left = []
    for level in stall.levels:
        sizes = [int(size) for size in rng.multinomial(M, np.full(level.n_blocks, 1 / level.n_blocks))]
        left.append(basis(rng, rows_of(rng, sizes, M), level.ranks, dtype, M))
    core = np.eye(left[-1].rank) if stall.core is None else stall.core.to_dense()
    k = left[-1].to_dense() @ core @ stall.levels[-1].to_dense().T
    for a, b in zip(left[:-1], stall.levels[:-1], strict=True):
        k = k + a.to_dense() @ b.to_dense().T
    return CrossOperator(left, stall.levels, stall.core, n_jobs=n_jobs), k


def close(got, want, rel=1e-9):
    np.testing.assert_allclose(got, want, rtol=0, atol=rel * np.abs(want).max(initial=1e-300))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dense_form_products_adjoint_and_linearity(stall, dtype):
    op, k = made(stall, dtype)
    n, m = k.shape
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal((m, 3)), rng.standard_normal((n, 2))
    scale = max(np.abs(k).max(initial=0.0), 1e-300) * max(n, m)
    close(op.to_dense(), k)
    close(op @ v, k @ v)
    close(op @ v[:, 0], k @ v[:, 0])
    close(op.T @ w, k.T @ w)
    close(op.adjoint @ w, k.T @ w)
    close(w.T @ op, w.T @ k)
    close(op.T.T.to_dense(), k)
    np.testing.assert_allclose(w.T @ (op @ v), (op.T @ w).T @ v, rtol=0, atol=1e-9 * scale)
    both = op @ (2.0 * v[:, 0] - 3.0 * v[:, 1])
    np.testing.assert_allclose(both, 2.0 * (op @ v[:, 0]) - 3.0 * (op @ v[:, 1]), rtol=0, atol=1e-9 * scale)
    assert op.shape == (n, m)
    assert op.T.shape == (m, n)
    assert op.dtype == np.float64
    assert (op @ v[:, :0]).shape == (n, 0)


def test_entries_scipy_pickle_and_threads(stall):
    op, k = made(stall)
    rng = np.random.default_rng(1)
    rows, cols = rng.integers(M, size=9), rng.integers(k.shape[1], size=7)
    v, w = rng.standard_normal((k.shape[1], 2)), rng.standard_normal((M, 2))
    close(op.entries(rows, cols), k[np.ix_(rows, cols)])
    close(op.T.entries(cols, rows), k[np.ix_(rows, cols)].T)
    assert op.entries([], cols).shape == (0, 7)
    other = op.as_scipy()
    close(other @ v, k @ v)
    close(other.H @ w, k.T @ w)
    close(other.T @ w[:, 0], k.T @ w[:, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(op)) @ v, op @ v)
    np.testing.assert_array_equal(made(stall, n_jobs=2)[0] @ v, op @ v)
    parts = [b.nbytes for level in (*op.left, *op.right) for b in level.blocks]
    assert op.nbytes >= sum(parts) + (stall.core.nbytes if stall.core else 0)


def test_both_sides_the_same_is_the_block_operator(stall):
    op = CrossOperator(stall.levels, stall.levels, stall.core)
    close(op.to_dense(), stall.oracle())
    close(op @ np.ones(op.shape[0]), stall.operator() @ np.ones(op.shape[0]))


METHODS = {
    "meka": gm.MEKA(**settings(rank=10, n_blocks=4)),
    "nystrom": tree(n_levels=1, root_rank=20),
    "two levels": tree(),
    "three levels": tree(n_levels=3, n_blocks=9),
}


@pytest.mark.parametrize("estimator", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("sparse", [False, True])
def test_cross_of_a_fit_is_the_product_of_its_features(estimator, sparse):
    rng = np.random.default_rng(4)
    X, new = rng.random((200, 3)), rng.random((70, 3))
    a = estimator.fit(X)
    cross = a.cross(sp.csr_array(new) if sparse else new)
    F, G = (f.toarray() if sp.issparse(f) else f for f in (a.transform(X), a.transform(new)))
    assert cross.shape == (70, 200)
    np.testing.assert_allclose(cross.to_dense(), G @ F.T, atol=1e-7)
    truth = np.exp(-GAMMA * ((new[:, None] - X[None]) ** 2).sum(axis=2))
    assert np.linalg.norm(cross.to_dense() - truth) < 0.15 * np.linalg.norm(truth)
    np.testing.assert_allclose(a.cross(X).to_dense(), a.operator_.to_dense(), atol=1e-9)
    # A ridge prediction is one product.
    y = rng.standard_normal(200)
    dual = a.operator_.solve(y, 0.1)
    np.testing.assert_allclose(cross @ dual, G @ (F.T @ dual), atol=1e-6)
    # The right side is the fit's own arrays, and the left side n_new · (ranks of a row's path) numbers.
    assert cross.right is a.operator_.levels
    assert cross.nbytes - a.operator_.nbytes <= 70 * 8 * (max(a.features_.path_ranks) + len(cross.left))
    assert len(a.cross(new[:1]).to_dense()) == 1


def test_cross_errors():
    a = tree().fit(np.random.default_rng(0).random((60, 3)))
    with pytest.raises(ValueError, match=r"X has 2 features, but MultiResolution is expecting 3"):
        a.cross(np.ones((4, 2)))
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        tree().cross(np.ones((4, 3)))


def test_bad_input():
    one, two = BasisLevel.whole(np.ones((3, 1))), BasisLevel.whole(np.ones((4, 2)))
    for make, text in (
        (lambda: CrossOperator([], []), r"left has levels of ranks \[\], right of \[\]\. Pass one level or"),
        (lambda: CrossOperator([one], [two]), r"left has levels of ranks \[\(1,\)\], right of \[\(2,\)\]"),
        (lambda: CrossOperator([one], [one, one]), r"with the same ranks level by level"),
        (
            lambda: CrossOperator([one, BasisLevel.whole(np.ones((4, 1)))], [one, one]),
            r"The levels of left have different numbers of rows: \[3, 4\]",
        ),
        (
            lambda: CrossOperator([one], [one], gm.operators.CoupledCore(np.eye(2), (2,))),
            r"The core has ranks \(2,\), but the blocks of the last level have \(1,\)",
        ),
    ):
        with pytest.raises(InputError, match=text):
            make()
    op = CrossOperator([one], [BasisLevel.whole(np.ones((5, 1)))])
    for call, text in (
        (
            lambda: op @ np.ones(3),
            r"The right operand has shape \(3,\), but the operator is 3 × 5\. Pass shape",
        ),
        (lambda: op.T @ np.ones(5), r"The right operand has shape \(5,\), but the operator is 5 × 3"),
        (lambda: op.entries([3], [0]), r"rows has numbers from 3 to 3; pass numbers from 0 to 2"),
        (lambda: op.entries([0], [5]), r"cols has numbers from 5 to 5; pass numbers from 0 to 4"),
    ):
        with pytest.raises(InputError, match=text):
            call()
    assert repr(op).startswith("<CrossOperator 3 × 5: 1 blocks, ")


def test_arrays_are_kept_as_they_are():
    stall = dense_psd_core(np.random.default_rng(0), "float32")
    op = CrossOperator(stall.levels, stall.levels, stall.core)
    assert op.right[0].blocks[0] is stall.levels[0].blocks[0]
    assert isinstance(stall.operator(), BlockOperator)
    assert op.shape == (N, N)
