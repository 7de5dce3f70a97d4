"""Folds for a parameter ``cv``: leave-one-out, a number of folds, or those of a splitter."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import check_cv

from gramian._checks import refuse_masked
from gramian._typing import IntArray, RowsLike
from gramian.exceptions import InputError, did_you_mean, quoted, shortened


def folds_of(cv: object, n: int, y: ArrayLike) -> Any:
    """Return None, "gcv", a number of folds, or the folds of n rows that a splitter gives."""
    if cv is None or isinstance(cv, str):
        if cv is None or cv == "gcv":
            return cv
        raise InputError(
            f"cv={cv!r} is unknown.{did_you_mean(cv, ('gcv',))} Give None for leave-one-out, "
            "'gcv', a number of folds, or a splitter."
        )
    if isinstance(cv, bool | numbers.Number):
        if isinstance(cv, bool) or not isinstance(cv, numbers.Integral) or int(cv) < 2:
            raise InputError(
                f"cv={cv!r} is no number of folds: at least 2 are needed. Give an int of 2 or more, "
                "or None for leave-one-out."
            )
        return int(cv)
    if not hasattr(cv, "split") and not isinstance(cv, Iterable):
        raise InputError(
            f"cv={cv!r} has type {type(cv).__name__}. Give None, 'gcv', an int of 2 or more, a "
            "splitter with a method split, or an iterable of (training rows, held-out rows)."
        )
    given = cv if hasattr(cv, "split") else list(cast("Iterable[Any]", cv))
    if isinstance(given, list) and not all(isinstance(pair, tuple | list) for pair in given):
        raise InputError(
            f"cv={quoted(given)} does not give pairs. Give an iterable of (training rows, held-out rows)."
        )
    try:
        splits = list(check_cv(given).split(np.empty((n, 1)), np.asarray(y)))
    except ValueError as error:  # such as groups that are missing
        raise InputError(
            f"cv={quoted(cv)} gives no folds of these rows ({shortened(str(error))}). Choose another "
            "splitter, or pass the folds: cv=list(splitter.split(X, y, groups))."
        ) from None
    if not splits:
        raise InputError(f"cv={cv!r} gives no folds. Give at least one pair of rows.")
    return [(_row_numbers(train, n), _row_numbers(test, n)) for train, test in splits]


def _row_numbers(rows: RowsLike, n: int) -> IntArray:
    """Return one side of a fold as row numbers; a mask of all rows says which of them it holds."""
    refuse_masked("cv", rows)
    found = np.asarray(rows)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    whole = found.dtype.kind in "iu" or not found.size
    if found.ndim != 1 or not whole or (found.size and not 0 <= found.min() <= found.max() < n):
        raise InputError(
            f"cv gives {quoted(found)} for the rows of a fold; expected row numbers from 0 to {n - 1}, or a "
            f"mask of shape ({n},)."
        )
    return found.astype(np.intp)
