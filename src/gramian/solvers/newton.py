r"""Newton's method for Σ_i w_i ℓ(y_i, f(x_i) + b) + (alpha/2) ‖f‖² on the structured normal equations.

With f = Fβ, a Newton step solves (FᵀHF + alpha·I) δ = −(Fᵀg + alpha β), where H and g are the weighted
curvature and slope of each row. This is a ridge system with other row weights, which the arrowhead or the
coupled core solves as in ridge regression. For a coupled core f = Wβ, β = C v and ‖f‖² = vᵀCv, and the step
is in v. An intercept b, which is not penalised, adds one row and column to the system.

Nothing in this file knows rows: an :class:`NewtonObjective` makes one pass over them and returns sums.
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
from gramian.solvers.newton_system import Bordered, Curvature, Factor, NewtonPoint

#: Step lengths at which one pass evaluates the objective. Chosen by hand.
STEPS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
#: Share of the predicted decrease that a step must achieve (Armijo's rule, with the usual constant).
SUFFICIENT = 1e-4
#: Times that a step which fails at every length is tried again, each a hundred times shorter. Chosen by hand.
SHORTENINGS = 3
#: Proximal losses: factor of ρ from one anchor to the next, and the largest number of anchors. Chosen by
#: hand.
SHRINK, MAX_ANCHORS = 0.3, 40
#: Proximal losses: stop after this many anchors that did not lower the duality gap by a third. Chosen by
#: hand.
PATIENCE = 3
#: Proximal losses: the inner tolerance is STAGE_TOLERANCE at most, and times the square of the last duality
#: gap, but at least INNER times the target gap. Chosen by hand.
STAGE_TOLERANCE, INNER = 1e-2, 1e-6


@dataclass(frozen=True)
class Evaluation:
    """Sums that one pass over the rows returns for p outputs."""

    losses: Float64Array  #: Σ w ℓ at each of :data:`STEPS`, (steps, p); (steps, 1) if ℓ couples outputs
    slope: Float64Array  #: Fᵀ(w ∂ℓ/∂f) at the full step, (R, p)
    slope_offset: Float64Array  #: the same for b, (p,)
    curvature: list[Curvature]  #: at the full step, as many as asked for: one per output, one, or none


class NewtonObjective(Protocol):
    """Interface to the rows: passes that a minimisation asks for."""

    def evaluate(
        self, start: NewtonPoint, step: NewtonPoint | None, outputs: Array, loss: Loss, *, curvatures: int
    ) -> Evaluation:
        """Make one pass at ``start + step`` for these outputs of the targets.

        ``curvatures`` is the number of curvatures to sum: one per output, 0, or 1. A single one is that of
        the first output, or for a loss that couples outputs, that of the largest entry of each row.
        """

    def anchor(self, point: NewtonPoint, outputs: Array, loss: Proximal) -> tuple[Float64Array, Float64Array]:
        """Make a pass that sets the anchors of these outputs; return their losses and duality gaps."""


@dataclass(frozen=True)
class Minimum:
    """A minimiser, with its objective, remaining gap and number of passes."""

    point: NewtonPoint
    objective: Float64Array  #: Σ w ℓ + (alpha/2)‖f‖² for each output (one sum for a coupled loss)
    gap: Float64Array  #: predicted decrease that is left, relative to the objective
    iterations: int  #: passes over the rows

    @classmethod
    def joined(cls, parts: Sequence[Minimum]) -> Minimum:
        """Return the outputs of several minima side by side."""
        return cls(
            NewtonPoint.joined([p.point for p in parts]),
            np.concatenate([p.objective for p in parts]),
            np.concatenate([p.gap for p in parts]),
            sum(p.iterations for p in parts),
        )

    def updated(self, outputs: Array, other: Minimum) -> Minimum:
        """Return the minimum, with those of ``outputs`` replaced by ``other``'s whose gap is smaller."""
        parts = [self.part(np.array([j])) for j in range(len(self.gap))]
        for i, j in enumerate(outputs):
            if other.gap[i] < self.gap[j]:
                parts[j] = other.part(np.array([i]))
        return replace(Minimum.joined(parts), iterations=self.iterations + other.iterations)

    def part(self, which: Array) -> Minimum:
        """Return the minimum of some of the outputs."""
        return Minimum(self.point.columns(which), self.objective[which], self.gap[which], self.iterations)


