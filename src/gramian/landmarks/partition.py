"""Partition of the rows into blocks, fitted on a sample of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from gramian._numerics import rank_cutoff, whiten
from gramian._random import seed_for_sklearn
from gramian._tiles import one_blas_thread
from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense, squared_norms
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.bisection import bisect
from gramian.landmarks.routing import (
    BisectionPartition,
    CenterPartition,
    FeaturePartition,
    Partition,
    mean_row,
    shift_rows,
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
    with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
        if method == "tree":
            return bisect(sample, n_blocks, n_levels, rng)
        if method == "kernel" and n_blocks > 1:
            return _by_features(sample, n_blocks, max(1, n_levels), rounds, kernel, rng)
        return _nested(sample, n_blocks, max(1, n_levels), method, rounds, rng)


def _centers(sample: Rows, count: int, method: str, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Return at most ``count`` distinct centres."""
    if count == 1:
        return mean_row(sample)[None, :]
    points: Rows
    offset = np.zeros(sample.shape[1], sample.dtype)
    if sp.issparse(sample):
        # Copies, because scikit-learn refuses 64-bit indices, and mini-batch k-means refuses read-only
        # arrays.
        index = (part.astype(np.int32) for part in (sample.indices, sample.indptr))
        points = sp.csr_matrix((sample.data.copy(), *index), shape=sample.shape)
    else:
        # Mini-batch k-means and farthest-first do not centre the rows themselves.
        offset = mean_row(sample)
        points = shift_rows(sample, offset)
    if method == "kcenters":
        return dense(sample[farthest_first(points, count, rng)[0]])
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
    return np.asarray((model.cluster_centers_ + offset).astype(sample.dtype, copy=False))


def farthest_first(points: Rows, count: int, rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """Choose rows, each the farthest from those before it; return their numbers and squared distances.

    The first row is drawn at random, with distance infinity. The distance of row k + 1 is the radius at which
    balls about the first k cover all rows, at most twice the smallest possible for k balls. Stops early once
    every row equals a chosen one. Time O(n d count), memory O(n). Source: Gonzalez 1985.
    """
    # float32 would round all distances at the scale of the farthest outlier.
    points = points.astype(np.float64, copy=False)
    norms = squared_norms(points)
    chosen, squares = [int(rng.integers(points.shape[0]))], [np.inf]
    nearest = np.full(len(norms), np.inf)
    while len(chosen) < count:
        last = chosen[-1]
        center = dense(points[[last]])[0]
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
    if len(first) < partition.n_blocks:
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
    white = whiten(0.5 * (gram + gram.T), count, cutoff, definite=kernel.definite)
    columns = kernel.against(points, rows.dtype)
    features = _unit(columns(rows) @ white.vectors.astype(rows.dtype))
    nested = _nested(features, n_blocks, n_levels, "kmeans", rounds, rng)
    nested = _without_empty(CenterPartition(_unit(nested.centers), nested.ancestors), features)
    weights = white.vectors.astype(rows.dtype) @ nested.centers.T
    return FeaturePartition(points, columns, np.ascontiguousarray(weights), nested.ancestors)


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
