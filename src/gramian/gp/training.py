"""Training of a Gaussian process: input, start, learning, choice of a posterior, and the check of its bands.

Rows without targets of unit variance are normalised first; everything below speaks of normalised targets.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan
from gramian.data.fingerprint import fingerprint
from gramian.data.mapped import map_rows
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.estimator.answers import (
    PREDICT_ROWS,
    finite_values,
    in_blocks,
    predicted_blocks,
    quietly,
    rows_at,
)
from gramian.estimator.column_scales import warn_of_scales
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import AccuracyWarning, user_level
from gramian.gp.calibration import BandCheck, leave_one_out
from gramian.gp.choice import (
    VIEWED_ROWS,
    Chosen,
    choose_posterior,
    leave_one_out_judge,
    near_check,
    warn_where_views_differ,
)
from gramian.gp.exact_mean import exact_mean
from gramian.gp.hyperparameters import Hyperparameters, in_units, lengthscales
from gramian.gp.learning import Learned, block_sizes, learn, learn_all
from gramian.gp.likelihood import MarginalLikelihood, Observations
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.objective import LikelihoodObjective
from gramian.gp.parameters import ProcessParameters
from gramian.gp.posterior import Posterior
from gramian.gp.prior import scaled_back
from gramian.gp.sizes import FEWEST, plan_sizes, solves_for_mean, takes_neighbours
from gramian.gp.start import start_kernel
from gramian.gp.targets import counted_rows, normalise
from gramian.kernels import Kernel
from gramian.kernels.columns import dense
from gramian.metric.input import Input, learned_input, planned_input
from gramian.metric.metric import Metric
from gramian.metric.rounds import FittedRound, RoundModel, RoundSetup

#: Rows that the deviations are checked on, and the share of all rows that may be held out for it. By hand.
CHECKED_ROWS, HELD_OUT_SHARE = 2_000, 0.1
#: Held-out rows by which float32 is compared with float64. Chosen by hand.
NARROWING_ROWS = 100
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
    input: Input = field(default_factory=Input)
    centre: Float64Array = field(default_factory=lambda: np.zeros(1))  #: of the targets, (outputs,)
    unit: Float64Array = field(default_factory=lambda: np.ones(1))  #: normalised is (target − centre)/unit

    @property
    def posterior(self) -> Posterior:
        """The posterior given all rows."""
        found = self.evidence
        return Posterior(found.features, found.factor, found.beta, self.mean, self.near)

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this fit, by name."""
        found, hyper = self.evidence, self.objective.hyper
        return {
            **self.input.state(),
            "learning_": self.learning,
            "n_iter_": 1 if self.learning is None else max(1, self.learning.iterations),
            "kernel_": hyper.kernel,
            "noise_": hyper.noise,
            "theta_": hyper.theta,
            "posterior_": self.posterior,
            "log_marginal_likelihood_value_": found.value,
            "calibration_": self.calibration,
            "plan_": self.plan,
            "rank_": found.features.rank,
            "y_mean_": self.centre,
            "y_std_": self.unit,
            "_training": replace(self.objective, fingerprint=fingerprint(self.objective.data.source)),
        }


def fit_process(rows: LabelledRows[NumberTargets], parameters: ProcessParameters) -> TrainedProcess:
    """Return the fit to labelled rows, with the input, hyperparameters and posterior they call for."""
    rows, parameters = counted_rows(rows, parameters)
    targets, centre, unit = normalise(rows.numbers, parameters.normalize, rows.weights)
    weights = rows.weights
    if parameters.row_noise is not None:
        own = parameters.noise / parameters.row_noise
        weights = own if weights is None else weights * own
    rows = replace(rows, targets=NumberTargets(targets, rows.n), weights=weights)
    models = partial(process_round, parameters)
    found = learned_input(parameters.input, parameters.setup, rows, models, own_bandwidth=True)
    trained = train(found.prepared(rows), parameters)
    return replace(trained, input=found, centre=centre, unit=unit)


