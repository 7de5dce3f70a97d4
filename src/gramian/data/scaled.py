"""Row source that standardises columns (mean 0, standard deviation 1) as rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, Rows
from gramian.data.distributed import Partitioned
from gramian.data.mapped import mapped_type
from gramian.data.source import RowSource, row_blocks
from gramian.exceptions import InputError

#: Rows of a block in a pass over moments, so that float64 copies stay small. Chosen by hand.
BLOCK = 16_384


@dataclass(frozen=True)
class Moments:
    """Total weight of rows, and the weighted mean and sum of squared deviations of each column."""

    mass: float
    mean: Float64Array
    squares: Float64Array
    sparse: bool = False  #: whether the rows are stored sparse

    @property
    def variance(self) -> float:
        """Variance of all numbers of the rows, as ``X.var()`` gives it; 0 without rows."""
        d = max(1, len(self.mean))
        within = float(self.squares.sum()) / (self.mass or 1.0)
        return (within + float(np.square(self.mean - self.mean.mean()).sum())) / d if self.mass else 0.0

    @classmethod
    def of(cls, rows: Rows, weights: Array | None = None) -> Moments:
        """Return the moments of rows in memory, in float64; rows of weight 0 do not count."""
        if weights is not None and not (weights > 0).all():
            counted = np.flatnonzero(weights > 0)
            rows, weights = rows[counted], weights[counted]
        n, d = rows.shape
        total = cls(0.0, np.zeros(d), np.zeros(d), sp.issparse(rows))
        for part in row_slices(n, BLOCK):
            w = np.ones(part.stop - part.start) if weights is None else np.asarray(weights[part], np.float64)
            block = _of_sparse(rows[part], w) if total.sparse else _of_dense(np.asarray(rows[part]), w)
            total = cls.joined([total, block])
        return total

    @staticmethod
    def joined(parts: Sequence[Moments]) -> Moments:
        """Return the moments of all rows together. Source: Chan, Golub and LeVeque 1983."""
        first, *rest = parts
        for part in rest:
            mass = first.mass + part.mass
            if mass:
                step = part.mean - first.mean
                squares = first.squares + part.squares + step**2 * (first.mass * (part.mass / mass))
                first = Moments(mass, first.mean + step * (part.mass / mass), squares, part.sparse)
        return first


def _of_dense(rows: Array, weights: Float64Array) -> Moments:
    mass = float(weights.sum())
    # Differences from the first row: a constant column then has deviations of exactly 0.
    first = np.asarray(rows[0], np.float64)
    block = np.subtract(rows, first, dtype=np.float64)
    mean = (weights @ block) / mass
    block -= mean
    return Moments(mass, first + mean, np.einsum("i,ij,ij->j", weights, block, block))


def _of_sparse(rows: Rows, weights: Float64Array) -> Moments:
    """Return the moments of CSR rows; zeros count as values without being stored."""
    mass = float(weights.sum())
    rows = sp.csr_array(rows)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    (n, d), columns = rows.shape, rows.indices
    data, w = rows.data.astype(np.float64), np.repeat(weights, np.diff(rows.indptr))

    def summed(values: Array) -> Float64Array:
        return np.bincount(columns, values, minlength=d).astype(np.float64, copy=False)

    # Weight of the rows in which a column is 0: exactly none if all its values are stored.
    full = np.bincount(columns, minlength=d) == n
    zeros = np.where(full, 0.0, np.maximum(mass - summed(w), 0.0))
    mean = summed(w * data) / mass
    mean += (summed(w * (data - mean[columns])) - zeros * mean) / mass  # corrects the rounding
    return Moments(mass, mean, summed(w * (data - mean[columns]) ** 2) + zeros * mean**2, sparse=True)


@dataclass(frozen=True)
class Scaler:
    """x ↦ (x − mean)/scale for each column; the scale is the weighted standard deviation, 1 for a constant.

    Sparse rows are divided but not centred, so that zeros stay zeros: ``mean`` is then 0. With a kernel of
    differences x − z the model is the same; with "linear", "poly" and "cosine" it is a different one.

    >>> scaler = Scaler.of(Moments.of(np.array([[1.0, 5.0], [3.0, 5.0]])))
    >>> scaler.apply(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """

    mean: Float64Array
    scale: Float64Array
    #: The rows from which the scaler was learned distinguish it from others, so that its name suffices.
    identity: ClassVar[tuple[Any, ...]] = ("scaled",)

    @property
    def n_columns(self) -> int:
        """Number of columns, which scaling does not change."""
        return len(self.mean)

    @classmethod
    def of(cls, moments: Moments) -> Scaler:
        """Return the scaler of these moments."""
        scale = np.sqrt(moments.squares / (moments.mass or 1.0))
        # A deviation within rounding of 0 belongs to a constant column.
        constant = scale <= 10.0 * np.finfo(np.float64).eps * np.abs(moments.mean)
        mean = np.zeros_like(moments.mean) if moments.sparse else moments.mean
        return cls(mean, np.where(constant, 1.0, scale))

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows: float32 for float32 and integers of up to 16 bits, else float64."""
        dtype = mapped_type(rows.dtype)
        if sp.issparse(rows):
            if self.mean.any():
                raise InputError(
                    "X is sparse, but the model was fitted to dense rows, which were centred. Pass "
                    "X.toarray()."
                )
            return sp.csr_array(rows.multiply(1.0 / self.scale)).astype(dtype)
        # Subtract in float64 first, so that a mean far from 0 costs no digits.
        out = np.subtract(rows, self.mean, dtype=np.float64)
        out /= self.scale
        return out.astype(dtype, copy=False)


def moments(source: RowSource, weights: Array | None = None) -> Moments:
    """Return the weighted moments of all rows in one pass, computed where the rows are. Time O(n d)."""
    if isinstance(source, Partitioned):
        return Moments.joined(list(source.map(Moments.of, weights)))
    return Moments.joined(
        [
            Moments.of(rows, None if weights is None else weights[where])
            for where, rows in row_blocks(source, BLOCK)
        ]
    )
