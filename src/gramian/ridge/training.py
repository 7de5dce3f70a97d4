"""One ridge fit: what is auto chosen on samples, then the exact system or one pass of sums over features."""

from __future__ import annotations

import logging
import numbers
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._files import checkpoint_folder
from gramian._phases import uncounted
from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.compression.predictor import fold
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import NumberTargets
from gramian.exact.exact import Exact
from gramian.exact.predictor import train_exact
from gramian.exceptions import InputError, user_level
from gramian.metric.input import learned_input
from gramian.metric.learner import FittedRound, compares_exactly, without_exact
from gramian.ridge.checkpoint import SumsCheckpoint
from gramian.ridge.kernel_sums import KernelSums
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import check_penalties, exact_of, plan_exact, plan_sums
from gramian.ridge.scoring import Scorer
from gramian.ridge.sums import RidgeSums, solve_ridge, sum_rows
from gramian.selection.automatic import (
    CLOSE,
    chosen_kernel,
    mean_diagonal,
    penalty_grid,
    refuse_far_rows,
    searchable,
)
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice
from gramian.solvers.solution import Solution

#: Logger of phases: each record has the attributes ``phase``, ``seconds`` and ``bytes``.
LOG = logging.getLogger("gramian")
#: Deviations of the targets between their mean and 0 from which a warning is due. With 10 of them and the
#: default alpha, the error on 300 rows is four times that with an intercept.
FAR = 10.0
#: Targets that are looked at.
LOOKED_AT = 65_536
#: Most rows whose leave-one-out errors are compared, and the part of the budget that they take at most.
MOST_ROWS, PART = 10_000, 8


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


def fit_ridge(rows: LabelledRows[Any], setup: FitSetup) -> KernelModel:
    """Return the ridge model of labelled rows, with what the setup leaves to the rows."""
    began, asked = time.perf_counter(), setup.asked
    refuse_far_rows(rows, asked)
    check_penalties(setup.alpha, rows.n_outputs)
    if not setup.intercept and isinstance(rows.targets, NumberTargets):
        warn_of_far_targets(rows.targets)
    if rows.n >= LEAST_ROWS and (asked or setup.learns_metric):
        rows = without_copies(rows, setup.run.memory_bytes, means=True)[0]
    if "alpha" in asked:
        rows, usual = searchable(rows)
        setup = replace(setup, alpha=usual)
    found = learned_input(setup, rows, ridge_round)
    rows = found.prepared(rows)
    choice, trained, rest = None, None, "choice" if asked else "metric"
    if asked:
        choice = chosen_kernel(setup, rows, setup.run.rng)
    if "alpha" in asked and choice is not None:
        alpha, trained, choice = _best_fit(setup, rows, choice)
        setup = replace(setup, alpha=alpha)
    elif "alpha" in asked and len(rows.counted) >= LEAST_ROWS:
        _, alpha, trained = fit_by_alpha(setup, rows, None)
        setup = replace(setup, alpha=alpha)
    if trained is None:
        trained = train(setup if choice is None else setup.with_kernel(choice.kernel), rows)
    if asked or found.rounds:
        trained = replace(trained, plan=trained.plan.within(time.perf_counter() - began, rest))
    alpha_ = setup.least if "alpha" in asked else None
    return replace(trained, input=found, alpha=alpha_, choice=choice)


def _best_fit(
    setup: FitSetup, rows: LabelledRows[Any], choice: KernelChoice
) -> tuple[float, KernelModel | None, KernelChoice]:
    """Return alpha, the fit and the choice of that finalist whose error on all rows is the least.

    The fit is None as for :func:`fit_by_alpha`.
    """
    best: tuple[float, float, KernelModel | None, KernelChoice] | None = None
    for kernel, start in choice.finalists:
        loss, alpha, trained = fit_by_alpha(setup.with_kernel(kernel), rows, start)
        if best is None or loss < best[0]:
            best = loss, alpha, trained, replace(choice, kernel=kernel, alpha=start)
    assert best is not None
    return best[1:]


