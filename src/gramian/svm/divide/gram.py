"""Kernel matrix of one problem's rows: products computed by tiles, and small dense submatrices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gramian._tiles import MIN_ROWS, row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import CHUNK_ROWS, Kernel
from gramian.kernels.compiled import part_of_block

#: Columns of K that are evaluated together, so that their tile stays in a core's cache. Chosen by hand.
COLUMNS = 512


@dataclass(frozen=True, slots=True)
class Gram:
    """Kernel matrix K of fixed rows (n, d), dense or CSR; at any time only tiles of it are in memory."""

    rows: Rows
    kernel: Kernel
    dtype: np.dtype[Any]  #: of the tiles; sums are float64
    engine: Engine
    computed: list[int] = field(default_factory=lambda: [0])  #: kernel values so far, with those of parts

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def entries(self) -> int:
        """Kernel values computed so far, those of parts included."""
        return self.computed[0]

    def count(self, entries: int) -> None:
        """Add to the number of kernel values computed."""
        self.computed[0] += entries

    def part(self, index: IntArray | slice) -> Gram:
        """Return the kernel matrix of some of the rows; an index array copies them, a slice does not."""
        return replace(self, rows=self.rows[index])

    def alone(self, index: IntArray | slice, engine: Engine) -> Gram:
        """Return the kernel matrix of some of the rows, which counts for itself, with threads of its own."""
        return Gram(self.rows[index], self.kernel, self.dtype, engine)

    def block(self, columns: Rows) -> Float64Array:
        """Return k(rows, columns) in float64."""
        found = self.kernel(self.rows, columns, dtype=np.float64, n_jobs=self.engine.n_jobs)
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
            (self.kernel.against(columns[part], self.dtype), weights[part])
            for part in row_slices(columns.shape[0], COLUMNS)
        ]

        def fill(part: slice) -> None:
            block, total = self.rows[part], out[part]
            for evaluate, weight in evaluators:
                total += evaluate(block) @ weight

        with part_of_block(len(self), columns.shape[0]):
            self.engine.run(fill, row_slices(len(self), CHUNK_ROWS))
        self.count(len(self) * int(columns.shape[0]))

    def square(self) -> Float64Array:
        """Return the symmetric float64 matrix. Memory 8 n² bytes and a tile."""
        block = np.asarray(self.kernel(self.rows, dtype=np.float64, n_jobs=self.engine.n_jobs), np.float64)
        self.count(block.size)
        for part in row_slices(len(block), MIN_ROWS):  # 0.5 (K + Kᵀ) in place
            below, right = block[part.start :, part], block[part, part.start :]
            below += right.T
            below *= 0.5
            right[:] = below.T
        return block
