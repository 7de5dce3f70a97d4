r"""Newton's method for Σ_i w_i ℓ(y_i, f(x_i) + b) + (alpha/2) ‖f‖² on the structured normal equations.

With f = Fβ a Newton step solves (FᵀHF + alpha·I) δ = −(Fᵀg + alpha β), H and g the weighted curvature and
slope of each row: a ridge system with other row weights, so that the arrowhead or the core solve it as they
solve ridge regression. For a coupled core f = Wβ, β = C v and ‖f‖² = vᵀCv; the step is in v. An
intercept b, which is not penalised, borders the system by one row and column.

Nothing here knows rows: an :class:`Objective` makes one pass over them and returns sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg as la

from gramian._numerics import cholesky_lower, gram_factor, unit_roundoff
from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.threads import blas_for

#: Step lengths at which a pass evaluates the objective beside the full step.
STEPS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
#: Part of the predicted decrease that a step must achieve (Armijo).
SUFFICIENT = 1e-4
#: How often a step that fails at every length is tried again, a hundred times shorter.
SHORTENINGS = 3
#: Proximal losses: how ρ shrinks from one anchor to the next, its least, and the most anchors.
SHRINK, LEAST_RHO, MAX_ANCHORS = 0.3, 1e-3, 40
#: Their inner tolerance over the one of the duality gap.
INNER = 1e-6

#: Solves the system of some sums: from right-hand sides (R, p) to β and v.
Factor = Callable[[Float64Array], tuple[Float64Array, Float64Array]]


@dataclass(frozen=True)
class Point:
    """Coefficients of some outputs: β (R, p), v with β = C v (β itself without a core), b (p,)."""

    beta: Float64Array
    dual: Float64Array
    offset: Float64Array

    @classmethod
    def zeros(cls, rank: int, outputs: int) -> Point:
        """Return f = 0."""
        beta = np.zeros((rank, outputs))
        return cls(beta, beta, np.zeros(outputs))

    @classmethod
    def joined(cls, points: Sequence[Point]) -> Point:
        """Return the outputs of several points side by side."""
        beta = np.concatenate([p.beta for p in points], axis=1)
        same = all(p.dual is p.beta for p in points)
        dual = beta if same else np.concatenate([p.dual for p in points], axis=1)
        return cls(beta, dual, np.concatenate([p.offset for p in points]))

    def columns(self, which: Array) -> Point:
        """Return some of the outputs."""
        beta = self.beta[:, which]
        dual = beta if self.dual is self.beta else self.dual[:, which]
        return Point(beta, dual, self.offset[which])

    def plus(self, step: Point, length: Float64Array | float = 1.0) -> Point:
        """Return the point a step (of one length for each output) further."""
        beta = self.beta + length * step.beta
        shared = self.dual is self.beta and step.dual is step.beta
        dual = beta if shared else self.dual + length * step.dual
        return Point(beta, dual, self.offset + length * step.offset)

    def times(self, factor: float) -> Point:
        """Return the point with everything multiplied by a number."""
        beta = factor * self.beta
        dual = beta if self.dual is self.beta else factor * self.dual
        return Point(beta, dual, factor * self.offset)

    def inner(self, other: Point) -> Float64Array:
        """Return ⟨f, g⟩ of the functions, intercepts apart, for each output."""
        return np.asarray(np.einsum("ij,ij->j", self.dual, other.beta))


@dataclass(frozen=True)
class Curvature:
    """FᵀHF by nodes; each node's ``rhs`` is its part of FᵀH1, and ``mass`` is 1ᵀH1.

    ``rows``, where it is given, is H^(1/2)F of the rows with curvature, so few that FᵀHF was not formed; the
    node of which they are has then only its ``rhs``.
    """

    sums: Sequence[NodeSums]
    mass: float
    rows: Float64Array | None = None

    def times(self, factor: float) -> Curvature:
        """Return the curvature of rows with H multiplied by a factor."""
        sums = [NodeSums(factor * s.gram, factor * s.cross, factor * s.rhs) for s in self.sums]
        rows = None if self.rows is None else np.sqrt(factor) * self.rows
        return Curvature(sums, factor * self.mass, rows)


@dataclass(frozen=True)
class Evaluation:
    """What one pass returns for p outputs."""

    losses: Float64Array  #: Σ w ℓ at each of :data:`STEPS`, (steps, p), or (steps, 1) where ℓ couples them
    slope: Float64Array  #: Fᵀ(w ∂ℓ/∂f) at the full step, (R, p)
    slope_offset: Float64Array  #: the same for b, (p,)
    curvature: list[Curvature]  #: at the full step, one an output; one, or none, as asked


class Objective(Protocol):
    """The rows' side of a minimisation."""

    def evaluate(
        self, start: Point, step: Point | None, outputs: Array, loss: Loss, *, curvatures: int
    ) -> Evaluation:
        """Make one pass at ``start + step`` for these outputs of the targets.

        ``curvatures``: as many as outputs, 1 (that of the first output; of a loss that couples outputs, of
        the largest entry of each row) or 0.
        """

    def anchor(self, point: Point, outputs: Array, loss: Proximal) -> tuple[Float64Array, Float64Array]:
        """Make a pass that sets the anchors of these outputs; returns their losses and duality gaps."""


