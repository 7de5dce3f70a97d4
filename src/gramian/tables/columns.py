"""Learned conversion of a whole table to numbers: the kind and treatment of each column."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, FloatArray, IntArray, RowsLike
from gramian.data.cells import BOOLEAN, CATEGORY, DATE, DURATION, EMPTY, NUMERIC, unique_names
from gramian.data.missing import MISSING, missing_numbers, missing_texts, without_missing
from gramian.data.names import names_of, places_of
from gramian.data.tables import TableBlock, TableSource, as_table
from gramian.exceptions import InputError, did_you_mean, listed, user_level
from gramian.tables.column import CYCLE, LEVELS, Column, Feature, LevelLookup, LevelMeans, refuse_infinity
from gramian.tables.column_statistics import CONSTANT, GROUPS, NO_REPEATS, NO_VALUES, ColumnStatistics
from gramian.tables.dates import WEEKDAY

#: Largest and smallest number of rows kept to compute medians, and largest count of numbers kept in all
#: columns together. All chosen by hand.
SAMPLE_ROWS, LEAST_SAMPLE, SAMPLE_NUMBERS = 20_000, 1_000, 1 << 22


@dataclass(frozen=True)
class TableColumns:
    """Kinds and treatment of a table's columns, and the conversion of its rows to numbers.

    Made by :meth:`learn`. Numbers stay as they are; a missing number becomes the median, and if training rows
    had missing values, an extra column of 0 and 1 marks them. Booleans become 0 and 1, categories one-hot
    groups. Dates, also those stored as text, become days since the median, season, weekday and time of day.
    Columns that are constant, empty, or whose values do not repeat are not used. ``means`` and
    ``lookups`` add a number for each level of a category (:class:`gramian.tables.column.LevelMeans`).

    >>> X = np.array([[1.0, "a"], [np.nan, "b"], [3.0, "a"], [5.0, "b"]], object)
    >>> columns = TableColumns.learn(X)
    >>> columns.feature_names
    ('0', '0 is missing', '1=a', '1=b')
    >>> columns.encode(X)
    array([[1., 0., 1., 0.],
           [3., 1., 0., 1.],
           [3., 0., 1., 0.],
           [5., 0., 0., 1.]])
    """

    columns: tuple[Column, ...]
    named: bool  #: whether the training rows named their columns
    n_rows: int
    dtype: np.dtype[Any]
    means: tuple[LevelMeans, ...] = ()  #: encoded columns behind all others
    lookups: tuple[LevelLookup, ...] = ()  #: encoded columns behind these
    missing: tuple[str, ...] = MISSING  #: text that is a missing value, also in rows to come

    @classmethod
    def learn(
        cls,
        X: RowsLike,
        *,
        categorical: object = None,
        missing: Sequence[str] | None = None,
        sample_weight: Float64Array | None = None,
        rng: np.random.Generator | None = None,
        groups: int | None = None,
    ) -> TableColumns:
        """Learn the columns of a table in one pass over its rows.

        Parameters
        ----------
        X : a frame of pandas or polars, an Arrow table, an array of numbers, booleans, text, dates or
            objects, CSR or a row source (numbers), or a list of rows; shape (n, d).
        categorical : numeric columns to treat as categories: their names or places, or a mask of length d.
            The categorical types of pandas, polars and Arrow are always categories, and so is text unless
            all of it can be read as dates.
        missing : text that is a missing value, in place of NA, null, NaN and the like, which a warning names
            with their number; () keeps all text but blank text. A number among them is missing in columns
            of numbers too.
        sample_weight : (n,), at least 0. A row of weight 2 counts as two rows in medians and category counts,
            a row of weight 0 not at all.
        groups : place of a column that only tells which rows belong together, and is not used.
        rng : draws the rows used for medians if there are more than 20,000; seeded by 0 by default.

        Raises
        ------
        InputError : for a column that mixes numbers and text, an infinite value (with its row), values of an
            unknown type, a table without rows, or a table with no usable column.

        Time O(n d), memory a block of some megabytes, the sample (32 MB at most) and counts of categories.
        """
        table, weights = as_table(X), sample_weight
        if weights is not None:
            counted = np.flatnonzero(weights > 0)
            weights = np.asarray(weights, np.float64)[counted]
            table = table.subset(counted) if len(counted) < table.shape[0] else table
        n, d = table.shape
        if n == 0 or d == 0:
            what = "rows" if n == 0 else "columns"
            raise InputError(f"X has shape {(n, d)}, so no {what}. Pass at least one row and one column.")
        names = table.names or tuple(map(str, range(d)))
        texts = missing_texts(missing)
        forced = _forced(categorical, names, table.names is not None)
        size = int(np.clip(SAMPLE_NUMBERS // d, LEAST_SAMPLE, SAMPLE_ROWS))
        rng = np.random.default_rng(0) if rng is None else rng
        sample = np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))
        tallies = [ColumnStatistics(name, j) for j, name in enumerate(names)]
        for where in row_slices(n, table.block_rows):
            block = table.block(where)
            first, last = np.searchsorted(sample, [where.start, where.stop])
            local = sample[first:last] - where.start
            w = None if weights is None else weights[where]
            for j, tally in enumerate(tallies):
                cells = block.cells(j, tally.name, j in forced)
                tally.count_missing_text(cells, texts)
                tally.add(without_missing(cells, texts), where, local, w)
        columns = tuple(tally.column() for tally in tallies)
        if groups is not None:
            columns = tuple(
                replace(column, dropped=GROUPS) if column.place == groups else column for column in columns
            )
        _warn(columns, tallies, chosen=missing is not None)
        if not any(column.width for column in columns):
            raise InputError(
                f"No column of X can be used: {_reasons(columns)}. Pass at least one column that varies and "
                "whose values repeat or are numbers."
            )
        narrow = all(column.narrow and column.kind != DATE for column in columns if column.width)
        return cls(
            columns, table.names is not None, n, np.dtype(np.float32 if narrow else np.float64), missing=texts
        )

    # ---- the encoded columns -------------------------------------------------------------------

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Features in the order of their places."""
        features: list[Feature] = []
        for column, start in zip(self.columns, self._starts):
            features += column.features(start)
        for place, each in self.levels:
            features.append(Feature(each.name, LEVELS, each.column, slice(place, place + 1)))
        return tuple(features)

    @cached_property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(column.width for column in self.columns) + len(self.means) + len(self.lookups)

    @cached_property
    def levels(self) -> list[tuple[int, LevelMeans | LevelLookup]]:
        """Places of the encoded columns behind all others, and what is there."""
        first = sum(column.width for column in self.columns)
        return list(enumerate((*self.means, *self.lookups), first))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each encoded column; no two are the same."""
        named = ((feature.column, name) for feature in self.features for name in feature.names)
        return unique_names(named, self.column_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of the training rows; for an array, their places as text."""
        return tuple(column.name for column in self.columns)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Places of each one-hot group: categories and weekdays."""
        hot = (feature for feature in self.features if feature.kind in (CATEGORY, WEEKDAY))
        return tuple(tuple(range(f.places.start, f.places.stop)) for f in hot)

    @property
    def two_valued(self) -> IntArray:
        """Places with two values: booleans, missing-value indicators, numbers with two training values."""
        return np.array([f.places.start for f in self.features if f.two_valued], np.intp)

    @property
    def numeric(self) -> IntArray:
        """Places of numbers with more than two values, dates, durations and level means included."""
        kinds = (NUMERIC, BOOLEAN, DATE, DURATION, LEVELS)
        features = (f for f in self.features if f.kind in kinds and not f.two_valued)
        return np.array([f.places.start for f in features], np.intp)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on columns: why one is not used, or why text is or is not read as dates."""
        texts = {
            CONSTANT: "is constant",
            GROUPS: "tells which rows belong together",
            NO_VALUES: "has no values",
            NO_REPEATS: "has values that hardly repeat",
        }
        notes = []
        for column in self.columns:
            if column.undated:
                notes.append(
                    f"Column {column.name!r} is taken as text: {column.undated}. Store dates as dates, and "
                    "set values that are no dates to missing."
                )
            if column.dropped:
                notes.append(f"Column {column.name!r} {texts[column.dropped]} and is not used.")
            elif column.order:
                notes.append(f"Column {column.name!r} holds dates as text, {column.order}: read as dates.")
        return tuple(notes)

    @property
    def ranges(self) -> tuple[Float64Array, Float64Array]:
        """Smallest and largest training value of each place; 0 and 1 if not a number (−1 and 1: cycle)."""
        low, high = np.zeros(self.width), np.ones(self.width)
        low[[j for f in self.features if f.kind == CYCLE for j in range(self.width)[f.places]]] = -1.0
        for column, start in zip(self.columns, self._starts):
            if column.width and column.varies:
                origin = column.centre if column.kind == DATE else 0.0
                low[start], high[start] = column.low - origin, column.high - origin
        for place, each in self.levels:
            low[place], high[place] = min(0.0, *each.values), max(0.0, *each.values)
        return low, high

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        widths = [column.width for column in self.columns]
        return tuple(int(start) for start in np.cumsum([0, *widths[:-1]]))

    # ---- from rows to numbers ------------------------------------------------------------------

    def encode(self, X: RowsLike) -> FloatArray:
        """Return rows as numbers, shape (n, width), in float32 if it holds all of them exactly.

        A category that was rare or absent in training becomes "(infrequent)" if the group has that place. If
        not, it is zero in all places of its group, equally far from every category. The same holds for a
        missing category if training had none missing; a missing number then becomes the median.

        Raises
        ------
        InputError : if a column is absent, new, of another kind than in training, or holds an infinity.

        Time O(n·width); memory: the result and one block.
        """
        table = as_table(X)
        order = self.order(table)
        out = np.zeros((table.shape[0], self.width), self.dtype)
        for where in row_slices(table.shape[0], table.block_rows):
            self.encode_block(table.block(where), order, where, out[where])
        return out

    def encode_block(
        self, block: TableBlock, order: Sequence[int], rows: slice | IntArray, out: Array
    ) -> None:
        """Write the encoded rows of a block into ``out``, which holds zeros.

        ``order`` holds each column's place in the block (−1 for an unused column); ``rows`` the row numbers,
        for error messages.
        """
        done: set[int] = set()
        if block.matrix is not None and not missing_numbers(self.missing):
            done = self._encode_matrix(block.matrix, order, rows, out)
        for column, start, place in zip(self.columns, self._starts, order):
            if not column.width or column.place in done:
                continue
            cells = block.cells(place, column.name, column.kind == CATEGORY and column.holds != "text")
            cells = without_missing(cells, self.missing, column.categories)
            if cells.kind not in (CATEGORY, EMPTY):
                refuse_infinity(cells.values, column.name, rows)
            column.encode(cells, out[:, start : start + column.width])
            for to, each in self.levels:
                if isinstance(each, LevelLookup) and each.column == column.name:
                    each.write(cells, out[:, to])
        for to, each in self.levels:
            if isinstance(each, LevelMeans):
                each.write(out, to)

    def _encode_matrix(
        self, matrix: Array, order: Sequence[int], rows: slice | IntArray, out: Array
    ) -> set[int]:
        """Write columns that take one number each, all at once; return the places of the written columns."""
        plain = self._numeric_places
        if not plain or len(matrix) == 0:
            return set()
        if matrix.shape[1] == len(plain) == out.shape[1] and matrix.dtype.kind != "f":
            out[:] = matrix[:, list(order)]
            return set(plain)
        values = matrix[:, [order[j] for j in plain]]
        if values.dtype.kind == "f":
            finite = np.isfinite(values).all(axis=0)
            for k in np.flatnonzero(~finite):
                refuse_infinity(values[:, k], self.columns[plain[k]].name, rows)
                gone = np.isnan(values[:, k])
                values[gone, k] = self.columns[plain[k]].centre
        out[:, [self._starts[j] for j in plain]] = values
        return set(plain)

    @cached_property
    def _numeric_places(self) -> tuple[int, ...]:
        """Places of numeric columns that become one column each."""
        return tuple(c.place for c in self.columns if c.kind == NUMERIC and c.width == 1 and c.varies)

    def order(self, table: TableSource) -> tuple[int, ...]:
        """Return each column's place in a table, by the rule of :mod:`gramian.data.names`.

        An unused column may be absent: −1.
        """
        known = self.column_names if self.named else None
        unused = {column.name for column in self.columns if not column.width}
        places = places_of(names_of(table), known, "the model", unused=unused)
        if places is None and table.shape[1] != len(self.columns):
            raise InputError(
                f"X has {table.shape[1]} columns, but the training rows had {len(self.columns)}. Pass the "
                "same columns in the same order."
            )
        return tuple(range(len(self.columns))) if places is None else places


