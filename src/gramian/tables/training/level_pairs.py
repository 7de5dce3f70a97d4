"""Numbers for pairs of levels of two categories, where the two together tell more than each of them alone."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.tables.boosting.boosted import LevelPairs
from gramian.tables.empirical import centred_ranks
from gramian.tables.level_means import ADDED
from gramian.tables.training.level_lookups import added_rows, summed

#: Parts of the rows, each of which gets its numbers from the others; sweeps in which the levels' own effects
#: are found; standard errors by which a pair has to help. Chosen by hand.
FOLDS, SWEEPS, LEAST_ERRORS = 5, 3, 3.0
#: Pairs that are kept at most; categories among which, and rows on which they are looked for. Chosen by hand.
MOST_PAIRS, MOST_GROUPS, MOST_ROWS = 10, 64, 20_000


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
        found = _means(codes[some], sizes, pair, rest[some], w[some], parts[some])
        if found is not None:
            saved = w[some] * (found.own * (2.0 * rest[some] - found.own)).sum(axis=1)
            if saved.mean() > LEAST_ERRORS * saved.std() / np.sqrt(len(saved)):
                gains[pair] = float(saved.mean())
    kept, own = list[LevelPairs](), list[Float64Array]()
    for pair in sorted(gains, key=gains.__getitem__, reverse=True)[:MOST_PAIRS]:
        found = _means(codes, sizes, pair, rest, w, parts)
        if found is not None:
            first, second = (effects[j] for j in pair)
            both = first[:, None] + second
            table, axis = found.table.reshape(both.shape) + both, found.axis
            kept.append(LevelPairs(*pair, table @ axis))
            own.append((found.own + both[codes[:, pair[0]], codes[:, pair[1]]]) @ axis)
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


class _PairMeans(NamedTuple):
    """Means of the pairs of levels of two categories."""

    table: Float64Array  #: (pairs, outputs)
    own: Float64Array  #: (n, outputs), of each row by the other parts of the rows
    axis: Float64Array  #: (outputs,), their first principal axis, pairs weighted by their rows


def _means(
    codes: IntArray,
    sizes: tuple[int, ...],
    pair: tuple[int, int],
    rest: Float64Array,
    w: Float64Array,
    parts: IntArray,
) -> _PairMeans | None:
    """Return the shrunk means of what is left, by pairs of levels; None if pairs do not differ."""
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
    return _PairMeans(table, others[:, 1:] / (others[:, :1] + added), np.asarray(axis))
