"""Size of held-out errors, as it differs from row to row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.engine import Engine
from gramian.exact.folds import LAPLACE, FoldModels, left_out
from gramian.exact.predictor import ExactPredictor
from gramian.kernels import Exponential
from gramian.metric.metric import Metric
from gramian.operators.kernel import KernelOperator
from gramian.tables.holdout import HoldOut
from gramian.tables.training.gain import best_penalty

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

    def predict(self, rows: Array, values: Float64Array, engine: Engine) -> Float64Array:
        """Return s (n, outputs) for encoded, scaled rows (n, d) and predictions (n, outputs)."""
        points = features(self.metric, rows, values) * self.units
        return np.asarray(np.exp(self.predictor.chunk(points, engine) + self.offset))


def features(metric: Metric, rows: Array, values: Float64Array) -> Float64Array:
    """Return the columns under the metric with the predictions beside them, (n, columns + outputs)."""
    return np.hstack([np.asarray(metric.apply(np.asarray(rows, np.float64))), values])


#: Parts of the held-out rows for cross-fitting; with fewer rows than LEAST_ROWS all have the same spread. By
#: hand.
FOLDS, LEAST_ROWS = 5, 50
#: Penalty to start from: sizes of errors are mostly noise. Chosen by hand.
PENALTY = 10.0
#: Gain in log-likelihood a row from which on the spread follows the row. Chosen by hand.
LEAST_GAIN = 0.01
#: Bytes for each pair of rows: a number of the kernel and what goes with it; and seconds, for some tens of
#: products with that number. Chosen by hand.
BYTES, SECONDS_A_PAIR = 8, 1e-7
#: Pairs of rows from which the unit of distance is taken. Chosen by hand.
PAIRS = 1_000


def learned_spread(
    rows: Array,
    values: Float64Array,
    residuals: Float64Array,
    weights: Array | None,
    metric: Metric,
    engine: Engine,
    memory_bytes: int,
    rng: np.random.Generator,
    holdout: HoldOut,
    seconds: float,
) -> tuple[Spread | None, Float64Array]:
    """Return the spread, None if it is the same everywhere, and residuals in units of it.

    Minimises Σ |r_i|/s(x_i) + ln s(x_i), the likelihood of Laplacian errors, plus the penalty. Each row's
    unit comes from models without its fifth of the rows, so that its residual is like those of new rows.

    rows : (m, d) held-out rows; values, residuals : (m, outputs), from models that have not seen them. As
    many rows are learned from as ``memory_bytes`` hold the kernel of and ``seconds`` suffice for. Time O(m²)
    kernel values and some tens of products. Source: Lei et al. 2018, section 5.2 (locally weighted conformal
    intervals).
    """
    most = min(memory_bytes / BYTES, seconds / SECONDS_A_PAIR)
    n = int(min(len(rows), math.sqrt(most)))
    if n < LEAST_ROWS:
        return None, residuals
    sizes = np.abs(residuals)
    mean = np.average(sizes, axis=0, weights=weights)
    if not (mean > 0).all():
        return None, residuals
    points = features(metric, rows, values)
    units = _units(points, values.shape[1], rng)
    points *= units
    some = np.arange(n) if n == len(rows) else np.sort(rng.choice(len(rows), n, replace=False))
    kernel, wanted = Exponential(1.0), sizes[some] / mean
    weights = None if weights is None else weights[some]
    product = KernelOperator(
        kernel, points[some], dtype=np.float32, n_jobs=engine.n_jobs, keep_bytes=memory_bytes
    )
    every, holdout = np.arange(n), holdout.taken(some)
    folds = holdout.folds(every, FOLDS, rng) or HoldOut().folds(every, FOLDS, rng) or [every]
    trials = FoldModels(product.__matmul__, LAPLACE, wanted, weights, folds)

    def judge(_: IntArray, penalty: float) -> tuple[float, Float64Array]:
        tried = left_out(trials.fit(penalty), folds)
        return float(np.average(LAPLACE.loss(tried, wanted), weights=weights)), tried

    penalty, logs = best_penalty(judge, every, PENALTY, -np.inf, lambda: True)
    reached = np.average(LAPLACE.loss(logs, wanted), weights=weights)
    if not reached < sizes.shape[1] - LEAST_GAIN:  # with s = mean |r| it is 1 for each output
        return None, residuals
    whole = FoldModels(product.__matmul__, LAPLACE, wanted, weights, [np.zeros(0, np.intp)])
    whole.fit(penalty)
    assert whole.coefficients is not None
    predictor = ExactPredictor(kernel, points[some], whole.coefficients[:, 0], np.dtype(np.float32))
    spread = Spread(predictor, whole.offsets[0] + np.log(mean), metric, units)
    unit = spread.predict(rows, values, engine)
    unit[some] = mean * np.exp(logs)
    return spread, residuals / unit


def _units(points: Float64Array, n_outputs: int, rng: np.random.Generator) -> Float64Array:
    """Return factors under which columns and predictions each have a median distance of 1 between rows."""
    units, d = np.ones(points.shape[1]), points.shape[1] - n_outputs
    one, two = rng.integers(0, len(points), (2, PAIRS))
    for part in (slice(0, d), slice(d, None)):
        apart = float(np.median(np.linalg.norm(points[one, part] - points[two, part], axis=1)))
        units[part] = 1.0 / apart if apart > 0 else 0.0
    return units
