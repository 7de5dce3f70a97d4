"""Sums of a ridge fit over the rows seen so far, which add up over chunks, machines or days; their solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from gramian._numerics import ridge_tolerance, unit_roundoff
from gramian._phases import Progress, uncounted
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.sums import add_rows
from gramian.data.distributed import Partitioned
from gramian.data.source import row_blocks
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, user_level
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums, multiply
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import ridge_coefficients
from gramian.solvers.solution import Solution, Status, relative_residual


@dataclass
class RidgeSums:
    r"""FᵀΩF, FᵀΩ(y − c), FᵀΩ1, Σw and Σw(y − c) over rows with features F, weights Ω and targets y.

    c is a constant near the targets' mean, chosen before the first row. A constant far from the mean still
    gives a correct result, but loses digits. All sums are float64. Memory: see ``nbytes``; it does not depend
    on the number of rows.
    """

    nodes: Sequence[NodeSums]  #: with an intercept, the last column of each right-hand side is FᵀΩ1
    shift: Float64Array  #: c, shape (outputs,)
    intercept: bool
    mass: float  #: Σw
    right: Float64Array  #: Σw(y − c), shape (outputs,)
    n_rows: int

    @classmethod
    def zeros(cls, features: FeatureMap, shift: Float64Array, *, intercept: bool) -> Self:
        """Return the sums over no rows."""
        p = len(shift)
        nodes = NodeSums.zeros_of(features.forest, p + intercept)
        return cls(nodes, shift.copy(), intercept, 0.0, np.zeros(p), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return sum(node.nbytes for node in self.nodes)

    def __sizeof__(self) -> int:
        """Return the number of bytes, which a cluster's scheduler reads."""
        return self.nbytes

    def add_rows(
        self,
        features: FeatureMap,
        rows: Rows,
        targets: Float64Array,
        weights: Array | None,
        engine: Engine,
        progress: Progress = uncounted,
    ) -> None:
        """Add rows with targets y (n, outputs), in place. Time O(n (m d + m r + R_path²))."""
        n, p = targets.shape
        y = np.ones((n, p + self.intercept))  # at most two copies of a chunk's targets exist at a time
        centred = np.subtract(targets, self.shift, out=y[:, :p])
        right = centred.sum(axis=0) if weights is None else weights @ centred
        mass = float(n if weights is None else weights.sum())
        add_rows(self.nodes, features, rows, y, weights, engine, progress)
        self.mass += mass
        self.right += right
        self.n_rows += len(y)

    def add(self, other: RidgeSums) -> None:
        """Add the sums over other rows with the same features, in place."""
        if self.intercept:
            other = other.shifted(self.shift)
        for own, new in zip(self.nodes, other.nodes, strict=True):
            own.add(new)
        self.mass += other.mass
        self.right += other.right
        self.n_rows += other.n_rows

    @staticmethod
    def total(parts: Sequence[RidgeSums]) -> RidgeSums:
        """Add all other parts to the first one, in order, and return it."""
        first, *rest = parts
        for part in rest:
            first.add(part)
        return first

    def shifted(self, shift: Float64Array) -> RidgeSums:
        """Return the same sums about another constant. Needs FᵀΩ1, so the fit must have an intercept."""
        step = self.shift - shift
        if not step.any():
            return self
        nodes = [
            NodeSums(
                s.gram, s.cross, np.column_stack([s.rhs[:, :-1] + np.outer(s.rhs[:, -1], step), s.rhs[:, -1]])
            )
            for s in self.nodes
        ]
        return RidgeSums(nodes, shift.copy(), True, self.mass, self.right + self.mass * step, self.n_rows)

    def scale(self, factor: float) -> None:
        """Multiply the weight of all rows so far by ``factor``, in place."""
        for node in self.nodes:
            for array in node.arrays:
                array *= factor
        self.mass *= factor
        self.right *= factor


@dataclass(frozen=True)
class PartSums:
    """Task sent to the machine that holds some rows: makes the sums over them, on one thread."""

    features: FeatureMap
    encode: Callable[[Array], Float64Array]  #: function from values to targets
    shift: Float64Array
    intercept: bool
    chunk_rows: int

    def __sizeof__(self) -> int:
        """Return the number of bytes, which a cluster's scheduler reads."""
        return self.features.nbytes

    def __call__(self, sums: RidgeSums | None, rows: Rows, values: Array, weights: Array | None) -> RidgeSums:
        """Add these rows to the sums in place and return them. Memory: the sums and one chunk."""
        engine = Engine(1)
        if sums is None:
            sums = RidgeSums.zeros(self.features, self.shift, intercept=self.intercept)
        for where in row_slices(rows.shape[0], self.chunk_rows):
            w = None if weights is None else weights[where]
            sums.add_rows(self.features, rows[where], self.encode(values[where]), w, engine)
        return sums


