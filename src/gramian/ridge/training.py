"""One ridge fit: the exact system, or one pass of sums over features, and what an estimator keeps of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gramian._checkpoint import checkpoint_folder
from gramian._checks import positive_number
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.checkpoint import SumsCheckpoint
from gramian.compression.plan import Plan
from gramian.compression.predictor import Predictor
from gramian.compression.training import train_ridge
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.progress import rows_bar, shown_bar
from gramian.exact.exact import Exact
from gramian.exact.predictor import ExactPredictor
from gramian.exact.ridge import train_exact
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.metric.input import Input, compares_exactly, learned_input, plain_copy
from gramian.metric.learner import RoundModel
from gramian.ridge.decisions import values_of
from gramian.ridge.planning import exact_of, plan_exact, plan_sums
from gramian.solvers.krylov import Progress
from gramian.solvers.solution import Solution

#: Attributes of an estimator that hold its :class:`Trained` fit. ``predictor_`` comes first: a stream finds
#: it when it is asked for, and updates ``plan_``.
TRAINED = ("predictor_", "intercept_", "solution_", "kernel_", "rank_", "plan_")


@dataclass(frozen=True)
class Trained:
    """What a fit has found: the attributes of the same names, with an underscore, of its estimator."""

    predictor: Predictor | ExactPredictor
    kernel: Kernel
    intercept: Float64Array
    solution: Solution
    plan: Plan
    rank: int
    stages: Any = None  #: of an exact solve

    def keep_in(self, model: Any) -> None:
        """Make this the fit of an estimator, which keeps no precomputed matrix of it."""
        model.predictor_, model.kernel_ = model._released(self.predictor, self.kernel)
        model.intercept_, model.solution_ = self.intercept, self.solution
        model.plan_, model.rank_ = self.plan, self.rank
        vars(model).pop("stages_", None)  # of an earlier fit
        if self.stages is not None:
            model.stages_ = self.stages


def ridge_input(model: Any, rows: LabelledRows[Any]) -> Input:
    """Return the scaler and the metric that a ridge estimator asks for, learned from the rows of a fit."""
    trials = partial(_ridge_trial, model)
    return learned_input(model, rows, trials, metric=model.metric, standardize=model.standardize)


def train(model: Any, rows: LabelledRows[Any]) -> Trained:
    """Fit a ridge model with the parameters of ``model``, which is not changed, to rows of its kernel."""
    alpha = positive_number("alpha", model.alpha)
    exact = exact_of(model.approximation)
    if exact is not None:
        return _train_exact(model, rows, alpha, exact)
    generator = as_generator(model.random_state)
    folder = model.checkpoint
    checkpoint = None if folder is None else SumsCheckpoint(Path(folder), generator)
    targets, weights = rows.targets, rows.weights
    plan, kernel, engine, rng = plan_sums(
        model, rows.source, rows.n_outputs, alpha, generator, weights=weights
    )
    with rows_bar(rows.n, model.verbose) as done:
        fit = train_ridge(
            rows,
            kernel,
            alpha,
            plan,
            intercept=bool(model.fit_intercept),
            shift=targets.centre(weights) if model.fit_intercept else np.zeros(rows.n_outputs),
            rng=rng,
            engine=engine,
            progress=done,
            checkpoint=checkpoint,
        )
    return Trained(fit.predictor, kernel, fit.intercept, fit.solution, fit.plan, fit.rank)


def _ridge_trial(model: Any, before: Any, quick: bool) -> RoundModel:
    """Return what a round fits: a copy of the model, which solves exactly where that is quickest."""
    exact = {"approximation": "exact"} if quick and compares_exactly(model.memory_budget) else {}
    return ridge_trial(plain_copy(model, **exact))


def ridge_trial(model: Any) -> RoundModel:
    """Return an unfitted ridge estimator as what a round of a metric fits."""

    def fit(rows: LabelledRows[Any]) -> None:
        train(model, rows).keep_in(model)

    return RoundModel(
        model,
        fit,
        lambda source: values_of(model, source),
        lambda: (model.predictor_, model.kernel_),
    )


def _train_exact(model: Any, rows: LabelledRows[Any], alpha: float, exact: Exact) -> Trained:
    if isinstance(rows.source, Partitioned):
        raise InputError(
            "approximation='exact' needs all rows in the memory of this machine. Choose another "
            "approximation, or pass arrays (X.compute()) and engine=None."
        )
    targets = rows.targets
    plan, kernel = plan_exact(model, rows.source, rows.n_outputs, alpha, exact)
    mean = targets.mean(rows.weights) if model.fit_intercept else np.zeros(rows.n_outputs)
    targets.shift = mean
    settings = exact.settings()
    folder = model.checkpoint if exact.checkpoint is None else exact.checkpoint
    if folder is not None:
        settings = replace(settings, checkpoint=checkpoint_folder(Path(folder)) / "solve.npz")
    began = time.perf_counter()
    with shown_bar(model.verbose, unit="steps", desc="exact") as bar:

        def progress(state: Progress) -> None:
            bar.set_postfix(residual=f"{state.residual:.1e}", refresh=False)
            bar.update(1)

        fit = train_exact(
            rows,
            kernel,
            alpha,
            settings,
            plan,
            intercept=bool(model.fit_intercept),
            engine=model._engine(),
            rng=as_generator(model.random_state),
            progress=progress,
        )
    plan = plan.used({"solve": fit.solution.bytes}, {"solve": time.perf_counter() - began})
    rank = fit.predictor.rows.shape[0]
    return Trained(fit.predictor, kernel, mean + fit.offset, fit.solution, plan, rank, fit.stages)
