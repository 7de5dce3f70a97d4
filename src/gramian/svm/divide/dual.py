"""Dual problem of the hinge loss: coefficients in a box, their gradient, and the optimality conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array, IntArray

#: Most rounds that distribute the sum cut off by the box.
SHARE_ROUNDS = 60


@dataclass(slots=True)
class Dual:
    """State of a problem: minimise ½uᵀKu + cᵀu over a box with lower < upper, with Σu = total if it is given.

    In the SVM u_i = y_i α_i and c = −y. The gradient F = K u + c belongs to u; whoever changes u updates it.
    """

    u: Float64Array
    gradient: Float64Array
    lower: Float64Array
    upper: Float64Array
    total: float | None  #: Σu; None without the equality
    steps: int = 0  #: working sets and pivoting steps so far

    @classmethod
    def of(cls, y: Float64Array, most: Float64Array, equality: bool) -> Dual:
        """Return the problem of labels y = ±1 with 0 ≤ α_i ≤ ``most`` at α = 0."""
        lower, upper = np.minimum(0.0, y * most), np.maximum(0.0, y * most)
        return cls(np.zeros(len(y)), -y, lower, upper, 0.0 if equality else None)

    def part(self, index: IntArray | slice) -> Dual:
        """Return the problem of some rows, whose sum is kept (a slice shares memory)."""
        u = self.u[index]
        total = None if self.total is None else float(u.sum())
        return Dual(u, self.gradient[index], self.lower[index], self.upper[index], total)

    def at(self, u: Float64Array, gradient: Float64Array) -> Dual:
        """Return the same problem at another point."""
        return Dual(u, gradient, self.lower, self.upper, self.total)

    @property
    def sides(self) -> IntArray:
        """Where each coefficient is: −1 at its lower bound, 1 at its upper bound, 0 between them."""
        return (self.u >= self.upper).astype(np.intp) - (self.u <= self.lower)

    def ends(self) -> tuple[float, float]:
        """Return max F over u > lower and min F over u < upper (libsvm's m(α) and M(α), for F = −y∇)."""
        down = float(self.gradient[self.u > self.lower].max(initial=-np.inf))
        up = float(self.gradient[self.u < self.upper].min(initial=np.inf))
        return (down, up) if self.total is not None else (max(down, 0.0), min(up, 0.0))

    def violation(self) -> float:
        """Return m(α) − M(α), or without the equality the largest gradient not opposed by a bound."""
        down, up = self.ends()
        return max(0.0, down - up) if self.total is not None else max(down, -up)

    def pressure(self) -> Float64Array:
        """Return how far each row violates its optimality condition; negative if a bound holds it."""
        down, up = self.ends()
        middle = 0.5 * (down + up) if self.total is not None and np.isfinite(down + up) else 0.0
        pull = self.gradient - middle
        lifted = np.where(self.u > self.lower, pull, -np.inf)
        return np.maximum(lifted, np.where(self.u < self.upper, -pull, -np.inf))

    def offset(self) -> float:
        """Return b: minus the mean of F over the free rows, or minus the middle of the ends without any."""
        free = self.sides == 0
        return -float(self.gradient[free].mean()) if self.total is not None and free.any() else self.middle()

    def middle(self) -> float:
        """Return b in the middle of the interval that the conditions allow or violate."""
        finite = [end for end in self.ends() if np.isfinite(end)] if self.total is not None else []
        return -sum(finite) / len(finite) if finite else 0.0

    def next_sides(self, u: Float64Array, pull: Float64Array, sides: IntArray, slack: float) -> IntArray:
        """Return where each row is fixed next (as in :attr:`sides`), from u and gradient + b there.

        Free rows that left the box are fixed, rows that are pulled back by more than ``slack`` are freed.
        """
        left = (u > self.upper).astype(np.intp) - (u < self.lower)
        return np.where(sides == 0, left, np.where(sides * pull <= slack, sides, 0))

    def put(self, u: Float64Array, sides: IntArray) -> Float64Array:
        """Return u with the rows that are fixed at a bound set to it."""
        return np.where(sides < 0, self.lower, np.where(sides > 0, self.upper, u))

    def into_box(self, x: Float64Array) -> Float64Array:
        """Return x clipped to the box; restore Σx = ``total`` by shifting coordinates that have room."""
        lower, upper, total = self.lower, self.upper, self.total
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
