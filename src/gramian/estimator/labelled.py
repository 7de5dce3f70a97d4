"""Labelled rows: a source of rows, their targets and their sample weights, kept together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gramian._typing import Array, IntArray, Rows
from gramian.data.source import RowSource, SubsetRows, as_source
from gramian.estimator.labels import checked_weights, relative_weights
from gramian.estimator.targets import ClassTargets, NumberTargets

#: An array, a kind of :class:`~gramian.estimator.targets.Targets`, or what else gives numbers by slices.
Labels = TypeVar("Labels")


@dataclass(frozen=True)
class LabelledRows(Generic[Labels]):
    """Rows with their targets and weights: None where every row has weight 1."""

    source: RowSource
    targets: Labels
    weights: Array | None = None

    def taken(self, numbers: IntArray) -> LabelledRows[Any]:
        """Return the rows with these numbers, in this order; rows of the source are read when asked for."""
        targets: Any = self.targets
        kept = targets.taken(numbers) if isinstance(targets, NumberTargets) else targets.part(numbers)
        return LabelledRows(SubsetRows(self.source, numbers), kept, self._weights(numbers))

    def read(self, numbers: IntArray) -> LabelledRows[Any]:
        """Return the rows with these numbers, in this order, read into memory."""
        targets: Any = self.targets
        rows = as_source(self.source.take(numbers))
        return LabelledRows(rows, targets.part(numbers), self._weights(numbers))

    def first(self, count: int) -> LabelledRows[Any]:
        """Return the first ``count`` rows, or all where there are fewer."""
        targets: Any = self.targets
        n = min(count, self.n)
        rows = as_source(self.source.rows(slice(0, n)))
        return LabelledRows(rows, targets.part(np.arange(n)), self._weights(slice(0, n)))

    def relative(self) -> LabelledRows[Any]:
        """Return the rows with weights of mean 1, for fits that search for their penalty."""
        return replace(self, weights=relative_weights(self.weights))

    def _weights(self, which: slice | IntArray) -> Array | None:
        return None if self.weights is None else self.weights[which]

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def n_outputs(self) -> int:
        """Columns of the targets."""
        targets: Any = self.targets
        return int(targets.shape[1])

    @property
    def rows(self) -> Rows:
        """All rows, as one array."""
        return self.source.rows(slice(0, self.n))

    @property
    def numbers(self) -> Array:
        """All targets as numbers, shape (n, outputs)."""
        targets: Any = self.targets
        return np.asarray(targets[slice(0, self.n)])

    @property
    def counted(self) -> IntArray:
        """Numbers of the rows whose weight is not 0."""
        return np.arange(self.n) if self.weights is None else np.flatnonzero(self.weights)

    @property
    def all_weights(self) -> Array:
        """Weight of each row."""
        return np.ones(self.n) if self.weights is None else self.weights

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(self.n if self.weights is None else self.weights.sum())


def labelled_numbers(
    source: RowSource,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    classifier: str = "KernelRidgeClassifier",
    *,
    whole: bool = True,
) -> LabelledRows[NumberTargets]:
    """Return rows with real targets y (n,) or (n, outputs); raise for unusable targets or weights.

    An error about labels recommends ``classifier``. ``whole=False`` : the rows are a part of those of a fit,
    so that their targets may all be tiny.
    """
    targets = NumberTargets(y, source.shape[0], classifier=classifier)
    if whole:
        targets.refuse_tiny()
    return LabelledRows(source, targets, checked_weights(sample_weight, source.shape[0]))


def labelled_classes(
    source: RowSource,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    class_weight: object = None,
    classes: Array | None = None,
) -> LabelledRows[ClassTargets]:
    """Return rows with class labels y (n,), each weighted by its sample weight times its class's weight.

    ``classes`` names all classes where the rows may lack some.
    """
    targets = ClassTargets(y, source.shape[0], classes)
    return LabelledRows(source, targets, targets.weights(class_weight, sample_weight))
