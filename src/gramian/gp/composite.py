r"""Likelihoods that hyperparameters are learned from: of blocks of rows, and of rows given near ones.

**Blocks**, taken as independent:

    L(θ) = Σ_b log p(y_b | θ),   each block by dense algebra.

A random sample of the rows tells how the function varies from one end of the data to the other, but its rows
are farther apart than those of all data: what varies between neighbours is noise to it. Blocks of neighbours
have the density of all rows. Both kinds together see both (measured in docs/uncertainty.md).
Source of the composite likelihood: Varin, Reid and Firth 2011; of blocks: Deisenroth and Ng 2015.

**Rows given their nearest rows**:

    L(θ) = Σ_i log p(y_i | y_N(i), θ),   N(i) the m nearest other rows of row i among all rows.

This is what the posterior from the nearest rows is judged by, at the density of all rows. With A the
covariance of the row and its neighbours, q = A⁻¹e (e the row's unit vector), g = eᵀq and a = A⁻¹y,

    log p = ½ (log g − (eᵀa)²/g − log 2π),   d log p = tr(M dA),
    M = −½ (1/g + (eᵀa)²/g²) q qᵀ + (eᵀa)/(2g) (q aᵀ + a qᵀ),

summed over outputs. Source: Vecchia 1988; Rasmussen and Williams 2006, section 5.4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.data.source import row_blocks, sample_rows
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.gp.dense import FAILED, dense_likelihood, noise_of
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.prior import Hyperparameters, lengthscales
from gramian.kernels.columns import dense
from gramian.kernels.gradient import stacked_contraction, stacked_grams

#: Rows of a block of neighbours, and the share of the learning rows that is a random sample. Blocks of 100 to
#: 250 and shares of an eighth to a third were equally good on cadata, census and cpusmall; a random sample
#: alone is worse.
NEIGHBOURS, RANDOM_SHARE = 250, 0.2
#: Bytes of the rows that are compared with the centres of the blocks at a time. Chosen by hand.
CHUNK_BYTES = 16_000_000
#: Rows whose density is learned from, the neighbours of each, and rows of a task. 2,000 rows with 48
#: neighbours were a little worse on ccpp, a little better on cadata, and took longer. Chosen by hand.
CONDITIONAL_ROWS, CONDITIONAL_NEIGHBOURS, TASK_ROWS = 3_000, 32, 50


@dataclass(frozen=True)
class CompositeBlock:
    """Rows (b, d), their targets (b, outputs) and their weights (b,), None where all are 1.

    Of rows given their nearest ones all have one axis more: (b, m + 1, d), each row after its neighbours.
    """

    rows: Array
    targets: Float64Array
    weights: Float64Array | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def part(self, where: slice) -> CompositeBlock:
        """Return a slice of the rows."""
        weights = None if self.weights is None else self.weights[where]
        return CompositeBlock(self.rows[where], self.targets[where], weights)


@dataclass(frozen=True)
class Prior:
    """Normal densities of the entries of θ: a weak pull towards the start, where the rows say nothing."""

    mean: Float64Array
    deviation: Float64Array  #: infinite for an entry without a prior


@dataclass
class Composite:
    """L(θ) of fixed blocks, or of rows with their neighbours and a block, plus the prior's log density.

    ``near`` : rows given their nearest ones. Where rows are dense, neighbours fit any long lengthscale; the
    block, a random sample whose rows are far apart, does not.
    """

    blocks: Sequence[CompositeBlock]
    hyper: Hyperparameters
    prior: Prior
    engine: Engine = field(default_factory=Engine)
    near: CompositeBlock | None = None

    @property
    def n_rows(self) -> int:
        """Rows of all blocks, or those whose density is taken given their neighbours."""
        return sum(map(len, self.blocks)) if self.near is None else len(self.near)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, or of sets of neighbours."""
        return len(self.blocks) if self.near is None else len(self.near)

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −L(θ) minus the prior's log density, and the gradient; very large if it cannot be computed.

        Time O(Σ b³) for blocks of b rows, O(b (m³ + m² d)) for b rows with m neighbours; memory O(b²), or a
        stack of matrices, for each thread.
        """
        at = self.hyper.at(theta)
        tasks = sorted(self.blocks, key=len, reverse=True)
        if self.near is not None:
            tasks += [self.near.part(where) for where in row_slices(len(self.near), TASK_ROWS)]

        def work(block: CompositeBlock) -> tuple[float, Float64Array]:
            return block_likelihood(at, block) if block.rows.ndim == 2 else _conditional(at, block)

        try:
            parts = self.engine.map(work, tasks)
        except la.LinAlgError:
            return FAILED, np.zeros(len(theta))
        away = (np.asarray(theta, np.float64) - self.prior.mean) / self.prior.deviation
        value = sum(part[0] for part in parts) - 0.5 * float(away @ away)
        slope = self.hyper.slope(np.sum([part[1] for part in parts], axis=0)) - away / self.prior.deviation
        return (-value, -slope) if np.isfinite(value) else (FAILED, np.zeros(len(theta)))


def block_likelihood(at: Hyperparameters, block: CompositeBlock) -> tuple[float, Float64Array]:
    """Return log p(y) of a block, and its gradient by kernel and noise."""
    own = bool(len(at.own))
    return dense_likelihood(at.kernel, at.noise, block.rows, block.targets, block.weights, by_kernel=own)


def _conditional(at: Hyperparameters, block: CompositeBlock) -> tuple[float, Float64Array]:
    """Return Σ log p(y_i | y_N(i)) of rows given their nearest ones, and its gradient by kernel and noise."""
    rows, Y, own_noise = block.rows, block.targets, noise_of(at.noise, block.weights)
    values = stacked_grams(at.kernel, rows)
    A, size, outputs = values.copy(), values.shape[1], Y.shape[2]
    A[:, np.arange(size), np.arange(size)] += own_noise
    right = np.concatenate([np.zeros((len(A), size, 1)), Y], axis=2)
    right[:, -1, 0] = 1.0
    solved = np.linalg.solve(A, right)
    q, a = solved[:, :, 0], solved[:, :, 1:]
    g, own = q[:, -1], a[:, -1]
    if not (g > 0).all():
        raise np.linalg.LinAlgError("A variance is not positive.")
    square = np.einsum("bo,bo->b", own, own)
    value = 0.5 * float(np.sum(outputs * (np.log(g) - np.log(2.0 * np.pi)) - square / g))
    b = np.einsum("bmo,bo->bm", a, own) / g[:, None]
    b -= (0.5 * (outputs / g + square / g**2))[:, None] * q
    M = q[:, :, None] * b[:, None, :]
    M = 0.5 * (M + M.transpose(0, 2, 1))
    noise = float(np.sum(own_noise * np.einsum("bmm->bm", M)))
    own_slope = stacked_contraction(at.kernel, rows, M, values) if len(at.own) else np.zeros(0)
    return value, np.append(own_slope, noise)


def neighbour_blocks(
    known: LabelledRows[Any], hyper: Hyperparameters, count: int, rng: np.random.Generator
) -> list[CompositeBlock]:
    """Return ``count`` blocks: random rows, each with its nearest neighbours in units of the lengthscales.

    One pass over the rows. Time O(n d count), memory for a chunk of rows.
    """
    source, (n, d) = known.source, known.source.shape
    scale = lengthscales(hyper.kernel)
    weight = np.ones(d) if scale is None else scale**-2.0
    centers = np.asarray(dense(source.take(np.sort(rng.choice(n, min(count, n), replace=False)))), np.float64)
    kept = min(NEIGHBOURS, n)
    near = np.empty((len(centers), 0))
    numbers = np.empty((len(centers), 0), np.intp)
    for where, rows in row_blocks(source, max(1, CHUNK_BYTES // (8 * d))):
        others = _squared(rows, centers, weight)
        near = np.hstack([near, others])
        numbers = np.hstack([numbers, np.tile(np.arange(where.start, where.stop), (len(centers), 1))])
        if near.shape[1] > kept:
            first = np.argpartition(near, kept - 1, axis=1)[:, :kept]
            near, numbers = np.take_along_axis(near, first, 1), np.take_along_axis(numbers, first, 1)
    return [block_of(known, np.sort(one)) for one in numbers]


def block_of(known: LabelledRows[Any], numbers: IntArray) -> CompositeBlock:
    """Return the rows with these numbers as a block."""
    part = known.read(numbers)
    return CompositeBlock(np.ascontiguousarray(dense(part.rows), np.float64), part.numbers, part.weights)


def conditional_rows(
    known: LabelledRows[Any], hyper: Hyperparameters, engine: Engine, rng: np.random.Generator
) -> CompositeBlock:
    """Return up to 3,000 random rows, each after its nearest rows in the learned metric."""
    near, weights = NeighbourPosterior.of(known, hyper, CONDITIONAL_NEIGHBOURS, rng), known.weights
    rows, numbers = sample_rows(known.source, CONDITIONAL_ROWS, rng)
    at = near.neighbours(rows, engine, without=numbers)
    points = near.near.points if near.scale is None else near.near.points * near.scale
    own = np.asarray(dense(rows), np.float64)
    return CompositeBlock(
        np.concatenate([points[at], own[:, None]], axis=1),
        np.concatenate([near.targets[at], known.numbers[numbers][:, None]], axis=1),
        None if near.weights is None or weights is None else np.c_[near.weights[at], weights[numbers]],
    )


def _squared(rows: Rows, centers: Float64Array, weight: Float64Array) -> Float64Array:
    """Return Σ_f weight_f (x_f − c_f)² for centres and rows, (centres, rows), up to a constant per centre."""
    # About the centres' mean, so that the squares keep their digits far from the origin.
    middle = centers.mean(axis=0)
    points = np.asarray(dense(rows), np.float64) - middle
    moved = centers - middle
    return np.asarray(np.square(points) @ weight - 2.0 * (moved * weight) @ points.T)
