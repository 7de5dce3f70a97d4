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

from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.solvers.core import CoupledCore
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton_system import Bordered, Curvature, Factor, Point

#: Step lengths at which a pass evaluates the objective beside the full step.
STEPS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
#: Part of the predicted decrease that a step must achieve (Armijo).
SUFFICIENT = 1e-4
#: How often a step that fails at every length is tried again, a hundred times shorter.
SHORTENINGS = 3
#: Proximal losses: how ρ shrinks from one anchor to the next, and the most anchors.
SHRINK, MAX_ANCHORS = 0.3, 40
#: Anchors after which a duality gap that has not fallen by a third is left as it is.
PATIENCE = 3
#: Their inner tolerance: at most, and over the square of the last duality gap; over the target gap, at least.
STAGE_TOLERANCE, INNER = 1e-2, 1e-6


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

    @classmethod
    def joined(cls, parts: Sequence[Minimum]) -> Minimum:
        """Return the outputs of several minima side by side."""
        return cls(
            Point.joined([p.point for p in parts]),
            np.concatenate([p.objective for p in parts]),
            np.concatenate([p.gap for p in parts]),
            sum(p.iterations for p in parts),
        )

    def updated(self, outputs: Array, other: Minimum) -> Minimum:
        """Return the minimum with those of ``other``, for these outputs, where their gap is smaller."""
        parts = [self.part(np.array([j])) for j in range(len(self.gap))]
        for i, j in enumerate(outputs):
            if other.gap[i] < self.gap[j]:
                parts[j] = other.part(np.array([i]))
        return replace(Minimum.joined(parts), iterations=self.iterations + other.iterations)

    def part(self, which: Array) -> Minimum:
        """Return some of the outputs."""
        return Minimum(self.point.columns(which), self.objective[which], self.gap[which], self.iterations)


