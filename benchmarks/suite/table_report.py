"""The page of the tables, from lines alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gramian._budget import format_bytes
from gramian.exceptions import InputError
from suite.results import Line
from suite.table_methods import BOOSTING, OURS, TABLE_METHODS, TUNED
from suite.table_pictures import errors_and_ranks, fit_times
from suite.table_sets import LEAST_OF_CLASS
from suite.table_summary import (
    NO_WORSE,
    Duel,
    Tables,
    bar,
    duels,
    lost,
    not_compared,
    ok,
    places,
    rows_of,
    was_busy,
)

HEAD = """# Tables against boosting

Written by `benchmarks/tables.py` from `benchmarks/results/tables.jsonl`; do not edit.

```console
GRAMIAN_DATA=folder python benchmarks/tables.py
python benchmarks/tables.py --quick
```

{sets} sets, {splits} random splits of each{fewer} into 80 % of the rows to learn from and 20 % to be
judged on, the same for every method; classes are shared out alike. Columns are as the files have them:
categories that a file has coded as numbers are numbers for every method. Each fit runs in a fresh process,
with {threads} threads, {limit:g} s (a search's seconds come on top) and {memory} of address space. Error is
the share of wrong classes, or the RMSE over the standard deviation of the test targets; ± is the standard
error over the splits.{left_out}

{methods}

{machine}
"""


def write_report(lines: list[Line], folder: Path, why: Mapping[str, str]) -> Iterator[Path]:
    """Write the figures and the page into a folder; yield what was written.

    why : set → why boosting wins there, a line of Markdown.
    """
    tables = Tables.of(lines)
    if not tables.facts:
        raise InputError("there are no results yet: run benchmarks/tables.py without --report first.")
    figures = folder / "figures"
    if duels(tables):
        yield errors_and_ranks(tables, figures)
    yield fit_times(tables, figures)
    page = folder / "tables-benchmark.md"
    page.write_text(text_of(lines, why), encoding="utf-8")
    yield page


def text_of(lines: list[Line], why: Mapping[str, str]) -> str:
    """Return the page."""
    tables = Tables.of(lines)
    found = duels(tables)
    parts = [_head(lines, tables)]
    if found:
        parts += ["![Error of each set over boosting's; mean ranks](figures/tables_errors.png)\n"]
        parts += ["## Defaults against defaults\n", *_bar(tables, found), ""]
    parts += ["## All methods\n", *_places(tables), ""]
    parts += ["## Errors\n", *_errors(tables, found), ""]
    parts += ["## Time to fit\n", *_times(tables), ""]
    parts += ["## Where boosting is better\n", *_lost(tables, why), ""]
    parts += ["## What failed\n", *_failed(lines)]
    return "\n".join(parts) + "\n"


def _head(lines: list[Line], tables: Tables) -> str:
    machine = [line for line in lines if ok(line)][-1]["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(machine["versions"].items()))
    left_out = [
        f"{name} {facts['classes_left_out']} with {facts['rows_left_out']} rows in all"
        for name, facts in tables.facts.items()
        if facts["classes_left_out"]
    ]
    busy = sum(map(was_busy, lines))
    other_work = (
        f"\n\nThe machine had other work when {busy} of the {len(lines)} fits began: their seconds are too "
        "long."
        if busy
        else ""
    )
    methods = tables.methods
    counts = {name: max(len(tables.splits(name, each)) for each in methods) for name in tables.facts}
    most = max(counts.values())
    fewer = [f"{name} {count}" for name, count in counts.items() if count < most]
    return HEAD.format(
        sets=len(tables.facts),
        splits=most,
        fewer=f" (of {', '.join(fewer)})" if fewer else "",
        threads=machine["threads"],
        limit=machine["limit_seconds"],
        memory=format_bytes(machine["limit_bytes"]),
        left_out=f" Classes with fewer than {LEAST_OF_CLASS} rows are left out: {', '.join(left_out)}."
        if left_out
        else "",
        methods="\n".join(
            f"- **{TABLE_METHODS[method].name}**: {TABLE_METHODS[method].about}" for method in tables.methods
        ),
        machine=f"{machine['processor']}; Python {machine['python']}; {versions}; {machine['day']}."
        + other_work,
    )


def _bar(tables: Tables, found: list[Duel]) -> Iterator[str]:
    yield "| gramian against HistGradientBoosting, both with defaults | wanted | measured | |"
    yield "|---|---|---|---|"
    for part in bar(found):
        yield f"| {part.text} | {part.wanted} | {part.measured} | {'met' if part.met else '**not met**'} |"
    sure = [duel for duel in found if duel.spread < abs(duel.difference) / 2.0]
    fewer, more = sum(duel.difference < 0 for duel in sure), sum(duel.difference > 0 for duel in sure)
    yield (
        f"\nBy more than two standard errors of the paired differences gramian is better on {fewer} sets and "
        f"worse on {more}; on the other {len(found) - len(sure)} the splits do not tell."
    )
    for name in not_compared(tables):
        yield f"\n{name} is not counted: HistGradientBoosting with defaults failed there."


def _places(tables: Tables) -> Iterator[str]:
    yield (
        f'"Wins": sets where no other has an error lower by more than {NO_WORSE:.1%}. "Rank": mean; a '
        "failure takes the last place. The other columns are over HistGradientBoosting with defaults, below "
        "1 is better than it: geometric means over the sets where both succeeded. The peak is what the "
        "process grew by during the fit.\n"
    )
    yield "| method | sets | failed | wins | rank | error x | fit x | predict x | memory x | model x |"
    yield "|---" * 10 + "|"
    for place in places(tables):
        costs = " | ".join(_number(value, ".2g") for value in place.costs.values())
        yield (
            f"| {TABLE_METHODS[place.method].name} | {place.n_sets} | {place.failures} | {place.wins} | "
            f"{place.rank:.2f} | {_number(place.error, '.3f')} | {costs} |"
        )


def _errors(tables: Tables, found: list[Duel]) -> Iterator[str]:
    methods = tables.methods
    yield (
        "Means of the splits; the lowest in bold, with its equals; – failed; an empty cell was not run. "
        "The last column is gramian's error over that of HistGradientBoosting with defaults, less 1, split "
        "by split.\n"
    )
    names = " | ".join(TABLE_METHODS[method].name for method in methods)
    yield f"| set | rows | columns | {names} | over HistGB |"
    yield "|---" * (len(methods) + 4) + "|"
    differences = {duel.set: duel for duel in found}
    for task in ("regression", "classification"):
        for name, facts in tables.facts.items():
            if facts["task"] != task:
                continue
            errors = [tables.error(name, method) for method in methods]
            known = [error for error, _ in errors if np.isfinite(error)]
            cells = " | ".join(_error(error, spread, min(known, default=0.0)) for error, spread in errors)
            duel = differences.get(name)
            last = "" if duel is None else _difference(duel)
            yield f"| {name} | {rows_of(facts):,} | {facts['n_features']} | {cells} | {last} |"


def _error(error: float, spread: float, best: float) -> str:
    if np.isnan(error):
        return ""
    if not np.isfinite(error):
        return "–"
    text = f"**{error:.4f}**" if error <= best * (1.0 + NO_WORSE) else f"{error:.4f}"
    return text if np.isnan(spread) else f"{text} ± {spread:.4f}"


def _difference(duel: Duel) -> str:
    if not np.isfinite(duel.ours):
        return "failed"
    text = f"{duel.difference:+.1%}"
    return text if np.isnan(duel.spread) else f"{text} ± {duel.spread:.1%}"


def _times(tables: Tables) -> Iterator[str]:
    methods = [name for name in tables.methods if name != BOOSTING]
    yield "![Fit time over boosting's, by rows](figures/tables_time.png)\n"
    yield "Seconds of HistGradientBoosting with defaults, and of the others over it: medians of the splits.\n"
    names = " | ".join(f"{TABLE_METHODS[method].name} x" for method in methods)
    yield f"| set | {TABLE_METHODS[BOOSTING].name} s | {names} |"
    yield "|---" * (len(methods) + 2) + "|"
    for name in tables.facts:
        seconds = [line["fit_seconds"] for line in tables.splits(name, BOOSTING).values() if ok(line)]
        mine = _number(float(np.median(seconds)) if seconds else float("nan"), ".2f")
        times = " | ".join(_number(tables.times(name, method), ".3g") for method in methods)
        yield f"| {name} | {mine} | {times} |"


def _lost(tables: Tables, why: Mapping[str, str]) -> Iterator[str]:
    if OURS not in tables.methods:
        yield "gramian was not run."
        return
    found = lost(tables, (BOOSTING, TUNED))
    yield f"Sets where an error of boosting is lower than gramian's by more than {NO_WORSE:.1%}:\n"
    for name, ours, better in found:
        theirs = ", ".join(f"{TABLE_METHODS[method].name} {error:.4f}" for method, error in better)
        mine = f"{ours:.4f}" if np.isfinite(ours) else "failed"
        reason = f" {why[name]}" if name in why else ""
        yield f"- **{name}**: {theirs}; gramian {mine}.{reason}"
    if not found:
        yield "- none"


def _failed(lines: list[Line]) -> Iterator[str]:
    failures: dict[tuple[str, str, str], list[int]] = {}
    for line in lines:
        if not ok(line):
            reason = str(line.get("failure", "an error that is not finite")).splitlines()[0][:200]
            name = TABLE_METHODS[line["method"]].name
            failures.setdefault((line["set"], name, reason.replace("|", "/")), []).append(line["split"])
    for (name, method, reason), splits in failures.items():
        yield f"- {name}, {method}, of split {', '.join(map(str, sorted(splits)))}: {reason}"
    if not failures:
        yield "- nothing"


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "–"


def line_text(line: Line) -> str:
    """Return a line for the terminal."""
    where = f"{line['set']:18} {line['split']} {line['method']:16}"
    if "failure" in line:
        return f"{where} failed: {str(line['failure']).splitlines()[0][:120]}"
    return (
        f"{where} error {line['error']:.4f}  fit {line['fit_seconds']:8.2f} s  predict "
        f"{line['predict_seconds']:7.3f} s  peak {format_bytes(line['peak_bytes'])}"
    )
