"""Partitions of the rows into blocks, fitted on a sample, and the routing of any row to its block."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from gramian._random import seed_for_sklearn
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean

#: Rows on which a partition is fitted at most (the MEKA paper, section 4: 20,000 suffice).
SAMPLE_ROWS = 20_000
#: Up to this many centres start spread out (k-means++): with few blocks one bad start can double the
#: error; with hundreds it costs more than the rounds and gains nothing.
SPREAD_START = 64
METHODS = ("kmeans", "minibatch", "kcenters", "tree")


class Partition(ABC):
    """Disjoint blocks V_1 … V_c that cover the space: every row has one block.

    ``ancestors[l][b]`` is the block of level l (coarser first) in which leaf block b lies; leaves are
    numbered so that those of one ancestor are consecutive. A flat partition has no ancestors.
    """

    ancestors: tuple[IntArray, ...]

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of leaf blocks."""

    @abstractmethod
    def _route_tile(self, X: Rows) -> IntArray:
        """Return the block of each row of a tile."""

    def route(self, X: Rows, engine: Engine | None = None) -> IntArray:
        """Return the leaf block of each row. Time O(n d c), or O(n d log c) for a tree."""
        n = X.shape[0]
        labels = np.zeros(n, np.intp)
        if self.n_blocks > 1:

            def fill(rows: slice) -> None:
                labels[rows] = self._route_tile(X[rows])

            # A tile holds the scores of its rows against every centre.
            (engine or Engine(1)).run(fill, row_slices(n, 4 * tile_rows(self.n_blocks, 4)))
        return labels


@dataclass(frozen=True)
class CenterPartition(Partition):
    """Each row belongs to the nearest centre in Euclidean distance."""

    centers: FloatArray
    ancestors: tuple[IntArray, ...] = ()
    _offset: FloatArray = field(init=False, repr=False)
    _factor: FloatArray = field(init=False, repr=False)
    _half_norms: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Scores x·c − ‖c‖²/2 about the mean of the centres keep their digits far from the origin.
        offset = self.centers.mean(axis=0)
        moved = self.centers - offset
        object.__setattr__(self, "_offset", offset)
        object.__setattr__(self, "_factor", np.ascontiguousarray(moved.T))
        object.__setattr__(self, "_half_norms", 0.5 * np.einsum("ij,ij->i", moved, moved))

    @property
    def n_blocks(self) -> int:
        """Number of centres."""
        return len(self.centers)

    def _route_tile(self, X: Rows) -> IntArray:
        dtype = self._factor.dtype
        if sp.issparse(X):
            scores = np.asarray(X @ self._factor) - self._offset @ self._factor
        else:
            scores = np.subtract(X, self._offset, dtype=dtype, casting="unsafe") @ self._factor
        scores -= self._half_norms
        return scores.argmax(axis=1)


@dataclass(frozen=True)
class BisectionPartition(Partition):
    """Balanced binary tree of half-spaces: node i sends x left where x·w_i < t_i.

    ``children[i]`` holds the left and right child: an inner node, or −1 − leaf.
    """

    directions: FloatArray
    thresholds: FloatArray
    children: IntArray
    ancestors: tuple[IntArray, ...] = ()

    @property
    def n_blocks(self) -> int:
        """Number of leaves."""
        return len(self.thresholds) + 1

    def _route_tile(self, X: Rows) -> IntArray:
        node = np.zeros(X.shape[0], np.intp)
        active = np.arange(X.shape[0])
        while active.size:
            at = node[active]
            if sp.issparse(X):
                used, inverse = np.unique(at, return_inverse=True)
                values = np.asarray(X[active] @ self.directions[used].T)
                value = values[np.arange(len(active)), inverse]
            else:
                value = np.einsum("ij,ij->i", X[active], self.directions[at])
            right = (value >= self.thresholds[at]).astype(np.intp)
            node[active] = self.children[at, right]
            active = active[node[active] >= 0]
        return -1 - node


