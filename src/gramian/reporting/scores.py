"""Scores of predictions against true values, and those of a model without features."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score, root_mean_squared_error

from gramian._typing import Array

REGRESSION, CLASSIFICATION = "regression", "classification"


def score_of(task: str, y: Array, predicted: Array, weights: Array | None = None) -> float:
    """Return accuracy, or R² (0 is the mean of the held-out targets)."""
    if task == CLASSIFICATION:
        return float(np.average(y == predicted, weights=weights))
    return float(r2_score(y, predicted, sample_weight=weights)) if len(y) > 1 else float("nan")


def scores(task: str, y: Array, predicted: Array, weights: Array | None = None) -> dict[str, float]:
    """Return the scores of the task by name."""
    score = score_of(task, y, predicted, weights)
    if task == CLASSIFICATION:
        return {"accuracy": score}
    return {"R²": score, "RMSE": float(root_mean_squared_error(y, predicted, sample_weight=weights))}


def trivial(task: str, y: Array, count: int, weights: Array | None = None) -> Array:
    """Return the predictions of a model without features: the mean, or the most frequent class."""
    if task == REGRESSION:
        return np.full(count, float(np.average(np.asarray(y, np.float64), weights=weights)))
    classes, codes = np.unique(y, return_inverse=True)
    return np.repeat(classes[[np.bincount(codes, weights).argmax()]], count)
