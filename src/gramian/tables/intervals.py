"""Size of held-out errors, as it differs from row to row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.metric.metric import Metric

#: Hyperparameters that the held-out rows choose: metric, bandwidth, penalty.
CHOSEN = 3


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
