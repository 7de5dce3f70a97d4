"""The rows that a model reads to answer, for those who ask it about its own values."""

from __future__ import annotations

from typing import Any, Protocol

from gramian._typing import RowsLike
from gramian.data.source import RowSource
from gramian.exceptions import InputError
from gramian.kernels.precomputed import StoredRows


class ReadsRows(Protocol):
    """An estimator of this library, as far as rows are read by it."""

    def _rows(self, X: RowsLike, *, reset: bool) -> Any:
        """Return a source of the checked rows."""


def read_rows(model: ReadsRows, X: RowsLike, *, reset: bool = False) -> RowSource:
    """Return the rows of X, checked against those of the fit, or with ``reset`` as those of a new fit."""
    found: RowSource = model._rows(X, reset=reset)
    return found


def read_paired_rows(model: ReadsRows, X: RowsLike) -> RowSource:
    """Return the rows of X for work that takes their kernel values with each other, and not only with Z."""
    source = read_rows(model, X)
    if not isinstance(source, StoredRows):
        return source
    n, width = source.matrix.shape
    if n != width:
        raise InputError(
            f"X has shape {(n, width)}, but the kernel values of the rows with each other are needed. "
            f"Pass the training matrix K(X, X) of shape ({width}, {width})."
        )
    return StoredRows(source.matrix.paired())
