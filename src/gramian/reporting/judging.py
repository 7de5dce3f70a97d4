"""Evaluation of a model on the rows of a file: scores, seconds, probabilities, intervals, kernel error."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.pipeline import Pipeline

from gramian._typing import Array, Float64Array, Rows, RowsLike
from gramian.approximations.approximation import Approximation
from gramian.compression.quality import ErrorEstimate
from gramian.data.source import RowSource
from gramian.data.tables import TableSource
from gramian.estimator.base import KernelEstimator
from gramian.exceptions import InputError
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.reporting.rows import all_rows, by_blocks
from gramian.reporting.scores import CLASSIFICATION, REGRESSION, scores, trivial
from gramian.tables.regressor import TabularRegressor
from gramian.tables.ridge_mean import members_of
from gramian.tables.serving import TableServer

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Levels of the intervals whose coverage is reported.
LEVELS = (0.5, 0.8, 0.9, 0.95)
#: Rows on which the error of an approximation is estimated. Chosen by hand.
ERROR_ROWS = 1000


@dataclass(frozen=True)
class Judgement:
    """Results of a model on some rows."""

    n_rows: int
    what: str  #: "predictions", or "features" of a transformer
    seconds: float  #: for all rows
    task: str | None = None  #: None if there is no target to compare with
    why_not: str = ""  #: reason why there are no scores
    scores: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)  #: of the mean, or of the most frequent class
    y: Array | None = None
    predicted: Array | None = None
    probabilities: Float64Array | None = None  #: (n, classes)
    deviations: Float64Array | None = None  #: (n,) standard deviations of the predictions
    coverage: dict[float, float] = field(default_factory=dict)  #: level of intervals to share of y inside
    frobenius: ErrorEstimate | None = None
    trace: ErrorEstimate | None = None


def judge(
    model: BaseEstimator, X: Rows | RowSource | TableSource, y: Array | None, *, seed: int = 0
) -> Judgement:
    """Predict every row of a source, an array or a table and score it against ``y``.

    For a transformer, compute the features and estimate their error instead. ``model`` is an estimator or a
    pipeline that ends with one. The seconds are those of this run, scaling included. The error of an
    approximation is that of the kernel matrix of these rows.
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    n = X.shape[0]
    with named_columns():
        if not hasattr(last, "predict"):
            taken = _time_predictions(model.transform, X)[1]
            if not isinstance(last, Approximation):
                return Judgement(n, "features", taken, why_not="the model has no predict")
            rows = (
                model[:-1].transform(all_rows(cast("Rows | RowSource", X)))
                if isinstance(model, Pipeline)
                else X
            )
            error = last.relative_error(rows, n_rows=ERROR_ROWS, random_state=seed)
            why = "an approximation predicts no target"
            return Judgement(n, "features", taken, why_not=why, frobenius=error, trace=last.trace_error(rows))
        predicted, taken = _time_predictions(model.predict, X)
        predicted = predicted[:, 0] if predicted.shape[1:] == (1,) else predicted
        classes = hasattr(last, "classes_")
        why = _not_comparable(y, predicted)
        if why:
            return Judgement(n, "predictions", taken, why_not=why, predicted=predicted)
        assert y is not None
        task = CLASSIFICATION if classes else REGRESSION
        probabilities = deviations = None
        if classes and hasattr(model, "predict_proba"):
            probabilities = _time_predictions(model.predict_proba, X)[0]
        if isinstance(last, GaussianProcessRegressor):
            deviations = _deviations(model, X)
        coverage = {}
        if isinstance(last, TabularRegressor) and predicted.ndim == 1:
            coverage = dict(_coverage(last, X, y))
    y = _like(y, predicted) if classes else y
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
        coverage=coverage,
    )


def _time_predictions(predict: Callable[[Any], Any], X: RowsLike) -> tuple[Array, float]:
    """Return the result of ``predict`` for every row, block by block, and the seconds that it took."""
    began = time.perf_counter()
    return by_blocks(predict, X), time.perf_counter() - began


def _deviations(model: BaseEstimator, X: RowsLike) -> Float64Array | None:
    """Return the standard deviations of observations; None if there are several outputs."""

    def of(rows: RowsLike) -> Any:
        scaled = model[:-1].transform(rows) if isinstance(model, Pipeline) else rows
        last = model[-1] if isinstance(model, Pipeline) else model
        return last.predict(scaled, return_std=True, include_noise=True)[1]

    found = _time_predictions(of, X)[0]
    return np.asarray(found, np.float64) if found.ndim == 1 else None


def _coverage(model: TabularRegressor, X: RowsLike, y: Array) -> Iterator[tuple[float, float]]:
    """Yield the share of y inside the intervals of each level for which there are enough residuals."""
    for level in LEVELS:
        try:
            low, high = by_blocks(partial(model.predict_interval, coverage=level), X).T
        except InputError:  # the residuals are too few for this level
            continue
        yield level, float(np.mean((low <= y) & (y <= high)))


def _not_comparable(y: Array | None, predicted: Array) -> str:
    if y is None:
        return "no targets were given"
    if y.ndim != 1 or predicted.ndim != 1:
        return "the model predicts several outputs"
    if (predicted.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        return "the targets are of another type than the predictions"
    if len(np.unique(y)) < 2:
        return "the targets are constant"
    return ""


def _like(y: Array, predicted: Array) -> Array:
    """Return class labels in the type of the predictions, so that 1.0 in a file matches the class 1."""
    if y.dtype == predicted.dtype or predicted.dtype.kind not in "biuf":
        return y
    cast = y.astype(predicted.dtype)
    return cast if bool((cast == y).all()) else y


@contextmanager
def named_columns() -> Iterator[None]:
    """Silence warnings about column names: the columns were picked by these names, or the file has none."""
    with warnings.catch_warnings():
        for text in ("X does not have valid feature names", "X has feature names"):
            warnings.filterwarnings("ignore", text, UserWarning)
        yield


def behind(model: BaseEstimator) -> list[KernelEstimator]:
    """Return the numeric models of a table model, the one of the largest weight first."""
    if not isinstance(model, TableServer):
        return []
    return [inner for _, inner in members_of(model.model_)]
