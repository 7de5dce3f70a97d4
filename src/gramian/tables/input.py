"""Tables given to an estimator: checks with scikit-learn's error texts, rows for which there is time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gramian._typing import Array, IntArray, RowsLike
from gramian.data.distributed import is_elsewhere
from gramian.data.formats.frames import frame_kind, opened_frame
from gramian.data.formats.records import Records
from gramian.data.source import RowSource
from gramian.data.tables import TableSource, as_table
from gramian.exceptions import InputError

#: Number of rows on which reading is timed; how often a fit reads each row, roughly; and the largest share of
#: the remaining time that reading may take. Chosen by hand.
READ_ROWS, READINGS, READ_SHARE = 60_000, 4.0, 0.4


def checked_table(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Return X in a form that :func:`gramian.data.tables.as_table` reads, or raise with what is wrong.

    ``reset``: True for training rows, of which at least two are needed; False for rows that must match them.
    Column types are checked as the columns are read.
    """
    X = opened_frame(X)
    if isinstance(X, list | tuple | Records):
        X = as_table(X)
    known = isinstance(X, np.ndarray | TableSource | RowSource) or sp.issparse(X) or frame_kind(X) is not None
    if not known and not is_elsewhere(X) and hasattr(X, "__array__"):
        X = np.asarray(X)
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
    fitted = getattr(estimator, "n_features_in_", None)
    by_place = table.names is None or not hasattr(estimator, "feature_names_in_")
    if not reset and by_place and d != fitted:
        raise InputError(
            f"X has {d} features, but {type(estimator).__name__} is expecting {fitted} features as input: "
            "the columns of the training rows, in their order."
        )
    return X


def rows_in_time(
    X: RowsLike,
    deadline: float,
    read: Callable[[Any], object],
    rng: np.random.Generator,
    classes: Array | None = None,
) -> IntArray | None:
    """Return the numbers of as many random rows as there is time to read; None for all rows.

    deadline : when the fit ends, by ``time.perf_counter``.
    read : learns and encodes the columns of a table; timed on some of the rows.
    classes : (n,), the class of each row; one row of each is kept.
    """
    table = as_table(X)
    n = table.shape[0]
    if deadline == math.inf or n <= READ_ROWS:
        return None
    few = READ_ROWS // 3
    looks = [time.perf_counter()]
    for size in (few, few, READ_ROWS):  # the first read may import packages and fill caches
        read(table.subset(np.arange(size)))
        looks.append(time.perf_counter())
    _, first, second, now = looks
    # Subtract the part of the time that does not grow with the rows.
    each = READINGS * max(0.0, (now - second) - (second - first)) / (READ_ROWS - few)
    room = READ_SHARE * max(0.0, deadline - now)
    if room > 0 and room >= n * each:
        return None
    count = int(room / each) if room > 0 else 0
    # Drawn with replacement, duplicates dropped: a permutation of all rows would take too long.
    taken = np.zeros(n, bool)
    taken[rng.integers(n, size=max(READ_ROWS, count))] = True
    if classes is not None:
        taken[np.unique(classes, return_index=True)[1]] = True
    return np.flatnonzero(taken)
