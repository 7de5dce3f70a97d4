"""The rows that a model reads to answer, for those who ask it about its own values."""

from __future__ import annotations

from gramian._typing import RowsLike
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator


def read_rows(model: KernelEstimator, X: RowsLike, *, reset: bool = False) -> RowSource:
    """Return the rows of X, checked against those of the fit, or with ``reset`` as those of a new fit."""
    found: RowSource = model._rows(X, reset=reset)
    return found
