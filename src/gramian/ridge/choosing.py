"""Ridge fits whose kernel, gamma or alpha is "auto": the kernel chosen on samples, alpha on all rows."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import user_level
from gramian.metric.input import learned_input
from gramian.metric.learner import without_exact
from gramian.ridge.kernel_sums import KernelSums
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import check_penalties, exact_of, plan_sums
from gramian.ridge.scoring import Scorer
from gramian.ridge.training import ridge_round, train
from gramian.selection.automatic import (
    CLOSE,
    chosen_kernel,
    mean_diagonal,
    penalty_grid,
    refuse_far_rows,
    searchable,
)
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice

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
    began, auto_names = time.perf_counter(), setup.auto_names
    refuse_far_rows(rows, auto_names)
    check_penalties(setup.alpha, rows.n_outputs)
    if not setup.intercept and isinstance(rows.targets, NumberTargets):
        warn_of_far_targets(rows.targets)
    if rows.n >= LEAST_ROWS and (auto_names or setup.learns_metric):
        rows = without_copies(rows, setup.run.memory_bytes, means=True)[0]
    if "alpha" in auto_names:
        rows, usual = searchable(rows)
        setup = replace(setup, alpha=usual)
    input_ = learned_input(setup, rows, ridge_round)
    rows = input_.prepared(rows)
    choice, trained, rest = None, None, "choice" if auto_names else "metric"
    if auto_names:
        choice = chosen_kernel(setup, rows, setup.run.rng)
    if "alpha" in auto_names and choice is not None:
        alpha, trained, choice = _best_fit(setup, rows, choice)
        setup = replace(setup, alpha=alpha)
    elif "alpha" in auto_names and len(rows.counted) >= LEAST_ROWS:
        _, alpha, trained = fit_by_alpha(setup, rows, None)
        setup = replace(setup, alpha=alpha)
    if trained is None:
        trained = train(setup if choice is None else setup.with_kernel(choice.kernel), rows)
    if auto_names or input_.rounds:
        trained = replace(trained, plan=trained.plan.with_seconds(time.perf_counter() - began, rest))
    alpha_ = setup.least if "alpha" in auto_names else None
    return replace(trained, input=input_, alpha=alpha_, choice=choice)


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
    kernel = setup.kernel.resolve_for(rows.source, rows.weights)
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
