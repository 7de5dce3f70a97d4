"""Refuse predictions that have overflowed, naming the row and the value that are the cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramian._typing import Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.kernels.columns import dense


def finite_values(values: Float64Array, rows: Callable[[IntArray], Any]) -> Float64Array:
    """Return values (n, outputs) if all are finite; else raise ``InputError`` naming the first bad row.

    rows : from row numbers to those rows, whose values are finite. Time of one pass over ``values``.
    """
    if np.isfinite(values).all():
        return values
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    row = dense(rows(bad[:1]), np.float64)[0]
    place = int(np.abs(row).argmax())
    others = f", and so do {len(bad) - 1:,} more rows" if len(bad) > 1 else ""
    raise InputError(
        f"X has the value {row[place]:.6g} in row {bad[0]}, feature {place}: the prediction "
        f"overflows{others}. Pass rows that are like the training rows; correct or clip such values."
    )
