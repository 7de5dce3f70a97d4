"""Sampled rows as floats of the tiles' precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Rows

#: Standard deviations between a column's mean and zero beyond which it is not rounded to float32.
FAR = 64.0


def as_float(rows: Rows, dtype: Any) -> Rows:
    """Return sampled rows as floats of the tiles' dtype: half the bytes and half the time in float32.

    Landmarks may be any points, so that rounding them costs no accuracy as long as it is small beside
    their spread. Float64 rows and integers of more than 16 bits are float64 where a column's mean exceeds 64
    of its standard deviations (rounding would be over 4e-6 of them), and where they are sparse.
    """
    if rows.dtype == np.dtype(dtype) or rows.dtype == np.float32:
        return rows
    if rows.dtype.kind != "f":
        if rows.dtype.itemsize <= 2:  # exact in float32
            return rows.astype(dtype)
        rows = rows.astype(np.float64)
    if sp.issparse(rows) or np.dtype(dtype) != np.float32:
        return rows
    largest = float(max(rows.max(initial=0.0), -rows.min(initial=0.0)))
    if largest > np.sqrt(np.finfo(np.float32).max):
        return rows
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    return rows.astype(dtype) if (np.abs(mean) <= FAR * spread).all() else rows