def train(
    rows: LabelledRows[NumberTargets], parameters: ProcessParameters, *, check: bool = True
) -> TrainedProcess:
    """Learn hyperparameters from some rows with normalised targets, and compute the posterior given all.

    Without ``check`` the deviations are checked on training rows by the nested bases alone, which takes no
    second fit.
    """
    setup = parameters.setup
    rng, phases, memory = setup.run.rng, setup.run.phases, setup.run.memory_bytes
    start = Hyperparameters(_start(parameters, rows.source, rng), parameters.noise, parameters.learn_noise)
    plan = _sized(parameters, rows.source, rows.n_outputs, start.kernel, rng)  # raises before any work
    if check and not parameters.input.standardize and parameters.input.metric is None:
        warn_of_scales(rows.source, start.kernel)
    engine = Engine(plan.n_threads)
    steps = _Steps(parameters, engine, rng)
    solves = solves_for_mean(setup.approximation, rows.n, memory)
    nears = check and takes_neighbours(setup.approximation, rows.source, start, memory, plan.n_threads)
    known, out = rows, None
    # A row's noise makes it count less in the fit; new rows are like all of them.
    counts = rows.weights
    if counts is not None and parameters.row_noise is not None:
        counts = counts * parameters.row_noise / parameters.noise
    if check and (solves or nears):
        # Hyperparameters that had seen the held-out rows would make their errors look small.
        held = max(1, min(CHECKED_ROWS, int(HELD_OUT_SHARE * rows.n)))
        order = rng.permutation(rows.n)
        out, known = np.sort(order[:held]), rows.taken(np.sort(order[held:]))
    learning = steps.learned(known, start, judged=nears)
    hyper = start if learning is None else start.at(learning.theta)
    calibration, chosen = None, Chosen(solves, 0, {})
    if out is not None:
        phases("choice on held-out rows")
        judges = replace(rows.read(out), weights=None if counts is None else counts[out])
        chosen, calibration = steps.chosen(known, judges, hyper, solves=solves, nears=nears)
    phases("posterior")
    objective, plan = steps.likelihood(rows, hyper)
    found = objective.found()
    mean = steps.mean(rows, hyper) if chosen.exact else None
    near = None
    if out is not None and chosen.neighbours:
        near = steps.near(rows, hyper, chosen.neighbours)
        few = rng.permutation(out)[:NARROWING_ROWS]
        near = near.narrowed(rows.source.take(few), engine, without=few)
        if mean is None:
            some, _ = sample_rows(rows.source, VIEWED_ROWS, rng)
            nested = Posterior(found.features, found.factor, found.beta)
            mixed = rng.permutation(np.asarray(dense(some), np.float64))
            warn_where_views_differ(near, nested, mixed, engine)
        if calibration is None:
            own = None if counts is None else counts[out]
            calibration = near_check(near, rows.source.take(out), rows.numbers[out], engine, out, own)
    if calibration is None:
        some, numbers = sample_rows(rows.source, CHECKED_ROWS, rng)
        own = None if rows.weights is None else rows.weights[numbers]
        calibration = leave_one_out(found, some, rows.numbers[numbers], engine, own)
        calibration = replace(calibration, weights=None if counts is None else counts[numbers])
    if parameters.calibrated:
        calibration = calibration.scaled()
    if learning is not None and check:
        spread = normalise(rows.numbers, True, counts)[2]
        _warn_if_unexplained(calibration, float(spread @ spread), hyper, parameters.restarts)
    if chosen.losses:
        plan = replace(plan, reason=f"{plan.reason}; {chosen.reason}")
    return TrainedProcess(objective, found, mean, near, learning, calibration, plan)


