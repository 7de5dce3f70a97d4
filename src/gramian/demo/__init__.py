"""The demo: a mixed table and hundreds of thousands of digits within a memory budget, beside scikit-learn.

``python -m gramian.demo`` makes the rows, trains three models on each of both, each model in a process of its
own so that its peak memory is its own, draws the Gram matrix, and makes a slow forest fast.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from gramian._budget import format_bytes, parse_bytes
from gramian.demo import digits, flats, forest
from gramian.demo.results import Result, in_own_process, say, table
from gramian.exceptions import GramianError, InputError, MissingPackageError

LEAST_ROWS = 500


def main(rows: int = 200_000, memory: str = "300MB", out: Path = Path("demo-output")) -> None:
    """Run the demo and print its tables.

    Parameters
    ----------
    rows : digits to make, a fifth of them held out; flats too, 10,000 at most.
    memory : the budget of gramian's models, such as ``"300MB"``.
    out : folder for the rows (64 bytes each) and the picture; made if it does not exist.

    Time one to two minutes on two cores with 200,000 rows; most of it, and all of the memory above the budget
    (4 GB), is scikit-learn's.

    Errors: ``InputError`` for fewer than 500 rows or a budget that is no size, ``GramianError`` where a
    model's process ends early (its own message comes first).
    """
    if rows < LEAST_ROWS:
        raise InputError(f"rows={rows} is too few: the demo needs at least {LEAST_ROWS}.")
    parse_bytes(memory)  # report a mistyped budget before the rows are made
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    _show_table(rows, memory, out)
    _show_digits(rows, memory, out)
    _show_forest(out)
    say(f"\nPeak memory is what each process grew by after its imports. Done in {_since(began)}.")


def _show_table(rows: int, memory: str, out: Path) -> None:
    """Train on the raw table of flats: text, booleans, skewed numbers, missing values."""
    began = time.perf_counter()
    n = min(rows, flats.MOST_ROWS)
    where = out / "flats.csv"
    flats.write_csv(where, n)
    say(f"Making {n:,} flats of {len(flats.COLUMNS)} columns, words and gaps among them, in {where}")
    results = _raced(
        (
            ("table", f"Training gramian's TabularRegressor within {memory}: the table as it is"),
            ("table boosting", "Training scikit-learn's HistGradientBoosting: words as codes"),
            (
                "table nystroem",
                "Training scikit-learn's Nystroem + RidgeCV: one-hot words, gaps filled, scaled",
            ),
        ),
        rows,
        memory,
        out,
    )
    held_out = round(flats.HELD_OUT * n)
    say(
        f"{_since(began)}: error of the price on {held_out:,} held-out flats (RMSE; that of the true price "
        f"{flats.NOISE:g})"
    )
    say(f"\n{table(results, 'error')}\n")


def _show_digits(rows: int, memory: str, out: Path) -> None:
    """Train on digits, and draw their Gram matrix."""
    began = time.perf_counter()
    say(f"Making {rows:,} × 64 digits from scikit-learn's 1,797 in {out}")
    n_train, n_test, size = digits.make_rows(out, rows)
    say(f"  {n_train:,} to train on, {n_test:,} held out (no original on both sides), {format_bytes(size)}")
    results = _raced(
        (
            ("gramian", f"Training gramian's KernelRidgeClassifier within {memory}"),
            ("nystroem", "Training scikit-learn's Nystroem + RidgeClassifier on the same rows"),
            ("svc", f"Training scikit-learn's exact SVC on {min(digits.SVC_ROWS, n_train):,} of them"),
        ),
        rows,
        memory,
        out,
    )
    say("Drawing the Gram matrix before and after block ordering")
    try:
        where, facts = digits.draw(out)
        say(f"  {facts}\n  {where}")
    except MissingPackageError as missing:
        say(f"  no picture: {missing}")
    say(f"{_since(began)}: accuracy on {n_test:,} held-out digits, which stay on disk")
    say(f"\n{table(results, 'accuracy')}")


def _show_forest(out: Path) -> None:
    """Make a slow model of the digits fast."""
    began = time.perf_counter()
    say(f"\nTraining a random forest on {forest.ROWS:,} digits at most, and making it fast")
    lines = forest.made_fast(out)
    say(f"{_since(began)}: one thread, a batch of held-out digits")
    say("\n".join(lines))


def _raced(workers: tuple[tuple[str, str], ...], rows: int, memory: str, out: Path) -> list[Result]:
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


def work(name: str, rows: int, memory: str, out: Path) -> Result:
    """Fit one of the models to its rows and measure it; digits are read from ``out``."""
    if name in flats.WORKERS:
        return flats.WORKERS[name](memory, flats.Flats.made(rows))
    return digits.WORKERS[name](memory, digits.Digits.read(out))


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gramian.demo", description="Learn a table, and digits, within a budget."
    )
    parser.add_argument("--rows", type=int, default=200_000, help="digits to make (default 200000)")
    parser.add_argument("--memory", default="300MB", help="budget of gramian's models (default 300MB)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for rows and picture")
    parser.add_argument("--worker", choices=sorted(flats.WORKERS | digits.WORKERS), help=argparse.SUPPRESS)
    return parser.parse_args(given)


def run(given: list[str] | None = None) -> int:
    """Run ``python -m gramian.demo`` with these arguments and return its exit status."""
    options = _arguments(given)
    try:
        if options.worker is None:
            main(options.rows, options.memory, options.out)
        else:
            say(json.dumps(asdict(work(options.worker, options.rows, options.memory, options.out))))
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
