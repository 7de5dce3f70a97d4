"""Summary of a table model: its columns, choices and search, and its numeric models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator

from gramian._budget import format_bytes, parse_bytes
from gramian._typing import Array, Float64Array
from gramian.compression.plan import AS_ASKED, EXACT, Plan
from gramian.estimator.conformal import held_out_quantile
from gramian.estimator.summaries import Fact, state_grids
from gramian.exceptions import InputError
from gramian.fast.probabilities import Calibration
from gramian.metric.input import Input
from gramian.metric.learning import Round
from gramian.metric.metric import Metric
from gramian.summary import Grid, Summary, short
from gramian.tables import TableColumns, TargetTransform
from gramian.tables.boosting.boosted import Contributions
from gramian.tables.column import Column
from gramian.tables.intervals import CHOSEN
from gramian.tables.ridge_mean import RidgeMean, members_of
from gramian.tables.search import TableSearchResult
from gramian.tables.target import NONE

#: Number of columns and trials to list, and of columns to name in a line. Chosen by hand.
MOST_LINES, MOST_NAMED = 30, 4
#: Coverage of the interval whose half-width is shown.
COVERAGE = 0.9


def summary_of(model: BaseEstimator, classes: Sequence[Fact], *, learned: bool) -> Summary:
    """Return facts and tables of a table model, followed by the evidence of its numeric models.

    classes : facts about these; learned : whether a metric was asked for.
    """
    columns, mean, search = model.columns_, model.model_, getattr(model, "search_", None)
    facts, said = list[Fact](column_facts(columns)), list[str]()
    grids = [column_grid(columns, getattr(model, "feature_importances_", None))]
    if search is not None:
        metric = Input.of(members_of(mean)[0][1]).metric if learned else None
        facts += choice_facts(search, metric, model.metric_rounds_, getattr(model, "target_", None))
        grids += trial_grids(search)
    facts += importance_facts(model)
    if hasattr(model, "residuals_"):
        by_row = model.spread_ is not None
        facts.append(interval_fact(model.residuals_, model.held_weights_, model.target_, by_row=by_row))
    facts += [*classes, *_combined(mean), *_contributed(model)]
    members = members_of(mean)
    for number, (weight, inner) in enumerate(members, 1):
        which = f" of model {number}" if len(members) > 1 else ""
        if which:
            facts.append((f"model {number} of {len(members)}", f"weight {weight:.2f} in their mean"))
        stated = inner._evidence()
        if stated.plan is not None:
            plan = last_plan(stated.plan)
            stated = replace(stated, plan=plan)
            grids.append(replace(plan.phases(), title=f"Phases of the last fit{which}"))
        facts += [*stated.model_facts(), *stated.fit_facts(spent=False)]
        said += stated.warnings
    # Memory and seconds of the whole fit, search included, where they are known.
    if hasattr(model, "memory_budget"):
        facts.append(("budget", format_bytes(parse_bytes(model.memory_budget))))
    if hasattr(model, "fit_seconds_"):
        facts.append(("fit took", f"{model.fit_seconds_:.3g} s"))
    grids += state_grids(model)
    return Summary(type(model).__name__, tuple(facts), tuple(grids), tuple(said))


def last_plan(plan: Plan) -> Plan:
    """Return the plan of the last fit of a table model, with the reason why it was chosen."""
    reasons = {EXACT: "memory and time allow the exact model", AS_ASKED: "as large as memory and time allow"}
    return replace(plan, reason=reasons.get(plan.reason, plan.reason))


def _combined(mean: BaseEstimator) -> Iterator[Fact]:
    """Yield how log odds come from the models' values, or the share of boosting in a mean of numbers."""
    calibration: Calibration | None = getattr(mean, "calibration_", None)
    if calibration is not None:
        terms = (
            (calibration.slope, "v", "values v of the ridge models"),
            (calibration.bend, "L(v)", "their log odds L(v) as means of ±1"),
            (calibration.logistic, "g", "log odds g of logistic models"),
            (calibration.boosting, "h", "log odds h of boosting"),
        )
        there = [each for each in terms if each[0]]
        weights = " + ".join(f"{weight:.2g} {letter}" for weight, letter, _ in there)
        yield "log odds", f"{weights} ({', '.join(meaning for *_, meaning in there)})"
    elif isinstance(mean, RidgeMean) and hasattr(mean, "boosted_"):
        yield "boosting", f"{mean.share_:.2f} of the mean"


def _contributed(model: BaseEstimator) -> Iterator[Fact]:
    """Yield the held-out losses of the kernel models, of boosting and of both, if boosting was tried."""
    parts: Contributions | None = getattr(model, "contributions_", None)
    if parts is None:
        return
    name = "squared error of the variance" if model.scoring is None else f"error by {model.scoring!r}"
    name = "log-loss" if hasattr(model, "classes_") else name
    losses = f"kernel models {parts.kernel:.4g}, boosting {parts.boosting:.4g}, both {parts.both:.4g}"
    said = "kept" if parts.kept else "left out"
    lowered = f"{parts.kernel - parts.both:.2g} ± {parts.error:.2g}"
    alone = (
        "; the kernel models lower it by less than 0.2 % more and are not asked"
        if parts.boosting_alone
        else ""
    )
    yield "contributions", f"held-out {name}: {losses}; boosting {said}, it lowers it by {lowered}{alone}"
    if parts.looks:
        texts = (f"{gain:.2g} ± {error:.2g}" for gain, error, _ in parts.looks)
        large = sum(helps for *_, helps in parts.looks)
        text = f"small kernel models lowered the loss of boosting by {', then '.join(texts)}"
        yield "look before the fit", f"{text}; {large or 'none'} of {len(parts.looks)} fitted large"


