"""Columns of a model's rows as values that can be grouped, and predictions for rows with a column changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.cells import CATEGORY, DATE
from gramian.data.source import ArraySource
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fit_inputs import read_rows
from gramian.exceptions import GramianError
from gramian.explanation import explain
from gramian.kernels.precomputed import StoredRows
from gramian.reporting.judging import named_columns
from gramian.tables import EncodedRows
from gramian.tables.classifier import TabularClassifier
from gramian.tables.column import LevelMeans
from gramian.tables.input import checked_table
from gramian.tables.regressor import TabularRegressor
from gramian.tables.serving import TableServer

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Rows whose contributions rank the columns of a model without importances, and most columns. By hand.
RANKED_ROWS, MOST_RANKED = 40, 60


@dataclass(frozen=True)
class InspectedColumn:
    """A column: its values as numbers (days, for a date), or as codes of ``categories``.

    ``places`` are the columns of the rows that the model takes, and ``rows_of`` gives their values, (k,
    places), for k values.
    """

    name: str
    values: Float64Array
    categories: tuple[str, ...]
    places: IntArray
    rows_of: Callable[[Array], Array]


@dataclass(frozen=True)
class Inspected:
    """Rows as a model takes them (n, width), their columns, and the predictions for such rows.

    ``predict`` gives (n, curves): numbers, or the probability (else the decision value) of each class in
    ``curves``.
    """

    rows: Array
    columns: tuple[InspectedColumn, ...]
    predict: Callable[[Array], Float64Array]
    curves: tuple[str, ...]
    importances: Float64Array

    @property
    def order(self) -> IntArray:
        """Numbers of the columns, the most important first."""
        return np.argsort(-self.importances, kind="stable")

    def effect(self, column: InspectedColumn, values: Array) -> Float64Array:
        """Return the mean predictions (values, curves) if the column has each value in all rows."""
        out = []
        for own in column.rows_of(values):
            changed = self.rows.copy()
            changed[:, column.places] = own
            out.append(self.predict(changed).mean(axis=0))
        return np.array(out)


def rows_to_inspect(model: BaseEstimator, X: RowsLike, numbers: IntArray) -> Inspected | None:
    """Return rows of X, by number, for inspection; None for rows without columns that can be changed."""
    if isinstance(model, TabularRegressor | TabularClassifier):
        return _of_table(model, X, numbers)
    if isinstance(model, TableServer) or not isinstance(model, KernelEstimator):
        return None
    source = read_rows(model, X)
    if isinstance(source, StoredRows):
        return None
    rows = source.take(numbers)
    if sp.issparse(rows):
        return None
    rows = np.asarray(rows, np.float64)
    named = getattr(model, "feature_names_in_", None)
    names = [f"feature {j}" for j in range(rows.shape[1])] if named is None else list(map(str, named))

    def predict(changed: Array) -> Float64Array:
        with named_columns():
            if hasattr(model, "classes_"):
                found = (
                    model.predict_proba(changed)
                    if hasattr(model, "predict_proba")
                    else model.decision_function(changed)
                )
            else:
                found = model.predict(changed)
        found = np.asarray(found, np.float64).reshape(len(changed), -1)
        return found[:, 1:] if hasattr(model, "classes_") and found.shape[1] == 2 else found

    columns = tuple(
        InspectedColumn(name, rows[:, j], (), np.array([j]), lambda values: np.asarray(values)[:, None])
        for j, name in enumerate(names)
    )
    importances = getattr(model, "feature_importances_", None)
    if importances is None:
        importances = _contributed(model, rows)
    return Inspected(rows, columns, predict, _curves(model, predict(rows[:1]).shape[1]), importances)


def _contributed(model: BaseEstimator, rows: Array) -> Float64Array:
    """Return the mean absolute contribution of each column, or else the order of the columns."""
    d = rows.shape[1]
    if d <= MOST_RANKED:
        try:
            with named_columns():
                found = explain(model, rows[:RANKED_ROWS], n_points=1, X_train=rows, output=_output(model))
        except GramianError:
            pass
        else:
            if found.columns is not None:
                return np.asarray(np.abs(found.columns).mean(axis=0))
    return np.arange(d, 0, -1.0)


def _output(model: BaseEstimator) -> int | None:
    return None if hasattr(model, "classes_") or getattr(model, "_flat", True) else 0


def _curves(model: BaseEstimator, count: int) -> tuple[str, ...]:
    classes = getattr(model, "classes_", None)
    if classes is None:
        return ("prediction",) if count == 1 else tuple(f"output {j}" for j in range(count))
    kept = classes[1:] if count == 1 else classes
    return tuple(str(label) for label in kept)


def _of_table(model: BaseEstimator, X: RowsLike, numbers: IntArray) -> Inspected:
    with named_columns():
        rows = EncodedRows(model.columns_, checked_table(model, X, reset=False)).take(numbers)
    columns = model.columns_

    def predict(changed: Array) -> Float64Array:
        scaled = ArraySource(np.asarray(model.scaling_.apply(changed)))
        if isinstance(model, TabularClassifier):
            found = np.asarray(model.model_.predict_proba(scaled))
            return found[:, 1:] if found.shape[1] == 2 else found
        return np.asarray(
            model.target_.expected(np.reshape(model.model_.predict(scaled), (len(changed), -1)))
        )

    used, shares = [], []
    means = {each.column: (place, each) for place, each in columns.levels if isinstance(each, LevelMeans)}
    for j, column in enumerate(columns.columns):
        features = [f for f in columns.features if f.column == column.name]
        if not features or (column.kind != CATEGORY and not column.varies):
            continue
        place = features[0].places
        if column.kind == CATEGORY:
            hot = rows[:, place]
            codes = np.where(hot.any(axis=1), hot.argmax(axis=1), -1).astype(np.float64)
            level = means.get(column.name)
            used.append(_category(column.name, codes, features[0].categories, place, level))
        else:
            values = rows[:, place.start] + (column.centre if column.kind == DATE else 0.0)
            shift = column.centre if column.kind == DATE else 0.0
            used.append(_number(column.name, np.asarray(values, np.float64), place.start, shift))
        shares.append(float(model.feature_importances_[j]))
    return Inspected(rows, tuple(used), predict, _curves(model, predict(rows[:1]).shape[1]), np.array(shares))


def _category(
    name: str, codes: Float64Array, categories: tuple[str, ...], place: slice, level: Any
) -> InspectedColumn:
    places = np.arange(place.start, place.stop)
    eye = np.eye(len(categories))
    if level is not None:
        places = np.append(places, level[0])
        eye = np.column_stack([eye, np.asarray(level[1].values, np.float64)])
    return InspectedColumn(name, codes, categories, places, lambda values: eye[np.asarray(values, np.intp)])


def _number(name: str, values: Float64Array, place: int, shift: float) -> InspectedColumn:
    return InspectedColumn(
        name, values, (), np.array([place]), lambda values: np.asarray(values)[:, None] - shift
    )
