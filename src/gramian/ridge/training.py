"""Ridge fits: kernel, gamma and alpha chosen where they are "auto", then one solve or one pass of sums."""

from __future__ import annotations

import numbers
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gramian._checkpoint import checkpoint_folder
from gramian._phases import named
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.checkpoint import SumsCheckpoint
from gramian.compression.training import train_ridge
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import NumberTargets
from gramian.exact.exact import Exact
from gramian.exact.predictor import train_exact
from gramian.exceptions import InputError, user_level
from gramian.metric.input import Input, learned_input
from gramian.metric.rounds import FittedRound, RoundModel, RoundSetup, compares_exactly, without_exact
from gramian.ridge.kernel_sums import KernelSums
from gramian.ridge.model import KernelModel, RidgeModel
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_exact, plan_sums
from gramian.ridge.scoring import Scorer
from gramian.selection.automatic import (
    CLOSE,
    chosen_kernel,
    mean_diagonal,
    penalty_grid,
    refuse_far_rows,
    searchable,
)
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice
from gramian.solvers.krylov import Progress

#: Deviations of the targets between their mean and 0 from which a warning is due. With 10 of them and the
#: default alpha, the error on 300 rows is four times that with an intercept.
FAR = 10.0
#: Targets that are looked at.
LOOKED_AT = 65_536


def warn_of_far_targets(targets: NumberTargets) -> None:
    """Warn if targets that vary lie :data:`FAR` deviations or more from 0, and the model has no intercept.

    Looks at the first values in memory or of a file. Time O(outputs), for 65,536 rows at most.
    """
    if isinstance(targets.values, Partitioned):
        return
    some = targets[slice(0, min(LOOKED_AT, targets.shape[0]))]
    mean, deviation = some.mean(axis=0), some.std(axis=0)
    far = np.flatnonzero((deviation > 0) & (np.abs(mean) > FAR * deviation))
    if not len(far):
        return
    which = "y lies" if targets.flat else f"column {far[0]} of y lies"
    warnings.warn(
        f"{which} around {mean[far[0]]:.3g} and varies by {deviation[far[0]]:.2g}. Without an intercept the "
        "penalty draws predictions towards 0. Pass fit_intercept=True, or subtract the mean first.",
        UserWarning,
        stacklevel=user_level(),
    )


def ridge_input(parameters: RidgeParameters, rows: LabelledRows[Any]) -> Input:
    """Return the scaler and the metric that a ridge estimator asks for, learned from the rows of a fit."""
    models = partial(_ridge_round, parameters)
    return learned_input(parameters.input, parameters.setup, rows, models)


def train(parameters: RidgeParameters, rows: LabelledRows[Any]) -> KernelModel:
    """Fit a ridge model to rows that are ready for the kernel."""
    exact, alpha = parameters.exact, parameters.alpha
    if exact is not None:
        return _train_exact(parameters, rows, exact)
    generator = as_generator(parameters.setup.random_state)
    folder = parameters.checkpoint
    seeded = isinstance(parameters.setup.random_state, numbers.Integral)
    checkpoint = None if folder is None else SumsCheckpoint(folder, generator, seeded=seeded)
    targets, weights = rows.targets, rows.weights
    setup = replace(parameters.setup, random_state=generator)
    plan, kernel, engine, rng = plan_sums(
        setup, rows.source, rows.n_outputs, parameters.least, weights=weights
    )
    fit = train_ridge(
        rows,
        kernel,
        alpha,
        plan,
        intercept=parameters.intercept,
        shift=targets.centre(weights) if parameters.intercept else np.zeros(rows.n_outputs),
        rng=rng,
        engine=engine,
        phases=setup.phases,
        checkpoint=checkpoint,
    )
    return KernelModel(fit.predictor, kernel, fit.intercept, fit.solution, fit.plan, fit.rank)


def _ridge_round(parameters: RidgeParameters, asked: RoundSetup) -> RoundModel:
    """Return what a round fits: this model, or the exact system where that is quickest."""
    found = parameters.of_round(asked)
    if asked.quick and compares_exactly(parameters.setup.resources.memory_bytes):
        found = replace(found, setup=replace(found.setup, approximation="exact"))
    return ridge_round(found)


def ridge_round(parameters: RidgeParameters) -> RoundModel:
    """Return the ridge model with these parameters as what a round of a metric fits."""

    def fit(rows: LabelledRows[Any]) -> FittedRound:
        return train(parameters, rows).of_round(parameters.setup.resources.engine)

    return RoundModel(fit)


