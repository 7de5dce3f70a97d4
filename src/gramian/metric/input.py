"""Metric of a fit: given, or learned from some of its rows, with what a model states about it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._phases import silent
from gramian._random import as_generator, seed_for_sklearn
from gramian._typing import IntArray
from gramian.approximations.setup import FitSetup
from gramian.data.mapped import map_rows
from gramian.data.source import RowSource, SubsetRows
from gramian.estimator.input import Input, scaled_input, scaler_of
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.kernels.precomputed import Precomputed
from gramian.metric.learner import MOST_HELD_OUT, EstimatorLearner, FitRound, without_exact
from gramian.metric.learning import LearnedMetric, learn_metric
from gramian.metric.metric import Metric
from gramian.metric.outer_product import FORMS
from gramian.summary import Grid, short

#: With fewer rows of positive weight nothing is learned: the held-out part would be a dozen rows.
LEAST_ROWS = 60
#: The rows to learn from take one part in this many of the memory budget.
SAMPLE_PART = 8
#: Matrices (d, d) that learning a full metric holds at a time.
MATRICES = 6
#: Rows that a plan takes the columns' deviations from.
SCALED_ROWS = 10_000
#: Features that are named.
MOST_FEATURES = 10


def learned_input(
    setup: FitSetup, rows: LabelledRows[Any], fit_round: FitRound, *, own_bandwidth: bool = False
) -> Input:
    """Return the input of a fit: a scaler and a metric, each where one is asked for.

    A metric is learned from some of the rows, unless it is given. ``fit_round`` fits a model in a round.
    ``own_bandwidth`` says that the fit chooses the kernel's bandwidth, so that the metric leaves it alone.
    """
    source = rows.source
    if setup.metric is None:
        # "auto" looks for a lengthscale for each feature.
        quiet = own_bandwidth or setup.frozen or "kernel" in setup.auto_names
        return scaled_input(setup.kernel, setup.standardize, source, rows.weights, quiet=quiet)
    scaler = scaler_of(setup.kernel, source, rows.weights) if setup.standardize else None
    chosen = _checked_metric(setup, source.shape[1])
    if isinstance(chosen, Metric):
        return Input(scaler, chosen)
    scaled = Input(scaler).prepared(rows)
    free = not own_bandwidth and _bandwidth_left_out(setup.kernel, source.shape[1])
    settings, start = chosen.checked(free=free), Metric.identity_of(source.shape[1])
    rng = as_generator(deepcopy(setup.run.random_state))
    numbers = _sample(scaled, setup.run.memory_bytes, settings.rows, rng)
    if len(numbers) < LEAST_ROWS:
        return Input(scaler, start, ())
    n_held_out = min(max(1, round(settings.held_out * len(numbers))), MOST_HELD_OUT, len(numbers) - 1)
    learner = EstimatorLearner(
        fit_round,
        _round_setup(setup, rng),
        scaled.read(numbers[n_held_out:]),
        scaled.read(numbers[:n_held_out]),
        settings,
    )
    return Input(scaler, *learn_metric(learner, start, settings, setup.run.phases))


def _round_setup(setup: FitSetup, rng: np.random.Generator) -> FitSetup:
    """Return the setup of the rounds' fits, to rows that are ready for the kernel.

    Its memory is what the rows that are held for the rounds leave. An exact solve becomes "auto": the rounds
    need a metric, not the last digits.
    """
    left = setup.run.memory_bytes * (SAMPLE_PART - 1) // SAMPLE_PART
    return replace(
        without_exact(setup),
        run=replace(setup.run, memory_bytes=left, random_state=seed_for_sklearn(rng), phases=silent),
        standardize=False,
        metric=None,
        checkpoint=None,
    )


def planned_source(setup: FitSetup, source: RowSource) -> RowSource:
    """Return rows as the kernel of a fit would take them, to plan its sizes by; no metric is learned."""
    if setup.standardize:
        numbers = np.unique(np.linspace(0, source.shape[0] - 1, SCALED_ROWS).astype(np.intp))
        source = map_rows(source, scaler_of(setup.kernel, SubsetRows(source, numbers)))
    if setup.metric is None:
        return source
    chosen = _checked_metric(setup, source.shape[1])
    if isinstance(chosen, Metric):
        return map_rows(source, chosen)
    return map_rows(source, Metric(matrix=np.eye(source.shape[1]))) if chosen.form == "full" else source


def _checked_metric(setup: FitSetup, d: int) -> Metric | LearnedMetric:
    """Return the metric of d features that is given, or how it is to be learned."""
    chosen, memory_bytes = setup.metric, setup.run.memory_bytes
    if isinstance(chosen, str) and chosen in FORMS:
        chosen = LearnedMetric(chosen)
    if not isinstance(chosen, Metric | LearnedMetric):
        raise InputError(
            f"metric={chosen!r} is unknown. Choose None, 'diagonal' or 'full', or pass a "
            "gramian.LearnedMetric(...) or a gramian.Metric." + did_you_mean(chosen, FORMS)
        )
    if setup.kernel.precomputed or isinstance(setup.kernel.kernel, Precomputed):
        raise InputError(
            "metric is a map of the features of rows; with kernel='precomputed' X has kernel values. "
            "Pass the rows with a kernel's name, or metric=None."
        )
    if setup.frozen:
        raise InputError(
            "metric would map the rows anew for landmarks that are fixed by FrozenEstimator. Map the "
            "rows first, for both: metric.apply(X)."
        )
    if isinstance(chosen, Metric) and chosen.n_features != d:
        raise InputError(
            f"X has {d} features, but metric is of {chosen.n_features}. Give one scale for each feature."
        )
    if isinstance(chosen, LearnedMetric) and chosen.form == "full":
        least = 8 * MATRICES * d * d
        if least > memory_bytes:
            raise BudgetError(
                f"memory_budget={format_bytes(memory_bytes)} is too small to learn metric='full' of {d} "
                f"features: at least {format_bytes(least)} is needed. Raise the budget, or use "
                "metric='diagonal'.",
                least,
            )
    return chosen


def _bandwidth_left_out(own: KernelParameters, n_features: int) -> bool:
    """Return whether the bandwidth is nobody's choice: of a kernel by name, whose gamma is left out."""
    if not isinstance(own.kernel, str) or own.gamma is not None or own.kernel_params:
        return False
    return hasattr(own.resolve(n_features), "lengthscale")


