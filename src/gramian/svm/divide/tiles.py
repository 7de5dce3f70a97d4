"""The symmetric kernel matrix of some thousands of points, by tiles of its lower half."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import unit_roundoff
from gramian._tiles import row_slices
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel

#: Side of a tile.
SIDE = 1024
#: A tile with fewer entries than this share above rounding is kept sparse, which takes 8 bytes an entry.
SPARSE_SHARE = 0.15


class SymmetricTiles:
    """K of m points as an operator v ↦ K v, by tiles that are kept while ``cache_bytes`` lasts.

    Tiles are float64 where all of them can be kept, else float32: what conjugate gradients need, whose caller
    recomputes the gradient in its own precision. Entries of a kept tile under u·max k(x, x) count as zero
    where that makes it sparse, so that a local kernel of points in clustered order takes little memory and
    time. Time O(m² d / 2) for the first product, then less by the share that is kept; memory ``cache_bytes``
    and two tiles a thread.
    """

    def __init__(self, points: Rows, kernel: Kernel, cache_bytes: int, engine: Engine) -> None:
        self._points, self._engine = points, engine
        self._slices = list(row_slices(points.shape[0], SIDE))
        self._pairs = [(i, j) for i in range(len(self._slices)) for j in range(i + 1)]
        wide = len(self._pairs) * SIDE * SIDE * 8 <= cache_bytes
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self._columns = [kernel.against(points[part], self.dtype) for part in self._slices]
        largest = np.abs(kernel.diagonal(points)).max(initial=0.0)
        self._least = unit_roundoff(self.dtype) * float(largest)
        self._room = max(0, cache_bytes)
        self._kept: dict[tuple[int, int], Any] = {}
        #: Kernel values that were computed.
        self.entries = 0

    def __len__(self) -> int:
        return int(self._points.shape[0])

    def matvec(self, v: Float64Array) -> Float64Array:
        """Return K v: products of a tile in its type, sums over tiles in float64, in a fixed order."""
        out = np.zeros(len(self))
        short = v.astype(self.dtype)

        def product(pair: tuple[int, int]) -> tuple[Any, FloatArray, FloatArray | None]:
            i, j = pair
            new = pair not in self._kept
            tile: Any = self._kept[pair] if not new else self._columns[j](self._points[self._slices[i]])
            if new and self._room > 0:
                tile = self._thinned(tile)
            along = None if i == j else tile.T @ short[self._slices[i]]
            return tile if new else None, tile @ short[self._slices[j]], along

        found = self._engine.map(product, self._pairs)
        for (i, j), (tile, down, along) in zip(self._pairs, found, strict=True):
            if tile is not None:
                self._keep((i, j), tile)
            out[self._slices[i]] += down
            if along is not None:
                out[self._slices[j]] += along
        return out

    def _thinned(self, tile: FloatArray) -> Any:
        """Return the tile sparse, if few of its entries are above rounding."""
        above = np.abs(tile) > self._least
        if np.count_nonzero(above) > SPARSE_SHARE * tile.size:
            return tile
        return sp.csr_array(np.where(above, tile, 0))

    def _keep(self, pair: tuple[int, int], tile: Any) -> None:
        self.entries += tile.shape[0] * tile.shape[1]
        sparse = sp.issparse(tile)
        size = tile.data.nbytes + tile.indices.nbytes + tile.indptr.nbytes if sparse else tile.nbytes
        if size <= self._room:
            self._room -= size
            self._kept[pair] = tile
