"""First rows of a stream, kept until there are enough to choose scale, metric and landmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, Rows
from gramian.data.source import as_source
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets, NumberTargets

#: Rows of positive weight after which scaler, metric and landmarks of a stream are chosen. With fewer rows
#: ``"auto"`` would take every row as a landmark.
FIRST_ROWS = 2_000
#: Fraction of the memory budget that waiting rows may take; when they exceed it they wait no longer.
WAITING_PART = 1 / 16


def enough(n_rows: int, weights: Array | None, nbytes: int, memory_budget: int) -> bool:
    """Return whether rows are enough to choose from, or take too much memory to wait."""
    counted = n_rows if weights is None else int(np.count_nonzero(weights))
    return counted >= FIRST_ROWS or nbytes > WAITING_PART * memory_budget


@dataclass(frozen=True)
class Waiting:
    """Copies of the rows so far, with their targets and weights."""

    rows: Rows
    y: Array  #: numbers (n, outputs), or labels (n,)
    weights: Float64Array | None = None
    classes: Array | None = None  #: of labels, all that will come

    @classmethod
    def of(cls, rows: LabelledRows[Any]) -> Self:
        """Return copies of labelled rows."""
        read, targets = rows.rows, rows.targets
        labels = isinstance(targets, ClassTargets)
        y = targets.classes[targets.codes(slice(0, rows.n))] if labels else np.array(rows.numbers)
        return cls(
            read.copy() if sp.issparse(read) else np.array(read),
            np.asarray(y),
            None if rows.weights is None else np.array(rows.weights, np.float64),
            targets.classes if labels else None,
        )

    @property
    def labelled(self) -> LabelledRows[Any]:
        """The rows, with their targets and weights."""
        n, classes = self.n_rows, self.classes
        targets = NumberTargets(self.y, n) if classes is None else ClassTargets(self.y, n, classes)
        return LabelledRows(as_source(self.rows), targets, self.weights)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return int(self.rows.shape[0])

    @property
    def all_weights(self) -> Float64Array:
        """Weight of each row."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    @property
    def nbytes(self) -> int:
        """Bytes of rows, targets and weights."""
        rows: Any = self.rows
        parts = [rows.data, rows.indices, rows.indptr] if sp.issparse(self.rows) else [rows]
        parts += [self.y] if self.weights is None else [self.y, self.weights]
        return sum(int(part.nbytes) for part in parts)

    def enough(self, memory_budget: int) -> bool:
        """Return whether the map of the stream is to be chosen from these rows now."""
        return enough(self.n_rows, self.weights, self.nbytes, memory_budget)

    def joined(self, other: Waiting) -> Waiting:
        """Return these rows followed by others, as CSR if either is sparse."""
        rows: Any = (self.rows, other.rows)
        stacked: Any
        if sp.issparse(rows[0]) or sp.issparse(rows[1]):
            stacked = sp.vstack([sp.csr_array(part) for part in rows], format="csr")
        else:
            stacked = np.concatenate(rows)
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([self.all_weights, other.all_weights])
        return Waiting(stacked, np.concatenate([self.y, other.y]), weights, self.classes)

    def fade(self, factor: float) -> Waiting:
        """Return the rows with ``factor`` times their weight."""
        return replace(self, weights=self.all_weights * factor)
