"""Partitions of the rows into blocks, fitted on a sample of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from gramian._numerics import distance_error, rank_cutoff, whiten
from gramian._random import seed_for_sklearn
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import Kernel
from gramian.kernels.columns import squared_norms
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.routing import (
    BisectionPartition,
    CenterPartition,
    FeaturePartition,
    Partition,
    dots,
    moved,
)

__all__ = [
    "SAMPLE_ROWS",
    "BisectionPartition",
    "CenterPartition",
    "FeaturePartition",
    "Partition",
    "fit_partition",
]

#: Rows on which a partition is fitted at most (the MEKA paper, section 4: 20,000 suffice).
SAMPLE_ROWS = 20_000
#: Up to this many centres start spread out (k-means++): with few blocks one bad start can double the
#: error; with hundreds it costs more than the rounds and gains nothing.
SPREAD_START = 64
#: Rows of one step of mini-batch k-means.
BATCH_ROWS = 4096
#: Where a tree cuts between two values: the golden ratio. A cut half-way would meet new rows of a grid (3
#: between 2 and 4), whose side rounding would choose; no fraction is farther from all simple ones.
BETWEEN = 0.618
METHODS = ("kmeans", "minibatch", "kcenters", "tree", "kernel")
#: Features by which rows are clustered as the kernel sees them: as many as blocks, between these.
LEAST_FEATURES, MOST_FEATURES = 256, 512
#: Rows of a block on which such centres are fitted, and the least in all: each takes as many kernel values.
ROWS_PER_BLOCK, LEAST_ROWS = 20, 4_000


def fit_partition(
    sample: Rows,
    n_blocks: int,
    *,
    method: str = "kmeans",
    n_levels: int = 1,
    rounds: int = 15,
    rng: np.random.Generator,
    kernel: Kernel | None = None,
) -> Partition:
    """Fit a partition of about ``n_blocks`` leaf blocks on a sample of rows.

    sample : (n, d), dense or CSR; at most 20,000 of its rows are drawn and used.
    method : ``"kmeans"`` and ``"minibatch"`` (scikit-learn's), ``"kcenters"`` (farthest first,
        Gonzalez 1985), ``"tree"`` (balanced bisection along the line between two means: routing in
        O(d log c) for many blocks), ``"kernel"`` (spherical k-means of Nyström features, for a precomputed
        kernel or one that is not Euclidean; routing takes 256 to 512 kernel values a row).
    n_levels : levels of nested blocks, the leaves included; ``n_blocks`` counts the leaves.
    rounds : rounds of k-means at most.
    kernel : what the blocks are for: of ``"kernel"``, and to refuse the others for a precomputed one, whose
        rows are numbers.

    Returns centres or directions in the sample's float type (float32 for bytes, float64 for wider
    integers). Blocks that no row of the sample falls in are dropped, so there may be fewer blocks than
    asked for, and never more than distinct rows. Time O(n c d rounds), or O(n d log c) for the tree;
    memory two copies of the sample that is used.

    >>> rows = np.random.default_rng(0).random((200, 3))
    >>> partition = fit_partition(rows, 8, method="tree", rng=np.random.default_rng(0))
    >>> np.bincount(partition.route(rows))
    array([25, 25, 25, 25, 25, 25, 25, 25])
    """
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"partition={method!r} is unknown. Choose one of {', '.join(METHODS)}."
            + did_you_mean(method, METHODS)
        )
    if n_blocks > 1 and method != "kernel" and isinstance(kernel, Precomputed):
        raise InputError(
            f"partition={method!r} clusters points, which a precomputed kernel does not have. Take "
            "partition='kernel', or a method with a global basis alone, such as Nystrom."
        )
    n = sample.shape[0]
    if n == 0:
        raise InputError("The sample has 0 rows; a partition needs at least 1. Pass a table with rows.")
    if n > SAMPLE_ROWS:
        keep = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
        sample, n = sample[keep], SAMPLE_ROWS
    sample = sample.astype(np.result_type(sample.dtype, np.float32), copy=False)
    n_blocks = int(max(1, min(n_blocks, n)))
    # With one thread the sums do not depend on how many there are; scikit-learn adds its threads'
    # partial sums in the order in which they end, and on samples of this size gains little by them.
    with threadpool_limits(1):
        if method == "tree":
            return _bisect(sample, n_blocks, n_levels, rng)
        if method == "kernel" and n_blocks > 1:
            return _by_features(sample, n_blocks, max(1, n_levels), rounds, kernel, rng)
        return _nested(sample, n_blocks, max(1, n_levels), method, rounds, rng)


def _mean(sample: Rows) -> FloatArray:
    """Return the mean row, summed in float64, in the sample's type."""
    return np.asarray(sample.mean(axis=0, dtype=np.float64)).ravel().astype(sample.dtype)


