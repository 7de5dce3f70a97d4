"""Output of ``gramian predict`` for each row: prediction, interval, probabilities."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from gramian._typing import Array, RowsLike
from gramian.exceptions import InputError
from gramian.reporting.judging import behind, named_columns


def set_threads(model: BaseEstimator, threads: int | None) -> None:
    """Let a loaded estimator use this many threads; a table model predicts with the model inside it."""
    model.n_jobs = threads
    for each in behind(model):
        each.n_jobs = threads


def check_answers(model: BaseEstimator, coverage: float | None, probabilities: bool) -> None:
    """Raise, before rows are read, for output that the model cannot give."""
    last = model[-1] if isinstance(model, Pipeline) else model
    name = type(last).__name__
    if coverage is not None and not hasattr(last, "predict_interval"):
        raise InputError(
            f"--coverage needs a model with prediction intervals, but {name} has none. Fit a "
            "TabularRegressor: give a numeric target and no option of plain kernel ridge regression."
        )
    if coverage is not None and not 0 < coverage < 1:
        raise InputError(f"--coverage {coverage:g} must be a number between 0 and 1, such as 0.9.")
    if probabilities and not hasattr(last, "predict_proba"):
        raise InputError(
            f"--probabilities needs a model with class probabilities, but {name} has none. Fit a "
            "TabularClassifier: give a target of classes and no option of plain kernel ridge regression."
        )


def answers(
    model: BaseEstimator, X: RowsLike, *, coverage: float | None, probabilities: bool
) -> dict[str, Array]:
    """Return named columns: the prediction, the ends of an interval, a probability for each class."""
    last = model[-1] if isinstance(model, Pipeline) else model
    with named_columns():
        columns = {"prediction": np.asarray(model.predict(X))}
        if coverage is not None:
            ends = model.predict_interval(X, coverage)
            columns |= {"low": ends[:, 0], "high": ends[:, 1]}
        if probabilities:
            found = model.predict_proba(X)
            columns |= {f"probability of {name}": found[:, j] for j, name in enumerate(last.classes_)}
    return columns
