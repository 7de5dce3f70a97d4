"""Choice of the rows that judge: drawn at random, whole groups, or the latest."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from gramian._checks import refuse_masked
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY, EMPTY, cells_of
from gramian.data.source import RowSource
from gramian.data.tables import TableSource
from gramian.estimator.labels import relative_weights
from gramian.estimator.repeats import find_repeats
from gramian.exceptions import InputError, did_you_mean, user_level
from gramian.tables.dates import days_in_one_order


@dataclass(frozen=True)
class HoldOut:
    """Which of a table's rows judge its models: random ones, whole groups, or the latest.

    groups : the number of each row's group (n,), or None; times : the time of each row (n,), or None.
    """

    groups: IntArray | None = None
    times: Float64Array | None = None

    @classmethod
    def of(cls, table: TableSource, groups: ArrayLike | None, time: ArrayLike | None) -> HoldOut:
        """Return the hold-out for groups or times, each a column of the table or an array of n values.

        Raises ``InputError`` if both are given, for a column that the table lacks, an array of another
        length, missing values, a single group, times that are all equal, or neither numbers nor dates (also
        as text); warns if each row is a group of its own.
        """
        if groups is not None and time is not None:
            raise InputError(
                "groups and time are both given: pass the one that tells what new rows are like."
            )
        if time is not None:
            times = _values(table, "time", time, as_category=False)
            if times.min() == times.max():
                raise InputError("time is the same in all rows: pass times that differ, or leave time out.")
            return cls(times=times)
        if groups is None:
            return cls()
        codes = _values(table, "groups", groups, as_category=True)
        numbers = by_first_row(codes)
        count = int(numbers.max()) + 1
        if count < 2:
            raise InputError("groups has a single group, so none can be held out. Leave groups out.")
        if count == len(numbers):
            warnings.warn(
                "groups has a group of its own for each row, which is the same as no groups. Leave groups "
                "out, or pass what rows have in common.",
                UserWarning,
                stacklevel=user_level(),
            )
        return cls(groups=numbers)

    def taken(self, numbers: IntArray | None) -> HoldOut:
        """Return the hold-out of the rows with these numbers (None: all)."""
        if numbers is None:
            return self
        groups = None if self.groups is None else self.groups[numbers]
        return HoldOut(groups, None if self.times is None else self.times[numbers])

    def together(self, repeats: IntArray) -> HoldOut:
        """Return a hold-out that does not part rows of one number: all are as late as the latest of them."""
        if self.times is not None:
            latest = np.full(repeats.max() + 1, -np.inf)
            np.maximum.at(latest, repeats, self.times)
            return HoldOut(times=latest[repeats])
        if self.groups is None:
            return HoldOut(repeats)
        # Groups that share a number become one.
        links = sp.coo_array((np.ones(len(repeats)), (self.groups, repeats)))
        joined = connected_components(sp.block_array([[None, links], [links.T, None]]))[1]
        return HoldOut(joined[self.groups].astype(np.intp))

    @property
    def random(self) -> bool:
        """Whether rows are held out at random."""
        return self.groups is None and self.times is None

    def held(self, numbers: IntArray, most: int, rng: np.random.Generator) -> IntArray:
        """Return about ``most`` of the rows with these numbers: random ones, whole groups, or the latest.

        Groups are drawn in random order as long as they fit; at least one is held out, and never all of them.
        Rows of the same time are not parted, unless all rows have it.
        """
        if most < 1:
            return numbers[:0]
        if self.groups is not None:
            return self._groups_held(numbers, most, rng)
        if self.times is not None:
            times = self.times[numbers]
            first = np.sort(times)[len(times) - most]
            late = times >= first if first > times.min() else times > first
            return numbers[late]
        return rng.permutation(numbers)[:most]

    def folds(self, numbers: IntArray, count: int, rng: np.random.Generator) -> list[IntArray] | None:
        """Return the rows with these numbers in parts: random ones, or whole groups; None for times."""
        if self.times is not None:
            return None
        if self.groups is None:
            return [np.sort(part) for part in np.array_split(rng.permutation(numbers), count)]
        codes = by_first_row(self.groups[numbers])
        sizes = np.bincount(codes)
        if len(sizes) < 2:
            return None
        parts, totals = np.zeros(len(sizes), np.intp), np.zeros(min(count, len(sizes)))
        shuffled = rng.permutation(len(sizes))
        order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
        for at, group in enumerate(order):  # the largest groups first, each into the smallest part
            if sizes[group] == 1 and totals.min() == totals.max():  # of which there may be millions
                parts[order[at:]] = np.arange(len(order) - at) % len(totals)
                break
            parts[group] = totals.argmin()
            totals[parts[group]] += sizes[group]
        return [numbers[parts[codes] == part] for part in range(len(totals))]

    def _groups_held(self, numbers: IntArray, most: int, rng: np.random.Generator) -> IntArray:
        assert self.groups is not None
        codes = by_first_row(self.groups[numbers])
        sizes, total, chosen = np.bincount(codes), 0, list[int]()
        if len(sizes) < 2:
            return numbers[:0]
        for group in rng.permutation(len(sizes)):
            if total + sizes[group] <= most and len(chosen) < len(sizes) - 1:
                total += int(sizes[group])
                chosen.append(int(group))
                if total == most:
                    break
        return numbers[np.isin(codes, chosen or [int(sizes.argmin())])]


def merged_copies(
    rows: RowSource, columns: Sequence[IntArray], y: Array, weights: Array | None, holdout: HoldOut
) -> tuple[IntArray | None, Array | None, HoldOut]:
    """Return numbers of the rows without copies (None: all), their weights, and a hold-out for them.

    columns : the encoded places of each column. A row that has copies has the sum of their weights. Rows
    that repeat are not parted, and a warning says where they are many.
    """
    repeats = find_repeats(rows, y, columns)
    if repeats is None:
        return None, weights, holdout
    kept, merged = repeats.merged(weights)
    if not holdout.random or len(np.unique(repeats.groups)) < len(kept):
        holdout = holdout.together(repeats.groups).taken(kept)
    return (None, weights, holdout) if len(kept) == len(y) else (kept, relative_weights(merged), holdout)


def by_first_row(groups: Array) -> IntArray:
    """Return whole numbers from 0 for groups, in the order of their first rows, whatever names them."""
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes.reshape(-1)]


def place_of(table: TableSource, name: str, which: object) -> int | None:
    """Return the place of a column that is named; None if ``which`` is no name."""
    if not isinstance(which, str):
        return None
    names = list(table.names or ())
    if which not in names:
        hint = did_you_mean(which, names) if names else " X has no column names: pass an array."
        raise InputError(f"{name}={which!r} is not a column of X.{hint}")
    return names.index(which)


def _values(table: TableSource, name: str, which: ArrayLike, *, as_category: bool) -> Float64Array:
    """Return a number for each row: of a column, or of an array; raise for missing values."""
    n, place = table.shape[0], place_of(table, name, which)
    if place is None:
        refuse_masked(name, which)
        given: Array = np.asarray(which)
        if isinstance(which, list | tuple) and given.ndim == 1:
            given = np.fromiter(which, object, len(which))  # NumPy rounds integers beside larger ones
        if given.shape != (n,):
            raise InputError(
                f"{name} has shape {given.shape}; expected ({n},), a value for each row, or the name of a "
                "column."
            )
        blocks = [(slice(0, n), cells_of(given, name, as_category=as_category))]
    else:
        parts = row_slices(n, table.block_rows)
        blocks = [(part, table.block(part).cells(place, cast("str", which), as_category)) for part in parts]
    out, levels = np.empty(n), dict[str, int]()
    for where, cells in blocks:
        if cells.kind == CATEGORY:
            codes = np.array([levels.setdefault(level, len(levels)) for level in cells.levels] + [-1])
            out[where] = np.where(cells.values < 0, np.nan, codes[cells.values])
        else:
            out[where] = np.nan if cells.kind == EMPTY else cells.values
    if levels and not as_category:
        ranks = days_in_one_order(name, list(levels))
        out[~np.isnan(out)] = ranks[out[~np.isnan(out)].astype(np.intp)]
    if not np.isfinite(out).all():
        row = int((~np.isfinite(out)).argmax())
        what = "no value" if np.isnan(out[row]) else "infinity"
        raise InputError(f"{name} has {what} in row {row} (from 0). Pass a value for each row.")
    return out
