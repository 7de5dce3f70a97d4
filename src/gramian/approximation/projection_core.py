"""Cores that are products over the landmarks of two blocks: no row of the data, no sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gramian._typing import Array, Float64Array, Rows
from gramian.approximation.basis import Basis
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore

Strip = dict[tuple[int, int], Float64Array]


def projection_core(
    kernel: Kernel, bases: Sequence[Basis], keep: Array | None, engine: Engine
) -> CoupledCore:
    """Return C_st = V_sᵀ K(Z_s, Z_t) V_t for s ≤ t, with C_ss = I; dropped pairs are left out."""
    ranks = [b.rank for b in bases]
    vectors = [b.matrix.astype(np.float64) for b in bases]

    def strip(s: int) -> Strip:
        row = {(s, s): np.eye(ranks[s])}
        for t in range(s + 1, len(bases)):
            if ranks[s] and ranks[t] and (keep is None or keep[s, t]):
                block = kernel(bases[s].landmarks, bases[t].landmarks, dtype=np.float64, n_jobs=1)
                row[s, t] = vectors[s].T @ block @ vectors[t]
        return row

    return join_blocks(engine.map(strip, range(len(bases))), ranks, keep, psd=keep is None)


def landmark_core(
    kernel: Kernel, points: Sequence[Rows], vectors: Sequence[Float64Array], engine: Engine
) -> CoupledCore:
    """Return C_st = L_sᵀ K(Z_s, Z_t) L_t for any vectors L_s (m_s × r_s): positive semi-definite.

    Time O((Σ m_s)² (d + max r)), memory O(R² + max m²).
    """

    def strip(s: int) -> Strip:
        row = {}
        for t in range(s, len(points)):
            block = kernel(points[s], points[t], dtype=np.float64, n_jobs=1)
            own = vectors[s].T @ block @ vectors[t]
            row[s, t] = 0.5 * (own + own.T) if s == t else own
        return row

    ranks = [v.shape[1] for v in vectors]
    return join_blocks(engine.map(strip, range(len(points))), ranks, None, psd=True)


def block_row_grams(
    kernel: Kernel,
    points: Sequence[Rows],
    vectors: Sequence[Float64Array],
    met: Sequence[Float64Array],
    engine: Engine,
) -> list[Float64Array]:
    r"""Return L_sᵀ (Σ_t Y_st Y_stᵀ) L_s with Y_st = K(Z_s, Z_t) N_t, for each block s.

    With L_t as N_t that is S_s,: S_s,:ᵀ for the block row of S_st = L_sᵀ K(Z_s, Z_t) L_t, S never stored;
    N_t with N_t N_tᵀ ≈ L_t L_tᵀ and fewer columns stands for it.

    Time O((Σ m_s) (Σ m_s d + Σ q_t · max m)) for q_t columns, memory O(Σ m_s² + max m²) a thread.
    """
    outer = [np.zeros((len(v), len(v))) for v in vectors]

    def strip(s: int) -> list[tuple[int, Float64Array]]:
        found = []
        own = np.zeros_like(outer[s])
        for t in range(s, len(points)):
            block = kernel(points[s], points[t], dtype=np.float64, n_jobs=1)
            Y = block @ met[t]
            own += Y @ Y.T
            if t > s:
                Y = block.T @ met[s]
                found.append((t, Y @ Y.T))
        return [(s, own), *found]

    for parts in engine.map(strip, range(len(points))):
        for s, part in parts:
            outer[s] += part
    for s, gram in enumerate(engine.map(lambda s: vectors[s].T @ outer[s] @ vectors[s], range(len(points)))):
        outer[s] = gram  # one of the two at a time
    return outer


def join_blocks(
    strips: Iterable[dict[tuple[int, int], Float64Array]],
    ranks: Sequence[int],
    keep: Array | None,
    *,
    psd: bool,
) -> CoupledCore:
    """Put upper block rows together: a dense core, or a block-sparse one where pairs were dropped."""
    if keep is not None:
        return CoupledCore({key: block for row in strips for key, block in row.items()}, ranks, psd=psd)
    # Filled as the strips come in, so that the core is in memory once.
    offsets = np.concatenate([[0], np.cumsum(ranks, dtype=np.intp)])
    core = np.zeros((offsets[-1], offsets[-1]))
    for row in strips:
        for (s, t), block in row.items():
            core[offsets[s] : offsets[s + 1], offsets[t] : offsets[t + 1]] = block
            core[offsets[t] : offsets[t + 1], offsets[s] : offsets[s + 1]] = block.T
    return CoupledCore(core, ranks, psd=psd)
