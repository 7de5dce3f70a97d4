"""Routing of rows to leaves by a tree of half-spaces; one product and table lookup covers four levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg as la

from gramian._typing import Array, Float64Array, FloatArray, IntArray

#: Levels of one stage. Its 15 half-spaces and a spare bit make 16 bits, which index a table.
STAGE_LEVELS = 4
#: Most rows that a node's half-space is fitted on. Chosen by hand.
NODE_ROWS = 20_000
#: Fewest and most rows of a tile. Small tiles waste less padding on leaves with few rows; large tiles make
#: larger products. Chosen by hand.
LEAST_TILE_ROWS, MOST_TILE_ROWS = 8, 128


@dataclass(frozen=True, eq=False)
class LeafTiles:
    """Rows grouped by leaf: each leaf's rows fill whole tiles, the last one padded with row 0.

    leaves : (tiles,), the leaf of each tile.
    rows : (tiles · height,), the row at each place in the tiles.
    places : (n,), the place of each row.
    """

    leaves: IntArray
    rows: IntArray
    places: IntArray
    height: int

    @classmethod
    def of(cls, labels: Array, n_leaves: int) -> LeafTiles:
        """Group rows by label into tiles about half as high as an average leaf has rows. Time O(n)."""
        n = len(labels)
        half = 1 << max(n // (2 * n_leaves), 1).bit_length() - 1
        height = min(max(half, LEAST_TILE_ROWS), MOST_TILE_ROWS)
        order = np.argsort(labels, kind="stable")  # a radix sort, since labels have one or two bytes
        counts = np.bincount(labels, minlength=n_leaves)
        tiles = -(-counts // height)
        # Difference between a leaf's first place in the tiles and its first position in the sorted order.
        shift = height * (np.cumsum(tiles) - tiles) - (np.cumsum(counts) - counts)
        at = np.arange(n) + np.repeat(shift, counts)
        rows = np.zeros(height * int(tiles.sum()), np.intp)
        rows[at] = order
        places = np.empty(n, np.intp)
        places[order] = at
        return cls(np.repeat(np.arange(n_leaves), tiles), rows, places, height)

    def spread(self, values: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Arrange values (r, n) in tiles, shape (r, tiles, height), in ``out`` if it is given."""
        if out is not None:
            out = out.reshape(len(values), -1)
        # No index is out of bounds; to say so by mode="clip" keeps NumPy from a copy of ``out``.
        taken = values.take(self.rows, axis=1, out=out, mode="clip")
        return taken.reshape(-1, len(self.leaves), self.height)

    def gather(self, values: Array) -> Array:
        """Return values (tiles · height, …) in the original order of the rows."""
        return values.take(self.places, axis=0)


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
