"""Projection cores: kernel products over the landmarks of two blocks, without reading or sampling rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, Rows
from gramian.compression.basis import Basis
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore

Strip = dict[tuple[int, int], Float64Array]

#: Largest number of landmarks of neighbouring blocks that share a kernel tile. Even a tile of a few entries
#: takes 0.1 ms, and 200 blocks of one row each would need 20,100 tiles. Chosen by hand.
RUN_LANDMARKS = 128


def projection_core(
    kernel: Kernel, bases: Sequence[Basis], keep: Array | None, engine: Engine
) -> CoupledCore:
    """Return C_st = V_sᵀ K(Z_s, Z_t) V_t for s ≤ t, with C_ss = I, without the pairs that ``keep`` drops."""
    points = [b.landmarks for b in bases]
    vectors = [b.matrix.astype(np.float64) for b in bases]
    return coupled_blocks(kernel, points, vectors, keep, engine, psd=keep is None)


def coupled_blocks(
    kernel: Kernel,
    points: Sequence[Rows],
    vectors: Sequence[Float64Array],
    keep: Array | None,
    engine: Engine,
    *,
    psd: bool,
    whitened: bool = True,
) -> CoupledCore:
    """Return C_st = L_sᵀ K(Z_s, Z_t) L_t for vectors L_s (m_s × r_s), without the pairs that ``keep`` drops.

    Where the vectors are ``whitened``, C_ss = I is not computed.
    """
    ranks = [v.shape[1] for v in vectors]
    runs = block_runs([len(v) for v in vectors])
    joined = [_joined_vectors(vectors, run) for run in runs]

    def strip(a: int) -> Strip:
        row = {(s, s): np.eye(ranks[s]) for s in runs[a]} if whitened else {}
        mine = _joined_points(points, runs[a])
        for b in range(a, len(runs)):
            wanted = [
                (s, t)
                for s in runs[a]
                for t in runs[b]
                if (s < t or (s == t and not whitened))
                and (ranks[s] and ranks[t] and (keep is None or keep[s, t]))
            ]
            if wanted:
                others = mine if a == b else _joined_points(points, runs[b])
                own = joined[a].T @ kernel(mine, others, dtype=np.float64, n_jobs=1) @ joined[b]
                own = 0.5 * (own + own.T) if a == b else own
                row.update(_cut(own, runs[a], runs[b], ranks, wanted))
        return row

    with engine.results(strip, range(len(runs))) as strips:
        return join_blocks(strips, ranks, keep, psd=psd)


def block_row_grams(
    kernel: Kernel,
    points: Sequence[Rows],
    vectors: Sequence[Float64Array],
    met: Sequence[Float64Array],
    engine: Engine,
) -> list[Float64Array]:
    r"""Return L_sᵀ (Σ_t Y_st Y_stᵀ) L_s with Y_st = K(Z_s, Z_t) N_t, for each block s.

    With N_t = L_t the result is S_s,: S_s,:ᵀ, where S_s,: is the block row of S_st = L_sᵀ K(Z_s, Z_t) L_t;
    S is never stored. To save time, N_t may have fewer columns than L_t, with N_t N_tᵀ ≈ L_t L_tᵀ.

    Time O((Σ m_s) (Σ m_s d + Σ q_t · max m)) for q_t columns, memory O(Σ m_s² + max m²) a thread.
    """
    runs = block_runs([len(v) for v in vectors])
    joined = [_joined_vectors(met, run) for run in runs]
    outer = [np.zeros((len(v), len(v))) for v in joined]

    def strip(a: int) -> list[tuple[int, Float64Array]]:
        found = []
        own = np.zeros_like(outer[a])
        mine = _joined_points(points, runs[a])
        for b in range(a, len(runs)):
            block = kernel(mine, _joined_points(points, runs[b]), dtype=np.float64, n_jobs=1)
            Y = block @ joined[b]
            own += Y @ Y.T
            if b > a:
                Y = block.T @ joined[a]
                found.append((b, Y @ Y.T))
        return [(a, own), *found]

    with engine.results(strip, range(len(runs))) as strips:
        for parts in strips:
            for a, part in parts:
                outer[a] += part
    sizes = [len(v) for v in vectors]
    grams: list[Float64Array] = []
    for a, run in enumerate(runs):
        pairs = [(s, s) for s in run]
        for (s, _), gram in _cut(outer[a], run, run, sizes, pairs).items():
            grams.append(vectors[s].T @ gram @ vectors[s])
        outer[a] = np.zeros((0, 0))  # free it: only one of the two is held at a time
    return grams


def block_runs(sizes: Sequence[int]) -> list[range]:
    """Cut the blocks into runs of neighbours, each with one block or at most RUN_LANDMARKS landmarks."""
    runs, first, total = [], 0, 0
    for s, size in enumerate(sizes):
        if s > first and total + size > RUN_LANDMARKS:
            runs.append(range(first, s))
            first, total = s, 0
        total += size
    return [*runs, range(first, len(sizes))]


def _joined_points(points: Sequence[Rows], run: range) -> Rows:
    """Return the landmarks of all blocks of a run, stacked."""
    own: list[Any] = [points[s] for s in run]
    if len(own) == 1:
        return points[run[0]]
    if any(sp.issparse(part) for part in own):
        return sp.vstack([sp.csr_array(part) for part in own], format="csr")
    joined: Array = np.concatenate(own)
    return joined


def _joined_vectors(vectors: Sequence[Float64Array], run: range) -> Float64Array:
    """Return the block-diagonal matrix of a run's vectors."""
    if len(run) == 1:
        return vectors[run[0]]
    joined: Float64Array = la.block_diag(*(vectors[s] for s in run))
    return joined


def _cut(
    matrix: Float64Array, rows: range, columns: range, sizes: Sequence[int], wanted: list[tuple[int, int]]
) -> Strip:
    """Cut a matrix over two runs into its blocks and return the wanted ones."""
    down = np.concatenate([[0], np.cumsum([sizes[s] for s in rows])]).tolist()
    across = np.concatenate([[0], np.cumsum([sizes[t] for t in columns])]).tolist()
    found = {}
    for s, t in wanted:
        i, j = s - rows[0], t - columns[0]
        # Copy: a view would keep the whole matrix in memory.
        found[s, t] = np.ascontiguousarray(matrix[down[i] : down[i + 1], across[j] : across[j + 1]])
    return found


def join_blocks(
    strips: Iterable[dict[tuple[int, int], Float64Array]],
    ranks: Sequence[int],
    keep: Array | None,
    *,
    psd: bool,
) -> CoupledCore:
    """Join upper block rows: into a dense core, or into a block-sparse one if pairs were dropped."""
    if keep is not None:
        return CoupledCore({key: block for row in strips for key, block in row.items()}, ranks, psd=psd)
    # Filled as the strips arrive, so that the core is in memory only once.
    offsets = np.concatenate([[0], np.cumsum(ranks, dtype=np.intp)])
    core = np.zeros((offsets[-1], offsets[-1]))
    for row in strips:
        for (s, t), block in row.items():
            core[offsets[s] : offsets[s + 1], offsets[t] : offsets[t + 1]] = block
            core[offsets[t] : offsets[t + 1], offsets[s] : offsets[s + 1]] = block.T
    return CoupledCore(core, ranks, psd=psd)
