"""A table as estimators take it: what scikit-learn asks of X, and in its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gramian._typing import Array
from gramian.data.distributed import is_elsewhere
from gramian.data.formats.frames import frame_kind
from gramian.data.source import RowSource
from gramian.exceptions import InputError
from gramian.tables.reading import Table, as_table
from gramian.tables.taken import TakenTable


def checked_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X as something that :func:`gramian.tables.reading.as_table` reads, or say what is wrong with it.

    ``reset``: whether these are training rows, of which two are needed, or have to match those. Types of
    columns are looked at as they are read.
    """
    X = _readable(X)
    if isinstance(X, np.ndarray) or sp.issparse(X):
        array: Any = X
        if array.ndim != 2:
            raise InputError(
                f"X has shape {array.shape}; expected one row a sample, (n, d). Reshape your data: "
                "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row."
            )
        if array.dtype.kind == "c":
            raise InputError(
                "Complex data not supported: X holds complex numbers. Pass real and imaginary parts as two "
                "columns."
            )
    table = as_table(X)
    n, d = table.shape
    least = 2 if reset else 1
    if d == 0:
        raise InputError(
            f"X has 0 feature(s) (shape={(n, d)}) while a minimum of 1 is required. Pass at least one column."
        )
    if n < least:
        raise InputError(
            f"X has {n} sample(s) (shape={(n, d)}) while a minimum of {least} is required by "
            f"{type(estimator).__name__}. Pass more rows" + (f": n_samples={n} is too few." if n else ".")
        )
    known = getattr(estimator, "n_features_in_", None)
    by_place = table.names is None or not hasattr(estimator, "feature_names_in_")
    if not reset and by_place and d != known:
        raise InputError(
            f"X has {d} features, but {type(estimator).__name__} is expecting {known} features as input: the "
            "columns of the training rows, in their order."
        )
    return X


def _readable(X: Any) -> Any:
    """Return X, or the array or table that it stands for."""
    if isinstance(X, list | tuple):
        return as_table(X)
    known = isinstance(X, np.ndarray | Table | RowSource) or sp.issparse(X) or frame_kind(X) is not None
    if known or is_elsewhere(X) or not hasattr(X, "__array__"):
        return X
    return np.asarray(X)


def weighted_rows(X: Any, weights: Array | None) -> tuple[Any, Array | None]:
    """Return the rows of weight above 0 and their numbers; X and None where that is all of them.

    A row of weight 0 then counts nowhere: not in medians, categories or scales.
    """
    if weights is None or (weights > 0).all():
        return X, None
    numbers = np.flatnonzero(weights > 0)
    return TakenTable(as_table(X), numbers), numbers
