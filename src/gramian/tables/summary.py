"""Summary of a table model: its columns, choices and search, and its numeric models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from gramian.estimator.summaries import (
    class_facts,
    evidence_facts,
    kernel_facts,
    phase_grids,
    state_grids,
    warning_texts,
)
from gramian.metric.metric import Metric
from gramian.summary import Grid, Summary, short
from gramian.tables import TableColumns
from gramian.tables.column import Column
from gramian.tables.search import SearchResult
from gramian.tables.target import NONE

#: Number of columns and trials to list, and of columns to name in a line. Chosen by hand.
MOST_LINES, MOST_NAMED = 30, 4
#: Coverage of the interval whose half-width is shown.
COVERAGE = 0.9


def members_of(model: Any) -> list[tuple[float, Any]]:
    """Return the numeric models of a table model, each with its weight in their mean."""
    inner = vars(model.model_)
    if "members_" not in inner:
        return [(1.0, model.model_)]
    return list(zip(inner["weights_"].tolist(), inner["members_"], strict=True))


def summary_of(model: Any) -> Summary:
    """Return the columns and choices of a table model, and sizes and evidence of its numeric models."""
    facts, grids, said = [*tabular_facts(model), *class_facts(model)], [*tabular_grids(model)], []
    if "calibration_" in vars(model.model_):
        found = model.model_.calibration_
        weights = f"{found.slope:.2g} v + {found.bend:.2g} L(v) + {found.logistic:.2g} g"
        weights += f" + {found.boosting:.2g} h" if found.boosting else ""
        facts.append(("log odds", f"{weights} (ridge values v, logistic models g, boosting h)"))
    elif hasattr(model.model_, "boosted_"):
        facts.append(("boosting", f"{model.model_.share_:.2f} of the mean"))
    members = members_of(model)
    for weight, inner in members:
        if len(members) > 1:
            facts.append(("share in the mean", f"{weight:.2f} of"))
        facts += [*kernel_facts(inner), *evidence_facts(inner)]
        grids += [*phase_grids(inner)]
        said += [*warning_texts(inner)]
    grids += [*state_grids(model)]
    return Summary(type(model).__name__, tuple(facts), tuple(grids), tuple(said))


def tabular_facts(model: Any) -> Iterator[tuple[str, str]]:
    """Yield rows and columns, choices, errors, the most important columns, and widths of intervals."""
    held = vars(model)
    columns: TableColumns = held["columns_"]
    yield "trained on", f"{columns.n_rows:,} rows × {len(columns.columns):,} columns"
    counts = Counter(column.kind for column in columns.columns if not column.dropped)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    yield "columns", f"{kinds}: {columns.width:,} numbers a row"
    if columns.notes:
        yield "notes", short(" ".join(columns.notes))
    yield from _chosen(model)
    shares = held.get("feature_importances_")
    if shares is not None:
        order = np.argsort(-shares, kind="stable")[:MOST_NAMED]
        named = (f"{columns.column_names[j]} {shares[j]:.1%}" for j in order)
        yield "important columns", short(", ".join(named))
    yield from _widths(model)


def _chosen(model: Any) -> Iterator[tuple[str, str]]:
    held = vars(model)
    found: SearchResult | None = held.get("search_")
    if found is None:
        return
    setting = found.setting
    yield "scaling", setting.scaling + (", categories with level means" if setting.levels else "")
    metric: Metric | None = vars(members_of(model)[0][1]).get("metric_")
    learned = bool(model._forms()) and found.best is not None
    form = "none" if metric is None or not learned else "diagonal" if metric.matrix is None else "full"
    rounds = held.get("metric_rounds_") or ()
    kept = next((i for i, each in enumerate(rounds) if each.kept), 0)
    further = f", with round {kept} of {len(rounds) - 1} on more rows" if kept else ""
    yield "metric", form + further
    if "target_" in held:
        yield "target", ", ".join(sorted({output.how for output in model.target_.outputs}))
    if found.best is None:
        yield "search", "nothing was compared: usual settings"
        return
    of = "the target's variance" if "target_" in held else "the classes' variance"
    over = "" if found.finished else ", ended by the time limit"
    yield (
        "search",
        f"squared error {found.best.error:.4g} of {of}, fitted to {found.n_rows:,} rows; "
        f"{found.n_judged:,} models in {found.seconds:.3g} s{over}",
    )


def _widths(model: Any) -> Iterator[tuple[str, str]]:
    """Yield half the width of an interval, in the target's units if the target is not transformed."""
    held = vars(model)
    residuals = held.get("residuals_")
    if residuals is None:
        return
    rank = int(np.ceil(round(COVERAGE * (len(residuals) + 1), 9)))
    if rank > len(residuals):
        yield "intervals", f"{len(residuals)} held-out rows are too few for a coverage of {COVERAGE:.0%}"
        return
    texts = []
    if held.get("spread_") is not None:
        yield "intervals", f"their width follows the row, from {len(residuals):,} held-out rows"
        return
    for half, output in zip(np.sort(np.abs(residuals), axis=0)[rank - 1], model.target_.outputs):
        plain = output.how == NONE
        unit = output.scale * output.unit if plain else 1.0
        texts.append(f"± {half * unit:.4g}" + ("" if plain else f" deviations of the {output.how} target"))
    yield "intervals", short(f"{COVERAGE:.0%}: {', '.join(texts)}, from {len(residuals):,} held-out rows")


def tabular_grids(model: Any) -> Iterator[Grid]:
    """Yield the columns with their kinds and importances, and the trials of the search."""
    held = vars(model)
    columns: TableColumns = held["columns_"]
    shares = held.get("feature_importances_", np.zeros(len(columns.columns)))
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
    yield Grid("Columns", ("column", "kind", "numbers", "importance", ""), lines, note)
    found: SearchResult | None = held.get("search_")
    if found is None or not found.trials:
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
        for trial in found.trials[:MOST_LINES]
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
