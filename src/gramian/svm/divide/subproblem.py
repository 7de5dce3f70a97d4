"""Dense problem of one working set: a quadratic over a box, with or without one equality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.interior import InteriorPoint, Solve, interior_point

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
#: Most rounds that distribute the sum cut off by the box.
SHARE_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class BoxSolution:
    """Minimiser of a box problem, with its multiplier and evidence."""

    u: Float64Array  #: coefficients, exactly at a bound where the bound is active
    offset: float  #: b with (K u + c)_i + b = 0 on free coordinates; 0 without the equality
    steps: int  #: factorisations
    interior: bool  #: whether the interior point was needed


def solve_box(
    gram: Float64Array,
    linear: Float64Array,
    lower: Float64Array,
    upper: Float64Array,
    start: Float64Array,
    *,
    equality: bool,
    tol: float,
) -> BoxSolution:
    """Minimise ½ uᵀK u + cᵀu over lower ≤ u ≤ upper, with Σu = Σ start where ``equality`` is true.

    First tries primal-dual active sets from ``start``: guess which coordinates are free, solve for them and
    b, fix those that leave the box and free those that pull back into it. This takes a few factorisations of
    the free block. If the sets do not settle, a predictor-corrector interior point follows, then active sets
    once more from its answer.

    gram : (m, m), symmetric positive semi-definite; linear, lower, upper, start : (m,), start in the box;
    tol : largest violation of the optimality conditions, in units of the gradient.

    Time O(free³) a set, O(m³) an interior step; memory ``SQUARES`` · 8 m² bytes with ``gram``.

    Source: Hintermüller, Ito and Kunisch 2003 (active sets); Mehrotra 1992 (interior point).

    >>> gram, ones = np.eye(3), np.ones(3)
    >>> solve_box(gram, -2 * ones, 0 * ones, ones, 0 * ones, equality=False, tol=1e-6).u
    array([1., 1., 1.])
    """
    problem = _Box(gram, linear, lower, upper, float(start.sum()), equality, tol)
    gradient = problem.gradient(start)
    pull = gradient + _offset(gradient, start, lower, upper, equality)
    found = problem.active_sets((start <= lower) & (pull >= -tol), (start >= upper) & (pull <= tol))
    if found is not None and problem.violation(found.u) <= 2.0 * tol:
        return found
    inside = np.flatnonzero(upper > lower)
    point = problem.interior(inside)
    at_lower, at_upper = lower >= upper, np.zeros(len(lower), bool)
    at_lower[inside], at_upper[inside] = bounds_of(point, (upper - lower)[inside], gram.diagonal()[inside])
    u = lower.copy()
    u[inside] += point.x
    u = problem.snapped(u, at_lower, at_upper)
    found = problem.active_sets(at_lower, at_upper)
    # If the minimum is not unique, a face's singular systems may be less accurate than the interior point.
    if found is not None and problem.violation(found.u) <= max(tol, problem.violation(u)):
        return BoxSolution(found.u, found.offset, found.steps + point.steps, True)
    return BoxSolution(u, point.offset, point.steps, True)


def bounds_of(point: InteriorPoint, width: Float64Array, diagonal: Float64Array) -> tuple[Array, Array]:
    """Return masks of the coordinates that an interior point places at the lower and the upper bound.

    A coordinate is at a bound if the bound's multiplier, scaled to its unit, exceeds its distance to it.
    """
    largest = float(diagonal.max(initial=0.0))
    # A row with k(x, x) = 0 has no natural unit; a huge one lets its larger multiplier decide.
    unit = 1.0 / np.maximum(diagonal, unit_roundoff(np.float64) * largest if largest > 0 else 1.0)
    lower_wins = point.to_lower > point.to_upper
    at_lower = (point.to_lower * unit > point.x) & lower_wins
    at_upper = (point.to_upper * unit > width - point.x) & ~lower_wins
    return at_lower, at_upper


def _offset(
    gradient: Float64Array, u: Float64Array, lower: Float64Array, upper: Float64Array, equality: bool
) -> float:
    """Return b in the middle of the interval that the optimality conditions allow or violate."""
    if not equality:
        return 0.0
    down, up = gradient[u > lower], gradient[u < upper]
    ends = [float(down.max())] if down.size else []
    ends += [float(up.min())] if up.size else []
    return -sum(ends) / len(ends) if ends else 0.0


@dataclass(slots=True)
class _Box:
    gram: Float64Array
    linear: Float64Array
    lower: Float64Array
    upper: Float64Array
    total: float
    equality: bool
    tol: float

    def gradient(self, u: Float64Array) -> Float64Array:
        out: Float64Array = self.gram @ u + self.linear
        return out

    def violation(self, u: Float64Array) -> float:
        """Return the largest violation of the optimality conditions; infinite outside of the box."""
        if (u < self.lower).any() or (u > self.upper).any():
            return float("inf")
        gradient = self.gradient(u)
        down = float(gradient[u > self.lower].max(initial=-np.inf))
        up = float(gradient[u < self.upper].min(initial=np.inf))
        return down - up if self.equality else max(down, -up)

    def active_sets(self, at_lower: Array, at_upper: Array) -> BoxSolution | None:
        """Return the optimum by active sets from these, or None if they do not settle or none is free."""
        wide = self.upper > self.lower
        for step in range(1, MOST_SETS + 1):
            free = ~(at_lower | at_upper) & wide
            solved = self._on_free(free, np.where(at_upper, self.upper, self.lower))
            if solved is None:
                return None
            u, offset = solved
            pull = self.gradient(u) + offset
            new_lower = np.where(free, u < self.lower, at_lower & (pull >= -self.tol))
            new_upper = np.where(free, u > self.upper, at_upper & (pull <= self.tol))
            if np.array_equal(new_lower, at_lower) and np.array_equal(new_upper, at_upper):
                return BoxSolution(u, offset, step, False)
            at_lower, at_upper = new_lower, new_upper
        return None

    def _on_free(self, free: Array, fixed: Float64Array) -> tuple[Float64Array, float] | None:
        """Solve for the free coordinates and b, the others fixed at a bound."""
        u = np.where(free, 0.0, fixed)
        index = np.flatnonzero(free)
        rest = self.total - float(u.sum())
        if not index.size:
            return None
        right = -(self.linear[index] + self.gram[index] @ u)
        block = self.gram[np.ix_(index, index)]
        if self.equality:
            # Σu is fixed, so adding a multiple of (Σu)² only raises the rank: K may be singular on constants.
            weight = max(float(block.diagonal().mean()), unit_roundoff(np.float64))
            block = block + weight
            right = right + weight * rest
        factor = _cholesky(block)
        if factor is None:
            return None
        if not self.equality:
            u[index] = cho_solve(factor, right)
            return u, 0.0
        both = cho_solve(factor, np.column_stack([right, np.ones(len(right))]))
        offset = (float(both[:, 0].sum()) - rest) / float(both[:, 1].sum())
        u[index] = both[:, 0] - offset * both[:, 1]
        return u, offset

    def interior(self, inside: IntArray) -> InteriorPoint:
        """Return the interior point over the coordinates whose bounds differ."""
        width = (self.upper - self.lower)[inside]
        part = _Dense(self.gram if len(inside) == len(self.gram) else self.gram[np.ix_(inside, inside)])
        linear = self.linear[inside] + (self.gram @ self.lower)[inside]
        rest = self.total - float(self.lower.sum()) if self.equality else None
        return interior_point(part, linear, width, rest, INTERIOR_SHARE * self.tol)

    def snapped(self, u: Float64Array, at_lower: Array, at_upper: Array) -> Float64Array:
        """Return u with coordinates at a bound set to it, Σu kept."""
        u = np.where(at_lower, self.lower, np.where(at_upper, self.upper, u))
        return into_box(u, self.lower, self.upper, self.total if self.equality else None)


@dataclass(frozen=True, slots=True)
class _Dense:
    gram: Float64Array

    def product(self, v: Float64Array) -> Float64Array:
        return np.asarray(self.gram @ v)

    def shifted(self, diagonal: Float64Array) -> Solve | None:
        shifted = self.gram.copy()
        shifted.flat[:: len(shifted) + 1] += diagonal
        factor = _cholesky(shifted)
        return None if factor is None else lambda v: cho_solve(factor, v)


def into_box(x: Float64Array, lower: Float64Array, upper: Float64Array, total: float | None) -> Float64Array:
    """Return x clipped to the box; restore Σx = ``total`` by shifting coordinates that have room."""
    y = np.clip(x, lower, upper)
    if total is None:
        return y
    for _ in range(SHARE_ROUNDS):
        missing = total - float(y.sum())
        if abs(missing) <= 4.0 * np.finfo(np.float64).eps * max(1.0, float(np.abs(y).sum())):
            break
        room = (y < upper) if missing > 0 else (y > lower)
        inside = room & (y > lower) & (y < upper)
        room = inside if inside.any() else room
        if not room.any():
            break
        y[room] = np.clip(y[room] + missing / room.sum(), lower[room], upper[room])
    return y


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
