"""Evaluation of a model on the rows of a file: scores, seconds, probabilities, intervals, kernel error."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.pipeline import Pipeline

from gramian._typing import Array, Float64Array, Rows
from gramian.approximations.approximation import Approximation
from gramian.compression.quality import ErrorEstimate
from gramian.data.source import RowSource
from gramian.data.tables import TableSource
from gramian.estimator.base import KernelEstimator
from gramian.exceptions import InputError
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.reporting.rows import all_rows, by_blocks
from gramian.tables.regressor import TabularRegressor
from gramian.tables.ridge_mean import members_of
from gramian.tables.serving import TableServer

REGRESSION, CLASSIFICATION = "regression", "classification"
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
    why_not: str = ""  #: reason why there are no scores
    task: str | None = None  #: None if there is no target to compare with
    scores: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)  #: of the mean, or of the most frequent class
    y: Array | None = None
    predicted: Array | None = None
    probabilities: Float64Array | None = None  #: (n, classes)
    deviations: Float64Array | None = None  #: (n,) standard deviations of the predictions
    coverage: dict[float, float] = field(default_factory=dict)  #: level of intervals to share of y inside
    frobenius: ErrorEstimate | None = None
    trace: ErrorEstimate | None = None

    @property
    def coverage_text(self) -> str:
        """The share of true values that the intervals of each level hold."""
        return ", ".join(f"{level:.0%} hold {share:.1%}" for level, share in self.coverage.items())

    @property
    def microseconds(self) -> str:
        """Microseconds for a row, as text."""
        return f"{1e6 * self.seconds / max(self.n_rows, 1):.3g}"

    def facts(self) -> list[tuple[str, str]]:
        """Return rows, seconds, and scores next to those of a model without features."""
        facts = [("rows", f"{self.n_rows:,}"), *score_facts(self.task, self.scores, self.baseline)]
        if self.coverage:
            facts.append(("intervals", self.coverage_text))
        if (error := self.frobenius) is not None:
            within = f"95 % within {error.low:.3g} and {error.high:.3g}"
            facts.append(("Frobenius error", f"{error:.3g} of ‖K‖_F, {within}"))
        if self.trace is not None:
            facts.append(("trace error", f"{self.trace:.3g} of tr(K)"))
        facts.append((f"seconds of the {self.what}", f"{self.seconds:.3g}, {self.microseconds} µs a row"))
        if self.why_not:
            facts.append(("no scores", self.why_not))
        return facts

    def tiles(self) -> list[tuple[str, str]]:
        """Return the most important numbers, as label and text."""
        tiles = [(name, f"{value:.4g}") for name, value in self.scores.items()]
        if self.frobenius is not None:
            tiles.append(("relative Frobenius error", f"{self.frobenius:.3g}"))
        return [*tiles, (f"µs a row, {self.what}", self.microseconds)]


def judge(
    model: BaseEstimator, X: Rows | RowSource | TableSource, y: Array | None, *, seed: int = 0
) -> Judgement:
    """Predict every row of a source, an array or a table and score it against ``y``.

    For a transformer, compute the features and estimate their error instead. ``model`` is an estimator or a
    pipeline that ends with one. The seconds are those of this run, scaling included. The error of an
    approximation is that of the kernel matrix of these rows.
    """
    before, last = (model[:-1].transform, model[-1]) if isinstance(model, Pipeline) else (None, model)
    n, predicts, began = X.shape[0], hasattr(last, "predict"), time.perf_counter()
    with named_columns():
        predicted = by_blocks(model.predict if predicts else model.transform, X)
        taken = time.perf_counter() - began
        if not predicts:
            if not isinstance(last, Approximation):
                return Judgement(n, "features", taken, "the model has no predict")
            rows = X if before is None else before(all_rows(cast("Rows | RowSource", X)))
            error = last.relative_error(rows, n_rows=ERROR_ROWS, random_state=seed)
            why = "an approximation predicts no target"
            return Judgement(n, "features", taken, why, frobenius=error, trace=last.trace_error(rows))
        predicted = predicted[:, 0] if predicted.shape[1:] == (1,) else predicted
        why = _not_comparable(y, predicted)
        if y is None or why:
            return Judgement(n, "predictions", taken, why, predicted=predicted)
        classes, probabilities, deviations, coverage = hasattr(last, "classes_"), None, None, {}
        if classes and hasattr(model, "predict_proba"):
            probabilities = by_blocks(model.predict_proba, X)
        if isinstance(last, GaussianProcessRegressor):
            options = {"return_std": True, "include_noise": True}
            found = by_blocks(lambda rows: model.predict(rows, **options)[1], X)
            deviations = np.asarray(found, np.float64) if found.ndim == 1 else None
        if isinstance(last, TabularRegressor):
            for level in LEVELS:
                with suppress(InputError):  # the residuals are too few for this level
                    low, high = by_blocks(partial(last.predict_interval, coverage=level), X).T
                    coverage[level] = float(np.mean((low <= y) & (y <= high)))
    if classes and y.dtype != predicted.dtype and predicted.dtype.kind in "biuf":
        # Class labels have the type of the predictions, so that 1.0 in a file matches the class 1.
        cast_labels = y.astype(predicted.dtype)
        y = cast_labels if bool((cast_labels == y).all()) else y
    task = CLASSIFICATION if classes else REGRESSION
    return Judgement(
        n,
        "predictions",
        taken,
        task=task,
        scores=scores(task, y, predicted),
        baseline=scores(task, y, trivial(task, y, n)),
        y=y,
        predicted=predicted,
        probabilities=probabilities,
        deviations=deviations,
        coverage=coverage,
    )


def _not_comparable(y: Array | None, predicted: Array) -> str:
    if y is None:
        return "no targets were given"
    if y.ndim != 1 or predicted.ndim != 1:
        return "the model predicts several outputs"
    if (predicted.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        return "the targets are of another type than the predictions"
    return "" if len(np.unique(y)) > 1 else "the targets are constant"


def scores(task: str, y: Array, predicted: Array, weights: Array | None = None) -> dict[str, float]:
    """Return accuracy, or R² (0 is the mean of the held-out targets) and RMSE, by name."""
    if task == CLASSIFICATION:
        return {"accuracy": float(np.average(y == predicted, weights=weights))}
    explained = float(r2_score(y, predicted, sample_weight=weights)) if len(y) > 1 else float("nan")
    return {"R²": explained, "RMSE": float(root_mean_squared_error(y, predicted, sample_weight=weights))}


def trivial(task: str, y: Array, count: int, weights: Array | None = None) -> Array:
    """Return the predictions of a model without features: the mean, or the most frequent class."""
    if task == REGRESSION:
        return np.full(count, float(np.average(np.asarray(y, np.float64), weights=weights)))
    classes, codes = np.unique(y, return_inverse=True)
    return np.repeat(classes[[np.bincount(codes, weights).argmax()]], count)


def number(value: float) -> str:
    """Return a number with four significant figures as text."""
    return "not defined" if np.isnan(value) else f"{value:.4g}"


def score_text(scores: Mapping[str, float]) -> str:
    """Return scores in one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in scores.items())


def score_facts(
    task: str | None, scores: Mapping[str, float], baseline: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return scores next to those of a model without features."""
    simple = "mean" if task == REGRESSION else "most frequent class"
    return [(name, f"{number(value)} ({simple}: {number(baseline[name])})") for name, value in scores.items()]


@contextmanager
def named_columns() -> Iterator[None]:
    """Silence warnings about column names: the columns were picked by these names, or the file has none."""
    with warnings.catch_warnings():
        for text in ("X does not have valid feature names", "X has feature names"):
            warnings.filterwarnings("ignore", text, UserWarning)
        yield


def behind(model: BaseEstimator) -> list[KernelEstimator]:
    """Return the numeric models of a table model, the one of the largest weight first."""
    return [inner for _, inner in members_of(model.model_)] if isinstance(model, TableServer) else []
