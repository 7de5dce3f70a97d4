"""Blocks of nearby rows of about equal size, for preconditioners that are exact within a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import inner_product, squared_norms
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import fit_partition

#: A cluster is cut if it has more than this multiple of the requested block size. Chosen by hand.
LARGEST = 1.25


@dataclass(frozen=True, slots=True)
class Blocks:
    """Order of the rows in which the rows of each block are consecutive."""

    order: IntArray  #: row numbers, (n,)
    edges: IntArray  #: start and end positions of the blocks in that order, (blocks + 1,)

    @property
    def slices(self) -> list[slice]:
        """Positions of each block in the order."""
        return [slice(int(a), int(b)) for a, b in pairwise(self.edges)]

    @property
    def largest(self) -> int:
        """Number of rows of the largest block."""
        return int(np.diff(self.edges).max(initial=0))


def balanced_blocks(
    rows: Rows, kernel: Kernel, size: int, rng: np.random.Generator, engine: Engine
) -> Blocks:
    """Cut the rows into blocks of nearby rows, each with at most 1.25·``size`` rows.

    k-means makes n/size clusters from a sample (of kernel features if the kernel is precomputed). Clusters
    that are too large are halved across the line between two distant rows, as often as needed. Time
    O(n d n/size), memory O(n) in addition to the sample.
    """
    n = int(rows.shape[0])
    count = max(1, -(-n // size))
    partition = fit_partition(
        rows,
        count,
        method="kernel" if isinstance(kernel, Precomputed) else "kmeans",
        n_levels=1,
        rng=rng,
        kernel=kernel,
    )
    labels = partition.route(rows, engine)
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(partition.n_blocks + 1))
    parts: list[IntArray] = []
    for a, b in pairwise(ends):
        parts.extend(_halve(rows, kernel, order[a:b], LARGEST * size))
    parts = [part for part in parts if part.size]
    return Blocks(np.concatenate(parts), np.cumsum([0, *(part.size for part in parts)]))


def _halve(rows: Rows, kernel: Kernel, index: IntArray, most: float) -> Iterator[IntArray]:
    """Yield parts of the rows ``index`` with at most ``most`` nearby rows each."""
    if len(index) <= most:
        yield index
        return
    along = _line(rows[index], kernel)
    # Parts should be of equal size in the end, so an odd number of parts is divided unevenly.
    count = -(-len(index) // int(most))
    cut = len(index) * (count // 2) // count
    place = np.argpartition(along, cut)
    yield from _halve(rows, kernel, np.sort(index[place[:cut]]), most)
    yield from _halve(rows, kernel, np.sort(index[place[cut:]]), most)


def _line(points: Rows, kernel: Kernel) -> Float64Array:
    """Return the coordinates of points along the line between two distant ones."""
    first = _farthest(points, kernel, 0)
    second = _farthest(points, kernel, first)
    return _squares(points, kernel, first) - _squares(points, kernel, second)


def _farthest(points: Rows, kernel: Kernel, row: int) -> int:
    return int(_squares(points, kernel, row).argmax())


def _squares(points: Rows, kernel: Kernel, row: int) -> Float64Array:
    """Return squared distances to one of the points, in the kernel's space if it is precomputed."""
    one = points[[row]]
    if isinstance(kernel, Precomputed):
        diagonal = kernel.diagonal(points)
        products = np.asarray(kernel(points, one, dtype=np.float64, n_jobs=1))[:, 0]
        return np.asarray(diagonal - 2.0 * products + diagonal[row])
    if sp.issparse(points):
        norms = squared_norms(points)
        return np.asarray(norms - 2.0 * inner_product(points, one)[:, 0] + norms[row])
    gap = np.asarray(points, np.float64) - np.asarray(one, np.float64)
    return np.asarray(np.einsum("ij,ij->i", gap, gap))
