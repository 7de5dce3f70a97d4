"""Learning of hyperparameters: from a few rows to more, by L-BFGS or a user's optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize as so

from gramian._phases import Progress
from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, InputError, listed, quoted, user_level
from gramian.gp.composite import (
    NEIGHBOURS,
    RANDOM_SHARE,
    Composite,
    Prior,
    block_of,
    conditional_rows,
    neighbour_blocks,
)
from gramian.gp.dense import FAILED
from gramian.gp.parameters import ProcessParameters
from gramian.gp.prior import Hyperparameters, feature_kernel
from gramian.kernels.base import Scaled

Loss = Callable[[Array], tuple[float, Float64Array]]
Judge = Callable[[Hyperparameters], float]
#: A run has converged if no log parameter changes log p(y) by more than this slope. A factor of e in the
#: parameter then changes the likelihood by a hundredth, too little to matter. Chosen by hand.
LEAST_SLOPE = 1e-2
#: A run also ends once a step improves −log p(y) by less than this share. Chosen by hand.
LEAST_FALL = 1e-6
#: A run that L-BFGS gives up, because rounding hides the descent, counts as converged up to this slope for
#: each row. Chosen by hand.
LEAST_ROW_SLOPE = 1e-2
#: Standard deviation, in log parameters, of random starts about the first start, and of the prior of a named
#: kernel's parameters. Chosen by hand.
SPREAD = 1.5
#: Rows of the first stage, where several starts are tried; rows up to which a stage is one dense system; and
#: the times that neighbours are chosen anew with the lengthscales of the stage before. By hand.
FIRST_ROWS, DENSE_ROWS, ROUNDS = 500, 2_000, 2


@dataclass(frozen=True)
class LearningStage:
    """One stage of learning: what it was done on, and what it reached."""

    n_rows: int
    n_blocks: int  #: 1 for a single sample of the rows
    theta: Float64Array
    value: float  #: log likelihood at theta, with the prior
    evaluations: int
    converged: bool
    loss: float = np.nan  #: what choices go by, at theta: on rows left out and far apart; NaN where none is


@dataclass(frozen=True)
class Learned:
    """Result of learning, with the work it took: the θ of the stage that predicts left-out rows best."""

    theta: Float64Array  #: logarithms of the kernel's parameters and, if it is learned, of the noise
    value: float  #: log likelihood of the rows of that stage
    iterations: int  #: L-BFGS iterations of all stages; 0 with another optimizer
    evaluations: int  #: evaluations of likelihood and gradient
    converged: bool
    at_bounds: tuple[int, ...]  #: indices of the entries of θ that ended at a bound
    n_rows: int  #: rows of that stage
    starts: tuple[LearningStage, ...]  #: where each start of the first stage ended
    stages: tuple[LearningStage, ...] = ()
    interrupted: bool = False  #: whether Ctrl-C ended learning early, at the best θ so far

    @property
    def warnings(self) -> tuple[str, ...]:
        """What one should know before trusting θ."""
        text = f"Learning stopped after {self.iterations} iterations. Raise max_iter, or scale the features."
        return () if self.converged else (text,)


@dataclass(frozen=True)
class ClimbResult:
    """End of one run of an optimizer."""

    theta: Float64Array
    value: float
    slope: float  #: largest derivative of log p(y) by an entry of θ
    iterations: int
    evaluations: int
    converged: bool
    message: str = ""
    interrupted: bool = False  #: whether Ctrl-C ended it


def climb(
    loss: Loss,
    start: Float64Array,
    bounds: Float64Array,
    parameters: ProcessParameters,
    n_rows: int,
    progress: Progress,
) -> ClimbResult:
    """Minimise −log p(y) from ``start`` within the bounds; the best θ that was seen is the result.

    ``progress`` is called with 1 for each evaluation.
    """
    best, slope, seen = (FAILED, start), np.inf, 0

    def watched(theta: Array) -> tuple[float, Float64Array]:
        nonlocal best, slope, seen
        seen += 1
        progress(1)
        value, gradient = loss(theta)
        if value < best[0]:
            best, slope = (value, np.array(theta)), float(np.abs(gradient).max(initial=0.0))
        return value, gradient

    def called(theta: Array, eval_gradient: bool = True) -> Any:
        return watched(theta) if eval_gradient else watched(theta)[0]

    try:
        if callable(parameters.optimizer):
            theta, value = _found(parameters.optimizer(called, start, bounds), len(start))
            return ClimbResult(theta, -value, slope, 0, seen, True)
        done = so.minimize(
            watched,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=so.Bounds(bounds[:, 0], bounds[:, 1]),
            options={"maxiter": parameters.max_iter, "gtol": LEAST_SLOPE, "ftol": LEAST_FALL},
        )
    except KeyboardInterrupt:
        return ClimbResult(best[1], -best[0], slope, 0, seen, False, interrupted=True)
    # Where all bounds are equal SciPy gives no status and no steps.
    gave_up = done.get("status") == 2 and slope <= LEAST_ROW_SLOPE * n_rows
    steps, ended = int(done.get("nit", 0)), bool(done.success or gave_up)
    return ClimbResult(best[1], -best[0], slope, steps, seen, ended, str(done.message))


def _found(answer: Any, size: int) -> tuple[Float64Array, float]:
    """Return θ and its loss from what a user's optimizer returned; raise if it is something else."""
    try:
        theta, value = answer
        theta, value = np.asarray(theta, np.float64), float(value)
        good = theta.shape == (size,) and bool(np.isfinite(theta).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(
            f"optimizer returned {quoted(answer)}; expected θ, {size} finite numbers, and its loss. Return "
            "(theta_opt, func_min), as scikit-learn's optimizers do."
        )
    return theta, value


def learn(
    hyper: Hyperparameters,
    rows: LabelledRows[Any],
    parameters: ProcessParameters,
    *,
    engine: Engine,
    rng: np.random.Generator,
    progress: Progress,
    judge: Judge | None = None,
) -> Learned:
    """Maximise the likelihood by stages: 500 random rows from several starts, then more, each from the last.

    The likelihood of a few rows is a poor guide between optima: ``judge`` gives a loss of
    hyperparameters, and the start and stage of the best one are taken (without it, the start of the
    largest likelihood and the last stage).

    Up to 2,000 learning rows, the second stage is the likelihood of all of them. Beyond, it is that of a
    random sample and of blocks of neighbours (:class:`Composite`). With ``judge`` follows the density of
    random rows given their nearest rows, together with that of the first 500.
    Neighbours are chosen twice, since they depend on the lengthscales. Other starts have shorter
    lengthscales, or, of a user's kernel instance, are log-normal about the start with a standard deviation of
    1.5 (a factor of 4.5); all are clipped to the bounds, the start plus ``log_factors``. ``progress`` is
    called with 1 for each evaluation. Warns :class:`AccuracyWarning` where learning ends early, at a bound or
    without progress.

    Time O(evaluations · Σ b³) for blocks of b rows.
    """
    bounds = hyper.theta[:, None] + parameters.log_factors
    stages: list[LearningStage] = []
    starts_reached: tuple[LearningStage, ...] = ()
    iterations, ends = 0, list[ClimbResult]()
    for objective in _stages(hyper, rows, parameters, engine, rng, stages, conditional=judge is not None):
        starts = [objective.hyper.theta]
        if not stages:
            others = _other_starts(hyper, parameters, rng)
            starts += [np.clip(other, bounds[:, 0], bounds[:, 1]) for other in others]
        runs: list[ClimbResult] = []
        for first in starts:
            runs.append(climb(objective.loss, first, bounds, parameters, objective.n_rows, progress))
            if runs[-1].interrupted:
                break
        stopped = runs[-1].interrupted
        scores = [np.nan] * len(runs)
        if judge is not None and not stopped:
            scores = [judge(hyper.at(one.theta)) for one in runs]
        reached = tuple(
            LearningStage(
                *(objective.n_rows, objective.n_blocks, one.theta, one.value),
                *(one.evaluations, one.converged, loss),
            )
            for one, loss in zip(runs, scores, strict=True)
        )
        number = int(np.argmin([-one.value for one in runs] if np.isnan(scores[0]) else scores))
        ends.append(runs[-1] if stopped else runs[number])
        starts_reached = starts_reached or reached
        iterations += sum(one.iterations for one in runs)
        evaluations = sum(one.evaluations for one in runs)
        stages.append(replace(reached[number], evaluations=evaluations))
        if stopped:
            break
    chosen = _best(stages)
    best = stages[chosen]
    learned = Learned(
        best.theta,
        best.value,
        iterations,
        sum(stage.evaluations for stage in stages),
        best.converged and not ends[-1].interrupted,
        _at_bounds(best.theta, bounds),
        best.n_rows,
        starts_reached,
        tuple(stages),
        ends[-1].interrupted,
    )
    if rows.numbers.any():  # nothing but the bounds holds a process of targets that are all the same
        _warn(learned, ends[chosen], hyper, parameters)
    return learned


def learn_all(
    loss: Loss,
    n_rows: int,
    hyper: Hyperparameters,
    before: Learned,
    parameters: ProcessParameters,
    progress: Progress,
) -> Learned:
    """Go on from what the blocks taught, by the ``loss`` −log p(y) of all rows; ``hyper`` as at the start."""
    bounds = hyper.theta[:, None] + parameters.log_factors
    run = climb(loss, before.theta, bounds, parameters, n_rows, progress)
    stage = LearningStage(n_rows, 1, run.theta, run.value, run.evaluations, run.converged)
    learned = replace(
        before,
        theta=run.theta,
        value=run.value,
        iterations=before.iterations + run.iterations,
        evaluations=before.evaluations + run.evaluations,
        converged=run.converged,
        at_bounds=_at_bounds(run.theta, bounds),
        n_rows=n_rows,
        stages=(*before.stages, stage),
        interrupted=run.interrupted,
    )
    _warn(learned, run, hyper, parameters)
    return learned


def block_sizes(n_rows: int) -> tuple[int, ...]:
    """Return the rows of each block of the last stage, for so many learning rows."""
    sample = _sample_rows(n_rows)
    return (sample,) + (NEIGHBOURS,) * ((n_rows - sample) // NEIGHBOURS)


def _sample_rows(n_rows: int) -> int:
    """Return how many of the learning rows are a random sample of all rows."""
    return n_rows if n_rows <= DENSE_ROWS else min(DENSE_ROWS, round(RANDOM_SHARE * n_rows))


def _at_bounds(theta: Float64Array, bounds: Float64Array) -> tuple[int, ...]:
    margin = np.minimum(theta - bounds[:, 0], bounds[:, 1] - theta)
    return tuple(np.flatnonzero(margin < 1e-6).tolist())


def _stages(
    hyper: Hyperparameters,
    rows: LabelledRows[Any],
    parameters: ProcessParameters,
    engine: Engine,
    rng: np.random.Generator,
    done: list[LearningStage],
    *,
    conditional: bool,
) -> Iterator[Composite]:
    """Yield the objective of each stage, at the best θ that the stages before reached."""
    wanted = parameters.rows_of(rows.n)
    random_rows = _sample_rows(wanted)
    order = rng.permutation(rng.choice(rows.n, random_rows, replace=False))
    few = sample = block_of(rows, np.sort(order))
    # The parameters of a named kernel have a prior about the start, the rest has none.
    deviation = np.full(len(hyper.theta), np.inf)
    deviation[: len(hyper.own) if parameters.named else 0] = SPREAD
    objective = Composite([sample], hyper, Prior(hyper.theta, deviation), engine)
    if random_rows > FIRST_ROWS:
        few = block_of(rows, np.sort(order[:FIRST_ROWS]))
        yield replace(objective, blocks=[few])
        objective = replace(objective, hyper=hyper.at(done[-1].theta))
    if wanted <= DENSE_ROWS:
        yield objective
        return
    count = len(block_sizes(wanted)) - 1
    for _ in range(1 if conditional else ROUNDS):
        now = hyper.at(done[_best(done)].theta) if done else hyper
        near = neighbour_blocks(rows, now, count, rng)
        yield replace(objective, blocks=[sample, *near], hyper=now)
    for _ in range(ROUNDS if conditional else 0):
        now = hyper.at(done[_best(done)].theta)
        given = conditional_rows(rows, now, engine, rng)
        yield replace(objective, blocks=[few], hyper=now, near=given)


def _best(stages: list[LearningStage]) -> int:
    """Return the number of the stage that predicts left-out rows best, or of the last if none was asked."""
    losses = [stage.loss for stage in stages]
    return len(stages) - 1 if np.isnan(losses[-1]) else int(np.argmin(losses))


def _other_starts(
    hyper: Hyperparameters, parameters: ProcessParameters, rng: np.random.Generator
) -> list[Float64Array]:
    """Return further starts: of a named kernel with lengthscales each time a quarter as long, else random.

    A process whose lengthscales start too long takes everything for noise and stays there.
    """
    start = hyper.theta
    if not parameters.named or feature_kernel(hyper.kernel) is None:
        return [start + SPREAD * rng.standard_normal(len(start)) for _ in range(parameters.restarts)]
    first = 1 if isinstance(hyper.kernel, Scaled) else 0
    lengths = np.zeros(len(start))
    lengths[first : len(hyper.own)] = np.log(4.0)
    return [start - (i + 1) * lengths for i in range(parameters.restarts)]


def _warn(learned: Learned, run: ClimbResult, hyper: Hyperparameters, parameters: ProcessParameters) -> None:
    """Warn where learning did not end as it should. Noise at its lower bound is what exact targets have."""
    bare = len(hyper.own) if learned.theta[-1] < hyper.theta[-1] else -1
    at_edge = [i for i in learned.at_bounds if i != bare]
    if learned.interrupted:
        text = f"learning was interrupted in stage {len(learned.stages)}; the best parameters so far stay."
    elif not run.converged:
        why = (
            f"learning stopped at max_iter={parameters.max_iter} iterations with a gradient of "
            f"{run.slope:.2g} by log parameters. Raise max_iter, or scale the features."
        )
        gave_up = (
            f"learning made no progress from a gradient of {run.slope:.2g} by log parameters "
            f"({run.message}). Give another start (gamma, noise), or a larger noise."
        )
        text = why if run.iterations >= parameters.max_iter else gave_up
    elif at_edge:
        names = listed((f"{hyper.names[i]} ({np.exp(learned.theta[i]):.3g})" for i in at_edge), 5, show=str)
        text = (
            f"learning ended at the bounds of {names}. Widen bounds, leave out features that say nothing, or "
            "fix the noise with learn_noise=False."
        )
    else:
        return
    warnings.warn(text, AccuracyWarning, stacklevel=user_level())
