"""Box-constrained problems by block pivoting: exact solves on the free rows, component by component."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import CHUNK_ROWS, Kernel
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.subproblem import SQUARES, into_box, solve_box

#: A row at a bound is freed if its gradient pulls it back by more than this fraction of the tolerance. Chosen
#: by hand, as are the next constants.
PULL_SHARE = 0.4
#: Accuracy of the problem over the guarded rows, as a fraction of the tolerance.
GUARD_SHARE = 0.05
#: If the number of changed rows reaches no new minimum in this many steps, the sets are cycling and the
#: changing rows are guarded.
PATIENCE = 3
#: Most guarded rows, since their problem is dense.
MOST_GUARDS = 1500
#: Most steps; a problem that takes more is unlikely to settle.
MOST_STEPS = 100
#: Components with fewer rows are solved together, in groups of about this size: computing the kernel
#: values between them takes less time than the calls for a separate part.
PART_ROWS = 64
#: Columns of a kernel matrix that are evaluated together.
COLUMNS = 512
#: Relative jitter on the diagonal in units of u·rows, and how often it may grow a hundredfold.
JITTER, JITTER_TRIES = 4.0, 6


@dataclass(slots=True)
class Pivoted:
    """Result of block pivoting."""

    u: Float64Array  #: in the box
    gradient: Float64Array  #: K u − y with entries of K between components taken as zero; valid if settled
    settled: bool  #: whether the sets stopped changing, so that u is optimal to the tolerance
    steps: int
    entries: int  #: kernel values computed


def solve_pivots(
    gram: Gram,
    component: IntArray,
    linear: Float64Array,
    lower: Float64Array,
    upper: Float64Array,
    start: Float64Array,
    *,
    equality: bool,
    tol: float,
    max_iter: int,
    memory_bytes: int,
) -> Pivoted:
    r"""Minimise ½uᵀKu + cᵀu over the box, with Σu = Σ start where ``equality``, K block-diagonal.

    Start from a guess F of the free rows. Each step solves K_FF u_F = −(c + b + K_F· u)_F exactly, with one
    Cholesky factor a component and b from the equality. Free rows that leave the box are fixed at their
    bound; rows at a bound whose gradient pulls them back are freed. Components whose sets did not change are
    not solved again. From a good start about ten steps suffice, however many rows must change.

    If the sets cycle, the cycling rows become *guarded*: the other free rows are eliminated (Schur
    complement), and a small problem over the guarded rows keeps these in the box exactly. A guarded row stays
    guarded, so the number of steps is finite. If too many rows would be guarded, or a matrix or factor would
    exceed ``memory_bytes``, the result is marked as not settled.

    gram : K of n rows; component : (n,) numbers of the blocks; linear, lower < upper, start : (n,).

    Time a step: Σ free³/3 over the components whose sets changed, and rows · free kernel values. Memory:
    8 · free² bytes for the largest component or 8 · (``SQUARES`` + 2) · guarded² bytes, whichever is more,
    plus 16 · free · guarded and 16 n bytes.

    Source: Júdice and Pires 1994 (block principal pivoting); Hintermüller, Ito and Kunisch 2003.
    """
    number = _gather_parts(component)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(int(number.max(initial=0)) + 2))
    parts = [_PivotPart(gram.part(order[a:b]), order[a:b], linear[order[a:b]]) for a, b in pairwise(ends)]
    total = float(start.sum()) if equality else None
    sets = _Sets(start <= lower, start >= upper, np.zeros(len(start), bool))
    if not sets.free.any():
        sets = _Sets(lower >= upper, np.zeros(len(start), bool), np.zeros(len(start), bool))
    u, gradient, settled, step = start, linear, False, 0
    while not settled and step < min(max_iter, MOST_STEPS):
        step += 1
        bound = np.where(sets.at_upper, upper, np.where(sets.at_lower, lower, 0.0))
        bound[sets.guarded] = 0.0
        free = sets.free
        if _bytes(parts, free, sets.guarded) > memory_bytes:
            break
        if not all(part.solve(free, bound, sets.guarded) for part in parts):
            break
        joint = _joint(parts, lower, upper, u, total, GUARD_SHARE * tol)
        if joint is None:
            break
        guards, offset = joint
        u, gradient = bound.copy(), np.empty(len(u))
        u[sets.guarded] = guards[sets.guarded]
        for part in parts:
            part.write(offset, u, gradient)
        settled = not sets.move(u, gradient + offset, lower, upper, PULL_SHARE * tol)
        if np.count_nonzero(sets.guarded) > MOST_GUARDS:
            break
    entries = sum(part.gram.entries for part in parts)
    return Pivoted(into_box(u, lower, upper, total), gradient, settled, step, entries)


def _gather_parts(component: IntArray) -> IntArray:
    """Return the part number (n,) of each row: parts are components, with small components combined."""
    _, component, sizes = np.unique(component, return_inverse=True, return_counts=True)
    few = np.where(sizes < PART_ROWS, sizes, 0)
    part = (np.cumsum(few) - few) // PART_ROWS
    part = np.where(few > 0, part, len(component) + np.arange(len(sizes)))
    return np.unique(part[component.ravel()], return_inverse=True)[1].ravel().astype(np.intp)


@dataclass(slots=True)
class _Sets:
    """Masks of the rows at a bound, and of the guarded rows (whose bound masks are ignored)."""

    at_lower: Array
    at_upper: Array
    guarded: Array
    latest: Array = field(init=False)  #: rows that changed in the step before
    least: int = field(init=False)
    stalled: int = 0

    def __post_init__(self) -> None:
        self.latest, self.least = np.zeros(len(self.guarded), bool), len(self.guarded) + 1

    @property
    def free(self) -> Array:
        return ~(self.at_lower | self.at_upper | self.guarded)

    def move(
        self, u: Float64Array, pull: Float64Array, lower: Float64Array, upper: Float64Array, slack: float
    ) -> bool:
        """Update the sets from the coefficients and gradient + b; return whether any row changed."""
        free = self.free
        new_lower = np.where(free, u < lower, self.at_lower & (pull >= -slack))
        new_upper = np.where(free, u > upper, self.at_upper & (pull <= slack))
        changed = ((new_lower ^ self.at_lower) | (new_upper ^ self.at_upper)) & ~self.guarded
        self.at_lower, self.at_upper = new_lower, new_upper
        count = int(np.count_nonzero(changed))
        self.stalled = 0 if count < self.least else self.stalled + 1
        self.least = min(self.least, count)
        if self.guarded.any():
            self.guarded |= changed
        elif self.stalled >= PATIENCE:
            self.guarded |= changed | self.latest
        self.latest = changed
        return count > 0


@dataclass(slots=True)
class _PivotPart:
    """One part of the rows: its free coefficients as an affine function of b and its guarded coefficients."""

    gram: Gram
    index: IntArray
    base: Float64Array  #: c + K · (coefficients at a bound)
    bound: Float64Array = field(init=False)
    free: IntArray | None = None
    guards: IntArray = field(init=False)
    #: u_F = answers @ [1, −b, −u_W]
    answers: Float64Array = field(init=False)
    #: K[:, F] @ answers[:, :2], without guarded rows.
    image: Float64Array = field(init=False)
    #: K_FW and K_WW.
    across: Float64Array = field(init=False)
    square: Float64Array = field(init=False)

    def __post_init__(self) -> None:
        self.bound = np.zeros(len(self.index))
        self.guards = np.zeros(0, np.intp)

    def solve(self, free: Array, bound: Float64Array, guarded: Array) -> bool:
        """Solve for the present sets; return False if K on the free rows is not positive definite."""
        now, guards = np.flatnonzero(free[self.index]), np.flatnonzero(guarded[self.index])
        change = bound[self.index] - self.bound
        moved = np.flatnonzero(change)
        same = self.free is not None and np.array_equal(now, self.free)
        if same and not moved.size and np.array_equal(guards, self.guards):
            return True
        if moved.size:
            self.gram.add(self.base, self.gram.rows[moved], change[moved])
            self.bound = bound[self.index]
        self.free, self.guards = now, guards
        rows, engine = self.gram.rows[now], self.gram.engine
        self.across = np.zeros((len(now), 0))
        self.square = np.zeros((0, 0))
        if guards.size:
            self.square = self.gram.square(guards)
            self.across = np.asarray(
                self.gram.kernel(rows, self.gram.rows[guards], dtype=np.float64, n_jobs=engine.n_jobs)
            )
            self.gram.entries += self.across.size
        right = np.column_stack([-self.base[now], np.ones(len(now)), self.across])
        if now.size:
            factor = _factor(rows, self.gram.kernel, engine)
            self.gram.entries += len(now) * (len(now) + 1) // 2
            if factor is None:
                return False
            right = cho_solve(factor, right)
            del factor  # free it before the tiles of the image are computed
        self.answers = right
        if not guards.size:
            self.image = np.zeros((len(self.index), 2))
            self.gram.add(self.image, rows, self.answers)
        return True

    def write(self, offset: float, u: Float64Array, gradient: Float64Array) -> None:
        """Write the free rows' coefficients, and the gradient of all rows of the component."""
        assert self.free is not None
        weights = np.concatenate([[1.0, -offset], -u[self.index[self.guards]]])
        u[self.index[self.free]] = self.answers @ weights
        if not self.guards.size:
            gradient[self.index] = self.base + self.image @ weights
            return
        both = np.concatenate([self.free, self.guards])
        values = self.base.copy()
        self.gram.add(values, self.gram.rows[both], u[self.index[both]])
        gradient[self.index] = values


