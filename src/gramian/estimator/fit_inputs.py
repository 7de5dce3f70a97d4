"""The rows that a model reads to answer, for those who ask it about its own values."""

from __future__ import annotations

from typing import Any, Protocol

from gramian._typing import RowsLike
from gramian.data.source import RowSource


class ReadsRows(Protocol):
    """An estimator of this library, as far as rows are read by it."""

    def _rows(self, X: RowsLike, *, reset: bool) -> Any:
        """Return a source of the checked rows."""


def read_rows(model: ReadsRows, X: RowsLike, *, reset: bool = False) -> RowSource:
    """Return the rows of X, checked against those of the fit, or with ``reset`` as those of a new fit."""
    found: RowSource = model._rows(X, reset=reset)
    return found
