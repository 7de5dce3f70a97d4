"""The page and the figures, from lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gramian._budget import format_bytes
from gramian.exceptions import InputError
from suite.job import LONG_SECONDS
from suite.methods import METHODS
from suite.pictures import frontier, overview
from suite.results import Line, of_sizes
from suite.summary import EQUAL, lost, methods_of, score, sets_of, standings, usual

HEAD = """# Side by side

After this page you know the error, seconds, memory and bytes of each method on the same rows, and where a
peer is better.

Written by `benchmarks/side_by_side.py` from `benchmarks/results/side_by_side.jsonl`; do not edit.

```console
GRAMIAN_DATA=folder python benchmarks/side_by_side.py
python benchmarks/side_by_side.py --quick
```

| what | how |
|---|---|
| settings | {settings} |
| features | scaled to mean 0 and deviation 1 for every method |
| fit | on all training rows, in a fresh process for each size; {threads}; at most {limit:g} s and {memory} |
| error | on the test rows: share of wrong classes, or RMSE over the standard deviation of the targets |
| numbers | medians of {runs} fits with different seeds (of fewer where a fit takes more than {long:g} s) |
| machine | {machine} |
"""
#: How peers and gramian find their settings.
SETTINGS = (
    "searched for {seconds:g} s: peers by random candidates, the usual one first, compared on held-out "
    "training rows (`benchmarks/comparison/equal_time.py`); gramian by its own choice of a kernel and alpha "
    "(`benchmarks/comparison/own_search.py`)"
)


def write_report(lines: list[Line], folder: Path) -> Iterator[Path]:
    """Write the figures and the page into a folder; yield what was written."""
    if not of_sizes(lines):
        raise InputError("there are no results yet: run benchmarks/side_by_side.py without --report first.")
    figures = folder / "figures"
    yield overview(standings(lines), figures)
    for name in sets_of(lines):
        yield frontier(name, lines, figures)
    page = folder / "side-by-side.md"
    page.write_text(text_of(lines), encoding="utf-8")
    yield page


def text_of(lines: list[Line]) -> str:
    """Return the page."""
    parts = [_head(lines), "![Error against cost, all sets](figures/overview.png)\n"]
    parts += ["## All sets together\n", *_standings(lines), ""]
    parts += ["## Where a peer is better\n", *_lost(lines), ""]
    parts += ["## Errors\n", *_errors(lines), ""]
    parts += ["## What failed\n", *_failed(lines), ""]
    parts.append("## Every set\n")
    for name in sets_of(lines):
        parts += [f"### {name}\n", f"![{name}: error against cost](figures/frontier_{name}.png)\n"]
        parts += [*_set(name, lines), ""]
    return "\n".join(parts)


def _head(lines: list[Line]) -> str:
    measured = of_sizes(lines)
    machine = measured[-1]["machine"]
    threads = "one thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return HEAD.format(
        settings=SETTINGS.format(seconds=measured[-1]["search_seconds"]),
        long=LONG_SECONDS,
        limit=machine["limit_seconds"],
        memory=format_bytes(machine["limit_bytes"]),
        runs=max(line["runs"] for line in measured),
        threads=threads,
        machine=f"{measured_on(measured)} {_versions(measured)}",
    )


def measured_on(lines: list[Line]) -> str:
    """Return machines and days, and which methods ran on which machine if there are several."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line["machine"]["processor"], []).append(line)
    told = []
    for processor, own in groups.items():
        days = sorted({line["machine"]["day"] for line in own})
        names = "; ".join(dict.fromkeys(METHODS[line["method"]].name for line in own))
        ran = f" ({names})" if len(groups) > 1 else ""
        told.append(f"{processor}, {' to '.join(dict.fromkeys((days[0], days[-1])))}{ran}")
    if len(groups) > 1:
        told.append("Costs compare within one machine only")
    return f"{'. '.join(told)}."


def _versions(lines: list[Line]) -> str:
    """Return the versions of Python and of the libraries, of gramian the latest."""
    versions = {name: each for line in lines for name, each in line["machine"]["versions"].items()}
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"Python {lines[-1]['machine']['python']}; {listed}"