def _sample(rows: LabelledRows[Any], memory_budget: int, most: int, rng: np.random.Generator) -> IntArray:
    """Return the numbers of rows to learn from, in random order."""
    n, d = rows.source.shape
    n_held_out = min(MOST_HELD_OUT, most // 4)
    room = memory_budget // (SAMPLE_PART * 3 * 8 * d)
    count = min(most + n_held_out, n, max(LEAST_ROWS, room))
    if rows.weights is None:
        return rng.choice(n, count, replace=False)
    counted = np.flatnonzero(rows.weights > 0)
    return rng.choice(counted, min(count, len(counted)), replace=False)


def with_metric(evidence: FitFacts, input_: Input, names: Sequence[str] | None = None) -> FitFacts:
    """Return what a model states, with facts and tables about the metric of its input if it has one.

    The facts are its form, the errors before and after, and the features that count most; the tables its
    rounds, and the shares and lengthscales of these features.
    """
    metric, rounds, grids = input_.metric, input_.rounds, list[Grid]()
    if metric is None:
        return evidence
    form = "diagonal" if metric.matrix is None else "full"
    if rounds is None:
        text = f"{form}, given"
    elif not rounds:
        text = f"{form}: too few rows to learn one, so that features stay as they are"
    else:
        place = next(i for i, each in enumerate(rounds) if each.kept)
        errors = f"held-out error {rounds[0].error:.4g} → {rounds[place].error:.4g}"
        if place == 0:
            errors = f"held-out error {rounds[0].error:.4g} without one, which no round lowered"
        undone = sum(bool(each.undone) for each in rounds)
        taken_back = f", {undone} undone" if undone else ""
        text = f"{form}, round {place} of {len(rounds) - 1}{taken_back}: {errors}"
        lines = tuple(
            (
                str(i),
                f"{each.error:.4g}",
                f"{each.power:.3g}",
                f"{each.bandwidth:.3g}",
                f"{each.seconds:.2g}",
                "kept" if each.kept else f"undone: {each.undone}" if each.undone else "",
            )
            for i, each in enumerate(rounds)
        )
        columns = ("round", "held-out error", "power", "bandwidth", "seconds", "")
        grids.append(Grid("Rounds of the metric", columns, lines))
    named = [f"x{j}" for j in range(metric.n_features)] if names is None else [*map(str, names)]
    shares, lengths = metric.importances, metric.lengthscales
    order = np.argsort(-shares, kind="stable")[:MOST_FEATURES]
    note = f"The first {MOST_FEATURES} of {metric.n_features}." if metric.n_features > len(order) else ""
    features = tuple((named[j], f"{shares[j]:.2%}", f"{lengths[j]:.4g}") for j in order)
    grids.append(Grid("Features in the metric", ("feature", "share", "lengthscale"), features, note))
    most = short(", ".join(f"{named[j]} {shares[j]:.1%}" for j in order[:3]))
    return replace(
        evidence, metric=(("metric", text), ("important features", most)), metric_grids=tuple(grids)
    )
