"""Checks for values that no estimator accepts: ragged lists, dates as numbers, squares that overflow."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Rows, RowsLike
from gramian.exceptions import InputError

#: Largest accepted size of a feature: squared distances of ten million such features are still finite.
LARGEST = 1e150
#: The same of float32 rows, and the least size of the largest number of rows whose squares keep their digits
#: in float32: sums of 10,000 squares stay within the type. Chosen by hand.
LARGEST32, LEAST32 = 1e17, 1e-15
FLOAT64 = np.dtype(np.float64)


def as_array(name: str, values: RowsLike, dtype: DTypeLike | None = None) -> Array:
    """Return values as NumPy does; raise ``InputError`` for lists that form no array, such as ragged ones.

    >>> as_array("X", [[1.0], [1.0, 2.0]])
    Traceback (most recent call last):
    ...
    gramian.exceptions.InputError: X has rows of different lengths: 1 in row 0, 2 in row 1 (from 0). Give \
every row the same number of values.
    """
    try:
        array = np.asarray(values)
    except NotImplementedError:  # a series of pandas with Arrow's views
        array = np.fromiter(cast("Iterable[object]", values), object)
    except ValueError as error:
        if not of_lists(error):
            raise
        raise ragged_error(name, values) from None
    if dtype is None:
        return array
    refuse_times(name, array)
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must hold real numbers.")
    return array.astype(dtype, copy=False)


def refuse_times(name: str, values: Any) -> None:
    """Raise for dates and durations in place of numbers: NumPy would count them in their stored unit.

    ``values`` is an array, or anything with a ``dtype``; objects are looked at one by one.
    """
    kind = values.dtype.kind
    if kind == "O":
        types = set(map(type, np.asarray(values).ravel().tolist()))
        dates, durations = (np.datetime64, datetime.date), (np.timedelta64, datetime.timedelta)
        if any(issubclass(each, dates) or each.__name__ == "NaTType" for each in types):
            kind = "M"
        elif any(issubclass(each, durations) for each in types):
            kind = "m"
    if kind in "mM":
        what = "dates" if kind == "M" else "durations"
        cure = f"({name} - {name}.min())" if kind == "M" else name
        raise InputError(
            f"{name} holds {what} or missing ones (NaT), but numbers are expected. Drop rows without a "
            f"value, and choose a unit: {cure} / np.timedelta64(1, 'h') counts hours."
        )


def of_lists(error: ValueError) -> bool:
    """Return whether an error is NumPy's complaint about lists in place of numbers."""
    return "setting an array element with a sequence" in str(error)


def ragged_error(name: str, values: Any) -> InputError:
    """Return the error about values that contain lists in place of numbers."""
    sizes = [len(row) if _has_length(row) else 1 for row in values]
    other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None:
        return InputError(f"{name} holds lists where numbers are expected. Pass an array of numbers.")
    return InputError(
        f"{name} has rows of different lengths: {sizes[0]} in row 0, {sizes[other]} in row {other} (from 0). "
        "Give every row the same number of values."
    )


def _has_length(row: object) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim > 0)


def row_bytes(rows: Any) -> int:
    """Return the bytes of an array or a CSR matrix, 0 for rows stored elsewhere."""
    if hasattr(rows, "indptr"):
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
    return int(getattr(rows, "nbytes", 0))


def too_large(rows: Rows) -> tuple[int, int] | None:
    """Return row and column of the first number whose square would overflow in a distance, or None.

    Of float32 rows distances are computed in float32, whose squares end at 3e38. Time O(n d) for floats, none
    for other types, which cannot hold such numbers. Memory: one tile.
    """
    limit = limit_of(rows.dtype)
    if sp.issparse(rows):
        if _largest(rows.data) <= limit:
            return None
        k = int(np.argmax(np.abs(rows.data) > limit))
        return int(np.searchsorted(rows.indptr, k, "right") - 1), int(rows.indices[k])
    array: Any = rows if limit < np.inf else rows[:0]
    for where in row_slices(len(array), tile_rows(array.shape[1], 8)):
        tile = array[where]
        if _largest(tile) > limit:
            row, column = np.argwhere(np.abs(tile) > limit)[0].tolist()
            return where.start + row, column
    return None


def limit_of(dtype: np.dtype[Any]) -> float:
    """Return the largest number of rows of this type whose squares can be summed in it."""
    return {"float64": LARGEST, "float32": LARGEST32}.get(dtype.name, np.inf)


def _largest(values: Array) -> float:
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))  # −(−128) is no int8


def widen(rows: Rows) -> Rows:
    """Return float32 rows as float64 if squares of their numbers overflow or vanish in float32.

    Other rows are returned as they are. Time O(n d) for float32.

    >>> X = np.array([[1.0], [2.0]], np.float32)
    >>> [widen(X * np.float32(factor)).dtype.name for factor in (1e-25, 1.0, 1e20)]
    ['float64', 'float32', 'float64']
    """
    if rows.dtype != np.float32:
        return rows
    largest = _largest(rows.data if sp.issparse(rows) else rows)
    return rows if LEAST32 <= largest <= LARGEST32 or largest == 0.0 else rows.astype(np.float64)


def overflow(value: float, where: str, dtype: np.dtype[Any] = FLOAT64) -> InputError:
    """Return the error about a number whose square would overflow in rows of this type."""
    wide = "" if dtype == FLOAT64 else "Store the rows as float64, or "
    cure = "divide the column by its size, or take its logarithm."
    return InputError(
        f"X holds {value:.3g} in {where}. Numbers beyond {limit_of(dtype):g} are refused"
        f"{'' if dtype == FLOAT64 else f' in rows of {dtype}'}: squares of distances would overflow. "
        f"{wide + cure if wide else cure[0].upper() + cure[1:]}"
    )


def refuse_overflow(
    rows: Rows, names: Sequence[str] | None = None, number: Callable[[int], int] = int
) -> None:
    """Raise, with the ``number`` of its row and its column, for a number whose square would overflow."""
    cell = too_large(rows)
    if cell is not None:
        row, column = cell
        place = f"column {str(names[column])!r}" if names is not None else f"column {column}"
        raise overflow(float(rows[row, column]), f"row {number(row)}, {place} (from 0)", rows.dtype)


def refuse_not_finite(rows: Array, place: Callable[[int], str]) -> None:
    """Raise for the first row of floats that holds NaN or infinity; ``place`` says where it is."""
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        where = place(int(finite.argmin()))
        raise InputError(f"X contains NaN or infinity in {where}. Drop such rows or fill them in first.")
