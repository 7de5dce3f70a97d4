"""Dense problem of one working set: a quadratic over a box, by active sets and an interior point."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, IntArray
from gramian.svm.divide.dual import Dual

#: Most active sets tried before the interior point. Chosen by hand, as are the next constants.
MOST_SETS = 20
#: Tolerance of the interior point, as a fraction of ``tol``: coordinates are then set exactly to their
#: bounds.
INTERIOR_SHARE = 1e-3
#: Jitter on a singular free block in units of u·trace, and how often it may grow a hundredfold.
JITTER, JITTER_TRIES = 16.0, 6
#: Most matrices of the size of ``gram`` in memory: itself, and the interior point's last factor, next system
#: and next factor.
SQUARES = 4


def solve_box(
    gram: Float64Array, linear: Float64Array, start: Dual, tol: float
) -> tuple[Float64Array, float]:
    """Minimise ½ uᵀK u + cᵀu over the box of ``start``, from its u; return u and the b of the equality.

    First tries primal-dual active sets: guess which coordinates are free, solve for them and b, fix those
    that leave the box and free those that pull back into it. This takes a few factorisations of the free
    block. If the sets do not settle, a predictor-corrector interior point follows, then active sets once more
    from its answer. u is exactly at a bound where the bound is active; the gradient of ``start`` is not used.

    gram : (m, m), symmetric positive semi-definite; linear : (m,); tol : largest violation of the optimality
    conditions, in units of the gradient.

    Time O(free³) a set, O(m³) an interior step; memory ``SQUARES`` · 8 m² bytes with ``gram``.

    Source: Hintermüller, Ito and Kunisch 2003 (active sets); Mehrotra 1992 (interior point).

    >>> ones = np.ones(3)
    >>> solve_box(np.eye(3), -2 * ones, Dual(0 * ones, -2 * ones, 0 * ones, ones, None), 1e-6)[0]
    array([1., 1., 1.])
    """
    begun = start.at(start.u, gram @ start.u + linear)
    sides = start.next_sides(start.u, begun.gradient + begun.middle(), start.sides, tol)
    found = _active_sets(gram, linear, start, sides, tol)
    if found is not None and _violation(gram, linear, start, found[0]) <= 2.0 * tol:
        return found
    u, offset, sides = interior_point(gram, linear, start, INTERIOR_SHARE * tol)
    found = _active_sets(gram, linear, start, sides, tol)
    # If the minimum is not unique, a face's singular systems may be less accurate than the interior point.
    least = max(tol, _violation(gram, linear, start, u))
    return found if found and _violation(gram, linear, start, found[0]) <= least else (u, offset)


def _violation(gram: Float64Array, linear: Float64Array, box: Dual, u: Float64Array) -> float:
    """Return the largest violation of the optimality conditions; infinite outside of the box."""
    if (u < box.lower).any() or (u > box.upper).any():
        return float("inf")
    return box.at(u, gram @ u + linear).violation()


def _active_sets(
    gram: Float64Array, linear: Float64Array, box: Dual, sides: IntArray, tol: float
) -> tuple[Float64Array, float] | None:
    """Return the optimum and b by active sets from these; None if they do not settle or none is free."""
    for _ in range(MOST_SETS):
        index = np.flatnonzero(sides == 0)
        if not index.size:
            return None
        u = box.put(np.zeros(len(sides)), sides)
        right, offset = -(linear[index] + gram[index] @ u), 0.0
        block = gram[np.ix_(index, index)]
        if box.total is not None:
            # Σu is fixed, so adding a multiple of (Σu)² only raises the rank: K may be singular on constants.
            rest = box.total - float(u.sum())
            weight = max(float(block.diagonal().mean()), unit_roundoff(np.float64))
            block = block + weight
            right = right + weight * rest
        factor = _cholesky(block)
        if factor is None:
            return None
        if box.total is None:
            u[index] = cho_solve(factor, right)
        else:
            both = cho_solve(factor, np.column_stack([right, np.ones(len(right))]))
            offset = (float(both[:, 0].sum()) - rest) / float(both[:, 1].sum())
            u[index] = both[:, 0] - offset * both[:, 1]
        before, sides = sides, box.next_sides(u, gram @ u + linear + offset, sides, tol)
        if np.array_equal(before, sides):
            return u, offset
    return None


def _cholesky(matrix: Float64Array) -> Float64Array | None:
    jitter = 0.0
    for _ in range(JITTER_TRIES):
        shifted = matrix
        if jitter:
            shifted = matrix.copy()
            shifted.flat[:: len(matrix) + 1] += jitter
        try:
            return cholesky(shifted)
        except la.LinAlgError:
            least = JITTER * unit_roundoff(np.float64) * float(np.trace(matrix))
            jitter = max(least, 100.0 * jitter)
    return None


#: Most steps, the largest fraction of the way to the boundary that a step goes, and the fraction of the
#: tolerance at which the method stops. Chosen by hand, as are the next constants.
MOST_STEPS, STEP_SHARE, END_SHARE = 60, 0.995, 0.1
#: Stop after this many consecutive steps that do not lower the error by a tenth: only rounding is left.
MOST_STALLED = 12
#: Allowed error of the equality, in units of the widest interval; the caller corrects it on free coordinates.
GAP = 1e-8


def interior_point(
    gram: Float64Array, linear: Float64Array, box: Dual, tol: float
) -> tuple[Float64Array, float, IntArray]:
    """Minimise ½uᵀKu + cᵀu over the box, with Σu = total where it is fixed.

    Returns u in the box, b of the equality, and the sides (:attr:`Dual.sides`) of the coordinates. A
    coordinate is at a bound, and set to it, if the bound's multiplier, scaled to its unit, exceeds its
    distance to it.

    Applies Newton's method to K u + c + b = z − w and z x = w (width − x) = μ for x = u − lower, with μ → 0,
    where z ≥ 0 and w ≥ 0 are the multipliers of the lower and upper bounds. Each step factors K plus a
    positive diagonal and solves for up to three right sides.

    Source: Mehrotra 1992; Fine and Scheinberg 2001 for the dual of the SVM.
    """
    width, linear, diagonal = box.upper - box.lower, linear + gram @ box.lower, gram.diagonal()
    total = None if box.total is None else box.total - float(box.lower.sum())
    m = len(width)
    share = 0.5 if total is None else min(max(total / float(width.sum()), 1e-3), 1.0 - 1e-3)
    # Keep the distance s to the upper bound as a variable of its own: width − x could round to zero.
    x, s = share * width, (1.0 - share) * width
    start = gram @ x + linear
    z = np.full(m, max(1.0, float(np.abs(start).max())))
    w = z.copy()
    offset, least, stalled = 0.0, np.inf, 0
    floor = unit_roundoff(np.float64) ** 2 * float(x @ z + s @ w) / (2 * m)

    def direction(
        factor: Float64Array,
        residual: Float64Array,
        gap: float,
        ones: Float64Array | None,  # the system's answer to ones, with the equality
        to_z: Float64Array | float,
        to_w: Float64Array | float,
    ) -> tuple[Float64Array, float, Float64Array, Float64Array]:
        """Return the Newton steps of x, b, z and w for target values of the products z x and w s."""
        to_lower, to_upper = to_z / x - z, to_w / s - w
        dx, db = cho_solve(factor, -residual + to_lower - to_upper), 0.0
        if ones is not None:
            db = (float(dx.sum()) - gap) / float(ones.sum())
            dx = dx - db * ones
        return dx, db, to_lower - z / x * dx, to_upper + w / s * dx

    for _ in range(MOST_STEPS):
        residual = gram @ x + linear + offset - z + w
        gap = 0.0 if total is None else total - float(x.sum())
        mu = float(x @ z + s @ w) / (2 * m)
        worst = max(float((np.minimum(x, 1.0) * z).max()), float((np.minimum(s, 1.0) * w).max()))
        error = max(float(np.abs(residual).max()), worst)
        stalled = stalled + 1 if error > 0.9 * least else 0
        least = min(least, error)
        reached = error <= END_SHARE * tol and abs(gap) <= GAP * width.max()
        if reached or mu <= floor or stalled >= MOST_STALLED:
            break
        system = gram.copy()
        system.flat[:: m + 1] += z / x + w / s
        factor = _cholesky(system)
        del system
        if factor is None:
            break
        ones = None if total is None else cho_solve(factor, np.ones(m))
        dx, db, dz, dw = direction(factor, residual, gap, ones, 0.0, 0.0)
        along, across = _reach(x, dx, s, -dx), _reach(z, dz, w, dw)
        after = float((x + along * dx) @ (z + across * dz) + (s - along * dx) @ (w + across * dw)) / (2 * m)
        target = mu * (after / mu) ** 3
        dx, db, dz, dw = direction(factor, residual, gap, ones, target - dx * dz, target + dx * dw)
        # Use one step length for x and the multipliers, since the residual mixes them.
        length = min(_reach(x, dx, s, -dx), _reach(z, dz, w, dw))
        x, s, offset = x + length * dx, s - length * dx, offset + length * db
        z, w = z + length * dz, w + length * dw
        del factor  # free this factor before the next one is computed
    largest = float(diagonal.max(initial=0.0))
    # A row with k(x, x) = 0 has no natural unit; a huge one lets its larger multiplier decide.
    unit = 1.0 / np.maximum(diagonal, unit_roundoff(np.float64) * largest if largest > 0 else 1.0)
    at_lower, at_upper = (z > w) & (z * unit > x), (z <= w) & (w * unit > width - x)
    sides = at_upper.astype(np.intp) - at_lower
    return box.into_box(box.put(box.lower + x, sides)), offset, sides


def _reach(a: Float64Array, da: Float64Array, b: Float64Array, db: Float64Array) -> float:
    """Return the largest step length, at most 1, that keeps a and b positive."""
    longest = 1.0 / STEP_SHARE
    for value, change in ((a, da), (b, db)):
        down = change < 0
        if down.any():
            longest = min(longest, float((-value[down] / change[down]).min()))
    return min(1.0, STEP_SHARE * longest)
