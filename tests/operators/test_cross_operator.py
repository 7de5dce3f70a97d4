"""Laws of rectangular K̃ and of K̃ + D over the market of operators, against dense oracles."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from approximation_market import GAMMA, settings, tree
from operator_market import (
    MARKET,
    N,
    Stall,
    basis,
    dense_psd_core,
    global_and_blocks,
    indefinite_core,
    rows_of,
)

import gramian as gm
from gramian.exceptions import AccuracyWarning, InputError, NumericalWarning
from gramian.operators import BasisLevel, BlockOperator, CrossOperator, DiagonalPlus

M = 50  # rows of the left side


pytestmark = pytest.mark.usefixtures("one_blas_thread")


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


# ---- laws of K̃ + D over the market of operators ----------------------------------------------------


def added(n: int) -> np.ndarray:
    """A diagonal with zeros and entries from 1e-3 to 10."""
    rng = np.random.default_rng(11)
    return np.where(rng.random(n) < 0.3, 0.0, 10.0 ** rng.uniform(-3, 1, n))


def made_with_diagonal(stall: Stall, n_jobs: int = 1) -> tuple[DiagonalPlus, np.ndarray]:
    k = stall.oracle()
    d = added(len(k))
    return DiagonalPlus(stall.operator(n_jobs), d), k + np.diag(d)


def shifted(stall: Stall, alpha: float) -> np.ndarray:
    """K̃ + D + alpha·I with the negative part of S W C Wᵀ S clipped, S = (D + alpha·I)^(−1/2)."""
    *upper, last = [level.to_dense() for level in stall.levels]
    core = np.eye(last.shape[1]) if stall.core is None else stall.core.to_dense()
    root = np.sqrt(added(len(last)) + alpha)
    values, vectors = la.eigh(last @ core @ last.T / np.outer(root, root))
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(root, root)
    return clipped + sum(g @ g.T for g in upper) + np.diag(root**2)


def test_dense_form_products_and_parts(stall):
    op, k = made_with_diagonal(stall)
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal((len(k), 3)), rng.standard_normal((len(k), 2))
    rows, cols = rng.integers(len(k), size=11), rng.integers(len(k), size=6)
    close(op.to_dense(), k)
    close(op @ v, k @ v)
    close(op @ v[:, 0], k @ v[:, 0])
    close(v.T @ op, v.T @ k)
    close(w.T @ (op @ v), (op.T @ w).T @ v)
    close(op @ (2.0 * v[:, 0] - 3.0 * w[:, 0]), 2.0 * (op @ v[:, 0]) - 3.0 * (op @ w[:, 0]))
    close(op.diagonal(), np.diag(k))
    close(op.trace(), np.trace(k))
    close(op.entries(rows, cols), k[np.ix_(rows, cols)])
    close(op.entries(rows, rows), k[np.ix_(rows, rows)])
    close(op.as_scipy() @ v, k @ v)
    close(op.as_scipy().T @ v, k @ v)
    for s in range(op.n_blocks):
        own = op.block_rows(s)
        close(op.block(s), k[np.ix_(own, own)])
    assert op.shape == k.shape
    assert op.dtype == np.float64
    assert op.rank == op.operator.rank
    assert op.nbytes == op.operator.nbytes + 8 * len(k)
    close(op.block_errors(lambda i, j: 2.0 * k[np.ix_(i, j)])[0], 0.5)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_solve_and_logdet(stall, alpha):
    op, _ = made_with_diagonal(stall)
    full = shifted(stall, alpha)
    y = np.random.default_rng(2).standard_normal((len(full), 2))
    want = la.solve(full, y, assume_a="pos")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found, logdet = op.solution(y, alpha), op.logdet(alpha)
        close(op.solve(y[:, 0], alpha), want[:, 0], rel=1e-8)
    close(found.value, want, rel=1e-8)
    assert found.residual < 1e-8
    assert found.clipped == op.clipped_
    np.testing.assert_allclose(logdet, np.linalg.slogdet(full)[1], rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_leverages(stall, alpha):
    op, _ = made_with_diagonal(stall)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found = op.leverages(alpha)
    np.testing.assert_allclose(found, 1.0 - alpha * np.diag(la.inv(shifted(stall, alpha))), atol=1e-8)


def test_eigvalsh(stall):
    op, k = made_with_diagonal(stall)
    close(op.eigvalsh(), la.eigvalsh(k)[::-1])
    assert op.clipped_ == 0.0


def test_an_indefinite_core_is_clipped_with_its_amount():
    stall = indefinite_core(np.random.default_rng(7), "float64")
    op, _ = made_with_diagonal(stall)
    root = np.sqrt(added(len(op.added)) + 1.0)
    values = la.eigvalsh(stall.oracle() / np.outer(root, root))
    with pytest.warns(NumericalWarning, match=r"S = T C Tᵀ is indefinite: negative eigenvalues with sum -"):
        op.solve(np.ones(len(root)), 1.0)
    close(op.clipped_, -values[values < 0].sum())


def test_alphas_in_turn_threads_and_pickling(stall):
    y = np.random.default_rng(3).standard_normal(stall.levels[0].n_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        op, _ = made_with_diagonal(stall)
        first = op.solve(y, 1.0)
        op.solve(y, 100.0)
        np.testing.assert_array_equal(op.solve(y, 1.0), first)
        np.testing.assert_array_equal(made_with_diagonal(stall, n_jobs=2)[0].solve(y, 1.0), first)
        back = pickle.loads(pickle.dumps(op))
        assert back.clipped_ == 0.0
        np.testing.assert_array_equal(back.solve(y, 1.0), first)


def test_zero_diagonal_is_the_operator_itself():
    stall = global_and_blocks(np.random.default_rng(0), "float32")
    op = DiagonalPlus(stall.operator(), np.zeros(90))
    y = np.arange(90.0)
    close(op.solve(y, 0.3), stall.operator().solve(y, 0.3))
    close(op.logdet(0.3), stall.operator().logdet(0.3))


def test_matching_keeps_the_exact_diagonal_where_it_is_larger():
    operator = dense_psd_core(np.random.default_rng(1), "float64").operator()
    exact = operator.diagonal() + np.where(np.arange(90) < 80, 0.5, -0.25)
    op = DiagonalPlus.matching(operator, exact)
    close(op.diagonal(), np.maximum(exact, operator.diagonal()))
    assert op.excess_ == pytest.approx(2.5)
    assert DiagonalPlus(operator, np.ones(90)).excess_ == 0.0


def test_nothing_is_written_and_the_diagonal_is_not_copied():
    d = added(90)
    d.flags.writeable = False
    op = DiagonalPlus(global_and_blocks(np.random.default_rng(0), "float64").operator(), d)
    y = np.ones(90)
    y.flags.writeable = False
    _ = op @ y, op.solve(y, 1.0), op.logdet(1.0), op.eigvalsh()
    assert np.shares_memory(op.added, d)
    assert repr(op).startswith("<DiagonalPlus 90 × 90: <BlockOperator 90 × 90: 1 + 3 blocks, rank 20,")


def test_bad_diagonals():
    operator = BlockOperator.from_parts(4, G=np.ones((4, 1)))
    for bad, text in (
        (np.ones(3), r"diagonal has shape \(3,\) and dtype float64, but the operator is 4 × 4\. Pass 4 real"),
        (np.ones(4, complex), r"diagonal has shape \(4,\) and dtype complex128"),
        (np.array([1.0, -1.0, 0.0, 0.0]), r"diagonal holds negative, infinite or NaN entries\. Pass numbers"),
        (np.full(4, np.nan), r"diagonal holds negative, infinite or NaN entries"),
    ):
        with pytest.raises(InputError, match=text):
            DiagonalPlus(operator, bad)
    op = DiagonalPlus(operator, np.ones(4))
    with pytest.raises(InputError, match=r"alpha=0 must be a positive"):
        op.solve(np.ones(4), 0)
    with pytest.raises(InputError, match=r"The right operand has shape \(3,\), but the operator is 4 × 4"):
        op @ np.ones(3)
    with pytest.raises(InputError, match=r"Block 1 does not exist"):
        op.block(1)
    small = DiagonalPlus(BlockOperator([*operator.levels], direct_limit=3), np.ones(4))
    with pytest.raises(InputError, match=r"The eigenvalues of K̃ \+ D need a dense matrix of 4 × 4 \(128 B\)"):
        small.eigvalsh()


def test_a_solve_that_rounding_spoils_says_so():
    rng = np.random.default_rng(0)
    op = DiagonalPlus(BlockOperator.from_parts(60, G=1e9 * rng.standard_normal((60, 4))), np.full(60, 1e-12))
    with pytest.warns(AccuracyWarning, match=r"The solve with alpha=1e-12 ended with relative residual"):
        op.solve(rng.standard_normal(60), 1e-12)
