"""Dense problem of one working set: a quadratic over a box, by active sets and an interior point."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array, IntArray
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
    >>> solve_box(np.eye(3), -2 * ones, Dual(0 * ones, -2 * ones, 0 * ones, ones, False), 1e-6)[0]
    array([1., 1., 1.])
    """
    total, lower, upper = start.total, start.lower, start.upper
    begun = start.at(start.u, gram @ start.u + linear)
    pull = begun.gradient + begun.middle()
    at_lower, at_upper = (start.u <= lower) & (pull >= -tol), (start.u >= upper) & (pull <= tol)
    found = _active_sets(gram, linear, start, total, at_lower, at_upper, tol)
    if found is not None and _violation(gram, linear, start, found[0]) <= 2.0 * tol:
        return found
    inside = np.flatnonzero(upper > lower)
    square = gram if len(inside) == len(gram) else gram[np.ix_(inside, inside)]
    u, offset, at_lower, at_upper = from_inside(
        start,
        inside,
        square.dot,
        partial(_shifted, square),
        linear[inside] + (gram @ lower)[inside],
        gram.diagonal()[inside],
        total,
        INTERIOR_SHARE * tol,
    )
    found = _active_sets(gram, linear, start, total, at_lower, at_upper, tol)
    # If the minimum is not unique, a face's singular systems may be less accurate than the interior point.
    least = max(tol, _violation(gram, linear, start, u))
    return found if found and _violation(gram, linear, start, found[0]) <= least else (u, offset)


def _violation(gram: Float64Array, linear: Float64Array, box: Dual, u: Float64Array) -> float:
    """Return the largest violation of the optimality conditions; infinite outside of the box."""
    if (u < box.lower).any() or (u > box.upper).any():
        return float("inf")
    return box.at(u, gram @ u + linear).violation()


def _active_sets(
    gram: Float64Array,
    linear: Float64Array,
    box: Dual,
    total: float | None,
    at_lower: Array,
    at_upper: Array,
    tol: float,
) -> tuple[Float64Array, float] | None:
    """Return the optimum and b by active sets from these; None if they do not settle or none is free."""
    for _ in range(MOST_SETS):
        free = ~(at_lower | at_upper) & (box.upper > box.lower)
        index = np.flatnonzero(free)
        if not index.size:
            return None
        u = np.where(free, 0.0, np.where(at_upper, box.upper, box.lower))
        right, offset = -(linear[index] + gram[index] @ u), 0.0
        block = gram[np.ix_(index, index)]
        if total is not None:
            # Σu is fixed, so adding a multiple of (Σu)² only raises the rank: K may be singular on constants.
            rest = total - float(u.sum())
            weight = max(float(block.diagonal().mean()), unit_roundoff(np.float64))
            block = block + weight
            right = right + weight * rest
        factor = _cholesky(block)
        if factor is None:
            return None
        if total is None:
            u[index] = cho_solve(factor, right)
        else:
            both = cho_solve(factor, np.column_stack([right, np.ones(len(right))]))
            offset = (float(both[:, 0].sum()) - rest) / float(both[:, 1].sum())
            u[index] = both[:, 0] - offset * both[:, 1]
        before = at_lower, at_upper
        at_lower, at_upper = box.fixed(u, gram @ u + linear + offset, free, at_lower, at_upper, tol)
        if np.array_equal(before, (at_lower, at_upper)):
            return u, offset
    return None


def _shifted(square: Float64Array, diagonal: Float64Array) -> Solve | None:
    shifted = square.copy()
    shifted.flat[:: len(shifted) + 1] += diagonal
    factor = _cholesky(shifted)
    return None if factor is None else partial(cho_solve, factor)


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

Solve = Callable[[Float64Array], Float64Array]


def from_inside(
    box: Dual,
    inside: IntArray,
    product: Solve,
    shifted: Callable[[Float64Array], Solve | None],
    linear: Float64Array,
    diagonal: Float64Array,
    total: float | None,
    tol: float,
) -> tuple[Float64Array, float, Array, Array]:
    """Minimise over the coordinates ``inside`` whose bounds differ; return u, b and masks of both bounds.

    Arguments from ``product`` on are those of :func:`interior_point` for these coordinates, with the diagonal
    of K. A coordinate is at a bound, and set to it, if the bound's multiplier, scaled to its unit, exceeds
    its distance to it.
    """
    lower, upper = box.lower, box.upper
    width = (upper - lower)[inside]
    rest = None if total is None else total - float(lower.sum())
    x, offset, to_lower, to_upper = interior_point(product, shifted, linear, width, rest, tol)
    largest = float(diagonal.max(initial=0.0))
    # A row with k(x, x) = 0 has no natural unit; a huge one lets its larger multiplier decide.
    unit = 1.0 / np.maximum(diagonal, unit_roundoff(np.float64) * largest if largest > 0 else 1.0)
    at_lower, at_upper = lower >= upper, np.zeros(len(lower), bool)
    lower_wins = to_lower > to_upper
    at_lower[inside] = (to_lower * unit > x) & lower_wins
    at_upper[inside] = (to_upper * unit > width - x) & ~lower_wins
    u = lower.copy()
    u[inside] += x
    return box.into_box(box.put(u, at_lower, at_upper), total), offset, at_lower, at_upper


