"""The first steps of a fit, a plan or an answer: rows, targets and weights from what the user passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from gramian._typing import RowsLike
from gramian.compression.plan import Plan
from gramian.data.distributed import Cluster, cluster_of
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing
from gramian.estimator.targets import ClassTargets, NumberTargets


def opened(
    X: Any, y: Any, sample_weight: Any, *, engine: Cluster | None, labels: bool
) -> tuple[Any, Any, Any]:
    """Return rows, targets and weights, collections of a cluster among them as sources and columns."""
    cluster = cluster_of(X, engine)
    if cluster is None:
        return X, y, sample_weight
    return cluster.rows(X), cluster.column(y, flat=labels), cluster.column(sample_weight)


def read_rows(model: KernelEstimator, X: Any, *, reset: bool = False) -> RowSource:
    """Return the rows of X, checked against those of the fit, or with ``reset`` as those of a new fit."""
    found: RowSource = model._rows(X, reset=reset)
    return found


def fit_rows(
    model: KernelEstimator, X: RowsLike, y: ArrayLike, *, engine: Cluster | None = None, reset: bool = True
) -> RowSource:
    """Return the checked rows of a fit, over the machines of a cluster where there is one.

    ``reset=False``: the rows are added to earlier ones and must have the same features.
    """
    required_target(model, y)
    source = read_rows(model, X, reset=reset)
    cluster = cluster_of(X, engine)
    return source if cluster is None else cluster.over(source)


def plan_fit(
    model: KernelEstimator, X: RowsLike, y: ArrayLike | None, make: Callable[[RowSource, int], Plan]
) -> Plan:
    """Return ``make(rows, number of outputs)``; y may be None, for one output. The model stays as it is."""
    with all_or_nothing(model, keep=False):
        source = read_rows(model, X, reset=True)
        kind = ClassTargets if is_classifier(model) else NumberTargets
        return make(source, 1 if y is None else kind(y, source.shape[0]).shape[1])