def _bytes(parts: list[_PivotPart], free: Array, guarded: Array) -> int:
    """Return the bytes of a step: arrays of the parts, and the larger of a factor and the joint problem."""
    frees = np.array([np.count_nonzero(free[part.index]) for part in parts])
    guards = np.array([np.count_nonzero(guarded[part.index]) for part in parts])
    held = int((2 * frees * guards + 8 * frees).sum())
    joint = (SQUARES + 2) * int(guards.sum()) ** 2
    return 8 * (held + max(int((frees * frees).max(initial=0)), joint))


def _factor(rows: Rows, kernel: Kernel, engine: Engine) -> Float64Array | None:
    """Return the Cholesky factor of K on these rows, computed in place, or None if K is not definite."""
    m = int(rows.shape[0])
    jitter = JITTER * unit_roundoff(np.float64) * m
    for _ in range(JITTER_TRIES):
        square = np.empty((m, m))

        def fill(part: slice, square: Float64Array = square) -> None:
            evaluate = kernel.against(rows[part], np.float64)
            for low in row_slices(m - part.start, CHUNK_ROWS):
                below = slice(part.start + low.start, part.start + low.stop)
                square[below, part] = evaluate(rows[below])

        engine.run(fill, list(row_slices(m, COLUMNS)))
        diagonal = kernel.diagonal(rows)
        square.flat[:: m + 1] = diagonal + jitter * float(diagonal.mean())
        try:
            return cholesky(square, overwrite=True)
        except la.LinAlgError:
            jitter *= 100.0
    return None


