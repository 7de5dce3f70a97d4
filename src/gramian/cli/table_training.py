"""Training of the table model for ``gramian fit``, and its plan."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from typing import Any

import numpy as np

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.approximations.multiresolution import MultiResolution
from gramian.cli.files import all_targets
from gramian.cli.options import AUTO, TABLE_KERNELS, TrainingOptions
from gramian.cli.task import Clock, Outcome, find_task, prepared_target, split_order
from gramian.compression.plan import Plan
from gramian.data.mapped import map_rows
from gramian.data.stored_source import StoredSource
from gramian.data.tables import as_table
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exact.exact import Exact
from gramian.exceptions import AccuracyWarning, BudgetError, InputError, shortened, user_level
from gramian.metric.metric import Metric
from gramian.reporting.judging import REGRESSION
from gramian.ridge.planning import plan_ridge
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.base import SEARCH_MEMORY
from gramian.tables.classifier import TabularClassifier
from gramian.tables.effort import DEFAULT, EFFORTS
from gramian.tables.holdout import HoldOut
from gramian.tables.regressor import TabularRegressor
from gramian.tables.search import n_held_out, round_sizes
from gramian.tables.small_problem import Point
from gramian.tables.training.model_factory import ModelFactory
from gramian.tables.training.time import TimeEstimate

#: Share of the remaining time for the fit that gives the held-out score. The fit on all rows gets the time
#: left after the score; with less than ``LEAST_SHARE`` of the time that fit and score took, it would make a
#: worse model and is left out. Chosen by hand.
SCORE_TIME, LEAST_SHARE = 0.5, 0.25
#: Smallest time limit of a fit; with hardly any time it makes the smallest model.
LEAST_SECONDS = 1e-3
#: Number of important columns, and of notes, that are shown. Chosen by hand.
MOST_NAMED = 5
#: Characters of the notes in an error. Chosen by hand.
MOST_SHOWN = 400


def estimator(task: str, settings: TrainingOptions) -> TabularRegressor | TabularClassifier:
    """Return the unfitted model for the task."""
    kind = TabularRegressor if task == REGRESSION else TabularClassifier
    return kind(
        kernel=settings.kernel,
        metric=None if settings.metric == "none" else settings.metric,
        categorical=settings.categorical or None,
        missing=settings.missing or None,
        time_limit=settings.time_limit,
        memory_budget=settings.memory,
        random_state=settings.seed,
        n_jobs=settings.threads,
        verbose=int(settings.verbose),
    )


def train(
    rows: StoredSource, settings: TrainingOptions, per_row: Mapping[str, Array], clock: Clock, deadline: float
) -> Outcome:
    """Fit to the rows that are not held out and score the others, then fit to all rows.

    per_row : groups, time and sample_weight of the rows, as far as they are given.

    The second fit keeps the kernel, metric, scaling and target transformation that the first one chose; its
    search covers only bandwidth and penalty. If ``deadline``, by ``time.perf_counter``, leaves no time for
    the second fit, the first model is the result.
    """
    timing, table = TimeEstimate(deadline), as_table(rows)
    target = all_targets(rows)
    task, reason = find_task(target, settings.task)
    y = prepared_target(target, task)
    model = estimator(task, settings)
    weights = per_row.get("sample_weight")
    holdout = HoldOut.of(table, per_row.get("groups"), per_row.get("time"))
    outcome = Outcome(model, task, reason, *table.shape)
    if settings.holdout > 0:
        order = split_order(y, task, settings.holdout, settings.seed, weights, holdout)
        used, held = map(np.sort, order)
        began = time.perf_counter()
        _hold_to(model, timing.part(SCORE_TIME))
        model.fit(table.subset(used), y[used], **{name: each[used] for name, each in per_row.items()})
        outcome.unused = unused_columns(model.columns_)
        outcome.judge(y, model.predict(table.subset(held)), used, held, weights)
        if settings.groups is not None:
            outcome.how_held = f", whole groups of {settings.groups!r}"
        if settings.time is not None:
            outcome.how_held = f", the latest by {settings.time!r}"
        searched = search_text(model)
        clock.lap("search and held-out score")
        outcome.on_all_rows = timing.left >= LEAST_SHARE * (time.perf_counter() - began)
    if outcome.on_all_rows:
        if settings.holdout > 0:
            model.set_params(**choice(model))
        _hold_to(model, timing)
        model.fit(table, y, **per_row)
        clock.lap("fit on all rows")
        outcome.unused = unused_columns(model.columns_)
        if settings.holdout == 0:
            searched = search_text(model)
    else:
        warnings.warn(
            f"--time-limit {settings.time_limit:g} left no time for a fit on all rows: the saved model was "
            f"fitted on the {len(used):,} rows that were not held out. Raise the limit, or pass --holdout 0.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    # Restore the requested options, so that a later fit of the loaded model searches again.
    model.set_params(**estimator(task, settings).get_params())
    outcome.facts, outcome.plan = _facts(model, searched), model.plan_
    return outcome


def _hold_to(model: TabularRegressor | TabularClassifier, timing: TimeEstimate) -> None:
    """Give a model the remaining time as its limit."""
    if timing.limited:
        model.set_params(time_limit=max(LEAST_SECONDS, timing.left))


def choice(model: TabularRegressor | TabularClassifier) -> dict[str, Any]:
    """Return the kernel, metric, scaling and target transformation that a model's search chose.

    As parameters of the estimator; empty if there was no time to compare.
    """
    result = model.search_
    kept = next((trial for trial in result.trials if trial.kept), None)
    if kept is None:
        return {}
    chosen: dict[str, Any] = {
        "kernel": kept.setting.kernel,
        "metric": kept.metric,
        "scaling": kept.setting.scaling,
    }
    if result.other is not None:
        # The model is a mean of two, and each has learned its own metric.
        chosen |= {"kernel": (kept.setting.kernel, result.other.point.kernel), "metric": model.metric}
    return chosen | ({"target": kept.setting.target} if isinstance(model, TabularRegressor) else {})


def search_text(model: TabularRegressor | TabularClassifier) -> str:
    """Return the size of a fitted model's search as text."""
    result = model.search_
    return f"{result.n_judged:,} models on up to {result.n_rows:,} rows, {result.seconds:.1f} s"


