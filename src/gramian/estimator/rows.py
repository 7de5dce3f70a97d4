"""Checks of rows in memory, and of their columns against the fit: errors name the column of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_array

from gramian._checks import refuse_masked
from gramian._typing import RowsLike
from gramian.data.cells import BOOLEAN, CATEGORY, EMPTY, NOUNS, NUMERIC
from gramian.data.distributed import refuse_elsewhere
from gramian.data.formats.frames import frame_kind, opened_frame
from gramian.data.formats.records import Records
from gramian.data.names import names_of, places_of, with_columns
from gramian.data.tables import TableSource, as_table
from gramian.data.values import of_lists, ragged_error, refuse_overflow, widen
from gramian.estimator.fitting import remove
from gramian.exceptions import InputError, quoted


def matched(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Return X with its columns in the order of the fit, by the rule of :mod:`gramian.data.names`.

    ``reset``: X is what the estimator is fitted to; its names become ``feature_names_in_``.
    """
    names = names_of(X)
    if reset:
        remove(estimator, "feature_names_in_")  # of an earlier fit
        if names:
            estimator.feature_names_in_ = np.asarray(names, object)
        return X
    places = places_of(names, names_known(estimator), type(estimator).__name__)
    return X if places is None else with_columns(X, places)


def names_known(estimator: BaseEstimator) -> tuple[str, ...] | None:
    """Return the names of the columns that an estimator was fitted to; None if they had none."""
    known = getattr(estimator, "feature_names_in_", None)
    return None if known is None else tuple(known)


def check_width(estimator: BaseEstimator, width: int, *, reset: bool) -> None:
    """Keep the number of features of a fit, or raise if rows have another one; scikit-learn's words."""
    if reset:
        estimator.n_features_in_ = width
    elif width != getattr(estimator, "n_features_in_", width):
        hint = ""
        if getattr(estimator, "_precomputed", False):
            hint = (
                " With kernel='precomputed' X has one column for each training row. Pass K(X_new, X_train) "
                f"of shape (m, {estimator.n_features_in_})."
            )
        raise InputError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input.{hint}"
        )


#: How names of Arrow's types of dates and durations begin.
_TEMPORAL = ("timestamp", "date", "time", "duration")


def checked_rows(
    estimator: BaseEstimator, X: RowsLike | None, *, reset: bool, lengths: bool = True, **options: Any
) -> Any:
    """Return X as scikit-learn's ``validate_data`` does with these options: an array, or CSR.

    Columns are matched by name (:mod:`gramian.data.names`). Masked values, dates, and in a table what is no
    number are refused by name. ``lengths``: whether squares will be taken of the numbers: float32 rows whose
    squares float32 cannot hold become float64, and training rows (``reset``) whose squares overflow in
    float64 are refused.
    """
    refuse_elsewhere(X, type(estimator).__name__)
    if X is None or type(X) in (str, dict):  # SciPy's dok_array is a kind of dict
        raise InputError(
            f"X has type {type(X).__name__}; expected 2D array-like rows of numbers, (n, d). Pass an array, "
            "a frame, or for one row [row]. gramian.open_data(path, …) reads a file."
        )
    X = matched(estimator, opened_frame(X), reset=reset)
    checked = checked_values(estimator, X, reset=reset, lengths=lengths, **options)
    check_width(estimator, checked.shape[1], reset=reset)
    return checked


