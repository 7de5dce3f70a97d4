"""Cores that couple the blocks: kernel products over their landmarks, or least squares on sampled rows.

Source of the sampled core: Si, Hsieh and Dhillon 2014, Algorithm 1. The paper has no ridge. Its sampled
systems are ill-conditioned, and blow up on some samples (item "table 2" of benchmarks/papers/meka.py measures
how far).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from gramian._numerics import rank_cutoff
from gramian._typing import Array, Float64Array, Rows
from gramian.compression.basis import Basis
from gramian.engine import Engine
from gramian.exceptions import NumericalError, NumericalWarning, user_level
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore

Strip = dict[tuple[int, int], Float64Array]

#: Largest number of landmarks of neighbouring blocks that share a kernel tile. Even a tile of a few entries
#: takes 0.1 ms, and 200 blocks of one row each would need 20,100 tiles. Chosen by hand.
RUN_LANDMARKS = 128
#: Entries of a positive semi-definite core with unit diagonal are at most 1. Above this multiple of it the
#: least squares without a ridge have amplified what the bases leave out. Chosen by hand.
BLOWN_UP = 2.0


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
        others = []
        own = np.zeros_like(outer[a])
        mine = _joined_points(points, runs[a])
        for b in range(a, len(runs)):
            block = kernel(mine, _joined_points(points, runs[b]), dtype=np.float64, n_jobs=1)
            Y = block @ joined[b]
            own += Y @ Y.T
            if b > a:
                Y = block.T @ joined[a]
                others.append((b, Y @ Y.T))
        return [(a, own), *others]

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
    blocks = {}
    for s, t in wanted:
        i, j = s - rows[0], t - columns[0]
        # Copy: a view would keep the whole matrix in memory.
        blocks[s, t] = np.ascontiguousarray(matrix[down[i] : down[i + 1], across[j] : across[j + 1]])
    return blocks


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


def sampled_core(
    kernel: Kernel,
    bases: Sequence[Basis],
    rows: Sequence[Rows],
    keep: Array | None,
    engine: Engine,
    *,
    regularised: bool = True,
) -> CoupledCore:
    r"""Return C_st = H_s K(v_s, v_t) H_tᵀ, H = (WᵀW + μI)⁻¹ Wᵀ, for sampled rows v_s of each block.

    With whitened bases the true core has C_ss = I and ‖C_st‖₂ ≤ 1, which is a prior of unit size. Each
    sampled entry has noise of about the size of the basis' residual diagonal, so the ridge is
    μ = mean(k(x, x) − ‖w(x)‖²) over v_s, and at least the rounding level. μ → 0 gives the paper's
    pseudo-inverse.

    Warns if a system is singular, so that its ridge alone decides some coefficients. Without
    ``regularised``, μ = 0 as in the paper: a singular system raises ``NumericalError``, and a core with
    entries that no positive semi-definite core has warns with the largest.
    Time O(c² m² (d + r)) for m rows a block, memory O(R² + c m r).
    """

    def prepare(s: int) -> tuple[Float64Array, str, float]:
        basis, size = bases[s], rows[s].shape[0]
        W = kernel(rows[s], basis.landmarks, dtype=np.float64, n_jobs=1) @ basis.matrix
        rank, singular = determined_columns(W), ""
        if rank < basis.rank:
            singular = (
                f"the least squares of block {s} are singular: its {size} sampled rows determine {rank} of "
                f"{basis.rank} columns of the basis"
            )
        if not regularised:
            if singular:
                raise NumericalError(
                    f"core='literal': {singular}. Raise core_oversampling, lower rank or gamma, or take "
                    "core='sampled', which adds a ridge, or core='projection', which needs no sample."
                )
            return pseudo_inverse(W), singular, 0.0
        left_over = np.maximum(kernel.diagonal(rows[s]) - np.einsum("ij,ij->i", W, W), 0.0)
        ridge = float(left_over.mean()) if size else 0.0
        return ridge_inverse(W, ridge), singular, ridge

    prepared = engine.map(prepare, range(len(bases)))
    singular = [(text, ridge) for _, text, ridge in prepared if text]
    if singular:
        text, ridge = singular[0]
        others = f" ({len(singular)} of {len(bases)} blocks are singular)" if len(singular) > 1 else ""
        warnings.warn(
            f"core='sampled': {text}, and a ridge of {ridge:.3g} determines the others{others}. Raise "
            "core_oversampling, lower rank or gamma, or take core='projection', which needs no sample.",
            NumericalWarning,
            stacklevel=user_level(),
        )
    inverses = [inverse.T for inverse, *_ in prepared]
    core = coupled_blocks(kernel, rows, inverses, keep, engine, psd=False)
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
    eigenvalues = la.eigvalsh(values.T @ values, check_finite=False)
    return int(np.count_nonzero(eigenvalues > rank_cutoff(np.float64) * eigenvalues[-1]))


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
    inverse: Float64Array = la.solve_triangular(factor, basis[: values.shape[0]].T, check_finite=False)
    return inverse


def pseudo_inverse(values: Float64Array) -> Float64Array:
    """Return (WᵀW)⁻¹ Wᵀ = R⁻¹ Qᵀ for W = QR of shape (rows, r) and full column rank."""
    if not values.shape[1]:
        return np.zeros((0, values.shape[0]))
    basis, factor = la.qr(values, mode="economic", check_finite=False)
    inverse: Float64Array = la.solve_triangular(factor, basis.T, check_finite=False)
    return inverse