def unused_columns(columns: TableColumns) -> tuple[str, ...]:
    """Return the names of the columns that are not used; raise if they are most of them."""
    unused = tuple(column.name for column in columns.columns if column.dropped)
    if 2 * len(unused) > len(columns.columns):
        notes = " ".join(note for note in columns.notes if note.endswith("is not used."))
        drops = [f"--drop {quote(name)}" for name in unused]
        raise InputError(
            f"{len(unused):,} of {len(columns.columns):,} columns cannot be used. "
            f"{shortened(notes, MOST_SHOWN)} If the file was read otherwise than meant, pass --sep, "
            f"--missing or --categorical. To leave these columns out, pass {' '.join(drops)}."
        )
    return unused


def columns_facts(columns: TableColumns) -> list[tuple[str, str]]:
    """Return the number of columns of each kind, and the notes on columns."""
    kinds = Counter(column.kind for column in columns.columns if not column.dropped)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    facts = [("columns", f"{counted}, encoded as {columns.width:,} features")]
    notes = columns.notes
    facts += [("", note) for note in notes[:MOST_NAMED]]
    if len(notes) > MOST_NAMED:
        facts.append(("", f"{len(notes) - MOST_NAMED:,} more notes like these."))
    return facts


def _facts(model: TabularRegressor | TabularClassifier, searched: str) -> list[tuple[str, str]]:
    result, setting = model.search_, model.search_.setting
    form = next((trial.metric for trial in result.trials if trial.kept), None) or "no"
    parts = [f"{setting.kernel} kernel with {form} metric"]
    if result.other is not None:
        parts.append(f"averaged with {result.other.point.kernel} kernel")
    parts.append(f"{setting.scaling} scaling")
    if isinstance(model, TabularRegressor):
        parts.append(f"target {'as it is' if setting.target == 'none' else f'by {setting.target}'}")
    facts = [*columns_facts(model.columns_), ("search", searched), ("chosen", ", ".join(parts))]
    names, shares = model.columns_.column_names, model.feature_importances_
    first = np.argsort(-shares, kind="stable")[:MOST_NAMED]
    by = " (by the metric)" if model.importances_reason_ else ""
    facts.append(("importance", ", ".join(f"{names[j]} {shares[j]:.0%}" for j in first) + by))
    plan = model.plan_
    sizes = f", root rank {plan.root_rank:,}, {plan.n_blocks:,} blocks of rank {plan.rank:,}"
    facts.append(("method", plan.method + ("" if plan.method == "exact" else sizes)))
    return facts


def plan(
    table: StoredSource, y: Array, task: str, settings: TrainingOptions
) -> tuple[list[tuple[str, str]], Plan]:
    """Return the encoding of the columns, the planned search, and the plan of the last fit.

    The kernel is the first one that the search would compare, with one bandwidth for all features. If the
    search ends with two kernels, the last fit is made for both.

    Raises ``BudgetError`` if the memory holds no model.
    """
    rng = np.random.default_rng(settings.seed)
    columns = TableColumns.learn(
        table, categorical=settings.categorical or None, missing=settings.missing or None, rng=rng
    )
    unused_columns(columns)  # raises if they are most of them
    rows = EncodedRows(columns, table)
    source = map_rows(rows, Scaling.learn(rows, columns, rng=rng))
    n, d = source.shape
    kernel = TABLE_KERNELS[0] if settings.kernel == AUTO else settings.kernel
    point = Point(kernel, Metric(scales=np.ones(d)), float(d), 0.1)
    sizes = ", ".join(
        f"{size:,}"
        for size in round_sizes(n, parse_bytes(settings.memory) // SEARCH_MEMORY, EFFORTS[DEFAULT])
    )
    facts = [
        *columns_facts(columns),
        ("search", f"rounds of {sizes} rows, scored on {n_held_out(n):,} held-out rows"),
    ]
    targets = (NumberTargets if task == REGRESSION else ClassTargets)(y, n)
    resources = Run(parse_bytes(settings.memory), Engine(settings.threads))
    factory = ModelFactory(LabelledRows(source, targets), point, resources, settings.seed)
    whole = factory.exact_factory()
    options: list[Exact | MultiResolution] = [] if whole is None else [whole.exact_solver()]
    options += factory.approximations
    for approximation in options[:-1]:
        with suppress(BudgetError):
            return facts, plan_ridge(factory.setup(approximation), source, targets.shape[1])
    return facts, plan_ridge(factory.setup(options[-1]), source, targets.shape[1])
