"""Core of the MEKA paper: regularised least squares on sampled rows of each pair of blocks.

Source: Si, Hsieh and Dhillon 2014, Algorithm 1. The sampled systems are ill-conditioned: without
regularisation the error ranged from 0.09 to 10⁶. Each is therefore regularised by its bases' residual.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg as la

from gramian._numerics import rank_cutoff
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.compression.basis import Basis
from gramian.compression.projection_core import coupled_blocks
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore


def sampled_core(
    kernel: Kernel,
    bases: Sequence[Basis],
    sample: Rows,
    members: Sequence[IntArray],
    n_rows: int,
    keep: Array | None,
    streams: Sequence[np.random.Generator],
    engine: Engine,
) -> CoupledCore:
    r"""Return C_st = H_s K(v_s, v_t) H_tᵀ, H = (WᵀW + μI)⁻¹ Wᵀ, for n_rows sampled rows v_s of each block.

    With whitened bases the true core has C_ss = I and ‖C_st‖₂ ≤ 1, which is a prior of unit size. Each
    sampled entry has noise of about the size of the basis' residual diagonal, so the ridge is
    μ = mean(k(x, x) − ‖w(x)‖²) over v_s, and at least the rounding level. μ → 0 gives the paper's
    pseudo-inverse.
    Time O(c² n_rows² d + c² n_rows² r), memory O(R² + c n_rows (d + r)).
    """

    def prepare(s: int) -> tuple[Rows, Float64Array]:
        mine = members[s]
        size = min(n_rows, len(mine))
        rows = sample[np.sort(streams[s].choice(mine, size, replace=False))]
        basis = bases[s]
        W = kernel(rows, basis.landmarks, dtype=np.float64, n_jobs=1) @ basis.matrix
        left_over = np.maximum(kernel.diagonal(rows) - np.einsum("ij,ij->i", W, W), 0.0)
        return rows, ridge_inverse(W, float(left_over.mean()) if size else 0.0)

    samples = engine.map(prepare, range(len(bases)))
    points, inverses = [rows for rows, _ in samples], [inverse.T for _, inverse in samples]
    return coupled_blocks(kernel, points, inverses, keep, engine, psd=False)


def ridge_inverse(values: Float64Array, ridge: float | Float64Array) -> Float64Array:
    r"""Return (WᵀW + diag(ridge))⁻¹ Wᵀ for W of shape (rows, r): coefficients from samples.

    With W̄ = [W; diag(ridge)^(1/2)] = QR it is R⁻¹ times the upper part of Qᵀ, which keeps digits that WᵀW
    would lose. A ridge below the rounding level of ‖W‖_F² is raised to that level. Time O(rows · r²).
    """
    rank = values.shape[1]
    if not rank:
        return np.zeros((0, values.shape[0]))
    floor = rank_cutoff(np.float64) * float(np.square(values).sum())
    roots = np.sqrt(np.maximum(np.broadcast_to(ridge, rank), floor))
    basis, factor = la.qr(np.vstack([values, np.diag(roots)]), mode="economic", check_finite=False)
    found: Float64Array = la.solve_triangular(factor, basis[: values.shape[0]].T, check_finite=False)
    return found
