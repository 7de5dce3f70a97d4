"""Box-constrained problems of many thousands of variables: active sets and conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.interior import Solve, interior_point
from gramian.svm.divide.preconditioner import TwoLevel
from gramian.svm.divide.subproblem import bounds_of, into_box
from gramian.svm.divide.tiles import SymmetricTiles

#: Most faces (sets of free coordinates) in one call, and most conjugate gradient steps on a face; the caller
#: calls again if needed. Chosen by hand, as are the next constants.
MOST_FACES, MOST_STEPS = 15, 200
#: Target for a face's residual, as a fraction of the targeted violation.
FACE_SHARE = 0.3
#: Accuracy of the interior point's linear systems, in the energy norm.
SYSTEM_SHARE = 1e-3
#: Active sets are not settling if they change at least this fraction of what they changed two faces ago.
SETTLING = 0.7
#: Active sets count as settled if they change less than this fraction of the free coordinates.
FEW_CHANGES = 0.002


def solve_faces(
    tiles: SymmetricTiles,
    preconditioner: TwoLevel,
    gradient: Float64Array,
    lower: Float64Array,
    upper: Float64Array,
    start: Float64Array,
    held: Array,
    *,
    equality: bool,
    goal: float,
) -> Float64Array:
    """Return a point u of the box that nearly minimises ½ eᵀK e + gradientᵀe, e = u − start.

    The iteration is that of :func:`gramian.svm.divide.subproblem.solve_box`, with projected preconditioned
    conjugate gradients in place of Cholesky factors: it needs no matrix in memory and keeps Σu. ``held``
    marks coordinates at a bound that start out fixed there. The result is feasible, but the objective may
    rise: the caller ensures descent by a line search.

    Source: Hintermüller, Ito and Kunisch 2003; Gould, Hribar and Nocedal 2001 for the projection.
    """
    total = float(start.sum()) if equality else None
    at_lower, at_upper = held & (start <= lower), held & (start >= upper)
    face = _Face(tiles, gradient, start.copy(), np.zeros(len(start)))
    if not face.follow(at_lower, at_upper, lower, upper, preconditioner, total, goal):
        inside = np.flatnonzero(upper > lower)
        whole = _Large(tiles, preconditioner, inside)
        width = (upper - lower)[inside]
        linear = (gradient + tiles.matvec(lower - start))[inside]
        rest = None if total is None else total - float(lower.sum())
        point = interior_point(whole, linear, width, rest, goal)
        at_lower, at_upper = lower >= upper, np.zeros(len(lower), bool)
        at_lower[inside], at_upper[inside] = bounds_of(point, width, whole.diagonal)
        x = lower.copy()
        x[inside] += point.x
        x = np.where(at_lower, lower, np.where(at_upper, upper, x))
        best = into_box(x, lower, upper, total)
        if not face.follow(at_lower, at_upper, lower, upper, preconditioner, total, goal):
            return best
    return into_box(face.x, lower, upper, total)


@dataclass(frozen=True, slots=True)
class _Large:
    """K on the coordinates ``inside`` for the interior point; systems are solved by conjugate gradients."""

    tiles: SymmetricTiles
    preconditioner: TwoLevel
    inside: IntArray

    @property
    def diagonal(self) -> Float64Array:
        return self.preconditioner.diagonal[self.inside]

    def _spread(self, v: Float64Array) -> Float64Array:
        out = np.zeros(len(self.tiles))
        out[self.inside] = v
        return out

    def product(self, v: Float64Array) -> Float64Array:
        return self.tiles.matvec(self._spread(v))[self.inside]

    def shifted(self, diagonal: Float64Array) -> Solve:
        free = self._spread(np.ones(len(self.inside))) > 0
        near = self.preconditioner.on(free, self._spread(diagonal))

        def solve(right: Float64Array) -> Float64Array:
            x, residual = np.zeros_like(right), right
            direction, slope = np.zeros_like(right), 1.0
            first = 0.0
            for step in range(MOST_STEPS):
                z = near(residual)
                new = float(residual @ z)
                first = first or new
                if not new > SYSTEM_SHARE**2 * first:
                    break
                direction = z + (new / slope if step else 0.0) * direction
                slope = new
                image = self.product(direction) + diagonal * direction
                length = slope / float(direction @ image)
                x = x + length * direction
                residual = residual - length * image
            return x

        return solve


@dataclass(slots=True)
class _Face:
    tiles: SymmetricTiles
    gradient: Float64Array
    x: Float64Array
    product: Float64Array  #: K (x − start)

    def _move(self, change: Float64Array) -> None:
        if change.any():
            self.x = self.x + change
            self.product = self.product + self.tiles.matvec(change)

    def follow(
        self,
        at_lower: Array,
        at_upper: Array,
        lower: Float64Array,
        upper: Float64Array,
        preconditioner: TwoLevel,
        total: float | None,
        goal: float,
    ) -> bool:
        """Update the active sets until they settle; return whether they did."""
        wide = upper > lower
        changes: list[int] = []
        for _ in range(MOST_FACES):
            free = ~(at_lower | at_upper) & wide
            if not free.any():
                return False
            x = np.where(at_lower, lower, np.where(at_upper, upper, np.where(wide, self.x, lower)))
            offset = self.minimise(x, free, preconditioner, total, FACE_SHARE * goal)
            pull = self.gradient + self.product + offset
            new_lower = np.where(free, self.x < lower, at_lower & (pull >= -goal))
            new_upper = np.where(free, self.x > upper, at_upper & (pull <= goal))
            changes.append(int((new_lower ^ at_lower).sum() + (new_upper ^ at_upper).sum()))
            at_lower, at_upper = new_lower, new_upper
            if changes[-1] <= FEW_CHANGES * np.count_nonzero(free):
                return True
            if len(changes) > 2 and changes[-1] > SETTLING * changes[-3]:
                return False
        return True

    def minimise(
        self, x: Float64Array, free: Array, preconditioner: TwoLevel, total: float | None, goal: float
    ) -> float:
        """Move to x, then minimise over its free coordinates with Σx = total; return the multiplier b."""
        solve = preconditioner.on(free)
        change = x - self.x
        even = np.zeros(0)
        if total is not None:
            even = solve(np.ones(int(free.sum())))
            change[free] += (total - float(x.sum())) / float(even.sum()) * even
        self._move(change)
        residual = -(self.gradient + self.product)[free]
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
            image = self.tiles.matvec(full)
            curvature = float(direction @ image[free])
            if not curvature > 0.0 or not slope > 0.0:
                break  # only rounding errors are left
            length = slope / curvature
            self.x[free] += length * direction
            self.product += length * image
            residual = residual - length * image[free]
        return 0.0 if total is None else 0.5 * float(residual.max() + residual.min())
