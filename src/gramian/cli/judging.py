"""How good a model is on rows of a file: scores, seconds, probabilities, intervals, errors of a map."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.approximation.quality import ErrorEstimate
from gramian.cli.training import CLASSIFICATION, REGRESSION, as_float, scores, trivial
from gramian.data.files import Table
from gramian.estimators.approximation import Approximation
from gramian.estimators.gp import GaussianProcessRegressor

#: Rows of one step of prediction, as in training.
_STEP = 65_536
#: Rows that the error of an approximation is estimated from.
ERROR_ROWS = 1000


@dataclass(frozen=True)
class Judgement:
    """What a model made of some rows."""

    n_rows: int
    what: str  #: "predictions", or "features" of a map
    seconds: float  #: of all rows
    task: str | None = None  #: None where there is no target to compare with
    why_not: str = ""  #: why there are no scores
    scores: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)  #: of the mean, or of the commonest class
    y: Array | None = None
    predicted: Array | None = None
    probabilities: Float64Array | None = None  #: (n, classes)
    deviations: Float64Array | None = None  #: (n,) standard deviations of the predictions
    frobenius: ErrorEstimate | None = None
    trace: ErrorEstimate | None = None


def judge(model: Any, table: Table, *, seed: int = 0) -> Judgement:
    """Predict every row of a table and score it; of a map take the features, and estimate its error.

    ``model`` is an estimator or a pipeline that ends with one. The seconds are of this run, scaling included.
    Of approximations the rows are K's: the error is that over the rows of the table.
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    n = table.X.shape[0]
    with _named_columns():
        if not hasattr(last, "predict"):
            taken = _timed(model.transform, table)[1]
            if not isinstance(last, Approximation):
                return Judgement(n, "features", taken, why_not="the model has no predict")
            rows = as_float(table.X)
            rows = model[:-1].transform(rows) if isinstance(model, Pipeline) else rows
            error = last.relative_error(rows, n_rows=ERROR_ROWS, random_state=seed)
            why = "an approximation predicts no target"
            return Judgement(n, "features", taken, why_not=why, frobenius=error, trace=last.trace_error(rows))
        predicted, taken = _timed(model.predict, table)
        classes = hasattr(last, "classes_")
        why = _not_comparable(table.y, predicted)
        if why:
            return Judgement(n, "predictions", taken, why_not=why, predicted=predicted)
        assert table.y is not None
        task = CLASSIFICATION if classes else REGRESSION
        probabilities = deviations = None
        if classes and hasattr(model, "predict_proba"):
            probabilities = _timed(model.predict_proba, table)[0]
        if isinstance(last, GaussianProcessRegressor):
            deviations = _deviations(model, table)
    y = _like(table.y, predicted) if classes else table.y
    return Judgement(
        n,
        "predictions",
        taken,
        task,
        scores=scores(task, y, predicted),
        baseline=scores(task, y, trivial(task, y, n)),
        y=y,
        predicted=predicted,
        probabilities=probabilities,
        deviations=deviations,
    )


def _timed(predict: Any, table: Table) -> tuple[Array, float]:
    """Return what ``predict`` gives for every row, step by step, and the seconds that it took."""
    began = time.perf_counter()
    parts = [predict(as_float(table.X[rows])) for rows in row_slices(table.X.shape[0], _STEP)]
    return np.concatenate([np.asarray(part) for part in parts]), time.perf_counter() - began


def _deviations(model: Any, table: Table) -> Float64Array | None:
    """Return standard deviations of observations; None where there are several outputs."""

    def of(rows: Any) -> Any:
        scaled = model[:-1].transform(rows) if isinstance(model, Pipeline) else rows
        last = model[-1] if isinstance(model, Pipeline) else model
        return last.predict(scaled, return_std=True, include_noise=True)[1]

    found = _timed(of, table)[0]
    return np.asarray(found, np.float64) if found.ndim == 1 else None


def _not_comparable(y: Array | None, predicted: Array) -> str:
    if y is None:
        return "the file has no target column"
    if y.ndim != 1 or predicted.ndim != 1:
        return "the model predicts several outputs"
    if (predicted.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        return "the target in the file is of another type than the predictions"
    if len(np.unique(y)) < 2:
        return "the target in the file is constant"
    return ""


def _like(y: Array, predicted: Array) -> Array:
    """Return class labels in the type of the predictions, so that 1.0 in a file is the class 1."""
    if y.dtype == predicted.dtype or predicted.dtype.kind not in "biuf":
        return y
    cast = y.astype(predicted.dtype)
    return cast if bool((cast == y).all()) else y


@contextmanager
def _named_columns() -> Iterator[None]:
    """Silence scikit-learn's word on names: the columns were picked by these very names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
