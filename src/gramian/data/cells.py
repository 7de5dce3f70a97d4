"""Conversion of the cells of one column to numbers or codes, for every stored type."""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError, quoted

#: Kinds of columns. EMPTY: only missing values, so that the kind is unknown.
NUMERIC, BOOLEAN, CATEGORY, DATE, DURATION, EMPTY = (
    "numeric",
    "boolean",
    "category",
    "date",
    "duration",
    "empty",
)
#: Names of the kinds in error messages.
NOUNS = {
    NUMERIC: "numbers",
    BOOLEAN: "booleans",
    CATEGORY: "text",
    DATE: "dates",
    DURATION: "durations",
    EMPTY: "missing values",
}
#: Text that is a whole number, and the start of such text that is a code, such as 007.
_WHOLE, _ZERO = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?0\d")
#: What dates hold that name their time zone.
AWARE = "times with a zone"
#: Types of pandas' missing values, known by name so that pandas need not be installed.
_MISSING_TYPES = {"NAType", "NaTType"}
#: Microseconds in a day.
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")


@dataclass(frozen=True)
class Cells:
    """Some cells of a column, converted to numbers or codes.

    ``values`` are numbers, 0 and 1, or days (since 1970 for a date), NaN if missing; for a category, codes
    into ``levels``, −1 if missing. ``holds`` is the type of a category's values before they became text,
    and of dates with a time zone :data:`AWARE`;
    ``narrow`` says whether float32 holds the numbers exactly; ``example`` is one value for error messages;
    ``undeclared`` says whether a category is text that the user did not declare, which may hold dates.
    """

    kind: str
    values: Array
    levels: tuple[str, ...] = ()
    holds: str = ""
    narrow: bool = True
    example: object = None
    undeclared: bool = False


def cells_of(raw: Array, column: str, as_category: bool = False) -> Cells:
    """Return the cells of a one-dimensional array of numbers, booleans, dates, text or objects.

    Booleans, numbers and text keep their kind. Objects take the kind of their values, which must all have
    the same one (booleans among numbers become 0 and 1). With ``as_category`` values of any kind except
    dates become codes. A column of two kinds, or of other values, is an ``InputError`` that names it.

    >>> cells_of(np.array(["b", None, "a"], object), "shape").values
    array([ 0, -1,  1])
    >>> cells_of(np.array([3, None, 2.5], object), "size").values
    array([3. , nan, 2.5])
    """
    kind = raw.dtype.kind
    if kind in "iufb" and not as_category:
        narrow = kind == "b" or raw.dtype.itemsize <= (4 if kind == "f" else 2)
        values = raw.astype(np.float64)
        return Cells(BOOLEAN if kind == "b" else NUMERIC, values, narrow=narrow, example=_first(raw))
    if kind in "iufb":
        present, codes = np.unique(raw, return_inverse=True)
        return categories(codes.reshape(-1), present.tolist(), column)
    if kind in "mM":
        return _times(raw, DATE if kind == "M" else DURATION)
    if kind in "OUT":
        return _objects(raw.tolist(), column, as_category)
    raise _unreadable_error(column, f"values of type {raw.dtype}", _first(raw))


def categories(codes: IntArray, levels: Sequence[Any], column: str) -> Cells:
    """Return a category's cells from codes into values of any kind; a negative code is missing."""
    kinds = _kinds(levels, column)
    kind = _one_kind(kinds, column)
    if kind in (DATE, DURATION):
        raise _unreadable_error(column, f"{NOUNS[kind]} as categories", kinds[kind])
    if kind == NUMERIC and any(not is_missing(v) and abs(_number(v)) == float("inf") for v in levels):
        raise InputError(
            f"Column {column!r} holds infinity. Replace it by a number, or by NaN for a missing value."
        )
    texts = [None if is_missing(value) else _text(value) for value in levels]
    known = list(dict.fromkeys(text for text in texts if text is not None))
    place = {text: j for j, text in enumerate(known)}
    # Code −1 (missing) picks the last entry.
    back = np.array([-1 if text is None else place[text] for text in texts] + [-1], np.intp)
    return Cells(
        CATEGORY if known else EMPTY,
        back[np.asarray(codes, np.intp)],
        tuple(known),
        NOUNS[kind] if known else "",
        example=kinds.get(kind),
    )


def is_code(text: str) -> bool:
    """Return whether text reads as a number but is a code: with a leading zero, or too long for float64.

    >>> is_code("007"), is_code("12345678901234567891"), is_code("12345678901234567890.0"), is_code("2")
    (True, True, False, False)
    """
    text = text.strip()
    if not _WHOLE.fullmatch(text) or len(text) < 16:
        return _ZERO.match(text) is not None
    return len(text) > 300 or text.lstrip("+-").startswith("0") or int(float(text)) != int(text)


def unique_names(named: Iterable[tuple[str, str]], columns: Iterable[str]) -> tuple[str, ...]:
    """Return names for encoded columns, given the column of each and the name that it would have.

    A name that is taken, by one before it or by another column, gets a number behind it.

    >>> unique_names([("a", "a=b"), ("a", "a=c"), ("a=b", "a=b")], ["a", "a=b"])
    ('a=b (2)', 'a=c', 'a=b')
    """
    unique, taken = [], set(columns)
    for column, name in named:
        further = (f"{name} ({k})" for k in count(2))
        free = name if name == column else next(text for text in chain([name], further) if text not in taken)
        taken.add(free)
        unique.append(free)
    return tuple(unique)


def without_kind(cells: Cells) -> Cells:
    """Return cells that are all missing as EMPTY, others unchanged."""
    values = cells.values
    if not len(values):
        return cells
    gone = (values < 0) if cells.kind == CATEGORY else np.isnan(values)
    return Cells(EMPTY, np.full(len(values), np.nan)) if gone.all() else cells


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or one of pandas' missing values."""
    if type(value) is str:
        return False
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()  # a signalling NaN cannot be compared
    return bool(value != value) if isinstance(value, numbers.Number | np.generic) else False


