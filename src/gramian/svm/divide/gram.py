"""Kernel matrix of one problem's rows: products computed by tiles, and small dense submatrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from gramian._tiles import MIN_ROWS, row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import CHUNK_ROWS, Kernel
from gramian.kernels.compiled import part_of_block

#: Columns of K that are evaluated together, so that their tile stays in a core's cache. Chosen by hand.
COLUMNS = 512


class Gram:
    """Kernel matrix K of fixed rows; at any time only tiles of it are in memory.

    rows : (n, d), dense or CSR; dtype : type of the tiles; sums are float64.
    """

    def __init__(self, rows: Rows, kernel: Kernel, dtype: DTypeLike, engine: Engine) -> None:
        self.rows, self.kernel, self.dtype, self.engine = rows, kernel, np.dtype(dtype), engine
        #: Number of kernel values computed so far.
        self.entries = 0

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def part(self, index: IntArray | slice) -> Gram:
        """Return the kernel matrix of some of the rows; an index array copies them, a slice does not."""
        return Gram(self.rows[index], self.kernel, self.dtype, self.engine)

    def add(self, out: Float64Array, columns: Rows, weights: Float64Array) -> None:
        """Add k(rows, columns) @ weights to ``out``. Time O(n m d), memory one tile a thread."""
        evaluators = [
            (self.kernel.against(columns[part], self.dtype), weights[part])
            for part in row_slices(columns.shape[0], COLUMNS)
        ]

        def fill(where: slice) -> None:
            block, total = self.rows[where], out[where]
            for evaluate, weight in evaluators:
                total += evaluate(block) @ weight

        with part_of_block(len(self), columns.shape[0]):
            self.engine.run(fill, row_slices(len(self), CHUNK_ROWS))
        self.entries += len(self) * int(columns.shape[0])

    def square(self, index: IntArray | slice) -> Float64Array:
        """Return the symmetric float64 kernel matrix of m of the rows. Memory 8 m² bytes and a tile."""
        points = self.rows[index]
        block = np.asarray(self.kernel(points, dtype=np.float64, n_jobs=self.engine.n_jobs), np.float64)
        self.entries += block.size
        for part in row_slices(len(block), MIN_ROWS):  # 0.5 (K + Kᵀ) in place
            below, right = block[part.start :, part], block[part, part.start :]
            below += right.T
            below *= 0.5
            right[:] = below.T
        return block
