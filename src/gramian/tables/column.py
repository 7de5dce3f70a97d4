"""Learned treatment of one column, and conversion of its cells to numbers."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.arrow import is_number
from gramian.data.cells import AWARE, BOOLEAN, CATEGORY, DATE, EMPTY, NOUNS, NUMERIC, Cells, is_code
from gramian.data.missing import MARKERS
from gramian.exceptions import InputError, quoted, user_level
from gramian.tables.dates import (
    DAY_FIRST,
    MONTH_FIRST,
    WEEKDAY,
    WEEKDAYS,
    WIDTHS,
    YEAR_FIRST,
    days_of_text,
    is_blank,
    part_values,
)

#: Kinds of features that are not kinds of columns: a missing-value indicator; sine and cosine of a cycle; a
#: number for each level of a category.
MISSING, CYCLE, LEVELS = "missing", "cycle", "levels"
#: Booleans that are categories, and the orders of day and month that are taken for each other.
_TRUTHS = {"True": 1.0, "False": 0.0}
_OTHER = {DAY_FIRST: MONTH_FIRST, MONTH_FIRST: DAY_FIRST}
#: Ends of text with a time zone: Z, UTC, or an offset from UTC.
_ZONE = re.compile(r"[Tt:]\d\d(\.\d+)?\s?([+-]\d\d(:?\d\d)?|Z|UTC)$")
#: Names of the one-hot places that several values share.
INFREQUENT_VALUES, MISSING_VALUE = "(infrequent)", "(missing)"


@dataclass(frozen=True)
class Feature:
    """Neighbouring encoded columns that describe one thing.

    ``kind`` is "numeric", "boolean", "category", "date", "duration", "missing", "cycle", "weekday" or
    "levels"; ``column`` names the source column; ``places`` are the positions of the encoded columns;
    ``categories`` names the value behind each place of a one-hot group; ``two_valued`` says whether the
    training rows had exactly two values.
    """

    name: str
    kind: str
    column: str
    places: slice
    categories: tuple[str, ...] = ()
    two_valued: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each encoded column."""
        if self.kind == CYCLE:
            return f"{self.name} (sin)", f"{self.name} (cos)"
        return tuple(f"{self.name}={value}" for value in self.categories) or (self.name,)


@dataclass(frozen=True)
class LevelIndex:
    """Places of a category's levels, also where a value is written otherwise than in training.

    The same number in float32 and float64, or the same date with and without a time of midnight. ``holds``
    says what the levels were (text, numbers, booleans).
    """

    levels: tuple[str, ...]
    holds: str

    def place(self, level: str, other: int) -> int:
        """Return the place of a level, ``other`` if there is none."""
        if (exact := self._exact.get(level)) is not None:
            return exact
        if self.holds == NOUNS[CATEGORY]:
            return (
                self._dates.get(float(days_of_text([level], YEAR_FIRST)[0]), other) if self._dates else other
            )
        if level in _TRUTHS:
            return other
        number = float(level)
        near = self._rounded.get(_single(number), ())
        return next((j for j, known in near if number == _single(number) or known == _single(known)), other)

    @cached_property
    def _exact(self) -> dict[str, int]:
        return {level: j for j, level in enumerate(self.levels)}

    @cached_property
    def _rounded(self) -> dict[float, list[tuple[int, float]]]:
        """The places of numbers, by their values in float32."""
        places: dict[float, list[tuple[int, float]]] = {}
        for j, level in enumerate(self.levels):
            if level not in _TRUTHS and not float(level).is_integer():
                places.setdefault(_single(float(level)), []).append((j, float(level)))
        return places

    @cached_property
    def _dates(self) -> dict[float, int]:
        """The places of dates as text, by days since 1970."""
        days = days_of_text(self.levels, YEAR_FIRST).tolist()
        return {day: j for j, day in enumerate(days) if day == day}


