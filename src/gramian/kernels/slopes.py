"""Derivatives of the kernel families by what they are functions of: r² = ‖(x − z)/ℓ‖², or x·z/ℓ²."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramian._typing import Float64Array
from gramian.kernels.base import Kernel
from gramian.kernels.families import (
    Cauchy,
    Exponential,
    Gaussian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)

#: dk/d(r²) from r². Where it is infinite at 0 it counts as 0 there: every difference that it meets is 0.
OF_SQUARES: dict[type[Kernel], Callable[[Any, Float64Array], Float64Array]] = {
    Gaussian: lambda k, t: -0.5 * np.exp(-0.5 * t),
    Exponential: lambda k, t: _halved_exponential(np.sqrt(t)),
    Matern: lambda k, t: _matern_slope(k.nu, np.sqrt(2.0 * k.nu * t)),
    RationalQuadratic: lambda k, t: -0.5 * (1.0 + t / (2.0 * k.shape)) ** (-k.shape - 1.0),
    Cauchy: lambda k, t: -((1.0 + t) ** -2.0),
}
#: dk/dp from p = x·z/ℓ².
OF_PRODUCTS: dict[type[Kernel], Callable[[Any, Float64Array], Float64Array]] = {
    Linear: lambda k, p: np.ones_like(p),
    Polynomial: lambda k, p: k.degree * (p + k.offset) ** (k.degree - 1),
}


def squared_distances(X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return ‖x_i − z_j‖² by one product, never negative; the rows should be centred. Shape (n, m)."""
    square = X @ Z.T
    square *= -2.0
    square += np.einsum("if,if->i", X, X)[:, None]
    square += np.einsum("jf,jf->j", Z, Z)
    return np.maximum(square, 0.0, out=square)


def _halved_exponential(r: Float64Array) -> Float64Array:
    """Return d exp(−r)/d(r²) = −exp(−r)/(2 r); 0 at r = 0."""
    safe = np.where(r > 0, r, 1.0)
    return np.where(r > 0, -0.5 * np.exp(-r) / safe, 0.0)


def _matern_slope(nu: float, s: Float64Array) -> Float64Array:
    """Return dk/d(r²) of a Matérn kernel from s = √(2ν) r."""
    if nu == 0.5:
        return _halved_exponential(s)
    if nu == 1.5:
        return -1.5 * np.exp(-s)
    return -(5.0 / 6.0) * (1.0 + s) * np.exp(-s)
