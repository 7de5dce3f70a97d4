"""Box-constrained problems of many thousands of variables: active sets and conjugate gradients."""

from __future__ import annotations

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.interior import Solve, from_inside
from gramian.svm.divide.preconditioner import TwoLevel
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
    tiles: SymmetricTiles, preconditioner: TwoLevel, start: Dual, held: Array, goal: float
) -> Float64Array:
    """Return a point u of the box that nearly minimises ½ eᵀK e + gradientᵀe, e = u − start.

    The iteration is that of :func:`gramian.svm.divide.subproblem.solve_box`, with projected preconditioned
    conjugate gradients in place of Cholesky factors: it needs no matrix in memory and keeps Σu. ``held``
    marks coordinates at a bound that start out fixed there. The result is feasible, but the objective may
    rise: the caller ensures descent by a line search.

    Source: Hintermüller, Ito and Kunisch 2003; Gould, Hribar and Nocedal 2001 for the projection.
    """
    lower, upper, total = start.lower, start.upper, start.total
    face = start.at(start.u.copy(), start.gradient.copy())
    at_lower, at_upper = held & (start.u <= lower), held & (start.u >= upper)
    if not _follow(face, tiles, preconditioner, total, at_lower, at_upper, goal):
        inside = np.flatnonzero(upper > lower)

        def spread(v: Float64Array) -> Float64Array:
            out = np.zeros(len(tiles))
            out[inside] = v
            return out

        def product(v: Float64Array) -> Float64Array:
            return tiles.matvec(spread(v))[inside]

        def shifted(diagonal: Float64Array) -> Solve:
            near = preconditioner.on(upper > lower, spread(diagonal))

            def solve(right: Float64Array) -> Float64Array:
                x, residual = np.zeros_like(right), right
                direction, slope, first = np.zeros_like(right), 1.0, 0.0
                for step in range(MOST_STEPS):
                    z = near(residual)
                    new = float(residual @ z)
                    first = first or new
                    if not new > SYSTEM_SHARE**2 * first:
                        break
                    direction = z + (new / slope if step else 0.0) * direction
                    slope = new
                    image = product(direction) + diagonal * direction
                    length = slope / float(direction @ image)
                    x = x + length * direction
                    residual = residual - length * image
                return x

            return solve

        linear = (start.gradient + tiles.matvec(lower - start.u))[inside]
        diagonal = preconditioner.diagonal[inside]
        best, _, at_lower, at_upper = from_inside(
            start, inside, product, shifted, linear, diagonal, total, goal
        )
        if not _follow(face, tiles, preconditioner, total, at_lower, at_upper, goal):
            return best
    return start.into_box(face.u, total)


def _follow(
    face: Dual,
    tiles: SymmetricTiles,
    preconditioner: TwoLevel,
    total: float | None,
    at_lower: Array,
    at_upper: Array,
    goal: float,
) -> bool:
    """Update the active sets, and the point with its gradient, until they settle; return whether they did."""
    wide = face.upper > face.lower
    changes: list[int] = []
    for _ in range(MOST_FACES):
        free = ~(at_lower | at_upper) & wide
        if not free.any():
            return False
        u = face.put(np.where(wide, face.u, face.lower), at_lower, at_upper)
        offset = _minimise(face, tiles, preconditioner.on(free), u, free, total, FACE_SHARE * goal)
        new = face.fixed(face.u, face.gradient + offset, free, at_lower, at_upper, goal)
        changes.append(int((new[0] ^ at_lower).sum() + (new[1] ^ at_upper).sum()))
        at_lower, at_upper = new
        if changes[-1] <= FEW_CHANGES * np.count_nonzero(free):
            return True
        if len(changes) > 2 and changes[-1] > SETTLING * changes[-3]:
            return False
    return True


def _minimise(
    face: Dual,
    tiles: SymmetricTiles,
    solve: Solve,
    u: Float64Array,
    free: Array,
    total: float | None,
    goal: float,
) -> float:
    """Move to u, then minimise over its free coordinates with Σu = total; return the multiplier b."""
    change = u - face.u
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
