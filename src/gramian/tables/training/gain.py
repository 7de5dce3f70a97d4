"""Gain of one model over another on held-out rows, and the best mean of the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from gramian._typing import Float64Array, IntArray

#: Parts of the held-out rows that are left out in turn. Chosen by hand.
PARTS = 20
#: Function from values (held, outputs) and the numbers of the held-out rows to an error.
HeldLoss = Callable[[Float64Array, IntArray], float]


@dataclass(frozen=True)
class Gain:
    """By how much a loss on held-out rows is lower, and the standard error of that.

    >>> Gain(0.2, 0.1).clear, Gain(0.2, 0.3).clear
    (True, False)
    """

    loss: float
    error: float

    @classmethod
    def of(cls, n: int, gain: Callable[[IntArray], float]) -> Gain:
        """Return the gain on n rows: ``gain`` is the difference of two losses on some of them.

        The error is the jackknife's, which leaves out one part of the rows after the other. The parts are
        rows that follow each other, as these may be alike. Source: Shao and Tu 1995, section 2.3.
        """
        every = np.arange(n)
        if n < 2:
            return cls(gain(every) if n else 0.0, np.inf)
        left = [gain(np.delete(every, part)) for part in np.array_split(every, min(PARTS, n))]
        return cls(gain(every), float(np.sqrt((len(left) - 1) * np.var(left))))

    @classmethod
    def of_rows(cls, before: Float64Array, after: Float64Array, weights: Float64Array | None) -> Gain:
        """Return the gain in the mean of the rows' losses."""
        gains = np.asarray(before - after, np.float64)
        weights = np.ones(len(gains)) if weights is None else weights
        return cls.of(len(gains), lambda some: float(gains[some] @ weights[some] / weights[some].sum()))

    @classmethod
    def of_values(cls, before: Float64Array, after: Float64Array, held: IntArray, loss: HeldLoss) -> Gain:
        """Return the gain of the values of held-out rows over other values of them."""
        return cls.of(len(held), lambda some: loss(before[some], held[some]) - loss(after[some], held[some]))

    @property
    def clear(self) -> bool:
        """Whether the loss is lower by more than the standard error."""
        return self.loss > self.error


def best_share(
    first: Float64Array, second: Float64Array, held: IntArray, loss: HeldLoss
) -> tuple[float, Float64Array]:
    """Return the share of the second values in the mean of both that has the least loss, and that mean."""

    def mean(share: float) -> Float64Array:
        return (1.0 - share) * first + share * second

    found = minimize_scalar(lambda share: loss(mean(share), held), bounds=(0.0, 1.0), method="bounded")
    return float(found.x), mean(float(found.x))


def adds(first: Float64Array, second: Float64Array, held: IntArray, loss: HeldLoss) -> bool:
    """Return whether a mean with the second values has a clearly lower loss than the first ones alone."""
    first = first.reshape(second.shape)
    return Gain.of_values(first, best_share(first, second, held, loss)[1], held, loss).clear
