"""The symmetric kernel matrix of some thousands of points, by tiles of its lower half."""

from __future__ import annotations

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel

#: Side of a tile.
SIDE = 1024


class SymmetricTiles:
    """K of m points as an operator v ↦ K v, by tiles that are kept while ``cache_bytes`` lasts.

    Tiles are float64 where all of them can be kept, else float32: what conjugate gradients need, whose caller
    recomputes the gradient in its own precision. Time O(m² d / 2) for the first product, then less by the
    share that is kept; memory ``cache_bytes`` and two tiles a thread.
    """

    def __init__(self, points: Rows, kernel: Kernel, cache_bytes: int, engine: Engine) -> None:
        self._points, self._engine = points, engine
        self._slices = list(row_slices(points.shape[0], SIDE))
        self._pairs = [(i, j) for i in range(len(self._slices)) for j in range(i + 1)]
        wide = len(self._pairs) * SIDE * SIDE * 8 <= cache_bytes
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self._columns = [kernel.against(points[part], self.dtype) for part in self._slices]
        room = max(0, cache_bytes) // (SIDE * SIDE * self.dtype.itemsize)
        self._keep = set(self._pairs[:room])
        self._kept: dict[tuple[int, int], FloatArray] = {}
        #: Kernel values that were computed.
        self.entries = 0

    def __len__(self) -> int:
        return int(self._points.shape[0])

    def matvec(self, v: Float64Array) -> Float64Array:
        """Return K v: products of a tile in its type, sums over tiles in float64, in a fixed order."""
        out = np.zeros(len(self))
        short = v.astype(self.dtype)

        def product(pair: tuple[int, int]) -> tuple[FloatArray, FloatArray, FloatArray | None]:
            i, j = pair
            tile = self._kept.get(pair)
            if tile is None:
                tile = self._columns[j](self._points[self._slices[i]])
            along = None if i == j else tile.T @ short[self._slices[i]]
            return tile, tile @ short[self._slices[j]], along

        found = self._engine.map(product, self._pairs)
        for (i, j), (tile, down, along) in zip(self._pairs, found, strict=True):
            if (i, j) not in self._kept:
                self.entries += tile.size
                if (i, j) in self._keep:
                    self._kept[i, j] = tile
            out[self._slices[i]] += down
            if along is not None:
                out[self._slices[j]] += along
        return out
