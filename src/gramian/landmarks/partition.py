"""Partition of the rows into blocks, fitted on a sample of them."""

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

#: Largest sample on which a partition is fitted. The MEKA paper, section 4, finds 20,000 rows sufficient.
SAMPLE_ROWS = 20_000
#: Up to this many centres are initialised by k-means++. With few blocks one bad start can double the error;
#: with hundreds k-means++ costs more than the rounds and gains nothing. Chosen by hand.
SPREAD_START = 64
#: Rows of one mini-batch of k-means. Chosen by hand.
BATCH_ROWS = 4096
#: Where a tree puts its threshold between two values: at the golden ratio. A threshold half-way could
#: coincide with a new value of a grid (3 between 2 and 4), and rounding would then choose the side. No
#: fraction is farther from all simple fractions.
BETWEEN = 0.618
METHODS = ("kmeans", "minibatch", "kcenters", "tree", "kernel")
#: ``partition="kernel"`` clusters by as many Nyström features as there are blocks, within these bounds.
#: Chosen by hand.
LEAST_FEATURES, MOST_FEATURES = 256, 512
#: Rows per block on which these clusters are fitted, and the least number in all. Chosen by hand.
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
        Gonzalez 1985), ``"tree"`` (balanced bisection along the line between two means, with routing in
        O(d log c), for many blocks), ``"kernel"`` (spherical k-means of Nyström features, for a precomputed
        kernel or one that is not Euclidean; routing takes 256 to 512 kernel values per row).
    n_levels : levels of nested blocks, including the leaves; ``n_blocks`` counts the leaves.
    rounds : largest number of k-means rounds.
    kernel : the model's kernel, needed for ``"kernel"``. A precomputed kernel allows no other method, because
        its rows are row numbers.

    Returns centres or directions in the sample's float type (float32 for bytes, float64 for wider integers).
    Blocks without a row of the sample are dropped, so there may be fewer blocks than asked for, and never
    more than distinct rows. Time O(n c d rounds), or O(n d log c) for the tree; memory two copies of the
    sample used.

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
            "partition='kernel', or a method with only a global basis, such as Nystrom."
        )
    n = sample.shape[0]
    if n == 0:
        raise InputError("The sample has 0 rows; a partition needs at least 1. Pass a table with rows.")
    if n > SAMPLE_ROWS:
        keep = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
        sample, n = sample[keep], SAMPLE_ROWS
    sample = sample.astype(np.result_type(sample.dtype, np.float32), copy=False)
    n_blocks = int(max(1, min(n_blocks, n)))
    # One thread makes the result independent of the number of threads: scikit-learn adds partial sums in the
    # order in which its threads end. On samples of this size more threads would save little.
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
        # Copies, because scikit-learn refuses 64-bit indices, and mini-batch k-means refuses read-only
        # arrays.
        index = (part.astype(np.int32) for part in (sample.indices, sample.indptr))
        points = sp.csr_matrix((sample.data.copy(), *index), shape=sample.shape)
    else:
        # Mini-batch k-means and farthest-first do not centre the rows themselves.
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
        # Fewer distinct rows than clusters give empty clusters, which are dropped below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(points)
    return (model.cluster_centers_ + offset).astype(sample.dtype, copy=False)


