"""Adapter that lets a kind of model learn a metric: fit to some rows, score on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gramian._typing import Float64Array, IntArray
from gramian.approximations.setup import FitSetup
from gramian.data.source import ArraySource, RowSource
from gramian.estimator.labelled import LabelledRows
from gramian.exact.exact import Exact
from gramian.kernels import Kernel
from gramian.metric.gradients import Differentiable, column_levels, gradient_rows
from gramian.metric.learning import LearnedMetric
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product

#: Largest number of held-out rows; training and held-out rows of a small fit that compares candidates.
MOST_HELD_OUT, SCREEN_ROWS, SCREEN_HELD_OUT = 4_000, 1_500, 2_000
#: Held-out predictions may leave the targets' range by this many times its width.
BEYOND = 3.0
#: Memory of a round from which metrics are compared by exact ridge fits, the quickest for few rows.
QUICK_BYTES = 175_000_000

#: From targets and values (n, outputs) to the loss of each row, (n,): the held-out error is their mean.
Losses: TypeAlias = Callable[[Float64Array, Float64Array], Float64Array]


def squared_errors(targets: Float64Array, values: Float64Array) -> Float64Array:
    """Return the squared error of each row, (n,), from (n, outputs)."""
    return np.asarray(((values - targets) ** 2).mean(axis=1))


@dataclass(frozen=True)
class FittedRound:
    """A model that a round has fitted."""

    fit: Any  #: what the next round may start from
    values: Callable[[RowSource], Float64Array]  #: f(x), shape (n, outputs)
    predictor: Any  #: what is differentiated, with its kernel
    kernel: Kernel
    losses: Losses = squared_errors
    bounded: bool = True  #: whether f stands for the targets: values far outside of their range are wrong


#: Fits the model of a round to rows in memory, by the setup of the rounds. Also takes ``fit`` of an earlier
#: round, or None, and whether it serves only to compare metrics, so that a quicker kind of model will do.
FitRound: TypeAlias = Callable[[LabelledRows[Any], FitSetup, Any, bool], FittedRound]


@dataclass(frozen=True)
class Attempt:
    """A model that was fitted under a metric, and its held-out error."""

    learner: EstimatorLearner
    fitted: FittedRound
    metric: Metric
    error: float
    fault: str

    def outer_product(self) -> Float64Array:
        """Return M, the average gradient outer product of x ↦ f(T(x)), at rows of the training part."""
        learner, fitted = self.learner, self.fitted
        part = learner.train.first(gradient_rows(learner.groups, learner.settings.gradient_rows))
        return outer_product(
            Differentiable(fitted.predictor, fitted.kernel, self.metric),
            part.rows,
            form=learner.settings.form,
            weights=part.weights,
            switched=learner.groups,
            levels=learner.levels,
            engine=learner.setup.run.engine,
        )


@dataclass(frozen=True)
class EstimatorLearner:
    """Fits models to ``train`` under one metric after another, scored on ``held_out``.

    Both are in memory and in random order.
    """

    fit_round: FitRound
    setup: FitSetup  #: the same for all rounds, so that metrics are compared on the same randomness
    train: LabelledRows[Any]
    held_out: LabelledRows[Any]
    settings: LearnedMetric

    def fit(self, metric: Metric, before: Attempt | None) -> Attempt:
        """Fit to the training part, in landmarks of its own, and score the fit."""
        return self._attempt(self.train, self.held_out, metric, None if before is None else before.fitted.fit)

    def screen(self, metric: Metric, before: Attempt) -> float:
        """Return the error of a fit to 1,500 rows on 2,000 held-out rows; infinite where it is at fault."""
        attempt = self._attempt(*self._small, metric, before.fitted.fit, quick=True)
        return attempt.error if np.isfinite(attempt.error) and not attempt.fault else np.inf

    def _attempt(
        self,
        train: LabelledRows[Any],
        held_out: LabelledRows[Any],
        metric: Metric,
        before: Any,
        *,
        quick: bool = False,
    ) -> Attempt:
        rows = ArraySource(metric.apply(train.rows))
        labelled = LabelledRows(rows, train.targets.part(None), train.weights)
        fitted = self.fit_round(labelled, self.setup, before, quick)
        values = fitted.values(ArraySource(metric.apply(held_out.rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            losses = fitted.losses(held_out.numbers, values)
            error = float(np.average(losses, weights=held_out.weights))
        fault = _fault(values, train.numbers, bounded=fitted.bounded)
        return Attempt(self, fitted, metric, error, fault)

    @cached_property
    def _small(self) -> tuple[LabelledRows[Any], LabelledRows[Any]]:
        return self.train.first(SCREEN_ROWS), self.held_out.first(SCREEN_HELD_OUT)

    @cached_property
    def covariance(self) -> Float64Array:
        """Weighted covariance of the training rows; its diagonal for a diagonal metric."""
        X, w = self.train.rows, self.train.weights
        share = np.full(X.shape[0], 1.0 / X.shape[0]) if w is None else w / w.sum()
        mean = np.asarray(share @ X, np.float64).ravel()
        if sp.issparse(X):
            X = X.astype(np.float64)
            if self.settings.form == "diagonal":
                return np.maximum(np.asarray(share @ X.multiply(X)).ravel() - mean**2, 0.0)
            weighted = X.multiply(share[:, None]).tocsr()
            return np.asarray((X.T @ weighted).toarray() - np.outer(mean, mean))
        centred = np.subtract(X, mean, dtype=np.float64)
        if self.settings.form == "diagonal":
            return np.einsum("i,ij,ij->j", share, centred, centred)
        return np.asarray(centred.T @ (share[:, None] * centred))

    @cached_property
    def levels(self) -> tuple[Float64Array, Float64Array]:
        """Least and largest value of each column of the training rows."""
        return column_levels(self.train.rows)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The groups that were given, and each other column that has two values."""
        given: tuple[tuple[int, ...], ...] = self.settings.switched
        known = {j for group in given for j in group}
        return given + tuple((int(j),) for j in self._two_valued() if int(j) not in known)

    def _two_valued(self) -> IntArray:
        low, high = self.levels
        X = self.train.rows
        if not sp.issparse(X):
            either = np.equal(X, low) | np.equal(X, high)
            return np.flatnonzero(either.all(axis=0) & (low < high))
        # Stored entries must equal the column's low or high value; implicit zeros count as one of them.
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


def compares_exactly(setup: FitSetup) -> bool:
    """Return whether the memory of a round is enough to compare metrics by exact ridge fits."""
    return setup.run.memory_bytes >= QUICK_BYTES


def without_exact(setup: FitSetup) -> FitSetup:
    """Return the setup with an approximation that is left to the plan in place of an exact solve."""
    chosen = setup.approximation
    if isinstance(chosen, Exact) or (isinstance(chosen, str) and chosen == "exact"):
        return replace(setup, approximation="auto")
    return setup
