"""Training of a Gaussian process from its parameters and rows: start, landmarks, learning, posterior.

Functions read the parameters of the estimator ``model`` and do not change it.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gramian._budget import parse_bytes
from gramian._checks import positive_number, whole_number
from gramian._phases import Phases, silent
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan
from gramian.data.mapped import map_rows
from gramian.data.source import RowSource, sample_rows
from gramian.data.subset import SubsetRows
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, in_blocks
from gramian.estimator.base import KernelEstimator
from gramian.estimator.column_scales import warn_of_scales
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.overflow_checks import finite_values, quietly, rows_at
from gramian.estimator.sklearn_kernels import refuse_fixed, without_noise
from gramian.estimator.targets import NumberTargets
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import AccuracyWarning, InputError
from gramian.gp.calibration import BandCheck, leave_one_out
from gramian.gp.choice import (
    Chosen,
    choose_posterior,
    held_out_check,
    leave_one_out_judge,
    near_check,
)
from gramian.gp.exact_mean import exact_mean
from gramian.gp.hyperparameters import Hyperparameters, in_units, lengthscales
from gramian.gp.learning import GPLearningSettings, Learned, block_sizes, learn, learn_all
from gramian.gp.likelihood import MarginalLikelihood, Observations
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.objective import LikelihoodObjective
from gramian.gp.posterior import Posterior
from gramian.gp.prior import scaled_back
from gramian.gp.sizes import FEWEST, LEARNING_ROWS, plan_sizes, solves_for_mean, takes_neighbours
from gramian.gp.start import checked_optimizer, log_bounds, start_kernel
from gramian.kernels import Kernel
from gramian.metric.input import InputParameters, planned_input
from gramian.metric.metric import Metric
from gramian.metric.rounds import FittedRound, RoundModel, RoundSetup, plain_copy

#: Rows from which a round of metric learning learns kernel and noise. Chosen by hand.
ROUND_ROWS = 1_000
#: Rows that the deviations are checked on, and the share of all rows that may be held out for it. By hand.
CHECKED_ROWS, HELD_OUT_SHARE = 2_000, 0.1
#: Held-out rows by which float32 is compared with float64. Chosen by hand.
NARROWING_ROWS = 100
#: Default of the parameter ``noise``.
DEFAULT_NOISE = 0.1
#: Share of the targets' variance from which the errors on left-out rows mean that nothing was explained, and
#: the fewest rows that can tell. Chosen by hand.
UNEXPLAINED, LEAST_TOLD = 0.95, 10


@dataclass(frozen=True)
class TrainedProcess:
    """Result of training: likelihood, posterior, what was learned and checked, and the plan."""

    objective: LikelihoodObjective
    evidence: MarginalLikelihood
    mean: ExactPredictor | None
    near: NeighbourPosterior | None
    learning: Learned | None
    calibration: BandCheck
    plan: Plan

    @property
    def posterior(self) -> Posterior:
        """The posterior given all rows."""
        found = self.evidence
        return Posterior(found.features, found.factor, found.beta, self.mean, self.near)

    def keep_in(self, model: KernelEstimator) -> None:
        """Store this result in the fitted attributes of an estimator."""
        found, hyper = self.evidence, self.objective.hyper
        model.learning_ = self.learning
        model.n_iter_ = 1 if self.learning is None else max(1, self.learning.iterations)
        model.kernel_, model.noise_, model.theta_ = hyper.kernel, hyper.noise, hyper.theta
        model.posterior_ = self.posterior
        model.log_marginal_likelihood_value_ = found.value
        model.calibration_ = self.calibration
        model.plan_, model.rank_ = self.plan, found.features.rank
        model._training = self.objective


def train(
    model: KernelEstimator,
    rows: LabelledRows[NumberTargets],
    phases: Phases = silent,
    *,
    check: bool = True,
) -> TrainedProcess:
    """Learn hyperparameters from some rows with normalised targets, and compute the posterior given all.

    ``phases`` is told of each step, and of each evaluation of the likelihood. Without ``check`` the
    deviations are checked on training rows by the nested bases alone, which takes no second fit.
    """
    rng, noise = as_generator(model.random_state), start_noise(model)
    optimizer, factors = checked_optimizer(model.optimizer), log_bounds(model.bounds)
    restarts = whole_number("n_restarts_optimizer", model.n_restarts_optimizer, 0)
    max_iter = whole_number("max_iter", model.max_iter, 1)
    if model.calibration not in ("loo", None):
        raise InputError(
            f"calibration={model.calibration!r} is unknown. Give 'loo', which scales deviations of new "
            "observations to the errors of rows left out, or None."
        )
    source, targets = rows.source, rows.numbers
    hyper = start = Hyperparameters(_start(model, source, rng), noise, bool(model.learn_noise))
    plan = _sized(model, source, targets.shape[1], hyper.kernel, rng)  # raises before any work
    if check and not model.standardize and model.metric is None:
        warn_of_scales(source, hyper.kernel)
    solves = solves_for_mean(model.approximation, rows.n, parse_bytes(model.memory_budget))
    nears = check and takes_neighbours(
        model.approximation, source, hyper, parse_bytes(model.memory_budget), plan.n_threads
    )
    known, known_targets, out = source, targets, None
    if check and (solves or nears):
        # Hyperparameters that had seen the held-out rows would make their errors look small.
        held = max(1, min(CHECKED_ROWS, int(HELD_OUT_SHARE * rows.n)))
        order = rng.permutation(rows.n)
        out, kept = np.sort(order[:held]), np.sort(order[held:])
        known, known_targets = SubsetRows(source, kept), targets[kept]
    learning, engine = None, Engine(plan.n_threads)
    if optimizer is not None and len(hyper.theta):
        settings = GPLearningSettings(
            _count(model.learning_rows, known.shape[0]),
            factors,
            restarts,
            max_iter,
            optimizer if callable(optimizer) else None,
            weak_prior=isinstance(model.kernel, str),
        )
        progress = phases("learning", unit="likelihoods")
        judge = leave_one_out_judge(known, known_targets, engine, rng) if nears else None
        learning = learn(
            hyper, known, known_targets, settings, engine=engine, rng=rng, progress=progress, judge=judge
        )
        hyper = hyper.at(learning.theta)
        if model.learning_rows is None and known.shape[0] > learning.n_rows:
            progress = phases("learning from all rows", unit="likelihoods")
            objective, _ = _objective(model, known, known_targets, hyper, rng)
            learning = learn_all(objective.loss, known.shape[0], start, learning, settings, progress=progress)
            hyper = hyper.at(learning.theta)
    calibration, chosen = None, Chosen(solves, 0, {})
    if out is not None:
        phases("choice on held-out rows")
        held_rows, held_targets = source.take(out), targets[out]
        near = NeighbourPosterior.of(known, known_targets, hyper, FEWEST, rng) if nears else None
        nested = None
        if model.approximation == "auto":
            nested = _nested(model, known, known_targets, hyper, rng)
            if solves:
                nested = replace(nested, mean=_mean(model, known, known_targets, hyper, rng))
        order = rng.permutation(len(out))  # the first of them choose
        chosen = choose_posterior(nested, near, held_rows[order], held_targets[order], hyper.noise, engine)
        if chosen.exact or not chosen.neighbours:
            assert nested is not None
            near = None if near is None or not chosen.neighbours else replace(near, count=chosen.neighbours)
            fitted = replace(nested, near=near, mean=nested.mean if chosen.exact else None)
            calibration = held_out_check(fitted, held_rows, held_targets, hyper.noise, engine)
    phases("posterior")
    objective, plan = _objective(model, source, targets, hyper, rng)
    found = objective.found()
    mean = _mean(model, source, targets, hyper, rng) if chosen.exact else None
    near = None
    if out is not None and chosen.neighbours:
        near = NeighbourPosterior.of(source, targets, hyper, chosen.neighbours, rng)
        few = rng.permutation(out)[:NARROWING_ROWS]
        near = near.narrowed(source.take(few), engine, without=few)
        if calibration is None:
            calibration = near_check(near, source.take(out), targets[out], engine, out)
    if calibration is None:
        some, numbers = sample_rows(source, CHECKED_ROWS, rng)
        calibration = leave_one_out(found, some, targets[numbers], engine)
    if model.calibration == "loo":
        calibration = calibration.scaled()
    if learning is not None and check:
        _warn_if_unexplained(calibration, targets, hyper, restarts)
    if chosen.losses:
        plan = replace(plan, reason=f"{plan.reason}; {chosen.reason}")
    return TrainedProcess(objective, found, mean, near, learning, calibration, plan)


def plan_process(model: KernelEstimator, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of one pass over the rows."""
    setup = FitSetup.of(model)
    asked = InputParameters.of(setup, standardize=model.standardize, metric=model.metric)
    source = planned_input(asked, setup, source).over(source)
    rng = as_generator(deepcopy(model.random_state))
    return _sized(model, source, n_outputs, _start(model, source, rng), rng)