def farthest_first(points: Rows, count: int, rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """Choose rows, each the farthest from those before it; return their numbers and squared distances.

    The first row is drawn at random, with distance infinity. The distance of row k + 1 is the radius at which
    balls about the first k cover all rows, at most twice the smallest possible for k balls. Stops early once
    every row equals a chosen one. Time O(n d count), memory O(n). Source: Gonzalez 1985.
    """
    # float32 would round all distances at the scale of the farthest outlier.
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
    """Drop repeated centres, then centres that are not the nearest of any row of the sample."""
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
    """Fit nested centres: each block of a level is split into parts in proportion to its rows."""
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
    # Rows are routed to the nearest leaf centre, and a coarser block is the union of its leaves. A leaf may
    # therefore lose rows to a leaf of another parent, and all of them at worst.
    above = np.asarray([path[:-1] for path in paths], np.intp).reshape(len(paths), n_levels - 1)
    return _without_empty(CenterPartition(np.asarray(centers), tuple(above.T.copy())), sample)


def _by_features(
    sample: Rows, n_blocks: int, n_levels: int, rounds: int, kernel: Kernel | None, rng: np.random.Generator
) -> FeaturePartition:
    """Fit centres by spherical k-means on Nyström features.

    Spherical k-means compares angles, because rows far from all landmarks have features near zero: with plain
    k-means, abalone at h = 0.2 had half of its rows in one of 20 blocks. With angles, MEKA's errors were
    within 6 % of those with k-means on the points, in both directions (measured by hand). Source: Dhillon and
    Modha 2001.
    """
    if kernel is None:
        raise InputError("partition='kernel' clusters by the kernel. Pass kernel=, or take 'kmeans'.")
    fitted = min(sample.shape[0], max(ROWS_PER_BLOCK * n_blocks, LEAST_ROWS))
    rows = sample[np.sort(rng.choice(sample.shape[0], fitted, replace=False))]
    count = min(fitted, feature_count(n_blocks))
    points = rows[np.sort(rng.choice(fitted, count, replace=False))]
    gram = kernel(points, dtype=np.float64, n_jobs=1)
    # Clustering gains nothing from directions near the rounding of float32.
    cutoff = rank_cutoff(np.float32)
    white = whiten(0.5 * (gram + gram.T), count, cutoff, definite=not isinstance(kernel, Precomputed))
    columns = kernel.against(points, rows.dtype)
    features = _unit(columns(rows) @ white.vectors.astype(rows.dtype))
    found = _nested(features, n_blocks, n_levels, "kmeans", rounds, rng)
    found = _without_empty(CenterPartition(_unit(found.centers), found.ancestors), features)
    weights = white.vectors.astype(rows.dtype) @ found.centers.T
    return FeaturePartition(points, columns, np.ascontiguousarray(weights), found.ancestors)


def _unit(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def feature_count(n_blocks: int) -> int:
    """Return the number of features that ``partition="kernel"`` clusters by."""
    return int(np.clip(n_blocks, LEAST_FEATURES, MOST_FEATURES))


def partition_bytes(
    method: str, n_rows: int, n_blocks: int, held: int, n_features: int, itemsize: int
) -> int:
    """Return the bytes for fitting on rows of ``held`` numbers: k-means's copies, and the centres."""
    rows, gram = min(n_rows, SAMPLE_ROWS), 0
    if method == "kernel" and n_blocks > 1:
        rows = min(rows, max(ROWS_PER_BLOCK * n_blocks, LEAST_ROWS))
        held = n_features = feature_count(n_blocks)
        gram = 4 * 8 * held**2
    return rows * (4 * held * itemsize + 64) + 4 * n_blocks * n_features * itemsize + gram


def _shares(sizes: IntArray, target: int) -> IntArray:
    """Divide ``target`` parts among blocks by their sizes, at least one each (D'Hondt's rule)."""
    parts = np.ones(len(sizes), np.intp)
    for _ in range(target - len(sizes)):
        quotient = sizes / parts
        largest = int(quotient.argmax())
        if quotient[largest] <= 1.0:
            break  # every part has a single row
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
    # (rows, leaves below, depth, where to write the number); the left child is popped first, so leaves are in
    # order.
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
        # Divide the leaves in proportion to the rows: leaves // 2 go left unless values tie at the cut.
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
    """Bound the error of each row's product with a direction of length 1, for any container of the rows."""
    d, lengths = points.shape[1], np.sqrt(squared_norms(points))
    error = distance_error(np.zeros(1), d, points.dtype) * lengths
    if offset is not None:
        # CSR rows are not centred: they are multiplied in float64, and the offset's product is subtracted.
        error = error + distance_error(np.zeros(1), d, np.float64) * 2.0 * np.linalg.norm(offset)
    return np.asarray(error)


def _split(
    points: Rows, rounding: Float64Array, leaves: int, rng: np.random.Generator
) -> tuple[Array, float, Array] | None:
    """Cut rows in proportion to the leaves on each side, along the line between two means.

    Returns the direction, the threshold and a mask of the rows on the right; None if all rows are the same.
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
    """Return a threshold with ``below`` of the sorted values under it, or as near to that as ties allow.

    The threshold lies between two values if their type allows, at the fraction :data:`BETWEEN`; it is None if
    all values are equal. Values that differ by no more than their ``noise`` count as tied, because another
    container of the same rows could order them differently; if that ties all of them, only equal values count
    as tied.
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
    # In the values' own type the threshold separates later rows exactly as it separates the sample.
    return float(middle if middle > lower else upper)
