"""Rows with columns of mean 0 and deviation 1, scaled as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.data.distributed import Partitioned, Result
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

    @classmethod
    def of(cls, moments: Moments) -> Scaler:
        """Return the scaler of these moments."""
        scale = np.sqrt(moments.squares / max(1, moments.count))
        # What rounding leaves of a constant column is no deviation.
        constant = scale <= 10.0 * np.finfo(np.float64).eps * np.abs(moments.mean)
        return cls(moments.mean, np.where(constant, 1.0, scale))

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows: float32 of float32 and of integers of up to 16 bits, else float64."""
        dtype = scaled_type(rows.dtype)
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


def scaled_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of scaled rows."""
    narrow = dtype == np.float32 or (dtype.kind in "iub" and dtype.itemsize <= 2)
    return np.dtype(np.float32 if narrow else np.float64)


def moments(source: RowSource) -> Moments:
    """Return the moments of all rows of a source in one pass, made where they lie. Time O(n d)."""
    if isinstance(source, Partitioned):
        return source.reduce(Moments.of, Moments.joined)
    return Moments.joined([Moments.of(rows) for _, rows in row_blocks(source, BLOCK)])


class ScaledRows:
    """The rows of ``source``, each block scaled as it is read; nothing is stored."""

    def __init__(self, source: RowSource, scaler: Scaler) -> None:
        self.source, self.scaler = source, scaler
        for name in ("reads_ahead", "read_bytes", "feature_names", "target"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))
        identity = getattr(source, "identity", None)
        if identity is not None:  # a frame has none: its rows are looked at
            self.identity = ("scaled", identity)
        held = 2 * source.shape[1] * (source.dtype.itemsize + self.dtype.itemsize)
        # The scaled block, and the float64 that it is made from.
        self.row_bytes = getattr(source, "row_bytes", 0) + held + 8 * source.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the scaled numbers."""
        return scaled_type(self.source.dtype)

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows as a new array."""
        return self.scaler.apply(self.source.rows(where))

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""
        return self.scaler.apply(self.source.take(indices))


class ScaledParts(ScaledRows, Partitioned):
    """Scaled rows of a source in parts elsewhere, scaled there."""

    source: Any

    def map(self, work: Callable[..., Result], *beside: Any) -> Iterator[Result]:
        """Yield ``work(part, *values beside it)`` in the order of the parts."""
        return self.source.map(partial(_scaled_work, self.scaler, work), *beside)

    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *beside: Any,
        start: int = 0,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on."""
        return self.source.rounds(partial(_scaled_work, self.scaler, work), combine, *beside, start=start)


def _scaled_work(scaler: Scaler, work: Callable[..., Result], rows: Rows, *beside: Any) -> Result:
    return work(scaler.apply(rows), *beside)


def scaled(source: RowSource, scaler: Scaler) -> RowSource:
    """Return the scaled rows of a source."""
    return (ScaledParts if isinstance(source, Partitioned) else ScaledRows)(source, scaler)
