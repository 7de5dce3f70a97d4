"""Labelled rows: a source of rows, their targets and their sample weights, kept together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gramian._typing import Array, IntArray
from gramian.data.source import RowSource
from gramian.data.taken import TakenRows
from gramian.estimator.targets import NumberTargets, TakenTargets

Labels = TypeVar("Labels", Array, NumberTargets)


@dataclass(frozen=True)
class LabelledRows(Generic[Labels]):
    """Rows with their targets and weights: None where every row has weight 1."""

    source: RowSource
    targets: Labels
    weights: Array | None = None

    def taken(self, numbers: IntArray) -> LabelledRows[Labels]:
        """Return the rows with these numbers, in this order; rows of the source are read when asked for."""
        targets = self.targets
        taken = TakenTargets(targets, numbers) if isinstance(targets, NumberTargets) else targets[numbers]
        weights = None if self.weights is None else self.weights[numbers]
        return LabelledRows(TakenRows(self.source, numbers), taken, weights)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def counted(self) -> IntArray:
        """Numbers of the rows whose weight is not 0."""
        return np.arange(self.n) if self.weights is None else np.flatnonzero(self.weights)

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(self.n if self.weights is None else self.weights.sum())
