"""The page of large tables with all their rows, and what README says of them, from lines alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gramian.comparison import REGRESSION
from suite.results import Line
from suite.summary import geometric
from suite.table_methods import OURS, REFERENCE, TABLE_METHODS
from suite.table_sets import MIXED
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

Written by `benchmarks/tables.py --full` from `benchmarks/results/tables_full.jsonl`; do not edit. [The other
page](tables-benchmark.md) compares more methods on more sets, of which it draws 5,000 rows.

{sets} sets of 10,000 rows and more; of sets with more than {rows:,} rows so many are drawn, of the others all
are taken. One random split into 80 % to learn from and 20 % to be judged on, every method with its defaults,
{threads} threads, each fit in a process of its own. Errors are RMSE over the deviation of the targets for
regression, log-loss for classes; AUC for two classes. Settings of boosting beside the kernel model were
chosen while adult, bank_marketing and diamonds were looked at, so these three say less than the others.

{table}

{origin}
"""


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
        origin=_origin(lines),
    )


def filled(text: str, lines: list[Line]) -> str:
    """Return a page with the sentence about large tables made anew."""
    block = f"\n\n{_summary(Tables.of(lines))} [Every set](docs/tables-full-size.md).\n\n"
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


def _over(tables: Tables, name: str, method: str = OURS) -> float:
    return _error(tables, name, method) / _error(tables, name, REFERENCE)


def _summary(tables: Tables) -> str:
    """Return where the default loses to CatBoost, and the means over sets with and without categories."""
    names = _measured(tables)
    lost = [name for name in names if _over(tables, name) > 1.0 + LOSS]
    losses = ", ".join(f"{name} ({_over(tables, name):.2f})" for name in lost)
    text = f"Of {len(names)} sets with all their rows (up to {ROWS:,}), both with defaults, "
    text += f"gramian's error is more than {LOSS:.0%} above CatBoost's on {len(lost)}"
    text += f": {losses}. " if lost else ". "
    parts = []
    for mixed, kind in ((True, "with categories"), (False, "of numbers alone")):
        own = [_over(tables, name) for name in names if (tables.facts[name]["kind"] == MIXED) == mixed]
        if own:
            below = sum(each < 1.0 for each in own)
            mean = f"{geometric(own):.3f} of it (geometric mean; below it on {below})"
            parts.append(f"on the {len(own)} {kind} it is {mean}")
    times = [tables.times(name, OURS) for name in names]
    parts.append(f"the fit takes {np.median(times):.1f} times as long in the median")
    rest = "; ".join(parts)
    return f"{text}{rest[0].upper()}{rest[1:]}."


def _table(tables: Tables) -> Iterator[str]:
    titles = [TABLE_METHODS[method].name for method in METHODS]
    yield f"| set | training rows | columns | error of | {' | '.join(titles)} | AUC | seconds to fit |"
    yield "|---" * (6 + len(METHODS)) + "|"
    for name in _measured(tables):
        facts = tables.facts[name]
        errors = [_error(tables, name, method) for method in METHODS]
        best = min(errors)
        cells = [f"**{each:.4f}**" if each == best else f"{each:.4f}" for each in errors]
        two = facts["task"] == "binary"
        areas = [f"{1.0 - tables.mean(name, method)[0]:.4f}" for method in METHODS] if two else []
        seconds = [f"{tables.mean(name, method, 'fit_seconds')[0]:.2g}" for method in METHODS]
        what = "RMSE" if facts["task"] == REGRESSION else "log-loss"
        kind = " with categories" if facts["kind"] == MIXED else ""
        row = [name, f"{facts['n_train']:,}", f"{facts['n_features']}{kind}", what, *cells]
        yield f"| {' | '.join([*row, ', '.join(areas), ', '.join(seconds)])} |"


def _failed(lines: list[Line]) -> str:
    """Return what failed, as a sentence for each."""
    texts = [
        f"{TABLE_METHODS[line['method']].name} failed on {line['set']}: {line['failure']}; it is left out. "
        for line in lines
        if not ok(line) and line["set"] in SETS
    ]
    return "".join(texts)


def _origin(lines: list[Line]) -> str:
    found = list(filter(ok, lines))
    machines = [line["machine"] for line in found]
    versions = {name: number for each in machines for name, number in each["versions"].items()}
    texts = [
        ", ".join(sorted({str(each[key]) for each in machines})) for key in ("processor", "day", "commit")
    ]
    return _failed(lines) + (
        f"Stored run: {texts[0]}, {texts[1]}, commit {texts[2]}; Python {machines[-1]['python']}, "
        f"{', '.join(f'{name} {number}' for name, number in sorted(versions.items()))}."
    )
