"""Newton fits whose kernel, gamma or C is "auto": the kernel chosen on samples, C by held-out rows.

The features of all rows are made once. Each C is minimised without the held-out rows, from the minimum for
the best C so far, and judged by the loss of the held-out rows; then all rows are fitted with the best C.
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
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import SlicedTargets
from gramian.exceptions import AccuracyWarning
from gramian.metric.input import learned_input
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
from gramian.solvers.losses import SquaredEpsilonInsensitive
from gramian.solvers.newton_system import NewtonPoint
from gramian.svm.newton import NewtonFit, NewtonParameters, Problem, begin_training, minimise, newton_round
from gramian.svm.newton_training import NewtonSettings, NewtonTraining

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

#: Weights of all rows, 0 for those held out, and the rows held out.
Fold = tuple[Float64Array, LabelledRows[Any]]


def fit_newton(rows: LabelledRows[Any], parameters: NewtonParameters, problem: Problem) -> NewtonFit:
    """Return the fit to labelled rows, with what the parameters leave to the rows."""
    began, asked = time.perf_counter(), parameters.asked
    refuse_far_rows(rows, asked)
    if rows.n >= LEAST_ROWS and (asked or parameters.setup.learns_metric):
        rows = without_copies(rows, parameters.setup.run.memory_bytes)[0]
    if "C" in asked:
        rows, usual = searchable(rows)
        parameters = replace(parameters, C=1.0 / usual)
    setup = parameters.setup
    found = learned_input(setup, rows, partial(newton_round, parameters, problem))
    rows = found.prepared(rows)
    if not asked:
        seconds = {"metric": time.perf_counter() - began} if found.rounds else {}
        return replace(minimise(parameters, problem, rows), input=found, seconds=seconds)
    rng = parameters.setup.run.rng
    choice = chosen_kernel(parameters.setup, rows, rng)
    if choice is not None:
        setup = replace(parameters.setup, kernel=KernelParameters(choice.kernel))
        parameters = replace(parameters, setup=setup)
    C, spent = parameters.C if "C" in asked else None, time.perf_counter() - began
    if C is None or len(rows.counted) < LEAST_ROWS:
        fit = minimise(parameters, problem, rows)
    else:
        posed, settings, _ = problem.posed(parameters, rows)
        alphas, first = _candidates(parameters, problem, rows, settings, choice)
        folds = _folds(parameters, rows, getattr(posed.targets, "codes", None), rng)
        least = problem.penalty(C) * float(alphas[0] * CLOSE[0])
        training, kernel, rng = begin_training(parameters, posed, settings, least)
        began = time.perf_counter()
        settings, at = _choose_penalty(training, posed.targets, problem, settings, folds, alphas, first)
        spent += time.perf_counter() - began
        minimum = training.minimise(posed.targets, posed.weights, settings, at)
        fit = NewtonFit(training, minimum, kernel, posed, settings, rng)
        C = 1.0 / settings.alpha
    return replace(fit, input=found, choice=choice, C=C, seconds={"choice": spent})


def _candidates(
    parameters: NewtonParameters,
    problem: Problem,
    rows: LabelledRows[Any],
    settings: NewtonSettings,
    choice: KernelChoice | None,
) -> tuple[Float64Array, float]:
    """Return values of 1/C a decade apart, ascending, and the one of them that is tried first."""
    level = mean_diagonal(parameters.setup.kernel.of(rows.source, rows.weights), rows)
    start = None if choice is None else choice.alpha
    penalties = penalty_grid(level, start)
    near = FIRST * level if start is None else start
    # The C that compares with a ridge penalty of 1. With residuals r, |r| bends like r²/(2|r|).
    unit = problem.penalty(parameters.C)
    if problem.numbers:
        error = 1.0 if choice is None else max(float(choice.errors.min()), np.finfo(float).eps)
        squared = isinstance(settings.loss, SquaredEpsilonInsensitive)
        unit = 0.5 if squared else settings.scale * math.sqrt(error)
    alphas = penalties / unit
    return alphas, float(alphas[np.argmin(np.abs(np.log(penalties / near)))])


def _folds(
    parameters: NewtonParameters, rows: LabelledRows[Any], codes: Array | None, rng: np.random.Generator
) -> list[Fold]:
    """Return the folds that judge C, each with its share of every class (``codes``)."""
    counted = rows.counted
    room = parameters.setup.run.memory_bytes // (PART * 8 * rows.source.shape[1])
    most = max(LEAST_ROWS, min(MOST_ROWS, room))
    n_folds = max(FOLDS, -(-len(counted) // most))
    fold = fold_numbers(counted, codes, n_folds, rng, rows.n)
    judged = range(min(n_folds, -(-HELD_OUT_ROWS * n_folds // len(counted))))
    whole = np.ones(rows.n) if rows.weights is None else rows.weights
    return [(np.where(fold == k, 0.0, whole), rows.read(np.flatnonzero(fold == k))) for k in judged]


def _choose_penalty(
    training: NewtonTraining,
    targets: SlicedTargets,
    problem: Problem,
    settings: NewtonSettings,
    folds: list[Fold],
    alphas: Float64Array,
    first: float,
) -> tuple[NewtonSettings, NewtonPoint]:
    """Return the settings with the C of the least held-out loss, and a point to begin with.

    The neighbours of the best 1/C are tried until both have been, then those half a decade away.
    """
    line, tried, best, least = alphas.tolist(), set[float](), first, np.inf
    points: list[NewtonPoint | None] = [None] * len(folds)
    candidates, last = [first], False
    while candidates:
        for alpha in candidates:
            tried.add(alpha)
            total = mass = 0.0
            trial = f"C = {1.0 / alpha:.3g}" + (f", best loss {least:.3g}" if least < np.inf else "")
            found: list[NewtonPoint | None] = []
            rough = replace(settings, alpha=alpha, tol=max(settings.tol, ROUGH))
            for (kept, held), near in zip(folds, points, strict=True):
                with warnings.catch_warnings():
                    # A candidate that stops early is judged by its error like any other.
                    warnings.simplefilter("ignore", AccuracyWarning)
                    point = training.minimise(targets, kept, rough, near, checked=False, trial=trial).point
                loss = problem.losses(held.numbers, training.values(held.source, point))
                weights = np.ones(held.n) if held.weights is None else held.weights
                total, mass = total + float(weights @ loss), mass + float(weights.sum())
                found.append(point)
            if total / mass <= (1.0 - PROGRESS) * least or points[0] is None:
                least, best, points = total / mass, alpha, found
        if last or not np.isfinite(least):
            break
        at = line.index(best)
        untried = [alpha for alpha in line[max(at - 1, 0) : at + 2] if alpha not in tried]
        last = not untried
        # Of two neighbours first the smaller C, which takes fewer passes.
        candidates = untried[-1:] if untried else (best * CLOSE).tolist()
    start = points[0]
    assert start is not None
    return replace(settings, alpha=best), start
