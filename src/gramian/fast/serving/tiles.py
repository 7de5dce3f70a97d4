"""Rows grouped by leaf into tiles of equal height, so that few array operations serve all leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, FloatArray, IntArray

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
