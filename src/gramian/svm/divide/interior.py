"""Interior point method for a quadratic over a box, with or without one equality."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.dual import Dual

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
