"""Rounds that refine a table model's metric: small models of many rows, scored on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian._typing import Float64Array, Rows
from gramian.engine import Engine
from gramian.metric.gradients import Differentiable, gradient_rows
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product
from gramian.ridge.model import KernelModel
from gramian.tables.training.time import Pace

#: Largest number of rows at which gradients are taken. Chosen by hand.
GRADIENT_ROWS = 2_000


@dataclass(frozen=True)
class Rounds:
    """Input of :func:`gramian.metric.learning.learn_metric`: how to fit, judge and differentiate a model.

    fit_model : from a metric to a ridge model; judge : from a model to its held-out error; rows : the
    fitted rows in random order; form : form of the metric; switched : groups of columns whose values are
    switched in place of a derivative; pace : remaining time of the rounds, updated by their fits; enough :
    error at which no further model is needed; engine : threads of the gradients.
    """

    fit_model: Callable[[Metric], KernelModel]
    judge: Callable[[KernelModel], float]
    rows: Rows
    form: str
    switched: tuple[tuple[int, ...], ...]
    pace: Pace
    enough: float
    engine: Engine

    @cached_property
    def covariance(self) -> Float64Array:
        """Covariance of the rows, or its diagonal."""
        rows = np.asarray(self.rows, np.float64)
        if self.form == "diagonal":
            return np.asarray(rows.var(axis=0))
        rows = rows - rows.mean(axis=0)
        return np.asarray(rows.T @ rows / len(rows))

    def fit(self, metric: Metric, before: object) -> _Fitted:
        """Fit a new model under a metric."""
        model = self.fit_model(metric)
        self.pace.note(model.plan)
        return _Fitted(self, model, self.judge(model))

    def screen(self, metric: Metric, before: object) -> float:
        """Return the held-out error of a model under a metric."""
        return self.judge(self.fit_model(metric))

    @cached_property
    def gradient_rows(self) -> Float64Array:
        """Rows at which gradients are taken."""
        count = gradient_rows(self.switched, GRADIENT_ROWS)
        return np.asarray(self.rows[:count], np.float64)

    @cached_property
    def levels(self) -> tuple[Float64Array, Float64Array]:
        """Smallest and largest value of each column."""
        rows = np.asarray(self.rows)
        return rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)


@dataclass(frozen=True)
class _Fitted:
    rounds: Rounds
    model: KernelModel
    error: float
    fault: str = ""

    def outer_product(self) -> Float64Array:
        """Return the average gradient outer product; zeros, which end the rounds, if no more are needed."""
        rounds = self.rounds
        if rounds.pace.over or self.error <= rounds.enough:
            d = rounds.gradient_rows.shape[1]
            return np.zeros((d, d) if rounds.form == "full" else d)
        model = self.model
        kernel = getattr(model.predictor, "kernel", model.kernel)
        return outer_product(
            Differentiable(model.predictor, kernel, model.input.metric),
            rounds.gradient_rows,
            form=rounds.form,
            switched=rounds.switched,
            levels=rounds.levels,
            engine=rounds.engine,
            until=rounds.pace.until,
        )
