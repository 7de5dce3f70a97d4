"""Dense problem of one working set: a quadratic over a box, with or without one equality."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.interior import Solve, from_inside

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