def process_round(model: KernelEstimator, asked: RoundSetup) -> RoundModel:
    """Return the model that a round of metric learning fits: small, starting from the last round's kernel."""
    most = model.learning_rows
    changed: dict[str, Any] = {"learning_rows": ROUND_ROWS if most is None or most > ROUND_ROWS else most}
    changed["n_restarts_optimizer"] = 0
    changed |= {"random_state": asked.seed, "memory_budget": asked.memory_bytes}
    if asked.before is not None:
        known: Hyperparameters = asked.before
        changed |= {"kernel": known.kernel, "noise": known.noise}
        changed |= {"gamma": None, "kernel_params": None, "ard": False}
    if asked.quick:
        changed["optimizer"] = None
    made = plain_copy(model, **changed)

    def fit(rows: LabelledRows[Any]) -> FittedRound:
        with warnings.catch_warnings():
            # A round is judged by its error; the final fit learns again, and warns where that fails.
            warnings.simplefilter("ignore", AccuracyWarning)
            found = train(made, rows, check=False)
        hyper, posterior = found.objective.hyper, found.posterior
        values = partial(mean_of, posterior, engine=made._engine())
        return FittedRound(hyper, values, posterior.predictor, hyper.kernel)

    return RoundModel(fit)


def normalise(targets: Float64Array, normalize: bool) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return (targets − mean)/deviation with mean and deviation (outputs,), or the targets with 0 and 1."""
    outputs = targets.shape[1]
    if not normalize:
        return targets, np.zeros(outputs), np.ones(outputs)
    mean, spread = targets.mean(axis=0), targets.std(axis=0)
    # The deviation of a constant target is only rounding; it must not become a scale.
    rounding = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    spread = np.where(spread > rounding, spread, 1.0)
    return (targets - mean) / spread, mean, spread


def mean_of(posterior: Posterior, source: RowSource, engine: Engine) -> Float64Array:
    """Return the posterior mean (n, outputs) of the normalised targets at rows prepared for the kernel."""
    blocks = posterior.predictor.blocks(source, engine=engine, chunk_rows=PREDICT_ROWS)
    out = in_blocks(quietly(blocks), (source.shape[0], posterior.n_outputs))
    return finite_values(out, partial(rows_at, source))


def moments_of(posterior: Posterior, source: RowSource, engine: Engine) -> tuple[Float64Array, Float64Array]:
    """Return mean (n, outputs) and variance (n,) of f for normalised targets at prepared rows."""
    blocks = posterior.moments(source, engine=engine, chunk_rows=PREDICT_ROWS)
    out = in_blocks(quietly(blocks), (source.shape[0], posterior.n_outputs + 1))
    out = finite_values(out, partial(rows_at, source))
    return out[:, :-1], out[:, -1]


def _objective(
    model: KernelEstimator,
    source: RowSource,
    targets: Float64Array,
    hyper: Hyperparameters,
    rng: np.random.Generator,
) -> tuple[LikelihoodObjective, Plan]:
    """Return the likelihood of these rows, and the plan by which its landmarks and blocks were chosen.

    Blocks by bisection are formed by distances in units of the kernel's lengthscales.
    """
    plan = _sized(model, source, targets.shape[1], hyper.kernel, rng)
    engine = Engine(plan.n_threads)
    scale = lengthscales(hyper.kernel)
    if getattr(plan.builder, "partition", None) != "tree":
        scale = None
    features = plan.builder.build(
        source if scale is None else map_rows(source, Metric(scales=1.0 / scale)),
        hyper.kernel if scale is None else in_units(hyper.kernel),
        dtype=np.dtype(np.float64),
        rng=rng,
        engine=engine,
        sample_size=plan.sample_rows,
        chunk_rows=plan.chunk_rows,
    )
    if scale is not None:
        features = scaled_back(features, scale, hyper.kernel)
    data = Observations(source, targets, plan.chunk_rows, engine)
    exact = plan.builder.root_landmarks >= source.shape[0] == plan.sample_rows
    return LikelihoodObjective(features, hyper, data, exact), plan


def _mean(
    model: KernelEstimator,
    source: RowSource,
    targets: Float64Array,
    hyper: Hyperparameters,
    rng: np.random.Generator,
) -> ExactPredictor:
    budget = parse_bytes(model.memory_budget)
    return exact_mean(source, targets, hyper, memory_budget=budget, engine=model._engine(), rng=rng)


def _nested(
    model: KernelEstimator,
    source: RowSource,
    targets: Float64Array,
    hyper: Hyperparameters,
    rng: np.random.Generator,
) -> Posterior:
    found = _objective(model, source, targets, hyper, rng)[0].found()
    return Posterior(found.features, found.factor, found.beta)


def _start(model: KernelEstimator, source: RowSource, rng: np.random.Generator) -> Kernel:
    if model.optimizer is not None:
        refuse_fixed(model.kernel)
    return start_kernel(
        model._kernel_parameters.of(source),
        source,
        rng,
        named=isinstance(model.kernel, str),
        ard=model.ard,
        gamma_given=model.gamma is not None,
        learned=model.optimizer is not None,
    )


def _sized(
    model: KernelEstimator, source: RowSource, n_outputs: int, kernel: Kernel, rng: np.random.Generator
) -> Plan:
    n = source.shape[0]
    return plan_sizes(
        model.approximation,
        source,
        Workload.of(source, n_outputs),
        kernel,
        learning_blocks=() if model.optimizer is None else block_sizes(_count(model.learning_rows, n)),
        memory_budget=parse_bytes(model.memory_budget),
        engine=model._engine(),
        rng=rng,
    )


def _warn_if_unexplained(
    seen: BandCheck, targets: Float64Array, hyper: Hyperparameters, restarts: int
) -> None:
    """Warn if rows that the mean had not seen are predicted no better than by the mean of the targets."""
    variance = float(targets.var(axis=0).sum())
    left = float(np.square(seen.errors).mean(axis=0).sum())
    if len(seen.errors) < LEAST_TOLD or not variance > 0 or left < UNEXPLAINED * variance:
        return
    warnings.warn(
        f"the learned kernel explains nothing of the targets: on rows left out, the squared error is "
        f"{left / variance:.2f} of their variance, and the noise is {hyper.noise:.2g}. Either the targets do "
        "not depend on the features, or learning ended in a poor optimum (all noise, or lengthscales shorter "
        f"than the distance of neighbours): raise n_restarts_optimizer={restarts}, start from other "
        "lengthscales (gamma, or a kernel instance), or set standardize=True.",
        AccuracyWarning,
        stacklevel=4,
    )


def start_noise(model: KernelEstimator) -> float:
    """Return the noise that learning starts from: that of the kernel's WhiteKernel, if it has one."""
    noise = positive_number("noise", model.noise)
    level = without_noise(model.kernel)[1]
    if level is None:
        return noise
    if noise not in (DEFAULT_NOISE, level):
        raise InputError(
            f"noise={model.noise!r} was given beside a WhiteKernel of {level:.6g}, which is the noise too. "
            "Leave one of them out."
        )
    return positive_number("the level of WhiteKernel", level)


def _count(learning_rows: Any, n_rows: int) -> int:
    """Return the number of rows used for learning by blocks."""
    wanted = LEARNING_ROWS if learning_rows is None else whole_number("learning_rows", learning_rows, 2)
    return min(n_rows, wanted)
