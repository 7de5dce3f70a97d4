"""Parts of kernels' derivatives: values, squared distances, slopes of norms other than Euclidean."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from gramian._typing import Float64Array
from gramian.kernels.base import Kernel
from gramian.kernels.families import Family
from gramian.kernels.powered import PoweredExponential, minkowski


def power_slope(kernel: Family, X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return −p dk/ds, s = Σ_f |x_f − z_f|^p, for points in units of ℓ; 0 at s = 0. Shape (n, m).

    k = exp(−s^(q/p)) has −dk/ds = (q/p) s^(q/p − 1) k.
    """
    power = kernel.norm_power
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
