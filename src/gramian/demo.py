"""The demo: digits by the hundred thousand, learned within a budget, beside scikit-learn.

``python -m gramian.demo`` makes the rows, trains three models on them, each in a process of its own so
that its peak memory is its own, and draws the Gram matrix.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gramian._budget import format_bytes, parse_bytes
from gramian._typing import Array, IntArray
from gramian.comparison.peak_memory import PeakMemory
from gramian.data.datasets import make_digits
from gramian.estimators.meka import MEKA
from gramian.estimators.ridge import KernelRidgeClassifier
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.plotting import GramDisplay

#: Kernels exp(-‖x − y‖²/(2ℓ²)), where digits are some 600 apart in 0..255 pixels.
#: Each model has the best of four lengthscales (150, 200, 300, 450) and of alpha (0.01, 0.1, 1) or C (1, 10)
#: on a fifth of the training originals; the held-out digits had no say.
GAMMA, SVC_GAMMA = 1.0 / (2.0 * 300.0**2), 1.0 / (2.0 * 200.0**2)
ALPHA = 0.1
HELD_OUT = 0.2  #: share of the originals, and of the rows
LEAST_ROWS = 500
NYSTROEM_RANK = 1000
SVC_ROWS = 10_000
PICTURE_ROWS = 4000


@dataclass(frozen=True)
class Result:
    """What a worker reports: one line of the table."""

    model: str
    rows: int  #: rows it was trained on
    accuracy: float
    fit_seconds: float
    predict_seconds: float
    peak_bytes: float  #: growth of the process over its size after the imports
    note: str = ""


def main(rows: int = 200_000, memory: str = "300MB", out: Path = Path("demo-output")) -> None:
    """Run the demo and print its table.

    Parameters
    ----------
    rows : digits to make, a fifth of them held out.
    memory : the budget of gramian's model, such as ``"300MB"``.
    out : folder for the rows (64 bytes each) and the picture; made if it does not exist.

    Time about a minute on two cores with 200,000 rows; most of it, and all of the memory above the budget
    (4 GB), is scikit-learn's.

    Errors: ``InputError`` for fewer than 500 rows or a budget that is no size, ``GramianError`` where a
    model's process ends early (its own message comes first).
    """
    if rows < LEAST_ROWS:
        raise InputError(f"rows={rows} is too few: the demo needs at least {LEAST_ROWS}.")
    parse_bytes(memory)  # a typing error should not wait for the rows
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    _say(f"Making {rows:,} × 64 digits from scikit-learn's 1,797 in {out}")
    n_train, n_test, size = make_rows(out, rows)
    _say(f"  {n_train:,} to train on, {n_test:,} held out (no original on both sides), {format_bytes(size)}")
    results = []
    for name, doing in (
        ("gramian", f"Training gramian's KernelRidgeClassifier within {memory}"),
        ("nystroem", "Training scikit-learn's Nystroem + RidgeClassifier on the same rows"),
        ("svc", f"Training scikit-learn's exact SVC on {min(SVC_ROWS, n_train):,} of them"),
    ):
        _say(doing)
        result = _in_own_process(name, memory, out)
        if result.note:
            _say(f"  {result.note}")
        results.append(result)
    _say("Drawing the Gram matrix before and after block ordering")
    try:
        where, facts = draw(out)
        _say(f"  {facts}\n  {where}")
    except MissingPackageError as missing:
        _say(f"  no picture: {missing}")
    _say(f"Done in {time.perf_counter() - began:.0f} s: accuracy on {n_test:,} held-out digits\n")
    _say(table(results))
    _say("\nPeak memory is what each process grew by after its imports; the rows themselves stay on disk.")


def make_rows(out: Path, rows: int) -> tuple[int, int, int]:
    """Write training and held-out rows and labels; return their numbers and the bytes on disk."""
    n_images = len(load_digits().target)
    shuffled = np.random.default_rng(0).permutation(n_images)
    n_held_out = round(HELD_OUT * n_images)
    n_test = round(HELD_OUT * rows)
    parts: tuple[tuple[str, IntArray, int], ...] = (
        ("train", shuffled[n_held_out:], rows - n_test),
        ("test", shuffled[:n_held_out], n_test),
    )
    size = 0
    for seed, (part, originals, count) in enumerate(parts):
        digits = make_digits(out / f"{part}.npy", count, originals=np.sort(originals), random_state=seed)
        np.save(out / f"{part}_labels.npy", digits.y)
        size += digits.X.nbytes
    return rows - n_test, n_test, size


def draw(out: Path) -> tuple[Path, str]:
    """Compress the Gram matrix of some training rows and save its picture; return where, and the sizes."""
    X = np.load(out / "train.npy", mmap_mode="r")[:PICTURE_ROWS]
    meka = MEKA(gamma=GAMMA, rank=100, n_blocks=10, random_state=0).fit(X)
    display = GramDisplay.from_estimator(meka, X, n_rows=600, random_state=0)
    where = out / "gram.png"
    display.figure_.savefig(where, dpi=150)
    n = len(X)
    dense, held = format_bytes(8 * n * n), format_bytes(meka.nbytes_)
    return (
        where,
        f"MEKA holds {n:,}² entries ({dense}) in {held}, relative error {display.relative_error:.2g}",
    )


def table(results: list[Result]) -> str:
    """Return the results as aligned text."""
    head = ("model", "rows", "accuracy", "fit", "predict", "peak memory")
    lines = [
        (
            r.model,
            f"{r.rows:,}",
            f"{r.accuracy:.4f}",
            f"{r.fit_seconds:.1f} s",
            f"{r.predict_seconds:.1f} s",
            format_bytes(r.peak_bytes) if r.peak_bytes == r.peak_bytes else "unknown",
        )
        for r in results
    ]
    widths = [max(len(cell) for cell in column) for column in zip(head, *lines, strict=True)]

    def aligned(cells: tuple[str, ...]) -> str:
        first, *others = cells
        numbers = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        return "  ".join([first.ljust(widths[0]), *numbers])

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([aligned(head), rule, *map(aligned, lines)])


def _say(text: str) -> None:
    # Flushed, so that the steps are seen as they happen also through a pipe.
    print(text, flush=True)


# ---- workers: one model in one process ---------------------------------------------------------


def _in_own_process(name: str, memory: str, out: Path) -> Result:
    command = [sys.executable, "-m", "gramian.demo", "--worker", name, "--memory", memory, "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GramianError(
            f"The demo's worker {name!r} ended with exit status {done.returncode}; its own message is above. "
            "A negative status is a signal: -9 usually means that memory ran out; try fewer --rows."
        )
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def work(name: str, memory: str, out: Path) -> Result:
    """Fit one of the models to the rows in ``out`` and measure it."""
    return WORKERS[name](memory, _Rows.read(out))


@dataclass(frozen=True)
class _Rows:
    """The data as every model gets them: pixels on disk, labels in memory."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @staticmethod
    def read(out: Path) -> _Rows:
        pixels = [np.load(out / f"{part}.npy", mmap_mode="r") for part in ("train", "test")]
        labels = [np.load(out / f"{part}_labels.npy") for part in ("train", "test")]
        return _Rows(pixels[0], labels[0], pixels[1], labels[1])

    def first(self, count: int) -> _Rows:
        """Return the data with the first ``count`` training rows only; rows are in random order."""
        return _Rows(self.X[:count], self.y[:count], self.X_test, self.y_test)


