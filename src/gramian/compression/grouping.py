"""Rows grouped by block, the work units of every pass over the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from gramian._typing import Array, IntArray

#: Rows of one unit: enough for a fast matrix product, few enough to keep features in cache. Chosen by hand.
UNIT_ROWS = 1024


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of a unit that share a node."""

    node: int
    rows: slice


@dataclass(frozen=True)
class Unit:
    """Some rows of a chunk sorted by leaf, and for each level the segments of its nodes."""

    rows: IntArray
    levels: tuple[tuple[Segment, ...], ...]

    @property
    def segments(self) -> Iterator[Segment]:
        """Segments of all levels, from the root down."""
        return chain.from_iterable(self.levels)

    @property
    def upwards(self) -> Iterator[Segment]:
        """Segments of all levels, from the leaves up."""
        return chain.from_iterable(reversed(self.levels))


def units_by_leaf(labels: IntArray, leaf_levels: Array, unit_rows: int = UNIT_ROWS) -> Iterator[Unit]:
    """Cut a chunk into units of at most ``unit_rows`` rows, sorted by leaf.

    ``leaf_levels[l, b]`` is the node of level l above (or at) leaf b. The cut depends only on the labels, not
    on the number of threads, so that sums over units are the same for any engine.
    """
    # NumPy sorts numbers of 8 and 16 bits in linear time.
    order = np.argsort(labels.astype(np.min_scalar_type(leaf_levels.shape[1])), kind="stable")
    for start in range(0, len(order), unit_rows):
        rows = order[start : start + unit_rows]
        leaves = labels[rows]
        yield Unit(rows, tuple(_segments(nodes[leaves]) for nodes in leaf_levels))


def _segments(nodes: IntArray) -> tuple[Segment, ...]:
    cuts = np.flatnonzero(np.diff(nodes)) + 1
    bounds = [0, *cuts.tolist(), len(nodes)]
    return tuple(Segment(int(nodes[a]), slice(a, b)) for a, b in pairwise(bounds))
