"""Interior point method for a quadratic over a box, with or without one equality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array

#: Most steps, the largest fraction of the way to the boundary that a step goes, and the fraction of the
#: tolerance at which the method stops. Chosen by hand, as are the next constants.
MOST_STEPS, STEP_SHARE, END_SHARE = 60, 0.995, 0.1
#: Stop after this many consecutive steps that do not lower the error by a tenth: only rounding is left.
MOST_STALLED = 12
#: Allowed error of the equality, in units of the widest interval; the caller corrects it on free coordinates.
GAP = 1e-8

Solve = Callable[[Float64Array], Float64Array]


class Quadratic(Protocol):
    """Interface of a positive semi-definite matrix K, dense or not."""

    def product(self, v: Float64Array) -> Float64Array:
        """Return K v."""

    def shifted(self, diagonal: Float64Array) -> Solve | None:
        """Return the function v ↦ (K + diag)⁻¹ v, exact or approximate, or None if factoring fails."""


@dataclass(frozen=True, slots=True)
class InteriorPoint:
    """Final point of the method, strictly inside the box, with its multipliers."""

    x: Float64Array
    offset: float  #: b of the equality
    to_lower: Float64Array  #: multipliers z ≥ 0 of x ≥ 0
    to_upper: Float64Array  #: multipliers w ≥ 0 of x ≤ width
    steps: int


def interior_point(
    quadratic: Quadratic, linear: Float64Array, width: Float64Array, total: float | None, tol: float
) -> InteriorPoint:
    """Minimise ½xᵀKx + cᵀx over 0 ≤ x ≤ width, with Σx = total unless it is None.

    Applies Newton's method to K x + c + b = z − w and z x = w (width − x) = μ, with μ → 0. Each step solves a
    system with K plus a positive diagonal for up to three right sides. Solving it approximately costs extra
    steps but no accuracy, since each step recomputes the residual.

    Source: Mehrotra 1992; Fine and Scheinberg 2001 for the dual of the SVM.
    """
    m = len(width)
    share = 0.5 if total is None else min(max(total / float(width.sum()), 1e-3), 1.0 - 1e-3)
    # Keep the distance s to the upper bound as a variable of its own: width − x could round to zero.
    x, s = share * width, (1.0 - share) * width
    start = quadratic.product(x) + linear
    z = np.full(m, max(1.0, float(np.abs(start).max())))
    w = z.copy()
    offset, steps, least, stalled = 0.0, 0, np.inf, 0
    floor = unit_roundoff(np.float64) ** 2 * float(x @ z + s @ w) / (2 * m)
    while steps < MOST_STEPS:
        residual = quadratic.product(x) + linear + offset - z + w
        gap = 0.0 if total is None else total - float(x.sum())
        mu = float(x @ z + s @ w) / (2 * m)
        worst = max(float((np.minimum(x, 1.0) * z).max()), float((np.minimum(s, 1.0) * w).max()))
        error = max(float(np.abs(residual).max()), worst)
        stalled = stalled + 1 if error > 0.9 * least else 0
        least = min(least, error)
        reached = error <= END_SHARE * tol and abs(gap) <= GAP * width.max()
        solve = quadratic.shifted(z / x + w / s) if not reached else None
        if solve is None or mu <= floor or stalled >= MOST_STALLED:
            break
        steps += 1
        newton = _Newton(solve, x, s, z, w, residual, gap, None if total is None else solve(np.ones(m)))
        dx, _, dz, dw = newton.direction(np.zeros(m), np.zeros(m))
        along, across = _reach(x, dx, s, -dx), _reach(z, dz, w, dw)
        after = float((x + along * dx) @ (z + across * dz) + (s - along * dx) @ (w + across * dw)) / (2 * m)
        target = mu * (after / mu) ** 3
        dx, db, dz, dw = newton.direction(target - dx * dz, target + dx * dw)
        # Use one step length for x and the multipliers, since the residual mixes them.
        length = min(_reach(x, dx, s, -dx), _reach(z, dz, w, dw))
        x, s, offset = x + length * dx, s - length * dx, offset + length * db
        z, w = z + length * dz, w + length * dw
        del solve, newton  # free this factor before the next one is computed
    return InteriorPoint(x, offset, z, w, steps)


@dataclass(frozen=True, slots=True)
class _Newton:
    """Linear system of one Newton step, for any target values of the products z x and w s."""

    solve: Solve
    x: Float64Array
    s: Float64Array
    z: Float64Array
    w: Float64Array
    residual: Float64Array
    gap: float
    ones: Float64Array | None  #: the system's answer to ones, with the equality

    def direction(
        self, to_z: Float64Array, to_w: Float64Array
    ) -> tuple[Float64Array, float, Float64Array, Float64Array]:
        """Return the steps of x, b, z and w."""
        to_lower, to_upper = to_z / self.x - self.z, to_w / self.s - self.w
        dx, db = self.solve(-self.residual + to_lower - to_upper), 0.0
        if self.ones is not None:
            db = (float(dx.sum()) - self.gap) / float(self.ones.sum())
            dx = dx - db * self.ones
        return dx, db, to_lower - self.z / self.x * dx, to_upper + self.w / self.s * dx


def _reach(a: Float64Array, da: Float64Array, b: Float64Array, db: Float64Array) -> float:
    """Return the largest step length, at most 1, that keeps a and b positive."""
    longest = 1.0 / STEP_SHARE
    for value, change in ((a, da), (b, db)):
        down = change < 0
        if down.any():
            longest = min(longest, float((-value[down] / change[down]).min()))
    return min(1.0, STEP_SHARE * longest)
