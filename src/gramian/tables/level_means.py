"""Numbers for the levels of categories, and of pairs of them: how the targets differ from the mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations

import numpy as np

from gramian._numerics import LEAST_DIVISOR
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY, EMPTY
from gramian.data.missing import MISSING, without_missing
from gramian.data.tables import TableSource
from gramian.tables.boosting.boosted import LevelPairs
from gramian.tables.column import Column, Feature, LevelLookup, LevelMeans
from gramian.tables.empirical import centred_ranks

#: A category needs at least 20 rows, and a column at least 3 such categories. Means shrink as if 20 average
#: rows were added to each category. At most 20,000 rows are read. Chosen by hand.
LEAST_ROWS, LEAST_LEVELS, ADDED, MOST_ROWS = 20.0, 3, 20.0, 20_000
#: Encoded rows that are held at a time.
BLOCK_ROWS = 1_000


def level_groups(
    features: Sequence[Feature],
    read: Callable[[IntArray], Array],
    numbers: IntArray,
    weights: Array | None = None,
) -> list[Feature]:
    """Return the categories with at least three levels of 20 rows or more among the rows ``numbers``.

    A row of weight 2 counts as two.
    """
    hot = [f for f in features if f.kind == CATEGORY and len(f.categories) >= LEAST_LEVELS]
    if not hot:
        return []
    w = np.ones(len(numbers)) if weights is None else np.asarray(weights, np.float64)
    counts = _sums(read, numbers, w[:, None])[:, 0]
    return [f for f in hot if (counts[f.places] >= LEAST_ROWS).sum() >= LEAST_LEVELS]


def level_means(
    groups: Sequence[Feature],
    read: Callable[[IntArray], Array],
    numbers: IntArray,
    targets: Float64Array,
    weights: Array | None,
    like: Sequence[LevelMeans] = (),
) -> tuple[LevelMeans, ...]:
    r"""Return a number for each level of some categories.

    Σ w·(t − t̄)/(Σ w + 20) over the rows of a level, t the target's empirical distribution function. Of
    several outputs the first principal axis of these vectors is taken, levels weighted by their rows. So an
    ordered category, whose levels a one-hot group keeps equally far from each other, has an order; the 20
    rows that are added keep a row's own target from showing through.

    read : encoded rows by their numbers; targets : (m, outputs) of the rows ``numbers``; weights : (m,) or
    None; like : means of the same categories whose axes are taken. Time O(m·width·outputs). Source:
    Micci-Barreca 2001 (shrunken means of levels).
    """
    if not groups:
        return ()
    w = np.ones(len(numbers)) if weights is None else np.asarray(weights, np.float64)
    ranks = centred_ranks(targets, weights)
    sums = _sums(read, numbers, np.column_stack([w, w[:, None] * ranks]))
    averages = []
    for j, feature in enumerate(groups):
        counts, totals = sums[feature.places, 0], sums[feature.places, 1:]
        means = totals / (counts[:, None] + ADDED)
        if like:
            axis = np.array(like[j].axis)
        else:
            axis = np.linalg.svd(np.sqrt(counts)[:, None] * means, full_matrices=False)[2][0]
        values = np.asarray(means @ axis, np.float32)  # so that encoded rows of either type hold them
        own = (tuple(map(float, each)) for each in (values, axis))
        averages.append(LevelMeans(feature.column, feature.places, *own))
    return tuple(averages)


def with_means(encoded: Float64Array, means: Sequence[LevelMeans]) -> Float64Array:
    """Return encoded rows without level means, with them in further columns."""
    wide = np.hstack([encoded, np.zeros((len(encoded), len(means)))])
    for place, each in enumerate(means, encoded.shape[1]):
        each.write(wide, place)
    return wide


def _sums(read: Callable[[IntArray], Array], numbers: IntArray, terms: Float64Array) -> Float64Array:
    """Return Σ x tᵀ over the encoded rows with these numbers, (width, terms)."""
    parts = row_slices(len(numbers), BLOCK_ROWS)
    return np.sum([np.asarray(read(numbers[part]), np.float64).T @ terms[part] for part in parts], axis=0)


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
    lookups, own = list[LevelLookup](), list[Float64Array]()
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
        lookups.append(LevelLookup(column.name, tuple(levels), numbers.astype(np.float64), column.holds))
        own.append(np.asarray(values, np.float32).astype(np.float64))
    return tuple(lookups), np.column_stack(own) if own else np.zeros((n, 0))


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


#: Parts of the rows, each of which gets its numbers from the others; sweeps in which the levels' own effects
#: are found; standard errors by which a pair has to help. Chosen by hand.
FOLDS, SWEEPS, LEAST_ERRORS = 5, 3, 3.0
#: Pairs that are kept at most; categories among which they are looked for. Chosen by hand.
MOST_PAIRS, MOST_GROUPS = 10, 64


def level_pairs(
    codes: IntArray,
    sizes: tuple[int, ...],
    targets: Float64Array,
    weights: Array | None,
    rng: np.random.Generator,
) -> tuple[tuple[LevelPairs, ...], Float64Array]:
    r"""Return numbers for the pairs of levels that help most, and the training rows' own numbers, (n, pairs).

    The levels' own effects, which add up to the target's empirical distribution function as well as such sums
    can, plus Σ w·r/(Σ w + a) over the rows of a pair: r is what the effects of all categories leave, and a
    the variance of r within pairs over that between them. A training row takes the sums of the other parts of
    the rows, so that its own target does not show through. Two categories are kept if these means lower the
    squares of r by more than three standard errors, at most ten pairs of categories. Of several outputs the
    first principal axis is taken.

    codes : (n, categories), from 1 to ``sizes``, 0 of no level; targets : (n, outputs); weights : (n,) or
    None.

    Time O(n·outputs) for two categories. Of more than 64 categories those are paired whose own effects are
    largest; of more than 20,000 rows, 20,000 say which categories are kept.
    """
    n, w = len(codes), np.ones(len(codes)) if weights is None else np.asarray(weights, np.float64)
    rest, effects = _effects(codes, sizes, centred_ranks(targets, weights), w)
    parts = rng.permutation(n) % FOLDS
    some = np.arange(n) if n <= MOST_ROWS else rng.choice(n, MOST_ROWS, replace=False)
    strength = [float((w @ own[levels] ** 2).sum()) for own, levels in zip(effects, codes.T, strict=True)]
    groups = np.sort(np.argsort(strength, kind="stable")[::-1][:MOST_GROUPS]).tolist()
    gains = dict[tuple[int, int], float]()
    for pair in combinations(groups, 2):
        fitted = _means(codes[some], sizes, pair, rest[some], w[some], parts[some])
        if fitted is not None:
            means = fitted[1]
            saved = w[some] * (means * (2.0 * rest[some] - means)).sum(axis=1)
            if saved.mean() > LEAST_ERRORS * saved.std() / np.sqrt(len(saved)):
                gains[pair] = float(saved.mean())
    kept, own = list[LevelPairs](), list[Float64Array]()
    for pair in sorted(gains, key=gains.__getitem__, reverse=True)[:MOST_PAIRS]:
        fitted = _means(codes, sizes, pair, rest, w, parts)
        if fitted is not None:
            table, means, axis = fitted
            both = effects[pair[0]][:, None] + effects[pair[1]]
            kept.append(LevelPairs(*pair, (table.reshape(both.shape) + both) @ axis))
            own.append((means + both[codes[:, pair[0]], codes[:, pair[1]]]) @ axis)
    return tuple(kept), np.column_stack(own) if own else np.zeros((n, 0))


def _effects(
    codes: IntArray, sizes: tuple[int, ...], ranks: Float64Array, w: Float64Array
) -> tuple[Float64Array, list[Float64Array]]:
    """Return what the levels' own effects leave of the ranks, and the effects (levels + 1, outputs)."""
    rest, effects = ranks.copy(), [np.zeros((size + 1, ranks.shape[1])) for size in sizes]
    for _ in range(SWEEPS):
        for j, levels in enumerate(codes.T):
            rest += effects[j][levels]
            sums = summed(levels, np.column_stack([w, w[:, None] * rest]), sizes[j] + 1)
            effects[j] = sums[:, 1:] / (sums[:, :1] + ADDED)
            rest -= effects[j][levels]
    return rest, effects


