"""Text that says that a value is missing: one rule for files, frames, records, single rows and exports."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from gramian._checks import is_iterable
from gramian.data.arrow import is_number
from gramian.data.cells import CATEGORY, NUMERIC, Cells, without_kind
from gramian.exceptions import InputError, quoted

#: Text that is a missing value in a column of any kind, unless the user names other text. Arrow's list, and
#: pandas' <NA>. Blank text is always a missing value.
MISSING = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
#: Text that is a missing value where all other text of a column is numbers, in lower case.
MARKERS = ("", "?", "-", "--", "na", "n/a", "nan", "none", "null", "unknown", "missing", ".")


def missing_texts(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the texts that count as missing, by default :data:`MISSING`; an empty list keeps them all.

    >>> missing_texts(["?", " "]), missing_texts(())
    (('?',), ())
    """
    if given is None:
        return MISSING
    return tuple(text.strip() for text in text_list("missing", given) if text.strip())


def text_list(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts that a user gave as a tuple."""
    texts = None if isinstance(values, str) or not is_iterable(values) else tuple(values)
    if texts is None or not all(isinstance(value, str) for value in texts):
        raise InputError(f"{name}={quoted(values)} is no list of texts. Pass one, such as {name}=['a'].")
    return texts


def says_missing(text: str, texts: Collection[str]) -> bool:
    """Return whether a cell is blank or one of the texts, without the spaces around it."""
    text = text.strip()
    return not text or text in texts


def missing_numbers(texts: Collection[str]) -> list[float]:
    """Return the numbers among the texts, such as −999: they are missing in columns of numbers too."""
    return [float(text) for text in texts if is_number(text) and math.isfinite(float(text))]


def without_missing(cells: Cells, texts: Collection[str], known: Collection[str] = ()) -> Cells:
    """Return cells in which the texts, and blank text, are missing values, but those ``known`` as values.

    >>> cells = without_missing(Cells(CATEGORY, np.array([0, 1, 0]), ("NA", "DE")), MISSING)
    >>> cells.values, cells.levels
    (array([-1,  0, -1]), ('DE',))
    """
    if cells.kind == NUMERIC and (numbers := missing_numbers(texts)):
        gone = np.isin(cells.values, numbers)
        return (
            without_kind(replace(cells, values=np.where(gone, np.nan, cells.values))) if gone.any() else cells
        )
    if cells.kind != CATEGORY:
        return cells
    lost = np.array([level not in known and says_missing(level, texts) for level in cells.levels], bool)
    if not lost.any():
        return cells
    codes = np.append(np.where(lost, -1, np.cumsum(~lost) - 1), -1)  # code −1 (missing) picks the last
    levels = tuple(level for level, gone in zip(cells.levels, lost) if not gone)
    example = levels[0] if levels and isinstance(cells.example, str) else cells.example
    return without_kind(replace(cells, values=codes[cells.values], levels=levels, example=example))
