"""A number for each level of a category of many levels; training rows get theirs from the other rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gramian._numerics import LEAST_DIVISOR
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY, EMPTY
from gramian.data.missing import MISSING, without_missing
from gramian.data.tables import TableSource
from gramian.tables.column import Column, LevelLookup
from gramian.tables.empirical import centred_ranks

#: A category has a number for each level if at least this share of the rows has none of its one-hot places
#: to itself, and if this share of the rows is of levels that repeat. Chosen by hand.
LEAST_SHARE, LEAST_REPEATED = 0.1, 0.1
#: Bounds of the rows of no deviation that are added to those of a level. Chosen by hand.
LEAST_ADDED, MOST_ADDED = 1.0, 100.0
#: Levels that are kept at most; the others count as unknown. Chosen by hand.
MOST_LEVELS = 200_000


def level_lookups(
    columns: Sequence[Column],
    order: Sequence[int],
    table: TableSource,
    targets: Float64Array,
    weights: Array | None,
    folds: Sequence[IntArray],
    missing: Collection[str] = MISSING,
) -> tuple[tuple[LevelLookup, ...], Float64Array]:
    r"""Return a number for each level of categories of many levels, and the training rows' own numbers.

    Σ w·(t − t̄)/(Σ w + a) over the rows of a level, t the target's empirical distribution function. The share
    a = σ²/τ² is the variance within levels over that between them, by moments (Searle, Casella and McCulloch
    1992, section 3.6), so that numbers of rare levels are near 0 where levels differ little. A training row's
    number comes from the rows outside its own fold: its own target does not show through, and a level of a
    single row has 0. Of several outputs the first principal axis is taken.

    columns, order : the columns and their places in the table; targets : (n, outputs); weights : (n,) or
    None; folds : parts of all rows; missing : text that is a missing value. Returns a lookup for each
    category in which levels differ, and numbers (n, lookups). Time O(n·outputs) for each category. Source:
    Micci-Barreca 2001.
    """
    n = len(targets)
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    ranks = centred_ranks(targets, weights)
    found, own = list[LevelLookup](), list[Float64Array]()
    for column, place in zip(columns, order, strict=True):
        if column.kind != CATEGORY or column.dropped or not column.infrequent:
            continue
        levels, codes = _levels(table, column, place, missing)
        known = codes >= 0
        rows_of = np.bincount(codes[known], minlength=len(levels))
        shared = np.array([level not in column.categories for level in levels], bool)
        if rows_of[shared].sum() < LEAST_SHARE * n or rows_of[rows_of > 1].sum() < LEAST_REPEATED * n:
            continue
        terms = np.column_stack([w, w[:, None] * ranks])
        sums = summed(codes[known], terms[known], len(levels))
        added = added_rows(sums, float(w[known] @ (ranks[known] ** 2).sum(axis=1)), int((rows_of > 0).sum()))
        if added is None:
            continue
        means = sums[:, 1:] / (sums[:, :1] + added)
        axis = np.linalg.svd(np.sqrt(sums[:, :1]) * means, full_matrices=False)[2][0]
        values = np.zeros(n)
        for fold in folds:
            fold = fold[known[fold]]
            rest = sums - summed(codes[fold], terms[fold], len(levels))
            values[fold] = (rest[:, 1:] @ axis / (rest[:, 0] + added))[codes[fold]]
        numbers = np.asarray(means @ axis, np.float32)  # so that encoded rows of either type hold them
        found.append(LevelLookup(column.name, tuple(levels), numbers.astype(np.float64), column.holds))
        own.append(np.asarray(values, np.float32).astype(np.float64))
    return tuple(found), np.column_stack(own) if own else np.zeros((n, 0))


def _levels(
    table: TableSource, column: Column, place: int, missing: Collection[str]
) -> tuple[list[str], IntArray]:
    """Return the levels of a column and the number of each row's level, −1 if it is missing."""
    index, codes = dict[str, int](), np.full(table.shape[0], -1, np.intp)
    for where in row_slices(table.shape[0], table.block_rows):
        cells = table.block(where).cells(place, column.name, column.holds != "text")
        cells = without_missing(cells, missing)
        if cells.kind == EMPTY:
            continue
        used = np.unique(cells.values)
        numbers = np.full(len(cells.levels) + 1, -1, np.intp)  # code −1 (missing) picks the last
        for level in used[used >= 0].tolist():
            name = cells.levels[level]
            if len(index) < MOST_LEVELS or name in index:
                numbers[level] = index.setdefault(name, len(index))
        codes[where] = numbers[cells.values]
    return list(index), codes


def summed(codes: IntArray, terms: Float64Array, count: int) -> Float64Array:
    """Return the sum of terms (m, k) for each code below ``count``."""
    return np.column_stack([np.bincount(codes, column, minlength=count) for column in terms.T])


def added_rows(sums: Float64Array, squares: float, count: int) -> float | None:
    """Return the variance within levels over that between them; None if levels don't differ.

    sums : (levels, 1 + outputs), Σ w and Σ w·t of each level; squares : Σ w·t² of all rows; count : levels
    that have rows.
    """
    weight = sums[:, 0]
    squared_means = sums[:, 1:] ** 2 / np.maximum(weight, LEAST_DIVISOR)[:, None]
    total, level_squares = weight.sum(), float(squared_means.sum())
    if total <= count or count < 2:
        return None
    within = max(squares - level_squares, 0.0) / (total - count)
    overall = float((sums[:, 1:].sum(axis=0) ** 2).sum() / total)
    size = (total - float((weight**2).sum()) / total) / (count - 1)
    between = ((level_squares - overall) / (count - 1) - within) / size
    if not between > 0.0:
        return None
    return float(np.clip(within / between, LEAST_ADDED, MOST_ADDED))