def fit_by_alpha(
    setup: FitSetup, rows: LabelledRows[Any], start: float | None
) -> tuple[float, float, KernelModel | None]:
    """Return the least leave-one-out error on the features of all rows, its alpha, and the fit with it.

    The fit is None where the exact system is still to be solved.
    """
    exact, rng, setup = exact_of(setup.approximation), setup.run.rng, without_exact(setup)
    d = rows.source.shape[1]
    most = max(LEAST_ROWS, min(MOST_ROWS, setup.run.memory_bytes // (PART * 8 * d)))
    counted = rows.counted
    numbers = np.sort(rng.choice(counted, most, replace=False)) if len(counted) > most else counted
    validation = rows.read(numbers)
    kernel = setup.kernel.of(rows.source, rows.weights)
    tried = penalty_grid(mean_diagonal(kernel, rows), start)
    setup = replace(setup, run=replace(setup.run, random_state=rng), alpha=float(tried[0] * CLOSE[0]))
    setup = setup.part(f"choice of alpha for {type(kernel).__name__}")
    planned = plan_sums(setup, rows.source, rows.n_outputs, weights=rows.weights)
    sums = KernelSums(planned, rows, intercept=setup.intercept)
    scorer = Scorer(None, per_target=False)

    def errors(alphas: Float64Array) -> Float64Array:
        return -sums.own_scores(alphas, scorer, mean=False, on=validation).values

    best = tried[int(errors(tried).argmin())]
    close = best * np.array([CLOSE[0], 1.0, CLOSE[1]])
    losses = errors(close)
    number = np.asarray(losses.argmin())
    alpha, loss = float(close[number]), float(losses.min())
    if exact is not None:
        return loss, alpha, None
    return loss, alpha, sums.chosen(close, number)[0]


def train(setup: FitSetup, rows: LabelledRows[Any]) -> KernelModel:
    r"""Fit a ridge model to rows that are ready for the kernel: by the exact system, or over features.

    Minimises Σ w_i ‖y_i − f(x_i) − b‖² + alpha ‖f‖² over the approximation's functions f. b is 0, or a
    constant that is not penalised. One random read of the sample, one pass over the rows, then the solve of
    (FᵀΩF + alpha·I) β = FᵀΩy: by elimination for nested bases, or as β = C (A C + alpha·I)⁻¹ b for a coupled
    core, with A = FᵀΩF and b = FᵀΩy. The residual of that system is recomputed, and a warning says if it
    exceeds its tolerance. The plan states time and memory; memory does not depend on n. Each phase is logged
    at its end (``gramian``, INFO).
    """
    exact = exact_of(setup.approximation)
    if exact is not None:
        return _train_exact(setup, rows, exact)
    source, weights = rows.source, rows.weights
    checkpoint: SumsCheckpoint | None = None
    if setup.checkpoint is not None:
        seeded, rng = isinstance(setup.run.random_state, numbers.Integral), setup.run.rng
        checkpoint = SumsCheckpoint(Path(setup.checkpoint), rng, seeded=seeded)
        setup = replace(setup, run=replace(setup.run, random_state=rng))
    plan, kernel, run = plan_sums(setup, source, rows.n_outputs, weights=weights)
    # A constant near the mean is taken from the targets before the sums are made.
    shift = rows.targets.centre(weights) if setup.intercept else np.zeros(rows.n_outputs)
    last, seconds, bytes_ = time.perf_counter(), dict[str, float](), dict[str, int]()

    def lap(phase: str, held: int) -> None:
        nonlocal last
        began, last = last, time.perf_counter()
        seconds[phase], bytes_[phase] = last - began, held
        facts = {"phase": phase, "seconds": seconds[phase], "bytes": held}
        LOG.info("%s: %.2f s, %s held", phase, seconds[phase], format_bytes(held), extra=facts)

    features = plan.build(source, kernel, run, weights)
    lap("bases", features.nbytes)
    sums = RidgeSums.zeros(features, shift, intercept=setup.intercept)
    progress = run.phases("sums", rows.n)
    done: Callable[[int], object] = uncounted
    if checkpoint is not None:
        progress(checkpoint.bind(rows, plan, features, sums, setup.alpha))
        done = partial(checkpoint.passed, sums, n_rows=rows.n)
    chunk, engine = plan.chunk_rows, run.engine
    sum_rows(sums, features, rows, chunk_rows=chunk, engine=engine, done=done, progress=progress)
    lap("sums", features.nbytes + sums.nbytes)
    run.phases("solve")
    beta, offset, solution = solve_ridge(features, sums, setup.alpha, engine)
    lap("solve", features.nbytes + 2 * sums.nbytes)
    predictor = fold(features, beta)
    if checkpoint is not None:
        checkpoint.finish()
    lap("fold", features.nbytes + predictor.nbytes)
    return KernelModel(predictor, kernel, offset, solution, plan.used(bytes_, seconds), features.rank)


def ridge_round(rows: LabelledRows[Any], setup: FitSetup, before: object, quick: bool) -> FittedRound:
    """Return what a round of a metric fits: this model, or the exact system where that is quickest."""
    if quick and compares_exactly(setup):
        setup = replace(setup, approximation="exact")
    return train(setup, rows).of_round(setup.run.engine)


def _train_exact(setup: FitSetup, rows: LabelledRows[Any], exact: Exact) -> KernelModel:
    if isinstance(rows.source, Partitioned):
        raise InputError(
            "approximation='exact' needs all rows in the memory of this machine. Choose another "
            "approximation, or pass arrays (X.compute()) and engine=None."
        )
    targets, run = rows.targets, setup.run
    plan, kernel = plan_exact(setup, rows.source, rows.n_outputs, exact, weights=rows.weights)
    mean = targets.mean(rows.weights) if setup.intercept else np.zeros(rows.n_outputs)
    targets.shift = mean
    settings = exact.settings()
    folder = setup.checkpoint if exact.checkpoint is None else exact.checkpoint
    if folder is not None:
        settings = replace(settings, checkpoint=checkpoint_folder(Path(folder)) / "solve.npz")
    began = time.perf_counter()
    done = run.phases("exact", unit="steps")

    def progress(state: Solution) -> None:
        done(1, f"residual {state.residual:.1e}")

    predictor, offset, solution, stages = train_exact(
        rows,
        kernel,
        setup.alpha,
        settings,
        plan,
        intercept=setup.intercept,
        engine=run.engine,
        rng=run.rng,
        progress=progress,
    )
    plan = plan.used({"solve": solution.bytes}, {"solve": time.perf_counter() - began})
    return KernelModel(predictor, kernel, mean + offset, solution, plan, predictor.n_points, stages)
