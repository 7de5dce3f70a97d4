"""A number for each level of a category: how far the target of its rows is from the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY
from gramian.tables.column import Feature, LevelMeans
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
    found = []
    for j, feature in enumerate(groups):
        counts, totals = sums[feature.places, 0], sums[feature.places, 1:]
        means = totals / (counts[:, None] + ADDED)
        if like:
            axis = np.array(like[j].axis)
        else:
            axis = np.linalg.svd(np.sqrt(counts)[:, None] * means, full_matrices=False)[2][0]
        values = np.asarray(means @ axis, np.float32)  # so that encoded rows of either type hold them
        own = (tuple(map(float, each)) for each in (values, axis))
        found.append(LevelMeans(feature.column, feature.places, *own))
    return tuple(found)


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