def _standings(lines: list[Line]) -> Iterator[str]:
    yield (
        "Each method at its usual size. Means over sets where it did not fail: a method with failures, or of "
        "one task alone, has fewer and easier sets.\n"
    )
    yield "| column | meaning |"
    yield "|---|---|"
    yield f"| wins | sets where no other method has an error lower by more than {EQUAL:.0%} |"
    yield "| rank | mean rank, 1 is best |"
    yield "| error x | error over the lowest error of the set, geometric mean |"
    yield "| fit x, predict x, memory x, model x | cost over gramian's, geometric mean; below 1 is better |"
    yield "| memory x | of the memory by which the process grew |\n"
    yield "| method | size | sets | failed | wins | rank | error x | fit x | predict x | memory x | model x |"
    yield "|---" * 11 + "|"
    for one in standings(lines):
        costs = " | ".join(f"{value:.2g}" for value in one.costs.values())
        contender = METHODS[one.method]
        size = f"{contender.size_name} {contender.usual_size}"
        yield (
            f"| {contender.name} | {size} | {one.n_sets} | {one.failures} | {one.wins} | "
            f"{one.rank:.1f} | {one.over_best:.2f} | {costs} |"
        )


def _errors(lines: list[Line]) -> Iterator[str]:
    table = usual(lines)
    for task, title in (("regression", "Regression"), ("classification", "Classification")):
        tasks = {line["set"]: line["task"] for line in of_sizes(lines)}
        sets = [name for name in sets_of(lines) if tasks[name] == task]
        methods = [name for name in methods_of(lines) if task in METHODS[name].tasks]
        if not sets:
            continue
        yield f"{title}, usual sizes; the lowest in bold, with its equals; – failed or was not run.\n"
        yield "| set | " + " | ".join(METHODS[name].name for name in methods) + " |"
        yield "|---" * (len(methods) + 1) + "|"
        for name in sets:
            errors = [score(table.get((name, method), {})) for method in methods]
            yield f"| {name} | " + " | ".join(_bold(error, min(errors)) for error in errors) + " |"
        yield ""


def _bold(error: float, best: float) -> str:
    if not np.isfinite(error):
        return "–"
    return f"**{error:.4f}**" if error <= best * (1.0 + EQUAL) else f"{error:.4f}"


def _lost(lines: list[Line]) -> Iterator[str]:
    yield f"Sets where a peer's error is lower than gramian's by more than {EQUAL:.0%}, at the usual sizes:\n"
    yield "| set | gramian | peers |"
    yield "|---|---|---|"
    for name, ours, better in lost(lines):
        peers = ", ".join(f"{METHODS[method].name} {error:.4f}" for method, error in better)
        yield f"| {name} | {ours:.4f} | {peers} |"


def _failed(lines: list[Line]) -> Iterator[str]:
    failed: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        if "failure" in line:
            reason = str(line["failure"]).splitlines()[0][:200].replace("|", "/")
            name = METHODS[line["method"]].name
            failed.setdefault((name, str(line["size"]), reason), []).append(line["set"])
    yield "| method | size | sets | reason |"
    yield "|---|---|---|---|"
    for (name, size, reason), sets in failed.items():
        yield f"| {name} | {size} | {', '.join(sets)} | {reason} |"


def _set(name: str, lines: list[Line]) -> Iterator[str]:
    yield "| method | size | error | fit s | predict µs a row | peak memory | model |"
    yield "|---|---|---|---|---|---|---|"
    for line in sorted(of_sizes(lines), key=lambda one: list(METHODS).index(one["method"])):
        if line["set"] != name:
            continue
        micro = 1e6 * line["predict_seconds"] / line["n_test"]
        contender = METHODS[line["method"]]
        yield (
            f"| {contender.name} | {contender.size_name} {line['size']} | {line['error']:.4f} | "
            f"{line['fit_seconds']:.2f} | {micro:.2f} | {format_bytes(line['peak_bytes'])} | "
            f"{format_bytes(line['model_bytes'])} |"
        )


def line_text(line: Line) -> str:
    """Return a line for the terminal."""
    where = f"{line['set']:18} {line['method']:16} {line['size']!s:8}"
    if "failure" in line:
        return f"{where} failed: {str(line['failure']).splitlines()[0][:120]}"
    if line["size"] == "search":
        return f"{where} {line['tried']:4} candidates, best {line['error']:.4f} of held-out rows"
    return (
        f"{where} error {line['error']:.4f}  fit {line['fit_seconds']:8.2f} s  predict "
        f"{line['predict_seconds']:7.3f} s  peak {format_bytes(line['peak_bytes'])}"
    )
