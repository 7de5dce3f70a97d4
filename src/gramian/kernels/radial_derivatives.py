"""Derivatives of the kernel families with respect to r² = ‖(x − z)/ℓ‖² or x·z/ℓ²."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gramian._typing import Float64Array
from gramian.kernels.base import Kernel
from gramian.kernels.families import (
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from gramian.kernels.powered import PoweredExponential, minkowski

Slope = Callable[[Any, Float64Array], Float64Array]

_OF_SQUARES: dict[type[Kernel], Slope] = {
    Gaussian: lambda k, t: -0.5 * np.exp(-0.5 * t),
    Exponential: lambda k, t: _halved_exponential(np.sqrt(t)),
    Matern: lambda k, t: _matern_slope(k.nu, np.sqrt(2.0 * k.nu * t)),
    RationalQuadratic: lambda k, t: -0.5 * (1.0 + t / (2.0 * k.shape)) ** (-k.shape - 1.0),
    Cauchy: lambda k, t: -((1.0 + t) ** -2.0),
    PoweredExponential: lambda k, t: _powered_slope(t, 0.5 * k.q),
}
#: dk/dp as a function of p = x·z/ℓ².
OF_PRODUCTS: dict[type[Kernel], Slope] = {
    Linear: lambda k, p: np.ones_like(p),
    Polynomial: lambda k, p: k.degree * (p + k.offset) ** (k.degree - 1),
}


def of_squares(kernel: Kernel) -> Slope | None:
    """Return dk/d(r²) as a function of (kernel, r²) with r = ‖(x − z)/ℓ‖₂; None for other kernels.

    A derivative that is infinite at r = 0 counts as 0 there, because it is multiplied by differences that are
    0.
    """
    if isinstance(kernel, PoweredExponential) and kernel.p != 2.0:
        return None
    return _OF_SQUARES.get(type(kernel))


def norm_power(kernel: Kernel) -> float | None:
    """Return p of a kernel exp(−‖(x − z)/ℓ‖_p^q) with p other than 2; None for other kernels."""
    if isinstance(kernel, PoweredExponential):
        return None if kernel.p == 2.0 else kernel.p
    return 1.0 if isinstance(kernel, Laplacian) else None


def power_slope(kernel: Kernel, X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return −p dk/ds, s = Σ_f |x_f − z_f|^p, for points in units of ℓ; 0 at s = 0. Shape (n, m).

    k = exp(−s^(q/p)) has −dk/ds = (q/p) s^(q/p − 1) k.
    """
    power = norm_power(kernel)
    assert power is not None
    q = kernel.q if isinstance(kernel, PoweredExponential) else 1.0
    near = power == 1.0
    s = cdist(X, Z, "cityblock") if near else minkowski(X, Z, np.ones(1), power) ** power
    safe = np.where(s > 0, s, 1.0)
    k = np.exp(-(safe ** (q / power)))
    return np.where(s > 0, q * safe ** (q / power - 1.0) * k, 0.0)


def kernel_values(kernel: Kernel, X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return k(X, Z) in float64, also on the diagonal by the formula of the block."""
    return np.asarray(kernel.against(Z, np.float64)(X), np.float64)


def squared_distances(X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return ‖x_i − z_j‖² ≥ 0 by one product, shape (n, m); the rows should be centred."""
    square = X @ Z.T
    square *= -2.0
    square += np.einsum("if,if->i", X, X)[:, None]
    square += np.einsum("jf,jf->j", Z, Z)
    return np.clip(square, 0.0, np.inf, out=square)


def _powered_slope(t: Float64Array, half: float) -> Float64Array:
    """Return d exp(−t^h)/dt = −h t^(h − 1) exp(−t^h), h = q/2; 0 at t = 0 if infinite."""
    if half == 1.0:
        return -np.exp(-t)
    safe = np.where(t > 0, t, 1.0)
    return np.where(t > 0, -half * safe ** (half - 1.0) * np.exp(-(safe**half)), 0.0)


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
