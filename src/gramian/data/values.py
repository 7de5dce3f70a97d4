"""Checks for values that no estimator can take: masked ones, and numbers whose squares overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Rows
from gramian.exceptions import InputError

#: Largest size of a feature: squared distances of ten million such features are still finite.
LARGEST = 1e150


def refuse_masked(name: str, values: Any) -> None:
    """Raise for a masked array in which a value is masked: NumPy would read it as if it were not."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        count = int(np.ma.count_masked(values))
        raise InputError(
            f"{name} is a masked array, and {count} of its values {'are' if count > 1 else 'is'} masked. "
            f"Fill them in ({name}.filled(value)), or drop their rows."
        )


def too_large(rows: Rows) -> tuple[int, int] | None:
    """Return row and column of the first number whose square would overflow in a distance, or None.

    Time O(n d) for float64, none for other types, which hold no such numbers. Memory of a tile.
    """
    if rows.dtype != np.float64:
        return None
    if sp.issparse(rows):
        if not _beyond(rows.data):
            return None
        k = int(np.argmax(np.abs(rows.data) > LARGEST))
        return int(np.searchsorted(rows.indptr, k, "right") - 1), int(rows.indices[k])
    array: Any = rows
    for where in row_slices(len(array), tile_rows(array.shape[1], 8)):
        tile = array[where]
        if _beyond(tile):
            row, column = np.argwhere(np.abs(tile) > LARGEST)[0].tolist()
            return where.start + row, column
    return None


def _beyond(values: Any) -> bool:
    return bool(max(values.max(initial=0.0), -values.min(initial=0.0)) > LARGEST)


def overflow(value: float, where: str) -> InputError:
    """Return the error about a number whose square would overflow."""
    return InputError(
        f"X holds {value:.3g} in {where}. Numbers beyond {LARGEST:g} are refused: squares of distances "
        "would overflow. Divide the column by its size, or take its logarithm."
    )


def refuse_overflow(rows: Rows, names: Any = None, first: int = 0) -> None:
    """Raise, with row (counted from ``first``) and column, for a number whose square would overflow."""
    found = too_large(rows)
    if found is not None:
        row, column = found
        place = f"column {str(names[column])!r}" if names is not None else f"column {column}"
        raise overflow(float(rows[row, column]), f"row {first + row}, {place} (from 0)")
