"""Kernel matrix of one problem's rows: products by tiles, kept or not, and small dense submatrices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import unit_roundoff
from gramian._tiles import MIN_ROWS, row_slices
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.engine import Run
from gramian.kernels.base import CHUNK_ROWS, Kernel
from gramian.kernels.compiled import part_of_block

#: Columns of K that are evaluated together, so that their tile stays in a core's cache. Chosen by hand.
COLUMNS = 512


@dataclass(frozen=True, slots=True)
class Gram:
    """Kernel matrix K of fixed rows (n, d), dense or CSR; at any time only tiles of it are in memory."""

    rows: Rows
    kernel: Kernel
    run: Run  #: threads, bytes and generator of the problem, precision of its tiles; sums are float64
    computed: list[int] = field(default_factory=lambda: [0])  #: kernel values so far, with those of parts
    lock: Lock = field(default_factory=Lock)  #: of ``computed``

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def entries(self) -> int:
        """Kernel values computed so far, those of parts included."""
        return self.computed[0]

    def count(self, entries: int) -> None:
        """Add to the number of kernel values computed."""
        with self.lock:
            self.computed[0] += entries

    def part(self, index: IntArray | slice, run: Run | None = None) -> Gram:
        """Return the kernel matrix of some of the rows; an index array copies them, a slice does not."""
        return replace(self, rows=self.rows[index], run=run or self.run)

    def block(self, columns: Rows) -> Float64Array:
        """Return k(rows, columns) in float64."""
        found = self.kernel(self.rows, columns, dtype=np.float64, n_jobs=self.run.engine.n_jobs)
        self.count(found.size)
        return np.asarray(found, np.float64)

    def add(
        self, out: Float64Array, columns: Rows, weights: Float64Array, where: IntArray | None = None
    ) -> None:
        """Add k(rows, columns) @ weights to ``out``, or only at the rows with the numbers ``where``.

        Time O(n m d), memory one tile a thread.
        """
        if where is not None:
            some = out[where]
            self.part(where).add(some, columns, weights)
            out[where] = some
            return
        evaluators = [
            (self.kernel.against(columns[part], self.run.dtype), weights[part])
            for part in row_slices(columns.shape[0], COLUMNS)
        ]

        def fill(part: slice) -> None:
            block, total = self.rows[part], out[part]
            for evaluate, weight in evaluators:
                total += evaluate(block) @ weight

        with part_of_block(len(self), columns.shape[0]):
            self.run.engine.run(fill, row_slices(len(self), CHUNK_ROWS))
        self.count(len(self) * int(columns.shape[0]))

    def square(self) -> Float64Array:
        """Return the symmetric float64 matrix. Memory 8 n² bytes and a tile."""
        block = np.asarray(
            self.kernel(self.rows, dtype=np.float64, n_jobs=self.run.engine.n_jobs), np.float64
        )
        self.count(block.size)
        for part in row_slices(len(block), MIN_ROWS):  # 0.5 (K + Kᵀ) in place
            below, right = block[part.start :, part], block[part, part.start :]
            below += right.T
            below *= 0.5
            right[:] = below.T
        return block


#: Rows and columns of a tile. Chosen by hand, as are the next constants.
SIDE = 1024
#: Bytes of a float64 tile; each thread works on one.
TILE_BYTES = 8 * SIDE * SIDE
#: Tiles computed at once when a dense tile may not fit but a sparse one might.
TRIED = 2
#: Rows of a tile whose entries are counted together.
COUNTED_ROWS = 64
#: A tile is stored as sparse if at most this fraction of its entries is above rounding.
SPARSE_SHARE = 0.15


class SymmetricTiles:
    """Kernel matrix K of m points as an operator v ↦ K v; tiles are kept until ``cache_bytes`` are used.

    Tiles are float64 if all of them can be kept, else float32. That is enough for conjugate gradients, whose
    caller recomputes the gradient in its own precision. If few entries of a kept tile exceed u·max k(x, x),
    the others are set to zero and the tile is stored as sparse, so a local kernel on clustered points takes
    little memory and time. Time O(m² d / 2) for the tiles that are kept, and as much a product for the
    others; memory ``cache_bytes`` and a tile for each thread, at least ``TRIED`` tiles.
    """

    def __init__(self, gram: Gram, cache_bytes: int) -> None:
        self._gram = gram
        self._slices = list(row_slices(len(gram), SIDE))
        self._pairs = [(i, j) for i in range(len(self._slices)) for j in range(i + 1)]
        wide = len(self._pairs) * TILE_BYTES <= cache_bytes
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self._columns = [gram.kernel.against(gram.rows[part], self.dtype) for part in self._slices]
        #: Tiles of the first pairs of slices, as many as there is room for.
        self._kept: list[Any] = []
        unit = float(np.abs(gram.kernel.diagonal(gram.rows)).max(initial=0.0))
        thinned = partial(self._thinned, least=unit_roundoff(self.dtype) * unit)
        tile_bytes = max(1, min(SIDE, len(gram)) ** 2 * self.dtype.itemsize)
        room, largest = cache_bytes, 1  # bytes left, and of the largest tile so far
        while largest <= room and len(self._kept) < len(self._pairs):
            # As many tiles as are sure to fit, so that unfinished ones do not exceed the room.
            pairs = self._pairs[len(self._kept) :][: max(TRIED, room // tile_bytes)]
            with gram.run.engine.results(thinned, pairs) as tiles:
                for tile in tiles:
                    sparse = sp.issparse(tile)
                    parts = (tile.data, tile.indices, tile.indptr) if sparse else (tile,)
                    size = sum(part.nbytes for part in parts)
                    largest = max(largest, size)
                    if size > room:
                        break
                    room -= size
                    self._kept.append(tile)
            gram.count(sum(self._entries(pair) for pair in pairs))

    def matvec(self, v: Float64Array) -> Float64Array:
        """Return K v. A tile multiplies in its own type; tiles are summed in float64 in a fixed order."""
        out = np.zeros(len(self._gram))
        short = v.astype(self.dtype)

        def product(number: int) -> tuple[FloatArray, FloatArray | None]:
            i, j = pair = self._pairs[number]
            tile = self._kept[number] if number < len(self._kept) else self._tile(pair)
            along = None if i == j else tile.T @ short[self._slices[i]]
            return tile @ short[self._slices[j]], along

        with self._gram.run.engine.results(product, range(len(self._pairs))) as products:
            for (i, j), (down, along) in zip(self._pairs, products):
                out[self._slices[i]] += down
                if along is not None:
                    out[self._slices[j]] += along
        self._gram.count(sum(self._entries(pair) for pair in self._pairs[len(self._kept) :]))
        return out

    def _entries(self, pair: tuple[int, int]) -> int:
        """Return the number of entries of a tile."""
        first, second = (self._slices[number] for number in pair)
        return int((first.stop - first.start) * (second.stop - second.start))

    def _tile(self, pair: tuple[int, int]) -> FloatArray:
        return self._columns[pair[1]](self._gram.rows[self._slices[pair[0]]])

    def _thinned(self, pair: tuple[int, int], least: float) -> Any:
        """Return a tile, as a sparse array if few entries are above rounding."""
        tile = self._tile(pair)
        parts = [tile[part] for part in row_slices(len(tile), COUNTED_ROWS)]
        if sum(np.count_nonzero(np.abs(part) > least) for part in parts) > SPARSE_SHARE * tile.size:
            return tile
        for part in parts:
            part[np.abs(part) <= least] = 0
        return sp.csr_array(tile)
