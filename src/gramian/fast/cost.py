"""Cost of a prediction in operations, bytes and nanoseconds, and budgets for it."""

from __future__ import annotations

import re
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gramian._typing import Array, FloatArray
from gramian.engine import one_blas_thread
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.fast.learning.distill import Shape
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.serving.router import TreeRouter, stage_levels, stage_width

#: Most runs of a timed batch unless they are over in LEAST_SECONDS, so that a short disturbance cannot slow
#: down every run, and most seconds for them. Chosen by hand.
RUNS, SECONDS, LEAST_SECONDS, LEAST_RUNS = 15, 0.5, 0.02, 5
#: Size of a timed batch in bytes, small enough to stay in the cache as a server's batch does, and the limits
#: of its number of rows. Chosen by hand.
BATCH_BYTES, LEAST_BATCH_ROWS, MOST_BATCH_ROWS = 1 << 21, 2_048, 8_192

#: Numbers of units whose predictions are timed, for each number of levels and directions. Chosen by hand.
TIMED_UNITS = (2, 16, 64, 256)

#: Multiple of the requested cost from which a fit warns. Chosen by hand.
MISSED = 1.25


@dataclass(frozen=True)
class Cost:
    """Cost of predicting one row in a batch on one thread, by ``predict`` of an array of floats.

    operations : multiplications and additions (a division counts as four).
    bytes : size of the model.
    nanoseconds : measured, median of several runs.
    linear_nanoseconds : the fastest of several runs of X @ w with as many outputs.
    spread : nanoseconds of the fastest run, and those that nine in ten runs stay below.
    batch_rows : rows of the batch.
    """

    operations: int
    bytes: int
    nanoseconds: float
    linear_nanoseconds: float
    spread: tuple[float, float]
    batch_rows: int

    @property
    def ratio(self) -> float:
        """Time of a prediction over the time of a linear model."""
        return self.nanoseconds / self.linear_nanoseconds

    def __str__(self) -> str:
        return (
            f"{self.nanoseconds:.0f} ns a row ({self.ratio:.1f} times a linear model), "
            f"{self.operations:,} operations, {self.bytes:,} bytes"
        )


def parse_cost(cost: str | float) -> tuple[float, str]:
    """Return the number and unit of a budget: ("20x" → 20, "x"), ("100ns" → 100, "ns"); a number is in ns.

    >>> parse_cost("20x"), parse_cost("1.5us"), parse_cost(80)
    ((20.0, 'x'), (1500.0, 'ns'), (80.0, 'ns'))
    """
    if isinstance(cost, (int, float)) and not isinstance(cost, bool):
        number, unit = float(cost), "ns"
    else:
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(x|×|ns|us|µs)\s*", str(cost))
        if found is None:
            raise InputError(
                f"cost={cost!r} is not a budget. Give '20x' (times a linear model), '100ns', '2us', or a "
                "number of nanoseconds a row."
            )
        number, unit = float(found[1]), found[2]
    if unit in ("us", "µs"):
        number, unit = 1000.0 * number, "ns"
    if not 0 < number < np.inf:
        raise InputError(f"cost={cost!r} must be positive and finite.")
    return number, "x" if unit == "×" else unit


def seconds_per_row(predict: Callable[[Array], object], rows: Array) -> float:
    """Return the seconds a row of the fastest run of predict(rows) on one thread.

    Other work on the machine makes runs slower, never faster, so the fastest run depends on it least.
    """
    return min(run_seconds(predict, rows)) / len(rows)


def run_seconds(predict: Callable[[Array], object], rows: Array) -> list[float]:
    """Return the seconds of runs of predict(rows) on one thread, after one run to warm up."""
    with one_blas_thread():
        predict(rows)
        took: list[float] = []
        while len(took) < LEAST_RUNS or (
            sum(took) < SECONDS and (len(took) < RUNS or sum(took) < LEAST_SECONDS)
        ):
            start = time.perf_counter()
            predict(rows)
            took.append(time.perf_counter() - start)
    return took


