"""Block-diagonal, low rank plus blocks, truncated eigenvectors, clustered low rank: what each is exact in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from approximation_market import gram, settings

import gramian as gm
from gramian.approximations import ClusteredLowRank, LowRankPlusBlocks
from gramian.approximations.truncated_eigen import leading_eigenpairs
from gramian.exceptions import AccuracyWarning, InputError


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(4).random((320, 3))


def labels_of(a, X):
    return a.features_.partition.route(X)


@pytest.mark.parametrize("method", [gm.BlockDiagonal, LowRankPlusBlocks])
def test_diagonal_blocks_are_those_of_k(method, X):
    a = method(n_blocks=6, **settings()).fit(X)
    K, found, labels = gram(X, X), a.operator_.to_dense(), labels_of(a, X)
    same = labels[:, None] == labels
    np.testing.assert_allclose(found[same], K[same], atol=1e-7)
    assert a.features_.notes["trace left out of the blocks"] < 1e-6
    assert np.bincount(labels).max() <= 1.25 * 320 / 6 + 1
    if method is gm.BlockDiagonal:
        assert (found[~same] == 0).all()
    else:
        assert np.linalg.norm(found - K) < 0.2 * np.linalg.norm(K)


def test_low_rank_plus_blocks_solves_by_its_structure(X):
    a = LowRankPlusBlocks(root_rank=20, n_blocks=6, **settings()).fit(X)
    dense = a.operator_.to_dense()
    y = np.cos(np.arange(len(X)))
    expected = np.linalg.solve(dense + 0.1 * np.eye(len(X)), y)
    np.testing.assert_allclose(a.operator_.solve(y, alpha=0.1), expected, atol=1e-7)
    np.testing.assert_allclose(
        a.operator_.logdet(0.1), np.linalg.slogdet(dense + 0.1 * np.eye(len(X)))[1], rtol=1e-9
    )


def test_blocks_of_two_hundred_rows_by_default():
    X = np.random.default_rng(0).random((1600, 2))
    a = LowRankPlusBlocks(gamma=2.0, root_rank=10, random_state=0).fit(X)
    assert a.operator_.n_blocks == 8


@pytest.mark.parametrize("gamma", [0.3, 3.0, 40.0])
def test_truncated_eigen_is_the_best_of_its_rank(gamma, X):
    K = gram(X, X, gamma)
    values = np.linalg.eigvalsh(K)[::-1]
    a = gm.TruncatedEigen(gamma=gamma, rank=25, tile_dtype="float64", random_state=0).fit(X)
    assert np.linalg.norm(K - a.operator_.to_dense(), 2) <= values[25] * (1 + 1e-6) + 1e-12
    assert a.features_.notes["largest residual"] <= 2e-6 * values[0]
    assert a.features_.notes["passes over K"] <= 20


def test_block_lanczos_on_spectra_that_are_hard():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    for values in (np.ones(200), 0.5 ** np.arange(200), np.r_[np.full(40, 2.0), np.ones(160)], np.zeros(200)):
        A = (Q * values) @ Q.T
        found = leading_eigenpairs(lambda V, A=A: A @ V, 200, 30, 1e-8, 40, rng)
        np.testing.assert_allclose(found.values, np.sort(values)[::-1][:30], atol=1e-7)
        np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(30), atol=1e-8)
        assert found.residual < 1e-7
    with pytest.warns(
        AccuracyWarning, match=r"residuals up to .* times tol=1e-08 .* after 1 passes\. Raise max_iter"
    ):
        leading_eigenpairs(lambda V: (Q * 0.99 ** np.arange(200)) @ (Q.T @ V), 200, 30, 1e-8, 1, rng)


def test_eigenvectors_never_store_k():
    X = np.random.default_rng(0).random((6000, 2))
    plan = gm.TruncatedEigen(rank=10, max_iter=8).plan(X)
    assert plan.peak_bytes < 6000**2 * 8 / 4
    with pytest.raises(gm.BudgetError, match="is too small"):
        gm.TruncatedEigen(rank=10, memory_budget="2MB").fit(X)


def test_clustered_low_rank_couples_by_exact_products(X):
    a = ClusteredLowRank(rank=6, n_blocks=4, **settings()).fit(X)
    K, labels = gram(X, X), labels_of(a, X)
    given = ClusteredLowRank.of_matrix(K, 6, labels=labels)
    np.testing.assert_allclose(a.operator_.to_dense(), given.to_dense(), atol=1e-8)
    U = np.zeros((len(X), 24))
    for s in range(4):
        mine = np.flatnonzero(labels == s)
        U[mine, 6 * s : 6 * s + 6] = np.linalg.eigh(K[np.ix_(mine, mine)])[1][:, -6:]
    np.testing.assert_allclose(given.to_dense(), U @ U.T @ K @ U @ U.T, atol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_clustered_low_rank_of_a_graph(sparse):
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 60)
    A = (rng.random((180, 180)) < np.where(truth[:, None] == truth, 0.5, 0.02)).astype(float)
    A = np.triu(A, 1)
    A = A + A.T
    shuffled = rng.permutation(180)
    A, truth = A[np.ix_(shuffled, shuffled)], truth[shuffled]
    before = A.copy()
    found = ClusteredLowRank.of_matrix(sp.csr_array(A) if sparse else A, 4, n_blocks=3, random_state=0)
    np.testing.assert_array_equal(A, before)
    # Blocks are the communities, so that the error is that of their own eigenvectors by far.
    for s in range(3):
        assert len(np.unique(truth[found.block_rows(s)])) == 1
    best = np.sort(np.abs(np.linalg.eigvalsh(A)))[::-1]
    # Adjacency matrices are indefinite, and their approximations may be.
    assert np.linalg.norm(A - found.to_dense()) < 1.1 * np.sqrt(np.square(best[12:]).sum())
    assert np.linalg.eigvalsh(found.to_dense())[0] < -1.0


@pytest.mark.parametrize("n_blocks", [5, 50])
def test_sparse_rows_that_repeat_are_one_landmark(n_blocks):
    X = sp.random_array((40, 6), density=0.2, rng=np.random.default_rng(0), format="csr")
    X = sp.vstack([X] * 6).tocsr()
    a = gm.BlockDiagonal(gamma=2.0, n_blocks=n_blocks, random_state=0).fit(X)
    assert a.rank_ <= 40
    assert a.block_errors(X).max() < 1e-6


@pytest.mark.filterwarnings("ignore:.* is larger than n_samples")
def test_duplicates_and_more_rank_than_rows():
    X = np.repeat(np.random.default_rng(0).random((9, 2)), 20, axis=0)
    for a in (
        gm.BlockDiagonal(gamma=2.0, n_blocks=1),
        LowRankPlusBlocks(gamma=2.0, root_rank=50),
        gm.TruncatedEigen(gamma=2.0, rank=500),
        ClusteredLowRank(gamma=2.0, rank=500, n_blocks=2),
    ):
        assert a.fit(X).relative_error(X) < 1e-5, a
        assert a.rank_ <= 18


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: gm.BlockDiagonal(rank=0).fit(X), r"rank=0"),
        (lambda X: gm.BlockDiagonal(partition="trees").fit(X), r"partition='trees' is unknown.*'tree'"),
        (lambda X: gm.BlockDiagonal(landmarks=X[:4]).fit(X), r"is unknown\. Choose one of uniform"),
        (lambda X: LowRankPlusBlocks(n_blocks=0).fit(X), r"n_blocks=0"),
        (lambda X: LowRankPlusBlocks(landmarks=X[:4, :2]).fit(X), r"landmarks has shape \(4, 2\)"),
        (lambda X: gm.TruncatedEigen(tol=0).fit(X), r"tol=0"),
        (lambda X: ClusteredLowRank.of_matrix(X, 3), r"shape \(320, 3\).*expected a square one"),
        (lambda X: ClusteredLowRank.of_matrix(X[:3] + 1, 3), r"not symmetric: .* differ by up to"),
        (lambda X: ClusteredLowRank.of_matrix(np.eye(3) * np.nan, 3), r"holds NaN or infinite"),
        (
            lambda X: ClusteredLowRank.of_matrix(np.eye(4), 2, labels=np.zeros(3, int)),
            r"labels has shape \(3,\) .* each of 4 rows",
        ),
        (lambda X: ClusteredLowRank.of_matrix(np.eye(4), 0), r"rank=0"),
    ],
)
def test_bad_input(X, call, message):
    with pytest.raises(InputError, match=message):
        call(X)


def test_budgets_bind(X):
    for a in (gm.BlockDiagonal(n_blocks=1), LowRankPlusBlocks(n_blocks=1), ClusteredLowRank(n_blocks=1)):
        with pytest.raises(gm.BudgetError, match=r"memory_budget=1 MB is too small for .*n_blocks=1"):
            a.set_params(memory_budget="1MB").fit(X)


def test_uneven_blocks_are_refused_before_they_take_the_memory():
    rng = np.random.default_rng(0)
    X = np.concatenate([0.01 * rng.random((950, 2)), 5.0 + rng.random((50, 2))])
    with pytest.raises(
        gm.BudgetError, match=r"largest block has 9\d\d different rows, over the 301 that the plan"
    ):
        gm.BlockDiagonal(n_blocks=10, partition="kcenters", random_state=0).fit(X)
    assert gm.BlockDiagonal(n_blocks=10, random_state=0).fit(X).block_errors(X).max() < 1e-6
    with pytest.raises(gm.BudgetError, match=r"or lower root_rank or raise n_blocks"):
        LowRankPlusBlocks(n_blocks=1, memory_budget="1MB").fit(X)
