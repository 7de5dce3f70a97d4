"""Alternating least squares on sampled entries of K: find U with K ≈ U Uᵀ.

Source: Bhojanapalli and Jain's matrix completion, for kernels by KALS (ESANN 2016), Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import als_ridge
from gramian._phases import Progress, uncounted
from gramian._typing import Float64Array, IntArray, Rows
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.base import Kernel

#: Rows of a tile; they share sampled columns and thus one Cholesky factorization. Chosen by hand.
TILE_ROWS = 64


@dataclass(frozen=True)
class Entries:
    """Sampled entries Ω of K by tiles of 64 rows: chosen columns, as many random ones a tile, the diagonal.

    All rows of a tile share their columns, so its 64 least-squares problems take one product and one
    factorization. A tile draws its random columns from its own stream, so they are the same in each iteration
    and for any number of threads.
    """

    source: RowSource
    kernel: Kernel
    chosen: IntArray  #: numbers of the columns that all rows share
    points: Rows  #: the rows with these numbers
    extra: int  #: random columns per tile
    seed: int

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return -(-self.source.shape[0] // TILE_ROWS)

    def columns(self, tile: int) -> IntArray:
        """Return the numbers of a tile's random columns; tile −1 draws those that all rows share."""
        stream = np.random.default_rng([self.seed, tile + 1])
        others = np.setdiff1d(np.arange(self.source.shape[0]), self.chosen, assume_unique=True)
        return np.sort(stream.choice(others, min(self.extra, len(others)), replace=False))


def half_step(
    entries: Entries, U: Float64Array, engine: Engine, progress: Progress = uncounted
) -> Float64Array:
    r"""Return V = argmin Σ_{(i,j) ∈ Ω} (K_ij − v_iᵀ u_j)², row by row.

    v_i solves (U_Jᵀ U_J + u_i u_iᵀ + μ I) v_i = U_Jᵀ K_Ji + K_ii u_i for the columns J of its tile. The
    diagonal entry is a rank-one change, left out if i is in J. μ is at the rounding level of the trace
    (:func:`gramian._numerics.als_ridge`).

    Time O(n/64 · k r² + n k (d + r)) for k columns a row, memory O(n r + k (d + r)) a thread.
    """
    V = np.empty_like(U)
    shared = U[entries.chosen]
    gram = shared.T @ shared
    with engine.results(partial(_tile, entries, U, V, shared, gram), range(entries.n_tiles)) as tiles:
        for rows in tiles:
            progress(rows)
    return V


def _tile(
    entries: Entries, U: Float64Array, V: Float64Array, shared: Float64Array, gram: Float64Array, tile: int
) -> int:
    """Write the rows of a tile into V and return how many they are."""
    start = tile * TILE_ROWS
    stop = min(start + TILE_ROWS, entries.source.shape[0])
    drawn = entries.columns(tile)
    X = entries.source.rows(slice(start, stop))
    own = U[drawn]
    right = shared.T @ entries.kernel(entries.points, X, dtype=np.float64, n_jobs=1)
    if len(drawn):
        right += own.T @ entries.kernel(entries.source.take(drawn), X, dtype=np.float64, n_jobs=1)
    factor = ridged_factor(gram + own.T @ own)
    found = cho_solve(factor, right).T
    # Sherman-Morrison adds the diagonal entry for rows that are not among the columns J.
    mine = U[start:stop]
    lift = cho_solve(factor, mine.T).T
    missing = entries.kernel.diagonal(X) - np.einsum("ij,ij->i", found, mine)
    share = missing / (1.0 + np.einsum("ij,ij->i", lift, mine))
    rows = np.arange(start, stop)
    share[np.isin(rows, drawn) | np.isin(rows, entries.chosen)] = 0.0
    V[start:stop] = found + share[:, None] * lift
    return stop - start


def ridged_factor(gram: Float64Array) -> Float64Array:
    """Return the Cholesky factor of U_JᵀU_J + μ I."""
    system = gram.copy()
    system.flat[:: len(gram) + 1] += als_ridge(gram)
    return cholesky(system, overwrite=True)
