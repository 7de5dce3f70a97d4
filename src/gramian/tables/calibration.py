"""Calibrated class probabilities from the decision values of a regression on targets ±1."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator import answers
from gramian.fast.probabilities import smoothed

#: Slope if there are no held-out values: the log odds of a value v in [−1, 1] are about 2 artanh v.
USUAL_SLOPE = 2.0
#: Bounds of the slope. Chosen by hand.
SLOPES = (0.1, 100.0)


def calibration_of(values: Float64Array, codes: IntArray, weights: Array | None) -> tuple[float, float]:
    """Return (slope, 0), which turns decision values f of rows that the model has not seen into log odds.

    values : (n, 1) for two classes, else (n, classes); codes : (n,), numbers of the classes. For two classes
    P = 1/(1 + exp(−slope·f)), for more P = softmax(slope·f). The slope maximises the likelihood. For a class
    with N rows the targets are (1 + N)/(classes + N) and 1/(classes + N) instead of 1 and 0, so that the
    slope stays finite if the classes are separated without an error. Without rows the slope is 2. There is
    no offset, so that the likeliest class is the one with the largest value. On 18 splits of nine tables
    Platt's offset changed the log loss by less than 0.1 % on average.

    Time O(n·classes) a step. Source: Guo, Pleiss, Sun and Weinberger 2017 (temperature); Platt 1999
    (targets).
    """
    n, outputs = values.shape
    if not n:
        return USUAL_SLOPE, 0.0
    n_classes = max(outputs, 2)
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    return slope_of(values, smoothed(codes, n_classes), w), 0.0


def slope_of(values: Float64Array, targets: Float64Array, weights: Array) -> float:
    """Return the slope that minimises the cross-entropy to probabilities ``targets`` (n, classes)."""

    def loss(log_slope: float) -> float:
        found = log_probabilities(values, (float(np.exp(log_slope)), 0.0))
        return -float(weights @ (targets * found).sum(axis=1))

    found = minimize_scalar(loss, bounds=tuple(np.log(SLOPES)), method="bounded")
    return float(np.exp(found.x))


def log_probabilities(values: Float64Array, calibration: tuple[float, float]) -> Float64Array:
    """Return the logarithm of the probability of each class, (n, classes), from values (n, outputs)."""
    slope, offset = calibration
    log_odds = slope * values + offset if values.shape[1] == 1 else slope * values
    return answers.log_probabilities(log_odds)
