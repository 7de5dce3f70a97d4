"""Training of a Gaussian process from its parameters and rows: start, landmarks, learning, posterior.

Functions read the parameters of the estimator ``model`` and do not change it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gramian._budget import parse_bytes
from gramian._checks import positive_number, whole_number
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan
from gramian.compression.sums import Progress
from gramian.data.source import RowSource, as_source, sample_rows
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, in_blocks
from gramian.estimator.finite import finite_values, quietly, rows_at
from gramian.estimator.labelled import LabelledRows
from gramian.gp.learning import Learned, Objective, learn
from gramian.gp.likelihood import Evidence, Observations
from gramian.gp.posterior import Posterior
from gramian.gp.sizes import sized
from gramian.gp.start import checked_optimizer, log_bounds, start_kernel
from gramian.kernels import Kernel
from gramian.landmarks.rules import LEVERAGED, PIVOTED
from gramian.metric.input import plain_copy, planned_input
from gramian.metric.learner import RoundModel

#: Rows from which a round of metric learning learns kernel and noise. Chosen by hand.
ROUND_ROWS = 1_000


@dataclass(frozen=True)
class TrainedProcess:
    """Result of training: objective, evidence, learning report and plan."""

    objective: Objective
    evidence: Evidence
    learning: Learned | None
    plan: Plan

    def keep_in(self, model: Any) -> None:
        """Store this result in the fitted attributes of an estimator."""
        objective, found = self.objective, self.evidence
        model.learning_ = self.learning
        model.n_iter_ = 1 if self.learning is None else max(1, self.learning.iterations)
        model.kernel_, model.noise_, model.theta_ = objective.kernel, objective.noise, objective.theta
        model.posterior_ = Posterior.of(found)
        model.log_marginal_likelihood_value_ = found.value
        model.plan_, model.rank_ = self.plan, found.features.rank
        model._training = objective


def train(model: Any, rows: LabelledRows[Any], *, progress: Progress | None = None) -> TrainedProcess:
    """Learn kernel and noise from rows with normalised targets, and compute the posterior given all rows.

    ``progress`` is called with 1 for each evaluation of the likelihood.
    """
    rng, noise = as_generator(model.random_state), positive_number("noise", model.noise)
    optimizer, bounds = checked_optimizer(model.optimizer), log_bounds(model.bounds)
    restarts = whole_number("n_restarts_optimizer", model.n_restarts_optimizer, 0)
    max_iter = whole_number("max_iter", model.max_iter, 1)
    source, targets = rows.source, rows.numbers
    kernel = _start(model, source, rng)
    _sized(model, source, targets.shape[1], kernel, rng)  # raise for too small a budget before learning
    learning = None
    if optimizer is None:
        objective, plan = _objective(model, source, targets, kernel, noise, rng)
        return TrainedProcess(objective, objective.found(), learning, plan)
    some, known = _drawn(source, targets, _count(model.learning_rows, rows.n), rng)
    objective, plan = _objective(model, some, known, kernel, noise, rng)
    if len(objective.theta):
        learning = learn(
            objective,
            bounds,
            n_restarts=restarts,
            max_iterations=max_iter,
            optimizer=optimizer if callable(optimizer) else None,
            rng=rng,
            progress=progress,
        )
        objective = objective.moved(learning.theta)
    rule = getattr(plan.builder, "landmarks", None)
    by_kernel = isinstance(rule, str) and rule in (*LEVERAGED, *PIVOTED)
    if some is not source or by_kernel:  # choose landmarks again, from all rows and for the learned kernel
        objective, plan = _objective(model, source, targets, objective.kernel, objective.noise, rng)
    return TrainedProcess(objective, objective.found(), learning, plan)


def plan_process(model: Any, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of one pass over the rows."""
    source = planned_input(model, source, metric=model.metric, standardize=model.standardize).over(source)
    rng = as_generator(deepcopy(model.random_state))
    return _sized(model, source, n_outputs, _start(model, source, rng), rng)


def process_trial(model: Any, before: Any, quick: bool) -> RoundModel:
    """Return the model that a round of metric learning fits: small, starting from the last round's kernel."""
    most = model.learning_rows
    changed: dict[str, Any] = {"learning_rows": ROUND_ROWS if most is None or most > ROUND_ROWS else most}
    if before is not None:
        changed |= {"kernel": before.kernel_, "noise": before.noise_}
        changed |= {"gamma": None, "kernel_params": None, "ard": False}
    if quick:
        changed["optimizer"] = None
    made = plain_copy(model, **changed)

    def fit(rows: LabelledRows[Any]) -> None:
        train(made, rows).keep_in(made)

    def values(source: RowSource) -> Float64Array:
        return mean_of(made.posterior_, source, made._engine())

    return RoundModel(made, fit, values, lambda: (made.posterior_.predictor, made.kernel_))


def mean_of(posterior: Posterior, source: RowSource, engine: Engine) -> Float64Array:
    """Return the posterior mean (n, outputs) of the normalised targets at rows prepared for the kernel."""
    blocks = posterior.predictor.blocks(source, engine=engine, chunk_rows=PREDICT_ROWS)
    out = in_blocks(quietly(blocks), (source.shape[0], posterior.n_outputs))
    return finite_values(out, partial(rows_at, source))


def _objective(
    model: Any,
    source: RowSource,
    targets: Float64Array,
    kernel: Kernel,
    noise: float,
    rng: np.random.Generator,
) -> tuple[Objective, Plan]:
    """Return the likelihood of these rows, and the plan by which its landmarks and blocks were chosen."""
    plan = _sized(model, source, targets.shape[1], kernel, rng)
    engine = Engine(plan.n_threads)
    features = plan.builder.build(
        source,
        kernel,
        dtype=np.dtype(np.float64),
        rng=rng,
        engine=engine,
        sample_size=plan.sample_rows,
        chunk_rows=plan.chunk_rows,
    )
    data = Observations(source, targets, plan.chunk_rows, engine)
    exact = plan.builder.root_landmarks >= source.shape[0] == plan.sample_rows
    return Objective(features, kernel, noise, bool(model.learn_noise), data, exact), plan


def _start(model: Any, source: RowSource, rng: np.random.Generator) -> Kernel:
    return start_kernel(
        model._resolved_kernel(source.shape[1]),
        source,
        rng,
        named=isinstance(model.kernel, str),
        ard=bool(model.ard),
        gamma_given=model.gamma is not None,
        learned=model.optimizer is not None,
    )


def _sized(model: Any, source: RowSource, n_outputs: int, kernel: Kernel, rng: np.random.Generator) -> Plan:
    return sized(
        model.approximation,
        source,
        Workload.of(source, n_outputs),
        kernel,
        learning_rows=0 if model.optimizer is None else _count(model.learning_rows, source.shape[0]),
        memory_budget=parse_bytes(model.memory_budget),
        engine=model._engine(),
        rng=rng,
    )


def _count(learning_rows: Any, n_rows: int) -> int:
    """Return the number of rows used for learning."""
    return n_rows if learning_rows is None else min(n_rows, whole_number("learning_rows", learning_rows, 2))


def _drawn(
    source: RowSource, targets: Float64Array, count: int, rng: np.random.Generator
) -> tuple[RowSource, Float64Array]:
    """Return ``count`` random rows with their targets, or the given rows if that is all of them."""
    if count == source.shape[0]:
        return source, targets
    rows, numbers = sample_rows(source, count, rng)
    return as_source(rows), targets[numbers]