@dataclass(frozen=True)
class Newton:
    """Settings of a minimisation.

    ``factored`` factors the sums of one output, ``engine`` does several at a time; ``reach`` bounds an
    intercept's step; ``tol`` is the relative gap (half the squared Newton decrement over the objective) to
    stop at, and objectives under ``floor`` count as ``floor``. A proximal loss's ρ falls to ``least_rho`` of
    what it begins with. ``core`` is the C of β = C v, if there is one; ``coarse`` tiles, of float32, round
    f so much that the duals, f/ρ, do not tell whether f is stationary.
    """

    factored: Callable[[Curvature], Factor]
    engine: Engine
    alpha: float
    intercept: bool
    reach: float
    tol: float
    max_iterations: int
    floor: float = 0.0
    least_rho: float = 1e-5
    core: CoupledCore | None = None
    coarse: bool = False

    def bordered(self, curvature: Curvature) -> Bordered:
        """Return the factored Newton system."""
        return Bordered(self.factored, curvature, intercept=self.intercept, reach=self.reach)

    def gradient(self, point: Point, slope: Float64Array, slope_offset: Float64Array) -> tuple[Array, Array]:
        """Return the gradient in β (dual) and b."""
        offset = slope_offset if self.intercept else np.zeros_like(slope_offset)
        return slope + self.alpha * point.dual, offset

    def unstationary(self, gradient: Array, gradient_offset: Array) -> Float64Array:
        """Return what the duality gap of each output has beside that of its rows, for gradients (R, p), (p,).

        f is not the one that the rows' duals imply: ½ alpha ‖difference‖². An intercept whose dual equality
        is violated counts the size of decision values, ``reach`` / 4, for each unit.
        """
        spread = gradient if self.core is None else self.core.multiply(gradient)
        gap = 0.5 * np.einsum("ij,ij->j", gradient, spread) / self.alpha
        return np.asarray(gap + 0.25 * self.reach * np.abs(gradient_offset))

    def penalised(self, losses: Float64Array, point: Point, step: Point | None) -> Float64Array:
        """Return the objective at each of :data:`STEPS` along the step, (steps, outputs)."""
        size = point.inner(point)
        if step is not None:
            t = np.asarray(STEPS)[:, None]
            size = size + 2.0 * t * point.inner(step) + t * t * step.inner(step)
        else:
            size = size[None]
        return losses + 0.5 * self.alpha * (size if losses.shape[1] > 1 else size.sum(axis=1, keepdims=True))

    def minimise(
        self, objective: Objective, start: Point, outputs: Array, loss: Loss, *, sharpness: float = 1.0
    ) -> Minimum:
        """Minimise for outputs that are problems of their own, each with its Gram matrix.

        One pass an iteration: it evaluates the full step with its slope and curvature, and the objective
        at shorter steps too; a second pass where the full step fails. The ρ of a proximal loss begins at
        ``sharpness`` of what it has: under 1 for a start that is near the minimum.
        """
        if not isinstance(loss, Proximal):
            return self._stage(objective, start, outputs, loss)[0]
        return self._proximal(objective, start, outputs, loss, sharpness)

    def _proximal(
        self, objective: Objective, start: Point, outputs: Array, loss: Proximal, sharpness: float
    ) -> Minimum:
        """Minimise a loss with kinks by smooth ones; outputs leave when their duality gap is small."""
        count = len(outputs)
        points = [start.columns(np.array([j])) for j in range(count)]
        values, gap, live, passes = np.zeros(count), np.full(count, np.inf), np.arange(count), 0
        least, loss = self.least_rho * loss.rho, loss.sharper(sharpness)
        # The duals are the decision values over ρ: they need digits that the gap does not.
        least_tol = INNER * self.tol
        best, since = np.inf, 0
        for _ in range(MAX_ANCHORS):
            here = Point.joined([points[j] for j in live])
            # While the gap is wide, a minimum that is only near leaves the next anchors as good.
            last = best <= self.tol
            rough = least_tol if last else STAGE_TOLERANCE * best * best
            inner = replace(self, tol=min(STAGE_TOLERANCE, max(least_tol, rough)))
            most = 0.5 * self.tol if last and not self.coarse else np.inf
            found, missed = inner._stage(objective, here, outputs[live], loss, most)
            losses, gaps = objective.anchor(found.point, outputs[live], loss)
            passes += found.iterations + 1
            for i, j in enumerate(live):
                points[j] = found.point.columns(np.array([i]))
            values[live] = losses + 0.5 * self.alpha * found.point.inner(found.point)
            size = np.maximum(values[live], max(self.floor, np.finfo(float).tiny))
            gaps, missed = gaps / size, missed / size
            if self.coarse and inner.tol <= least_tol:
                missed[:] = 0.0  # rounding, which no stage lowers
            gap[live] = gaps + missed
            left = gap[live] > self.tol
            if not left.any():
                break
            # The anchors are judged by the rows' gaps: a rough stage misses stationarity whatever they are.
            worst, live = float(gaps[left].max()), live[left]
            best, since = (worst, 0) if worst < best / 1.5 else (best, since + 1)
            if since >= PATIENCE:
                break
            if worst > self.tol:
                loss = loss.sharper(max(SHRINK, least / loss.rho))
        return Minimum(Point.joined(points), values, gap, passes)

    def _stage(
        self, objective: Objective, start: Point, outputs: Array, loss: Loss, most: float = np.inf
    ) -> tuple[Minimum, Float64Array]:
        """Return a minimum, and :meth:`unstationary` of its gradients, at most ``most`` of the objective."""
        count = len(outputs)
        now = objective.evaluate(start, None, outputs, loss, curvatures=count)
        passes = 1
        points = [start.columns(np.array([j])) for j in range(count)]
        values = self.penalised(now.losses, start, None)[0]
        gap, missed = np.zeros(count), np.zeros(count)
        live = np.arange(count)
        for iteration in range(self.max_iterations + 1):

            def direct(
                i: int, now: Evaluation = now, points: list[Point] = points, live: Array = live
            ) -> tuple[Point, float, float]:
                g, g_b = self.gradient(points[live[i]], now.slope[:, i : i + 1], now.slope_offset[i : i + 1])
                step = self.bordered(now.curvature[i]).solve(-g, -g_b)
                fall = -float(np.vdot(g, step.beta)) - float(g_b @ step.offset)
                return step, fall, float(self.unstationary(g, g_b)[0])

            directions = list(self.engine.map(direct, range(len(live))))
            steps, falls = [d[0] for d in directions], np.array([d[1] for d in directions])
            missed[live] = [d[2] for d in directions]
            now.curvature.clear()
            size = np.maximum(np.abs(values[live]), max(self.floor, np.finfo(float).tiny))
            gap[live] = 0.5 * falls / size
            keep = np.flatnonzero((gap[live] > self.tol) | (missed[live] > most * size))
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
        return Minimum(Point.joined(points), values, gap, passes), missed

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