@dataclass(frozen=True)
class Column:
    """One column of the training rows. ``dropped`` says why it is not used; "" if it is used.

    ``centre`` is the lower median (days since 1970 for a date); ``missing`` says whether training values were
    missing; ``holds`` says what a category's values were (text, numbers, booleans); ``parts`` lists the parts
    of a date. ``order`` is the order of year, month and day in dates that were text, "" for stored dates.
    ``undated`` says why text that looks like dates is treated as text.
    """

    name: str
    place: int
    kind: str
    dropped: str = ""
    centre: float = 0.0
    low: float = 0.0
    high: float = 0.0
    two_valued: bool = False
    missing: bool = False
    narrow: bool = True
    categories: tuple[str, ...] = ()
    infrequent: bool = False
    holds: str = ""
    parts: tuple[str, ...] = ()
    order: str = ""
    undated: str = ""

    @property
    def varies(self) -> bool:
        """Whether the value itself is a feature; False if only its absence varies."""
        return self.kind not in (CATEGORY, EMPTY) and self.low < self.high

    @property
    def one_hot(self) -> tuple[str, ...]:
        """Names of the places of a category's one-hot group."""
        shared = (INFREQUENT_VALUES,) * self.infrequent + (MISSING_VALUE,) * self.missing
        return self.categories + shared

    @cached_property
    def width(self) -> int:
        """Number of encoded columns."""
        if self.dropped:
            return 0
        if self.kind == CATEGORY:
            return len(self.one_hot)
        return self.varies + self.missing + sum(WIDTHS[part] for part in self.parts)

    def features(self, start: int) -> list[Feature]:
        """Return the features of this column, starting at place ``start``."""
        if self.dropped:
            return []
        if self.kind == CATEGORY:
            places = slice(start, start + self.width)
            return [Feature(self.name, CATEGORY, self.name, places, self.one_hot)]
        features: list[Feature] = []
        wanted: list[tuple[str, str, int, bool]] = []
        if self.varies:
            wanted.append((self.name, self.kind, 1, self.two_valued))
        if self.missing:
            wanted.append((f"{self.name} is missing", MISSING, 1, True))
        for part in self.parts:
            kind = WEEKDAY if part == WEEKDAY else CYCLE
            wanted.append((f"{self.name}: {part}", kind, WIDTHS[part], False))
        for name, kind, width, two in wanted:
            days = WEEKDAYS if kind == WEEKDAY else ()
            features.append(Feature(name, kind, self.name, slice(start, start + width), days, two))
            start += width
        return features

    def numbers(self, cells: Cells) -> Array:
        """Return a number for each cell: days for a date, a code for a category, NaN or −1 if missing."""
        return self._read(cells).values

    def encode(self, cells: Cells, out: Array) -> None:
        """Write the encoded cells into ``out``, shape (n, width), which holds zeros."""
        cells = self._read(cells)
        self._check(cells)
        if self.kind == CATEGORY:
            places = self._places(cells)
            seen = np.flatnonzero(places >= 0)
            out[seen, places[seen]] = 1.0
            return
        gone = np.isnan(cells.values) if cells.kind != EMPTY else np.ones(len(out), bool)
        j = 0
        if self.varies:
            known = np.where(gone, self.centre, cells.values)
            out[:, j] = known - self.centre if self.kind == DATE else known
            j += 1
        if self.missing:
            out[:, j] = gone
            j += 1
        for part in self.parts:
            when = np.where(gone, np.nan, cells.values)
            out[:, j : j + WIDTHS[part]] = part_values(part, when)
            j += WIDTHS[part]

    def _read(self, cells: Cells) -> Cells:
        """Return cells in the kind of the column, where they hold the same values in another type."""
        if self.kind == DATE:
            cells = self._dated(cells)
            if (
                cells.kind == DATE
                and not np.isnan(cells.values).all()
                and (cells.holds == AWARE) != (self.holds == AWARE)
            ):
                had, has = ("with", "without") if self.holds == AWARE else ("without", "with")
                warnings.warn(
                    f"Column {self.name!r} held times {had} a time zone during fit and now holds times {has} "
                    f"one (such as {quoted(cells.example)}): those with one are converted to UTC, the others "
                    "are taken as UTC. Give the column the same time zone as in training.",
                    UserWarning,
                    stacklevel=user_level(),
                )
            return cells
        if cells.kind != CATEGORY or self.kind not in (NUMERIC, BOOLEAN):
            return cells
        if cells.holds == NOUNS[CATEGORY]:  # text that was numbers in training, too
            as_numbers = number_cells(cells) if self.holds == NOUNS[CATEGORY] else None
            return cells if as_numbers is None else as_numbers
        numbers = np.array([_TRUTHS[v] if v in _TRUTHS else float(v) for v in cells.levels] + [np.nan])
        kind = BOOLEAN if cells.holds == NOUNS[BOOLEAN] else NUMERIC
        return Cells(kind, numbers[cells.values], example=cells.example)

    def _dated(self, cells: Cells) -> Cells:
        """Return text cells as dates; text that is not a date becomes missing, with a warning."""
        if cells.kind != CATEGORY or cells.holds != NOUNS[CATEGORY]:
            return cells
        days = days_of_text(cells.levels, YEAR_FIRST)
        if self.order not in ("", YEAR_FIRST):
            days = np.where(np.isnan(days), days_of_text(cells.levels, self.order), days)
        lost = [text for text, day in zip(cells.levels, days) if np.isnan(day) and not is_blank(text)]
        if lost and self.order in _OTHER:
            other = _OTHER[self.order]
            misread = [text for text in lost if not np.isnan(days_of_text([text], other)[0])]
            if misread:
                raise InputError(
                    f"Column {self.name!r} held dates with the {self.order} during fit and now holds "
                    f"{quoted(misread[0])}, which only has the {other}, so that the order of all its dates "
                    "is in doubt. Store dates as dates, or write the year first."
                )
        if lost:
            order = " or ".join(dict.fromkeys([self.order or YEAR_FIRST, YEAR_FIRST]))
            warnings.warn(
                f"Column {self.name!r} held dates during fit and now holds text that is not a date "
                f"({order}): values such as {quoted(lost[0])} are treated as missing.",
                UserWarning,
                stacklevel=user_level(),
            )
        return date_cells(cells, days)

    def _places(self, cells: Cells) -> IntArray:
        """Return the one-hot place of each cell, −1 if it has none."""
        other = len(self.categories) if self.infrequent else -1
        gone = len(self.categories) + self.infrequent if self.missing else other
        places = [self._index.place(level, other) for level in cells.levels]
        table = np.array([*places, gone], np.intp)
        if cells.kind == EMPTY:
            return np.full(len(cells.values), gone, np.intp)
        return table[cells.values]

    @cached_property
    def _index(self) -> LevelIndex:
        return LevelIndex(self.categories, self.holds)

    def _check(self, cells: Cells) -> None:
        """Raise if the cells are of another kind than in the training rows."""
        held = cells.holds if cells.kind == CATEGORY else NOUNS[cells.kind]
        trained = self.holds if self.kind == CATEGORY else NOUNS[self.kind]
        if cells.kind == EMPTY or (held == trained and (cells.kind == CATEGORY) == (self.kind == CATEGORY)):
            return
        if self.kind == NUMERIC and cells.kind == BOOLEAN:
            return
        if self.kind == BOOLEAN and cells.kind == NUMERIC:
            wrong = cells.values[~np.isnan(cells.values) & (cells.values != 0) & (cells.values != 1)]
            if not len(wrong):
                return
            raise InputError(
                f"Column {self.name!r} held booleans during fit and now holds the number {wrong[0]:g}. Pass "
                "booleans, or 0 and 1."
            )
        example = cells.example
        if self.kind == NUMERIC and cells.kind == CATEGORY:  # the text that is no number
            example = next((text for text in cells.levels if _number(text) is None), example)
        raise InputError(
            f"Column {self.name!r} held {trained} during fit and now holds {held} (such as "
            f"{quoted(example)}). Pass values of the same kind; set what cannot be read to missing."
        )