@dataclass(frozen=True)
class Newton:
    """Settings of a minimisation.

    factored : factors the sums of one output; ``engine`` runs several outputs in parallel.
    reach : bound on the step of an intercept.
    tol : relative gap to stop at: half the squared Newton decrement over the objective, or for a loss of
        pieces the duality gap if that is larger. An objective below ``floor`` counts as ``floor``.
    least_rho : the ρ of a proximal loss does not fall below this share of its first value.
    core : the C of β = C v, if there is one.
    coarse : tiles are float32, whose rounding of f is too large for the duals f/ρ to tell whether f is
        stationary.
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

    def gradient(
        self, point: NewtonPoint, slope: Float64Array, slope_offset: Float64Array
    ) -> tuple[Array, Array]:
        """Return the gradient in β (dual) and b."""
        offset = slope_offset if self.intercept else np.zeros_like(slope_offset)
        return slope + self.alpha * point.dual, offset

    def unstationary(self, gradient: Array, gradient_offset: Array) -> Float64Array:
        """Return the part of each output's duality gap beside that of the rows; gradients (R, p), (p,).

        It is ½ alpha ‖f − f'‖² for the function f' that the rows' duals imply. A violated dual equality of
        the intercept adds the size of decision values, ``reach`` / 4, for each unit.
        """
        spread = gradient if self.core is None else self.core.multiply(gradient)
        gap = 0.5 * np.einsum("ij,ij->j", gradient, spread) / self.alpha
        return np.asarray(gap + 0.25 * self.reach * np.abs(gradient_offset))

    def penalised(self, losses: Float64Array, point: NewtonPoint, step: NewtonPoint | None) -> Float64Array:
        """Return the objective at each of :data:`STEPS` along the step, (steps, outputs)."""
        size = point.inner(point)
        if step is not None:
            t = np.asarray(STEPS)[:, None]
            size = size + 2.0 * t * point.inner(step) + t * t * step.inner(step)
        else:
            size = size[None]
        return losses + 0.5 * self.alpha * (size if losses.shape[1] > 1 else size.sum(axis=1, keepdims=True))

    def minimise(
        self,
        objective: NewtonObjective,
        start: NewtonPoint,
        outputs: Array,
        loss: Loss,
        *,
        sharpness: float = 1.0,
    ) -> Minimum:
        """Minimise for outputs that are independent problems, each with its own Gram matrix.

        An iteration takes one pass, which evaluates slope and curvature at the full step, and the objective
        at shorter steps too. A second pass is needed if the full step fails. The ρ of a proximal loss is
        first multiplied by ``sharpness``, which is below 1 if the start is near the minimum.
        """
        if not isinstance(loss, Proximal):
            return self.stage(objective, start, outputs, loss)[0]
        return self._proximal(objective, start, outputs, loss, sharpness)

    def _proximal(
        self, objective: NewtonObjective, start: NewtonPoint, outputs: Array, loss: Proximal, sharpness: float
    ) -> Minimum:
        """Minimise a loss with kinks by smooth losses; an output is done when its duality gap is small."""
        count = len(outputs)
        points = [start.columns(np.array([j])) for j in range(count)]
        values, gap, live, passes = np.zeros(count), np.full(count, np.inf), np.arange(count), 0
        least, loss = self.least_rho * loss.rho, loss.sharper(sharpness)
        # The duals are decision values over ρ, so they need more digits than the gap.
        least_tol = INNER * self.tol
        best, since = np.inf, 0
        for _ in range(MAX_ANCHORS):
            here = NewtonPoint.joined([points[j] for j in live])
            # While the gap is wide, a rough minimum gives equally good next anchors.
            last = best <= self.tol
            rough = least_tol if last else STAGE_TOLERANCE * best * best
            inner = replace(self, tol=min(STAGE_TOLERANCE, max(least_tol, rough)))
            most = 0.5 * self.tol if last and not self.coarse else np.inf
            minimum, missed = inner.stage(objective, here, outputs[live], loss, most)
            losses, gaps = objective.anchor(minimum.point, outputs[live], loss)
            passes += minimum.iterations + 1
            for i, j in enumerate(live):
                points[j] = minimum.point.columns(np.array([i]))
            values[live] = losses + 0.5 * self.alpha * minimum.point.inner(minimum.point)
            size = np.maximum(values[live], max(self.floor, np.finfo(float).tiny))
            gaps, missed = gaps / size, missed / size
            if self.coarse and inner.tol <= least_tol:
                missed[:] = 0.0  # rounding error, which no stage lowers
            gap[live] = gaps + missed
            left = gap[live] > self.tol
            if not left.any():
                break
            # Judge the anchors by the rows' gaps: after a rough stage f is not stationary for any anchors.
            worst, live = float(gaps[left].max()), live[left]
            best, since = (worst, 0) if worst < best / 1.5 else (best, since + 1)
            if since >= PATIENCE:
                break
            if worst > self.tol:
                loss = loss.sharper(max(SHRINK, least / loss.rho))
        return Minimum(NewtonPoint.joined(points), values, gap, passes)

    def stage(
        self, objective: NewtonObjective, start: NewtonPoint, outputs: Array, loss: Loss, most: float = np.inf
    ) -> tuple[Minimum, Float64Array]:
        """Return a minimum, and :meth:`unstationary` of its gradients, at most ``most`` of the objective."""
        count = len(outputs)
        now = objective.evaluate(start, None, outputs, loss, curvatures=count)
        passes = 1
        points = [start.columns(np.array([j])) for j in range(count)]
        values = self.penalised(now.losses, start, None)[0]
        gap, missed = np.zeros(count), np.zeros(count)
        live = np.arange(count)
        # The rounding of f by float32 tiles is too large for the bound.
        bounded = loss.in_pieces and not self.coarse
        for iteration in range(self.max_iterations + 1):

            def direct(
                i: int, now: Evaluation = now, points: list[NewtonPoint] = points, live: Array = live
            ) -> tuple[NewtonPoint, float, float]:
                g, g_b = self.gradient(points[live[i]], now.slope[:, i : i + 1], now.slope_offset[i : i + 1])
                step = self.bordered(now.curvature[i]).solve(-g, -g_b)
                fall = -float(np.vdot(g, step.beta)) - float(g_b @ step.offset)
                return step, fall, float(self.unstationary(g, g_b)[0])

            directions = self.engine.map(direct, range(len(live)))
            steps, falls = [d[0] for d in directions], np.array([d[1] for d in directions])
            missed[live] = [d[2] for d in directions]
            now.curvature.clear()
            size = np.maximum(np.abs(values[live]), max(self.floor, np.finfo(float).tiny))
            gap[live] = (np.maximum(0.5 * falls, missed[live]) if bounded else 0.5 * falls) / size
            keep = np.flatnonzero((gap[live] > self.tol) | (missed[live] > most * size))
            if not len(keep) or iteration == self.max_iterations:
                break
            live, falls = live[keep], falls[keep]
            here = NewtonPoint.joined([points[j] for j in live])
            step = NewtonPoint.joined([steps[i] for i in keep])
            now, length, reached, used = self._search(
                objective, here, step, falls, values[live], outputs[live], loss
            )
            passes += used
            there = here.plus(step, length)
            for i, j in enumerate(live):
                points[j] = there.columns(np.array([i]))
            moved = np.flatnonzero(length > 0.0)
            values[live[moved]] = reached[moved]
            now, live = _select_outputs(now, moved), live[moved]
            if not len(live):
                break
        return Minimum(NewtonPoint.joined(points), values, gap, passes), missed

    def _search(
        self,
        objective: NewtonObjective,
        here: NewtonPoint,
        step: NewtonPoint,
        falls: Float64Array,
        values: Float64Array,
        outputs: Array,
        loss: Loss,
    ) -> tuple[Evaluation, Float64Array, Float64Array, int]:
        """Return the evaluation after the steps, their lengths (0: no descent), the values and the passes."""
        now = objective.evaluate(here, step, outputs, loss, curvatures=len(outputs))
        trials = self.penalised(now.losses, here, step)
        best = np.where(trials[0] <= values - SUFFICIENT * falls, 0, trials.argmin(axis=0))
        reached = trials[best, np.arange(len(outputs))]
        length = np.where(reached < values, np.asarray(STEPS)[best], 0.0)
        passes = 1
        for _ in range(SHORTENINGS):
            # Far from the minimum the quadratic model fails, and a step may have to be much shorter.
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
    objective: NewtonObjective, now: Evaluation, there: NewtonPoint, outputs: Array, loss: Loss, which: Array
) -> Evaluation:
    """Return the evaluation with some outputs evaluated anew at the ends of their shorter steps."""
    rest = np.setdiff1d(np.arange(len(outputs)), which)
    curvature = dict(zip(rest.tolist(), (now.curvature[i] for i in rest), strict=True))
    now.curvature.clear()
    redo = objective.evaluate(there.columns(which), None, outputs[which], loss, curvatures=len(which))
    curvature.update(zip(which.tolist(), redo.curvature, strict=True))
    slope, slope_offset = now.slope.copy(), now.slope_offset.copy()
    slope[:, which], slope_offset[which] = redo.slope, redo.slope_offset
    return Evaluation(now.losses, slope, slope_offset, [curvature[i] for i in range(len(outputs))])


def _select_outputs(now: Evaluation, which: Array) -> Evaluation:
    if len(which) == now.slope.shape[1]:
        return now
    return Evaluation(
        now.losses, now.slope[:, which], now.slope_offset[which], [now.curvature[i] for i in which]
    )
