"""Preconditioner K ≈ G Gᵀ + D: landmarks for the smooth part, exact blocks for the rest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import rank_cutoff, unit_roundoff, whiten
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.interior import Solve

#: Most rows of a block, most landmarks, and fewest rows for each landmark. Chosen by hand, as are the next
#: constants.
BLOCK, LANDMARKS, ROWS_PER_LANDMARK = 1024, 512, 4
#: Shift added to a block of D, as a fraction of its mean diagonal; the neglected entries outside the blocks
#: are larger than this.
SHIFT = 1e-2
#: A face that differs from the last one in at most this fraction of its coordinates reuses its factors.
REUSE = 0.02
#: Smallest shift of D, in units of u·max k(x, x), to cover rounding of G Gᵀ.
JITTER = 1e4


class TwoLevel:
    """Positive definite preconditioner P = G Gᵀ + blockdiag(K − G Gᵀ) + shift, and its inverse on a face.

    A face is the set of free coordinates. Blocks are consecutive points. With points ordered by clusters the
    blocks capture local structure and the landmarks capture the coupling of clusters, so that conjugate
    gradients take about ten steps instead of hundreds.

    ``bytes_at_most`` bounds blocks and landmarks. Time O(m · (block² + landmarks²)) a face.

    Source: Snelson and Ghahramani 2007 for low rank plus blocks, inverted by the Woodbury identity.
    """

    def __init__(self, gram: Gram, bytes_at_most: int, rng: np.random.Generator) -> None:
        m, self._gram = len(gram), gram
        # Numbers for each row: ``held`` of a block's factor, and half as many in each of three rows: of G for
        # all points, of G for the free ones, and of D⁻¹G.
        held = max(32, 2 * bytes_at_most // (8 * max(1, m)) // 5)
        rank = int(np.clip(held // 2, 16, min(LANDMARKS, max(1, m // ROWS_PER_LANDMARK))))
        self._slices = list(row_slices(m, int(np.clip(held, 32, BLOCK))))
        landmarks = gram.part(np.sort(rng.choice(m, min(rank, m), replace=False)))
        white = whiten(landmarks.square(), len(landmarks), rank_cutoff(np.float64))
        self._features = np.asarray(gram.block(landmarks.rows) @ white.vectors, np.float64)
        self.diagonal = gram.kernel.diagonal(gram.rows)
        self._latest: tuple[Array, Solve] | None = None

    def on(self, free: Array, diagonal: Float64Array | None = None) -> Solve:
        """Return the function v ↦ P_F⁻¹ v with P_F, P on the free coordinates, plus ``diagonal`` if given."""
        if diagonal is None and self._latest is not None:
            changed = np.count_nonzero(self._latest[0] ^ free)
            if changed <= REUSE * np.count_nonzero(free):
                return self._patched(*self._latest, free)
        self._latest = None  # free the old factors first: two sets would take too much memory
        solve = self._solve_on(free, diagonal)
        if diagonal is None:
            self._latest = free.copy(), solve
        return solve

    def _patched(self, before: Array, solve: Solve, free: Array) -> Solve:
        """Adapt the inverse of a nearly equal face to this one; it stays positive definite."""
        added = free & ~before
        unit = np.where(self.diagonal > 0, self.diagonal, 1.0)[added]

        def patched(v: Float64Array) -> Float64Array:
            full = np.zeros(len(free))
            full[free] = v
            out = np.zeros(len(free))
            out[before] = solve(full[before])
            out[added] = full[added] / unit
            return out[free]

        return patched

    def _solve_on(self, free: Array, diagonal: Float64Array | None) -> Solve:
        parts = [np.flatnonzero(free[part]) + part.start for part in self._slices]
        parts = [part for part in parts if part.size]
        edges = np.cumsum([0, *(part.size for part in parts)])
        places = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        features = self._features[free]
        # One array for all factors: unlike many small ones, it goes back to the system when it is freed.
        sizes = [part.size**2 for part in parts]
        cuts = np.split(np.empty(sum(sizes)), np.cumsum(sizes)[:-1])
        factors = [cut.reshape(part.size, part.size) for cut, part in zip(cuts, parts)]
        inner = np.empty_like(features)

        def fill(task: tuple[IntArray, slice, Float64Array]) -> None:
            part, place, factor = task
            self._factor(part, features[place], 0.0 if diagonal is None else diagonal[part], factor)
            inner[place] = cho_solve(factor, features[place])

        self._gram.engine.run(fill, list(zip(parts, places, factors)))
        self._gram.count(sum(sizes))
        core = features.T @ inner
        core.flat[:: len(core) + 1] += 1.0
        outer = cholesky(core, overwrite=True)

        def solve(v: Float64Array) -> Float64Array:
            x = np.empty_like(v)
            for factor, place in zip(factors, places):
                x[place] = cho_solve(factor, v[place])
            return np.asarray(x - inner @ cho_solve(outer, features.T @ x))

        return solve

    def _factor(
        self, part: IntArray, own: Float64Array, diagonal: Float64Array | float, out: Float64Array
    ) -> None:
        """Write the Cholesky factor of D on these points to ``out``; ``own`` is their G."""
        block = np.asarray(self._gram.kernel(self._gram.rows[part], dtype=np.float64, n_jobs=1))
        block -= np.matmul(own, own.T, out=out)
        floor = JITTER * unit_roundoff(np.float64) * max(float(self.diagonal[part].max()), 1e-300)
        shift = max(SHIFT * float(block.diagonal().mean()), floor)
        while True:
            out[:] = block
            out.flat[:: len(block) + 1] += shift + diagonal
            try:
                cholesky(out, overwrite=True)
            except la.LinAlgError:
                shift *= 10.0  # the kernel is not positive semi-definite
                continue
            return
