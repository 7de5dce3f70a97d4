"""Kernels of inner products x·z and of angles."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from gramian._checks import positive_number
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import as_rows
from gramian.kernels.columns import Columns, DotColumns, leave, squared_norms
from gramian.kernels.families import Family, Map

#: Up to this degree repeated multiplication is faster than ``np.power``. Chosen by hand.
MULTIPLIED_DEGREE = 8


class DotKernel(Family):
    """Base of kernels (x·z/ℓ² + offset)^degree, of which this is the one of degree 1 and offset 0."""

    degree: int = 1
    offset: float = 0.0

    def map_tile(self, t: FloatArray) -> None:
        """Leave the product as it is, for the linear kernel."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return DotColumns(Z, dtype, self._scales(Z), self.map_tile)

    def diagonal(self, X: Rows) -> Float64Array:
        X = as_rows(X, "X")
        values = squared_norms(X, self._scales(X) ** -2.0)
        self.map_tile(values)
        return values


@dataclass(frozen=True)
class Linear(DotKernel):
    """k(x, z) = x·z/ℓ²."""

    names = ("linear",)
    gamma_rule = None

    @property
    def product_slope(self) -> Map:
        return np.ones_like


@dataclass(frozen=True)
class Polynomial(DotKernel):
    """k(x, z) = (x·z/ℓ² + offset)^degree; scikit-learn's ``poly`` with gamma = 1/ℓ²."""

    names = ("poly", "polynomial")
    gamma_rule = (1.0, 2.0)

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        degree = positive_number("degree", self.degree)
        if not degree.is_integer():
            raise InputError(f"degree={self.degree!r} is not whole; give an integer of at least 1.")
        object.__setattr__(self, "degree", int(degree))
        offset = self.offset
        if isinstance(offset, bool) or not isinstance(offset, numbers.Real) or not 0 <= offset < float("inf"):
            raise InputError(
                f"offset={offset!r} is not a number of at least 0. Give offset >= 0, else the kernel is "
                "not positive semi-definite."
            )
        object.__setattr__(self, "offset", float(offset))

    def map_tile(self, t: FloatArray) -> None:
        t += self.offset
        if self.degree > MULTIPLIED_DEGREE:
            np.power(t, self.degree, out=t)
            return
        base = t.copy() if self.degree > 1 else t
        for _ in range(self.degree - 1):
            t *= base

    @property
    def product_slope(self) -> Map:
        return lambda p: self.degree * (p + self.offset) ** (self.degree - 1)


@dataclass(frozen=True)
class Cosine(Family):
    """k(x, z) = x·z/(‖x‖‖z‖) in units of ℓ; it is 0 if x or z is zero."""

    names = ("cosine",)
    gamma_rule = None

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return DotColumns(Z, dtype, self._scales(Z), leave, normalize=True)

    def diagonal(self, X: Rows) -> Float64Array:
        X = as_rows(X, "X")
        return (squared_norms(X, self._scales(X) ** -2.0) > 0).astype(np.float64)