def _dense(rows: Rows) -> Array:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def _squares(rows: Rows) -> FloatArray:
    """Return ‖x_i‖²."""
    if sp.issparse(rows):
        squares: FloatArray = np.asarray(rows.multiply(rows).sum(axis=1), rows.dtype).ravel()
        return squares
    return np.einsum("ij,ij->i", rows, rows)


def _centers(sample: Rows, count: int, method: str, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Return at most ``count`` distinct centres."""
    if count == 1:
        return _mean(sample)[None, :]
    points: Rows
    offset = np.zeros(sample.shape[1], sample.dtype)
    if sp.issparse(sample):
        # scikit-learn refuses 64-bit indices, which a sample does not need, and its mini-batches
        # read-only arrays: both are copied.
        index = (part.astype(np.int32) for part in (sample.indices, sample.indptr))
        points = sp.csr_matrix((sample.data.copy(), *index), shape=sample.shape)
    else:
        # Mini-batches and farthest-first do not centre the rows themselves.
        offset = _mean(sample)
        points = moved(sample, offset)
    if method == "kcenters":
        return _dense(sample[farthest_first(points, count, rng)[0]])
    seed = seed_for_sklearn(rng)
    model: Any
    init = "k-means++" if count <= SPREAD_START else "random"
    if method == "kmeans":
        model = KMeans(count, init=init, n_init=1, max_iter=rounds, copy_x=False, random_state=seed)
    else:
        batch = max(BATCH_ROWS, count)
        model = MiniBatchKMeans(
            count, init=init, n_init=1, max_iter=rounds, batch_size=batch, random_state=seed
        )
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: the empty ones are dropped below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(points)
    return (model.cluster_centers_ + offset).astype(sample.dtype, copy=False)


def farthest_first(points: Rows, count: int, rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """Return row numbers, each the farthest from those before it, and how far each was, squared.

    The first is drawn, with distance infinity. The distance of row k + 1 is the radius of the covering by
    the first k: at most twice the smallest that k balls can have. Ends where all rows repeat chosen ones.
    Time O(n d count), memory O(n). Source: Gonzalez 1985.
    """
    # In float64: float32 would round all distances at the scale of the farthest outlier.
    points = points.astype(np.float64, copy=False)
    norms = _squares(points)
    chosen, squares = [int(rng.integers(points.shape[0]))], [np.inf]
    nearest = np.full(len(norms), np.inf)
    while len(chosen) < count:
        last = chosen[-1]
        center = _dense(points[[last]])[0]
        np.minimum(nearest, norms + norms[last] - 2.0 * (points @ center), out=nearest)
        nearest[chosen] = 0.0
        far = int(nearest.argmax())
        if nearest[far] <= 0.0:
            break  # every remaining row repeats a chosen one
        chosen.append(far)
        squares.append(float(nearest[far]))
    return chosen, squares


def _without_empty(partition: CenterPartition, sample: Rows) -> CenterPartition:
    """Drop repeated centres, then those to which no row of the sample is nearest."""
    first = np.unique(partition.centers, axis=0, return_index=True)[1]
    partition = partition.keep(np.sort(first))
    while True:
        full = np.bincount(partition.route(sample), minlength=partition.n_blocks) > 0
        if full.all():
            return partition
        # Again, for the offset of the scores moves with the centres.
        partition = partition.keep(np.flatnonzero(full))


def _nested(
    sample: Rows, n_blocks: int, n_levels: int, method: str, rounds: int, rng: np.random.Generator
) -> CenterPartition:
    """Centres within blocks of centres; a block is cut into parts in proportion to its rows."""
    groups: list[Array] = [np.arange(sample.shape[0])]
    paths: list[tuple[int, ...]] = [()]
    centers: list[FloatArray] = []
    for level in range(1, n_levels + 1):
        target = max(1, round(n_blocks ** (level / n_levels)))
        parts = _shares(np.array([len(rows) for rows in groups]), target)
        new_groups: list[Array] = []
        new_paths: list[tuple[int, ...]] = []
        centers = []
        for path, rows, count in zip(paths, groups, parts, strict=True):
            points = sample if len(groups) == 1 else sample[rows]
            local = CenterPartition(_centers(points, int(count), method, rounds, rng))
            local = _without_empty(local, points)
            labels = local.route(points)
            for part in range(local.n_blocks):
                new_paths.append((*path, len(new_groups)))
                new_groups.append(rows[labels == part])
                centers.append(local.centers[part])
        groups, paths = new_groups, new_paths
    # Routing by the nearest leaf centre nests by definition: a block is the union of its leaves. A leaf
    # may lose its rows to those of another parent, though.
    above = np.asarray([path[:-1] for path in paths], np.intp).reshape(len(paths), n_levels - 1)
    return _without_empty(CenterPartition(np.asarray(centers), tuple(above.T.copy())), sample)


def _by_features(
    sample: Rows, n_blocks: int, n_levels: int, rounds: int, kernel: Kernel | None, rng: np.random.Generator
) -> FeaturePartition:
    """Centres of spherical k-means on the Nyström features of as many random rows as there are blocks.

    By the angle, for rows far from all landmarks have features near zero, whatever parts them: with plain
    k-means abalone at h = 0.2 put half of its rows in one of 20 blocks. By angles MEKA's errors were within
    6 % of those with k-means on the points, either way. Source: Dhillon and Modha 2001.
    """
    if kernel is None:
        raise InputError("partition='kernel' clusters by the kernel. Pass kernel=, or take 'kmeans'.")
    fitted = min(sample.shape[0], max(ROWS_PER_BLOCK * n_blocks, LEAST_ROWS))
    rows = sample[np.sort(rng.choice(sample.shape[0], fitted, replace=False))]
    count = min(fitted, feature_count(n_blocks))
    points = rows[np.sort(rng.choice(fitted, count, replace=False))]
    gram = kernel(points, dtype=np.float64, n_jobs=1)
    # The features are those of tiles of this type, and clustering wants no directions near rounding.
    cutoff = rank_cutoff(np.float32)
    white = whiten(0.5 * (gram + gram.T), count, cutoff, definite=not isinstance(kernel, Precomputed))
    columns = kernel.against(points, rows.dtype)
    features = _unit(columns(rows) @ white.vectors.astype(rows.dtype))
    found = _nested(features, n_blocks, n_levels, "kmeans", rounds, rng)
    found = _without_empty(CenterPartition(_unit(found.centers), found.ancestors), features)
    weights = white.vectors.astype(rows.dtype) @ found.centers.T
    return FeaturePartition(points, columns, np.ascontiguousarray(weights), found.ancestors)


def _unit(vectors: FloatArray) -> FloatArray:
    """Return vectors of length 1 along each row, zeros where a row is zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def feature_count(n_blocks: int) -> int:
    """Return the features by which ``partition="kernel"`` tells that many blocks apart."""
    return int(np.clip(n_blocks, LEAST_FEATURES, MOST_FEATURES))


def partition_bytes(
    method: str, n_rows: int, n_blocks: int, held: int, n_features: int, itemsize: int
) -> int:
    """Bytes that fitting takes on rows of ``held`` numbers: copies that k-means makes, and centres."""
    rows, gram = min(n_rows, SAMPLE_ROWS), 0
    if method == "kernel" and n_blocks > 1:
        rows = min(rows, max(ROWS_PER_BLOCK * n_blocks, LEAST_ROWS))
        held = n_features = feature_count(n_blocks)
        gram = 4 * 8 * held**2
    return rows * (4 * held * itemsize + 64) + 4 * n_blocks * n_features * itemsize + gram


def _shares(sizes: IntArray, target: int) -> IntArray:
    """Share out ``target`` parts, one each at least, in proportion to the sizes (D'Hondt's rule)."""
    parts = np.ones(len(sizes), np.intp)
    for _ in range(target - len(sizes)):
        quotient = sizes / parts
        largest = int(quotient.argmax())
        if quotient[largest] <= 1.0:
            break  # every block is down to one row a part
        parts[largest] += 1
    return parts


def _bisect(sample: Rows, n_blocks: int, n_levels: int, rng: np.random.Generator) -> BisectionPartition:
    offset = None if sp.issparse(sample) else _mean(sample)
    points = sample if offset is None else moved(sample, offset)
    rounding = _rounding(points, offset)
    # Level l holds the nodes at depths[l], and the leaves above it.
    depths = [max(1, round(math.log2(n_blocks) * level / n_levels)) for level in range(1, n_levels)]
    started = [0] * len(depths)
    ancestors: list[tuple[int, ...]] = []
    directions: list[Array] = []
    thresholds: list[float] = []
    children: list[list[int]] = []
    # (rows, leaves below, depth, where to write the number); left is popped first: leaves in order.
    stack: list[tuple[Array, int, int, tuple[int, int] | None]] = [
        (np.arange(points.shape[0]), n_blocks, 0, None)
    ]
    while stack:
        rows, leaves, depth, where = stack.pop()
        split = _split(points[rows], rounding[rows], leaves, rng) if leaves > 1 else None
        for level, at in enumerate(depths):
            started[level] += depth == at or (split is None and depth < at)
        if where is not None:
            children[where[0]][where[1]] = -1 - len(ancestors) if split is None else len(thresholds)
        if split is None:
            ancestors.append(tuple(count - 1 for count in started))
            continue
        direction, cut, right = split
        node = len(thresholds)
        directions.append(direction)
        thresholds.append(cut)
        children.append([0, 0])
        on_right = int(right.sum())
        # In proportion to the rows, which is leaves // 2 on the left but for ties at the cut.
        left = leaves // 2
        if len(rows) * left // leaves != len(rows) - on_right:
            left = min(leaves - 1, max(1, round(leaves * (len(rows) - on_right) / len(rows))))
        stack.append((rows[right], leaves - left, depth + 1, (node, 1)))
        stack.append((rows[~right], left, depth + 1, (node, 0)))
    return BisectionPartition(
        np.array(directions, points.dtype).reshape(-1, points.shape[1]),
        np.array(thresholds, np.float64),
        np.array(children, np.intp).reshape(-1, 2),
        tuple(np.array(ancestors, np.intp).reshape(len(ancestors), len(depths)).T.copy()),
        offset,
    )


def _rounding(points: Rows, offset: FloatArray | None) -> Float64Array:
    """Return by how much a row's product with a direction of length 1 may be wrong, in any container."""
    d, lengths = points.shape[1], np.sqrt(squared_norms(points))
    error = distance_error(np.zeros(1), d, points.dtype) * lengths
    if offset is not None:
        # CSR rows are multiplied where they lie, in float64, and the offset's product is taken from that.
        error = error + distance_error(np.zeros(1), d, np.float64) * 2.0 * np.linalg.norm(offset)
    return np.asarray(error)


def _split(
    points: Rows, rounding: Float64Array, leaves: int, rng: np.random.Generator
) -> tuple[Array, float, Array] | None:
    """Cut rows in proportion to the leaves on each side, along the line between two means.

    Returns the direction, the threshold and which rows lie right of it; None where no cut divides
    the rows, for they are all the same.
    """
    n = points.shape[0]
    if n < 2:
        return None
    low, high = _dense(points[np.sort(rng.choice(n, 2, replace=False))])
    if np.array_equal(low, high):
        high = _dense(points[[_farthest(points, low)]])[0]
    ends = high - low
    for _ in range(4):
        right = points @ (high - low) >= 0.5 * (high @ high - low @ low)
        if right.all() or not right.any():
            break
        low, high = _mean(points[~right]), _mean(points[right])
    for direction in (high - low, ends):
        scale = abs(direction).max()
        if scale > 0.0:
            direction = direction / scale
            value = dots(points, direction[None, :], np.zeros(n, np.intp))
            order = np.argsort(value, kind="stable")
            noise = rounding[order] * np.linalg.norm(direction)
            cut = _cut(value[order], noise, n * (leaves // 2) // leaves)
            if cut is not None:
                return direction, cut, value >= cut
    return None


def _farthest(points: Rows, row: Array) -> int:
    """Return the number of a row that differs most from ``row``."""
    if sp.issparse(points):
        return int((_squares(points) - 2.0 * (points @ row)).argmax())
    return int(abs(points - row).max(axis=1).argmax())


def _cut(values: FloatArray, noise: Float64Array, below: int) -> float | None:
    """Return a threshold with ``below`` of the sorted values under it, or the nearest number without a tie.

    It lies between two values where their type allows, at :data:`BETWEEN` of the way; None where all are
    equal. Values that differ by no more than their ``noise`` are tied, unless all are: another container
    would part them otherwise.
    """
    gaps = np.diff(values)
    borders = 1 + np.flatnonzero(gaps > noise[:-1] + noise[1:])
    if not borders.size:
        borders = 1 + np.flatnonzero(gaps > 0)
    if not borders.size:
        return None
    border = borders[abs(borders - below).argmin()]
    lower, upper = values[border - 1], values[border]
    middle = lower + (upper - lower) * values.dtype.type(BETWEEN)
    # Held in the values' own type, the threshold means the same to the sample and to later rows.
    return float(middle if middle > lower else upper)
