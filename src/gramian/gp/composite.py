"""Log likelihood of a few blocks of rows, taken as independent: what hyperparameters are learned from.

    L(θ) = Σ_b log p(y_b | θ),   each block by dense algebra.

A random sample of the rows tells how the function varies from one end of the data to the other, but its rows
are farther apart than those of all data: what varies between neighbours is noise to it. Blocks of neighbours
have the density of all rows. Both kinds together see both (measured in docs/uncertainty.md).
Source of the composite likelihood: Varin, Reid and Firth 2011; of blocks: Deisenroth and Ng 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.linalg as la

from gramian._typing import Array, Float64Array, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.gp.dense import dense_likelihood
from gramian.gp.hyperparameters import Hyperparameters, lengthscales
from gramian.kernels.columns import dense

#: Rows of a block of neighbours, and the share of the learning rows that is a random sample. Blocks of 100 to
#: 250 and shares of an eighth to a third were equally good on cadata, census and cpusmall; a random sample
#: alone is worse.
NEIGHBOURS, RANDOM_SHARE = 250, 0.2
#: Bytes of the rows that are compared with the centres of the blocks at a time. Chosen by hand.
CHUNK_BYTES = 16_000_000
#: Value of −log p(y) if the covariance cannot be factorised: worse than any real value.
FAILED = 1e25


@dataclass(frozen=True)
class CompositeBlock:
    """Rows (b, d), their targets (b, outputs) and their weights (b,), None where all are 1."""

    rows: Array
    targets: Float64Array
    weights: Float64Array | None = None

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Prior:
    """Normal densities of the entries of θ: a weak pull towards the start, where the rows say nothing."""

    mean: Float64Array
    deviation: Float64Array  #: infinite for an entry without a prior

    def log_density(self, theta: Array) -> tuple[float, Float64Array]:
        """Return the logarithm of the density, up to a constant, and its gradient."""
        z = (theta - self.mean) / self.deviation
        return -0.5 * float(z @ z), -z / self.deviation


@dataclass
class Composite:
    """L(θ) plus the prior's log density, of fixed blocks."""

    blocks: Sequence[CompositeBlock]
    hyper: Hyperparameters
    prior: Prior
    engine: Engine = field(default_factory=Engine)

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return sum(map(len, self.blocks))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −L(θ) minus the prior's log density, and the gradient; very large if it cannot be computed.

        Time O(Σ b³) for blocks of b rows, memory O(b²) for each thread.
        """
        at = self.hyper.at(theta)

        blocks = sorted(self.blocks, key=len, reverse=True)
        work = partial(block_likelihood, at)
        return penalised_loss(theta, self.hyper, self.prior, lambda: self.engine.map(work, blocks))


def block_likelihood(at: Hyperparameters, block: CompositeBlock) -> tuple[float, Float64Array]:
    """Return log p(y) of a block, and its gradient by kernel and noise."""
    own = bool(len(at.own))
    return dense_likelihood(at.kernel, at.noise, block.rows, block.targets, block.weights, by_kernel=own)


def penalised_loss(
    theta: Array, hyper: Hyperparameters, prior: Prior, parts: Callable[[], list[tuple[float, Float64Array]]]
) -> tuple[float, Float64Array]:
    """Return minus the sum of log densities and of the prior's, and its gradient in θ.

    ``parts`` computes the densities and their slopes by kernel and noise. Where it fails, the value is large.
    """
    try:
        found = parts()
    except la.LinAlgError:
        return FAILED, np.zeros(len(theta))
    density, pull = prior.log_density(np.asarray(theta, np.float64))
    value = sum(part[0] for part in found) + density
    slope = hyper.slope(np.sum([part[1] for part in found], axis=0)) + pull
    return (-value, -slope) if np.isfinite(value) else (FAILED, np.zeros(len(theta)))


def neighbour_blocks(
    source: RowSource,
    targets: Float64Array,
    hyper: Hyperparameters,
    count: int,
    rng: np.random.Generator,
    weights: Float64Array | None = None,
) -> list[CompositeBlock]:
    """Return ``count`` blocks: random rows, each with its nearest neighbours in units of the lengthscales.

    One pass over the rows. Time O(n d count), memory for a chunk of rows.
    """
    n, d = source.shape
    scale = lengthscales(hyper.kernel)
    weight = np.ones(d) if scale is None else scale**-2.0
    centers = np.asarray(dense(source.take(np.sort(rng.choice(n, min(count, n), replace=False)))), np.float64)
    kept = min(NEIGHBOURS, n)
    near = np.empty((len(centers), 0))
    numbers = np.empty((len(centers), 0), np.intp)
    for where, rows in row_blocks(source, max(1, CHUNK_BYTES // (8 * d))):
        found = _squared(rows, centers, weight)
        near = np.hstack([near, found])
        numbers = np.hstack([numbers, np.tile(np.arange(where.start, where.stop), (len(centers), 1))])
        if near.shape[1] > kept:
            first = np.argpartition(near, kept - 1, axis=1)[:, :kept]
            near, numbers = np.take_along_axis(near, first, 1), np.take_along_axis(numbers, first, 1)
    return [block_of(source, targets, np.sort(one), weights) for one in numbers]


def block_of(
    source: RowSource, targets: Float64Array, numbers: Array, weights: Float64Array | None = None
) -> CompositeBlock:
    """Return the rows with these numbers as a block."""
    rows = np.ascontiguousarray(dense(source.take(numbers)), np.float64)
    return CompositeBlock(rows, targets[numbers], None if weights is None else weights[numbers])


def _squared(rows: Rows, centers: Float64Array, weight: Float64Array) -> Float64Array:
    """Return Σ_f weight_f (x_f − c_f)² for centres and rows, (centres, rows), up to a constant per centre."""
    # About the centres' mean, so that the squares keep their digits far from the origin.
    middle = centers.mean(axis=0)
    points = np.asarray(dense(rows), np.float64) - middle
    moved = centers - middle
    return np.asarray(np.square(points) @ weight - 2.0 * (moved * weight) @ points.T)
