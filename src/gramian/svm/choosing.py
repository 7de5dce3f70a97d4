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

from gramian._phases import Phases
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fitting import remove
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.progress import shown_phases
from gramian.exceptions import AccuracyWarning
from gramian.metric.input import learned_input
from gramian.metric.rounds import RoundModel, RoundSetup
from gramian.search import Limits, Trials, search
from gramian.selection.automatic import (
    automatic,
    check_automatic,
    chosen_kernel,
    searchable,
    with_usual,
)
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
    plan_newton,
)
from gramian.svm.newton_training import NewtonSettings, NewtonTraining

#: Parameters that may be "auto", and what an estimator keeps of the choice.
CHOOSABLE, CHOSEN = ("kernel", "gamma", "C"), ("choice_", "C_")
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


def fit_newton(model: KernelEstimator, rows: LabelledRows[Any], kind: NewtonModel) -> NewtonFit:
    """Fit an estimator to labelled rows, with what its parameters leave to the rows."""
    with shown_phases(model.verbose) as phases:
        return _fit_newton(model, rows, kind, phases)


def _fit_newton(model: Any, rows: LabelledRows[Any], kind: NewtonModel, phases: Phases) -> NewtonFit:
    began = time.perf_counter()
    asked = automatic(model, *CHOOSABLE)
    check_automatic(model, rows, asked)
    parameters = NewtonParameters.of(with_usual(model, asked), phases)
    if "C" in asked:
        rows, usual = searchable(rows)
        parameters = replace(parameters, C=1.0 / usual)
    if "kernel" in asked:
        parameters = replace(parameters, input=replace(parameters.input, each_feature=True))
    found = learned_input(parameters.input, parameters.setup, rows, partial(kind.round, parameters))
    found.keep_in(model)
    rows = found.prepared(rows)
    remove(model, *CHOSEN)
    if not asked:
        fit = minimise(parameters, kind.task(parameters, rows))
        fit.keep_in(model)
        if found.rounds:
            model.plan_ = model.plan_.within(time.perf_counter() - began, "metric")
        return fit
    rng = as_generator(model.random_state)
    choice = chosen_kernel(parameters.setup, rows, asked, intercept=parameters.intercept, rng=rng)
    if choice is not None:
        parameters = parameters.with_kernel(choice.kernel)
        model.choice_ = choice
    task = kind.task(parameters, rows)
    chosen_seconds = time.perf_counter() - began
    path = None
    if "C" in asked and len(rows.counted) >= LEAST_ROWS:
        error = 1.0 if choice is None else max(float(choice.errors.min()), np.finfo(float).eps)
        start = None if choice is None else choice.alpha
        path = _Path.of(parameters, rows, task, kind, kind.unit(task, error), start, rng)
        least = task.penalty * float(path.alphas[0] * CLOSE[0])
        fit = minimise(parameters, replace(task, penalty=least), path.chosen)
        chosen_seconds += path.seconds
    else:
        fit = minimise(parameters, task)
    fit.keep_in(model)
    if "C" in asked:
        model.C_ = 1.0 / fit.settings.alpha
    used = {"choice": chosen_seconds} | model.plan_.used_seconds
    model.plan_ = replace(model.plan_, used_seconds=used)
    return fit


def plan_choosing(
    model: KernelEstimator, penalty: Callable[[float], float], source: RowSource, n_outputs: int
) -> Plan:
    """Return the plan of a fit; for what is "auto" by the Gaussian kernel of gamma 1/d and C = 1.

    ``penalty`` gives the ridge penalty that sizes are planned for, from C.
    """
    parameters = NewtonParameters.of(with_usual(model, automatic(model, *CHOOSABLE)))
    return plan_newton(parameters, penalty(parameters.C), source, n_outputs)


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
        level = mean_diagonal(setup.kernel.of(rows.source), rows)
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
