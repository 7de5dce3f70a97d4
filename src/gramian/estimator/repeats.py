"""Rows that occur more than once: copies are told from rows that are alike because they have few values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.exceptions import AccuracyWarning, user_level

#: Numbers that are hashed at a time: 32 MB for each copy. Chosen by hand.
NUMBERS = 1 << 22
#: Rows that are looked at for others like them. Chosen by hand.
PROBES = 1_000
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


def find_repeats(source: RowSource, y: Array, columns: Sequence[IntArray] | None = None) -> Repeats | None:
    """Return which rows are copies of each other; None if none are. Warns if more than a tenth are.

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
    for where, rows in row_blocks(source, max(1, NUMBERS // max(1, d))):
        own[where] = _sums(rows)
    _, first, groups, counts = np.unique(own, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == n:
        return None
    values = np.asarray(y).reshape(n, -1)
    targets = _mixed(values, d + np.arange(values.shape[1])).sum(axis=1, dtype=np.uint64)
    _, copies, sizes = np.unique(own + targets, return_inverse=True, return_counts=True)
    shares = np.unique(targets, return_counts=True)[1] / n
    pairs, equal = (float(np.sum(c * (c - 1.0))) for c in (counts, sizes))
    parts = [np.array([j]) for j in range(d)] if columns is None else columns
    number, category, apart = _kinds(source, first, own[first], counts, parts)
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
    if n - n_groups > TOLD * n:
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
    source: RowSource, first: IntArray, own: Array, counts: IntArray, columns: Sequence[IntArray]
) -> tuple[bool, bool, bool]:
    """Tell whether a number, or a category, has mostly own values, and whether chance makes few equal rows.

    Of the rows that agree with a row in all columns but j, a share q_j/(1 − q_j) would agree in j too, where
    q_j is the chance that two rows have the same value there.
    """
    rng, n_groups = np.random.default_rng(0), len(first)
    size = min(n_groups, max(PROBES, NUMBERS // source.shape[1]))
    drawn = np.sort(rng.choice(n_groups, size, replace=False)) if size < n_groups else np.arange(size)
    hashes, own, counts = _hashes(source.take(first[drawn])), own[drawn], counts[drawn]
    probes = rng.choice(size, min(size, PROBES), replace=False)
    found = {False: False, True: False}
    by_chance = 0.0
    for places in columns:
        part = hashes[:, places].sum(axis=1, dtype=np.uint64)
        if 2 * len(np.unique(part[probes])) >= len(probes):
            found[len(places) > 1] = True
        _, lines = np.unique(own - part, return_inverse=True)
        near = np.mean((np.bincount(lines, counts)[lines] - counts)[probes]) * n_groups / size
        same = float(np.sum(np.square(np.unique(part, return_counts=True)[1] / size)))
        by_chance = max(by_chance, float(near) * same / max(1.0 - same, 1e-9) if near else 0.0)
    apart = by_chance <= DIFFER * float(np.mean(counts - 1.0))
    return found[False], found[True], apart


def _sums(rows: Rows) -> Array:
    """Return a hash of each row, the sum of its cells' hashes."""
    if not sp.issparse(rows):
        return np.asarray(_hashes(rows).sum(axis=1, dtype=np.uint64))
    thin: Any = sp.csr_array(rows)
    total = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(thin.data, thin.indices), dtype=np.uint64)])
    return np.asarray(total[thin.indptr[1:]] - total[thin.indptr[:-1]])


def _hashes(rows: Rows) -> Array:
    """Return a hash of each cell, (n, d), that depends on its column; 0 for 0."""
    thin: Any = rows
    dense = thin.toarray() if sp.issparse(rows) else np.asarray(rows)
    return _mixed(dense, np.arange(dense.shape[1]))


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
