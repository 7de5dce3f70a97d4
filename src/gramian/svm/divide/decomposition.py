"""Solver for the dual of the hinge loss: large working sets, with the gradient updated tile by tile."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.svm.divide.active_set_cg import solve_faces
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.preconditioner import TwoLevel
from gramian.svm.divide.subproblem import SQUARES, into_box, solve_box
from gramian.svm.divide.tiles import TILE_BYTES, SymmetricTiles

#: A row held at its bound by a gradient of at least this much is always left out of a round. Chosen by hand,
#: as are the next constants.
MOST_MARGIN = 0.5
#: A round ends when the violation among its rows is this fraction of the violation among all rows.
ROUND_SHARE = 0.1
#: The solution of a large working set is accepted if it cuts the violation to this fraction; otherwise it
#: must lower the objective.
REACHED_SHARE = 0.5
#: Rows held at a bound by less than this fraction of the violation join the working set.
NEAR_SHARE = 0.1
#: Most rows of a working set that is solved densely; fewer if memory is short.
DENSE_ROWS = 1024


@dataclass(slots=True)
class Dual:
    """State of a dual problem: signed coefficients u_i = y_i α_i, their bounds, the gradient F = K u − y."""

    u: Float64Array
    gradient: Float64Array
    lower: Float64Array
    upper: Float64Array
    equality: bool

    @classmethod
    def at_zero(cls, y: Float64Array, most: Float64Array, equality: bool) -> Dual:
        """Return the starting point α = 0 for labels ±1 and bounds C_i."""
        return cls(np.zeros(len(y)), -y, np.minimum(0.0, y * most), np.maximum(0.0, y * most), equality)

    def part(self, index: IntArray | slice) -> Dual:
        """Return the problem of some rows (a slice shares memory)."""
        return Dual(self.u[index], self.gradient[index], self.lower[index], self.upper[index], self.equality)

    @property
    def inside(self) -> Array:
        """Mask of the coefficients strictly between their bounds."""
        return np.asarray((self.u > self.lower) & (self.u < self.upper))

    def ends(self) -> tuple[float, float]:
        """Return max F over u > lower and min F over u < upper (libsvm's m(α) and M(α), for F = −y∇)."""
        down = float(self.gradient[self.u > self.lower].max(initial=-np.inf))
        up = float(self.gradient[self.u < self.upper].min(initial=np.inf))
        return (down, up) if self.equality else (max(down, 0.0), min(up, 0.0))

    def violation(self) -> float:
        """Return m(α) − M(α), or without the equality the largest gradient not opposed by a bound."""
        down, up = self.ends()
        return max(0.0, down - up) if self.equality else max(down, -up)

    def pressure(self) -> Float64Array:
        """Return how far each row violates its optimality condition; negative if a bound holds it."""
        down, up = self.ends()
        middle = 0.5 * (down + up) if self.equality and np.isfinite(down + up) else 0.0
        pull = self.gradient - middle
        lifted = np.where(self.u > self.lower, pull, -np.inf)
        return np.maximum(lifted, np.where(self.u < self.upper, -pull, -np.inf))

    def offset(self) -> float:
        """Return b: minus the mean of F over the free rows, or minus the middle of the ends without any."""
        if not self.equality:
            return 0.0
        inside = self.inside
        if inside.any():
            return -float(self.gradient[inside].mean())
        finite = [end for end in self.ends() if np.isfinite(end)]
        return -sum(finite) / len(finite) if finite else 0.0


@dataclass(slots=True)
class SolutionWork:
    """Work of a solution (working sets, kernel values) and its final violation."""

    iterations: int = 0
    entries: int = 0
    violation: float = 0.0

    def add(self, other: SolutionWork) -> None:
        """Add the working sets, kernel values and violation of another solution."""
        self.iterations += other.iterations
        self.entries += other.entries
        self.violation += other.violation


def refine(
    gram: Gram, dual: Dual, *, tol: float, max_iter: int, memory_bytes: int, rng: np.random.Generator
) -> SolutionWork:
    """Minimise ½uᵀKu − yᵀu over the box, starting from ``dual`` and updating it; the equality keeps Σu.

    Each round leaves out the rows held at a bound by more than a margin (shrinking), solves for the others to
    a tenth of the violation, and updates the gradient of the rows left out. Within a round the working set is
    every free or violating row, so that few sets are needed. Up to about a thousand rows it is solved densely
    (:func:`solve_box`), beyond that by active sets with preconditioned conjugate gradients
    (:func:`solve_faces`). Order rows by clusters: consecutive rows form the preconditioner's blocks.

    The objective falls with each set. Stops when m(α) − M(α) ≤ tol, libsvm's criterion. Time O(n · changed) a
    round and O(free²) a conjugate gradient step, memory ``memory_bytes`` besides the rows.
    """
    effort = SolutionWork()
    while (violation := dual.violation()) > tol and effort.iterations < max_iter:
        half = 0.5 * violation if dual.equality else violation
        keep = dual.inside | (dual.pressure() > -min(half, MOST_MARGIN))
        index = np.flatnonzero(keep)
        part, local = gram.part(index), dual.part(index)
        before = local.u.copy()
        goal = max(tol, ROUND_SHARE * violation)
        effort.iterations += _settle(part, local, goal, max_iter - effort.iterations, memory_bytes, rng)
        gram.entries += part.entries
        dual.u[index], dual.gradient[index] = local.u, local.gradient
        changed, rest = np.flatnonzero(local.u != before), np.flatnonzero(~keep)
        if not changed.size:
            break  # only rounding errors are left
        if rest.size:
            outside, gradient = gram.part(rest), dual.gradient[rest]
            outside.add(gradient, part.rows[changed], (local.u - before)[changed])
            dual.gradient[rest] = gradient
            gram.entries += outside.entries
    effort.entries, effort.violation = gram.entries, dual.violation()
    return effort


def _settle(
    gram: Gram, dual: Dual, goal: float, max_iter: int, memory_bytes: int, rng: np.random.Generator
) -> int:
    """Optimise over working sets until the violation is at most ``goal``; return the number of sets."""
    dense_rows = min(DENSE_ROWS, int((memory_bytes / (8.0 * (SQUARES + 1))) ** 0.5))
    for step in range(max_iter):
        violation = dual.violation()
        if violation <= goal:
            return step
        pressure = dual.pressure()
        inner = max(0.3 * goal, 0.05 * violation)
        # Include rows close to violating, held at their bound at first: the set's moves may release them.
        near = np.flatnonzero(dual.inside | (pressure > -NEAR_SHARE * violation))
        chosen, new = near, None
        if len(near) > dense_rows:
            new = _large(gram, dual.part(near), near, pressure[near], inner, memory_bytes, rng)
            if new is None:
                chosen = np.argpartition(-pressure, dense_rows)[:dense_rows]
        if new is None:
            new = _dense(gram, dual.part(chosen), chosen, 0.1 * goal)
        moved = np.flatnonzero(new != dual.u[chosen])
        if not moved.size:
            return step + 1
        gram.add(dual.gradient, gram.rows[chosen[moved]], (new - dual.u[chosen])[moved])
        dual.u[chosen] = new
    return max_iter


def _dense(gram: Gram, local: Dual, chosen: IntArray, tol: float) -> Float64Array:
    """Return the optimum of a working set, or its present coefficients if rounding makes that one worse."""
    square = gram.square(chosen)
    linear = local.gradient - square @ local.u
    aim = solve_box(square, linear, local.lower, local.upper, local.u, equality=local.equality, tol=tol).u
    change = aim - local.u
    image = square @ change
    if float((local.gradient + 0.5 * image) @ change) < 0.0:
        return aim
    reached = replace(local, u=aim, gradient=local.gradient + image).violation()
    return aim if reached < local.violation() else local.u


def _large(
    gram: Gram,
    local: Dual,
    chosen: IntArray,
    pressure: Float64Array,
    goal: float,
    memory_bytes: int,
    rng: np.random.Generator,
) -> Float64Array | None:
    """Return coefficients of a large working set that lower the objective, or None if none were found."""
    points = gram.rows[chosen]
    # Beside what is kept, each thread computes one tile or one block of the preconditioner.
    kept = max(memory_bytes // 2, memory_bytes - gram.engine.n_threads * TILE_BYTES)
    tiles = SymmetricTiles(points, gram.kernel, kept // 2, gram.engine)
    preconditioner = TwoLevel(points, gram.kernel, kept // 2, rng, gram.engine)
    held = ~local.inside & (pressure <= 0.25 * goal)
    aim = solve_faces(
        tiles,
        preconditioner,
        local.gradient,
        local.lower,
        local.upper,
        local.u,
        held,
        equality=local.equality,
        goal=goal,
    )
    change = aim - local.u
    image = tiles.matvec(change)
    gram.entries += tiles.entries + preconditioner.entries
    reached = replace(local, u=aim, gradient=local.gradient + image).violation()
    if reached <= REACHED_SHARE * local.violation():
        # Near the optimum the objective is flat to within a face's accuracy; the violation is more reliable.
        return aim
    slope, curvature = float(local.gradient @ change), float(change @ image)
    if not slope < 0.0:
        return None
    length = 1.0 if curvature <= 0.0 else min(1.0, -slope / curvature)
    if length >= 1.0:
        return aim
    return into_box(local.u + length * change, local.lower, local.upper, None)
