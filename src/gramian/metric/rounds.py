"""Rounds of learning a metric: what a round asks for, the model that it fits, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._phases import silent
from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.data.source import RowSource
from gramian.estimator.labelled import LabelledRows
from gramian.exact.exact import Exact
from gramian.kernels import Kernel

#: Memory budget from which metrics are compared by exact ridge fits, the quickest for few rows.
QUICK_BYTES = 200_000_000


def squared_errors(targets: Float64Array, values: Float64Array) -> Float64Array:
    """Return the squared error of each row, (n,), from (n, outputs)."""
    return np.asarray(((values - targets) ** 2).mean(axis=1))


@dataclass(frozen=True)
class RoundSetup:
    """What every model of a round is told: where it starts, and what it may use."""

    before: Any  #: ``fit`` of the :class:`FittedRound` of an earlier round; None in the first
    quick: bool  #: whether it serves only to compare metrics, so that a quicker model of another kind will do
    seed: int  #: the same for all rounds, so that metrics are compared on the same randomness
    memory_bytes: int  #: what the rows of the rounds leave of the memory budget

    def applied(self, setup: FitSetup) -> FitSetup:
        """Return a fit's setup with the seed and memory of the rounds.

        An exact solve becomes "auto": the rounds need a metric, not the last digits.
        """
        return replace(
            without_exact(setup),
            run=replace(setup.run, memory_bytes=self.memory_bytes, random_state=self.seed, phases=silent),
        )


@dataclass(frozen=True)
class FittedRound:
    """A model that a round has fitted."""

    fit: Any  #: what the next round may start from
    values: Callable[[RowSource], Float64Array]  #: f(x), shape (n, outputs)
    predictor: Any  #: what is differentiated, with its kernel
    kernel: Kernel


@dataclass(frozen=True)
class RoundModel:
    """An unfitted model for a round: how it is fitted to rows in memory, and judged."""

    fit: Callable[[LabelledRows[Any]], FittedRound]
    #: From targets and values (n, outputs) to the loss of each row, (n,): the held-out error is their mean.
    losses: Callable[[Float64Array, Float64Array], Float64Array] = squared_errors
    #: Whether f stands for the targets, so that values far outside of their range are wrong.
    bounded: bool = True


#: Returns the model of a round.
MakeRoundModel = Callable[[RoundSetup], RoundModel]


def compares_exactly(memory_bytes: int) -> bool:
    """Return whether the memory budget is enough to compare metrics by exact ridge fits."""
    return memory_bytes >= QUICK_BYTES


def without_exact(setup: FitSetup) -> FitSetup:
    """Return the setup with an approximation that is left to the plan in place of an exact solve."""
    chosen = setup.approximation
    if isinstance(chosen, Exact) or (isinstance(chosen, str) and chosen == "exact"):
        return replace(setup, approximation="auto")
    return setup
