"""Conversion of sampled rows to floats in the precision of the tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._numerics import entry_tolerance
from gramian._typing import FloatArray, Rows

#: A column whose mean is more than this many of its standard deviations from zero stays in float64.
#: Chosen by hand.
FAR = 64.0
#: Rows whose kernel values tell whether rounding changes them.
COMPARED = 32


def as_float(rows: Rows, dtype: DTypeLike, kernel: Callable[..., FloatArray] | None = None) -> Rows:
    """Return sampled rows as floats of the tiles' dtype; float32 takes half the bytes and half the time.

    Landmarks may be any points, so rounding them costs no accuracy as long as it is small compared with
    their spread and, where it is given, in the ``kernel``: k(x, x) and k(x, rounded x) are the same to the
    tolerance of tiles. Float64 rows and integers of more than 16 bits stay float64 otherwise, if a column's
    mean exceeds 64 of its standard deviations (rounding would be over 4e-6 of them), or if they are sparse.
    """
    if rows.dtype == np.dtype(dtype) or rows.dtype == np.float32:
        return rows
    if rows.dtype.kind != "f":
        if rows.dtype.itemsize <= 2:  # exact in float32
            return cast("Rows", rows.astype(dtype))
        rows = rows.astype(np.float64)
    if sp.issparse(rows) or np.dtype(dtype) != np.float32:
        return rows
    largest = float(max(rows.max(initial=0.0), -rows.min(initial=0.0)))
    if largest > float(np.sqrt(np.finfo(np.float32).max)):
        return rows
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    if not (np.abs(mean) <= FAR * spread).all():
        return rows
    rounded = rows.astype(dtype)
    return rounded if kernel is None or _are_close(kernel, rows, rounded) else rows


def _are_close(kernel: Callable[..., FloatArray], rows: FloatArray, rounded: FloatArray) -> bool:
    """Return whether rows and rounded ones have the same kernel values; the largest rows are compared."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    some = np.argpartition(-largest, COMPARED)[:COMPARED] if len(rows) > COMPARED else slice(None)
    own, other = (
        np.diagonal(kernel(rows[some], other, dtype=np.float64, n_jobs=1)) for other in (None, rounded[some])
    )
    return bool((np.abs(other - own) <= entry_tolerance(np.float32) * np.abs(own)).all())
