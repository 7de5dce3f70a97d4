"""Partition by a balanced tree: rows are cut along the line between two means, down to the leaves."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from gramian._numerics import distance_error
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.kernels.columns import dense, squared_norms
from gramian.landmarks.routing import BisectionPartition, dots, mean_row, shift_rows

#: Where a tree puts its threshold between two values: at the golden ratio. A threshold half-way could
#: coincide with a new value of a grid (3 between 2 and 4), and rounding would then choose the side. No
#: fraction is farther from all simple fractions.
BETWEEN = 0.618


def bisect(sample: Rows, n_blocks: int, n_levels: int, rng: np.random.Generator) -> BisectionPartition:
    """Fit a balanced tree with ``n_blocks`` leaves at most, fewer where rows repeat.

    sample : (n, d), dense or CSR, of a float type. Time O(n d log c), memory a copy of the sample.
    """
    offset = None if sp.issparse(sample) else mean_row(sample)
    points = sample if offset is None else shift_rows(sample, offset)
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
    low, high = dense(points[np.sort(rng.choice(n, 2, replace=False))])
    if np.array_equal(low, high):
        high = dense(points[[_farthest(points, low)]])[0]
    ends = high - low
    for _ in range(4):
        right = points @ (high - low) >= 0.5 * (high @ high - low @ low)
        if right.all() or not right.any():
            break
        low, high = mean_row(points[~right]), mean_row(points[right])
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
        squares = np.asarray(points.multiply(points).sum(axis=1), points.dtype).ravel()
        return int((squares - 2.0 * (points @ row)).argmax())
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
