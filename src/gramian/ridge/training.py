"""One ridge fit: the exact system, or one pass of sums over features."""

from __future__ import annotations

import logging
import numbers
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._files import checkpoint_folder
from gramian._phases import uncounted
from gramian.approximations.setup import FitSetup
from gramian.compression.predictor import fold
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.exact.exact import Exact
from gramian.exact.predictor import train_exact
from gramian.exceptions import InputError
from gramian.metric.learner import FittedRound, compares_exactly
from gramian.ridge.checkpoint import SumsCheckpoint
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import exact_of, plan_exact, plan_sums
from gramian.ridge.sums import RidgeSums, solve_ridge, sum_rows
from gramian.solvers.solution import Solution

#: Logger of phases: each record has the attributes ``phase``, ``seconds`` and ``bytes``.
LOG = logging.getLogger("gramian")


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