def sum_rows(
    sums: RidgeSums,
    features: FeatureMap,
    rows: LabelledRows[Any],
    *,
    chunk_rows: int,
    engine: Engine,
    done: Progress = uncounted,
    progress: Progress = uncounted,
) -> None:
    """Add labelled rows to the sums, in place and by chunks, starting at row ``sums.n_rows``.

    ``done`` is called with a number of rows once the sums include them; ``progress`` is called as soon as
    rows are summed anywhere. The order of the additions depends only on the rows and ``chunk_rows``, so a
    pass that is interrupted and resumed gives the same bits. Parts that lie on other machines are summed
    there, several at a time; the order then also depends on the parts and on the number of threads.
    """
    source, targets, weights = rows.source, rows.targets, rows.weights
    if isinstance(source, Partitioned):
        work = PartSums(features, targets.encoder(), sums.shift, sums.intercept, chunk_rows)
        parts = source.rounds(
            work, RidgeSums.total, targets.values, weights, start=sums.n_rows, progress=progress
        )
        for n_rows, part in parts:
            sums.add(part)
            done(n_rows)
        return
    for where, block in row_blocks(source, chunk_rows, sums.n_rows):
        w = None if weights is None else weights[where]
        sums.add_rows(features, block, targets[where], w, engine, progress)
        done(block.shape[0])


def split_intercept(
    beta: Sequence[Float64Array],
    sums: Sequence[NodeSums],
    mass: float,
    dtype: DTypeLike,
    right: Float64Array | float = 0.0,
) -> tuple[list[Float64Array], Float64Array]:
    r"""Return the coefficients and the offset b of the problem with an unpenalised intercept.

    With (β_y, β_1) the solutions for the right-hand sides FᵀΩy and FᵀΩ1 = s, the normal equation of b gives
    b = (Σwy − sᵀβ_y)/(Σw − sᵀβ_1) and β = β_y − b β_1; ``right`` is Σwy. The divisor is at least of the order
    of alpha; if it is lost in the tiles' rounding, b is 0.
    """
    ones = [s.rhs[:, -1] for s in sums]
    explained = sum(float(s @ b[:, -1]) for s, b in zip(ones, beta, strict=True))
    inner = np.sum([s @ b[:, :-1] for s, b in zip(ones, beta, strict=True)], axis=0)
    left = mass - explained
    offset = (right - inner) / left if left > unit_roundoff(dtype) * mass else np.zeros_like(inner)
    return [b[:, :-1] - np.outer(b[:, -1], offset) for b in beta], offset


def solve_ridge(
    features: FeatureMap, sums: RidgeSums, alpha: float | Float64Array, engine: Engine
) -> tuple[list[Float64Array], Float64Array, Solution]:
    """Solve (FᵀΩF + alpha·I) β = FᵀΩ(y − b); return β per node, the intercept b (or 0) and the solution.

    With an alpha for each output each distinct one is solved for; the solution is the least accurate one.
    """
    if isinstance(alpha, np.ndarray):
        each, which = np.unique(alpha, return_inverse=True)
        solved = [solve_ridge(features, sums, float(one), engine) for one in each]
        outputs = np.arange(len(which))
        mixed = [
            np.stack(nodes)[which, :, outputs].T.copy()
            for nodes in zip(*(b for b, _, _ in solved), strict=True)
        ]
        offset = np.stack([b for _, b, _ in solved])[which, outputs]
        worst = max((solution for _, _, solution in solved), key=lambda solution: solution.residual)
        return mixed, offset, replace(worst, value=np.concatenate(mixed))
    if features.core is None:
        factor = ArrowheadFactor(features.forest, sums.nodes, alpha, engine)
        beta, solution = solve_eliminated(factor, features.forest, sums.nodes)
    else:
        beta, solution = solve_coupled(features.core, sums.nodes, alpha, engine)
    if not sums.intercept:
        return beta, np.zeros_like(sums.shift), solution
    beta, offset = split_intercept(beta, sums.nodes, sums.mass, features.dtype, sums.right)
    return beta, sums.shift + offset, solution


def solve_eliminated(
    factor: ArrowheadFactor, forest: Forest, sums: Sequence[NodeSums]
) -> tuple[list[Float64Array], Solution]:
    """Solve for the sums' right-hand sides, with one refinement step if the residual is too large."""
    alpha, right = factor.alpha, [s.rhs for s in sums]
    beta = factor.solve(right)
    target = ridge_tolerance(np.float64)
    for step in range(2):
        product = multiply(forest, sums, beta, alpha)
        gap = [r - q for r, q in zip(right, product, strict=True)]
        residual = relative_residual(np.concatenate(gap), np.concatenate(right))
        if residual <= target or step:
            break
        beta = [b + c for b, c in zip(beta, factor.solve(gap), strict=True)]
    warn_if_missed(residual, target)
    value = np.concatenate(beta)
    return beta, Solution(value, Status.DIRECT, 0, residual, jitter=factor.jitter)


def solve_coupled(
    core: CoupledCore, sums: Sequence[NodeSums], alpha: float, engine: Engine
) -> tuple[list[Float64Array], Solution]:
    """Solve the ridge system of a coupled core and recompute the residual of its normal equations."""
    right = np.concatenate([s.rhs for s in sums])
    beta, solution = ridge_coefficients([s.gram for s in sums], core, right, alpha, engine=engine)
    if solution.status is Status.DIRECT:  # conjugate gradients give their own warning
        warn_if_missed(solution.residual, ridge_tolerance(np.float64))
    return core.split(beta), solution


def warn_if_missed(residual: float, target: float) -> None:
    """Warn if the residual of a ridge system is above its target."""
    if residual > target:
        warnings.warn(
            f"the ridge system was solved to a relative residual of {residual:.2g}, above the target "
            f"{target:.2g}. Raise alpha, or lower the rank.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