def _forced(categorical: object, names: Sequence[str], named: bool) -> frozenset[int]:
    """Return the places of the columns that the user declared categorical."""
    if categorical is None:
        return frozenset()
    if isinstance(categorical, str):
        raise InputError(f"categorical={categorical!r} is a string; give a list: [{categorical!r}].")
    wanted = list(cast("Iterable[object]", categorical))
    if wanted and all(isinstance(value, bool | np.bool_) for value in wanted):
        if len(wanted) != len(names):
            raise InputError(
                f"categorical is a mask of length {len(wanted)}, but X has {len(names)} columns. Pass one "
                "boolean for each column."
            )
        return frozenset(j for j, value in enumerate(wanted) if value)
    places = {name: j for j, name in enumerate(names)} if named else {}
    chosen = set()
    for value in wanted:
        if isinstance(value, str) and value in places:
            chosen.add(places[value])
        elif isinstance(value, int | np.integer) and str(value) in places:
            chosen.add(places[str(value)])  # a frame whose column names are numbers
        elif isinstance(value, int | np.integer) and -len(names) <= value < len(names):
            chosen.add(int(value) % len(names))
        else:
            hint = did_you_mean(value, places) if places else " X has no column names: give column numbers."
            raise InputError(f"categorical names {value!r}, which is not a column of X.{hint}")
    return frozenset(chosen)


