"""Nested clusters of rows, and where those of each level begin and end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gramian._typing import IntArray, Rows
from gramian.engine import Run
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import Partition, fit_partition

#: Levels whose clusters have on average fewer rows than this fraction of ``leaf_rows`` are left out. Chosen
#: by hand, as is the next constant.
LEAST_LEAF = 0.25
#: Clusters of the finest level with more than this many times ``leaf_rows`` are cut evenly: libsvm's time
#: grows faster than the rows, and the next level repairs the lost accuracy.
LARGE_LEAF = 2


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Nested clusters of rows: the partition, each row's leaf, and the order by leaves."""

    partition: Partition
    labels: IntArray
    order: IntArray

    @property
    def above(self) -> list[IntArray]:
        """Cluster number of each leaf on every level, finest level first."""
        leaves = np.arange(self.partition.n_blocks)
        return [leaves, *reversed(self.partition.ancestors)]

    def edges(self, index: IntArray, leaf_rows: int, n_merged: int | None = None) -> list[IntArray]:
        """Return where clusters of rows ``index`` (in order) begin and end, level by level, finest first.

        Levels with small clusters are left out. The last level is all rows together, or the level
        ``n_merged`` merges above the leaves if that is given.
        """
        leaf, whole = self.labels[index], np.zeros(self.partition.n_blocks, np.intp)
        *lower, last = [*self.above, whole] if n_merged is None else self.above[: n_merged + 1]
        found = []
        for level in (*lower, last):
            count = int(level.max()) + 1
            if level is last or (count > 1 and len(index) / count >= LEAST_LEAF * leaf_rows):
                found.append(np.searchsorted(level[leaf], np.arange(count + 1)))
        most = LARGE_LEAF * leaf_rows
        cuts = [
            np.linspace(a, b, max(1, -(-int(b - a) // most)), endpoint=False).astype(np.intp)
            for a, b in pairwise(found[0])
        ]
        cut = np.concatenate([*cuts, found[0][-1:]])
        if len(cut) == len(found[0]):
            return found
        return [cut, *(found[1:] or found)]


def cluster_rows(rows: Rows, kernel: Kernel, leaf_rows: int, branching: int, run: Run) -> Hierarchy:
    """Cluster rows into leaves of about ``leaf_rows`` by nested k-means with ``branching`` parts a level.

    A precomputed kernel clusters kernel features instead. Time O(n d leaves).
    """
    n = int(rows.shape[0])
    n_leaves = max(1, math.ceil(n / leaf_rows))
    n_levels = max(1, round(math.log(n_leaves, branching)))
    partition = fit_partition(
        rows,
        n_leaves,
        method="kernel" if isinstance(kernel, Precomputed) else "kmeans",
        n_levels=n_levels,
        rng=run.rng,
        kernel=kernel,
    )
    labels = partition.route(rows, run.engine)
    return Hierarchy(partition, labels, np.argsort(labels, kind="stable"))
