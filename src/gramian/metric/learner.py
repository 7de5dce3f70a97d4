"""Adapter that lets an estimator learn a metric: fit to some rows, score on others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.data.source import ArraySource, RowSource
from gramian.engine import Engine
from gramian.estimator.targets import Targets
from gramian.kernels import Kernel
from gramian.metric.differences import gradient_rows
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product

#: Rows that judge at most; rows and judges of a small fit, by which candidates are compared.
MOST_HELD_OUT, SCREEN_ROWS, SCREEN_HELD_OUT = 4_000, 1_500, 2_000
#: Held-out predictions may leave the targets' range by this many times its width.
BEYOND = 3.0


class Trial(Protocol):
    """What an estimator lets the rounds do with a copy of it."""

    def _fit_part(
        self, source: RowSource, targets: Targets, weights: Array | None, before: Any = None
    ) -> None:
        """Fit to rows in memory."""

    def _values_of(self, source: RowSource) -> Float64Array:
        """Return f, shape (n, outputs)."""

    def _losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return the loss of each row, (n,): what the held-out error is the mean of."""

    @property
    def _bounded(self) -> bool:
        """Whether f stands for the targets, so that values far outside of their range are wrong."""

    @property
    def _differentiated(self) -> tuple[Any, Kernel]:
        """Predictor and kernel that gradients are taken of."""

    def _engine(self) -> Engine: ...


@dataclass(frozen=True)
class Part:
    """Rows in memory, with targets and weights."""

    rows: Rows
    targets: Targets
    weights: Array | None

    def first(self, count: int) -> Part:
        """Return the first rows (they are in random order)."""
        n = min(count, self.rows.shape[0])
        weights = None if self.weights is None else self.weights[:n]
        return Part(self.rows[:n], self.targets.part(np.arange(n)), weights)

    @property
    def y(self) -> Float64Array:
        """The targets as numbers, shape (n, outputs)."""
        return self.targets[slice(0, self.rows.shape[0])]


def drawn(
    source: RowSource,
    targets: Targets,
    weights: Array | None,
    numbers: IntArray,
) -> Part:
    """Return some rows of a source, read into memory."""
    return Part(source.take(numbers), targets.part(numbers), None if weights is None else weights[numbers])


@dataclass(frozen=True)
class Attempt:
    """A trial that was fitted under a metric, and its judgement."""

    learner: EstimatorLearner
    trial: Any
    metric: Metric
    error: float
    fault: str

    def outer_product(self) -> Float64Array:
        """Return M at rows of the training part, by the features as they were."""
        return self.learner.gradients(self.trial, self.metric)


@dataclass(frozen=True)
class EstimatorLearner:
    """Fits copies of an estimator to ``train`` under one metric after another, judged on ``held_out``.

    ``make`` returns a copy that is not fitted; all copies draw from the same seed, so that they are compared
    on the same randomness. ``switched``: groups of columns beside those of two values, which are found.
    """

    make: Any
    train: Part
    held_out: Part
    form: str
    gradient_rows: int
    switched: tuple[Any, ...] = ()

    def fit(self, metric: Metric, before: Any) -> Attempt:
        """Fit to the training part, in landmarks of its own, and judge."""
        return self._attempt(self.train, self.held_out, metric, None if before is None else before.trial)

    def screen(self, metric: Metric, before: Any) -> float:
        """Return the error of a fit to 1,500 rows on 2,000 held-out rows; infinite where it is at fault."""
        attempt = self._attempt(*self._small, metric, before.trial, quick=True)
        return attempt.error if np.isfinite(attempt.error) and not attempt.fault else np.inf

    def gradients(self, trial: Trial, metric: Metric) -> Float64Array:
        """Return the average gradient outer product of x ↦ f(T(x)) at rows of the training part."""
        part = self.train.first(gradient_rows(self._groups, self.gradient_rows))
        predictor, kernel = trial._differentiated
        return outer_product(
            predictor,
            part.rows,
            kernel=kernel,
            form=self.form,
            weights=part.weights,
            switched=self._groups,
            levels=self._levels,
            metric=metric,
            engine=trial._engine(),
        )

    def _attempt(
        self, train: Part, held_out: Part, metric: Metric, before: Any, *, quick: bool = False
    ) -> Attempt:
        trial = self.make(before, quick)
        trial._fit_part(
            ArraySource(metric.apply(train.rows)), train.targets.part(None), train.weights, before
        )
        values = trial._values_of(ArraySource(metric.apply(held_out.rows)))
        y = held_out.y
        with np.errstate(over="ignore", invalid="ignore"):
            losses = trial._losses(y, values)
            error = float(np.average(losses, weights=held_out.weights))
        return Attempt(self, trial, metric, error, _fault(values, train.y, bounded=trial._bounded))

    @cached_property
    def _small(self) -> tuple[Part, Part]:
        return self.train.first(SCREEN_ROWS), self.held_out.first(SCREEN_HELD_OUT)

    @cached_property
    def covariance(self) -> Float64Array:
        """Weighted covariance of the training rows; its diagonal for a diagonal metric."""
        X, w = self.train.rows, self.train.weights
        share = np.full(X.shape[0], 1.0 / X.shape[0]) if w is None else w / w.sum()
        mean = np.asarray(share @ X, np.float64).ravel()
        if sp.issparse(X):
            X = X.astype(np.float64)
            if self.form == "diagonal":
                return np.maximum(np.asarray(share @ X.multiply(X)).ravel() - mean**2, 0.0)
            weighted = X.multiply(share[:, None]).tocsr()
            return np.asarray((X.T @ weighted).toarray() - np.outer(mean, mean))
        centred = np.subtract(X, mean, dtype=np.float64)
        if self.form == "diagonal":
            return np.einsum("i,ij,ij->j", share, centred, centred)
        return np.asarray(centred.T @ (share[:, None] * centred))

    @cached_property
    def _levels(self) -> tuple[Float64Array, Float64Array]:
        """Least and largest value of each column."""
        found = []
        for name in ("min", "max"):
            values = getattr(self.train.rows, name)(axis=0)
            values = values.toarray() if hasattr(values, "toarray") else values
            found.append(np.asarray(values, np.float64).ravel())
        return found[0], found[1]

    @cached_property
    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """The groups that were given, and each other column that has two values."""
        given = tuple(tuple(int(j) for j in group) for group in self.switched)
        known = {j for group in given for j in group}
        return given + tuple((int(j),) for j in self._two_valued() if int(j) not in known)

    def _two_valued(self) -> IntArray:
        low, high = self._levels
        X = self.train.rows
        if not sp.issparse(X):
            either = np.equal(X, low) | np.equal(X, high)
            return np.flatnonzero(either.all(axis=0) & (low < high))
        # What is stored is either of the two; what is not is 0, which is one of them where they differ.
        column = X.indices
        other = (X.data != low[column]) & (X.data != high[column])
        between = np.bincount(column[other], minlength=X.shape[1]) > 0
        holes = np.bincount(column, minlength=X.shape[1]) < X.shape[0]
        return np.flatnonzero(~between & (low < high) & (~holes | (low == 0) | (high == 0)))


def _fault(values: Float64Array, y: Float64Array, *, bounded: bool) -> str:
    """Return what is wrong with held-out predictions, or ""."""
    if not np.isfinite(values).all():
        return "held-out predictions are not finite"
    if not bounded:
        return ""
    low, high = y.min(axis=0), y.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    beyond = float(np.max(np.maximum(low - values, values - high) / width))
    if beyond > BEYOND:
        return f"held-out predictions leave the targets' range by {beyond:.2g} times its width"
    return ""