def _means(
    codes: IntArray,
    sizes: tuple[int, ...],
    pair: tuple[int, int],
    rest: Float64Array,
    w: Float64Array,
    parts: IntArray,
) -> tuple[Float64Array, Float64Array, Float64Array] | None:
    """Return the shrunk means of what is left, by pairs of levels; None if pairs do not differ.

    Those of all rows (pairs, outputs), for each row those of the other parts (n, outputs), and their first
    principal axis (outputs,), pairs weighted by their rows.
    """
    first, second = pair
    count = (sizes[first] + 1) * (sizes[second] + 1)
    both = codes[:, first] * (sizes[second] + 1) + codes[:, second]
    terms = np.column_stack([w, w[:, None] * rest])
    by_part = summed(parts * count + both, terms, FOLDS * count).reshape(FOLDS, count, -1)
    sums = by_part.sum(axis=0)
    squares = float(w @ (rest**2).sum(axis=1))
    added = added_rows(sums, squares, int(np.count_nonzero(sums[:, 0])))
    if added is None:
        return None
    others = (sums - by_part)[parts, both]
    table = sums[:, 1:] / (sums[:, :1] + added)
    axis = np.linalg.svd(np.sqrt(sums[:, :1]) * table, full_matrices=False)[2][0]
    return table, others[:, 1:] / (others[:, :1] + added), np.asarray(axis)
