"""Core of the MEKA paper: least squares on sampled rows of each pair of blocks, with a ridge or without.

Source: Si, Hsieh and Dhillon 2014, Algorithm 1. The paper has no ridge. Its sampled systems are
ill-conditioned, and blow up on some samples (item "table 2" of benchmarks/papers/meka.py measures how far).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import scipy.linalg as la

from gramian._numerics import rank_cutoff
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.compression.basis import Basis
from gramian.compression.projection_core import coupled_blocks
from gramian.engine import Engine
from gramian.exceptions import NumericalError, NumericalWarning, user_level
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore

#: Entries of a positive semi-definite core with unit diagonal are at most 1. Above this multiple of it the
#: least squares without a ridge have amplified what the bases leave out. Chosen by hand.
BLOWN_UP = 2.0


def sampled_core(
    kernel: Kernel,
    bases: Sequence[Basis],
    sample: Rows,
    members: Sequence[IntArray],
    n_rows: int,
    keep: Array | None,
    streams: Sequence[np.random.Generator],
    engine: Engine,
    *,
    regularised: bool = True,
) -> CoupledCore:
    r"""Return C_st = H_s K(v_s, v_t) H_tᵀ, H = (WᵀW + μI)⁻¹ Wᵀ, for n_rows sampled rows v_s of each block.

    With whitened bases the true core has C_ss = I and ‖C_st‖₂ ≤ 1, which is a prior of unit size. Each
    sampled entry has noise of about the size of the basis' residual diagonal, so the ridge is
    μ = mean(k(x, x) − ‖w(x)‖²) over v_s, and at least the rounding level. μ → 0 gives the paper's
    pseudo-inverse.

    Warns if a system is singular, so that its ridge alone decides some coefficients. Without
    ``regularised``, μ = 0 as in the paper: a singular system raises ``NumericalError``, and a core with
    entries that no positive semi-definite core has warns with the largest.
    Time O(c² n_rows² d + c² n_rows² r), memory O(R² + c n_rows (d + r)).
    """

    def prepare(s: int) -> tuple[Rows, Float64Array, str, float]:
        mine = members[s]
        size = min(n_rows, len(mine))
        rows = sample[np.sort(streams[s].choice(mine, size, replace=False))]
        basis = bases[s]
        W = kernel(rows, basis.landmarks, dtype=np.float64, n_jobs=1) @ basis.matrix
        found, singular = determined_columns(W), ""
        if found < basis.rank:
            singular = (
                f"the least squares of block {s} are singular: its {size} sampled rows determine {found} of "
                f"{basis.rank} columns of the basis"
            )
        if not regularised:
            if singular:
                raise NumericalError(
                    f"core='literal': {singular}. Raise core_oversampling, lower rank or gamma, or take "
                    "core='sampled', which adds a ridge, or core='projection', which needs no sample."
                )
            return rows, pseudo_inverse(W), singular, 0.0
        left_over = np.maximum(kernel.diagonal(rows) - np.einsum("ij,ij->i", W, W), 0.0)
        ridge = float(left_over.mean()) if size else 0.0
        return rows, ridge_inverse(W, ridge), singular, ridge

    samples = engine.map(prepare, range(len(bases)))
    singular = [(text, ridge) for _, _, text, ridge in samples if text]
    if singular:
        text, ridge = singular[0]
        others = f" ({len(singular)} of {len(bases)} blocks are singular)" if len(singular) > 1 else ""
        warnings.warn(
            f"core='sampled': {text}, and a ridge of {ridge:.3g} determines the others{others}. Raise "
            "core_oversampling, lower rank or gamma, or take core='projection', which needs no sample.",
            NumericalWarning,
            stacklevel=user_level(),
        )
    points, inverses = [rows for rows, *_ in samples], [inverse.T for _, inverse, *_ in samples]
    core = coupled_blocks(kernel, points, inverses, keep, engine, psd=False)
    if not regularised:
        _warn_blown_up(core)
    return core


def _warn_blown_up(core: CoupledCore) -> None:
    blocks = range(len(core.ranks))
    stored = (core.block(s, t) for s in blocks for t in blocks if s < t and not core.is_zero(s, t))
    largest = max((float(np.abs(block).max(initial=0.0)) for block in stored), default=0.0)
    if largest > BLOWN_UP:
        warnings.warn(
            f"core='literal': the least squares blew up: the core has an entry of {largest:.3g}, where no "
            "positive semi-definite core of these bases exceeds 1. Raise core_oversampling, or take "
            "core='sampled', which adds a ridge, or core='projection', which needs no sample.",
            NumericalWarning,
            stacklevel=user_level(),
        )


def determined_columns(values: Float64Array) -> int:
    """Return how many eigenvalues of WᵀW are above its rounding: coefficients that its rows determine."""
    if not values.size:
        return 0
    found = la.eigvalsh(values.T @ values, check_finite=False)
    return int(np.count_nonzero(found > rank_cutoff(np.float64) * found[-1]))


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


def pseudo_inverse(values: Float64Array) -> Float64Array:
    """Return (WᵀW)⁻¹ Wᵀ = R⁻¹ Qᵀ for W = QR of shape (rows, r) and full column rank."""
    if not values.shape[1]:
        return np.zeros((0, values.shape[0]))
    basis, factor = la.qr(values, mode="economic", check_finite=False)
    found: Float64Array = la.solve_triangular(factor, basis.T, check_finite=False)
    return found
