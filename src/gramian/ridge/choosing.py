"""Ridge fits whose kernel, gamma or alpha is "auto": the kernel chosen on samples, alpha on all rows."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from gramian._phases import Phases, named
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fitting import remove
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.progress import shown_phases
from gramian.metric.rounds import without_exact
from gramian.ridge.kernel_sums import KernelSums
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_ridge, plan_sums
from gramian.ridge.scoring import Scorer
from gramian.ridge.training import Trained, ridge_input, train
from gramian.selection.automatic import (
    automatic,
    check_automatic,
    chosen_kernel,
    searchable,
    with_usual,
)
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice
from gramian.selection.penalties import CLOSE, mean_diagonal, penalty_grid

#: Parameters of ridge models that may be "auto", and what an estimator keeps of the choice.
CHOOSABLE, CHOSEN = ("kernel", "gamma", "alpha"), ("choice_", "alpha_")
#: Most rows whose leave-one-out errors are compared, and the part of the budget that they take at most.
MOST_ROWS, PART = 10_000, 8


def fit_ridge(model: KernelEstimator, rows: LabelledRows[Any]) -> None:
    """Fit an estimator to labelled rows, with what its parameters leave to the rows."""
    with shown_phases(model.verbose) as phases:
        _fit_ridge(model, rows, phases)


def _fit_ridge(model: Any, rows: LabelledRows[Any], phases: Phases) -> None:
    began = time.perf_counter()
    asked = automatic(model, *CHOOSABLE)
    check_automatic(model, rows, asked)
    parameters = RidgeParameters.of(with_usual(model, asked), phases)
    if "alpha" in asked:
        rows, usual = searchable(rows)
        parameters = replace(parameters, alpha=usual)
    if "kernel" in asked:
        parameters = replace(parameters, input=replace(parameters.input, each_feature=True))
    found = ridge_input(parameters, rows)
    found.keep_in(model)
    rows = found.prepared(rows)
    remove(model, *CHOSEN)
    if not asked:
        train(parameters, rows).keep_in(model)
        if found.rounds:
            model.plan_ = model.plan_.within(time.perf_counter() - began, "metric")
        return
    rng = as_generator(model.random_state)
    choice = chosen_kernel(parameters.setup, rows, asked, intercept=parameters.intercept, rng=rng)
    trained: Trained | None = None
    if "alpha" in asked and choice is not None:
        alpha, trained, choice = _best_fit(parameters, rows, choice)
        parameters = replace(parameters, alpha=alpha)
    elif "alpha" in asked and len(rows.counted) >= LEAST_ROWS:
        _, alpha, trained = fit_by_alpha(parameters, rows, None)
        parameters = replace(parameters, alpha=alpha)
    if "alpha" in asked:
        model.alpha_ = parameters.alpha
    if choice is not None:
        parameters = parameters.with_kernel(choice.kernel)
        model.choice_ = choice
    if trained is None:
        trained = train(parameters, rows)
    replace(trained, plan=trained.plan.within(time.perf_counter() - began)).keep_in(model)


def _best_fit(
    parameters: RidgeParameters, rows: LabelledRows[Any], choice: KernelChoice
) -> tuple[float, Trained | None, KernelChoice]:
    """Return alpha, the fit and the choice of that finalist whose error on all rows is the least.

    The fit is None as for :func:`fit_by_alpha`.
    """
    best: tuple[float, float, Trained | None, KernelChoice] | None = None
    for kernel, start in choice.finalists:
        loss, alpha, trained = fit_by_alpha(parameters.with_kernel(kernel), rows, start)
        if best is None or loss < best[0]:
            best = loss, alpha, trained, replace(choice, kernel=kernel, alpha=start)
    assert best is not None
    return best[1:]


def plan_choosing(model: KernelEstimator, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of a ridge fit; for what is "auto" by the Gaussian kernel of gamma 1/d and alpha 1."""
    parameters = RidgeParameters.of(with_usual(model, automatic(model, *CHOOSABLE)))
    return plan_ridge(parameters, source, n_outputs)


def fit_by_alpha(
    parameters: RidgeParameters, rows: LabelledRows[Any], start: float | None
) -> tuple[float, float, Trained | None]:
    """Return the least leave-one-out error on the features of all rows, its alpha, and the fit with it.

    The fit is None where the exact system is still to be solved.
    """
    rng = as_generator(parameters.setup.random_state)
    setup = replace(without_exact(parameters.setup), random_state=rng)
    d = rows.source.shape[1]
    most = max(LEAST_ROWS, min(MOST_ROWS, setup.resources.memory_bytes // (PART * 8 * d)))
    counted = rows.counted
    numbers = np.sort(rng.choice(counted, most, replace=False)) if len(counted) > most else counted
    validation = rows.read(numbers)
    tried = penalty_grid(mean_diagonal(setup.kernel.of(rows.source), rows), start)
    least = float(tried[0] * CLOSE[0])
    planned = plan_sums(setup, rows.source, rows.n_outputs, least, weights=rows.weights)
    phases = named(setup.phases, f"choice of alpha for {type(planned[1]).__name__}")
    sums = KernelSums(planned, rows, intercept=parameters.intercept, phases=phases)
    scorer = Scorer(None, per_target=False)

    def errors(alphas: Float64Array) -> Float64Array:
        return -sums.own_scores(alphas, scorer, mean=False, on=validation).values

    best = tried[int(errors(tried).argmin())]
    close = best * np.array([CLOSE[0], 1.0, CLOSE[1]])
    losses = errors(close)
    number = np.asarray(losses.argmin())
    alpha, loss = float(close[number]), float(losses.min())
    if parameters.exact is not None:
        return loss, alpha, None
    found = sums.chosen(close, number)
    fit = found.fit
    trained = Trained(fit.predictor, found.kernel, fit.intercept, fit.solution, fit.plan, fit.rank)
    return loss, alpha, trained
