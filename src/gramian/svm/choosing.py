"""Newton fits: the plan, the kernel and C chosen where they are "auto", the minimum, the calibration.

The kernel is chosen on samples. C is chosen by held-out rows, on features of all rows that are made once:
each C is minimised without the held-out rows, from the minimum for the best C so far, and judged by the loss
of the held-out rows; then all rows are fitted with the best C.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.approximations.setup import FitSetup
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.labels import relative_weights
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import AccuracyWarning
from gramian.metric.input import learned_input
from gramian.metric.learner import FittedRound, compares_exactly, squared_errors
from gramian.ridge.model import KernelModel
from gramian.ridge.training import ridge_round
from gramian.selection.automatic import (
    CLOSE,
    chosen_kernel,
    fold_numbers,
    mean_diagonal,
    penalty_grid,
    refuse_far_rows,
    searchable,
)
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice
from gramian.solvers.losses import EpsilonInsensitive, Loss, Proximal, platt_sigmoid
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import NewtonPoint
from gramian.svm.newton import NewtonParameters, posed
from gramian.svm.newton_training import NewtonTraining

#: Learned attributes of what was chosen for parameters that are "auto".
CHOSEN = ("choice_", "C_")
#: Folds of the rows, of which as many are held out in turn as give this many rows. By hand.
FOLDS, HELD_OUT_ROWS = 5, 500
#: Most rows of a fold, and the part of the memory budget that it takes at most.
MOST_ROWS, PART = 10_000, 8
#: Relative accuracy of the minima that are compared, and by how much a C has to lower the loss. By hand.
ROUGH, PROGRESS = 1e-3, 0.01
#: The penalty that is tried first for a kernel that was given, over the mean of k(x, x).
FIRST = 0.1


def fit_newton(rows: LabelledRows[Any], parameters: NewtonParameters) -> KernelModel:
    """Return the model of labelled rows, with what the parameters leave to the rows."""
    began, auto_names, setup = time.perf_counter(), parameters.setup.auto_names, parameters.setup
    refuse_far_rows(rows, auto_names)
    if parameters.folds or (rows.n >= LEAST_ROWS and (auto_names or setup.learns_metric)):
        rows = without_copies(rows, setup.run.memory_bytes)[0]
    if "C" in auto_names:
        rows, usual = searchable(rows)
        parameters = replace(parameters, C=1.0 / usual)
    input_ = learned_input(setup, rows, partial(newton_round, parameters))
    rows, choice, learned = input_.prepared(rows), None, dict[str, Any]()
    if auto_names:
        rng = setup.run.rng
        choice = chosen_kernel(setup, rows, rng)
    if choice is not None:
        parameters = replace(parameters, setup=setup.with_kernel(choice.kernel))
    if "C" in auto_names and len(rows.counted) >= LEAST_ROWS:
        training, minimum, alpha = _with_best_penalty(parameters, rows, choice, rng)
        parameters = replace(parameters, C=1.0 / alpha)
    else:
        training, minimum, alpha = _minimised(parameters, rows, None)
    model = training.model(minimum)
    if auto_names or input_.rounds:
        spent = time.perf_counter() - began
        model = replace(model, plan=model.plan.with_seconds(spent, "choice" if auto_names else "metric"))
    if "C" in auto_names:
        learned["C_"] = parameters.C
    if parameters.folds:
        learned["calibration_"] = _calibration(training, minimum.point, alpha)
    return replace(model, input=input_, choice=choice, learned={"n_iter_": minimum.iterations} | learned)


def newton_round(
    parameters: NewtonParameters,
    rows: LabelledRows[Any],
    setup: FitSetup,
    before: KernelModel | None,
    quick: bool,
) -> FittedRound:
    """Return what a round of a metric fits: this model, or a ridge model.

    A ridge model ranks metrics as well as this one does, and takes one solve instead of several passes.
    """
    if quick and compares_exactly(setup):
        return ridge_round(rows, replace(setup, alpha=parameters.penalty), before, quick)
    training, minimum, _ = _minimised(replace(parameters, setup=setup), rows, before)
    fitted = training.model(minimum).of_round(setup.run.engine)
    if isinstance(rows.targets, NumberTargets):
        return fitted
    return replace(fitted, losses=partial(class_losses, parameters.loss), bounded=False)


def class_losses(loss: Loss, signs: Float64Array, values: Float64Array) -> Float64Array:
    """Return the loss of each row, summed over outputs; that of a proximal loss without smoothing."""
    if isinstance(loss, Proximal):
        return np.asarray(loss.gap(signs, values, np.zeros_like(values)).sum(axis=1))
    return np.asarray(loss.value(signs, values).sum(axis=1))


def _minimised(
    parameters: NewtonParameters, rows: LabelledRows[Any], before: KernelModel | None
) -> tuple[NewtonTraining, Minimum, float]:
    """Return the training of rows that are ready for the kernel, its minimum and the penalty 1/C.

    ``before`` is the model of an earlier round of learning a metric.
    """
    parameters, rows, start = posed(parameters, rows, before)
    training, alpha, at = NewtonTraining(parameters, rows, parameters.penalty), 1.0 / parameters.C, None
    if start is not None:
        zero = np.zeros((training.features.rank, rows.n_outputs))
        at = NewtonPoint(zero, zero, start)
    return training, training.minimise(rows.weights, alpha, at), alpha


def _with_best_penalty(
    parameters: NewtonParameters,
    rows: LabelledRows[Any],
    choice: KernelChoice | None,
    rng: np.random.Generator,
) -> tuple[NewtonTraining, Minimum, float]:
    """Return training, minimum and 1/C for that C whose loss of held-out rows is the least.

    The neighbours of the best 1/C are tried until both have been, then those half a decade away.
    """
    judged = squared_errors
    if not isinstance(rows.targets, NumberTargets):
        judged = partial(class_losses, parameters.loss)
    parameters, ready, _ = posed(parameters, rows)
    alphas, first = _candidates(parameters, ready, choice)
    folds = _folds(parameters, ready, rng)
    held_out = [rows.read(np.flatnonzero(out)) for out in folds]
    least_penalty = parameters.penalty * float(alphas[0] * CLOSE[0])
    training, whole = NewtonTraining(parameters, ready, least_penalty), ready.all_weights
    line, tried, best, least = alphas.tolist(), set[float](), first, np.inf
    points: list[NewtonPoint | None] = [None] * len(folds)
    candidates, last = [first], False
    while candidates:
        for alpha in candidates:
            tried.add(alpha)
            total = mass = 0.0
            trial = f"C = {1.0 / alpha:.3g}" + (f", best loss {least:.3g}" if least < np.inf else "")
            solved: list[NewtonPoint | None] = []
            for out, held, near in zip(folds, held_out, points, strict=True):
                with warnings.catch_warnings():
                    # A candidate that stops early is judged by its error like any other.
                    warnings.simplefilter("ignore", AccuracyWarning)
                    kept = np.where(out, 0.0, whole)
                    point = training.minimise(kept, alpha, near, ROUGH, checked=False, trial=trial).point
                loss = judged(held.numbers, training.values(point, held.source))
                total, mass = total + float(held.all_weights @ loss), mass + float(held.all_weights.sum())
                solved.append(point)
            if total / mass <= (1.0 - PROGRESS) * least or points[0] is None:
                least, best, points = total / mass, alpha, solved
        if last or not np.isfinite(least):
            break
        at = line.index(best)
        untried = [alpha for alpha in line[max(at - 1, 0) : at + 2] if alpha not in tried]
        last = not untried
        # Of two neighbours first the smaller C, which takes fewer passes.
        candidates = untried[-1:] if untried else (best * CLOSE).tolist()
    return training, training.minimise(ready.weights, best, points[0]), best


def _candidates(
    parameters: NewtonParameters, rows: LabelledRows[Any], choice: KernelChoice | None
) -> tuple[Float64Array, float]:
    """Return values of 1/C a decade apart, ascending, and the one of them that is tried first."""
    level = mean_diagonal(parameters.setup.kernel.resolve_for(rows.source, rows.weights), rows)
    start = None if choice is None else choice.alpha
    penalties = penalty_grid(level, start)
    near = FIRST * level if start is None else start
    # The C that compares with a ridge penalty of 1. With residuals r, |r| bends like r²/(2|r|).
    unit = parameters.penalty
    if isinstance(rows.targets, NumberTargets):
        absolute = isinstance(parameters.loss, EpsilonInsensitive)
        error = 1.0 if choice is None else max(float(choice.errors.min()), np.finfo(float).eps)
        unit = parameters.scale * math.sqrt(error) if absolute else 0.5
    alphas = penalties / unit
    return alphas, float(alphas[np.argmin(np.abs(np.log(penalties / near)))])


def _folds(parameters: NewtonParameters, rows: LabelledRows[Any], rng: np.random.Generator) -> list[Array]:
    """Return masks of the rows of the folds that judge C; each fold has its share of every class."""
    counted = rows.counted
    room = parameters.setup.run.memory_bytes // (PART * 8 * rows.source.shape[1])
    most = max(LEAST_ROWS, min(MOST_ROWS, room))
    n_folds = max(FOLDS, -(-len(counted) // most))
    fold = fold_numbers(counted, getattr(rows.targets, "codes", None), n_folds, rng, rows.n)
    return [fold == k for k in range(min(n_folds, -(-HELD_OUT_ROWS * n_folds // len(counted))))]


def _calibration(training: NewtonTraining, start: NewtonPoint, alpha: float) -> Float64Array:
    """Return (a, b) of the sigmoid of each output from decision values of held-out rows.

    Where C is searched for only the ratios of weights matter.
    """
    parameters, rows = training.parameters, training.rows
    signs, whole = rows.targets, rows.all_weights
    fold = fold_numbers(rows.counted, signs.codes, parameters.folds, training.rng, rows.n)
    held_out = np.zeros(signs.shape)  # rows of weight 0 are in no fold, and count for nothing
    for k in range(parameters.folds):
        out = fold == k
        if not out.any() or not (whole[~out] > 0).any():
            held_out[out] = start.offset
            continue
        left = training.minimise(np.where(out, 0.0, whole), alpha, start, checked=False)
        held_out[out] = training.values(left.point)[out]
    positive = signs[slice(0, rows.n)] > 0
    counts = relative_weights(whole) if "C" in parameters.setup.auto_names else whole
    return np.asarray([platt_sigmoid(v, p, counts) for v, p in zip(held_out.T, positive.T, strict=True)])
