"""Empirical distribution functions, linear between knots."""

from __future__ import annotations

import numpy as np

from gramian._typing import Float64Array

#: Knots of a distribution function, at most.
KNOTS = 1_000
#: What values beyond the knots may add, in units of the function's values.
TAIL = 0.5


def distribution(x: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return knots and the distribution function there, F(v) = (#(x < v) + #(x = v)/2)/n.

    Both increase strictly. Of more than 1,000 different values those are taken that lie at even steps of F,
    with the first and the last. Time O(n log n).

    >>> distribution(np.array([1.0, 5.0, 5.0, 9.0]))
    (array([1., 5., 9.]), array([0.125, 0.5  , 0.875]))
    """
    values, counts = np.unique(x, return_counts=True)
    below = np.cumsum(counts) - counts
    F = (below + counts / 2.0) / len(x)
    if len(values) > KNOTS:
        at = np.searchsorted(F, np.linspace(F[0], F[-1], KNOTS))
        at = np.unique(np.concatenate([[0], at, [len(values) - 1]]))[-KNOTS:]
        at[0] = 0
        values, F = values[at], F[at]
    return values, F


def rise(x: Float64Array, knots: Float64Array, values: Float64Array, unit: float) -> Float64Array:
    """Return the function through (knots, values) at x; beyond the knots it rises by at most 1/2 more.

    t = (distance to the last knot)/unit adds t/(1 + t)/2, so that far values stay apart and none runs away.
    """
    # Far values are far enough at 1e15.
    with np.errstate(over="ignore"):
        over = np.minimum(np.maximum(x - knots[-1], 0.0) / unit, 1e15)
        under = np.minimum(np.maximum(knots[0] - x, 0.0) / unit, 1e15)
    return np.interp(x, knots, values) + TAIL * (over / (1.0 + over) - under / (1.0 + under))
