"""Quantiles of held-out errors for intervals of a given coverage (split conformal prediction)."""

from __future__ import annotations

import numpy as np

from gramian._typing import Float64Array
from gramian.estimator.labels import effective_rows
from gramian.exceptions import InputError


def share(name: str, value: float) -> float:
    """Return a parameter that must be a number between 0 and 1; raise if it is none."""
    numeric = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not numeric or not 0 < value < 1:
        raise InputError(f"{name}={value!r} must be a number between 0 and 1, such as 0.9.")
    return float(value)


def held_out_rank(wanted: float, count: float, n_rows: int, what: str) -> float:
    """Return wanted·(count + 1); raise if the held-out rows, which count as so many, are too few for it."""
    rank = round(wanted * (count + 1.0), 9)  # safe from rounding (0.9·10)
    if rank > count:
        least = int(np.ceil(round(wanted / (1.0 - wanted), 6)))
        counted = "" if count == n_rows else f", which count as {count:.4g} by their weights"
        raise InputError(
            f"{what} needs {least} held-out rows, but there were {n_rows}{counted}. Ask for less, or fit to "
            "more rows."
        )
    return rank


def held_out_quantile(
    errors: Float64Array, weights: Float64Array | None, wanted: float, what: str, chosen: int = 0
) -> Float64Array:
    """Return the held-out error (outputs,) that a share ``wanted`` of new rows does not exceed.

    Its rank among the m errors is ⌈wanted·(m + 1)⌉. With weights, m is the number of rows of equal weight
    that tell as much, (Σw)²/Σw², and a row counts as w·m/Σw. So a factor of all weights changes nothing, and
    a row whose weight goes to 0 goes.

    errors : (m, outputs) or (m,); weights : of the same shape, or None; what : what the user asked for, for
    the error. chosen : number of hyperparameters that the same rows chose. Errors on them are then smaller
    than on new rows, by √((m − chosen)/(m + chosen)) (Akaike's final prediction error). For normal errors and
    coverages of 0.5 to 0.9 that is a third to .4 of a rank for each, so one rank is added for three. Raises
    ``InputError`` if the rows are too few. Time O(m log m).
    Source: Tibshirani, Foygel Barber, Candès and Ramdas 2019 (weighted conformal prediction).

    >>> errors = np.arange(10.0)
    >>> few = np.where(errors < 5, 1.0, 1e-9)
    >>> [float(held_out_quantile(errors, weights, 0.8, "")) for weights in (None, few + 1.0, few)]
    [8.0, 8.0, 4.0]
    """
    w = np.ones(errors.shape) if weights is None else weights
    count = effective_rows(w[:, 0] if w.ndim > 1 else w) if len(w) else 0.0
    rank = held_out_rank(wanted, count, len(w), what)
    order = np.argsort(errors, axis=0, kind="stable")
    total = np.cumsum(np.take_along_axis(w, order, 0), axis=0)
    below = total * (count / total[-1]) < rank + np.ceil(chosen / 3) - 1e-6
    place = np.minimum(below.sum(axis=0, keepdims=True), len(w) - 1)
    return np.asarray(np.take_along_axis(errors, np.take_along_axis(order, place, 0), 0)[0])


def sort_errors(
    errors: Float64Array, weights: Float64Array | None
) -> tuple[Float64Array, Float64Array | None]:
    """Return errors (m, …), ascending in each output, and the weights (m,) of their rows in that order."""
    order = np.argsort(errors, axis=0, kind="stable")
    return np.take_along_axis(errors, order, 0), None if weights is None else np.asarray(weights[order])