def column_facts(columns: TableColumns) -> Iterator[Fact]:
    """Yield rows and columns, their kinds, and notes."""
    yield "trained on", f"{columns.n_rows:,} rows × {len(columns.columns):,} columns"
    counts = Counter(column.kind for column in columns.columns if not column.dropped)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    yield "columns", f"{kinds}: {columns.width:,} numbers a row"
    if columns.notes:
        yield "notes", short(" ".join(columns.notes))


def importance_facts(model: BaseEstimator) -> Iterator[Fact]:
    """Yield the most important columns, if their shares are known, and what the shares are."""
    shares, errors = (getattr(model, f"feature_importances_{name}", None) for name in ("", "std_"))
    if shares is None:
        return
    order = np.argsort(-shares, kind="stable")[:MOST_NAMED]
    spread = [""] * len(shares) if errors is None else [f" ± {100 * error:.1f}" for error in errors]
    named = (f"{model.columns_.column_names[j]} {100 * shares[j]:.1f}{spread[j]} %" for j in order)
    reason = getattr(model, "importances_reason_", "")
    yield "important columns", short(", ".join(named)) + (f"; by the metric: {reason}" if reason else "")


def choice_facts(
    search: TableSearchResult, metric: Metric | None, rounds: Sequence[Round], target: TargetTransform | None
) -> Iterator[Fact]:
    """Yield scaling, metric, transformation of the target, and what the search compared.

    ``metric`` is None where none was learned, ``target`` for classes.
    """
    setting, best = search.setting, search.best
    yield "scaling", setting.scaling + (", categories with level means" if setting.levels else "")
    form = "none" if metric is None or best is None else "diagonal" if metric.matrix is None else "full"
    kept = next((i for i, each in enumerate(rounds) if each.kept), 0)
    further = f", with round {kept} of {len(rounds) - 1} on more rows" if kept else ""
    yield "metric", form + further
    if target is not None:
        yield "target", ", ".join(sorted({output.how for output in target.outputs}))
    if best is None:
        yield "search", "nothing was compared: usual settings"
        return
    of = "the classes' variance" if target is None else "the target's variance"
    over = "" if search.finished else ", ended by the time limit"
    yield (
        "search",
        f"squared error {best.error:.4g} of {of}, fitted to {search.n_rows:,} rows; "
        f"{search.n_judged:,} models in {search.seconds:.3g} s{over}",
    )


def interval_fact(
    residuals: Float64Array, weights: Float64Array | None, target: TargetTransform, *, by_row: bool
) -> Fact:
    """Return half the width of an interval, in the target's units if the target is not transformed.

    ``by_row`` says that the width differs from row to row.
    """
    try:
        halves = held_out_quantile(np.abs(residuals), weights, COVERAGE, "", CHOSEN)
    except InputError:
        return "intervals", f"{len(residuals)} held-out rows are too few for a coverage of {COVERAGE:.0%}"
    if by_row:
        return "intervals", f"their width follows the row, from {len(residuals):,} held-out rows"
    texts = []
    for half, output in zip(halves, target.outputs):
        plain = output.how == NONE
        unit = output.scale * output.unit if plain else 1.0
        texts.append(f"± {half * unit:.4g}" + ("" if plain else f" deviations of the {output.how} target"))
    return "intervals", short(f"{COVERAGE:.0%}: {', '.join(texts)}, from {len(residuals):,} held-out rows")


def column_grid(columns: TableColumns, shares: Array | None) -> Grid:
    """Return the columns with their kinds and importances."""
    shares = np.zeros(len(columns.columns)) if shares is None else shares
    order = np.argsort(-shares, kind="stable")[:MOST_LINES]
    lines = tuple(
        (
            short(columns.columns[j].name, 40),
            columns.columns[j].kind,
            f"{columns.columns[j].width:,}",
            f"{shares[j]:.2%}",
            _remark(columns.columns[j]),
        )
        for j in order
    )
    note = f"The first {MOST_LINES} of {len(columns.columns):,}." if len(columns.columns) > MOST_LINES else ""
    return Grid("Columns", ("column", "kind", "numbers", "importance", ""), lines, note)


def trial_grids(search: TableSearchResult) -> Iterator[Grid]:
    """Yield the trials of a search that compared any."""
    if not search.trials:
        return
    rows = tuple(
        (
            trial.setting.kernel,
            trial.setting.scaling + (", levels" if trial.setting.levels else ""),
            trial.setting.target,
            trial.metric or "none",
            f"{trial.n_rows:,}",
            f"{trial.error:.4g}",
            f"{trial.bandwidth:.3g}",
            f"{trial.alpha:.3g}",
            "chosen" if trial.kept else "",
        )
        for trial in search.trials[:MOST_LINES]
    )
    names = ("kernel", "scaling", "target", "metric", "rows", "error", "bandwidth", "alpha", "")
    yield Grid("Search", names, rows, "Errors of different numbers of rows do not compare.")


def _remark(column: Column) -> str:
    if column.dropped:
        return f"not used: {column.dropped}"
    parts = ["missing values"] if column.missing else []
    if column.categories:
        parts.append(f"{len(column.categories):,} categories")
    return ", ".join([*parts, *column.parts])
