"""Rows drawn with unequal probabilities and without replacement, and how sure a sum over them is."""

from __future__ import annotations

import numpy as np

from gramian._typing import Float64Array, IntArray


def inclusion(size: Float64Array, count: int) -> Float64Array:
    """Return π_i = min(1, c·size_i) with Σ π_i = count, for sizes >= 0 that are not all zero.

    A row whose share is one or more is drawn for certain; the others share what remains of the count.
    """
    sure = np.zeros(len(size), bool)
    while True:
        left, total = count - int(sure.sum()), float(size[~sure].sum())
        if left <= 0 or total <= 0.0:
            return sure.astype(np.float64)
        chance = np.where(sure, 1.0, size * (left / total))
        over = ~sure & (chance >= 1.0)
        if not over.any():
            return chance
        sure |= over


def draw(chance: Float64Array, rng: np.random.Generator) -> IntArray:
    """Draw Σ π_i rows, row i with probability π_i, ascending.

    Systematic sampling in random order: the rows are laid end to end with lengths π_i and met by marks
    one apart. Time O(n). Source: Madow (1949); Särndal, Swensson and Wretman (1992), 3.6.
    """
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    count = round(float(ends[-1]))
    marks = (rng.random() + np.arange(count)) * (ends[-1] / max(count, 1))
    return np.sort(order[np.searchsorted(ends, marks)])


def sum_variance(values: Float64Array, chance: Float64Array) -> tuple[float, int]:
    """Return the estimated variance of Σ values_i/π_i over drawn rows, and how many were left to chance.

    Hájek's formula for designs of high entropy, m/(m − 1) Σ (1 − π_i)(values_i/π_i − B)² with B the mean of
    values_i/π_i under weights 1 − π_i; rows drawn for certain add nothing, and of one that is not B = 0.
    """
    loose = chance < 1.0
    count = int(loose.sum())
    expanded, weights = values[loose] / chance[loose], 1.0 - chance[loose]
    if count < 2:
        return float(weights @ expanded**2), count
    centred = expanded - np.average(expanded, weights=weights)
    return count / (count - 1.0) * float(weights @ centred**2), count
