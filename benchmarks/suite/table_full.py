"""The page of large tables with all their rows, and what README says of them, from lines alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from comparison import REGRESSION

from suite.results import Line
from suite.summary import geometric
from suite.table_curves import section
from suite.table_methods import OURS, REFERENCE, TABLE_METHODS
from suite.table_report import counted, failed, made_by
from suite.table_sets import BINARY, MIXED
from suite.table_summary import Tables, ok

#: Sets of 10,000 rows and more, those with categories first; rows drawn of a larger one; the methods.
SETS = (
    *("adult", "used_cars_us", "diamonds", "bank_marketing", "online_shoppers", "credit_default"),
    *("bank_additional", "weather_aus", "connect4"),
    *("covtype_100k", "cadata", "census_house16H", "ijcnn1", "a9a", "letter"),
)
ROWS, METHODS = 50_000, (OURS, REFERENCE, "lightgbm")
#: Where README shows the result.
MARKED = re.compile(r"(<!-- measured: tables at full size -->).*?(<!-- end -->)", re.DOTALL)
#: An error that is this much above CatBoost's is a loss.
LOSS = 0.03

HEAD = """# Tables at full size

{summary}

Written by `benchmarks/tables.py --full` from `benchmarks/results/tables_full.jsonl`; do not edit. [Another
page](tables-benchmark.md) compares more methods on more sets, with at most 5,000 rows of each.

The {sets} sets have 10,000 rows or more. Of a set with more than {rows:,} rows, {rows:,} are drawn at random;
the others are used whole. Every method has its defaults and {threads} threads, learns from the same 80 % of
the rows and is judged on the others, and each fit has a process of its own. The error of a regression is the
RMSE divided by the standard deviation of the targets, that of a classification the log-loss; sets of two
classes have their AUC too. The settings of boosting beside the kernel model were chosen while adult,
bank_marketing and diamonds were looked at, so these three say less than the others. A set on which a method
failed is left out.

{table}

{origin}

{curves}## What failed

{failed}
"""


def write_report(lines: list[Line], folder: Path) -> Iterator[Path]:
    """Write the page into a folder; yield what was written."""
    page = folder / "tables-full-size.md"
    page.write_text(page_of(lines), encoding="utf-8")
    yield page


def page_of(lines: list[Line]) -> str:
    """Return the page."""
    tables = Tables.of(lines)
    machine = next(line for line in reversed(lines) if ok(line))["machine"]
    return HEAD.format(
        summary=_summary(tables),
        sets=len(_measured(tables)),
        rows=ROWS,
        threads=machine["threads"],
        table="\n".join(_table(tables)),
        origin=made_by(lines),
        curves=section(lines) and f"{section(lines)}\n",
        failed="\n".join(failed(lines)),
    )


def filled(text: str, lines: list[Line], docs: str = "docs/") -> str:
    """Return a page with the sentences about large tables made anew; ``docs`` is the way to the pages."""
    summary = _summary(Tables.of(lines)).replace("\n", " ")
    block = f"\n\n{summary} [Every set]({docs}tables-full-size.md).\n\n"
    return MARKED.sub(lambda found: found[1] + block + found[2], text)


def _measured(tables: Tables) -> list[str]:
    """Name the sets on which every method has a result."""
    return [
        name
        for name in SETS
        if all(tables.splits(name, each) and np.isfinite(tables.mean(name, each)[0]) for each in METHODS)
    ]


def _error(tables: Tables, name: str, method: str) -> float:
    measure = "error" if tables.facts[name]["task"] == REGRESSION else "log_loss"
    return tables.mean(name, method, measure)[0]


def _over(tables: Tables, name: str) -> float:
    """Return gramian's error over CatBoost's, without what ``Tables.over`` adds to errors near 0."""
    return _error(tables, name, OURS) / _error(tables, name, REFERENCE)


def _summary(tables: Tables) -> str:
    """Return where the default loses to CatBoost, and the means over sets with and without categories."""
    names = _measured(tables)
    lost = [name for name in names if _over(tables, name) > 1.0 + LOSS]
    losses = ", ".join(f"{name} ({_over(tables, name):.2f})" for name in lost)
    threads = counted(tables.facts[names[0]]["machine"]["threads"], "thread")
    sentences = [
        f"On {len(names)} sets with all their rows (up to {ROWS:,}), gramian's error is more than {LOSS:.0%} "
        f"above CatBoost's on {len(lost)}{f': {losses}' if lost else ''}.",
        "The error is RMSE over the targets' deviation, or log-loss; defaults on both sides, 1 split, "
        f"{threads}.",
    ]
    for mixed, kind in ((True, "with categories"), (False, "of numbers alone")):
        own = [_over(tables, name) for name in names if (tables.facts[name]["kind"] == MIXED) == mixed]
        if own:
            below = sum(each < 1.0 for each in own)
            mean = f"{geometric(own):.3f} times CatBoost's in the geometric mean, and lower on {below}"
            sentences.append(f"On the {len(own)} {kind} it is {mean}.")
    times = [tables.times(name, OURS) for name in names]
    sentences.append(f"Training takes {np.median(times):.1f} times as long in the median.")
    return "\n".join(sentences)


def _table(tables: Tables) -> Iterator[str]:
    titles = [TABLE_METHODS[method].name for method in METHODS]
    yield f"| set | training rows | columns | error of | {' | '.join(titles)} | AUC | seconds to fit |"
    yield "|---" * (6 + len(METHODS)) + "|"
    for name in _measured(tables):
        facts = tables.facts[name]
        errors = [_error(tables, name, method) for method in METHODS]
        best = min(errors)
        cells = [f"**{each:.4f}**" if each == best else f"{each:.4f}" for each in errors]
        two = METHODS if facts["task"] == BINARY else ()
        areas = [f"{1.0 - tables.mean(name, method)[0]:.4f}" for method in two]
        seconds = [f"{tables.mean(name, method, 'fit_seconds')[0]:.2g}" for method in METHODS]
        what = "RMSE" if facts["task"] == REGRESSION else "log-loss"
        kind = " with categories" if facts["kind"] == MIXED else ""
        row = [name, f"{facts['n_train']:,}", f"{facts['n_features']}{kind}", what, *cells]
        yield f"| {' | '.join([*row, ', '.join(areas), ', '.join(seconds)])} |"
