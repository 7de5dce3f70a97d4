"""Times of a fitted model: nanoseconds a row of a batch, and of one row alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Call = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Served:
    """A fitted model, and how a server asks it.

    size : its place among the sizes of its method, for readers.
    batch : answers (n,) of rows (n, d) in float32: class numbers, or predictions.
    one : the answer of one row (d,), by the fastest way that the library has; None if only by batches.
    seconds : of everything that this size needs: its search, its teacher, its fit, its compilation.
    nbytes : of the model.
    trees : whether it takes the rows for trees.
    """

    method: str
    size: str
    batch: Callable[[np.ndarray], np.ndarray]
    one: Call | None
    seconds: float
    nbytes: int
    trees: bool = False


def one_of(batch: Call) -> Call:
    """Return a call for one row (d,) that asks for a batch of one."""
    return lambda x: batch(x[None])


def batch_nanoseconds(call: Call, rows: np.ndarray, n_rows: int, seconds: float) -> float:
    """Median time of a row in batches of ``n_rows`` rows, drawn with replacement, in float32."""
    drawn = np.random.default_rng(0).integers(len(rows), size=n_rows)
    batch = np.ascontiguousarray(rows[drawn], np.float32)
    call(batch)
    took: list[float] = []
    while len(took) < 3 or sum(took) < seconds:
        start = time.perf_counter()
        call(batch)
        took.append(time.perf_counter() - start)
    return 1e9 * statistics.median(took) / n_rows


def single_nanoseconds(call: Call, rows: np.ndarray, seconds: float) -> float:
    """Median time of a call with one row, over different rows, until ``seconds`` have passed."""
    rows = np.ascontiguousarray(rows, np.float32)
    for row in rows[:3]:
        call(row)
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 20 or time.perf_counter() < end:
        row = rows[len(took) % len(rows)]
        start = time.perf_counter()
        call(row)
        took.append(time.perf_counter() - start)
    return 1e9 * statistics.median(took)
