"""Partitions: blocks that cover, nest and balance, and routing that agrees with the plain definition."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.landmarks.partition import SAMPLE_ROWS, BisectionPartition, CenterPartition, fit_partition

METHODS = ("kmeans", "minibatch", "kcenters", "tree")
LAYOUTS = ("float64", "float32", "uint8", "int64", "csr", "csr_array64", "bool")


def make_rows(layout: str, n: int = 600, d: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1, 3, d) + 8 * rng.integers(0, 4, (n, 1))
    if layout == "csr":
        return sp.csr_matrix(np.where(rng.random((n, d)) < 0.5, X, 0).astype(np.float32))
    if layout == "csr_array64":
        sparse = sp.csr_array(np.where(rng.random((n, d)) < 0.5, X, 0))
        sparse.indices, sparse.indptr = sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)
        return sparse
    if layout == "bool":
        return rng.random((n, 12)) < 0.4
    if layout == "uint8":
        return (X - X.min()).clip(0, 255).astype(np.uint8)
    return np.round(100 * X).astype(layout) if layout == "int64" else X.astype(layout)


def freeze(X):
    for part in (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,):
        part.setflags(write=False)
    return X


def dense(X) -> np.ndarray:
    return (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)


def fit(X, n_blocks=12, method="kmeans", n_levels=1, seed=0):
    return fit_partition(X, n_blocks, method=method, n_levels=n_levels, rng=np.random.default_rng(seed))


def distances(X, centers) -> np.ndarray:
    return ((dense(X)[:, None] - centers.astype(np.float64)[None]) ** 2).sum(axis=2)


def assert_nearest(X, centers, labels, relative):
    """The chosen centre is as near as the nearest, within ``relative`` of the spread about it."""
    table = distances(X, centers)
    chosen = table[np.arange(len(table)), labels]
    assert (chosen - table.min(axis=1)).max() <= relative * table.max()


def walk(tree: BisectionPartition, row: np.ndarray) -> int:
    node = 0
    offset = np.zeros(len(row)) if tree.offset is None else tree.offset
    while node >= 0:
        value = (row - offset).astype(tree.directions.dtype) @ tree.directions[node]
        node = tree.children[node, int(value >= tree.thresholds[node])]
    return -1 - node


def assert_ancestors(partition, n_levels):
    """Numbered 0 … k−1 in the order of the leaves, each leaf in one block a level, levels nested."""
    assert len(partition.ancestors) == n_levels - 1
    finer = np.arange(partition.n_blocks)
    for level in reversed(partition.ancestors):
        assert level.shape == (partition.n_blocks,)
        np.testing.assert_array_equal(np.unique(level), np.arange(level.max() + 1))
        assert (np.diff(level) >= 0).all()
        for block in np.unique(finer):
            assert len(np.unique(level[finer == block])) == 1
        finer = level


# ---- every method on every layout --------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_the_sample(method, layout):
    X = freeze(make_rows(layout))
    before = dense(X)
    partition = fit(X, method=method)
    labels = partition.route(X)
    np.testing.assert_array_equal(dense(X), before)
    assert labels.dtype == np.intp
    assert partition.ancestors == ()
    # No block is empty on the sample it was fitted on.
    np.testing.assert_array_equal(np.unique(labels), np.arange(partition.n_blocks))
    assert 10 <= partition.n_blocks <= 12
    dtype = np.result_type(X.dtype, np.float32)
    if isinstance(partition, CenterPartition):
        assert partition.centers.dtype == dtype
        assert_nearest(X, partition.centers, labels, 4 * np.finfo(dtype).eps)
    else:
        assert partition.directions.dtype == dtype
        rows = dense(X)
        naive = np.array([walk(partition, row) for row in rows])
        # Another order of summation may move a row that lies on a cut.
        assert (naive == labels).mean() >= 0.99


@pytest.mark.parametrize("method", METHODS)
def test_same_for_any_threads_dtype_and_order(method):
    X = make_rows("float64", n=20_000, d=5)
    with threadpool_limits(1):
        partition = fit(X[:3000], 70, method)
    again = fit(X[:3000], 70, method)
    labels = partition.route(X)
    for n_jobs in (1, 2, 3):
        np.testing.assert_array_equal(again.route(X, Engine(n_jobs)), labels)
    np.testing.assert_array_equal(partition.route(np.asfortranarray(X)), labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(partition)).route(X), labels)
    assert (partition.route(sp.csr_matrix(X)) == labels).mean() > 0.999
    other = fit(X[:3000], 70, method, seed=1)
    assert (other.route(X) != labels).any()


def test_pickle_leaves_out_what_it_can_derive():
    centers = np.random.default_rng(0).random((100, 50))
    assert len(pickle.dumps(CenterPartition(centers))) < 1.1 * centers.nbytes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_from_the_origin(method, dtype):
    rng = np.random.default_rng(3)
    # Steps of 1/8 survive a shift by 2¹⁸ in float32 too.
    near = np.round(8 * make_rows("float64", n=1000)) / 8
    far = near + 2.0**18 * np.array([1, -1, 1, 1, -1])
    shuffled = rng.permutation(1000)
    partition = fit(far[shuffled].astype(dtype), 20, method)
    labels = partition.route(far)
    assert len(np.unique(labels)) == partition.n_blocks >= 18
    if isinstance(partition, CenterPartition):
        assert_nearest(far, partition.centers, labels, 1e-6)
        moved = near - partition.centers.astype(np.float64).mean(axis=0)
        assert np.isfinite(moved).all()
        # float64 rows meet float32 centres: the difference comes before the rounding.
        fine = far + rng.uniform(-0.01, 0.01, far.shape)
        assert_nearest(fine, partition.centers, partition.route(fine), 1e-6)
    else:
        assert np.ptp(np.bincount(labels)) <= 1 + 2 * (dtype == "float32")


def test_integers_beyond_float32_are_moved_before_they_are_rounded():
    base = 2**40
    centers = np.array([[base], [base + 2**20]], np.float32)
    rows = base + np.array([[0], [2**19 - 1], [2**19 + 1], [2**20]], np.int64)
    np.testing.assert_array_equal(CenterPartition(centers).route(rows), [0, 0, 1, 1])
    assert CenterPartition(np.array([[10.0], [250.0]], np.float32)).route(
        np.uint8([[0], [255]])
    ).tolist() == [0, 1]


@pytest.mark.parametrize("method", METHODS)
def test_rows_whose_products_overflow_go_where_exact_scores_send_them(method):
    part = fit(make_rows("float32"), method=method)
    rng = np.random.default_rng(1)
    for size in (1e30, 3e38):
        far = (rng.normal(size=(50, 5)).clip(-1, 1) * size).astype(np.float32)
        exact = replaced_by_float64(part).route(far.astype(np.float64))
        np.testing.assert_array_equal(part.route(far), exact)
        np.testing.assert_array_equal(part.route(sp.csr_array(far)), exact)
        np.testing.assert_array_equal(part.route(far.astype(np.float64) * 1e100), exact)


def replaced_by_float64(part):
    """Return the partition whose scores are computed in float64."""
    if isinstance(part, CenterPartition):
        return CenterPartition(part.centers.astype(np.float64))
    return BisectionPartition(
        part.directions.astype(np.float64), part.thresholds, part.children, offset=part.offset
    )


def test_first_of_equal_centres():
    partition = CenterPartition(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    assert partition.route(np.array([[0.0, 5.0]])).tolist() == [0]


@pytest.mark.parametrize("scale", [1, 10**9, 0.1])
@pytest.mark.parametrize("shift", [0, 10**6])
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
@pytest.mark.parametrize("method", ["kmeans", "kcenters", "tree"])
def test_rows_between_two_blocks_go_to_one_of_them_however_they_are_passed(method, dtype, scale, shift):
    # Many rows of a grid lie exactly between two centres: rounding used to decide, and to differ between
    # dense rows, sparse rows and rows one by one.
    for seed, d in itertools.product(range(4), (1, 2, 3, 5)):
        grid = np.array(list(itertools.product(range(3), repeat=d)))
        order = np.random.default_rng(seed).permutation(len(grid))
        rows = ((grid[order][:150] + shift) * scale).astype(dtype)
        # Fitted on half of the rows: the others are new, and lie between those.
        partition = fit_partition(rows[::2], 6, method=method, rng=np.random.default_rng(seed))
        labels = partition.route(rows)
        np.testing.assert_array_equal(partition.route(sp.csr_array(rows)), labels)
        np.testing.assert_array_equal(partition.route(rows.astype(np.float64)), labels)
        for step in (1, 3):
            parts = [partition.route(rows[i : i + step]) for i in range(0, len(rows), step)]
            np.testing.assert_array_equal(np.concatenate(parts), labels)


def test_memmap(tmp_path):
    X = make_rows("float32", n=9000)
    X.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=X.shape)
    for method in ("kmeans", "tree"):
        partition = fit(mapped, 30, method)
        labels = partition.route(mapped, Engine(2))
        assert type(labels) is np.ndarray
        np.testing.assert_array_equal(labels, partition.route(X))
        assert np.bincount(labels).all()


# ---- degenerate samples ------------------------------------------------------------------------


@pytest.mark.parametrize("n_levels", [1, 2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_few_distinct_rows(method, sparse, n_levels):
    rng = np.random.default_rng(0)
    kinds = (rng.normal(size=(5, 3)) + 0.1).astype(np.float64 if n_levels == 2 else np.float32)
    for distinct in (1, 2, 5):
        X = kinds[rng.integers(0, distinct, 301)]
        X = sp.csr_matrix(X) if sparse else X
        partition = fit(X, 40, method, n_levels)
        labels = partition.route(X)
        np.testing.assert_array_equal(np.unique(labels), np.arange(partition.n_blocks))
        assert partition.n_blocks <= distinct
        assert_ancestors(partition, n_levels)


@pytest.mark.parametrize("n_levels", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_tiny_samples(method, n_levels):
    for n in (1, 2, 3, 7):
        X = np.random.default_rng(n).normal(size=(n, 2))
        for n_blocks in (1, 2, 50):
            partition = fit(X, n_blocks, method, n_levels)
            assert 1 <= partition.n_blocks <= min(n, n_blocks)
            assert_ancestors(partition, n_levels)
            assert partition.route(X).max() == partition.n_blocks - 1
            assert partition.route(X[:0]).shape == (0,)


def nearest_centers(X, centers):
    return np.square(X[:, None].astype(np.float64) - centers.astype(np.float64)).sum(axis=-1).argmin(axis=1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["kmeans", "minibatch", "kcenters"])
def test_one_outlier_does_not_round_the_distances_of_the_others(method, sparse):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((206, 11)).astype(np.float32)
    X[17, 3] = 1e6
    sample = sp.csr_matrix(X) if sparse else X
    partition = fit_partition(sample, 5, method=method, rng=np.random.default_rng(0))
    assert partition.n_blocks == 5
    labels = partition.route(X)
    np.testing.assert_array_equal(labels, partition.route(sp.csr_matrix(X)))
    np.testing.assert_array_equal(labels, nearest_centers(X, partition.centers))


def test_close_centres_in_distant_groups_are_told_apart():
    rng = np.random.default_rng(0)
    group = np.where(np.arange(400) % 2, 1e5, -1e5)[:, None]
    X = (rng.standard_normal((400, 3)) + group).astype(np.float32)
    partition = CenterPartition(X[:6].copy())
    expected = nearest_centers(X, partition.centers)
    np.testing.assert_array_equal(partition.route(X), expected)
    np.testing.assert_array_equal(partition.route(sp.csr_matrix(X)), expected)
    ordinary = CenterPartition(rng.standard_normal((200, 54)).astype(np.float32))
    assert partition._factor.dtype == np.float64
    assert ordinary._factor.dtype == np.float32


def test_csr_far_from_the_origin_is_routed_as_the_array_is():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((500, 3)) + 3e5).astype(np.float32)
    partition = CenterPartition(X[:6].copy())
    assert partition._factor.dtype == np.float32
    np.testing.assert_array_equal(partition.route(sp.csr_matrix(X)), nearest_centers(X, partition.centers))


@pytest.mark.parametrize("method", METHODS)
def test_extreme_scales_and_one_feature(method):
    X = np.random.default_rng(0).normal(size=(400, 3))
    for scale in (1e-12, 1e12):
        assert fit((scale * X).astype(np.float32), 8, method).n_blocks == 8
    assert fit(X[:, :1], 8, method).n_blocks == 8


def test_heavy_duplicates_do_not_stop_the_tree():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1000, 4)) < 0.95, 0.0, rng.normal(size=(1000, 4)))
    tree = fit(X, 16, "tree")
    counts = np.bincount(tree.route(X), minlength=tree.n_blocks)
    assert counts.all()
    assert tree.n_blocks > 4
    at_zero = (X == 0).all(axis=1)
    assert len(np.unique(tree.route(X[at_zero]))) == 1


def test_errors():
    X = np.zeros((3, 2))
    with pytest.raises(InputError, match=r"partition='kmean' is unknown. Choose one of .* mean 'kmeans'\?"):
        fit(X, method="kmean")
    with pytest.raises(InputError, match="partition=3 is unknown"):
        fit(X, method=3)
    with pytest.raises(InputError, match=r"sample has 0 rows; a partition needs at least 1\. Pass a table"):
        fit(X[:0])


# ---- quality -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_blocks", [2, 3, 8, 13, 32])
@pytest.mark.parametrize("layout", ["float32", "float64"])
def test_tree_is_balanced(layout, n_blocks):
    X = np.random.default_rng(1).normal(size=(1003, 4)).astype(layout)
    counts = np.bincount(fit(X, n_blocks, "tree").route(X))
    assert len(counts) == n_blocks
    assert np.ptp(counts) <= 1


def test_clusters_are_found():
    corners = 20 * np.eye(6)
    X = np.repeat(corners, 50, axis=0) + np.random.default_rng(0).normal(size=(300, 6))
    for method in ("kmeans", "minibatch", "kcenters"):
        labels = fit(X, 6, method).route(X).reshape(6, 50)
        assert (labels == labels[:, :1]).all()
        assert len(np.unique(labels)) == 6


def test_farthest_first_is_within_twice_the_best_radius():
    X = np.random.default_rng(0).normal(size=(200, 3))
    for rows in (X, sp.csr_matrix(X)):
        centers = fit(rows, 10, "kcenters").centers
        gaps = np.sqrt(distances(centers, centers)[np.triu_indices(10, 1)])
        # Gonzalez: the centres are at least the covering radius apart.
        assert np.sqrt(distances(X, centers).min(axis=1)).max() <= gaps.min() * (1 + 1e-12)
        assert all((center == X).all(axis=1).any() for center in centers)


def test_large_samples_are_cut():
    X = np.arange(2.0 * SAMPLE_ROWS)[:, None]
    counts = np.bincount(fit(X, 4, "tree").route(X))
    assert len(counts) == 4
    assert abs(counts / len(X) - 0.25).max() < 0.02


# ---- nested levels -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_levels", [1, 2, 3])
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 7, 16, 50])
@pytest.mark.parametrize("method", METHODS)
def test_nested(method, n_blocks, n_levels):
    X = make_rows("float64", n=1200)
    partition = fit(X, n_blocks, method, n_levels)
    labels = partition.route(X)
    assert 0.8 * n_blocks <= partition.n_blocks <= n_blocks
    np.testing.assert_array_equal(np.unique(labels), np.arange(partition.n_blocks))
    assert_ancestors(partition, n_levels)
    if n_blocks >= 16 and n_levels > 1:
        sizes = [int(level.max()) + 1 for level in partition.ancestors]
        assert 1 < sizes[0] <= sizes[-1] < partition.n_blocks


def test_nested_csr():
    X = make_rows("csr", n=1000)
    for method in METHODS:
        partition = fit(X, 20, method, 3)
        assert_ancestors(partition, 3)
        assert np.bincount(partition.route(X), minlength=partition.n_blocks).all()


def test_keep_renumbers_levels():
    levels = (np.array([0, 0, 1, 2]), np.array([0, 1, 2, 3]))
    kept = CenterPartition(np.arange(4.0)[:, None], levels).keep(np.array([0, 1, 3]))
    assert [level.tolist() for level in kept.ancestors] == [[0, 0, 1], [0, 1, 2]]
    assert kept.centers.ravel().tolist() == [0, 1, 3]
