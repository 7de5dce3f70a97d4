"""Box-constrained problems by block pivoting: exact solves on the free rows, component by component."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.kernels.base import CHUNK_ROWS
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import COLUMNS, Gram
from gramian.svm.divide.subproblem import SQUARES, solve_box

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
#: Relative jitter on the diagonal in units of u·rows, and how often it may grow a hundredfold.
JITTER, JITTER_TRIES = 4.0, 6


def solve_pivots(
    gram: Gram, dual: Dual, linear: Float64Array, component: IntArray, tol: float, max_iter: int
) -> bool:
    r"""Minimise ½uᵀKu + cᵀu over the box with Σu kept where there is an equality, K block-diagonal.

    Start from a guess F of the free rows. Each step solves K_FF u_F = −(c + b + K_F· u)_F exactly, with one
    Cholesky factor a component and b from the equality. Free rows that leave the box are fixed at their
    bound; rows at a bound whose gradient pulls them back are freed. Components whose sets did not change are
    not solved again. From a good start about ten steps suffice, however many rows must change.

    If the sets cycle, the cycling rows become *guarded*: the other free rows are eliminated (Schur
    complement), and a small problem over the guarded rows keeps these in the box exactly. A guarded row stays
    guarded, so the number of steps is finite. If too many rows would be guarded, or a matrix or factor would
    exceed the memory of the run, the sets do not settle.

    gram : K of n rows; linear : c, (n,); component : (n,) numbers of the blocks; ``dual`` : box and start.
    Returns whether the sets settled: then u and gradient of ``dual`` are optimal to the tolerance, where
    entries of K between components count as zero. Its steps are counted in any case.

    Time a step: Σ free³/3 over the components whose sets changed, and rows · free kernel values. Memory:
    8 · free² bytes for the largest component or 8 · (``SQUARES`` + 2) · guarded² bytes, whichever is more,
    plus 16 · free · guarded and 16 n bytes.

    Source: Júdice and Pires 1994 (block principal pivoting); Hintermüller, Ito and Kunisch 2003.
    """
    number = _gather_parts(component)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(int(number.max(initial=0)) + 2))
    parts = [_PivotPart(gram, order[a:b], linear) for a, b in pairwise(ends)]
    u, sides = dual.u, dual.sides
    if sides.all():
        sides = np.zeros_like(sides)
    # Rows that are guarded, whose sides are ignored; rows that changed in the step before.
    guarded = latest = np.zeros(len(u), bool)
    least, stalled = len(u) + 1, 0
    for _ in range(min(max_iter, MOST_STEPS)):
        dual.steps += 1
        bound = np.where(guarded, 0.0, dual.put(np.zeros(len(u)), sides))
        free = (sides == 0) & ~guarded
        if _bytes(parts, free, guarded) > gram.run.memory_bytes:
            return False
        if not all(part.solve(free, bound, guarded) for part in parts):
            return False
        joint = _joint(parts, dual, u, GUARD_SHARE * tol)
        if joint is None:
            return False
        guards, offset = joint
        u, gradient = np.where(guarded, guards, bound), np.empty(len(u))
        for part in parts:
            part.write(offset, u, gradient)
        before, sides = sides, dual.next_sides(u, gradient + offset, sides, PULL_SHARE * tol)
        changed = (sides != before) & ~guarded
        count = int(np.count_nonzero(changed))
        if not count:
            dual.u[:], dual.gradient[:] = dual.into_box(u), gradient
            return True
        stalled = 0 if count < least else stalled + 1
        least = min(least, count)
        if guarded.any():
            guarded = guarded | changed
        elif stalled >= PATIENCE:
            guarded = changed | latest
        latest = changed
        if np.count_nonzero(guarded) > MOST_GUARDS:
            return False
    return False


def _gather_parts(component: IntArray) -> IntArray:
    """Return the part number (n,) of each row: parts are components, with small components combined."""
    _, component, sizes = np.unique(component, return_inverse=True, return_counts=True)
    few = np.where(sizes < PART_ROWS, sizes, 0)
    part = (np.cumsum(few) - few) // PART_ROWS
    part = np.where(few > 0, part, len(component) + np.arange(len(sizes)))
    return np.unique(part[component.ravel()], return_inverse=True)[1].ravel().astype(np.intp)


class _PivotPart:
    """One part of the rows: its free coefficients as an affine function of b and its guarded coefficients."""

    def __init__(self, gram: Gram, index: IntArray, linear: Float64Array) -> None:
        self.gram, self.index = gram.part(index), index
        self.base = linear[index]  #: c + K · (coefficients at a bound)
        self.bound = np.zeros(len(index))
        self.free: IntArray | None = None
        self.guards = np.zeros(0, np.intp)
        self.answers = np.zeros((0, 0))  #: u_F = answers @ [1, −b, −u_W]
        self.image = np.zeros((0, 0))  #: K[:, F] @ answers[:, :2], without guarded rows
        self.across = self.square = np.zeros((0, 0))  #: K_FW and K_WW

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
        self.free, self.guards, own = now, guards, self.gram.part(now)
        self.across, self.square = np.zeros((len(now), 0)), np.zeros((0, 0))
        if guards.size:
            guard = self.gram.part(guards)
            self.square, self.across = guard.square(), own.block(guard.rows)
        self.answers = np.column_stack([-self.base[now], np.ones(len(now)), self.across])
        if now.size:
            factor = _factor(own)
            if factor is None:
                return False
            self.answers = cho_solve(factor, self.answers)
            del factor  # free it before the tiles of the image are computed
        if not guards.size:
            self.image = np.zeros((len(self.index), 2))
            self.gram.add(self.image, own.rows, self.answers)
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


def _factor(gram: Gram) -> Float64Array | None:
    """Return the Cholesky factor of K, computed in place, or None if K is not definite."""
    rows, kernel, m = gram.rows, gram.kernel, len(gram)
    gram.count(m * (m + 1) // 2)
    jitter = JITTER * unit_roundoff(np.float64) * m
    for _ in range(JITTER_TRIES):
        square = np.empty((m, m))

        def fill(part: slice, square: Float64Array = square) -> None:
            evaluate = kernel.against(rows[part], np.float64)
            for low in row_slices(m - part.start, CHUNK_ROWS):
                below = slice(part.start + low.start, part.start + low.stop)
                square[below, part] = evaluate(rows[below])

        gram.run.engine.run(fill, list(row_slices(m, COLUMNS)))
        diagonal = kernel.diagonal(rows)
        square.flat[:: m + 1] = diagonal + jitter * float(diagonal.mean())
        try:
            return cholesky(square, overwrite=True)
        except la.LinAlgError:
            jitter *= 100.0
    return None


def _joint(
    parts: list[_PivotPart], dual: Dual, u: Float64Array, tol: float
) -> tuple[Float64Array, float] | None:
    """Return the guarded coefficients (n,) and b, or None if no row is free to satisfy the equality."""
    constant = sum(float(part.bound.sum() + part.answers[:, 0].sum()) for part in parts)
    slope = sum(float(part.answers[:, 1].sum()) for part in parts)
    guards = np.concatenate([part.index[part.guards] for part in parts])
    out = np.zeros(len(u))
    rest = 0.0 if dual.total is None else dual.total - constant
    if not guards.size:
        if dual.total is None:
            return out, 0.0
        return (out, -rest / slope) if slope > 0 else None
    square = la.block_diag(*(part.square - part.across.T @ part.answers[:, 2:] for part in parts))
    square = 0.5 * (square + square.T)
    linear = np.concatenate([p.base[p.guards] + p.across.T @ p.answers[:, 0] for p in parts])
    count = np.concatenate([1.0 - part.across.T @ part.answers[:, 1] for part in parts])
    own = dual.part(guards)
    own.u = np.clip(u[guards], own.lower, own.upper)
    own.total = None
    if dual.total is not None and slope > 0:
        # b is eliminated too: slope · b = countᵀu_W − rest.
        square += np.outer(count, count / slope)
        linear -= count * (rest / slope)
        out[guards], _ = solve_box(square, linear, own, tol)
        return out, (float(count @ out[guards]) - rest) / slope
    if dual.total is not None:
        own.total = rest
        own.u = own.into_box(own.u)
        error = abs(float(own.u.sum()) - rest)
        if error > unit_roundoff(np.float64) * len(u) * float(np.abs(own.u).sum()):
            return None
    out[guards], offset = solve_box(square, linear, own, tol)
    return out, offset
