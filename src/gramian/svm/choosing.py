"""Newton fits whose kernel, gamma or C is "auto": the kernel chosen on samples, C by held-out rows.

The features of all rows are made once. Each C is minimised without the held-out rows, from the minimum for
the best C so far, and judged by the loss of the held-out rows; then all rows are fitted with the best C.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.repeats import without_copies
from gramian.exceptions import AccuracyWarning
from gramian.metric.input import learned_input
from gramian.metric.rounds import RoundModel, RoundSetup
from gramian.search import Limits, Trials, search
from gramian.selection.automatic import chosen_kernel, refuse_far_rows, searchable
from gramian.selection.kernel_choice import LEAST_ROWS
from gramian.selection.penalties import CLOSE, fold_numbers, mean_diagonal, penalty_grid
from gramian.solvers.newton_system import NewtonPoint
from gramian.svm.newton import (
    NewtonFit,
    NewtonParameters,
    NewtonTask,
    Problem,
    class_round,
    class_task,
    minimise,
)
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


@dataclass(frozen=True)
class NewtonModel:
    """What fits and choices ask of one kind of estimator."""

    #: From parameters, and what a round of a metric asks for, to what it fits.
    round: Callable[[NewtonParameters, RoundSetup], RoundModel]
    #: From parameters and rows to what is minimised.
    task: Callable[[NewtonParameters, LabelledRows[Any]], NewtonTask]
    #: Loss of each row, from targets and values (n, outputs), by which C is chosen.
    losses: Callable[[Float64Array, Float64Array], Float64Array]
    #: From a task and the error of the kernel's choice (over the targets' variance) to the C that compares
    #: with a ridge penalty of 1.
    unit: Callable[[NewtonTask, float], float]


def class_model(problem: Problem) -> NewtonModel:
    """Return what fits and choices ask of a classifier."""
    return NewtonModel(
        lambda parameters, asked: class_round(parameters, problem, asked),
        lambda parameters, rows: class_task(parameters, rows, problem),
        problem.losses,
        lambda task, _: task.penalty,
    )


@dataclass(frozen=True)
class _Fold:
    weights: Float64Array  #: of all rows, 0 for those held out
    held_out: LabelledRows[Any]


def fit_newton(rows: LabelledRows[Any], parameters: NewtonParameters, kind: NewtonModel) -> NewtonFit:
    """Return the fit to labelled rows, with what the parameters leave to the rows."""
    began, asked = time.perf_counter(), parameters.asked
    refuse_far_rows(rows, asked)
    if rows.n >= LEAST_ROWS and (asked or parameters.input.learns):
        rows = without_copies(rows, parameters.setup.resources.memory_bytes)[0]
    if "C" in asked:
        rows, usual = searchable(rows)
        parameters = replace(parameters, C=1.0 / usual)
    found = learned_input(parameters.input, parameters.setup, rows, partial(kind.round, parameters))
    rows = found.prepared(rows)
    if not asked:
        seconds = {"metric": time.perf_counter() - began} if found.rounds else {}
        fit = minimise(parameters, kind.task(parameters, rows))
        return replace(fit, input=found, seconds=seconds)
    rng = as_generator(parameters.setup.random_state)
    choice = chosen_kernel(parameters.setup, rows, asked, intercept=parameters.intercept, rng=rng)
    if choice is not None:
        parameters = parameters.with_kernel(choice.kernel)
    task = kind.task(parameters, rows)
    spent = time.perf_counter() - began
    if "C" in asked and len(rows.counted) >= LEAST_ROWS:
        error = 1.0 if choice is None else max(float(choice.errors.min()), np.finfo(float).eps)
        start = None if choice is None else choice.alpha
        path = _Path.of(parameters, rows, task, kind, kind.unit(task, error), start, rng)
        least = task.penalty * float(path.alphas[0] * CLOSE[0])
        fit = minimise(parameters, replace(task, penalty=least), path.chosen)
        spent += path.seconds
    else:
        fit = minimise(parameters, task)
    C = 1.0 / fit.settings.alpha if "C" in asked else None
    return replace(fit, input=found, choice=choice, C=C, seconds={"choice": spent})


@dataclass
class _Path:
    """Search for the C of the least held-out loss, on the features of a training."""

    rows: LabelledRows[Any]
    task: NewtonTask
    losses: Callable[[Float64Array, Float64Array], Float64Array]
    folds: list[_Fold]
    alphas: Float64Array  #: values of 1/C a decade apart, ascending
    first: float  #: that of them which is tried first
    seconds: float = 0.0

    @classmethod
    def of(
        cls,
        parameters: NewtonParameters,
        rows: LabelledRows[Any],
        task: NewtonTask,
        kind: NewtonModel,
        unit: float,
        start: float | None,
        rng: np.random.Generator,
    ) -> _Path:
        """Return the search for rows; ``start`` is the ridge penalty of the kernel's choice."""
        counted = rows.counted
        setup = parameters.setup
        room = setup.resources.memory_bytes // (PART * 8 * rows.source.shape[1])
        most = max(LEAST_ROWS, min(MOST_ROWS, room))
        n_folds = max(FOLDS, -(-len(counted) // most))
        codes = getattr(task.rows.targets, "codes", None)
        fold = fold_numbers(counted, codes, n_folds, rng, rows.n)
        judged = range(min(n_folds, -(-HELD_OUT_ROWS * n_folds // len(counted))))
        whole = np.ones(rows.n) if rows.weights is None else rows.weights
        folds = [_Fold(np.where(fold == k, 0.0, whole), rows.read(np.flatnonzero(fold == k))) for k in judged]
        level = mean_diagonal(setup.kernel.of(rows.source, rows.weights), rows)
        penalties = penalty_grid(level, start)
        near = FIRST * level if start is None else start
        first = int(np.argmin(np.abs(np.log(penalties / near))))
        alphas = penalties / unit
        return cls(rows, task, kind.losses, folds, alphas, float(alphas[first]))

    def chosen(self, training: NewtonTraining) -> tuple[NewtonSettings, NewtonPoint]:
        """Return the settings with the best C, and a point to begin with."""
        began = time.perf_counter()
        settings = self.task.settings
        points: list[NewtonPoint | None] = [None] * len(self.folds)
        least = np.inf

        def judged(_: None, alpha: float) -> tuple[float, None]:
            nonlocal least, points
            total = mass = 0.0
            trial = f"C = {1.0 / alpha:.3g}" + (f", best loss {least:.3g}" if least < np.inf else "")
            found: list[NewtonPoint | None] = []
            rough = replace(settings, alpha=alpha, tol=max(settings.tol, ROUGH))
            for fold, near in zip(self.folds, points, strict=True):
                with warnings.catch_warnings():
                    # A candidate that stops early is judged by its error like any other.
                    warnings.simplefilter("ignore", AccuracyWarning)
                    minimum = training.minimise(
                        self.task.rows.targets, fold.weights, rough, near, checked=False, trial=trial
                    )
                held = fold.held_out
                loss = self.losses(held.numbers, training.values(held.source, minimum.point))
                weights = np.ones(held.n) if held.weights is None else held.weights
                total, mass = total + float(weights @ loss), mass + float(weights.sum())
                found.append(minimum.point)
            error = total / mass
            if error <= (1.0 - PROGRESS) * least or points[0] is None:
                least, points = error, found
            return error, None

        found = search(None, self._climb, judged, Limits(progress=PROGRESS))
        best = self.first if found.best is None else found.best.candidate
        at = points[0]
        assert at is not None
        self.seconds = time.perf_counter() - began
        return replace(settings, alpha=best), at

    def _climb(self, found: Trials[float, None]) -> Iterator[list[float]]:
        """Yield the neighbours of the best 1/C until both have been tried, then those half a decade away."""
        yield [self.first]
        line = self.alphas.tolist()
        while found.best is not None:
            at, tried = line.index(found.best.candidate), {trial.candidate for trial in found.made}
            untried = [alpha for alpha in line[max(at - 1, 0) : at + 2] if alpha not in tried]
            if not untried:
                yield (found.best.candidate * CLOSE).tolist()
                return
            yield untried[-1:]  # the smaller C, which takes fewer passes