@dataclass(frozen=True)
class Minimum:
    """A minimiser and its evidence."""

    point: Point
    objective: Float64Array  #: Σ w ℓ + (alpha/2)‖f‖² for each output (one sum for a coupled loss)
    gap: Float64Array  #: predicted decrease that was left, relative to the objective's size
    iterations: int  #: passes over the rows


def nested_factor(forest: Forest, alpha: float, engine: Engine) -> Callable[[Curvature], Factor]:
    """Return what factors FᵀHF + alpha·I by elimination."""

    def factored(curvature: Curvature) -> Factor:
        if curvature.rows is not None:
            return _factor_of_rows(curvature.rows, alpha)
        factor = ArrowheadFactor(forest, curvature.sums, alpha, engine)
        cuts = np.cumsum(forest.ranks)[:-1]

        def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
            beta = np.concatenate(factor.solve(np.split(right, cuts)))
            return beta, beta

        return solve

    return factored


def _factor_of_rows(rows: Float64Array, alpha: float) -> Factor:
    """Return what solves (SᵀS + alpha·I) x = r by (S Sᵀ + alpha·I)⁻¹, for S of fewer rows than columns.

    x = (r − Sᵀ (S Sᵀ + alpha·I)⁻¹ S r)/alpha, with one step of refinement for the digits that the difference
    loses.
    """
    with blas_for(len(rows)):
        small = rows @ rows.T
        small.flat[:: len(small) + 1] += alpha
        lower, _ = cholesky_lower(small, "the system S Sᵀ + alpha·I")

    def once(right: Float64Array) -> Float64Array:
        inner = la.cho_solve((lower, True), rows @ right, check_finite=False)
        return np.asarray((right - rows.T @ inner) / alpha)

    def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
        if not len(rows):
            lone = right / alpha
            return lone, lone
        x = once(right)
        x += once(right - rows.T @ (rows @ x) - alpha * x)
        return x, x

    return solve


def coupled_factor(core: CoupledCore, alpha: float, engine: Engine) -> Callable[[Curvature], Factor]:
    r"""Return what solves (A C + alpha·I) v = r for A = WᵀHW = TᵀT, and gives β = C v.

    v = (r − Tᵀ (T C Tᵀ + alpha·I)⁻¹ T C r)/alpha (Woodbury) holds for every r: slopes may be nonzero on
    rows without curvature, outside the range of A.
    """

    def factored(curvature: Curvature) -> Factor:
        system = CoupledSystem([gram_factor(s.gram)[0] for s in curvature.sums], core, engine=engine)

        def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
            inner = core.split(core.multiply(right))
            b = np.concatenate([t @ part for t, part in zip(system.factors, inner, strict=True)])
            dual = (right - system.expand(system.solve(b, alpha).value)) / alpha
            return core.multiply(dual), dual

        return solve

    return factored


class Bordered:
    """The Newton system with an intercept: [A + alpha·I, s; sᵀ, m] for s = FᵀH1, m = 1ᵀH1.

    The intercept's step is cut at ``reach``, as it is where rows of curvature are missing and m − sᵀ(A +
    alpha·I)⁻¹s vanishes; the other coefficients then follow from the cut step, so that the objective's
    quadratic model still falls.
    """

    def __init__(
        self,
        factored: Callable[[Curvature], Factor],
        curvature: Curvature,
        *,
        intercept: bool,
        reach: float = np.inf,
    ) -> None:
        self._factor = factored(curvature)
        self._intercept, self._reach = intercept, reach
        if intercept:
            self._border = np.concatenate([s.rhs for s in curvature.sums])
            self._beta, self._dual = self._factor(self._border)
            left = curvature.mass - float(np.vdot(self._border, self._beta))
            self._left = max(left, unit_roundoff(np.float64) * curvature.mass, np.finfo(np.float64).tiny)

    def solve(self, right: Float64Array, right_offset: Float64Array) -> Point:
        """Return the step for right-hand sides (R, p) and (p,)."""
        beta, dual = self._factor(right)
        if not self._intercept:
            return Point(beta, dual, np.zeros(right.shape[1]))
        with np.errstate(over="ignore"):
            offset = (right_offset - (self._border.T @ beta)[0]) / self._left
        offset = np.clip(offset, -self._reach, self._reach)
        shared = dual is beta
        beta = beta - self._beta * offset
        return Point(beta, beta if shared else dual - self._dual * offset, offset)


