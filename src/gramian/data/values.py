"""Checks for values that no estimator accepts: masked values, ragged lists, squares that overflow."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Rows
from gramian.exceptions import InputError

#: Largest accepted size of a feature: squared distances of ten million such features are still finite.
LARGEST = 1e150
#: The same for float32: squared distances of eight thousand such features are still finite.
LARGEST_FLOAT32 = 1e17


def refuse_masked(name: str, values: Any) -> None:
    """Raise for a masked array with a masked value, because NumPy would read the value behind the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        count = int(np.ma.count_masked(values))
        raise InputError(
            f"{name} is a masked array, and {count} of its values {'are' if count > 1 else 'is'} masked. "
            f"Fill them in ({name}.filled(value)), or drop their rows."
        )


def as_array(name: str, values: Any, dtype: Any = None) -> Array:
    """Return values as NumPy does; raise ``InputError`` for lists that form no array, such as ragged ones.

    >>> as_array("X", [[1.0], [1.0, 2.0]])
    Traceback (most recent call last):
    ...
    gramian.exceptions.InputError: X has rows of different lengths: 1 in row 0, 2 in row 1 (from 0). Give \
every row the same number of values.
    """
    try:
        found = np.asarray(values)
    except ValueError as error:
        if not of_lists(error):
            raise
        raise ragged(name, values) from None
    if dtype is None:
        return found
    refuse_times(name, found)
    return found.astype(dtype, copy=False)


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


def ragged(name: str, values: Any) -> InputError:
    """Return the error about values that contain lists in place of numbers."""
    sizes = [len(row) if _has_length(row) else 1 for row in values]
    other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None:
        return InputError(f"{name} holds lists where numbers are expected. Pass an array of numbers.")
    return InputError(
        f"{name} has rows of different lengths: {sizes[0]} in row 0, {sizes[other]} in row {other} (from 0). "
        "Give every row the same number of values."
    )


def _has_length(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim > 0)


def row_bytes(rows: Any) -> int:
    """Return the bytes of an array or a CSR matrix, 0 for rows stored elsewhere."""
    if hasattr(rows, "indptr"):
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
    return int(getattr(rows, "nbytes", 0))


def too_large(rows: Rows) -> tuple[int, int] | None:
    """Return row and column of the first number whose square would overflow in a distance, or None.

    Time O(n d) for floats, none for other types, which cannot hold such numbers. Memory: one tile.
    """
    if rows.dtype.kind != "f":
        return None
    limit = largest(rows.dtype)
    if sp.issparse(rows):
        if not _beyond(rows.data, limit):
            return None
        k = int(np.argmax(np.abs(rows.data) > limit))
        return int(np.searchsorted(rows.indptr, k, "right") - 1), int(rows.indices[k])
    array: Any = rows
    for where in row_slices(len(array), tile_rows(array.shape[1], array.dtype.itemsize)):
        tile = array[where]
        if _beyond(tile, limit):
            row, column = np.argwhere(np.abs(tile) > limit)[0].tolist()
            return where.start + row, column
    return None


def largest(dtype: Any) -> float:
    """Return the largest size of a feature whose squared distances are finite in ``dtype``."""
    return LARGEST if np.dtype(dtype).itemsize > 4 else LARGEST_FLOAT32


def _beyond(values: Any, limit: float) -> bool:
    return bool(max(values.max(initial=0.0), -values.min(initial=0.0)) > limit)


def overflow(value: float, where: str, dtype: Any = np.float64) -> InputError:
    """Return the error about a number whose square would overflow in the type of its rows."""
    limit = largest(dtype)
    narrow, cure = "", "Divide the column by its size"
    if limit < LARGEST:
        narrow = f" in {np.dtype(dtype).name}"
        cure = "Drop the row if it is a missing value; else pass X as float64, divide the column by its size"
    return InputError(
        f"X holds {value:.3g} in {where}. Numbers beyond {limit:g} are refused{narrow}: squares of distances "
        f"would overflow. {cure}, or take its logarithm."
    )


def refuse_overflow(rows: Rows, names: Any = None, first: int = 0) -> None:
    """Raise, with row (counted from ``first``) and column, for a number whose square would overflow."""
    found = too_large(rows)
    if found is not None:
        row, column = found
        place = f"column {str(names[column])!r}" if names is not None else f"column {column}"
        raise overflow(float(rows[row, column]), f"row {first + row}, {place} (from 0)", rows.dtype)
