"""Gradients with respect to the original features of a predictor that takes rows under a metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.metric.gradients import Gradients
from gramian.metric.metric import Metric


@dataclass(frozen=True)
class MappedGradients:
    """x ↦ f(T(x)) and its gradient T ∇f, by the chain rule. Time of ``inner`` and O(d r outputs) a row."""

    inner: Gradients
    metric: Metric

    def values(self, rows: Float64Array) -> Float64Array:
        """Return f(T(x)), shape (n, outputs)."""
        return self.inner.values(np.asarray(self.metric.apply(rows)))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        """Return the rows' numbers so that those which share work are neighbours."""
        return self.inner.order(self.metric.apply(rows), engine)

    def __call__(self, rows: Float64Array) -> Float64Array:
        """Return ∇_x f(T(x)), shape (n, d, outputs)."""
        found = self.inner(np.asarray(self.metric.apply(rows)))
        if self.metric.scales is not None:
            return found * self.metric.scales[:, None]
        matrix = self.metric.matrix
        assert matrix is not None
        return np.einsum("dr,nro->ndo", matrix, found, optimize=True)
