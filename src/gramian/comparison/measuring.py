"""Measurement of a fit: seconds, peak memory, bytes of the model, seconds per prediction."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.comparison.equal_time import error_of
from gramian.comparison.peak_memory import PeakMemory

#: Runs of the prediction, fewer where they take more than a second together.
MOST_PREDICTIONS = 5


@dataclass(frozen=True)
class Measured:
    """One fit and its predictions."""

    error: float  #: see ``error_of``
    fit_seconds: float
    predict_seconds: float  #: of all test rows; the median of some runs
    peak_bytes: float  #: growth of the process during the fit; NaN where the system does not tell
    model_bytes: int


class _Counter:
    """A file that keeps only its length."""

    size = 0

    def write(self, data: Any) -> int:
        self.size += memoryview(data).nbytes
        return memoryview(data).nbytes


def model_bytes(model: Any) -> int:
    """Return the bytes of the pickled model: one measure for all."""
    counter = _Counter()
    pickle.dump(model, counter, protocol=5)
    return counter.size


def measure(model: Any, X: Array, y: Array, X_test: Array, y_test: Array, task: str) -> Measured:
    """Fit a model, predict the test rows and return what that took.

    The peak is of this process: for figures that compare models, measure each in a process of its own.
    """
    with PeakMemory() as peak:
        began = time.perf_counter()
        model.fit(X, y)
        fit_seconds = time.perf_counter() - began
    spent: list[float] = []
    while len(spent) < MOST_PREDICTIONS and sum(spent) < 1.0:
        began = time.perf_counter()
        predicted = model.predict(X_test)
        spent.append(time.perf_counter() - began)
    return Measured(
        error_of(task, y_test, predicted),
        fit_seconds,
        float(np.median(spent)),
        peak.growth,
        model_bytes(model),
    )
