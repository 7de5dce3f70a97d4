"""Training set of a fast model: rows, the values to learn, and the teacher who gave them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.fast.learning.loss import WeightedTargets
from gramian.fast.learning.metric import Teacher


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows (n, d), target values (n, outputs), weights, and the teacher if there is one.

    low, high : bounds that the values were clipped to; None for regression.
    """

    rows: Array
    values: Array
    weights: Array
    teacher: Teacher | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(
        cls,
        rows: Array,
        values: Float64Array,
        weights: Array | None,
        bounds: tuple[float | None, float | None] = (None, None),
    ) -> TrainingSet:
        """Return labelled rows, in float64."""
        weights = np.ones(len(rows)) if weights is None else weights
        return cls(rows.astype(np.float64), values, weights, None, *bounds)

    def some(self, mine: IntArray | slice) -> TrainingSet:
        """Return the training set of some of the rows."""
        return replace(self, rows=self.rows[mine], values=self.values[mine], weights=self.weights[mine])

    def with_unlabelled(self, rows: Float64Array | None) -> TrainingSet:
        """Return the training set with rows of the teacher's values and the mean weight, if there is one."""
        if rows is None or self.teacher is None:
            return self
        weights = np.full(len(rows), self.weights.mean())
        return together([self, replace(self, rows=rows, values=self.asked(rows), weights=weights)])

    def targets(self, which: slice | IntArray = slice(None)) -> WeightedTargets:
        """Return the values of some rows with their weights and bounds."""
        return WeightedTargets(self.values[which], self.weights[which], self.low, self.high)

    def left(self, outputs: Float64Array) -> float:
        """Return the loss Σ_i w_i ‖t_i − f_i‖² of outputs f, clipped to the same bounds as the targets t.

        Clipping bounds the loss of an output by (high − low)², however far off it is.
        """
        if self.low is not None or self.high is not None:
            outputs = np.clip(outputs, self.low, self.high)
        return float(self.weights @ np.square(self.values - outputs).sum(axis=1))

    def asked(self, rows: Float64Array) -> Float64Array:
        """Return the teacher's values at the rows, clipped to the bounds."""
        assert self.teacher is not None
        values = self.teacher(rows)
        return values if self.low is None or self.high is None else np.clip(values, self.low, self.high)


def together(parts: list[TrainingSet]) -> TrainingSet:
    """Return one training set with the rows of several, which have the teacher of the first."""
    if len(parts) == 1:
        return parts[0]
    rows, values, weights = (
        np.concatenate(arrays)
        for arrays in zip(*((part.rows, part.values, part.weights) for part in parts), strict=True)
    )
    return replace(parts[0], rows=rows, values=values, weights=weights)
