"""Input of an estimator: the scaler and the metric that rows pass before the kernel; unlike scales."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array, Rows
from gramian.data.mapped import map_rows
from gramian.data.scaled import Scaler, moments
from gramian.data.source import RowSource
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError, user_level
from gramian.kernels.base import Kernel
from gramian.kernels.columns import float_type

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Attributes of a fitted estimator that hold its :class:`Input`.
INPUT = ("scaler_", "metric_", "metric_rounds_")
#: Factor between two columns' scales from which a warning is due: the smaller column then changes squared
#: distances by a millionth. By hand.
FACTOR = 1_000.0
#: Rows that are looked at, in as many parts of the source, and numbers of them at most. By hand.
ROWS, PARTS, NUMBERS = 1_024, 4, 1 << 18
#: What to do where the estimator can scale its columns.
STANDARDIZE = "Pass standardize=True, or scale the columns first, for example by a StandardScaler."
SCALE_FIRST = "Scale the columns first, for example by a StandardScaler in a pipeline."


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
        for step in (self.scaler, self.metric):
            source = source if step is None else map_rows(source, step)
        return source

    def prepared(self, rows: LabelledRows[Any]) -> LabelledRows[Any]:
        """Return labelled rows as the kernel takes them."""
        return replace(rows, source=self.over(rows.source))

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this input, by name."""
        learned = dict(zip(INPUT, (self.scaler, self.metric, self.rounds), strict=True))
        return {name: value for name, value in learned.items() if value is not None}


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
    metric: Any = getattr(model, "metric_", None)
    if metric is None:
        raise AttributeError(
            f"this {type(model).__name__} has no metric_, whose importances these are. Fit it with "
            "metric='diagonal'."
        )
    shares: Float64Array = metric.importances
    return shares


#: The property of this name, of the estimators that have a metric.
feature_importances_ = property(_feature_importances)


def warn_of_scales(
    source: RowSource, kernel: Kernel, weights: Array | None = None, cure: str = STANDARDIZE
) -> None:
    """Warn if columns differ in scale by :data:`FACTOR` or more, and the kernel has one bandwidth for them.

    Looks at some rows of weight above 0, and not at sparse rows, whose columns differ by how rare they are.
    Time O(d), memory 2 MB.
    """
    n, d = source.shape
    if not kernel.one_bandwidth or d < 2 or n < 2:
        return
    first = source.rows(slice(0, 1))
    if sp.issparse(first):
        return
    scales = column_scales(_some_rows(source, first, weights))
    varying = np.flatnonzero(scales > 0.0)
    if len(varying) < 2:
        return
    low, high = (int(varying[pick(scales[varying])]) for pick in (np.argmin, np.argmax))
    # A ratio could overflow.
    if scales[low] > scales[high] / FACTOR:
        return
    names = getattr(source, "feature_names", None)
    small, large = (repr(names[j]) if names else f"{j} (from 0)" for j in (low, high))
    warnings.warn(
        f"Columns {large} and {small} of X differ in scale by a factor of {scales[high] / scales[low]:.2g} "
        f"(they vary by {scales[high]:.2g} and {scales[low]:.2g}), but one bandwidth serves all columns: "
        f"distances hardly depend on column {small}. {cure}",
        UserWarning,
        stacklevel=user_level(),
    )


def column_scales(rows: Rows) -> Float64Array:
    """Return how much each column varies: its interquartile range, or where that is 0 its range.

    A constant column has scale 0, and so has one that varies by its rounding only.

    >>> column_scales(np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 5.0], [0.0, 3.0, 5.0], [9.0, 4.0, 5.0]]))
    array([2.25, 1.5 , 0.  ])
    """
    rounding = 16.0 * unit_roundoff(float_type(rows))
    bottom, low, high, top = np.percentile(np.asarray(rows, np.float64), [0, 25, 75, 100], axis=0)
    scales = np.where(high > low, high - low, top - bottom)
    return np.where(scales > rounding * np.maximum(np.abs(top), np.abs(bottom)), scales, 0.0)


def _some_rows(source: RowSource, first: Rows, weights: Array | None) -> Rows:
    """Return dense rows of weight above 0 from evenly spaced parts of a source."""
    n, d = source.shape
    count = int(np.clip(NUMBERS // d, 2, ROWS))
    if n <= count:
        numbers = np.arange(n)
    else:
        size = max(1, count // PARTS)
        starts = np.linspace(0, n - size, min(PARTS, count)).astype(np.intp)
        numbers = np.add.outer(starts, np.arange(size)).ravel()
    if weights is not None:
        numbers = numbers[weights[numbers] > 0]
    return source.take(numbers) if len(numbers) else first
