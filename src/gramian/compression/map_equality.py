"""Comparison of two feature maps by their numbers, not by identity."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian.compression.features import FeatureMap
from gramian.kernels.columns import Columns
from gramian.solvers.core import CoupledCore


def difference(left: FeatureMap, right: FeatureMap) -> str | None:
    """Return the name of the first difference of two maps ("kernels", "landmarks", …), or None if equal.

    Maps with the same numbers give every row the same features, so their sums can be added. Time
    O(bytes of the map).
    """
    if left is right:
        return None
    if left.kernel != right.kernel:
        return f"the kernels ({left.kernel} and {right.kernel})"
    if left.dtype != right.dtype:
        return f"the tiles' types ({left.dtype.name} and {right.dtype.name})"
    if left.forest != right.forest:
        return (
            f"the ranks or numbers of blocks ({left.partition.n_blocks} blocks of total rank {left.rank}, "
            f"and {right.partition.n_blocks} of {right.rank})"
        )
    if not same_values(left.partition, right.partition):
        return "the partitions"
    for mine, its in zip(left.nodes, right.nodes, strict=True):
        if not same_values(mine.landmarks, its.landmarks):
            return "the landmarks"
        if not (same_values(mine.vectors, its.vectors) and same_values(mine.projection, its.projection)):
            return "the whitening vectors"
        if not same_values(mine.columns, its.columns):
            return "the random features"
    return None if _same_core(left.core, right.core) else "the cores"


def _same_core(left: CoupledCore | None, right: CoupledCore | None) -> bool:
    if left is None or right is None:
        return left is right
    return all(np.array_equal(left.row_strip(s), right.row_strip(s)) for s in range(len(left.ranks)))


def same_values(left: Any, right: Any) -> bool:
    """Tell whether two values have the same type and are equal, field by field and number by number.

    Arrays may lie in memory or in a memory map, in any order of their axes and bytes.
    """
    if left is right:
        return True
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=") and np.array_equal(left, right)
    if type(left) is not type(right):
        return False
    if sp.issparse(left):
        parts = ("shape", "data", "indices", "indptr")
        return all(same_values(getattr(left, part), getattr(right, part)) for part in parts)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same_values, left, right))
    if isinstance(left, Columns) and not is_dataclass(left):
        return True  # columns follow from kernel and landmarks, which are compared on their own
    if is_dataclass(left):
        return all(
            same_values(getattr(left, f.name), getattr(right, f.name)) for f in fields(left) if f.compare
        )
    return bool(left == right)
