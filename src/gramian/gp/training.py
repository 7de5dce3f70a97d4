"""Training of a Gaussian process: input, learning, choice of a posterior, and the check of its bands.

Rows without targets of unit variance are normalised first; everything below speaks of normalised targets.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gramian._phases import silent
from gramian._random import as_generator
from gramian._typing import Float64Array, IntArray
from gramian.approximations.setup import FitSetup
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
from gramian.estimator.input import warn_of_scales
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exact.exact import exact_plan
from gramian.exact.predictor import ExactPredictor, train_exact
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
from gramian.gp.learning import Learned, learn, learn_all
from gramian.gp.likelihood import LikelihoodObjective, MarginalLikelihood, Observations
from gramian.gp.neighbours import FEWEST, NeighbourPosterior
from gramian.gp.parameters import ProcessParameters, counted_rows, normalise, start_kernel
from gramian.gp.plan import CHECKED_ROWS, MEAN_SOLVE, TILES, ProcessPlan, plan_bases, plan_fit
from gramian.gp.posterior import Posterior
from gramian.gp.prior import Hyperparameters, in_units, lengthscales, scaled_back
from gramian.kernels.columns import dense
from gramian.metric.input import learned_input, planned_source
from gramian.metric.learner import FittedRound
from gramian.metric.metric import Metric

#: Held-out rows by which float32 is compared with float64. Chosen by hand.
NARROWING_ROWS = 100
#: Share of the targets' variance from which the errors on left-out rows mean that nothing was explained, and
#: the fewest rows that can tell. Chosen by hand.
UNEXPLAINED, LEAST_TOLD = 0.95, 10


def fit_process(rows: LabelledRows[NumberTargets], parameters: ProcessParameters) -> dict[str, Any]:
    """Return the learned attributes of a fit to labelled rows, by name."""
    rows, parameters = counted_rows(rows, parameters)
    targets, centre, unit = normalise(rows.numbers, parameters.normalize, rows.weights)
    weights = rows.weights
    if parameters.row_noise is not None:
        own = parameters.noise / parameters.row_noise
        weights = own if weights is None else weights * own
    rows = replace(rows, targets=NumberTargets(targets, rows.n), weights=weights)
    setup = parameters.setup
    input_ = learned_input(setup, rows, partial(process_round, parameters), own_bandwidth=True)
    trained = train(input_.prepared(rows), parameters)
    return {**input_.state(), **trained, "y_mean_": centre, "y_std_": unit}


def train(
    rows: LabelledRows[NumberTargets], parameters: ProcessParameters, *, check: bool = True
) -> dict[str, Any]:
    """Learn hyperparameters from some rows with normalised targets, and compute the posterior given all.

    Returns what was learned, as attributes of an estimator by name. Without ``check`` the deviations are
    checked on training rows by the nested bases alone, which takes no second fit.
    """
    setup, rng = parameters.setup, parameters.setup.run.rng
    plan = plan_fit(parameters, rows.source, rows.n_outputs, rng, check=check)  # raises before any work
    if check and not setup.standardize and setup.metric is None:
        warn_of_scales(rows.source, plan.start.kernel)
    counts = rows.weights
    if counts is not None and parameters.row_noise is not None:
        # A row's noise makes it count less in the fit; new rows are like all of them.
        counts = counts * parameters.row_noise / parameters.noise
    known, held, out = rows, rows, np.zeros(0, np.intp)
    if plan.held_out:
        # Hyperparameters that had seen the held-out rows would make their errors look small.
        order = rng.permutation(rows.n)
        out, known = np.sort(order[: plan.held_out]), rows.taken(np.sort(order[plan.held_out :]))
        held = replace(rows.read(out), weights=None if counts is None else counts[out])
    learning = _learned(plan, known, rng)
    hyper = plan.start if learning is None else plan.start.at(learning.theta)
    chosen, bands = Chosen(plan.exact_mean, 0, {}), None
    if plan.held_out:
        setup.run.phases("choice on held-out rows")
        chosen, bands = _chosen(plan, known, held, hyper, rng)
    setup.run.phases("posterior")
    objective, sizes = _likelihood(plan, rows, hyper, rng)
    likelihood = objective.likelihood()
    posterior = _posterior(plan, rows, likelihood, chosen, hyper, out, rng)
    if bands is None and posterior.near is not None:
        bands = near_check(posterior.near, held.rows, held.numbers, plan.engine, out, held.weights)
    elif bands is None:
        some, numbers = sample_rows(rows.source, CHECKED_ROWS, rng)
        own = None if rows.weights is None else rows.weights[numbers]
        bands = leave_one_out(likelihood, some, rows.numbers[numbers], plan.engine, own)
        bands = replace(bands, weights=None if counts is None else counts[numbers])
    if parameters.calibrated:
        bands = bands.scaled()
    if learning is not None and check:
        spread = normalise(rows.numbers, True, counts)[2]
        _warn_if_unexplained(bands, float(spread @ spread), hyper, parameters.restarts)
    if chosen.losses:
        sizes = replace(sizes, reason=f"{sizes.reason}; {chosen.reason}")
    return {
        "learning_": learning,
        "n_iter_": 1 if learning is None else max(1, learning.iterations),
        "kernel_": hyper.kernel,
        "noise_": hyper.noise,
        "theta_": hyper.theta,
        "posterior_": posterior,
        "log_marginal_likelihood_value_": likelihood.value,
        "calibration_": bands,
        "plan_": sizes,
        "rank_": posterior.features.rank,
        "_training": replace(objective, fingerprint=fingerprint(rows.source)),
    }


def _posterior(
    plan: ProcessPlan,
    rows: LabelledRows[Any],
    likelihood: MarginalLikelihood,
    chosen: Chosen,
    hyper: Hyperparameters,
    out: IntArray,
    rng: np.random.Generator,
) -> Posterior:
    """Return the chosen posterior given all rows; those of the numbers ``out`` were held out of learning."""
    nested = Posterior(likelihood.features, likelihood.factor, likelihood.beta)
    mean = _exact_mean(plan, rows, hyper, rng) if chosen.exact else None
    if not chosen.neighbours:
        return replace(nested, mean=mean)
    near = NeighbourPosterior.of(rows, hyper, chosen.neighbours, rng)
    few = rng.permutation(out)[:NARROWING_ROWS]
    near = near.narrowed(rows.source.take(few), plan.engine, without=few)
    if mean is None:
        some, _ = sample_rows(rows.source, VIEWED_ROWS, rng)
        mixed = rng.permutation(np.asarray(dense(some), np.float64))
        warn_where_views_differ(near, nested, mixed, plan.engine)
    return replace(nested, mean=mean, near=near)


def _learned(plan: ProcessPlan, rows: LabelledRows[Any], rng: np.random.Generator) -> Learned | None:
    """Return what was learned from the rows, by blocks and, where that is asked for, by all of them.

    Where neighbours are tried, starts and stages are compared by their errors.
    """
    if not plan.learned:
        return None
    parameters, engine, phases, judge = plan.parameters, plan.engine, plan.parameters.setup.run.phases, None
    progress = phases("learning", unit="likelihoods")
    if plan.neighbours:
        judge = leave_one_out_judge(rows, engine, rng)
    learned = learn(plan.start, rows, parameters, engine=engine, rng=rng, progress=progress, judge=judge)
    if parameters.learning_rows is not None or rows.n <= learned.n_rows:
        return learned
    progress = phases("learning from all rows", unit="likelihoods")
    objective, _ = _likelihood(plan, rows, plan.start.at(learned.theta), rng)
    return learn_all(objective.loss, rows.n, plan.start, learned, parameters, progress)


def _chosen(
    plan: ProcessPlan,
    known: LabelledRows[Any],
    held: LabelledRows[Any],
    hyper: Hyperparameters,
    rng: np.random.Generator,
) -> tuple[Chosen, BandCheck | None]:
    """Return the posterior that predicts held-out rows best, and their errors under it.

    The errors are None where neighbours were chosen: those among all rows give them later, with each row
    left out.
    """
    near = NeighbourPosterior.of(known, hyper, FEWEST, rng) if plan.neighbours else None
    nested = None
    if plan.nested:
        likelihood = _likelihood(plan, known, hyper, rng)[0].likelihood()
        mean = _exact_mean(plan, known, hyper, rng) if plan.exact_mean else None
        nested = Posterior(likelihood.features, likelihood.factor, likelihood.beta, mean)
    order = rng.permutation(held.n)  # the first of them choose the number of neighbours
    own = None if held.weights is None else held.weights[order]
    rows, targets = held.rows[order], held.numbers[order]
    chosen, check = choose_posterior(nested, near, rows, targets, hyper.noise, plan.engine, own)
    return chosen, None if chosen.neighbours and not chosen.exact else check


def _exact_mean(
    plan: ProcessPlan, rows: LabelledRows[Any], hyper: Hyperparameters, rng: np.random.Generator
) -> ExactPredictor:
    """Return x ↦ k(x, X) (K + noise·I)⁻¹ y. Time and memory: see ``solve_exact``."""
    use, kernel, noise = plan.parameters.setup.run, hyper.kernel, hyper.noise
    tiles = replace(use, tile_dtype=TILES.name)
    sizes = exact_plan(Workload.of(rows.source, rows.n_outputs), MEAN_SOLVE, tiles)
    return train_exact(rows, kernel, noise, MEAN_SOLVE, sizes, intercept=False, engine=use.engine, rng=rng)[0]


def _likelihood(
    plan: ProcessPlan, rows: LabelledRows[Any], hyper: Hyperparameters, rng: np.random.Generator
) -> tuple[LikelihoodObjective, Plan]:
    """Return the likelihood of the rows, and the plan by which its landmarks and blocks were chosen.

    Blocks by bisection are formed by distances in units of the kernel's lengthscales.
    """
    source, kernel = rows.source, hyper.kernel
    bases = plan_bases(plan.parameters, source, rows.n_outputs, kernel, rng)
    run = replace(plan.parameters.setup.run, engine=Engine(bases.n_threads), random_state=rng, phases=silent)
    scale = lengthscales(kernel) if getattr(bases.builder, "partition", None) == "tree" else None
    features = bases.build(
        source if scale is None else map_rows(source, Metric(scales=1.0 / scale)),
        kernel if scale is None else in_units(kernel),
        run,
    )
    if scale is not None:
        features = scaled_back(features, scale, kernel)
    data = Observations(source, rows.numbers, bases.chunk_rows, run.engine, rows.weights)
    exact = bases.builder.bounds.root_landmarks >= rows.n == bases.sample_rows
    return LikelihoodObjective(features, hyper, data, exact), plan.sizes(bases)


def plan_process(parameters: ProcessParameters, source: RowSource, n_outputs: int) -> Plan:
    """Return the planned sizes and bytes, with what is learned, tried and checked."""
    setup = parameters.setup.planning()
    rng, rows = setup.run.rng, planned_source(setup, source)
    return plan_fit(replace(parameters, setup=setup), rows, n_outputs, rng).shown


def prior_covariance(parameters: ProcessParameters, source: RowSource) -> Float64Array:
    """Return the covariance of f at some rows by the kernel as given; a name's gamma is 1/n_features."""
    kernel = start_kernel(replace(parameters, optimizer=None), source, as_generator(0))
    return np.asarray(kernel(source.rows(slice(0, source.shape[0])), dtype=np.float64, n_jobs=1), np.float64)


def process_round(
    parameters: ProcessParameters, rows: LabelledRows[Any], setup: FitSetup, before: object, quick: bool
) -> FittedRound:
    """Return the model of a round of metric learning: small, starting from the last round's kernel."""
    with warnings.catch_warnings():
        # A round is judged by its error; the final fit learns again, and warns where that fails.
        warnings.simplefilter("ignore", AccuracyWarning)
        fitted = train(rows, parameters.of_round(setup, before, quick), check=False)
    hyper, posterior = fitted["_training"].hyper, fitted["posterior_"]
    values = partial(mean_of, posterior, engine=setup.run.engine)
    return FittedRound(hyper, values, posterior.predictor, hyper.kernel)


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
