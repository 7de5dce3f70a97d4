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
    little memory and time. Time O(m² d / 2) for the first product, less for later ones as tiles are kept;
    memory ``cache_bytes`` and a tile for each thread, at least ``TRIED`` tiles.
    """

    def __init__(self, gram: Gram, cache_bytes: int) -> None:
        self._gram = gram
        self._slices = list(row_slices(len(gram), SIDE))
        self._pairs = [(i, j) for i in range(len(self._slices)) for j in range(i + 1)]
        wide = len(self._pairs) * TILE_BYTES <= cache_bytes
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self._tile_bytes = max(1, min(SIDE, len(gram)) ** 2 * self.dtype.itemsize)
        self._columns = [gram.kernel.against(gram.rows[part], self.dtype) for part in self._slices]
        largest = np.abs(gram.kernel.diagonal(gram.rows)).max(initial=0.0)
        self._least = unit_roundoff(self.dtype) * float(largest)
        self._room, self._filling = max(0, cache_bytes), cache_bytes > 0
        #: Tiles of the first pairs of slices, as many as there was room for.
        self._kept: list[Any] = []

    def __len__(self) -> int:
        return len(self._gram)

    def matvec(self, v: Float64Array) -> Float64Array:
        """Return K v. A tile multiplies in its own type; tiles are summed in float64 in a fixed order."""
        out = np.zeros(len(self))
        short = v.astype(self.dtype)

        def product(number: int, new: bool, fill: bool) -> tuple[Any, FloatArray, FloatArray | None]:
            i, j = self._pairs[number]
            tile = self._columns[j](self._gram.rows[self._slices[i]]) if new else self._kept[number]
            kept = self._thinned(tile) if new and fill else None
            tile = tile if kept is None else kept
            along = None if i == j else tile.T @ short[self._slices[i]]
            return kept, tile @ short[self._slices[j]], along

        done = 0
        while done < len(self._pairs):
            group, new = self._group(done), done >= len(self._kept)
            work = partial(product, new=new, fill=self._filling)
            with self._gram.run.engine.results(work, group) as products:
                for number, (tile, down, along) in zip(group, products):
                    i, j = self._pairs[number]
                    out[self._slices[i]] += down
                    if along is not None:
                        out[self._slices[j]] += along
                    if tile is not None:
                        self._keep(tile)
                    del tile  # free it before the next group's tiles are computed
                    if new:
                        self._gram.count(len(down) * (len(down) if along is None else len(along)))
            done = group.stop
        return out

    def _group(self, done: int) -> range:
        """Return the pairs whose products are computed next.

        First come all kept tiles. Then, while the cache fills, as many pairs as are sure to fit into it (at
        least ``TRIED``), so that unfinished tiles do not exceed it. Once it is full, all others.
        """
        if done < len(self._kept):
            return range(done, len(self._kept))
        most = max(TRIED, self._room // self._tile_bytes) if self._filling else len(self._pairs)
        return range(done, min(done + most, len(self._pairs)))

    def _thinned(self, tile: FloatArray) -> Any:
        """Return the tile as a sparse array if few entries are above rounding. May change the tile."""
        parts = [tile[part] for part in row_slices(len(tile), COUNTED_ROWS)]
        above = sum(np.count_nonzero(np.abs(part) > self._least) for part in parts)
        if above > SPARSE_SHARE * tile.size:
            return tile
        for part in parts:
            part[np.abs(part) <= self._least] = 0
        return sp.csr_array(tile)

    def _keep(self, tile: Rows) -> None:
        """Keep the tile if there is room; if not, stop keeping tiles."""
        if sp.issparse(tile):
            size = tile.data.nbytes + tile.indices.nbytes + tile.indptr.nbytes
        else:
            size = tile.nbytes
        self._filling = self._filling and size <= self._room
        if self._filling:
            self._room -= size
            self._kept.append(tile)
