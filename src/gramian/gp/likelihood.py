r"""Log marginal likelihood of K̃ + D + noise·I, from sums over one pass of the rows.

With K̃ = F Fᵀ, Λ = D + noise·I (diagonal) and the arrowhead matrix S = FᵀΛ⁻¹F + I,

    log p(y) = −½ (yᵀΛ⁻¹y − bᵀS⁻¹b + log det S + Σ log Λ_i + n log 2π),   b = FᵀΛ⁻¹y,

summed over the outputs, which share the kernel. Source: Snelson and Ghahramani 2006 and 2007.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import Unit
from gramian.compression.sums import UnitSums, add_unit, map_source, unit_products
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.gp.dense import noise_of
from gramian.gp.prior import residual_diagonal
from gramian.solvers.arrowhead import ArrowheadFactor, NodeSums, PathFactor


@dataclass(frozen=True)
class Observations:
    """Rows, their targets (n, outputs) and weights (n,), None where all are 1; read in chunks."""

    source: RowSource
    targets: Float64Array
    chunk_rows: int
    engine: Engine = field(default_factory=Engine)
    weights: Float64Array | None = None

    def noise(self, noise: float, numbers: IntArray) -> float | Float64Array:
        """Return the noise of the rows with these numbers, where a row of weight 1 has this one."""
        return noise_of(noise, None if self.weights is None else self.weights[numbers])


@dataclass(frozen=True)
class MarginalLikelihood:
    """Result of one pass for a given prior and noise: log p(y) and the posterior of the features' weights."""

    value: float
    features: FeatureMap
    noise: float
    factor: PathFactor  #: factor of S
    beta: tuple[Float64Array, ...]  #: S⁻¹FᵀΛ⁻¹y, the weights' posterior mean, one (r, outputs) array per node
    excess: float  #: mean of D, the prior variance that the features do not represent


def evidence(features: FeatureMap, noise: float, data: Observations) -> MarginalLikelihood:
    """Return log p(y) and the posterior of the features' weights.

    Needs features of float64 bases and ``noise`` > 0. Time O(n (m d + m r + path²)) and the elimination of S;
    memory: the sums and one chunk, independent of n.
    """
    outputs = data.targets.shape[1]
    forest = features.forest
    sums = NodeSums.zeros_of(forest, outputs)
    logdet = square = left = 0.0

    def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> tuple[UnitSums, float, float, float]:
        wide = np.asarray(F, np.float64)
        left = residual_diagonal(features.kernel, X, wide)
        total = left + data.noise(noise, numbers)
        scale = 1.0 / np.sqrt(total)[:, None]
        Y = data.targets[numbers] * scale
        parts = unit_products(forest, unit, wide * scale, Y)
        return parts, float(np.log(total).sum()), float(np.vdot(Y, Y)), float(left.sum())

    done = map_source(features, data.source, work, chunk_rows=data.chunk_rows, engine=data.engine)
    with closing(done) as units:
        for parts, own_logdet, own_square, own_left in units:
            add_unit(sums, parts)
            logdet += own_logdet
            square += own_square
            left += own_left
    factor = ArrowheadFactor(forest, sums, 1.0, data.engine)
    beta = factor.solve([s.rhs for s in sums])
    explained = sum(float(np.vdot(s.rhs, b)) for s, b in zip(sums, beta, strict=True))
    n = data.source.shape[0]
    constant = factor.blocks.logdet + logdet + n * np.log(2.0 * np.pi)
    value = -0.5 * (square - explained + outputs * constant)
    return MarginalLikelihood(value, features, noise, factor.blocks, tuple(beta), left / n)