def _joint(
    parts: list[_PivotPart],
    lower: Float64Array,
    upper: Float64Array,
    u: Float64Array,
    total: float | None,
    tol: float,
) -> tuple[Float64Array, float] | None:
    """Return the guarded coefficients (n,) and b, or None if no row is free to satisfy the equality."""
    constant = sum(float(part.bound.sum() + part.answers[:, 0].sum()) for part in parts)
    slope = sum(float(part.answers[:, 1].sum()) for part in parts)
    guards = np.concatenate([part.index[part.guards] for part in parts])
    out = np.zeros(len(u))
    rest = 0.0 if total is None else total - constant
    if not guards.size:
        if total is None:
            return out, 0.0
        return (out, -rest / slope) if slope > 0 else None
    square = la.block_diag(*(part.square - part.across.T @ part.answers[:, 2:] for part in parts))
    square = 0.5 * (square + square.T)
    linear = np.concatenate([p.base[p.guards] + p.across.T @ p.answers[:, 0] for p in parts])
    count = np.concatenate([1.0 - part.across.T @ part.answers[:, 1] for part in parts])
    box = lower[guards], upper[guards]
    start = into_box(u[guards], *box, None)
    if total is not None and slope > 0:
        # b is eliminated too: slope · b = countᵀu_W − rest.
        square += np.outer(count, count / slope)
        linear -= count * (rest / slope)
        found = solve_box(square, linear, *box, start, equality=False, tol=tol)
        out[guards] = found.u
        return out, (float(count @ found.u) - rest) / slope
    if total is not None:
        start = into_box(start, *box, rest)
        if abs(float(start.sum()) - rest) > unit_roundoff(np.float64) * len(u) * float(np.abs(start).sum()):
            return None
    found = solve_box(square, linear, *box, start, equality=total is not None, tol=tol)
    out[guards] = found.u
    return out, found.offset