def batch_rows(n_features: int) -> int:
    """Return how many rows a timed batch has by default."""
    return int(np.clip(BATCH_BYTES // (4 * n_features), LEAST_BATCH_ROWS, MOST_BATCH_ROWS))


def random_batch(n_rows: int, n_features: int) -> FloatArray:
    """Return a float32 batch to time on: normal numbers, the same in each call."""
    return np.random.default_rng(0).standard_normal((n_rows, n_features), np.float32)


def linear_nanoseconds(batch: FloatArray, n_outputs: int) -> float:
    """Return the nanoseconds that X @ w takes a row."""
    w = np.ones((batch.shape[1], n_outputs), np.float32)
    return 1e9 * seconds_per_row(lambda X: X @ w, batch)


@lru_cache(maxsize=256)
def product_nanoseconds(n_features: int, n_outputs: int, n_rows: int) -> float:
    """Return the nanoseconds a row of X @ w in a batch of random rows, measured once in this process."""
    return linear_nanoseconds(random_batch(n_rows, n_features), n_outputs)


def warn_if_missed(cost: Cost, budget: tuple[float, str], requested: str | float) -> None:
    """Warn if even the fastest run of a model took clearly longer than was requested."""
    number, unit = budget
    fastest = cost.spread[0] / (cost.linear_nanoseconds if unit == "x" else 1.0)
    if fastest > MISSED * number:
        warnings.warn(
            f"cost={requested!r} is missed: a row takes {fastest:.3g}{unit}. Shapes are timed once a "
            "process, before they are trained, and other work on the machine slows some timings. Ask for "
            f"cost='{number * number / fastest:.2g}{unit}', or fit in a new process on a quiet machine.",
            AccuracyWarning,
            stacklevel=user_level(),
        )


def measure(
    predict: Callable[[Array], object], predictor: FastPredictor, shape: Shape, batch: FloatArray
) -> Cost:
    """Return the cost of a model's ``predict`` on a batch."""
    K = predictor.n_outputs
    least, middle, most = 1e9 * np.quantile(run_seconds(predict, batch), (0.0, 0.5, 0.9)) / len(batch)
    return Cost(
        operations=shape.operations(batch.shape[1], K),
        bytes=predictor.nbytes,
        nanoseconds=float(middle),
        linear_nanoseconds=linear_nanoseconds(batch, K),
        spread=(float(least), float(most)),
        batch_rows=len(batch),
    )


def interpolate_time(shape: Shape, timed: Callable[[Shape], float]) -> float:
    """Return the time of a shape from those of the same levels and directions with ``TIMED_UNITS``.

    The operations grow linearly with the units, and so does the time in between; it never falls with more
    units. A shape without units is timed itself.
    """
    if not shape.n_units:
        return timed(shape)
    at = min(bisect_left(TIMED_UNITS, shape.n_units), len(TIMED_UNITS) - 1)
    units = TIMED_UNITS[: at + 1]  # larger ones need no timing
    found = np.maximum.accumulate([timed(replace(shape, n_units=u)) for u in units])
    return float(np.interp(shape.n_units, units, found))


def dummy(
    shape: Shape, n_features: int, n_outputs: int, rng: np.random.Generator, *, centers: bool = False
) -> FastPredictor:
    """Return a predictor with the given shape and random numbers, to time before anything is learned."""
    r, leaves, f4 = shape.n_directions, 2**shape.n_levels, np.float32
    levels = stage_levels(shape.n_levels)
    stages = tuple(
        rng.standard_normal((2 ** sum(levels[:at]), stage_width(depth), r + 1)).astype(f4)
        for at, depth in enumerate(levels)
    )
    forms = rng.random((leaves, shape.n_units + n_outputs, 2 * r + 1)).astype(f4) / f4(2 * r + 1)
    forms[:, : shape.n_units, r] += f4(1)
    forms[:, shape.n_units :, r + 1 :] = 0.0  # the linear parts have no squares
    return FastPredictor(
        rng.standard_normal((n_features, r)).astype(f4) / f4(n_features),
        np.zeros(r, f4),
        TreeRouter(stages, levels),
        forms,
        rng.standard_normal((leaves, n_outputs, shape.n_units)).astype(f4),
        np.zeros(n_features) if centers else None,
    )