@dataclass(frozen=True)
class Newton:
    """Settings of a minimisation.

    ``factored`` factors the sums of one output, ``engine`` does several at a time; ``reach`` bounds an
    intercept's step; ``tol`` is the relative gap (half the squared Newton decrement over the objective) to
    stop at, and objectives under ``floor`` count as ``floor``.
    """

    factored: Callable[[Curvature], Factor]
    engine: Engine
    alpha: float
    intercept: bool
    reach: float
    tol: float
    max_iterations: int
    floor: float = 0.0

    def bordered(self, curvature: Curvature) -> Bordered:
        """Return the factored Newton system."""
        return Bordered(self.factored, curvature, intercept=self.intercept, reach=self.reach)

    def gradient(self, point: Point, slope: Float64Array, slope_offset: Float64Array) -> tuple[Array, Array]:
        """Return the gradient in β (dual) and b."""
        offset = slope_offset if self.intercept else np.zeros_like(slope_offset)
        return slope + self.alpha * point.dual, offset

    def penalised(self, losses: Float64Array, point: Point, step: Point | None) -> Float64Array:
        """Return the objective at each of :data:`STEPS` along the step, (steps, outputs)."""
        size = point.inner(point)
        if step is not None:
            t = np.asarray(STEPS)[:, None]
            size = size + 2.0 * t * point.inner(step) + t * t * step.inner(step)
        else:
            size = size[None]
        return losses + 0.5 * self.alpha * (size if losses.shape[1] > 1 else size.sum(axis=1, keepdims=True))

    def minimise(self, objective: Objective, start: Point, outputs: Array, loss: Loss) -> Minimum:
        """Minimise for outputs that are problems of their own, each with its Gram matrix.

        One pass an iteration: it evaluates the full step with its slope and curvature, and the objective
        at shorter steps too; a second pass where the full step fails.
        """
        if not isinstance(loss, Proximal):
            return self._stage(objective, start, outputs, loss)
        return self._proximal(objective, start, outputs, loss)

    def _proximal(self, objective: Objective, start: Point, outputs: Array, loss: Proximal) -> Minimum:
        """Minimise a loss with kinks by smooth ones; outputs leave when their duality gap is small."""
        count = len(outputs)
        points = [start.columns(np.array([j])) for j in range(count)]
        values, gap, live, passes = np.zeros(count), np.full(count, np.inf), np.arange(count), 0
        least = LEAST_RHO * loss.rho
        # The duals are the decision values over ρ: they need digits that the gap does not.
        inner = replace(self, tol=INNER * self.tol)
        for _ in range(MAX_ANCHORS):
            here = Point.joined([points[j] for j in live])
            found = inner._stage(objective, here, outputs[live], loss)
            losses, gaps = objective.anchor(found.point, outputs[live], loss)
            passes += found.iterations + 1
            for i, j in enumerate(live):
                points[j] = found.point.columns(np.array([i]))
            values[live] = losses + 0.5 * self.alpha * found.point.inner(found.point)
            gap[live] = gaps / np.maximum(values[live], max(self.floor, np.finfo(float).tiny))
            live = live[gap[live] > self.tol]
            if not len(live):
                break
            loss = loss.sharper(max(SHRINK, least / loss.rho))
        return Minimum(Point.joined(points), values, gap, passes)

    def _stage(self, objective: Objective, start: Point, outputs: Array, loss: Loss) -> Minimum:
        count = len(outputs)
        now = objective.evaluate(start, None, outputs, loss, curvatures=count)
        passes = 1
        points = [start.columns(np.array([j])) for j in range(count)]
        values = self.penalised(now.losses, start, None)[0]
        gap = np.zeros(count)
        live = np.arange(count)
        for iteration in range(self.max_iterations + 1):

            def direct(
                i: int, now: Evaluation = now, points: list[Point] = points, live: Array = live
            ) -> tuple[Point, float]:
                g, g_b = self.gradient(points[live[i]], now.slope[:, i : i + 1], now.slope_offset[i : i + 1])
                step = self.bordered(now.curvature[i]).solve(-g, -g_b)
                return step, -float(np.vdot(g, step.beta)) - float(g_b @ step.offset)

            directions = list(self.engine.map(direct, range(len(live))))
            steps, falls = [d[0] for d in directions], np.array([d[1] for d in directions])
            now.curvature.clear()
            gap[live] = 0.5 * falls / np.maximum(np.abs(values[live]), max(self.floor, np.finfo(float).tiny))
            keep = np.flatnonzero(gap[live] > self.tol)
            if not len(keep) or iteration == self.max_iterations:
                break
            live, falls = live[keep], falls[keep]
            here = Point.joined([points[j] for j in live])
            step = Point.joined([steps[i] for i in keep])
            now, length, reached, used = self._search(
                objective, here, step, falls, values[live], outputs[live], loss
            )
            passes += used
            there = here.plus(step, length)
            for i, j in enumerate(live):
                points[j] = there.columns(np.array([i]))
            moved = np.flatnonzero(length > 0.0)
            values[live[moved]] = reached[moved]
            now, live = _kept(now, moved), live[moved]
            if not len(live):
                break
        return Minimum(Point.joined(points), values, gap, passes)

    def _search(
        self,
        objective: Objective,
        here: Point,
        step: Point,
        falls: Float64Array,
        values: Float64Array,
        outputs: Array,
        loss: Loss,
    ) -> tuple[Evaluation, Float64Array, Float64Array, int]:
        """Return the evaluation where each output's step ends, its length (0: no descent), value, passes."""
        now = objective.evaluate(here, step, outputs, loss, curvatures=len(outputs))
        trials = self.penalised(now.losses, here, step)
        best = np.where(trials[0] <= values - SUFFICIENT * falls, 0, trials.argmin(axis=0))
        reached = trials[best, np.arange(len(outputs))]
        length = np.where(reached < values, np.asarray(STEPS)[best], 0.0)
        passes = 1
        for _ in range(SHORTENINGS):
            # Far outside the zone of the parabolas a step may have to be much shorter.
            short = np.flatnonzero(length == 0.0)
            short = short[falls[short] > 2.0 * self.tol * np.maximum(np.abs(values[short]), self.floor)]
            if not len(short) or passes > SHORTENINGS:
                break
            scale = STEPS[-1] ** passes
            part = objective.evaluate(
                here.columns(short), step.columns(short).times(scale), outputs[short], loss, curvatures=0
            )
            passes += 1
            tried = self.penalised(part.losses, here.columns(short), step.columns(short).times(scale))
            lowest, which = tried.min(axis=0), tried.argmin(axis=0)
            better = lowest < values[short]
            length[short[better]] = scale * np.asarray(STEPS)[which[better]]
            reached[short[better]] = lowest[better]
        damped = np.flatnonzero((length > 0.0) & (length < 1.0))
        if len(damped):
            now = _again(objective, now, here.plus(step, length), outputs, loss, damped)
            passes += 1
        return now, length, reached, passes


def _again(
    objective: Objective, now: Evaluation, there: Point, outputs: Array, loss: Loss, which: Array
) -> Evaluation:
    """Return the evaluation with some outputs replaced by a pass at their shorter steps' ends."""
    rest = np.setdiff1d(np.arange(len(outputs)), which)
    curvature = dict(zip(rest.tolist(), (now.curvature[i] for i in rest), strict=True))
    now.curvature.clear()
    redo = objective.evaluate(there.columns(which), None, outputs[which], loss, curvatures=len(which))
    curvature.update(zip(which.tolist(), redo.curvature, strict=True))
    slope, slope_offset = now.slope.copy(), now.slope_offset.copy()
    slope[:, which], slope_offset[which] = redo.slope, redo.slope_offset
    return Evaluation(now.losses, slope, slope_offset, [curvature[i] for i in range(len(outputs))])


def _kept(now: Evaluation, which: Array) -> Evaluation:
    if len(which) == now.slope.shape[1]:
        return now
    return Evaluation(
        now.losses, now.slope[:, which], now.slope_offset[which], [now.curvature[i] for i in which]
    )
