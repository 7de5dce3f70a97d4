"""Predictions for the rows of a table: a numeric model with columns and scales in front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._checks import is_iterable
from gramian._typing import Array, Float64Array, FloatArray, RowsLike
from gramian.data.formats.frames import frame_kind
from gramian.data.mapped import map_rows
from gramian.data.source import RowSource
from gramian.data.tables import TableSource
from gramian.estimator.answers import (
    class_labels,
    decision_values,
    log_probabilities,
    predicted_numbers,
    probabilities,
)
from gramian.estimator.summaries import check_has_fit
from gramian.exceptions import InputError, quoted
from gramian.fast.probabilities import Calibration
from gramian.summary import Summary
from gramian.tables import EncodedRows, Scaling, TableColumns, TargetTransform
from gramian.tables.input import checked_table
from gramian.tables.summary import summary_of


class TableServer(ABC):
    """Mixin for the estimators of tables.

    ``columns_`` encodes the rows of a table, ``scaling_`` scales them, ``model_`` predicts.
    """

    columns_: TableColumns
    scaling_: Scaling
    model_: Any
    n_features_in_: int
    feature_importances_: Float64Array
    feature_importances_std_: Float64Array | None
    importances_reason_: str

    _learns: tuple[str, ...] = (
        *("columns_", "scaling_", "model_"),
        *("feature_importances_", "feature_importances_std_", "importances_reason_"),
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _restore(self, state: dict[str, Any]) -> None:
        """Set the learned attributes; raise if encoding, scales, model and target have different widths."""
        super()._restore(state)  # type: ignore[misc]
        width = self.columns_.width
        widths = (len(self.columns_.columns), self.scaling_.n_columns, self.model_.n_features_in_)
        if widths != (self.n_features_in_, width, width):
            raise ValueError(
                f"table, scales and model have {widths} columns; expected {self.n_features_in_}, {width} and "
                f"{width}"
            )
        with np.errstate(all="ignore"):
            outputs = self.model_.predict(np.ones((1, width))).size
        if hasattr(self, "target_") and outputs != len(self.target_.outputs):
            raise ValueError(f"the model has {outputs} outputs, but {len(self.target_.outputs)} targets")

    def summary(self) -> Summary:
        """Return the fit's columns, choices and trials, and the sizes and evidence of its models.

        No row is computed. Time O(columns + blocks). NotFittedError before a fit.
        """
        check_has_fit(self)
        learned = hasattr(self, "search_") and bool(self._forms())  # type: ignore[attr-defined]
        return summary_of(self, self._class_facts(), learned=learned)  # type: ignore[attr-defined]

    def transform_rows(self, X: RowsLike) -> FloatArray:
        """Return rows in the form that ``model_`` takes: encoded and scaled, shape (n, encoded columns).

        Use it to work on ``model_`` itself: its gradients, plots or export. The column names are
        ``columns_.feature_names``. Time and memory O(n · encoded columns).
        """
        source = encoded_rows(self, X)
        return np.asarray(source.rows(slice(0, source.shape[0])))

    def predict_one(self, x: Any) -> Any:
        """Return the prediction of one row, a number, several, or a class.

        x : the values of the row in the order of the training columns, or a dictionary or pandas series of
        values by the names of the columns; None is a missing value. It takes less time than
        :meth:`predict` of a frame with one row, whose value it has.
        """
        check_is_fitted(self, "model_")
        if frame_kind(x) is not None:
            raise InputError("x is a frame; expected one row. Pass x to predict, or a row of it as a dict.")
        if isinstance(x, str | bytes | Set) or not is_iterable(x):  # a set has no order
            raise InputError(
                f"x={quoted(x)} is no row. Pass its values in the order of the training columns as a list, "
                "or as a dict by their names."
            )
        known = self.columns_.column_names if self.columns_.named else None
        names = tuple(map(str, x.keys())) if hasattr(x, "keys") else known
        values = [x[name] for name in x.keys()] if hasattr(x, "keys") else list(x)  # noqa: SIM118
        if names is not None and len(names) != len(values):
            raise InputError(
                f"x has {len(values)} values; expected {len(names)}, one for each column of training."
            )
        cells = np.empty((1, len(values)), object)
        cells[0, :] = values
        return self.predict(TableSource(cells, names))[0]  # type: ignore[attr-defined]

    @abstractmethod
    def _values(self, X: RowsLike) -> Float64Array:
        """Return the model's values, shape (n, outputs), computed in blocks of rows."""


def encoded_rows(model: TableServer, X: RowsLike) -> RowSource:
    """Return the rows of a table as ``model_`` takes them: encoded and scaled as they are read."""
    check_is_fitted(model, "model_")
    return map_rows(EncodedRows(model.columns_, checked_table(model, X, reset=False)), model.scaling_)


class NumberAnswers(TableServer):
    """Predictions of a regression, in the target's own units."""

    target_: TargetTransform
    _flat: bool

    _learns: tuple[str, ...] = ("target_",)

    def predict(self, X: RowsLike) -> Float64Array:
        """Return the mean target of each row, shape (n,) or (n, outputs)."""
        return self._back(self._values(X))

    def _back(self, z: Float64Array) -> Float64Array:
        """Return mean targets (n,) or (n, outputs) from predictions of transformed ones (n, outputs)."""
        return predicted_numbers(self.target_.expected(z), flat=self._flat)


class ClassAnswers(TableServer):
    """Predictions of a classification."""

    classes_: Array

    @property
    def calibration_(self) -> Calibration:
        """How log odds come from the model's values."""
        check_is_fitted(self, "model_")
        calibration: Calibration = self.model_.calibration_
        return calibration

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the log odds of each row, shape (n, classes), or (n,) of the second of two classes."""
        return decision_values(self._values(X))

    def predict(self, X: RowsLike) -> Array:
        """Return the likeliest class of each row; if several tie, the first in ``classes_``."""
        return class_labels(self.predict_proba(X), self.classes_)

    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the probability of each class, shape (n, classes); rows sum to 1."""
        return probabilities(self._values(X))

    def predict_log_proba(self, X: RowsLike) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`, without its underflow."""
        return log_probabilities(self._values(X))
