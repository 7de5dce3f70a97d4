"""Centre of features that are far from 0, subtracted from rows in float64 before they are rounded."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Array, Float64Array, FloatArray

#: Mean of a feature in its deviations from which rows are centred first: float32 then keeps a millionth of
#: the deviation. Chosen by hand: to centre float64 rows takes longer than to round them.
FAR = 16.0


def far_center(center: Float64Array, inverse: Float64Array) -> Float64Array | None:
    """Return ``center`` (d,) if the mean of a feature is at least ``FAR`` times its deviation, else None.

    inverse : (d,), 1/deviation, and 0 for features without effect.

    >>> far_center(np.array([3.0, 2_000.0]), np.array([1.0, 0.1])), far_center(np.ones(1), np.ones(1))
    (array([   3., 2000.]), None)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(center * inverse)
    return center if (far >= FAR).any() else None


def centered(X: Array, center: Float64Array | None, dtype: DTypeLike) -> FloatArray:
    """Return X − center in a float type, subtracted in float64; X in that type if there is no centre."""
    if center is None:
        return np.asarray(X, dtype)
    out: FloatArray = np.empty(X.shape, dtype)
    return np.subtract(X, center, out=out, casting="unsafe")
