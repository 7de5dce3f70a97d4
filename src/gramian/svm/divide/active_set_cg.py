"""Box problems of many thousands of variables: active sets and preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import rank_cutoff, unit_roundoff, whiten
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import Gram, SymmetricTiles

#: Function v ↦ A⁻¹ v of some matrix A.
Solve = Callable[[Float64Array], Float64Array]

#: Most faces (sets of free coordinates) in one call, and most conjugate gradient steps on a face; the caller
#: calls again if needed. Chosen by hand, as are the next constants.
MOST_FACES, MOST_STEPS = 15, 200
#: Target for a face's residual, as a fraction of the targeted violation.
FACE_SHARE = 0.3
#: Active sets are not settling if they change at least this fraction of what they changed two faces ago.
SETTLING = 0.7
#: Active sets count as settled if they change less than this fraction of the free coordinates.
FEW_CHANGES = 0.002


def solve_faces(
    tiles: SymmetricTiles, preconditioner: TwoLevel, start: Dual, held: Array, goal: float
) -> Float64Array:
    """Return a point u of the box that nearly minimises ½ eᵀK e + gradientᵀe, e = u − start.

    The iteration is that of :func:`gramian.svm.divide.subproblem.solve_box`, with projected preconditioned
    conjugate gradients in place of Cholesky factors: it needs no matrix in memory and keeps Σu. ``held``
    marks coordinates at a bound that start out fixed there. The result is feasible, but if the active sets do
    not settle, it may be far from the minimum, and the objective may rise: the caller checks it, and ensures
    descent by a line search.

    Source: Hintermüller, Ito and Kunisch 2003; Gould, Hribar and Nocedal 2001 for the projection.
    """
    face = start.at(start.u.copy(), start.gradient.copy())
    sides, changes = np.where(held, start.sides, 0), list[int]()
    for _ in range(MOST_FACES):
        free = sides == 0
        if not free.any():
            break
        solve = preconditioner.on(free)
        offset = _minimise(face, tiles, solve, face.put(face.u, sides), free, FACE_SHARE * goal)
        before, sides = sides, face.next_sides(face.u, face.gradient + offset, sides, goal)
        changes.append(int(np.count_nonzero(sides != before)))
        stalled = len(changes) > 2 and changes[-1] > SETTLING * changes[-3]
        if stalled or changes[-1] <= FEW_CHANGES * np.count_nonzero(free):
            break
    return start.into_box(face.u)


def _minimise(
    face: Dual, tiles: SymmetricTiles, solve: Solve, u: Float64Array, free: Array, goal: float
) -> float:
    """Move to u, then minimise over its free coordinates with Σu fixed; return the multiplier b."""
    change, total = u - face.u, face.total
    even = np.zeros(0)
    if total is not None:
        even = solve(np.ones(int(free.sum())))
        change[free] += (total - float(u.sum())) / float(even.sum()) * even
    if change.any():
        face.u = face.u + change
        face.gradient = face.gradient + tiles.matvec(change)
    residual = -face.gradient[free]
    direction, slope = np.zeros(len(residual)), 1.0
    for step in range(MOST_STEPS):
        middle = 0.0 if total is None else 0.5 * float(residual.max() + residual.min())
        if np.abs(residual - middle).max() <= goal:
            break
        z = solve(residual)
        if total is not None:
            z -= float(z.sum()) / float(even.sum()) * even
        new = float(residual @ z)
        direction = z + (new / slope if step else 0.0) * direction
        slope = new
        full = np.zeros(len(free))
        full[free] = direction
        image = tiles.matvec(full)
        curvature = float(direction @ image[free])
        if not curvature > 0.0 or not slope > 0.0:
            break  # only rounding errors are left
        length = slope / curvature
        face.u[free] += length * direction
        face.gradient += length * image
        residual = residual - length * image[free]
    return 0.0 if total is None else 0.5 * float(residual.max() + residual.min())


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

    def __init__(self, gram: Gram, bytes_at_most: int) -> None:
        m, self._gram = len(gram), gram
        # Numbers for each row: ``held`` of a block's factor, and half as many in each of three rows: of G for
        # all points, of G for the free ones, and of D⁻¹G.
        held = max(32, 2 * bytes_at_most // (8 * max(1, m)) // 5)
        rank = int(np.clip(held // 2, 16, min(LANDMARKS, max(1, m // ROWS_PER_LANDMARK))))
        self._slices = list(row_slices(m, int(np.clip(held, 32, BLOCK))))
        landmarks = gram.part(np.sort(gram.run.rng.choice(m, min(rank, m), replace=False)))
        white = whiten(landmarks.square(), len(landmarks), rank_cutoff(np.float64))
        self._features = np.asarray(gram.block(landmarks.rows) @ white.vectors, np.float64)
        self._diagonal = gram.kernel.diagonal(gram.rows)
        self._latest: tuple[Array, Solve] | None = None

    def on(self, free: Array) -> Solve:
        """Return the function v ↦ P_F⁻¹ v, where P_F is P on the free coordinates.

        On a face that differs little from the last one, the new coordinates count as blocks of their own.
        """
        few = REUSE * np.count_nonzero(free)
        if self._latest is None or np.count_nonzero(self._latest[0] ^ free) > few:
            self._latest = None  # free the old factors first: two sets would take too much memory
            self._latest = free.copy(), self._factored(free)
        before, inverse = self._latest
        added = free & ~before
        unit = np.where(self._diagonal > 0, self._diagonal, 1.0)[added]

        def solve(v: Float64Array) -> Float64Array:
            full, out = np.zeros(len(free)), np.zeros(len(free))
            full[free] = v
            out[before], out[added] = inverse(full[before]), full[added] / unit
            return out[free]

        return solve

    def _factored(self, free: Array) -> Solve:
        """Return the function v ↦ P_F⁻¹ v from new factors."""
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
            self._factor(part, features[place], factor)
            inner[place] = cho_solve(factor, features[place])

        self._gram.run.engine.run(fill, list(zip(parts, places, factors)))
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

    def _factor(self, part: IntArray, own: Float64Array, out: Float64Array) -> None:
        """Write the Cholesky factor of D on these points to ``out``; ``own`` is their G."""
        block = np.asarray(self._gram.kernel(self._gram.rows[part], dtype=np.float64, n_jobs=1))
        block -= np.matmul(own, own.T, out=out)
        floor = JITTER * unit_roundoff(np.float64) * max(float(self._diagonal[part].max()), 1e-300)
        shift = max(SHIFT * float(block.diagonal().mean()), floor)
        while True:
            out[:] = block
            out.flat[:: len(block) + 1] += shift
            try:
                cholesky(out, overwrite=True)
            except la.LinAlgError:
                shift *= 10.0  # the kernel is not positive semi-definite
                continue
            return
