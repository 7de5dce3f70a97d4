"""Nearest training rows of any row: a search among the leaves of a tree about the row's own leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gramian._tiles import row_slices
from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.landmarks.bisection import bisect
from gramian.landmarks.routing import BisectionPartition

#: Rows of a leaf, and rows of the nearest leaves that are searched at least. Up to so many rows all are
#: searched, and the neighbours are the true ones. Chosen by hand.
LEAF_ROWS, SEARCHED_ROWS = 128, 4_096
#: Most rows that the tree is fitted on. Chosen by hand.
FITTED_ROWS = 100_000
#: Rows that are searched for at a time in a leaf. Chosen by hand.
GROUP_ROWS = 64


@dataclass(frozen=True)
class NearestRows:
    """Points in leaves of a bisection, with the leaves about each leaf: finds near points of any row.

    points : (n, d) in units of the metric, in the order of their leaves; numbers : (n,), what they were
    called before; starts : (leaves + 1,), where each leaf begins; nearest : (leaves, leaves kept), the leaves
    by the distance of their centres from each leaf's, itself first; kept : (leaves,), how many are searched.
    """

    points: Float64Array
    numbers: IntArray
    partition: BisectionPartition
    starts: IntArray
    nearest: IntArray
    kept: IntArray

    @classmethod
    def of(cls, points: Float64Array, rng: np.random.Generator) -> NearestRows:
        """Return the search among these points. Time O(n d log n + leaves²), memory two copies."""
        n = len(points)
        sample = points if n <= FITTED_ROWS else points[np.sort(rng.choice(n, FITTED_ROWS, replace=False))]
        leaves = round(n / LEAF_ROWS) if n > SEARCHED_ROWS else 1
        partition = bisect(sample, leaves, 1, rng)
        labels = partition.route(points)
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=partition.n_blocks)
        starts = np.append(0, np.cumsum(sizes))
        centers = np.add.reduceat(points[order], np.minimum(starts[:-1], n - 1), axis=0)
        centers /= np.maximum(sizes, 1)[:, None]
        some = min(len(sizes), 4 * (1 + SEARCHED_ROWS // LEAF_ROWS))
        nearest = np.empty((len(sizes), some), np.intp)
        for part in row_slices(len(sizes), GROUP_ROWS):
            away = cdist(centers[part], centers)
            away[:, sizes == 0] = np.inf
            nearest[part] = np.argsort(away, axis=1, kind="stable")[:, :some]
        kept = np.minimum(1 + (np.cumsum(sizes[nearest], axis=1) < SEARCHED_ROWS).sum(axis=1), some)
        return cls(points[order], order, partition, starts, nearest, kept)

    def groups(self, rows: Float64Array, engine: Engine) -> list[tuple[int, IntArray]]:
        """Return (leaf, numbers of the rows in it) for all rows, in groups of up to 64."""
        labels = self.partition.route(rows, engine)
        order = np.argsort(labels, kind="stable")
        bounds = np.searchsorted(labels[order], np.arange(self.partition.n_blocks + 1))
        return [
            (leaf, order[bounds[leaf] : bounds[leaf + 1]][part])
            for leaf in np.flatnonzero(np.diff(bounds)).tolist()
            for part in row_slices(int(bounds[leaf + 1] - bounds[leaf]), GROUP_ROWS)
        ]

    def found(self, leaf: int, rows: Float64Array, count: int, without: IntArray | None = None) -> IntArray:
        """Return the positions in ``points`` of near points of each row of a leaf, (rows, count).

        They are the nearest of the points in the leaves that are searched, or all of these if they are fewer.
        ``without`` : the number of the training row that each row is itself, which is left out. Order within
        a row is arbitrary.
        """
        leaves = self.nearest[leaf, : self.kept[leaf]]
        at = np.concatenate([np.arange(self.starts[one], self.starts[one + 1]) for one in leaves])
        center = self.points[at].mean(axis=0)
        points, moved = self.points[at] - center, rows - center
        with np.errstate(over="ignore", invalid="ignore"):  # to a row that far away, all are equally near
            squares = np.einsum("ij,ij->i", points, points) - 2.0 * (moved @ points.T)
        if without is not None:
            squares[self.numbers[at] == without[:, None]] = np.inf
        count = min(count, len(at) - (without is not None))
        if count < len(at):
            return at[np.argpartition(squares, max(0, count - 1), axis=1)[:, :count]]
        return np.tile(at, (len(rows), 1))
