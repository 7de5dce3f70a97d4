"""Predictor of an exact model: kernel values against all training rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Float64Array, Rows
from gramian.compression.features import BlockSizes
from gramian.compression.terms import KernelTerms
from gramian.data.source import RowSource, row_blocks
from gramian.data.values import row_bytes
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.operators.kernel import KernelOperator

#: Bytes of the kernel values of a group of rows against all training rows. Chosen by hand.
GROUP_BYTES = 1 << 25


@dataclass(frozen=True)
class ExactPredictor:
    """f(x) = Σ_i k(x, x_i) a_i over all training rows x_i. Time O(n (d + outputs)) a row, in tiles.

    kernel : k; rows : (n, d), the training rows with positive weight; coefficients : (n, outputs).
    """

    kernel: Kernel
    rows: Rows
    coefficients: Float64Array
    dtype: np.dtype[Any]

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.coefficients.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients, without the rows."""
        return self.coefficients.nbytes

    @property
    def model_bytes(self) -> int:
        """Bytes of coefficients and rows."""
        return self.nbytes + row_bytes(self.rows)

    @property
    def block_sizes(self) -> BlockSizes:
        """No sizes: there are no blocks."""
        return ()

    @property
    def landmarks(self) -> tuple[Rows, ...]:
        """All training rows, as the only node's points."""
        return (self.rows,)

    def on(self, kernel: Kernel) -> ExactPredictor:
        """Return the predictor with k evaluated by ``kernel``, which may be bound to other rows."""
        return replace(self, kernel=kernel)

    def chunk(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return predictions for rows in memory, shape (rows, outputs)."""
        kernel, dtype, prepared = self.kernel, self.dtype, self._prepared
        return (
            KernelOperator(kernel, rows, self.rows, dtype=dtype, n_jobs=engine.n_jobs, prepared=prepared)
            @ self.coefficients
        )

    @cached_property
    def _prepared(self) -> dict[int, Columns]:
        """Prepared parts of the rows: a few of them take longer than a prediction of one row."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactPredictor, (self.kernel, self.rows, self.coefficients, self.dtype)

    def blocks(
        self, source: RowSource, *, engine: Engine, chunk_rows: int
    ) -> Iterator[tuple[slice, Float64Array]]:
        """Yield (rows, predictions) for each chunk of the source."""
        for where, rows in row_blocks(source, chunk_rows):
            yield where, self.chunk(rows, engine)

    @property
    def n_points(self) -> int:
        """Number of training rows."""
        return int(self.rows.shape[0])

    def point(self, number: int) -> Rows:
        """Return a training row by its number as the kernel takes it, shape (1, d)."""
        return self.rows[number : number + 1]

    def terms(self, rows: Rows, engine: Engine) -> Iterator[KernelTerms]:
        """Yield k(x, x_i) and a_i for rows in memory, in groups whose kernel values take 32 MB at most."""
        columns = self.kernel.against(self.rows, self.dtype)
        every = np.arange(self.n_points)
        height = max(1, GROUP_BYTES // (8 * max(1, self.n_points)))
        for part in row_slices(int(rows.shape[0]), height):
            numbers = np.arange(part.start, part.stop)
            yield KernelTerms(numbers, every, columns(rows[part]), self.coefficients)
