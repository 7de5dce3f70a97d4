r"""Functions drawn from a Gaussian process's posterior, by Matheron's rule with random features of the prior.

The prior is f(x) = φ(x)ᵀw + e(x). With g drawn from it by random features ψ(x)ᵀz, z ~ N(0, I), and the
features' weights w₀ of g, which are g's values at the landmarks whitened as the kernel's columns are,

    f(x) = φ(x)ᵀ(w − w₀) + g(x),   w ~ N(β, S⁻¹),

so that e(x) = g(x) − φ(x)ᵀw₀ has the variance D(x) = k(x, x) − ‖φ(x)‖² that the features leave over.
Source: Rahimi and Recht 2007; Wilson et al. 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array, Rows
from gramian.approximations.polynomial_maps import TensorSketchBuilder
from gramian.approximations.random_fourier import RandomFourierBuilder
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import UNIT_ROWS, Unit
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.gp.posterior import Posterior
from gramian.gp.prior import residual_diagonal
from gramian.kernels.base import Constant, Kernel, Scaled, Sum, lengthscale_array
from gramian.kernels.columns import Columns
from gramian.kernels.dot_products import Linear, Polynomial
from gramian.kernels.mapped import Mapped

#: Random features of each term of the prior, and fewest draws of e(x) that its variance is taken over: with
#: 512 a deviation is met to about 3 %. Chosen by hand.
WAVES, LEAST_DRAWS = 2_048, 512


@dataclass(frozen=True)
class Paths:
    """Functions drawn from a posterior; each always gives the same value at the same row.

    ``smooth`` holds w − β for each output and draw, one (r, outputs · draws) array per node, and ``own`` w₀,
    of as many draws or 512; ``prior`` the random features of each term of the kernel, with z times the root
    of the term's factor. Few features err where D(x) is small, so e(x) is scaled to have the variance D(x)
    over all draws of it.
    """

    posterior: Posterior
    smooth: list[Float64Array]
    own: list[Float64Array]
    prior: list[tuple[Columns, Float64Array]]

    @classmethod
    def of(cls, posterior: Posterior, n_draws: int, rng: np.random.Generator) -> Paths:
        """Draw paths. Raises :class:`InputError` for a kernel without random features."""
        features, count = posterior.features, n_draws * posterior.n_outputs
        prior = [
            (one, np.sqrt(factor) * rng.standard_normal((one.n_columns, max(count, LEAST_DRAWS))))
            for factor, one in _random_features(features.kernel, features.nodes[0].landmarks.shape[1], rng)
        ]
        smooth = posterior.factor.drawn(rng.standard_normal((features.rank, count)))
        return cls(posterior, smooth, _weights(features, prior), prior)

    def blocks(self, source: RowSource, engine: Engine) -> Iterator[tuple[slice, Float64Array]]:
        """Yield (rows, values of shape (rows, outputs, draws)). Time O(n (m + 2,048) (d + outputs·draws))."""
        for where, rows in row_blocks(source, UNIT_ROWS):
            mean, factor = self.posterior.mean_and_factor(rows, engine)
            drawn = np.empty((len(mean), self.smooth[0].shape[1]))
            with self.posterior.units(rows, engine) as units:
                for unit, (F, X) in units:
                    drawn[unit.rows] = factor[unit.rows, None] * self._from_mean(unit, F, X)
            yield where, mean[:, :, None] + drawn.reshape(*mean.shape, -1)

    def _from_mean(self, unit: Unit, F: Float64Array, X: Rows) -> Float64Array:
        """Return f less its mean for each output and draw, by the features of a unit's rows."""
        forest, left = self.posterior.features.forest, residual_diagonal(self.posterior.features.kernel, X, F)
        smooth, other = np.zeros((len(F), self.smooth[0].shape[1])), _values(self.prior, X)
        for segment in unit.segments:
            own = F[segment.rows, forest.columns(segment.node)]
            smooth[segment.rows] += own @ self.smooth[segment.node]
            other[segment.rows] -= own @ self.own[segment.node]
        size = np.square(other).mean(axis=1)
        factor = np.sqrt(np.divide(left, size, out=np.zeros_like(size), where=size > 0))
        smooth += factor[:, None] * other[:, : smooth.shape[1]]
        return smooth


def _values(prior: list[tuple[Columns, Float64Array]], rows: Rows) -> Float64Array:
    """Return g(x) of some rows for each output and draw."""
    return np.asarray(sum(columns(rows) @ weights for columns, weights in prior))


def _weights(features: FeatureMap, prior: list[tuple[Columns, Float64Array]]) -> list[Float64Array]:
    """Return w₀: g at the landmarks of each node, less what its ancestors give, whitened."""
    found: list[Float64Array] = []
    for node, basis in enumerate(features.nodes):
        own = basis.matrix.T @ _values(prior, basis.landmarks) if basis.rank else np.zeros((0, 1))
        path = features.forest.path(node)
        if basis.rank and path:
            own -= basis.projection.T @ np.concatenate([found[a] for a in path])
        found.append(own)
    return found


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