def fit_partition(
    sample: Rows,
    n_blocks: int,
    *,
    method: str = "kmeans",
    n_levels: int = 1,
    rounds: int = 15,
    rng: np.random.Generator,
) -> Partition:
    """Fit a partition of about ``n_blocks`` leaf blocks on a sample of rows.

    method : ``"kmeans"`` and ``"minibatch"`` (scikit-learn's), ``"kcenters"`` (farthest first,
        Gonzalez 1985), ``"tree"`` (balanced bisection along the line between two means: routing in
        O(d log c) for many blocks).
    n_levels : levels of nested blocks, the leaves included; ``n_blocks`` counts the leaves.

    Empty blocks are dropped, so there may be fewer blocks than asked for, and never more than
    distinct rows. Time O(sample · c · d · rounds), or O(sample · d · log c) for the tree.
    """
    if method not in METHODS:
        raise InputError(
            f"partition={method!r} is unknown. Choose one of {', '.join(METHODS)}."
            + did_you_mean(method, METHODS)
        )
    n = sample.shape[0]
    if n > SAMPLE_ROWS:
        keep = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
        sample, n = sample[keep], SAMPLE_ROWS
    n_blocks = int(max(1, min(n_blocks, n)))
    if method == "tree":
        return _bisect(sample, n_blocks, n_levels, rng)
    if n_blocks == 1:
        return CenterPartition(_mean(sample)[None, :], _flat_ancestors(n_levels))
    if n_levels <= 1:
        return _without_empty(_centers(sample, n_blocks, method, rounds, rng), sample)
    return _nested(sample, n_blocks, n_levels, method, rounds, rng)


def _flat_ancestors(n_levels: int) -> tuple[IntArray, ...]:
    return tuple(np.zeros(1, np.intp) for _ in range(n_levels - 1))


def _mean(sample: Rows) -> FloatArray:
    dtype = sample.dtype if sample.dtype.kind == "f" else np.float64
    return np.asarray(sample.mean(axis=0), dtype).ravel()


def _centers(sample: Rows, count: int, method: str, rounds: int, rng: np.random.Generator) -> FloatArray:
    count = min(count, sample.shape[0])
    if method == "kcenters":
        return _farthest_first(sample, count, rng)
    seed = seed_for_sklearn(rng)
    model: Any
    if method == "kmeans":
        init = "k-means++" if count <= SPREAD_START else "random"
        model = KMeans(count, init=init, n_init=1, max_iter=rounds, random_state=seed, copy_x=True)
    else:
        model = MiniBatchKMeans(count, n_init=1, max_iter=rounds, batch_size=4096, random_state=seed)
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: the empty ones are dropped below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(sample)
    return np.asarray(model.cluster_centers_)


