"""Conversion of rows to what estimators take: chunks of floats, or data frames unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, Rows

#: Rows of one step of scaling and prediction.
STEP = 65_536


def as_float(X: Rows) -> Rows:
    """Return rows as floats; float32 holds integers of up to 16 bits exactly in half the memory."""
    if X.dtype.kind == "f":
        return X
    return X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)


def by_steps(call: Callable[[Any], Any], X: Any) -> Array:
    """Return what ``call`` makes of all rows, by steps, so that what is made on the way stays small.

    An Arrow table goes in whole: the models for tables read it block by block.
    """
    if not hasattr(X, "dtype"):
        return np.asarray(call(X))
    return np.concatenate([np.asarray(call(as_float(X[rows]))) for rows in row_slices(X.shape[0], STEP)])


def taken(X: Any, rows: IntArray) -> Any:
    """Return some rows: of an array as floats, of an Arrow table as they are."""
    return X.take(rows) if not hasattr(X, "dtype") else as_float(X[rows])
