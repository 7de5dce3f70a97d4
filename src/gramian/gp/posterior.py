r"""Posterior of a Gaussian process on nested bases: mean, variance, covariance, samples.

The prior is f(x) = φ(x)ᵀw + e(x) with the features φ on x's path, weights w ~ N(0, I), and a residual process
e of variance D(x) = k(x, x) − ‖φ(x)‖². Given the training rows, w ~ N(β, S⁻¹); they tell nothing about e at
any other row. With S = L Lᵀ, f(x) has

    mean φ(x)ᵀβ,   variance ‖L⁻¹φ(x)‖² + D(x).

Far from landmarks and data the variance is k(x, x), that of the prior. Between two predicted rows of the same
leaf, e has covariance k(x, y) − φ(x)ᵀφ(y); between leaves it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian._numerics import descending_eigh
from gramian._tiles import blas_for
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import UNIT_ROWS, Unit
from gramian.compression.predictor import Predictor, fold
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.prior import residual_diagonal
from gramian.solvers.arrowhead import PathFactor


@dataclass(frozen=True)
class Posterior:
    """Posterior N(β, S⁻¹) of the features' weights, and mean and variance of f that may be other ones.

    ``mean`` is the exact one, from the kernel matrix of all rows; ``near`` gives the variance, and the mean
    where there is no exact one, from the nearest rows. Their size grows with the rows, that of the rest does
    not. Covariances then have the correlations of the features.
    """

    features: FeatureMap
    factor: PathFactor
    beta: tuple[Float64Array, ...]
    mean: ExactPredictor | None = None
    near: NeighbourPosterior | None = None

    @property
    def n_outputs(self) -> int:
        """Number of outputs, which share the kernel."""
        return int(self.beta[0].shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of bases, factor and coefficients, and of the rows of an exact mean."""
        own = self.features.nbytes + self.factor.nbytes + sum(b.nbytes for b in self.beta)
        own += 0 if self.near is None else self.near.nbytes
        return own + (0 if self.mean is None else self.mean.model_bytes)

    @cached_property
    def predictor(self) -> Predictor | ExactPredictor | NeighbourPosterior:
        """Predictor of the mean: kernel rows times weights, or the nearest rows."""
        return self.smooth if self.near is None or self.mean is not None else self.near

    @property
    def smooth(self) -> Predictor | ExactPredictor:
        """Predictor that has a gradient: the exact mean or φ(x)ᵀβ, since neighbours jump."""
        return fold(self.features, self.beta) if self.mean is None else self.mean

    def __reduce__(self) -> tuple[type[Posterior], tuple[object, ...]]:
        # The predictor's weights are computed again on demand.
        return Posterior, (self.features, self.factor, self.beta, self.mean, self.near)

    def __call__(self, X: Rows, engine: Engine) -> Float64Array:
        """Return the mean, shape (n, outputs), from kernel rows alone. Time O(n (route + m d))."""
        return self.predictor.chunk(X, engine)

    def moments(
        self, source: RowSource, *, chunk_rows: int, engine: Engine
    ) -> Iterator[tuple[slice, Float64Array]]:
        """Yield (rows, mean and, last, variance of f), (rows, outputs + 1), chunk by chunk.

        A row's neighbours, which give both, are solved for once.
        """
        for where, rows in row_blocks(source, chunk_rows):
            mean, variance = self._moments(rows, engine)
            yield where, np.column_stack([mean, variance])

    def mean_and_factor(self, rows: Rows, engine: Engine) -> tuple[Float64Array, Float64Array]:
        """Return the mean, and the factor on deviations of the features' posterior that gives those of f."""
        if self.near is None:
            return np.asarray(self.smooth.chunk(rows, engine), np.float64), np.ones(rows.shape[0])
        mean, variance = self._moments(rows, engine)
        return mean, self._factor(variance, self._own_variance(rows, engine))

    def _moments(self, rows: Rows, engine: Engine) -> tuple[Float64Array, Float64Array]:
        if self.near is not None:
            mean, variance = self.near.moments(rows, engine)
            variance = np.maximum(variance - self.near.noise, 0.0)
        else:
            variance = self._own_variance(rows, engine)
        if self.near is None or self.mean is not None:
            mean = np.asarray(self.smooth.chunk(rows, engine), np.float64)
        return mean, variance

    def _factor(self, variance: Float64Array, own: Float64Array) -> Float64Array:
        """Return √(variance/own), 0 where the features leave no variance."""
        return np.sqrt(np.divide(variance, own, out=np.zeros_like(own), where=own > 0))

    def _own_variance(self, rows: Rows, engine: Engine) -> Float64Array:
        out = np.empty(rows.shape[0])
        with self.units(rows, engine) as units:
            for unit, (F, X) in units:
                left = residual_diagonal(self.features.kernel, X, F)
                self._whiten(F, unit)
                out[unit.rows] = left + np.einsum("ij,ij->i", F, F)
        return out

    def covariance(self, X: Rows, engine: Engine) -> Float64Array:
        """Return the covariance of f at the rows, shape (n, n). Time O(n² R), memory O(n² + n R)."""
        out = np.zeros((X.shape[0], X.shape[0]))
        wide = np.zeros((X.shape[0], self.features.rank))
        with self.units(X, engine, unit_rows=X.shape[0]) as units:
            for unit, (F, rows) in units:
                self._add_residual(out, unit, F, rows)
                self._whiten(F, unit)
                self._spread(wide, unit, F)
        out += wide @ wide.T
        if self.near is not None:
            variance = np.maximum(self.near.moments(X, engine)[1] - self.near.noise, 0.0)
            factor = self._factor(variance, np.diag(out).copy())
            out *= factor[:, None] * factor
        return out

    def draws(
        self, X: Rows, mean: Float64Array, n_draws: int, rng: np.random.Generator, engine: Engine
    ) -> Float64Array:
        """Return joint draws of f at the rows, shape (n, outputs, draws), from :meth:`covariance`."""
        drawn = joint_draws(self.covariance(X, engine), mean.shape[1] * n_draws, rng)
        return mean[:, :, None] + drawn.reshape(*mean.shape, n_draws)

    def units(
        self, rows: Rows, engine: Engine, *, unit_rows: int = UNIT_ROWS
    ) -> AbstractContextManager[Iterator[tuple[Unit, tuple[Float64Array, Rows]]]]:
        """Return units of the rows, each with its features on their paths and its rows."""

        def work(_: Unit, X: Rows, F: FloatArray) -> tuple[Float64Array, Rows]:
            return np.asarray(F, np.float64), X

        return self.features.map_units(rows, work, engine, unit_rows)

    def _whiten(self, F: Float64Array, unit: Unit) -> None:
        for segment in unit.upwards:
            self.factor.forward(segment.node, F[segment.rows])

    def _spread(self, wide: Float64Array, unit: Unit, F: FloatArray) -> None:
        """Write a unit's features on its path into the columns of all nodes."""
        forest, offsets = self.features.forest, self.features.offsets
        for segment in unit.segments:
            own = F[segment.rows, forest.columns(segment.node)]
            columns = slice(offsets[segment.node], offsets[segment.node] + own.shape[1])
            wide[unit.rows[segment.rows], columns] = own

    def _add_residual(self, out: Array, unit: Unit, F: Float64Array, X: Rows) -> None:
        """Add k − φᵀφ within each leaf of a unit."""
        kernel = self.features.kernel
        for segment in unit.levels[-1]:
            rows, own = X[segment.rows], F[segment.rows]
            left = np.asarray(kernel(rows, dtype=np.float64, n_jobs=1)) - own @ own.T
            np.fill_diagonal(left, residual_diagonal(kernel, rows, own))
            numbers = unit.rows[segment.rows]
            out[np.ix_(numbers, numbers)] += 0.5 * (left + left.T)


def joint_draws(covariance: Float64Array, n_draws: int, rng: np.random.Generator) -> Float64Array:
    """Return draws of mean 0 and this covariance, (rows, draws)."""
    # Repeated rows, and rows that the data determine, make it singular; rounding can make it indefinite.
    with blas_for(len(covariance)):
        values, vectors = descending_eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root @ rng.standard_normal((len(root), n_draws)))
