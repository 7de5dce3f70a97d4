"""Adapter that lets an estimator learn a metric: fit to some rows, score on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Float64Array, IntArray
from gramian.data.source import ArraySource, RowSource
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.kernels import Kernel
from gramian.metric.differences import gradient_rows
from gramian.metric.metric import Metric
from gramian.metric.outer_product import Differentiable, outer_product

#: Rows that judge at most; rows and judges of a small fit, by which candidates are compared.
MOST_HELD_OUT, SCREEN_ROWS, SCREEN_HELD_OUT = 4_000, 1_500, 2_000
#: Held-out predictions may leave the targets' range by this many times its width.
BEYOND = 3.0


def squared_errors(targets: Float64Array, values: Float64Array) -> Float64Array:
    """Return the squared error of each row, (n,), from (n, outputs)."""
    return np.asarray(((values - targets) ** 2).mean(axis=1))


@dataclass(frozen=True)
class RoundModel:
    """An unfitted model for a round, and what the round asks of it: how it is fitted, used and judged."""

    model: Any
    fit: Callable[[LabelledRows[Any]], object]  #: fit the model to rows in memory
    values: Callable[[RowSource], Float64Array]  #: f of the fitted model, shape (n, outputs)
    gradients_of: Callable[[], tuple[Any, Kernel]]  #: predictor and kernel that are differentiated
    #: From targets and values (n, outputs) to the loss of each row, (n,): the held-out error is their mean.
    losses: Callable[[Float64Array, Float64Array], Float64Array] = squared_errors
    #: Whether f stands for the targets, so that values far outside of their range are wrong.
    bounded: bool = True


#: From the fitted model of an earlier round (or None), and whether it serves only to compare metrics, so that
#: a quicker model of another kind will do, to the trial of a round.
MakeRoundModel = Callable[[Any, bool], RoundModel]


@dataclass(frozen=True)
class Attempt:
    """A trial that was fitted under a metric, and its judgement."""

    learner: EstimatorLearner
    trial: RoundModel
    metric: Metric
    error: float
    fault: str

    def outer_product(self) -> Float64Array:
        """Return M at rows of the training part, by the features as they were."""
        return self.learner.gradients(self.trial, self.metric)


@dataclass(frozen=True)
class EstimatorLearner:
    """Fits copies of an estimator to ``train`` under one metric after another, judged on ``held_out``.

    Both are in memory and in random order. All trials draw from the same seed, so that they are compared on
    the same randomness. ``switched``: groups of columns beside those of two values, which are found.
    """

    trials: MakeRoundModel
    train: LabelledRows[Any]
    held_out: LabelledRows[Any]
    engine: Engine
    form: str
    gradient_rows: int
    switched: tuple[Any, ...] = ()

    def fit(self, metric: Metric, before: Any) -> Attempt:
        """Fit to the training part, in landmarks of its own, and judge."""
        return self._attempt(
            self.train, self.held_out, metric, None if before is None else before.trial.model
        )

    def screen(self, metric: Metric, before: Any) -> float:
        """Return the error of a fit to 1,500 rows on 2,000 held-out rows; infinite where it is at fault."""
        attempt = self._attempt(*self._small, metric, before.trial.model, quick=True)
        return attempt.error if np.isfinite(attempt.error) and not attempt.fault else np.inf

    def gradients(self, trial: RoundModel, metric: Metric) -> Float64Array:
        """Return the average gradient outer product of x ↦ f(T(x)) at rows of the training part."""
        part = self.train.first(gradient_rows(self._groups, self.gradient_rows))
        predictor, kernel = trial.gradients_of()
        return outer_product(
            Differentiable(predictor, kernel, metric),
            part.rows,
            form=self.form,
            weights=part.weights,
            switched=self._groups,
            levels=self._levels,
            engine=self.engine,
        )

    def _attempt(
        self,
        train: LabelledRows[Any],
        held_out: LabelledRows[Any],
        metric: Metric,
        before: Any,
        *,
        quick: bool = False,
    ) -> Attempt:
        trial = self.trials(before, quick)
        fitted = ArraySource(metric.apply(train.rows))
        trial.fit(LabelledRows(fitted, train.targets.part(None), train.weights))
        values = trial.values(ArraySource(metric.apply(held_out.rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            losses = trial.losses(held_out.numbers, values)
            error = float(np.average(losses, weights=held_out.weights))
        fault = _fault(values, train.numbers, bounded=trial.bounded)
        return Attempt(self, trial, metric, error, fault)

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