def _warn(columns: Sequence[Column], tallies: Sequence[ColumnStatistics], *, chosen: bool) -> None:
    empty = [column.name for column in columns if column.dropped == NO_VALUES]
    single = [f"{c.name!r}{t.hint(c)}" for c, t in zip(columns, tallies) if c.dropped == NO_REPEATS]
    for column, tally in zip(columns, tallies):
        for text in filter(None, (tally.loss(column), "" if chosen else tally.taken_as_missing(column))):
            warnings.warn(text, UserWarning, stacklevel=user_level())
    if empty:
        warnings.warn(
            f"These columns are not used, because they have no values: {listed(empty)}.",
            UserWarning,
            stacklevel=user_level(),
        )
    if single:
        warnings.warn(
            "These columns are not used, because their values hardly repeat, as in an identifier: "
            f"{listed(single, show=str)}.",
            UserWarning,
            stacklevel=user_level(),
        )


def _reasons(columns: Sequence[Column]) -> str:
    texts = {
        CONSTANT: "constant",
        GROUPS: "of groups",
        NO_VALUES: "without values",
        NO_REPEATS: "with values that hardly repeat",
    }
    counts = {reason: sum(c.dropped == reason for c in columns) for reason in texts}
    return ", ".join(f"{count} {texts[reason]}" for reason, count in counts.items() if count)