def _gramian(memory: str, data: _Rows) -> Result:
    model = KernelRidgeClassifier(
        alpha=ALPHA, gamma=GAMMA, approximation="auto", memory_budget=memory, random_state=0
    )
    result = _measure("gramian KernelRidgeClassifier", model, data)
    plan = model.plan_
    note = f"{plan.method}: root rank {plan.root_rank}, {plan.n_blocks} blocks of rank {plan.rank}"
    return Result(**{**asdict(result), "note": note})


def _nystroem(memory: str, data: _Rows) -> Result:
    rank = min(NYSTROEM_RANK, len(data.y))
    model = make_pipeline(
        Nystroem(gamma=GAMMA, n_components=rank, random_state=0), RidgeClassifier(alpha=ALPHA)
    )
    return _measure(f"Nystroem({rank}) + RidgeClassifier", model, data)


def _svc(memory: str, data: _Rows) -> Result:
    return _measure("SVC (exact)", SVC(gamma=SVC_GAMMA, C=10.0), data.first(SVC_ROWS))


WORKERS: dict[str, Callable[[str, _Rows], Result]] = {
    "gramian": _gramian,
    "nystroem": _nystroem,
    "svc": _svc,
}


def _measure(label: str, model: Any, data: _Rows) -> Result:
    with PeakMemory() as memory:
        start = time.perf_counter()
        model.fit(data.X, data.y)
        fitted = time.perf_counter()
        predicted = model.predict(data.X_test)
        done = time.perf_counter()
    accuracy = float(np.mean(predicted == data.y_test))
    return Result(label, len(data.y), accuracy, fitted - start, done - fitted, memory.growth)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gramian.demo", description="Learn digits within a budget."
    )
    parser.add_argument("--rows", type=int, default=200_000, help="digits to make (default 200000)")
    parser.add_argument("--memory", default="300MB", help="budget of gramian's model (default 300MB)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for rows and picture")
    parser.add_argument("--worker", choices=sorted(WORKERS), help=argparse.SUPPRESS)
    return parser.parse_args(given)


def run(given: list[str] | None = None) -> int:
    """Run ``python -m gramian.demo`` with these arguments and return its exit status."""
    options = _arguments(given)
    try:
        if options.worker is None:
            main(options.rows, options.memory, options.out)
        else:
            _say(json.dumps(asdict(work(options.worker, options.memory, options.out))))
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