@dataclass(frozen=True, eq=False)
class _Steps:
    """What all steps of a training share."""

    parameters: ProcessParameters
    engine: Engine
    rng: np.random.Generator

    def learned(self, rows: LabelledRows[Any], start: Hyperparameters, *, judged: bool) -> Learned | None:
        """Return what was learned from the rows, by blocks and, where that is asked for, by all of them.

        ``judged`` : starts and stages are compared by their neighbours' errors.
        """
        asked, source, targets = self.parameters, rows.source, rows.numbers
        if asked.optimizer is None or not len(start.theta):
            return None
        phases, settings = asked.setup.run.phases, asked.learning(rows.n)
        progress = phases("learning", unit="likelihoods")
        judge = None
        if judged:
            judge = leave_one_out_judge(source, targets, self.engine, self.rng, rows.weights)
        found = learn(
            start,
            source,
            targets,
            settings,
            engine=self.engine,
            rng=self.rng,
            progress=progress,
            judge=judge,
            weights=rows.weights,
        )
        if asked.learning_rows is not None or rows.n <= found.n_rows:
            return found
        progress = phases("learning from all rows", unit="likelihoods")
        objective, _ = self.likelihood(rows, start.at(found.theta))
        return learn_all(objective.loss, rows.n, start, found, settings, progress=progress)

    def chosen(
        self,
        known: LabelledRows[Any],
        held: LabelledRows[Any],
        hyper: Hyperparameters,
        *,
        solves: bool,
        nears: bool,
    ) -> tuple[Chosen, BandCheck | None]:
        """Return the posterior that predicts held-out rows best, and their errors under it.

        The errors are None where neighbours were chosen: those among all rows give them later, with each row
        left out.
        """
        near = self.near(known, hyper, FEWEST) if nears else None
        nested = None
        if self.parameters.setup.automatic:
            found = self.likelihood(known, hyper)[0].found()
            nested = Posterior(found.features, found.factor, found.beta)
            nested = replace(nested, mean=self.mean(known, hyper)) if solves else nested
        order = self.rng.permutation(held.n)  # the first of them choose the number of neighbours
        own = None if held.weights is None else held.weights[order]
        rows, targets = held.rows[order], held.numbers[order]
        chosen, check = choose_posterior(nested, near, rows, targets, hyper.noise, self.engine, own)
        return chosen, None if chosen.neighbours and not chosen.exact else check

    def near(self, rows: LabelledRows[Any], hyper: Hyperparameters, count: int) -> NeighbourPosterior:
        """Return the posterior from the nearest of the rows."""
        return NeighbourPosterior.of(rows.source, rows.numbers, hyper, count, self.rng, rows.weights)

    def mean(self, rows: LabelledRows[Any], hyper: Hyperparameters) -> ExactPredictor:
        """Return the exact posterior mean given the rows."""
        use = self.parameters.setup.run
        return exact_mean(rows, hyper, memory_budget=use.memory_bytes, engine=use.engine, rng=self.rng)

    def likelihood(self, rows: LabelledRows[Any], hyper: Hyperparameters) -> tuple[LikelihoodObjective, Plan]:
        """Return the likelihood of the rows, and the plan by which its landmarks and blocks were chosen.

        Blocks by bisection are formed by distances in units of the kernel's lengthscales.
        """
        source, kernel = rows.source, hyper.kernel
        plan = _sized(self.parameters, source, rows.n_outputs, kernel, self.rng)
        engine = Engine(plan.n_threads)
        scale = lengthscales(kernel) if getattr(plan.builder, "partition", None) == "tree" else None
        features = plan.build(
            source if scale is None else map_rows(source, Metric(scales=1.0 / scale)),
            kernel if scale is None else in_units(kernel),
            rng=self.rng,
            engine=engine,
        )
        if scale is not None:
            features = scaled_back(features, scale, kernel)
        data = Observations(source, rows.numbers, plan.chunk_rows, engine, rows.weights)
        exact = plan.builder.bounds.root_landmarks >= rows.n == plan.sample_rows
        return LikelihoodObjective(features, hyper, data, exact), plan


