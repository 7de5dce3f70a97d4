"""Dot-product kernels as power series: Σ_n a_n (x·z/ℓ²)ⁿ with a_n ≥ 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import binom

from gramian._typing import Float64Array
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Product, Scaled, Sum
from gramian.kernels.dot_products import DotKernel

Lengthscale = float | tuple[float, ...]


@dataclass(frozen=True)
class Series:
    """Coefficients a_0 … a_p of a kernel in x·z, for features divided by ``lengthscale``."""

    coefficients: Float64Array
    lengthscale: Lengthscale

    def in_units_of(self, lengthscale: Lengthscale) -> Float64Array:
        """Return the coefficients for another lengthscale; both must be single numbers, or equal."""
        if lengthscale == self.lengthscale:
            return self.coefficients
        if isinstance(lengthscale, tuple) or isinstance(self.lengthscale, tuple):
            raise InputError(
                f"the parts of the kernel have the lengthscales {self.lengthscale} and {lengthscale}, so "
                "it is not a function of a single inner product. Give all parts the same, or use Nystrom."
            )
        return self.coefficients * (lengthscale / self.lengthscale) ** (
            2.0 * np.arange(len(self.coefficients))
        )


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
        a, b = left.coefficients, right.in_units_of(left.lengthscale)
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
