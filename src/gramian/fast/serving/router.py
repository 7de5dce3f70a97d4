"""Routing of rows to leaves by a tree of half-spaces; one product and table lookup covers four levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg as la

from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.fast.serving.tiles import LeafTiles

#: Levels of one stage. Its 15 half-spaces and a spare bit make 16 bits, which index a table.
STAGE_LEVELS = 4
#: Most rows that a node's half-space is fitted on. Chosen by hand.
NODE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class TreeRouter:
    """Complete binary tree of half-spaces that routes rows to leaves: right if w·[z, 1] > 0, else left.

    stages : an array for each stage of at most four levels, shape (trees, nodes + padding, r + 1). It holds
        the half-spaces of the complete trees below the leaves of the previous stage, in breadth-first order.
    levels : number of levels of each stage.
    """

    stages: tuple[FloatArray, ...] = ()
    levels: tuple[int, ...] = ()

    @property
    def n_leaves(self) -> int:
        """Leaves: 2 to the number of levels."""
        return int(2 ** sum(self.levels))

    def route(self, points: FloatArray) -> Array:
        """Return the leaf of each row of points (n, r + 1), the last column 1. Time O(15 n r) a stage.

        It is fastest for points in Fortran order, which hold one coordinate after the other.
        The type of the answer is the smallest for the number of leaves: one byte for up to eight levels.
        """
        kind = np.min_scalar_type(self.n_leaves - 1)
        labels = np.zeros(len(points), kind)
        for planes, levels in zip(self.stages, self.levels, strict=True):
            table = _leaf_table(levels)
            if len(planes) == 1:
                code = _codes(points @ planes[0].T)
            else:
                tiles = LeafTiles.of(labels, len(planes))
                spread = tiles.spread(points.T).transpose(1, 2, 0)
                sides = np.matmul(spread, planes.swapaxes(1, 2)[tiles.leaves])
                code = tiles.gather(_codes(sides.reshape(-1, planes.shape[1])))
            labels = labels * kind.type(2**levels) + table.take(code)
        return labels

    def leaf(self, point: FloatArray) -> int:
        """Return the leaf of one point (r + 1,), the last number 1."""
        found = 0
        for planes, levels in zip(self.stages, self.levels, strict=True):
            sides, node = planes[found].dot(point).tolist(), 0
            for _ in range(levels):
                node = 2 * node + 1 + (sides[node] > 0)
            found = found * 2**levels + node - (2**levels - 1)
        return found

    def astype(self, dtype: np.dtype[np.floating]) -> TreeRouter:
        """Return the router with half-spaces of another float type."""
        return TreeRouter(tuple(stage.astype(dtype) for stage in self.stages), self.levels)


def stage_levels(n_levels: int) -> tuple[int, ...]:
    """Return the number of levels of each stage: four, and the rest in the last."""
    return tuple(min(STAGE_LEVELS, n_levels - at) for at in range(0, n_levels, STAGE_LEVELS))


def stage_width(levels: int) -> int:
    """Return the number of half-spaces of a stage's tree, rounded up so that their signs fill whole bytes."""
    return 8 * -(-(2**levels - 1) // 8)


def fit_router(points: Float64Array, n_levels: int, rng: np.random.Generator) -> TreeRouter:
    """Fit a balanced tree: each node splits its rows at the median of their leading principal component.

    points : (n, r). A node whose rows all coincide sends them left. Time O(n r levels).
    """
    stages: list[Float64Array] = []
    levels = stage_levels(n_levels)
    labels = np.zeros(len(points), np.intp)
    for at, depth in enumerate(levels):
        trees, width = 2 ** sum(levels[:at]), stage_width(depth)
        planes = np.zeros((trees, width, points.shape[1] + 1))
        planes[..., -1] = -1.0
        finer = np.empty_like(labels)
        for tree in range(trees):
            mine = np.flatnonzero(labels == tree)
            finer[mine] = tree * 2**depth + _grow(points[mine], depth, planes[tree], rng)
        labels = finer
        stages.append(planes)
    return TreeRouter(tuple(stages), levels)


def _grow(points: Float64Array, depth: int, planes: Float64Array, rng: np.random.Generator) -> IntArray:
    """Write the half-spaces of one complete tree into ``planes`` and return the leaf of each row."""
    node = np.zeros(len(points), np.intp)
    for level in range(depth):
        for i in range(2**level - 1, 2 ** (level + 1) - 1):
            mine = np.flatnonzero(node == i)
            node[mine] = 2 * i + 1
            if len(mine) < 2:
                continue
            plane = _halving(points[mine], rng)
            if plane is None:
                continue
            planes[i] = plane
            node[mine] += points[mine] @ plane[:-1] + plane[-1] > 0
    return node - (2**depth - 1)


def _halving(points: Float64Array, rng: np.random.Generator) -> Float64Array | None:
    """Return [w, −t] with w·z > t for about half of the rows, or None if all rows coincide."""
    if len(points) > NODE_ROWS:
        points = points[rng.choice(len(points), NODE_ROWS, replace=False)]
    if (points == points[0]).all():
        return None
    moved = points - points.mean(axis=0)
    direction = la.eigh(moved.T @ moved)[1][:, -1]
    along = points @ direction
    ordered = np.sort(along)
    middle = len(ordered) // 2
    # Cut midway between two different values, so that rounding in another float type moves no sampled row.
    low = ordered[ordered < ordered[middle]]
    cut = 0.5 * (ordered[middle] + low[-1]) if len(low) else ordered[middle]
    return np.append(direction, -cut)


def _codes(sides: FloatArray) -> Array:
    """Return the signs of each row packed into one number: 8 or 16 half-spaces give one or two bytes."""
    # Pack all rows as one run of bits: packbits along an axis has an overhead for every row.
    packed = np.packbits((sides > 0).ravel())
    return packed.view(np.uint16) if sides.shape[-1] == 16 else packed


@cache
def _leaf_table(levels: int) -> Array:
    """Return the leaf for every code of a complete tree's half-spaces."""
    nodes, width = 2**levels - 1, stage_width(levels)
    codes = np.arange(2**width, dtype=np.uint16 if width == 16 else np.uint8)
    bits = np.unpackbits(codes.view(np.uint8).reshape(len(codes), -1), axis=1)
    node = np.zeros(len(codes), np.intp)
    for _ in range(levels):
        node = 2 * node + 1 + bits[np.arange(len(codes)), node]
    return (node - nodes).astype(np.uint8)  # 65,536 bytes, which stay in the cache
