"""Constant kernel, the prior of an intercept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Float64Array, FloatArray, Rows
from gramian.kernels.base import Kernel, as_rows
from gramian.kernels.columns import Columns, float_type


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, z) = 1: ``c * Constant()`` in a sum is an intercept whose prior has the variance c.

    >>> import numpy as np, gramian as gm
    >>> (gm.Gaussian() + 2.0 * Constant())(np.array([[0.0]]), np.array([[0.0], [99.0]]))
    array([[3., 2.]])
    """

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return ConstantColumns(Z.shape[0], float_type(Z) if dtype is None else dtype)

    def diagonal(self, X: Rows) -> Float64Array:
        return np.ones(as_rows(X, "X").shape[0])


class ConstantColumns(Columns):
    """Columns of ones."""

    def into(self, X: Rows, out: FloatArray) -> None:
        out[...] = 1.0
