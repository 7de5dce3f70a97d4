"""Sample weights: checks of those that a user gave, and their unit where a penalty is searched for."""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import ArrayLike

from gramian._checks import refuse_masked
from gramian._typing import Array
from gramian.data.values import LARGEST, as_array
from gramian.exceptions import InputError, shortened

#: Bits to which weights are rounded where only their ratios count. Chosen by hand.
BITS = 30


def checked_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array | None:
    """Return sample weights as float64 of shape (n,), or None; all must be finite, none negative."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)
    if isinstance(sample_weight, numbers.Real):
        weights = np.full(n_rows, float(sample_weight))
    else:
        try:
            weights = as_array("sample_weight", sample_weight, np.float64)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(
                f"sample_weight has type {type(sample_weight).__name__} and cannot be read as numbers "
                f"({shortened(str(error))}). Give one weight for each row."
            ) from None
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}; expected ({n_rows},), one weight for each row."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight holds negative, infinite or NaN entries; give weights >= 0.")
    if not (weights > 0).any():
        raise InputError("sample_weight is zero everywhere; at least one row must count.")
    refuse_heavy("sample_weight", weights)
    return weights


def refuse_heavy(name: str, weights: Array) -> None:
    """Raise for weights that are so large that sums and products of them would overflow."""
    if weights.max(initial=0.0) > LARGEST:
        raise InputError(
            f"{name} holds {weights.max():.3g}; numbers beyond {LARGEST:g} are refused: sums and products of "
            "them would overflow. Divide all weights by the largest."
        )


def effective_rows(weights: Array) -> float:
    """Return how many rows of equal weight tell as much as these: (Σw)²/Σw². Source: Kish 1965.

    >>> effective_rows(np.array([3.7, 3.7, 1e-9]))
    2.0
    """
    shares = np.asarray(weights, np.float64) / weights.max()
    return round(float(shares.sum() ** 2 / np.square(shares).sum()), 6)


def relative_weights(weights: Array | None) -> Array | None:
    """Return weights divided by the mean of those above 0; None stands for weights of 1.

    Fits that search for their penalty use these: a penalty is measured in the unit of the weights, and the
    candidates are meant for weights of mean 1. So weights that sum to 1 give the model that weights of mean 1
    give: they are rounded to 30 bits, because the last bits, which change with the unit, would decide between
    equals. Time O(n).

    >>> weights = np.array([1.0, 2.0, 5.0])
    >>> bool((relative_weights(3.7 * weights) == relative_weights(weights)).all())
    True
    """
    if weights is None:
        return None
    sizes, exponents = np.frexp(weights / weights[weights > 0].mean())
    return np.asarray(np.ldexp(np.round(np.ldexp(sizes, BITS)), exponents - BITS))
