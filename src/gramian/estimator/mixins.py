"""Base classes of all classifiers and regressors: scikit-learn's, with a ``score`` that takes row sources.

Their methods ``explain`` and ``report`` know all kinds of models; ``gramian/__init__.py`` hands them down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from gramian._checks import refuse_masked
from gramian._typing import RowsLike
from gramian.data.column import StoredColumn, as_column
from gramian.data.distributed import is_elsewhere
from gramian.estimator.base import required_target
from gramian.estimator.labels import checked_weights, label_array
from gramian.estimator.summaries import MOST_CLASSES, Fact
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import listed
from gramian.summary import short


class Classifier(ClassifierMixin):
    """A classifier whose ``score`` can take labels from a row source."""

    _learns: tuple[str, ...] = ("classes_",)

    explain: ClassVar[Callable[..., Any]]
    report: ClassVar[Callable[..., Path]]

    def _class_facts(self) -> Sequence[Fact]:
        names = listed(self.classes_.tolist(), MOST_CLASSES, show=str)
        return (("classes", short(f"{len(self.classes_)}: {names}")),)

    def score(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on rows X with labels y (n,), by default those of a row source."""
        y = _given_target(self, X, y)
        array = np.asarray(as_column(y))
        labels = label_array(array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else y)
        weights = checked_weights(in_memory(sample_weight), len(labels))
        return float(accuracy_score(labels, in_memory(self.predict(X)), sample_weight=weights))


class Regressor(MultiOutputMixin, RegressorMixin):
    """A regressor whose ``score`` can take targets from a row source."""

    _learns: tuple[str, ...] = ("_flat",)  # whether y had one dimension

    explain: ClassVar[Callable[..., Any]]
    report: ClassVar[Callable[..., Path]]

    def score(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R² on rows X with targets y (n,) or (n, outputs), by default those of a row source."""
        y, predicted = _given_target(self, X, y), in_memory(self.predict(X))
        weights = checked_weights(in_memory(sample_weight), len(predicted))
        targets = NumberTargets(y, len(predicted)).values
        return float(r2_score(targets, predicted, sample_weight=weights))


def _given_target(estimator: BaseEstimator, X: RowsLike, y: ArrayLike | None) -> Any:
    """Return the targets to score by, in memory, as ``fit`` takes them; raise where there are none."""
    y = required_target(estimator, X, y)
    refuse_masked("y", y)
    return in_memory(y)


def in_memory(values: object) -> Any:
    """Return a stored column or a Dask collection as an array; anything else unchanged."""
    return np.asarray(values) if isinstance(values, StoredColumn) or is_elsewhere(values) else values
