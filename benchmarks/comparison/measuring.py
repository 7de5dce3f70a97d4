"""Measurement of a fit: seconds, peak memory, bytes of the model, seconds per prediction."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from comparison.equal_time import error_of
from comparison.peak_memory import PeakMemory
from gramian._typing import Array

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Most timed runs of the prediction; no further run starts after a second in total.
MOST_PREDICTIONS = 5


@dataclass(frozen=True)
class Measured:
    """Error, times and bytes of one fit and its predictions."""

    error: float  #: see ``error_of``
    fit_seconds: float
    predict_seconds: float  #: for all test rows; median of several runs
    peak_bytes: float  #: growth of the process during the fit; NaN if the system does not report it
    model_bytes: int


def model_bytes(model: BaseEstimator) -> int:
    """Return the size of the pickled model in bytes, a measure that applies to every model."""
    return len(pickle.dumps(model, protocol=5))


def measure(model: BaseEstimator, X: Array, y: Array, X_test: Array, y_test: Array, task: str) -> Measured:
    """Fit a model, predict the test rows and return error, times and bytes.

    The memory peak is that of this process. To compare models, measure each in a process of its own.
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
