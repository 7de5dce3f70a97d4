"""Rows that occur more than once: copies are told from rows that are alike because they have few values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, Rows
from gramian.data.source import ArraySource, RowSource, row_blocks
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import AccuracyWarning, user_level

#: Numbers that are hashed at a time, 1 MB for each copy, and for the values of columns; bytes that a row's
#: hashes and groups take; and most columns whose values are looked at. Chosen by hand.
HASHED, NUMBERS, ROW_BYTES, MOST_COLUMNS = 1 << 17, 1 << 20, 64, 1_000
#: Rows that are looked at for others like them, and least number of rows among which. Chosen by hand.
PROBES, LEAST_SIZE = 1_000, 100
#: Repeats are copies if chance makes at most this part of them, or of the differences between their targets;
#: and if there are so many different rows, or this part of all and the last number: else they are levels of
#: an experiment. Chosen by hand.
DIFFER, LEAST_ROWS, LEAST_PART, FEWEST = 0.1, 50, 0.1, 10
#: Share of repeats above which a warning tells of them. Chosen by hand.
TOLD = 0.1


@dataclass(frozen=True)
class Repeats:
    """Rows that occur more than once: the number of each row's group (n,).

    groups : rows of equal features; copies : those of equal features and targets.
    """

    groups: IntArray
    copies: IntArray

    def merged(self, weights: Array | None) -> tuple[IntArray, Array]:
        """Return the first row of each group of copies, and the sum of its weights for each of them."""
        first = np.sort(np.unique(self.copies, return_index=True)[1])
        return first, np.bincount(self.copies, weights)[self.copies[first]].astype(np.float64)


def without_copies(
    rows: LabelledRows[Any], memory_bytes: int, *, means: bool = False
) -> tuple[LabelledRows[Any], IntArray | None]:
    """Return rows with copies as one row that has the sum of their weights, and where each went (n,).

    The second is None where there are no copies. No copy of a row that is held out is then learned from, and
    the fit stays that of all rows. ``means`` : rows of equal features and other targets are one row too, with
    the mean of these targets, which has the same least squares. Only arrays in memory are looked at, and only
    if ``memory_bytes`` holds 64 bytes a row.
    """
    whole = rows, None
    if not isinstance(rows.source, ArraySource) or rows.source.reads_ahead or rows.n < FEWEST:
        return whole
    if ROW_BYTES * rows.n > memory_bytes:
        return whole
    targets: Any = rows.targets
    numbers = isinstance(targets, NumberTargets)
    repeats = find_repeats(rows.source, rows.numbers if numbers else targets.codes(slice(0, rows.n)))
    if repeats is None:
        return whole
    groups = repeats.groups if means and numbers else repeats.copies
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    if len(first) == rows.n:
        return whole
    order = np.argsort(first)
    first, place = first[order], np.argsort(order)[place]
    merged = rows.taken(first)
    mass = np.bincount(place, rows.weights).astype(np.float64)
    if groups is not repeats.copies:
        w = np.ones(rows.n) if rows.weights is None else np.where(mass[place] > 0, rows.weights, 1.0)
        sums = np.stack([np.bincount(place, w * column) for column in rows.numbers.T], axis=1)
        mean = sums / np.bincount(place, w)[:, None]
        merged = replace(merged, targets=NumberTargets(mean[:, 0] if targets.flat else mean, len(first)))
    return replace(merged, weights=mass), place


def repeats_together(
    order: IntArray, source: RowSource, y: Array, *, warn: bool = True
) -> tuple[IntArray, IntArray]:
    """Return row numbers with those of repeats behind the first of them, and the numbers of their groups."""
    repeats = find_repeats(source, y, warn=warn)
    if repeats is None:
        return order, order
    _, first, place = np.unique(repeats.groups[order], return_index=True, return_inverse=True)
    order = order[np.argsort(first[place], kind="stable")]
    return order, repeats.groups[order]


def find_repeats(
    source: RowSource, y: Array, columns: Sequence[IntArray] | None = None, *, warn: bool = True
) -> Repeats | None:
    """Return which rows are copies of each other; None if none are.

    Warns if more than a tenth are, if ``warn``.

    Rows with equal features are copies of one measurement if chance does not explain them: if few rows agree
    in all columns but one, or if a column of numbers has mostly values of its own; and if their targets are
    equal too, or there are 50 such groups at least that no category names. Rows of few values, such as
    categories or the levels of an experiment, repeat by themselves, and are measurements of their own, unless
    targets that are rarely equal are equal too.

    y : (n,) or (n, outputs); columns : places of the features that make one column, such as one-hot ones.
    Time O(n d); memory O(n).
    """
    n, d = source.shape
    own = np.empty(n, np.uint64)
    for where, rows in row_blocks(source, max(1, HASHED // max(1, d))):
        own[where] = _sums(rows)
    _, first, groups, counts = np.unique(own, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == n:
        return None
    values = np.asarray(y).reshape(n, -1)
    targets = _mixed(values, d + np.arange(values.shape[1])).sum(axis=1, dtype=np.uint64)
    _, copies, sizes = np.unique(own + targets, return_inverse=True, return_counts=True)
    shares = np.unique(targets, return_counts=True)[1] / n
    pairs, equal = (float(np.sum(c * (c - 1.0))) for c in (counts, sizes))
    number, category, apart = _kinds(source, first, own[first], counts, columns)
    least = min(LEAST_ROWS, max(FEWEST, LEAST_PART * n))
    same = pairs - equal <= DIFFER * (1.0 - float(shares @ shares)) * pairs
    settings = apart and not category and len(first) >= LEAST_ROWS and counts.max() <= LEAST_PART * n
    if not (settings or ((number or apart) and same and len(first) >= least)):
        if not 2 * len(shares) >= len(sizes) >= least:
            return None
        groups = copies
    n_groups = int(groups.max()) + 1
    if n_groups == n:
        return None
    if warn and n - n_groups > TOLD * n:
        warnings.warn(
            f"{n - n_groups:,} of {n:,} rows repeat one of the {n_groups:,} others, as copies by a join or "
            "by oversampling do. Rows that repeat are held out together, so that errors, penalties and "
            "intervals are those of new rows, and copies count as one row with their number as its weight. "
            "Drop them, or pass that weight, to be sure that this is meant.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return Repeats(groups, copies)


def _kinds(
    source: RowSource, first: IntArray, own: Array, counts: IntArray, columns: Sequence[IntArray] | None
) -> tuple[bool, bool, bool]:
    """Tell whether a number, or a category, has mostly own values, and whether chance makes few equal rows.

    Of the rows that agree with a row in all columns but j, a share q_j/(1 − q_j) would agree in j too, where
    q_j is the chance that two rows have the same value there.
    """
    rng, n_groups, places_of = np.random.default_rng(0), len(first), np.arange(source.shape[1])
    if columns is None:
        places_of = places_of[:: -(-len(places_of) // MOST_COLUMNS)]
        columns = list(np.arange(len(places_of))[:, None])
    size = min(n_groups, max(LEAST_SIZE, NUMBERS // source.shape[1]))
    drawn = np.sort(rng.choice(n_groups, size, replace=False)) if size < n_groups else np.arange(size)
    rows: Any = source.take(first[drawn])
    hashes, own, counts = _hashes(rows[:, places_of], places_of), own[drawn], counts[drawn]
    probes = rng.choice(size, min(size, PROBES), replace=False)
    own_values = {False: False, True: False}
    by_chance = 0.0
    for places in columns:
        part = hashes[:, places].sum(axis=1, dtype=np.uint64)
        if 2 * len(np.unique(part[probes])) >= len(probes):
            own_values[len(places) > 1] = True
        _, lines = np.unique(own - part, return_inverse=True)
        near = np.mean((np.bincount(lines, counts)[lines] - counts)[probes]) * n_groups / size
        same = float(np.sum(np.square(np.unique(part, return_counts=True)[1] / size)))
        by_chance = max(by_chance, float(near) * same / max(1.0 - same, 1e-9) if near else 0.0)
    apart = by_chance <= DIFFER * float(np.mean(counts - 1.0))
    return own_values[False], own_values[True], apart


def _sums(rows: Rows) -> Array:
    """Return a hash of each row, the sum of its cells' hashes."""
    if not sp.issparse(rows):
        return np.asarray(_hashes(rows, np.arange(rows.shape[1])).sum(axis=1, dtype=np.uint64))
    thin: Any = sp.csr_array(rows)
    total = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(thin.data, thin.indices), dtype=np.uint64)])
    return np.asarray(total[thin.indptr[1:]] - total[thin.indptr[:-1]])


def _hashes(rows: Rows, columns: IntArray) -> Array:
    """Return a hash of each cell, (n, d), that depends on the number of its column; 0 for 0."""
    thin: Any = rows
    return _mixed(thin.toarray() if sp.issparse(rows) else np.asarray(rows), columns)


def _mixed(values: Array, columns: IntArray) -> Array:
    """Return numbers of 64 bits that are as good as random (SplitMix64): of a value and its column."""
    numbers = np.array(values, np.float64)
    numbers[np.isnan(numbers)] = np.nan  # all of one pattern
    bits = numbers.view(np.uint64) + (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(np.where(numbers == 0, np.uint64(0), bits ^ (bits >> np.uint64(31))))