@dataclass(frozen=True)
class LevelMeans:
    """An encoded column that has a number for each level of a category, and 0 for other values.

    ``column`` names the category; ``places`` are those of its one-hot group; ``values`` a number for each;
    ``axis`` (outputs,) is the direction of the targets that they are means of.
    """

    column: str
    places: slice
    values: tuple[float, ...]
    axis: tuple[float, ...]

    @property
    def name(self) -> str:
        """Name of the encoded column."""
        return f"{self.column} (level means)"

    def write(self, encoded: Array, place: int) -> None:
        """Write the numbers of encoded rows (n, width), whose one-hot groups are there."""
        encoded[:, place] = encoded[:, self.places] @ np.asarray(self.values, encoded.dtype)


@dataclass(frozen=True)
class LevelLookup:
    """An encoded column that has a number for each of many levels of a category, and 0 for other values.

    ``column`` names the category; ``levels`` are its training values, ``values`` (levels,) their numbers,
    and ``holds`` says what the values were, as in :class:`Column`.
    """

    column: str
    levels: tuple[str, ...]
    values: Float64Array
    holds: str = NOUNS[CATEGORY]

    @property
    def name(self) -> str:
        """Name of the encoded column."""
        return f"{self.column} (level means)"

    def write(self, cells: Cells, out: Array) -> None:
        """Write the numbers of cells into ``out``, shape (n,), which holds zeros."""
        if cells.kind == EMPTY:
            return
        places = np.full(len(cells.levels) + 1, -1)  # code −1 (missing) picks the last
        for code in np.unique(cells.values[cells.values >= 0]).tolist():
            places[code] = self._index.place(cells.levels[code], -1)
        out[:] = np.append(self.values, 0.0)[places[cells.values]]

    @cached_property
    def _index(self) -> LevelIndex:
        return LevelIndex(self.levels, self.holds)


def _single(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def date_cells(cells: Cells, days: Float64Array) -> Cells:
    """Return text cells as dates, given the days for each level."""
    # Code −1 (missing) picks the last entry, the appended NaN.
    aware = any(_ZONE.search(level.rstrip()) for level in cells.levels)
    values = np.append(days, np.nan)[cells.values]
    return Cells(DATE, values, holds=AWARE if aware else "", narrow=False, example=cells.example)


def number_cells(cells: Cells) -> Cells | None:
    """Return text cells as numbers, markers such as "?" as missing; None if other text is among them.

    A code, such as "007" or a number of twenty digits, is text.
    """
    numbers = [_number(level) for level in cells.levels]
    if None in numbers:
        return None
    values = np.array([*numbers, np.nan], np.float64)[cells.values]
    return Cells(NUMERIC, values, narrow=False, example=cells.example)


def _number(level: str) -> float | None:
    """Return text as a number, NaN for a marker of missing values; None for other text."""
    text = level.strip()
    if text.lower() in MARKERS:
        return np.nan
    return float(text) if is_number(text) and not is_code(text) else None


def refuse_infinity(values: Float64Array, column: str, rows: slice | IntArray) -> None:
    """Raise, naming column and row, if a value is infinite; NaN is a missing value and passes."""
    bad = np.isinf(values)
    if bad.any():
        k = int(bad.argmax())
        row = rows.start + k if isinstance(rows, slice) else int(rows[k])
        raise InputError(
            f"Column {column!r} holds infinity in row {row} (from 0). Replace it by a number, or by NaN for "
            "a missing value."
        )
