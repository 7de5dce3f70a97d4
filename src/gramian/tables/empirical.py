"""Means, quantiles and distribution functions of weighted values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramian._typing import Float64Array

#: Largest number of knots of a distribution function. Chosen by hand.
KNOTS = 1_000
#: Largest rise of the function beyond its last knots, in units of its values. Chosen by hand.
TAIL = 0.5


def mean(x: Float64Array, weights: Float64Array | None = None) -> float:
    """Return the weighted mean."""
    return float(np.average(x, weights=weights))


def variance(x: Float64Array, weights: Float64Array | None = None) -> float:
    """Return the weighted variance."""
    return mean((x - mean(x, weights)) ** 2, weights)


def centred_ranks(targets: Float64Array, weights: Float64Array | None = None) -> Float64Array:
    """Return the distribution function of each column of targets (n, outputs) there, less its mean."""
    ranks = np.column_stack([np.interp(t, *distribution(t, weights)) for t in targets.T])
    return np.asarray(ranks - np.average(ranks, axis=0, weights=weights))


def deviation(x: Float64Array, weights: Float64Array | None = None) -> float:
    """Return the weighted standard deviation."""
    return float(np.sqrt(variance(x, weights)))


def quantiles(
    x: Float64Array, q: Sequence[float], weights: Float64Array | None = None, *, lower: bool = False
) -> Float64Array:
    """Return quantiles of weighted values: a value of weight w counts w times.

    Linear between neighbours, as ``np.quantile``; with ``lower`` the lower neighbour. Weights whose sum is
    below the number of values are scaled up to that number. Weights may be fractions: the i-th smallest is
    the first value whose cumulated weight exceeds i. Time O(n log n).

    >>> quantiles(np.array([1.0, 2.0, 4.0]), [0.5], np.array([1.0, 1.0, 2.0]))
    array([3.])
    """
    if weights is None:
        return np.quantile(x, q, method="lower" if lower else "linear")
    order = np.argsort(x, kind="stable")
    total = np.cumsum(weights[order])
    total *= max(1.0, len(x) / total[-1])
    place = np.asarray(q) * max(total[-1] - 1.0, 0.0)
    below = np.floor(place)
    first, second = (
        x[order][np.minimum(np.searchsorted(total, at, "right"), len(x) - 1)] for at in (below, below + 1.0)
    )
    return first if lower else first + (place - below) * (second - first)


def distribution(x: Float64Array, weights: Float64Array | None = None) -> tuple[Float64Array, Float64Array]:
    """Return knots v and the distribution function there, F(v) = (#(x < v) + #(x = v)/2)/n.

    With weights, # sums weights instead of counting. Both increase strictly. If there are more than 1,000
    different values, the knots lie at even steps of F, with the first and the last value. Time O(n log n).

    >>> distribution(np.array([1.0, 5.0, 5.0, 9.0]))
    (array([1., 5., 9.]), array([0.125, 0.5  , 0.875]))
    """
    if weights is None:
        values, counts = np.unique(x, return_counts=True)
    else:
        values, places = np.unique(x, return_inverse=True)
        counts = np.bincount(places.reshape(-1), weights)
    total = np.cumsum(counts)
    F = (total - counts / 2.0) / total[-1]
    if len(values) > KNOTS:
        at = np.searchsorted(F, np.linspace(F[0], F[-1], KNOTS))
        at = np.unique(np.concatenate([[0], at, [len(values) - 1]]))[-KNOTS:]
        at[0] = 0
        values, F = values[at], F[at]
    return values, F


def rise(x: Float64Array, knots: Float64Array, values: Float64Array, unit: float) -> Float64Array:
    """Return the function through (knots, values) at x; beyond the knots it rises by at most 1/2.

    Beyond the last knot t/(1 + t)/2 is added, where t = (distance to that knot)/unit, so that far values stay
    different but bounded.
    """
    # Beyond 1e15 units the curve is flat to rounding.
    with np.errstate(over="ignore"):
        over = np.minimum(np.maximum(x - knots[-1], 0.0) / unit, 1e15)
        under = np.minimum(np.maximum(knots[0] - x, 0.0) / unit, 1e15)
    return np.interp(x, knots, values) + TAIL * (over / (1.0 + over) - under / (1.0 + under))