def _farthest_first(sample: Rows, count: int, rng: np.random.Generator) -> FloatArray:
    points = np.asarray(sample.toarray() if sp.issparse(sample) else sample)
    points = points.astype(np.result_type(points.dtype, np.float32), copy=False)
    chosen = [int(rng.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < count:
        gap = points - points[chosen[-1]]
        np.minimum(nearest, np.einsum("ij,ij->i", gap, gap), out=nearest)
        far = int(nearest.argmax())
        if nearest[far] <= 0.0:
            break  # every remaining row repeats a chosen one
        chosen.append(far)
    return points[chosen].copy()


def _without_empty(centers: FloatArray, sample: Rows) -> CenterPartition:
    partition = CenterPartition(centers)
    counts = np.bincount(partition.route(sample), minlength=len(centers))
    return partition if counts.all() else CenterPartition(centers[counts > 0])


def _nested(
    sample: Rows, n_blocks: int, n_levels: int, method: str, rounds: int, rng: np.random.Generator
) -> CenterPartition:
    """k-means within k-means; a block is cut into parts in proportion to its rows."""
    groups: list[Array] = [np.arange(sample.shape[0])]
    paths: list[tuple[int, ...]] = [()]
    centers: list[FloatArray] = []
    for level in range(1, n_levels + 1):
        target = max(1, round(n_blocks ** (level / n_levels)))
        new_groups: list[Array] = []
        new_paths: list[tuple[int, ...]] = []
        centers = []
        for path, rows in zip(paths, groups, strict=True):
            parts = max(1, min(len(rows), round(target * len(rows) / sample.shape[0])))
            points = sample[rows]
            local = (
                _without_empty(_centers(points, parts, method, rounds, rng), points)
                if parts > 1
                else CenterPartition(_mean(points)[None, :])
            )
            labels = local.route(points)
            for part in range(local.n_blocks):
                mine = rows[labels == part]
                if len(mine):
                    new_paths.append((*path, len(new_groups)))
                    new_groups.append(mine)
                    centers.append(local.centers[part])
        groups, paths = new_groups, new_paths
    # Routing by the nearest leaf centre nests by definition: a block is the union of its leaves.
    ancestors = np.asarray([path[:-1] for path in paths], np.intp).reshape(len(paths), n_levels - 1)
    return CenterPartition(np.asarray(centers), tuple(ancestors.T.copy()))


def _bisect(sample: Rows, n_blocks: int, n_levels: int, rng: np.random.Generator) -> BisectionPartition:
    points = np.asarray(sample.toarray() if sp.issparse(sample) else sample)
    points = points.astype(np.result_type(points.dtype, np.float32), copy=False)
    d = points.shape[1]
    directions = np.zeros((n_blocks - 1, d), points.dtype)
    thresholds = np.zeros(n_blocks - 1, points.dtype)
    children = np.zeros((n_blocks - 1, 2), np.intp)
    tops = [2 ** max(1, round(np.log2(max(2, n_blocks)) * level / n_levels)) for level in range(1, n_levels)]
    ancestors = np.zeros((n_levels - 1, n_blocks), np.intp)
    counters = [0] * (n_levels - 1)
    # (rows, leaves below, first leaf, where to write the child's number, depth)
    stack: list[tuple[Array, int, int, tuple[int, int] | None, int]] = [
        (np.arange(len(points)), n_blocks, 0, None, 0)
    ]
    used = 0
    while stack:
        rows, leaves, first, where, depth = stack.pop()
        for level, top in enumerate(tops):
            starts = 2**depth == top or (leaves == 1 and 2**depth < top)
            if starts:
                ancestors[level, first : first + leaves] = counters[level]
                counters[level] += 1
        if leaves == 1:
            if where is not None:
                children[where] = -1 - first
            continue
        node, used = used, used + 1
        if where is not None:
            children[where] = node
        left = leaves // 2
        direction, value, cut = _split(points, rows, left / leaves, rng)
        directions[node], thresholds[node] = direction, cut
        below = value < cut
        stack.append((rows[~below], leaves - left, first + left, (node, 1), depth + 1))
        stack.append((rows[below], left, first, (node, 0), depth + 1))
    return BisectionPartition(directions, thresholds, children, tuple(ancestors))


def _split(points: Array, rows: Array, share: float, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Direction between two means of the rows, and the quantile that sends ``share`` to the left."""
    if len(rows) < 2:
        return np.zeros(points.shape[1], points.dtype), np.zeros(len(rows), points.dtype), 0.0
    mine = points[rows]
    low, high = mine[rng.choice(len(rows), 2, replace=False)]
    for _ in range(4):
        right = mine @ (high - low) >= 0.5 * (high @ high - low @ low)
        if right.all() or not right.any():
            break
        low, high = mine[~right].mean(axis=0), mine[right].mean(axis=0)
    direction = high - low
    value = np.einsum("ij,j->i", mine, direction)
    return direction, value, float(np.quantile(value, share))
