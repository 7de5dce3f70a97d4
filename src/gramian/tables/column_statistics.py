"""Counts of one column in a pass over the rows, and the treatment chosen from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice

import numpy as np

from gramian._typing import Float64Array, IntArray
from gramian.data.arrow import is_number
from gramian.data.cells import BOOLEAN, CATEGORY, DATE, EMPTY, NUMERIC, Cells, mixed_kinds_error
from gramian.data.values import LARGEST, overflow
from gramian.data.written import written_kind
from gramian.exceptions import quoted
from gramian.tables.column import Column, date_cells, number_cells, refuse_infinity
from gramian.tables.dates import FORMATS, days_of_all, is_blank, parts_of, why_no_dates
from gramian.tables.empirical import quantiles

#: Largest number of categories that get a place of their own. Chosen by hand.
MOST_CATEGORIES = 100
#: Rows that a category needs for a place of its own: in a small table one in SMALL_PART, but from LEAST_ROWS
#: to MOST_LEAST_ROWS; in a large one, one in LARGE_PART. Chosen by hand.
SMALL_PART, LEAST_ROWS, MOST_LEAST_ROWS, LARGE_PART = 20, 2, 5, 10_000
#: Counts of a column are reduced to this many values once there are twice as many. Chosen by hand.
COUNTED = 1 << 16
#: Number of most frequent values that are examined for dates among text. Chosen by hand.
LOOKED_AT = 100
#: Share of a category's rows, and number of rows, that count as infrequent without a warning. Chosen by hand.
MOST_LOST, FEW_LOST = 0.05, 20
#: Text read as numbers, beside the orders of its dates.
NUMBERS = "numbers"
#: Reasons why a column is not used.
CONSTANT, NO_VALUES, NO_REPEATS, GROUPS = "constant", "no values", "no repeats", "groups"


class ColumnStatistics:
    """Counts of one column, added block by block.

    Memory: the sampled values; for a category, at most 131,072 counts and those of a block. In a column with
    more different values each count is too low by less than n/65,536 rows (Misra and Gries 1982, merged as in
    Agarwal et al. 2013), so that no frequent value is lost. Text is also counted as dates, once for each
    order of year, month and day in which all of it so far can be read.
    """

    def __init__(self, name: str, place: int, readings: Iterable[str] = (*FORMATS, NUMBERS)) -> None:
        self.name, self.place = name, place
        self.kind, self.example, self.holds, self.narrow = EMPTY, None, "", True  # type: str, object, str, bool
        self.n_rows = self.n_missing = 0
        self.counted = 0.0  # sum of the rows' counts
        self.low, self.high = np.inf, -np.inf
        self.few: set[float] | None = set()
        self.counts: Counter[str] = Counter()
        self.lost = 0.0
        self.sampled: list[Float64Array] = []
        self.sampled_weights: list[Float64Array] | None = None
        # Text as dates in each order, and as numbers, as long as all of it can be read so.
        self.readings = {how: ColumnStatistics(name, place, ()) for how in readings}
        self.marked = False
        self.undeclared = True
        self.missing_text: Counter[str] = Counter()  # cells such as "NA", by their text
        # Of a category: the number of values, and the share of the rows without their own place.
        self.levels, self.lost_share = 0, 0.0

    def add(self, cells: Cells, rows: slice, sample: IntArray, weights: Float64Array | None = None) -> None:
        """Add the cells of some rows; ``sample`` are the rows among them (from 0) whose values are kept.

        weights : of the rows, all above 0, or None. In a category a row counts as its weight, but at least as
        one, so that weights below 1 make no category rare.
        """
        times = None if weights is None else np.maximum(weights, 1.0)
        self.counted += len(cells.values) if times is None else float(times.sum())
        self._settle_kind(cells)
        self.n_rows += len(cells.values)
        self.narrow = self.narrow and cells.narrow
        self._add_readings(cells, rows, sample, weights)
        if cells.kind == EMPTY:
            self.n_missing += len(cells.values)
        elif cells.kind == CATEGORY:
            self.n_missing += int(np.count_nonzero(cells.values < 0))
            counts = np.bincount(cells.values + 1, times, minlength=len(cells.levels) + 1)
            self.counts.update({v: c for v, c in zip(cells.levels, counts[1:].tolist()) if c})
            self._prune()
        else:
            self._add_numbers(cells.values, rows, sample, weights)

    def count_missing_text(self, cells: Cells, texts: Collection[str]) -> None:
        """Count the cells whose text says that they are missing, besides blank ones."""
        if cells.kind == CATEGORY:
            for code, level in enumerate(cells.levels):
                if level.strip() in texts:
                    self.missing_text[level.strip()] += int(np.count_nonzero(cells.values == code))
                    self.marked = True

    def taken_as_missing(self, column: Column) -> str:
        """Return the warning about text of a category that counts as missing; "" if there is none."""
        if column.kind != CATEGORY or column.dropped or not self.missing_text:
            return ""
        cells = " and ".join(f"{count:,} cells {text!r}" for text, count in self.missing_text.items())
        return (
            f"Column {self.name!r}: {cells} taken as missing, here and in rows to predict. If they are "
            "values, pass missing=() (on the command line --missing ''); if not, "
            f"missing={sorted(self.missing_text)} says so without this warning."
        )

    def column(self) -> Column:
        """Return the column that the rows describe."""
        if self.kind == CATEGORY:
            dates = [how for how in self.readings if how != NUMBERS]
            if len(dates) == 1:
                return replace(self.readings[dates[0]].column(), order=dates[0])
            read = self.readings.get(NUMBERS)
            # Some of the text stands for missing values, and all else is numbers.
            if self.marked and read is not None and read.kind == NUMERIC and read.low < read.high:
                return replace(read.column(), holds=self.holds)
            return self._category(ambiguous=bool(dates))
        missing = self.n_missing > 0
        common = {"name": self.name, "place": self.place, "kind": self.kind, "missing": missing}
        if self.kind == EMPTY or self.n_missing == self.n_rows:
            return Column(**common, dropped=NO_VALUES)  # type: ignore[arg-type]
        sample = np.concatenate(self.sampled)
        weights = None if self.sampled_weights is None else np.concatenate(self.sampled_weights)
        if not len(sample):  # missing in all sampled rows, but not in all rows
            sample, weights = np.array([self.low]), None
        parts = parts_of(sample) if self.kind == DATE else ()
        return Column(
            **common,  # type: ignore[arg-type]
            dropped=CONSTANT if self.low == self.high and not missing else "",
            centre=float(quantiles(sample, [0.5], weights, lower=True)[0]),
            low=float(self.low),
            high=float(self.high),
            two_valued=self.few is not None and len(self.few) == 2,
            narrow=self.narrow,
            holds=self.holds if self.kind == DATE else "",
            parts=parts,
        )

    def hint(self, column: Column) -> str:
        """Return what the values of a text column look like, for the warning that it is unused."""
        first = next(iter(self.counts), "")
        if self.holds == "text" and is_number(first):
            return " (it holds numbers as text: store them as numbers)"
        if column.undated:
            return f" ({column.undated}: store dates as dates)"
        if self.holds != "text" or not self.undeclared:
            return ""
        kind = written_kind(islice(self.counts, LOOKED_AT))
        return (
            f" (its values, such as {quoted(first)}, look like {kind}: store them as numbers)" if kind else ""
        )

    def loss(self, column: Column) -> str:
        """Return the warning that many rows of a category count as infrequent; "" if they are few."""
        many = max(MOST_LOST, FEW_LOST / max(self.n_rows, 1))
        if not column.categories or column.dropped or self.lost_share <= many:
            return ""
        return (
            f"Column {self.name!r} has {self.levels:,} values, of which {len(column.categories)} are "
            f"frequent enough for a column of their own. The others, {self.lost_share:.0%} of the rows, "
            f"count as one value, (infrequent){self.hint(column)}. If a tenth of the rows or more have "
            "such values, each value is also described by the mean target of its rows (not with time=). If "
            "that is not enough, replace the column by numbers that describe its values."
        )

    def _settle_kind(self, cells: Cells) -> None:
        kinds = {self.kind, cells.kind}
        if EMPTY not in kinds and len(kinds) > 1 and kinds != {BOOLEAN, NUMERIC}:
            raise mixed_kinds_error(self.name, self.kind, self.example, cells.kind, cells.example)
        if self.kind == EMPTY:
            self.kind, self.example, self.holds = cells.kind, cells.example, cells.holds
        elif kinds == {BOOLEAN, NUMERIC}:
            self.kind = NUMERIC

    def _add_readings(
        self, cells: Cells, rows: slice, sample: IntArray, weights: Float64Array | None
    ) -> None:
        """Add text in each reading; drop the readings that some of it does not allow."""
        if cells.kind != EMPTY and not cells.undeclared:
            self.readings, self.undeclared = {}, False
        for how, tally in list(self.readings.items()):
            reading: Cells | None = cells
            if cells.kind != EMPTY and how == NUMBERS:
                reading = number_cells(cells)
                other = any(not is_blank(text) and not is_number(text) for text in cells.levels)
                self.marked = self.marked or (other and reading is not None)
            elif cells.kind != EMPTY:
                days = days_of_all(cells.levels, how)
                reading = None if days is None else date_cells(cells, days)
            if reading is None:
                del self.readings[how]
            else:
                tally.add(reading, rows, sample, weights)

    def _add_numbers(
        self, values: Float64Array, rows: slice, sample: IntArray, weights: Float64Array | None
    ) -> None:
        refuse_infinity(values, self.name, rows)
        large = np.abs(values) > LARGEST
        if large.any():
            k = int(large.argmax())
            raise overflow(float(values[k]), f"row {rows.start + k}, column {self.name!r} (from 0)")
        gone = np.isnan(values)
        sample = sample[~gone[sample]]
        self.sampled.append(values[sample])
        if weights is not None:
            self.sampled_weights = [*(self.sampled_weights or []), weights[sample]]
        missing = int(np.count_nonzero(gone))
        self.n_missing += missing
        present = values[~gone] if missing else values
        if not len(present):
            return
        low, high = float(present.min()), float(present.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.few is not None:
            two = bool(((present == low) | (present == high)).all())
            self.few = self.few | {low, high} if two else None
            if self.few is not None and len(self.few) > 2:
                self.few = None

    def _prune(self) -> None:
        if len(self.counts) <= 2 * COUNTED:
            return
        counts = np.fromiter(self.counts.values(), np.float64, len(self.counts))
        # The largest count to drop: at most COUNTED counts are larger.
        cut = float(np.partition(counts, -COUNTED - 1)[-COUNTED - 1])
        self.lost += cut
        self.counts = Counter({value: count - cut for value, count in self.counts.items() if count > cut})

    def _category(self, *, ambiguous: bool) -> Column:
        part = max(self.counted // LARGE_PART, min(MOST_LEAST_ROWS, self.counted // SMALL_PART))
        least = max(LEAST_ROWS, part)
        # Most frequent first; equal counts by name, so that the order of the rows does not matter.
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        kept = [value for value, count in ranked if count >= least][:MOST_CATEGORIES]
        total = sum(self.counts.values()) + self.lost
        self.levels = len(ranked)
        self.lost_share = 1.0 - sum(self.counts[value] for value in kept) / max(total, 1.0)
        missing = self.n_missing > 0
        infrequent = len(kept) < len(ranked) or self.lost > 0
        constant = len(kept) + infrequent + missing < 2
        # A few rare values beside missing ones say whether there is a value; an identifier says nothing.
        single = not kept and (not missing or 2 * len(ranked) > total)
        levels = [value for value, _ in ranked[:LOOKED_AT] if not is_blank(value)]
        undated = why_no_dates(levels, ambiguous) if levels and self.undeclared else ""
        return Column(
            self.name,
            self.place,
            CATEGORY,
            dropped=NO_REPEATS if single else CONSTANT if constant else "",
            missing=missing,
            categories=tuple(sorted(kept)),
            infrequent=infrequent,
            holds=self.holds,
            undated=undated,
        )
