r"""Posterior of a Gaussian process on nested bases: mean, variance, covariance, draws.

The prior is f(x) = φ(x)ᵀw + e(x) with the features φ on x's path, weights w ~ N(0, I), and a residual process
e of variance D(x) = k(x, x) − ‖φ(x)‖². Given the training rows, w ~ N(β, S⁻¹); they tell nothing about e at
any other row. With S = L Lᵀ, f(x) has

    mean φ(x)ᵀβ,   variance ‖L⁻¹φ(x)‖² + D(x).

Far from landmarks and data the variance is k(x, x), that of the prior. Between two predicted rows of the same
leaf, e has covariance k(x, y) − φ(x)ᵀφ(y); between leaves it has none.

**Functions** are drawn by Matheron's rule with random features of the prior: With g drawn from it by random
features ψ(x)ᵀz, z ~ N(0, I), and the features' weights w₀ of g, which are g's values at the landmarks
whitened as the kernel's columns are,

    f(x) = φ(x)ᵀ(w − w₀) + g(x),   w ~ N(β, S⁻¹),

so that e(x) = g(x) − φ(x)ᵀw₀ has the variance D(x) = k(x, x) − ‖φ(x)‖² that the features leave over.
Source: Rahimi and Recht 2007; Wilson et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian._numerics import descending_eigh
from gramian._tiles import blas_for
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.approximations.polynomial_maps import TensorSketchBuilder
from gramian.approximations.random_fourier import RandomFourierBuilder
from gramian.compression.features import UNIT_ROWS, FeatureMap, Unit
from gramian.compression.predictor import Predictor, fold
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.prior import residual_diagonal
from gramian.kernels.base import Constant, Kernel, Scaled, Sum, lengthscale_array
from gramian.kernels.columns import Columns
from gramian.kernels.dot_products import Linear, Polynomial
from gramian.kernels.mapped import Mapped
from gramian.solvers.arrowhead import PathFactor

#: Random features of each term of the prior, and fewest draws of e(x) that its variance is taken over: with
#: 512 a deviation is met to about 3 %. Chosen by hand.
WAVES, LEAST_DRAWS = 2_048, 512


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


def drawn_paths(
    posterior: Posterior, n_draws: int, rng: np.random.Generator
) -> Callable[[RowSource, Engine], Iterator[tuple[slice, Float64Array]]]:
    """Return functions drawn from a posterior: source ↦ (rows, values of shape (rows, outputs, draws)).

    Each always gives the same value at the same row. Few random features err where D(x) is small, so e(x) is
    scaled to have the variance D(x) over all draws of it, 512 at least. Time O(n (m + 2,048) (d +
    outputs·draws)). Raises :class:`InputError` for a kernel without random features.
    """
    features, count = posterior.features, n_draws * posterior.n_outputs
    forest, kernel = features.forest, features.kernel
    prior = [
        (one, np.sqrt(factor) * rng.standard_normal((one.n_columns, max(count, LEAST_DRAWS))))
        for factor, one in _random_features(kernel, features.nodes[0].landmarks.shape[1], rng)
    ]
    smooth = posterior.factor.drawn(rng.standard_normal((features.rank, count)))  # w − β by node
    start = _weights(features, prior)

    def from_mean(unit: Unit, F: Float64Array, X: Rows) -> Float64Array:
        """Return f less its mean for each output and draw, by the features of a unit's rows."""
        values, other = np.zeros((len(F), count)), _values(prior, X)
        for segment in unit.segments:
            own = F[segment.rows, forest.columns(segment.node)]
            values[segment.rows] += own @ smooth[segment.node]
            other[segment.rows] -= own @ start[segment.node]
        left, size = residual_diagonal(kernel, X, F), np.square(other).mean(axis=1)
        factor = np.sqrt(np.divide(left, size, out=np.zeros_like(size), where=size > 0))
        return np.asarray(values + factor[:, None] * other[:, :count])

    def blocks(source: RowSource, engine: Engine) -> Iterator[tuple[slice, Float64Array]]:
        for where, rows in row_blocks(source, UNIT_ROWS):
            mean, factor = posterior.mean_and_factor(rows, engine)
            drawn = np.empty((len(mean), count))
            with posterior.units(rows, engine) as units:
                for unit, (F, X) in units:
                    drawn[unit.rows] = factor[unit.rows, None] * from_mean(unit, F, X)
            yield where, mean[:, :, None] + drawn.reshape(*mean.shape, -1)

    return blocks


def _values(prior: list[tuple[Columns, Float64Array]], rows: Rows) -> Float64Array:
    """Return g(x) of some rows for each output and draw."""
    return np.asarray(sum(columns(rows) @ weights for columns, weights in prior))


def _weights(features: FeatureMap, prior: list[tuple[Columns, Float64Array]]) -> list[Float64Array]:
    """Return w₀: g at the landmarks of each node, less what its ancestors give, whitened."""
    whitened: list[Float64Array] = []
    for node, basis in enumerate(features.nodes):
        own = basis.matrix.T @ _values(prior, basis.landmarks) if basis.rank else np.zeros((0, 1))
        path = features.forest.path(node)
        if basis.rank and path:
            own -= basis.projection.T @ np.concatenate([whitened[a] for a in path])
        whitened.append(own)
    return whitened


def _random_features(kernel: Kernel, d: int, rng: np.random.Generator) -> list[tuple[float, Columns]]:
    """Return factors and features of the terms of a kernel: k(x, z) ≈ Σ factor · ψ(x)·ψ(z)."""
    if isinstance(kernel, Scaled):
        return [(kernel.factor * factor, one) for factor, one in _random_features(kernel.kernel, d, rng)]
    if isinstance(kernel, Sum):
        return _random_features(kernel.left, d, rng) + _random_features(kernel.right, d, rng)
    if isinstance(kernel, Mapped):
        inner = _random_features(kernel.kernel, kernel.part(np.zeros((1, d))).shape[1], rng)
        return [(factor, kernel.columns(one)) for factor, one in inner]
    if isinstance(kernel, Constant):
        return [(1.0, kernel.against(np.zeros((1, d)), np.float64))]
    if isinstance(kernel, Linear):  # k(x, ℓ_j e_j) = x_j/ℓ_j
        lengths = np.broadcast_to(lengthscale_array(kernel.lengthscale, d), (d,))
        return [(1.0, kernel.against(np.diag(lengths), np.float64))]
    builder = (TensorSketchBuilder if isinstance(kernel, Polynomial) else RandomFourierBuilder)(WAVES)
    try:
        return [(1.0, builder.columns(kernel, d, dtype=np.float64, rng=rng))]
    except InputError as error:
        raise InputError(
            f"sample_paths draws functions by random features, and none are known of {kernel!r}. Use "
            "sample_y, which draws values at given rows, or a kernel of x − z, Linear or Polynomial, their "
            "sums and multiples."
        ) from error