def interior_point(
    product: Solve,
    shifted: Callable[[Float64Array], Solve | None],
    linear: Float64Array,
    width: Float64Array,
    total: float | None,
    tol: float,
) -> tuple[Float64Array, float, Float64Array, Float64Array]:
    """Minimise ½xᵀKx + cᵀx over 0 ≤ x ≤ width, with Σx = total unless it is None.

    Returns x, strictly inside the box, b of the equality, and the multipliers z ≥ 0 of x ≥ 0 and w ≥ 0 of
    x ≤ width. ``product`` returns K v; ``shifted`` returns the function v ↦ (K + diag)⁻¹ v for a diagonal, or
    None if factoring fails.

    Applies Newton's method to K x + c + b = z − w and z x = w (width − x) = μ, with μ → 0. Each step solves a
    system with K plus a positive diagonal for up to three right sides. Solving it approximately costs extra
    steps but no accuracy, since each step recomputes the residual.

    Source: Mehrotra 1992; Fine and Scheinberg 2001 for the dual of the SVM.
    """
    m = len(width)
    share = 0.5 if total is None else min(max(total / float(width.sum()), 1e-3), 1.0 - 1e-3)
    # Keep the distance s to the upper bound as a variable of its own: width − x could round to zero.
    x, s = share * width, (1.0 - share) * width
    start = product(x) + linear
    z = np.full(m, max(1.0, float(np.abs(start).max())))
    w = z.copy()
    offset, least, stalled = 0.0, np.inf, 0
    floor = unit_roundoff(np.float64) ** 2 * float(x @ z + s @ w) / (2 * m)

    def direction(
        solve: Solve,
        residual: Float64Array,
        gap: float,
        ones: Float64Array | None,  # the system's answer to ones, with the equality
        to_z: Float64Array | float,
        to_w: Float64Array | float,
    ) -> tuple[Float64Array, float, Float64Array, Float64Array]:
        """Return the Newton steps of x, b, z and w for target values of the products z x and w s."""
        to_lower, to_upper = to_z / x - z, to_w / s - w
        dx, db = solve(-residual + to_lower - to_upper), 0.0
        if ones is not None:
            db = (float(dx.sum()) - gap) / float(ones.sum())
            dx = dx - db * ones
        return dx, db, to_lower - z / x * dx, to_upper + w / s * dx

    for _ in range(MOST_STEPS):
        residual = product(x) + linear + offset - z + w
        gap = 0.0 if total is None else total - float(x.sum())
        mu = float(x @ z + s @ w) / (2 * m)
        worst = max(float((np.minimum(x, 1.0) * z).max()), float((np.minimum(s, 1.0) * w).max()))
        error = max(float(np.abs(residual).max()), worst)
        stalled = stalled + 1 if error > 0.9 * least else 0
        least = min(least, error)
        reached = error <= END_SHARE * tol and abs(gap) <= GAP * width.max()
        solve = shifted(z / x + w / s) if not reached else None
        if solve is None or mu <= floor or stalled >= MOST_STALLED:
            break
        ones = None if total is None else solve(np.ones(m))
        dx, db, dz, dw = direction(solve, residual, gap, ones, 0.0, 0.0)
        along, across = _reach(x, dx, s, -dx), _reach(z, dz, w, dw)
        after = float((x + along * dx) @ (z + across * dz) + (s - along * dx) @ (w + across * dw)) / (2 * m)
        target = mu * (after / mu) ** 3
        dx, db, dz, dw = direction(solve, residual, gap, ones, target - dx * dz, target + dx * dw)
        # Use one step length for x and the multipliers, since the residual mixes them.
        length = min(_reach(x, dx, s, -dx), _reach(z, dz, w, dw))
        x, s, offset = x + length * dx, s - length * dx, offset + length * db
        z, w = z + length * dz, w + length * dw
        solve = None  # free this factor before the next one is computed
    return x, offset, z, w


def _reach(a: Float64Array, da: Float64Array, b: Float64Array, db: Float64Array) -> float:
    """Return the largest step length, at most 1, that keeps a and b positive."""
    longest = 1.0 / STEP_SHARE
    for value, change in ((a, da), (b, db)):
        down = change < 0
        if down.any():
            longest = min(longest, float((-value[down] / change[down]).min()))
    return min(1.0, STEP_SHARE * longest)