def plan_process(parameters: ProcessParameters, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of one pass over the rows."""
    asked = parameters.planning()
    source = planned_input(asked.input, asked.setup, source).over(source)
    rng = asked.setup.run.rng
    return _sized(asked, source, n_outputs, _start(asked, source, rng), rng)


def prior_covariance(parameters: ProcessParameters, source: RowSource) -> Float64Array:
    """Return the covariance of f at some rows by the kernel as given; a name's gamma is 1/n_features."""
    kernel = _start(replace(parameters, optimizer=None), source, as_generator(0))
    return np.asarray(kernel(source.rows(slice(0, source.shape[0])), dtype=np.float64, n_jobs=1), np.float64)


def process_round(parameters: ProcessParameters, asked: RoundSetup) -> RoundModel:
    """Return the model that a round of metric learning fits: small, starting from the last round's kernel."""
    made = parameters.of_round(asked)

    def fit(rows: LabelledRows[Any]) -> FittedRound:
        with warnings.catch_warnings():
            # A round is judged by its error; the final fit learns again, and warns where that fails.
            warnings.simplefilter("ignore", AccuracyWarning)
            found = train(rows, made, check=False)
        hyper, posterior = found.objective.hyper, found.posterior
        values = partial(mean_of, posterior, engine=made.setup.run.engine)
        return FittedRound(hyper, values, posterior.predictor, hyper.kernel)

    return RoundModel(fit)


def mean_of(posterior: Posterior, source: RowSource, engine: Engine) -> Float64Array:
    """Return the posterior mean (n, outputs) of the normalised targets at rows prepared for the kernel."""
    blocks = predicted_blocks(posterior.predictor, source, engine)
    out = in_blocks(quietly(blocks), (source.shape[0], posterior.n_outputs))
    return finite_values(out, partial(rows_at, source))


def moments_of(posterior: Posterior, source: RowSource, engine: Engine) -> tuple[Float64Array, Float64Array]:
    """Return mean (n, outputs) and variance (n,) of f for normalised targets at prepared rows."""
    blocks = posterior.moments(source, engine=engine, chunk_rows=PREDICT_ROWS)
    out = in_blocks(quietly(blocks), (source.shape[0], posterior.n_outputs + 1))
    out = finite_values(out, partial(rows_at, source))
    return out[:, :-1], out[:, -1]


def _start(parameters: ProcessParameters, source: RowSource, rng: np.random.Generator) -> Kernel:
    kernel = parameters.setup.kernel
    return start_kernel(
        kernel.of(source),
        source,
        rng,
        named=parameters.named,
        ard=parameters.ard,
        gamma_given=kernel.gamma is not None,
        learned=parameters.optimizer is not None,
    )


def _sized(
    parameters: ProcessParameters, source: RowSource, n_outputs: int, kernel: Kernel, rng: np.random.Generator
) -> Plan:
    use = parameters.setup.run
    learns = parameters.optimizer is not None
    return plan_sizes(
        parameters.setup.approximation,
        source,
        Workload.of(source, n_outputs),
        kernel,
        learning_blocks=block_sizes(parameters.rows_of(source.shape[0])) if learns else (),
        memory_budget=use.memory_bytes,
        engine=use.engine,
        rng=rng,
    )


def _warn_if_unexplained(seen: BandCheck, variance: float, hyper: Hyperparameters, restarts: int) -> None:
    """Warn if rows that the mean had not seen are predicted no better than by the mean of the targets."""
    left = float(np.average(np.square(seen.errors), axis=0, weights=seen.weights).sum())
    if len(seen.errors) < LEAST_TOLD or not variance > 0 or left < UNEXPLAINED * variance:
        return
    warnings.warn(
        f"the learned kernel explains nothing of the targets: on rows left out, the squared error is "
        f"{left / variance:.2f} of their variance, and the noise is {hyper.noise:.2g}. Either the targets do "
        "not depend on the features, or learning ended in a poor optimum (all noise, or lengthscales shorter "
        f"than the distance of neighbours): raise n_restarts_optimizer={restarts}, start from other "
        "lengthscales (gamma, or a kernel instance), or set standardize=True.",
        AccuracyWarning,
        stacklevel=user_level(),
    )
