"""Errors of gramian and CatBoost by the number of training rows, on the same test rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from comparison import REGRESSION

from suite.machine import describe
from suite.results import Line, append, key, read
from suite.runner import in_fresh_process
from suite.table_job import TableJob
from suite.table_methods import OURS, REFERENCE, TABLE_METHODS
from suite.table_run import DISTRIBUTIONS
from suite.table_sets import split_of

RESULTS = Path(__file__).parents[1] / "results" / "learning_curves.jsonl"
SETS = (
    *("adult", "used_cars_us", "diamonds", "bank_marketing"),
    *("weather_aus", "covtype_100k", "cadata", "ijcnn1"),
)
METHODS = (OURS, REFERENCE)
SIZES = (1_250, 2_500, 5_000, 10_000, 20_000)
KEY = ("set", "method", "size")
ALL = "all"
#: A higher error than with fewer rows counts as a rise if it is this much higher.
RISE = 0.01

HEAD = """## More rows

The first 1,250, 2,500, 5,000, ... of the same training rows, which are in random order, and the same test
rows; defaults, {threads} threads, one split. "All" is the number of training rows in the table above. An
error that is more than {rise:.0%} above the lowest with fewer rows is in bold: gramian has {ours}, CatBoost
{theirs}.

{table}

{origin}
"""


def run_curves(sets: list[str], rows: int, threads: int, limit: float, memory: float) -> Iterator[Line]:
    """Yield the lines that are not stored yet, as they are made and appended."""
    done = {key(line, KEY) for line in read(RESULTS, KEY)}
    machine = describe(threads, DISTRIBUTIONS)
    for name in sets:
        n = len(split_of(name, 0, rows).X)
        # Sizes close to all rows would say the same twice.
        for size in (each for each in SIZES if each < 0.75 * n):
            for method in METHODS:
                line: Line = {"set": name, "method": method, "size": size}
                if key(line, KEY) in done:
                    continue
                job = TableJob(name, method, 0, threads, rows, size)
                line |= in_fresh_process(job, limit=limit, memory=memory) | {"machine": machine}
                append(RESULTS, line)
                yield line


def section(full: list[Line]) -> str:
    """Return the section of a page, "" if nothing is stored; ``full`` are the lines of all training rows."""
    lines = [line for line in read(RESULTS, KEY) if "error" in line]
    if not lines:
        return ""
    lines = [*(line | {"size": ALL} for line in full if "error" in line), *lines]
    errors = {key(line, KEY): error(line) for line in lines}
    sizes: list[int | str] = [*SIZES, ALL]
    rises = dict.fromkeys(METHODS, 0)
    table = [
        f"| set | method | {' | '.join(f'{s:,}' if s != ALL else ALL for s in sizes)} |",
        "|---" * 8 + "|",
    ]
    for name in SETS:
        for method in METHODS:
            cells, least = [], np.inf
            for size in sizes:
                found = errors.get((name, method, size))
                if found is None:
                    cells.append("")
                    continue
                rose = found > (1.0 + RISE) * least
                rises[method] += rose
                cells.append(f"**{found:.4f}**" if rose else f"{found:.4f}")
                least = min(least, found)
            if any(cells):
                table.append(f"| {name} | {TABLE_METHODS[method].name} | {' | '.join(cells)} |")
    machine = lines[-1]["machine"]
    commits = ", ".join(sorted({str(line["machine"]["commit"]) for line in lines}))
    return HEAD.format(
        threads=machine["threads"],
        rise=RISE,
        ours=rises[OURS] or "none",
        theirs=rises[REFERENCE] or "none",
        table="\n".join(table),
        origin=f"Stored run: {machine['processor']}, {machine['day']}, commits {commits}.",
    )


def error(line: Line) -> float:
    """Return the RMSE over the targets' deviation, or the log-loss of a classification."""
    return float(line["error"] if line["task"] == REGRESSION else line["log_loss"])
