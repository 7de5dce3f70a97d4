"""Choice of the rows that a Gaussian process learns from, in a fit and in rounds of metric learning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gramian._checks import whole_number
from gramian._typing import Array, Float64Array
from gramian.data.source import RowSource, as_source, sample_rows
from gramian.gp.posterior import Posterior
from gramian.kernels import Kernel
from gramian.metric.parameter import MetricEstimator

#: Rows that a round learns kernel and noise from.
ROUND_ROWS = 1_000


class GaussianProcessRounds(MetricEstimator):
    """What rounds of a metric ask of a Gaussian process: small fits, each from the kernel of the last."""

    ard: bool
    noise: float
    optimizer: Any
    learning_rows: int | None
    posterior_: Posterior
    kernel_: Kernel
    noise_: float
    _own_bandwidth = True

    def _train(self, source: RowSource, targets: Float64Array) -> Self:
        """Fit to normalised targets."""
        raise AssertionError("the estimator trains")

    def _mean(self, source: RowSource) -> Float64Array:
        """Return the mean of normalised targets."""
        raise AssertionError("the estimator predicts")

    def _fit_part(self, source: RowSource, targets: Any, weights: Array | None, before: Any = None) -> None:
        self._train(source, targets[slice(0, None)])

    def _values_of(self, source: RowSource) -> Float64Array:
        return self._mean(source)

    @property
    def _differentiated(self) -> tuple[Any, Kernel]:
        return self.posterior_.predictor, self.kernel_

    def _copy(self, before: Any, quick: bool) -> Any:
        made = super()._copy(before, quick)
        if made.learning_rows is None or made.learning_rows > ROUND_ROWS:
            made.learning_rows = ROUND_ROWS
        if before is not None:
            made.kernel, made.noise = before.kernel_, before.noise_
            made.gamma, made.kernel_params, made.ard = None, None, False
        if quick:
            made.optimizer = None
        return made

    def _count(self, n_rows: int) -> int:
        """Return how many rows are learned from."""
        if self.learning_rows is None:
            return n_rows
        return min(n_rows, whole_number("learning_rows", self.learning_rows, 2))

    def _drawn(
        self, source: RowSource, targets: Float64Array, rng: np.random.Generator
    ) -> tuple[RowSource, Float64Array]:
        """Return the rows that are learned from: these, or some of them."""
        count = self._count(source.shape[0])
        if count == source.shape[0]:
            return source, targets
        rows, numbers = sample_rows(source, count, rng)
        return as_source(rows), targets[numbers]
