"""Comparisons on held-out rows: the gain of one model over another, the mean of two, the penalty of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from gramian._typing import Float64Array, IntArray
from gramian.search import Judge, Limits, Trials, search
from gramian.tables.boosting.boosted import LEAST_GAIN

#: Parts of the held-out rows that are left out in turn. Chosen by hand.
PARTS = 20
#: Share of each of two models that no rows have compared yet, and its standard deviation. Few held-out rows
#: with outliers tell little about the best share: over ten seeds the error on used_cars_us (5,000 rows) moved
#: by .011 with the share of least loss, and moves by .005 with one drawn to the middle. Chosen by hand.
EVEN, SPREAD = 0.5, 0.25
#: Decimals of a share, how near it is to the one of least loss, and the step of the parabola that says how it
#: moves as rows are left out. Chosen by hand.
DIGITS, FINE, STEP = 6, 1e-5, 0.1
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
        return cls(gain(every) if n else 0.0, _jackknife_error(n, gain))

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

    def beyond_fit(self, weights: Float64Array | None, n: int) -> bool:
        """Return whether a mean log-loss of n rows is lower by more than one more fitted number makes it.

        That is 1/n, or Σw²/(Σw)² with weights. Source: Akaike 1974.

        >>> Gain(0.02, 0.03).beyond_fit(None, 100), Gain(0.002, 0.001).beyond_fit(None, 100)
        (True, False)
        """
        return self.loss > (1.0 / n if weights is None else float((weights**2).sum() / weights.sum() ** 2))


def mean_of(
    first: Float64Array, second: Float64Array, held: IntArray, loss: HeldLoss
) -> tuple[float, Float64Array]:
    """Return the share of the second values in the mean of both, and that mean.

    The share s of least loss has a standard error e by the jackknife. What is returned is the mean of a
    normal share with the prior N(0.5, 0.25²) after s was seen with that error:
    (s/e² + 0.5/0.25²)/(1/e² + 1/0.25²). Models that the rows do not tell apart have equal parts, and the
    better one has more as rows are more.
    """
    best = _best_share(first, second, held, loss)

    def without(some: IntArray) -> float:
        # The least point of the parabola through the losses at three shares: exact for squared errors.
        shares = best + STEP * np.arange(-1.0, 2.0)
        below, at, above = (loss((1.0 - s) * first[some] + s * second[some], held[some]) for s in shares)
        bend = below - 2.0 * at + above
        return float(np.clip(best + 0.5 * STEP * (below - above) / bend, 0.0, 1.0)) if bend > 0 else best

    error = _jackknife_error(len(held), without)
    trust = SPREAD**2 / (SPREAD**2 + error**2)
    # Rounded, so that the last bits, which change with the unit of the target, decide nothing.
    share = round(trust * best + (1.0 - trust) * EVEN, DIGITS)
    return share, (1.0 - share) * first + share * second


def look(
    first: Float64Array, others: Sequence[Float64Array], held: IntArray, loss: HeldLoss
) -> tuple[tuple[float, float, bool], ...]:
    """Return by how much each of the other values lowers the loss of the best mean of those before it.

    Behind the gain come its standard error, and whether the gain is LEAST_GAIN of the loss or more; values of
    which it is less are in no mean that follows.
    """
    found = list[tuple[float, float, bool]]()
    for values in others:
        before = first.reshape(values.shape)
        share = _best_share(before, values, held, loss)
        mean = (1.0 - share) * before + share * values
        gain = Gain.of_values(before, mean, held, loss)
        helps = gain.loss > LEAST_GAIN * loss(before, held)
        found.append((gain.loss, gain.error, helps))
        if helps:
            first = mean
    return tuple(found)


def _best_share(first: Float64Array, second: Float64Array, held: IntArray, loss: HeldLoss) -> float:
    """Return the share of the second values in the mean of both that has the least loss."""
    minimum = minimize_scalar(
        lambda share: loss((1.0 - share) * first + share * second, held),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": FINE},
    )
    return float(minimum.x)


def _jackknife_error(n: int, statistic: Callable[[IntArray], float]) -> float:
    """Return the standard error of a statistic of n rows; inf of fewer than two."""
    if n < 2:
        return np.inf
    every = np.arange(n)
    left = [statistic(np.delete(every, part)) for part in np.array_split(every, min(PARTS, n))]
    return float(np.sqrt((len(left) - 1) * np.var(left)))


#: Factors of the search's penalty to try, since more rows need a smaller penalty; and how many further steps
#: of 3 to try if the best penalty is the smallest or largest so far. Chosen by hand.
FACTORS, FURTHER = (1.0, 1.0 / 3.0), 3


def best_penalty(
    judge: Judge[IntArray, float, Float64Array],
    held: IntArray,
    start: float,
    enough: float,
    more: Callable[[], bool],
) -> tuple[float, Float64Array]:
    """Return the best penalty and the held-out rows' values; try further if it is the smallest or largest.

    An error of at most ``enough`` ends the trials, and so does ``more()`` when it finds too little time.
    """

    def penalties(trials: Trials[float, Float64Array]) -> Iterator[list[float]]:
        tried: list[float] = []
        todo = [factor * start for factor in FACTORS]
        while todo and (not tried or more()):
            trials.drain()  # drop the values of all trials but the best
            tried.append(todo.pop(0))
            yield tried[-1:]
            best = None if trials.best is None else trials.best.candidate
            if best is None or todo or len(tried) >= len(FACTORS) + FURTHER:
                continue
            if best in (min(tried), max(tried)):
                todo = [best / 3.0 if best == min(tried) else best * 3.0]

    trials = search(held, penalties, judge, Limits(enough=enough))
    best = trials.best or trials.made[-1]
    return best.candidate, best.evidence