def checked_values(
    estimator: BaseEstimator, X: RowsLike, *, reset: bool, lengths: bool = True, **options: Any
) -> Any:
    """Return the numbers of X as an array, or CSR; names and width are not looked at."""
    refuse_masked("X", X)
    holds_dates = _dates_in(X)
    if holds_dates is not None:
        raise InputError(f"{holds_dates} holds dates or durations. {_cure(estimator)}")
    values = X.cells if isinstance(X, Records) else np.asarray(X) if _of_float32(X) else X
    try:
        checked = check_array(values, accept_sparse="csr", estimator=estimator, input_name="X", **options)
    except (TypeError, ValueError) as error:
        if frame_kind(X) is not None or isinstance(X, Records):
            _refuse_column(estimator, as_table(X))
        elif isinstance(error, ValueError) and "convert" in str(error):
            objects = np.asarray(X, object)
            if objects.ndim == 2:
                _refuse_column(estimator, as_table(objects))
        elif isinstance(error, ValueError) and of_lists(error):
            raise ragged_error("X", X) from None
        elif lengths and isinstance(error, ValueError) and "contains" in str(error):  # NaN, or infinity
            array: Any = X if sp.issparse(X) else np.asarray(X)
            if array.ndim == 2:
                _refuse_column(estimator, as_table(array))
        raise
    if lengths:
        checked = widen(checked)
    if lengths and reset:
        refuse_overflow(checked, names_of(X))
    return checked


def _refuse_column(estimator: BaseEstimator, table: TableSource) -> None:
    """Raise for the first column of a table that holds text, dates, or missing or infinite values."""
    n, d = table.shape
    names = table.names or tuple(map(str, range(d)))
    missing, infinite = np.zeros(d, np.intp), np.zeros(d, np.intp)
    for start in range(0, n, table.block_rows):
        block = table.block(slice(start, min(n, start + table.block_rows)))
        for j, name in enumerate(names):
            cells = block.cells(j, name, False)
            if cells.kind not in (NUMERIC, BOOLEAN, EMPTY):
                what = NOUNS[cells.kind]
                what += f" (such as {quoted(cells.example)})" if cells.kind == CATEGORY else ""
                raise InputError(f"Column {name!r} of X holds {what}. {_cure(estimator)}")
            missing[j] += np.isnan(cells.values).sum()
            infinite[j] += np.isinf(cells.values).sum()
    for what, counts, cure in (
        ("missing", missing, _cure(estimator)),
        ("infinite", infinite, "Replace them by numbers, or drop the column."),
    ):
        if counts.any():
            j = int(np.flatnonzero(counts)[0])
            values = f"{what} value{'s' if counts[j] > 1 else ''}"
            known = "NaN" if what == "missing" else "infinity"  # scikit-learn's words
            raise InputError(
                f"Input X contains {known}. Column {names[j]!r} of X has {counts[j]} {values} in {n} rows. "
                f"{cure}"
            )


def _cure(estimator: BaseEstimator) -> str:
    regressor, classifier = "gramian.TabularRegressor", "gramian.TabularClassifier"
    tabular = f"{regressor} or {classifier}"
    if is_regressor(estimator) or is_classifier(estimator):
        tabular = regressor if is_regressor(estimator) else classifier
    return (
        f"{type(estimator).__name__} takes finite numbers only: encode the column, fill it in or drop it. "
        f"{tabular} takes text, dates and missing values as they are."
    )


def _of_float32(X: Any) -> bool:
    """Return whether X is a frame of float32 that scikit-learn would read as float64: of polars or Arrow."""
    kind = frame_kind(X)
    types = X.dtypes if kind == "polars" else X.schema.types if kind == "Arrow" else []
    return bool(types) and {str(each) for each in types} <= {"Float32", "float"}


def _dates_in(X: Any) -> str | None:
    """Return what holds dates or durations, or None: NumPy would read them as counts of nanoseconds."""
    kind = frame_kind(X)
    if kind == "pandas":
        dated = [name for name, each in zip(X.columns, X.dtypes) if getattr(each, "kind", "O") in "mM"]
    elif kind == "polars":
        dated = [name for name, each in X.schema.items() if each.is_temporal()]
    elif kind == "Arrow":
        dated = [each.name for each in X.schema if str(each.type).startswith(_TEMPORAL)]
    else:
        return "X" if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M") else None
    return f"Column {str(dated[0])!r} of X" if dated else None
