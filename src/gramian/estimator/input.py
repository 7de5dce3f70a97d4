"""Input of an estimator: the scaler and the metric that rows pass before the kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from gramian._typing import Array, Float64Array
from gramian.data.mapped import map_rows
from gramian.data.scaled import Scaler, moments
from gramian.data.source import RowSource
from gramian.estimator.column_scales import warn_of_scales
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Attributes of a fitted estimator that hold its :class:`Input`.
INPUT = ("scaler_", "metric_", "metric_rounds_")


@dataclass(frozen=True)
class Input:
    """What a fit learned about its rows: a scaler and a metric, each None where there is none.

    An estimator has them as ``scaler_``, ``metric_`` and ``metric_rounds_``. ``rounds`` is None for a metric
    that was given, and empty where there were too few rows to learn one.
    """

    scaler: Scaler | None = None
    metric: Any = None
    rounds: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, model: BaseEstimator) -> Self:
        """Return the input of a fitted estimator."""
        return cls(*(getattr(model, name, None) for name in INPUT))

    def over(self, source: RowSource) -> RowSource:
        """Return rows as the kernel takes them, made from those of the source as they are read."""
        for found in (self.scaler, self.metric):
            source = source if found is None else map_rows(source, found)
        return source

    def prepared(self, rows: LabelledRows[Any]) -> LabelledRows[Any]:
        """Return labelled rows as the kernel takes them."""
        return replace(rows, source=self.over(rows.source))

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this input, by name."""
        found = dict(zip(INPUT, (self.scaler, self.metric, self.rounds), strict=True))
        return {name: value for name, value in found.items() if value is not None}


def scaled_input(
    kernel: KernelParameters,
    standardize: bool,
    source: RowSource,
    weights: Array | None = None,
    *,
    quiet: bool = False,
) -> Input:
    """Return the input of a fit without a metric: the scaler of its rows, where one is asked for.

    Else warn of columns of very different scales, unless the fit is ``quiet``: it looks for a lengthscale for
    each feature, or its landmarks are fixed.
    """
    if standardize:
        return Input(scaler_of(kernel, source, weights))
    if not quiet:
        warn_of_scales(source, kernel.resolve(source.shape[1]), weights)
    return Input()


def scaler_of(kernel: KernelParameters, source: RowSource, weights: Array | None = None) -> Scaler:
    """Return the scaler of the rows; raise for a matrix of kernel values."""
    if kernel.precomputed:
        raise InputError(
            "standardize=True scales the columns of rows; with kernel='precomputed' X has kernel "
            "values. Scale the rows before their kernel values are computed."
        )
    return Scaler.of(moments(source, weights))


def _feature_importances(model: BaseEstimator) -> Float64Array:
    """Share of each feature in the mean squared distance of two rows under ``metric_``, of sum 1."""
    # A stream whose rows wait chooses its metric here.
    found: Any = getattr(model, "metric_", None)
    if found is None:
        raise AttributeError(
            f"this {type(model).__name__} has no metric_, whose importances these are. Fit it with "
            "metric='diagonal'."
        )
    shares: Float64Array = found.importances
    return shares


#: The property of this name, of the estimators that have a metric.
feature_importances_ = property(_feature_importances)
