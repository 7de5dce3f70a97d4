"""Kernels of inner products x·z and of angles, and their power series."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import binom

from gramian._checks import positive_number
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Product, Scaled, Sum, as_rows
from gramian.kernels.columns import Columns, DotColumns, leave, squared_norms
from gramian.kernels.families import Family

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

    def product_slope(self, p: Float64Array) -> Array:
        return np.ones_like(p)


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

    def product_slope(self, p: Float64Array) -> Array:
        return self.degree * (p + self.offset) ** (self.degree - 1)


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


@dataclass(frozen=True)
class Series:
    """Coefficients a_0 … a_p of a kernel in x·z, for features divided by ``lengthscale``."""

    coefficients: Float64Array
    lengthscale: float | tuple[float, ...]


def maclaurin_series(kernel: Kernel) -> Series:
    """Return the series of Linear, Polynomial, and of sums, products and positive multiples of them.

    Parts with different single lengthscales are converted to the first; lengthscales per feature must be the
    same in all parts. Raises :class:`InputError` for other kernels.

    >>> from gramian.kernels import Linear, Polynomial
    >>> maclaurin_series(Polynomial(degree=2, offset=1.0) + 0.5 * Linear()).coefficients
    array([1. , 2.5, 1. ])
    """
    if isinstance(kernel, Scaled):
        inner = maclaurin_series(kernel.kernel)
        return Series(kernel.factor * inner.coefficients, inner.lengthscale)
    if isinstance(kernel, Sum | Product):
        left, right = maclaurin_series(kernel.left), maclaurin_series(kernel.right)
        a, b = left.coefficients, right.coefficients
        if right.lengthscale != left.lengthscale:
            if isinstance(left.lengthscale, tuple) or isinstance(right.lengthscale, tuple):
                raise InputError(
                    f"the parts of the kernel have the lengthscales {right.lengthscale} and "
                    f"{left.lengthscale}, so it is not a function of a single inner product. Give all parts "
                    "the same, or use Nystrom."
                )
            b = b * (left.lengthscale / right.lengthscale) ** (2.0 * np.arange(len(b)))
        both: Float64Array = np.convolve(a, b)
        if isinstance(kernel, Sum):
            both = np.zeros(max(len(a), len(b)))
            both[: len(a)] += a
            both[: len(b)] += b
        return Series(both, left.lengthscale)
    if not isinstance(kernel, DotKernel):
        raise InputError(
            f"{kernel!r} has no known power series in x·z, which RandomMaclaurin and TensorSketch need. Give "
            "Linear or Polynomial; take RandomFourier for a kernel of x − z, Nystrom for any other."
        )
    powers = np.arange(kernel.degree + 1)
    return Series(
        binom(kernel.degree, powers) * kernel.offset ** (kernel.degree - powers), kernel.lengthscale
    )
