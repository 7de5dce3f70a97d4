"""One ridge fit: the exact system, or one pass of sums over features."""

from __future__ import annotations

import numbers
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gramian._files import checkpoint_folder
from gramian._random import as_generator
from gramian.compression.checkpoint import SumsCheckpoint
from gramian.compression.training import train_ridge
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.exact.exact import Exact
from gramian.exact.ridge import train_exact
from gramian.exceptions import InputError
from gramian.metric.input import Input, learned_input
from gramian.metric.rounds import FittedRound, RoundModel, RoundSetup, compares_exactly
from gramian.ridge.model import KernelModel
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_exact, plan_sums
from gramian.solvers.solution import Solution


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

    def progress(state: Solution) -> None:
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