def mixed_kinds_error(column: str, first: str, one: object, second: str, other: object) -> InputError:
    """Return the error about a column of mixed kinds, with one value of each."""
    return InputError(
        f"Column {column!r} mixes {NOUNS[first]} (such as {quoted(one)}) and {NOUNS[second]} (such as "
        f"{quoted(other)}). Give it one kind: convert the one into the other, or set what "
        "cannot be read to missing."
    )


def _first(raw: Array) -> object:
    return raw[:1].tolist()[0] if len(raw) else None


def _times(raw: Array, kind: str) -> Cells:
    gone = np.isnat(raw)
    counts = raw.astype("datetime64[us]" if kind == DATE else "timedelta64[us]").astype(np.int64)
    values = np.where(gone, np.nan, counts / DAY)
    present = raw[~gone][:1]
    return Cells(kind, values, narrow=False, example=str(present[0]) if len(present) else None)


def _objects(values: list[Any], column: str, as_category: bool) -> Cells:
    """Return the cells of Python objects: each distinct value is converted once, rows look it up."""
    try:
        place = dict.fromkeys(values)
    except TypeError:  # a signalling NaN, which is a missing value here, or what has no hash
        values = [None if isinstance(v, decimal.Decimal) and v.is_snan() else v for v in values]
        _kinds(values, column)  # raises, as no kind of value lacks a hash
        place = dict.fromkeys(values)
    levels = list(place)
    index = dict(zip(levels, range(len(levels))))
    codes = np.fromiter(map(index.__getitem__, values), np.intp, len(values))
    kinds = _kinds(levels, column)
    kind = _one_kind(kinds, column)
    if kind == EMPTY:
        return Cells(EMPTY, np.full(len(values), np.nan))
    if kind == CATEGORY or (as_category and kind in (NUMERIC, BOOLEAN)):
        return replace(categories(codes, levels, column), undeclared=not as_category)
    numbers_of = _NUMBERS[kind]
    known = np.array([np.nan if is_missing(v) else numbers_of(v) for v in levels], np.float64)
    aware = {
        v.tzinfo is not None: v for v in levels if isinstance(v, datetime.datetime) and not is_missing(v)
    }
    if len(aware) > 1:
        raise InputError(
            f"Column {column!r} mixes times with a time zone (such as {quoted(aware[True])}) and without one "
            f"(such as {quoted(aware[False])}). Convert all of them to one time zone."
        )
    holds = AWARE if True in aware else ""
    return Cells(kind, known[codes], holds=holds, narrow=kind == BOOLEAN, example=kinds[kind])


def _kinds(levels: Sequence[Any], column: str) -> dict[str, Any]:
    """Return the kinds of some values, with one example of each."""
    if levels and set(map(type, levels)) == {str}:  # by far the most common case
        return {CATEGORY: levels[0]}
    examples: dict[str, Any] = {}
    kinds: dict[type[Any], str | None] = {}
    for value in levels:
        if is_missing(value):
            continue
        own = type(value)
        if own not in kinds:
            kinds[own] = _kind(own)
        kind = kinds[own]
        if kind is None:
            raise _unreadable_error(column, f"values of type {own.__name__}", value)
        examples.setdefault(kind, value)
    return examples


def _one_kind(kinds: dict[str, Any], column: str) -> str:
    if set(kinds) == {NUMERIC, BOOLEAN}:
        return NUMERIC
    if len(kinds) > 1:
        (first, one), (second, other), *_ = kinds.items()
        raise mixed_kinds_error(column, first, one, second, other)
    return next(iter(kinds), EMPTY)


def _kind(own: type[Any]) -> str | None:
    # NumPy counts its timedelta as a number, and Python its bool as an int: the order matters.
    for types, kind in (
        ((bool, np.bool_), BOOLEAN),
        ((np.datetime64, datetime.date), DATE),
        ((np.timedelta64, datetime.timedelta), DURATION),
        ((numbers.Real, np.integer, np.floating, decimal.Decimal), NUMERIC),
        ((str,), CATEGORY),
    ):
        if issubclass(own, types):
            return kind
    return None


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer too large for float64, refused like an infinity
        return float("inf") if value > 0 else float("-inf")


def _text(value: object) -> str:
    """Return the name of a category; 3 and 3.0 have the same name."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, numbers.Integral | np.integer):
        return str(int(value))  # exact, where float64 rounds beyond 2⁵³
    number = _number(value)
    if isinstance(value, decimal.Decimal) and value != decimal.Decimal(str(number)):
        return str(int(value)) if value == value.to_integral_value() else str(value.normalize())
    return str(int(number)) if number.is_integer() else str(number)


def _day(value: Any) -> float:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return float(np.datetime64(value, "us").astype(np.int64) / DAY)


def _days(value: datetime.timedelta | np.timedelta64) -> float:
    return float(np.timedelta64(value, "us").astype(np.int64) / DAY)


#: Conversion of one value of each kind to a number.
_NUMBERS: dict[str, Callable[[Any], float]] = {NUMERIC: _number, BOOLEAN: float, DATE: _day, DURATION: _days}


def _unreadable_error(column: str, what: str, value: object) -> InputError:
    return InputError(
        f"Column {column!r} holds {what} (such as {quoted(value)}). Numbers, booleans, text, categories and "
        "dates are expected: convert the column or drop it."
    )


def days(values: Float64Array) -> Array:
    """Return days since 1970 as dates without a time of day."""
    return np.floor(values).astype(np.int64).astype("datetime64[D]")
