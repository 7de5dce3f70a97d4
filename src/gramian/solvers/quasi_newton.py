r"""L-BFGS preconditioned by a factored bound of the Hessian, for losses that couple their outputs.

The softmax Hessian of k outputs is kR × kR. For each row it is at most 2 diag(p_k (1 − p_k)). With the
largest of a row's entries in Ω, 2 FᵀΩF + alpha·I bounds it for every output, so one Gram matrix and one
factorisation serve all. The bound starts each two-loop recursion (Nocedal and Wright 2006, algorithm 7.4). It
is recomputed every few iterations, because Ω falls as the class probabilities approach 0 and 1; the other
passes need no Gram matrix. With the fixed bound ½ (Böhning 1992) up to four times as many passes were needed
(measured by hand).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from gramian._typing import Array
from gramian.solvers.losses import Loss
from gramian.solvers.newton import STEPS, SUFFICIENT, Evaluation, Minimum, Newton, NewtonObjective
from gramian.solvers.newton_system import Bordered, NewtonPoint

#: Iterations after which the bound is recomputed. Chosen by hand.
REFRESH = 10


def minimise_coupled(
    settings: Newton,
    objective: NewtonObjective,
    start: NewtonPoint,
    outputs: Array,
    loss: Loss,
    bound: float,
    *,
    memory: int,
) -> Minimum:
    """Minimise over all outputs together; ``bound`` times a row's largest curvature bounds its Hessian.

    Stops once −½ gᵀd of a step d is below ``tol`` times the objective. ``memory`` is the number of pairs of
    steps and gradients that are kept; a pair takes four arrays of the size of the coefficients.
    """
    point = start
    now = objective.evaluate(start, None, outputs, loss, curvatures=1)
    hessian: Bordered | None = settings.bordered(now.curvature.pop().scaled(bound))
    value = float(settings.penalised(now.losses, start, None)[0, 0])
    gradient = _gradient(settings, start, now)
    pairs: deque[tuple[NewtonPoint, NewtonPoint]] = deque(maxlen=memory)
    passes, gap = 1, 0.0
    for iteration in range(settings.max_iterations + 1):
        assert hessian is not None
        step = _direction(gradient, pairs, hessian)
        fall = -_along(gradient, step)
        gap = 0.5 * fall / max(abs(value), settings.floor, np.finfo(float).tiny)
        if gap <= settings.tol or iteration == settings.max_iterations:
            break
        anew = (iteration + 1) % REFRESH == 0
        if anew:
            hessian = None  # free its sums for those of the next one
        now = objective.evaluate(point, step, outputs, loss, curvatures=int(anew))
        passes += 1
        trials = settings.penalised(now.losses, point, step)[:, 0]
        best = 0 if trials[0] <= value - SUFFICIENT * fall else int(trials.argmin())
        if not trials[best] < value:
            break
        step = step.times(STEPS[best])
        point, value = point.plus(step), float(trials[best])
        if best:
            now.curvature.clear()
            now = objective.evaluate(point, None, outputs, loss, curvatures=int(anew))
            passes += 1
        if anew:
            hessian = settings.bordered(now.curvature.pop().scaled(bound))
        after = _gradient(settings, point, now)
        change = after.plus(gradient, -1.0)
        if _along(change, step) > 0.0:
            pairs.append((step, change))
        gradient = after
    return Minimum(point, np.array([value]), np.array([gap]), passes)


def _gradient(settings: Newton, point: NewtonPoint, now: Evaluation) -> NewtonPoint:
    """Return the gradient with respect to coefficients and intercepts."""
    beta, offset = settings.gradient(point, now.slope, now.slope_offset)
    return NewtonPoint(beta, beta, offset)


def _along(gradient: NewtonPoint, step: NewtonPoint) -> float:
    """Return the directional derivative along a step."""
    return float(np.vdot(gradient.beta, step.beta)) + float(gradient.offset @ step.offset)


def _direction(
    gradient: NewtonPoint, pairs: deque[tuple[NewtonPoint, NewtonPoint]], hessian: Bordered
) -> NewtonPoint:
    """Return −H⁻¹g by the two-loop recursion."""
    lengths = []
    for step, change in reversed(pairs):
        length = _along(gradient, step) / _along(change, step)
        gradient = gradient.plus(change, -length)
        lengths.append(length)
    out = hessian.solve(-gradient.beta, -gradient.offset)
    for (step, change), length in zip(pairs, reversed(lengths), strict=True):
        out = out.plus(step, -length - _along(change, out) / _along(change, step))
    return out
