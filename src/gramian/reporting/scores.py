"""Scores of predictions against true values, and those of a model without features."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score, root_mean_squared_error

from gramian._typing import Array

REGRESSION, CLASSIFICATION = "regression", "classification"


def score_of(task: str, y: Array, predicted: Array) -> float:
    """Return accuracy, or R² (0 is the mean of the held-out targets)."""
    if task == CLASSIFICATION:
        return float(np.mean(y == predicted))
    return float(r2_score(y, predicted)) if len(y) > 1 else float("nan")


def scores(task: str, y: Array, predicted: Array) -> dict[str, float]:
    """Return the scores of the task by name."""
    if task == CLASSIFICATION:
        return {"accuracy": score_of(task, y, predicted)}
    rmse = float(root_mean_squared_error(y, predicted))
    return {"R²": score_of(task, y, predicted), "RMSE": rmse}


def trivial(task: str, y: Array, count: int) -> Array:
    """Return the predictions of a model without features: the mean, or the most frequent class."""
    if task == REGRESSION:
        return np.full(count, float(np.mean(y, dtype=np.float64)))
    classes, counts = np.unique(y, return_counts=True)
    return np.repeat(classes[[counts.argmax()]], count)