def _train_exact(parameters: RidgeParameters, rows: LabelledRows[Any], exact: Exact) -> KernelModel:
    if isinstance(rows.source, Partitioned):
        raise InputError(
            "approximation='exact' needs all rows in the memory of this machine. Choose another "
            "approximation, or pass arrays (X.compute()) and engine=None."
        )
    targets = rows.targets
    plan, kernel = plan_exact(parameters, rows.source, rows.n_outputs, exact, weights=rows.weights)
    mean = targets.mean(rows.weights) if parameters.intercept else np.zeros(rows.n_outputs)
    targets.shift = mean
    settings = exact.settings()
    folder = parameters.checkpoint if exact.checkpoint is None else Path(exact.checkpoint)
    if folder is not None:
        settings = replace(settings, checkpoint=checkpoint_folder(folder) / "solve.npz")
    began = time.perf_counter()
    done = parameters.setup.phases("exact", unit="steps")

    def progress(state: Progress) -> None:
        done(1, f"residual {state.residual:.1e}")

    fit = train_exact(
        rows,
        kernel,
        parameters.alpha,
        settings,
        plan,
        intercept=parameters.intercept,
        engine=parameters.setup.resources.engine,
        rng=as_generator(parameters.setup.random_state),
        progress=progress,
    )
    plan = plan.used({"solve": fit.solution.bytes}, {"solve": time.perf_counter() - began})
    rank = fit.predictor.rows.shape[0]
    return KernelModel(fit.predictor, kernel, mean + fit.offset, fit.solution, plan, rank, fit.stages)


#: Learned attributes of what was chosen for parameters that are "auto".
CHOSEN = ("choice_", "alpha_")
#: Most rows whose leave-one-out errors are compared, and the part of the budget that they take at most.
MOST_ROWS, PART = 10_000, 8


def fit_ridge(rows: LabelledRows[Any], parameters: RidgeParameters) -> RidgeModel:
    """Return the ridge model of labelled rows, with what the parameters leave to the rows."""
    began, asked = time.perf_counter(), parameters.asked
    refuse_far_rows(rows, asked)
    parameters.check_outputs(rows.n_outputs)
    if not parameters.intercept and isinstance(rows.targets, NumberTargets):
        warn_of_far_targets(rows.targets)
    if rows.n >= LEAST_ROWS and (asked or parameters.input.learns):
        rows = without_copies(rows, parameters.setup.resources.memory_bytes, means=True)[0]
    if "alpha" in asked:
        rows, usual = searchable(rows)
        parameters = replace(parameters, alpha=usual)
    found = ridge_input(parameters, rows)
    rows = found.prepared(rows)
    choice, trained, rest = None, None, "choice" if asked else "metric"
    if asked:
        rng = as_generator(parameters.setup.random_state)
        choice = chosen_kernel(parameters.setup, rows, asked, intercept=parameters.intercept, rng=rng)
    if "alpha" in asked and choice is not None:
        alpha, trained, choice = _best_fit(parameters, rows, choice)
        parameters = replace(parameters, alpha=alpha)
    elif "alpha" in asked and len(rows.counted) >= LEAST_ROWS:
        _, alpha, trained = fit_by_alpha(parameters, rows, None)
        parameters = replace(parameters, alpha=alpha)
    if choice is not None:
        parameters = parameters.with_kernel(choice.kernel)
    if trained is None:
        trained = train(parameters, rows)
    if asked or found.rounds:
        trained = replace(trained, plan=trained.plan.within(time.perf_counter() - began, rest))
    alpha_ = parameters.least if "alpha" in asked else None
    return RidgeModel(replace(trained, input=found), alpha_, choice)


def _best_fit(
    parameters: RidgeParameters, rows: LabelledRows[Any], choice: KernelChoice
) -> tuple[float, KernelModel | None, KernelChoice]:
    """Return alpha, the fit and the choice of that finalist whose error on all rows is the least.

    The fit is None as for :func:`fit_by_alpha`.
    """
    best: tuple[float, float, KernelModel | None, KernelChoice] | None = None
    for kernel, start in choice.finalists:
        loss, alpha, trained = fit_by_alpha(parameters.with_kernel(kernel), rows, start)
        if best is None or loss < best[0]:
            best = loss, alpha, trained, replace(choice, kernel=kernel, alpha=start)
    assert best is not None
    return best[1:]


def fit_by_alpha(
    parameters: RidgeParameters, rows: LabelledRows[Any], start: float | None
) -> tuple[float, float, KernelModel | None]:
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
    tried = penalty_grid(mean_diagonal(setup.kernel.of(rows.source, rows.weights), rows), start)
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
    trained = KernelModel(fit.predictor, found.kernel, fit.intercept, fit.solution, fit.plan, fit.rank)
    return loss, alpha, trained
