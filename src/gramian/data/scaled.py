"""Rows with columns of mean 0 and deviation 1, scaled as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Float64Array, Rows
from gramian.data.distributed import Partitioned
from gramian.data.mapped import mapped_type
from gramian.data.source import RowSource, row_blocks
from gramian.exceptions import InputError

#: Rows of a block of a pass over moments: copies in float64 stay small.
BLOCK = 16_384


@dataclass(frozen=True)
class Moments:
    """Number of rows, mean and sum of squared deviations of each column; of sparse rows about 0."""

    count: int
    mean: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Return the moments of rows in memory, in float64."""
        n = rows.shape[0]
        if sp.issparse(rows):
            squared = rows.multiply(rows).astype(np.float64)
            return cls(n, np.zeros(rows.shape[1]), np.asarray(squared.sum(axis=0), np.float64).ravel())
        total = cls(0, np.zeros(rows.shape[1]), np.zeros(rows.shape[1]))
        for part in row_slices(n, BLOCK):
            block = np.asarray(rows[part], np.float64)
            mean = block.mean(axis=0)
            block = block - mean
            total = cls.joined([total, cls(len(block), mean, np.einsum("ij,ij->j", block, block))])
        return total

    @staticmethod
    def joined(parts: Sequence[Moments]) -> Moments:
        """Return the moments of all rows. Source: Chan, Golub and LeVeque 1983."""
        first, *rest = parts
        for part in rest:
            n = first.count + part.count
            if n:
                step = part.mean - first.mean
                squares = first.squares + part.squares + step**2 * (first.count * part.count / n)
                first = Moments(n, first.mean + step * (part.count / n), squares)
        return first


@dataclass(frozen=True)
class Scaler:
    """x ↦ (x − mean)/scale for each column; a constant column has scale 1, sparse rows mean 0.

    >>> scaler = Scaler.of(Moments.of(np.array([[1.0, 5.0], [3.0, 5.0]])))
    >>> scaler.apply(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """

    mean: Float64Array
    scale: Float64Array
    #: The rows that it was learned from tell it from others.
    identity: ClassVar[tuple[Any, ...]] = ("scaled",)

    @property
    def n_columns(self) -> int:
        """Columns of the rows, which stay as many."""
        return len(self.mean)

    @classmethod
    def of(cls, moments: Moments) -> Scaler:
        """Return the scaler of these moments."""
        scale = np.sqrt(moments.squares / max(1, moments.count))
        # What rounding leaves of a constant column is no deviation.
        constant = scale <= 10.0 * np.finfo(np.float64).eps * np.abs(moments.mean)
        return cls(moments.mean, np.where(constant, 1.0, scale))

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows: float32 of float32 and of integers of up to 16 bits, else float64."""
        dtype = mapped_type(rows.dtype)
        if sp.issparse(rows):
            if self.mean.any():
                raise InputError(
                    "X is sparse, but the model was fitted to dense rows, which were centred. Pass "
                    "X.toarray()."
                )
            return sp.csr_array(rows.multiply(1.0 / self.scale)).astype(dtype)
        # Differences first, in the wider type: a mean that is far from 0 costs no digits.
        out = np.subtract(rows, self.mean, dtype=np.float64)
        out /= self.scale
        return out.astype(dtype, copy=False)


def moments(source: RowSource) -> Moments:
    """Return the moments of all rows of a source in one pass, made where they lie. Time O(n d)."""
    if isinstance(source, Partitioned):
        return source.reduce(Moments.of, Moments.joined)
    return Moments.joined([Moments.of(rows) for _, rows in row_blocks(source, BLOCK)])
