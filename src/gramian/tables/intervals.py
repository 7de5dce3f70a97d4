"""Intervals of held-out errors: their ranks, and how the size of errors differs from row to row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.metric.metric import Metric


def share(name: str, value: Any) -> float:
    """Return a parameter that must be a number between 0 and 1; raise if it is none."""
    numeric = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not numeric or not 0 < value < 1:
        raise InputError(f"{name}={value!r} must be a number between 0 and 1, such as 0.9.")
    return float(value)


def rank_of(coverage: float, count: int) -> int:
    """Return the 1-based rank ⌈coverage·(count + 1)⌉, safe from rounding (0.9·10)."""
    return int(np.ceil(round(coverage * (count + 1), 9)))


def held_out_rank(coverage: float, count: int) -> int:
    """Return :func:`rank_of`; raise if the held-out rows are too few for the coverage."""
    rank = rank_of(coverage, count)
    if rank > count:
        least = int(np.ceil(round(coverage / (1.0 - coverage), 6)))
        raise InputError(
            f"coverage={coverage} needs {least} held-out rows, but there were {count}. Lower coverage, or "
            "fit to more rows: a fifth of them is held out."
        )
    return rank


@dataclass(frozen=True)
class Spread:
    """Mean size s(x) > 0 of the errors at x, for each output: ln s = Σ_i k(u(x), u_i) c_i + offset.

    u(x) are the columns under the metric and the predictions at x, each times its unit, so that s may follow
    the prediction. predictor : k, u_i and c_i; offset : (outputs,); units : (columns + outputs,).
    """

    predictor: ExactPredictor
    offset: Float64Array
    metric: Metric
    units: Float64Array

    def of(self, rows: Array, values: Float64Array, engine: Engine) -> Float64Array:
        """Return s (n, outputs) for encoded, scaled rows (n, d) and predictions (n, outputs)."""
        points = features(self.metric, rows, values) * self.units
        return np.asarray(np.exp(self.predictor.chunk(points, engine) + self.offset))


def features(metric: Metric, rows: Array, values: Float64Array) -> Float64Array:
    """Return the columns under the metric with the predictions beside them, (n, columns + outputs)."""
    return np.hstack([np.asarray(metric.apply(np.asarray(rows, np.float64))), values])
