"""The demo: a table with categories, a slow model made fast, and two million rows in little memory.

``python -m gramian.demo`` prints what each part did and writes it as a page with pictures, ``demo.html``.
Models that are measured run in processes of their own, so that their memory is their own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from gramian._budget import parse_bytes
from gramian.demo import flats, forest, island, page
from gramian.demo.results import Result, in_own_process, say, table
from gramian.exceptions import GramianError, InputError, MissingPackageError

LEAST_ROWS = 500


def main(rows: int = 2_000_000, memory: str = "300MB", out: Path = Path("demo-output")) -> None:
    """Run the demo and print what it finds.

    Parameters
    ----------
    rows : measurements of the island to make; flats too, 10,000 at most.
    memory : of gramian's processes, such as ``"300MB"``: for the island the whole process, for the table the
        working memory of the fit.
    out : folder for the rows (12 bytes each), the script that learns them and the page ``demo.html``. It is
        made if it does not exist.

    Time under a minute on two cores with two million rows.

    Errors: ``InputError`` for fewer than 500 rows or a budget that is no size, ``GramianError`` where a
    model's process ends early (its own message comes first).
    """
    if rows < LEAST_ROWS:
        raise InputError(f"rows={rows} is too few: the demo needs at least {LEAST_ROWS}.")
    parse_bytes(memory)  # report a mistyped budget before the rows are made
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    parts = [_show_table(rows, memory, out), _show_forest(out), _show_island(rows, memory, out)]
    try:
        parts[-1].pictures = island.pictures(out)
        say(f"\nThe same with pictures: {page.write(out / 'demo.html', parts)}")
    except MissingPackageError as missing:
        say(f"\nNo page with pictures: {missing}")
    say(f"Done in {_since(began)}.")


def _show_table(rows: int, memory: str, out: Path) -> page.Part:
    """Train on the raw table of flats: text, booleans, skewed numbers, missing values."""
    began = time.perf_counter()
    title = "A table with categories and missing values"
    n = min(rows, flats.MOST_ROWS)
    where = out / "flats.csv"
    flats.write_csv(where, n)
    say(f"{title}: {n:,} flats of {len(flats.COLUMNS)} columns in {where}")
    results = _race(
        (
            ("table", "  gramian's TabularRegressor takes the table as it is"),
            ("table boosting", "  scikit-learn's HistGradientBoosting takes words as codes"),
        ),
        rows,
        memory,
        out,
    )
    told = (
        f"RMSE of the price of {round(flats.HELD_OUT * n):,} held-out flats; that of the true price, which "
        f"nobody can beat, is {flats.NOISE:g}."
    )
    say(f"  {told}\n\n{table(results, 'error')}\n")
    return page.Part(title, told, "error", results, seconds=time.perf_counter() - began)


def _show_forest(out: Path) -> page.Part:
    """Make a slow model of the digits fast."""
    began = time.perf_counter()
    title = "A slow model made fast"
    say(f"{title}: a random forest on {forest.ROWS:,} digits, and a kernel model that learns it")
    slow, fast = forest.made_fast(out)
    lines = [slow.line, fast.line, f"{slow.nanoseconds / fast.nanoseconds:.0f} times as fast"]
    say("\n" + "\n".join(lines) + "\n")
    told = f"Time for a row in a batch of {forest.TEST_ROWS:,} held-out digits, on one thread."
    return page.Part(title, told, lines=lines, seconds=time.perf_counter() - began)


def _show_island(rows: int, memory: str, out: Path) -> page.Part:
    """Learn the heights of an island from noisy measurements, within a limit for the whole process."""
    began = time.perf_counter()
    title = f"{rows:,} rows in {memory}"
    say(f"{title}: heights of an island from noisy measurements in {out}")
    island.make(out, rows)
    found = island.learn(out, memory)
    say("\n" + "\n".join(found.lines))
    script = out / island.SCRIPT
    told = f"The operating system measured this process of its own. To see it again: python {script} {memory}"
    say(told)
    return page.Part(title, told, lines=found.lines, seconds=time.perf_counter() - began)


def _race(workers: tuple[tuple[str, str], ...], rows: int, memory: str, out: Path) -> list[Result]:
    """Run workers one after the other, and print what they do and their results."""
    results = []
    for name, doing in workers:
        say(doing)
        result = in_own_process(name, rows, memory, out)
        if result.note:
            say(f"  {result.note}")
        results.append(result)
    return results


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.0f} s"


def work(name: str, rows: int, memory: str) -> Result:
    """Fit one of the models to the flats and measure it."""
    return flats.WORKERS[name](memory, flats.Flats.made(rows))


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gramian.demo", description="Learn a table, a slow model and an island."
    )
    parser.add_argument("--rows", type=int, default=2_000_000, help="measurements to make (default 2000000)")
    parser.add_argument("--memory", default="300MB", help="of gramian's processes (default 300MB)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for rows and page")
    parser.add_argument("--worker", choices=sorted(flats.WORKERS), help=argparse.SUPPRESS)
    return parser.parse_args(given)


def run(given: list[str] | None = None) -> int:
    """Run ``python -m gramian.demo`` with these arguments and return its exit status."""
    options = _arguments(given)
    try:
        if options.worker is None:
            main(options.rows, options.memory, options.out)
        else:
            say(json.dumps(asdict(work(options.worker, options.rows, options.memory))))
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
