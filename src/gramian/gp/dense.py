r"""Exact log marginal likelihood by dense algebra, for n small enough to store n² numbers.

    log p(y) = −½ (yᵀa + log det Σ + n log 2π),  Σ = K + noise·I,  a = Σ⁻¹y,
    ∂/∂θ = ½ tr((a aᵀ − Σ⁻¹) ∂Σ/∂θ),

summed over outputs. Nested bases with every row as a landmark of the root give the same value with ten times
the operations.
Source: Rasmussen and Williams 2006, algorithm 2.1 and equation 5.9.
"""

from __future__ import annotations

import numpy as np

from gramian._lapack import cho_solve, inverse_of_factored
from gramian._numerics import cholesky_lower
from gramian._tiles import blas_for
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.kernels.gradient import contract

#: Value of −log p(y) if the covariance cannot be factorised: worse than any real value.
FAILED = 1e25


def dense_likelihood(
    kernel: Kernel,
    noise: float,
    X: Rows,
    Y: Float64Array,
    weights: Float64Array | None = None,
    *,
    by_kernel: bool = True,
) -> tuple[float, Float64Array]:
    """Return log p(y) and its gradient in the kernel's log parameters and, last, the log of the noise.

    ``weights`` : (n,), a row has noise/weight. ``by_kernel=False`` leaves out the derivatives in the kernel's
    parameters. Time O(n³), memory O(n²).
    """
    n, outputs = Y.shape
    own_noise = noise_of(noise, weights)
    with blas_for(n):
        covariance = np.asarray(kernel(X, dtype=np.float64, n_jobs=1), np.float64)
        covariance.flat[:: n + 1] += own_noise
        lower, _ = cholesky_lower(covariance, "K + noise·I", warn=False)
        del covariance  # three arrays of n² numbers are held at a time
        a = np.asarray(cho_solve(lower, Y), np.float64)
        logdet = 2.0 * float(np.log(np.diag(lower)).sum())
        value = -0.5 * (float(np.vdot(Y, a)) + outputs * (logdet + n * np.log(2.0 * np.pi)))
        adjoint = inverse_of_factored(lower)
        del lower
        adjoint *= -outputs
        adjoint += a @ a.T
        adjoint *= 0.5
        slope = float(np.sum(own_noise * np.diag(adjoint)))
        if not by_kernel:
            return value, np.array([slope])
        points = np.asarray(dense(X), np.float64)
        return value, np.append(contract(kernel, points, points, adjoint), slope)


def noise_of(
    noise: float, weights: Float64Array | None, rows: IntArray | slice = slice(None)
) -> float | Float64Array:
    """Return the noise of rows, some of those with weights: one of weight w is the mean of w observations."""
    return noise if weights is None else noise / weights[rows]
