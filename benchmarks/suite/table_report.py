"""The page of the tables, from lines alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gramian._budget import format_bytes
from gramian.exceptions import InputError
from suite.results import Line
from suite.table_methods import BEST, FAST, INSTANT, OURS, REFERENCE, TABLE_METHODS
from suite.table_pictures import costs, errors_and_ranks, fit_times, overview
from suite.table_sets import BINARY, LEAST_OF_CLASS, MULTICLASS, REGRESSION
from suite.table_summary import NO_WORSE, Place, Tables, bar, kinds, lost, ok, places, rows_of, was_busy

#: Where another page shows the ranks.
MARKED = re.compile(r"(<!-- measured: tables -->).*?(<!-- end -->)", re.DOTALL)

#: What judges a table in ranks and ratios.
ERRORS = "The error is RMSE over the targets' deviation, 1 − AUC of two classes, log-loss of more"

HEAD = """# Tables beside boosting, forests, kernels and linear models

{summary}

![Error of each set over CatBoost's; mean ranks](figures/tables_errors.png)

Written by `benchmarks/tables.py` from `benchmarks/results/tables.jsonl`; do not edit.

```console
make peers
GRAMIAN_DATA=folder build/peers/bin/python benchmarks/tables.py
```

{sets} sets, {splits} random split{s} of each{fewer} into 80 % of the rows to learn from and 20 % to be
judged on, the same for every method; classes are shared out alike.{drawn} Each fit runs in a process of its
own with {threads} thread{t}, {limit:g} s and {memory} of address space. Errors are what TabArena judges by:
RMSE (here over the standard deviation of the test targets), 1 − AUC for two classes, log-loss for more; ± is
the standard error over the splits.{left_out}

{methods}

{machine}
"""

PLACES = """\
"Wins": sets where no other has an error lower by more than {no_worse:.1%}. "Rank": mean; a failure takes the
last place. Elo: from wins of pairs, CatBoost has 1000, with the 95 % interval over drawings of the sets. The
other columns are over CatBoost with defaults, below 1 is better than it: geometric means over the sets where
both succeeded. The peak is what the process grew by during the fit. Tuned methods, other forms of the same
library and those run on fewer sets have no rank.
"""

#: Headings of the tables of errors by task.
TASKS = {
    REGRESSION: "Regression: RMSE over the deviation of the targets",
    BINARY: "Two classes: 1 − AUC",
    MULTICLASS: "More classes: log-loss",
}


def write_report(lines: list[Line], folder: Path) -> Iterator[Path]:
    """Write the figures and the page into a folder; yield what was written."""
    tables = Tables.of(lines)
    if not tables.facts:
        raise InputError("there are no results yet: run benchmarks/tables.py without --report first.")
    figures = folder / "figures"
    yield overview(tables, figures)
    yield costs(tables, figures)
    yield errors_and_ranks(tables, figures)
    yield fit_times(tables, figures)
    page = folder / "tables-benchmark.md"
    page.write_text(text_of(lines), encoding="utf-8")
    yield page


def filled(text: str, lines: list[Line], docs: str = "docs/") -> str:
    """Return a page with the sentences about the tables made anew; ``docs`` is the way to the pages."""
    tables = Tables.of(lines)
    ok_lines = [line for line in lines if ok(line)]
    # Named sets: without Elo, which takes a while.
    found = {place.method: place for place in places(tables, list(tables.facts))}
    sentences = [_summary(tables).replace("(#where", f"({docs}tables-benchmark.md#where")]
    if OURS in found:
        costs = "; ".join(_cost_phrases(found))
        sentences.append(
            "Error, training time and prediction time over CatBoost's, in the geometric mean of the sets: "
            f"{costs}."
        )
        if (
            len({line["machine"]["processor"] for line in ok_lines if line["method"] in (OURS, REFERENCE)})
            > 1
        ):
            sentences.append("The two ran on different processors, so the ratios of times are rough.")
    sentences.append(
        f"Measured by `python benchmarks/tables.py` on {len(tables.facts)} sets: "
        f"[every set, method and condition]({docs}tables-benchmark.md)."
    )
    block = "\n\n" + " ".join(sentences).replace("\n", " ") + "\n\n"
    return MARKED.sub(lambda found: found[1] + block + found[2], text)


def _cost_phrases(found: Mapping[str, Place]) -> Iterator[str]:
    """Yield error, training and prediction time of each effort and of LightGBM over CatBoost's."""
    for method in (OURS, FAST, INSTANT, "lightgbm"):
        if method in found:
            place = found[method]
            costs = [_number(place.costs[cost], ".2g") for cost in ("fit_seconds", "predict_seconds")]
            yield f"{TABLE_METHODS[method].name} {place.error:.3f}, {costs[0]} and {costs[1]}"


def origins(lines: list[Line]) -> str:
    """Return which methods ran on which processor, on which days and at which commits."""
    groups: dict[str, list[Line]] = {}
    for line in filter(ok, lines):
        groups.setdefault(line["machine"]["processor"], []).append(line)
    texts = []
    for processor, own in sorted(groups.items(), key=lambda group: len(group[1])):
        commits = sorted({str(line["machine"]["commit"]) for line in own})
        names = sorted({TABLE_METHODS[line["method"]].name for line in own})
        who = f"{', '.join(names)} on " if len(groups) > 1 else ""
        days = sorted({line["machine"]["day"] for line in own})
        texts.append(f"{who}{processor}, {' and '.join(days)}, commits {', '.join(commits)}")
    return "; ".join(texts)


def made_by(lines: list[Line]) -> str:
    """Return the versions that made the lines, and which methods ran where and when."""
    machine = [line for line in lines if ok(line)][-1]["machine"]
    # Peers stay as they were measured, so the last day tells gramian's version.
    by_day = sorted(lines, key=lambda line: str(line["machine"]["day"]))
    versions = {name: number for line in by_day for name, number in line["machine"]["versions"].items()}
    texts = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return f"Python {machine['python']}; {texts}. Stored run: {origins(lines)}."


def text_of(lines: list[Line]) -> str:
    """Return the page."""
    tables = Tables.of(lines)
    parts = [_head(lines, tables)]
    parts += ["## What was to be reached\n", *_bar(tables), ""]
    parts += ["## All methods\n", *_places(tables), ""]
    parts += ["## By kind of set\n", *_kinds(tables), ""]
    for task, heading in TASKS.items():
        if tables.of_task(task):
            parts += [f"## {heading}\n", *_errors(tables, task, "error"), ""]
    if tables.of_task(BINARY):
        parts += ["## Two classes: log-loss\n", *_errors(tables, BINARY, "log_loss"), ""]
    parts += ["## Where another is better\n", *_lost(tables), ""]
    parts += ["## Time to fit\n", *_times(tables), ""]
    parts += ["## What failed\n", *failed(lines)]
    return "\n".join(parts) + "\n"


def _summary(tables: Tables) -> str:
    """Return what the page begins with: where the default loses, then won sets by task, and the ranks."""
    texts = _below(tables, OURS)
    found = places(tables, list(tables.facts))
    ranks = {place.method: place.rank for place in found if np.isfinite(place.rank)}
    if not texts or OURS not in ranks:
        return "gramian or CatBoost was not run."
    sentences = []
    ours = lost(tables)[:3]
    if ours:
        worst = _listed([f"{name} ({TABLE_METHODS[better[0][0]].name})" for name, _, better in ours])
        sentences.append(
            f"gramian loses by most on {worst}: [where another is better](#where-another-is-better)."
        )
    sentences.append(f"{ERRORS}; {conditions(tables)}.")
    sentences.append(f"Its error is lower than CatBoost's on {_listed(texts)}.")
    first = min(ranks, key=lambda method: ranks[method])
    best = "" if first == OURS else f"; the best is {TABLE_METHODS[first].name}'s, {ranks[first]:.2f}"
    sentences.append(
        f"Its mean rank by these errors among {len(ranks)} methods is {ranks[OURS]:.2f}, CatBoost's "
        f"{ranks[REFERENCE]:.2f}{best}."
    )
    if of_best := _below(tables, BEST):
        sentences.append(f'With `effort="best"` its error is lower on {_listed(of_best)}.')
    return "\n".join(sentences)


def _listed(names: list[str]) -> str:
    """Return names with commas, and "and" before the last."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def conditions(tables: Tables) -> str:
    """Return defaults, splits, rows and threads of the run."""
    splits = max(len(tables.splits(name, each)) for name in tables.facts for each in tables.methods)
    threads = next(iter(tables.facts.values()))["machine"]["threads"]
    drawn = _drawn(tables)
    cap = f", at most {drawn:,} rows of a set" if drawn else ""
    return f"defaults on both sides, {counted(splits, 'split')}{cap}, {counted(threads, 'thread')}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, one or several."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _drawn(tables: Tables) -> int:
    """Return how many rows were drawn of larger sets, 0 if there are none."""
    sets = tables.facts.values()
    larger = (each for each in sets if each["n_rows"] > rows_of(each) + each["rows_left_out"])
    return max((each["most_rows"] or 0 for each in larger), default=0)


def _below(tables: Tables, method: str) -> list[str]:
    """Return for each task on how many sets a method has a lower error than CatBoost."""
    texts = []
    for task, name in (
        (REGRESSION, "regressions"),
        (BINARY, "two-class sets"),
        (MULTICLASS, "multiclass sets"),
    ):
        shares = [tables.over(each, method) for each in tables.of_task(task)]
        shares = [share for share in shares if np.isfinite(share)]
        if shares:
            texts.append(f"{sum(share < 1.0 for share in shares)} of {len(shares)} {name}")
    return texts


def _head(lines: list[Line], tables: Tables) -> str:
    machine = [line for line in lines if ok(line)][-1]["machine"]
    left_out = [
        f"{name} {facts['classes_left_out']} with {facts['rows_left_out']} rows in all"
        for name, facts in tables.facts.items()
        if facts["classes_left_out"]
    ]
    busy = sum(map(was_busy, lines))
    counts = {name: max(len(tables.splits(name, each)) for each in tables.methods) for name in tables.facts}
    most = max(counts.values())
    fewer = [f"{name} {count}" for name, count in counts.items() if count < most]
    threads = machine["threads"]
    return HEAD.format(
        summary=_summary(tables),
        sets=len(tables.facts),
        splits=most,
        s="" if most == 1 else "s",
        fewer=f" (of {', '.join(fewer)})" if fewer else "",
        drawn=f" Of larger sets {drawn:,} rows are drawn." if (drawn := _drawn(tables)) else "",
        threads=threads,
        t="" if threads == 1 else "s",
        limit=machine["limit_seconds"],
        memory=format_bytes(machine["limit_bytes"]),
        left_out=f" Classes with fewer than {LEAST_OF_CLASS} rows are left out: {', '.join(left_out)}."
        if left_out
        else "",
        methods="\n".join(
            f"- **{TABLE_METHODS[method].name}**: {TABLE_METHODS[method].about}" for method in tables.methods
        ),
        machine=made_by(lines)
        + (
            f" The machine had other work when {busy} of the {len(lines)} fits began: their seconds are too "
            "long."
            if busy
            else ""
        ),
    )


def _bar(tables: Tables) -> Iterator[str]:
    yield "| gramian and CatBoost, both with defaults | wanted | measured | |"
    yield "|---|---|---|---|"
    for part in bar(tables):
        yield f"| {part.text} | {part.wanted} | {part.measured} | {'met' if part.met else '**not met**'} |"


def _places(tables: Tables) -> Iterator[str]:
    yield PLACES.format(no_worse=NO_WORSE)
    names = ("method", "sets", "failed", "wins", "rank", "Elo", "error x", "log-loss x")
    yield f"| {' | '.join((*names, 'fit x', 'predict x', 'memory x', 'model x'))} |"
    yield "|---" * 12 + "|"
    for place in places(tables):
        costs = " | ".join(_number(value, ".2g") for value in place.costs.values())
        rank = f"{place.wins} | {place.rank:.2f}" if np.isfinite(place.rank) else " | "
        rating = (
            ""
            if place.elo is None
            else f"{place.elo.value:.0f} ({place.elo.low:.0f} to {place.elo.high:.0f})"
        )
        yield (
            f"| {TABLE_METHODS[place.method].name} | {place.n_sets} | {place.failures} | {rank} | {rating} | "
            f"{_number(place.error, '.3f')} | {_number(place.log_loss, '.3f')} | {costs} |"
        )


def _kinds(tables: Tables) -> Iterator[str]:
    methods = tables.ranked
    yield "Mean ranks, and on how many sets gramian's error is below CatBoost's.\n"
    yield f"| sets | below CatBoost | {' | '.join(TABLE_METHODS[method].name for method in methods)} |"
    yield "|---" * (len(methods) + 2) + "|"
    for name, sets in kinds(tables).items():
        if not sets:
            continue
        ranks = {place.method: place.rank for place in places(tables, sets)}
        shares = [tables.over(each, OURS) for each in sets]
        shares = [share for share in shares if np.isfinite(share)]
        best = min((rank for rank in ranks.values() if np.isfinite(rank)), default=0.0)
        cells = " | ".join(
            f"**{ranks[method]:.2f}**"
            if ranks.get(method) == best
            else _number(ranks.get(method, np.nan), ".2f")
            for method in methods
        )
        yield f"| {name} ({len(sets)}) | {sum(share < 1.0 for share in shares)} of {len(shares)} | {cells} |"


def _errors(tables: Tables, task: str, measure: str) -> Iterator[str]:
    methods = tables.methods
    yield "Means of the splits; the lowest in bold, with its equals; – failed; an empty cell was not run.\n"
    names = " | ".join(TABLE_METHODS[method].name for method in methods)
    yield f"| set | rows | columns | {names} |"
    yield "|---" * (len(methods) + 3) + "|"
    for name in tables.of_task(task):
        facts = tables.facts[name]
        found = [tables.mean(name, method, measure) for method in methods]
        known = [value for value, _ in found if np.isfinite(value)]
        cells = " | ".join(_error(value, spread, min(known, default=0.0)) for value, spread in found)
        yield f"| {name} | {rows_of(facts):,} | {facts['n_features']} | {cells} |"


def _error(error: float, spread: float, best: float) -> str:
    if np.isnan(error):
        return ""
    if not np.isfinite(error):
        return "–"
    text = f"**{error:.4f}**" if error <= best * (1.0 + NO_WORSE) else f"{error:.4f}"
    return text if np.isnan(spread) else f"{text} ± {spread:.4f}"


def _times(tables: Tables) -> Iterator[str]:
    methods = [name for name in tables.methods if name != REFERENCE]
    yield "![Fit time over CatBoost's, by rows](figures/tables_time.png)\n"
    yield "Seconds of CatBoost with defaults, and of the others over it: medians of the splits.\n"
    names = " | ".join(f"{TABLE_METHODS[method].name} x" for method in methods)
    yield f"| set | {TABLE_METHODS[REFERENCE].name} s | {names} |"
    yield "|---" * (len(methods) + 2) + "|"
    for name in tables.facts:
        seconds = [line["fit_seconds"] for line in tables.splits(name, REFERENCE).values() if ok(line)]
        mine = _number(float(np.median(seconds)) if seconds else float("nan"), ".2f")
        times = " | ".join(_number(tables.times(name, method), ".2g") for method in methods)
        yield f"| {name} | {mine} | {times} |"


def _lost(tables: Tables) -> Iterator[str]:
    if OURS not in tables.methods:
        yield "gramian was not run."
        return
    yield (
        f"Sets where an error is lower than gramian's by more than {NO_WORSE:.1%}, largest ratios first, "
        "with the three lowest errors.\n"
    )
    for name, ours, better in lost(tables):
        theirs = ", ".join(f"{TABLE_METHODS[method].name} {error:.4f}" for method, error in better)
        mine = f"{ours:.4f}" if np.isfinite(ours) else "failed"
        yield f"- **{name}**: {theirs}; gramian {mine}."


def failed(lines: list[Line]) -> Iterator[str]:
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
