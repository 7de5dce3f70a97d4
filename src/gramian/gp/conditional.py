r"""Density of some rows, each given its nearest rows: what hyperparameters are learned from last.

    L(θ) = Σ_i log p(y_i | y_N(i), θ),   N(i) the m nearest other rows of row i among all rows.

This is what the posterior from the nearest rows is judged by, at the density of all rows. With A the
covariance of the row and its neighbours, q = A⁻¹e (e the row's unit vector), g = eᵀq and a = A⁻¹y,

    log p = ½ (log g − (eᵀa)²/g − log 2π),   d log p = tr(M dA),
    M = −½ (1/g + (eᵀa)²/g²) q qᵀ + (eᵀa)/(2g) (q aᵀ + a qᵀ),

summed over outputs. Source: Vecchia 1988; Rasmussen and Williams 2006, section 5.4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.gp.composite import CompositeBlock, Prior, block_likelihood, penalised_loss
from gramian.gp.dense import noise_of
from gramian.gp.hyperparameters import Hyperparameters
from gramian.gp.neighbours import NeighbourPosterior
from gramian.kernels.columns import dense
from gramian.kernels.gradient import stacked_contraction, stacked_grams

#: Rows whose density is learned from, the neighbours of each, and rows of a task. 2,000 rows with 48
#: neighbours were a little worse on ccpp, a little better on cadata, and took longer. Chosen by hand.
CONDITIONAL_ROWS, CONDITIONAL_NEIGHBOURS, TASK_ROWS = 3_000, 32, 50


@dataclass
class Conditional:
    """L(θ) plus log p(y) of a random sample and the prior's log density, for fixed rows and neighbours.

    Where rows are dense, neighbours fit any long lengthscale; the sample, whose rows are far apart, does not.
    rows : (b, m + 1, d), each row after its neighbours; targets : (b, m + 1, outputs).
    """

    rows: Array
    targets: Float64Array
    sample: CompositeBlock
    hyper: Hyperparameters
    prior: Prior
    engine: Engine = field(default_factory=Engine)
    weights: Float64Array | None = None  #: (b, m + 1)

    @property
    def n_rows(self) -> int:
        """Rows whose density is taken."""
        return len(self.rows)

    @property
    def n_blocks(self) -> int:
        """Sets of neighbours."""
        return len(self.rows)

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −L(θ), with sample and prior, and the gradient; very large if it cannot be computed.

        Time O(b (m³ + m² d)), memory for a task in each thread.
        """
        at = self.hyper.at(theta)

        def work(part: slice | None) -> tuple[float, Float64Array]:
            if part is None:
                return block_likelihood(at, self.sample)
            weights = None if self.weights is None else self.weights[part]
            return self._part(at, self.rows[part], self.targets[part], weights)

        tasks = [None, *row_slices(len(self.rows), TASK_ROWS)]
        return penalised_loss(theta, self.hyper, self.prior, lambda: self.engine.map(work, tasks))

    def _part(
        self, at: Hyperparameters, rows: Array, Y: Float64Array, weights: Float64Array | None
    ) -> tuple[float, Float64Array]:
        own_noise = noise_of(at.noise, weights)
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
        own_slope = stacked_contraction(at.kernel, rows, M, values) if len(self.hyper.own) else np.zeros(0)
        return value, np.append(own_slope, noise)


def conditional_rows(
    source: RowSource,
    targets: Float64Array,
    sample: CompositeBlock,
    hyper: Hyperparameters,
    prior: Prior,
    engine: Engine,
    rng: np.random.Generator,
    weights: Float64Array | None = None,
) -> Conditional:
    """Return the objective of up to 3,000 random rows with their nearest rows in the learned metric."""
    near = NeighbourPosterior.of(source, targets, hyper, CONDITIONAL_NEIGHBOURS, rng, weights)
    rows, numbers = sample_rows(source, CONDITIONAL_ROWS, rng)
    at = near.neighbours(rows, engine, without=numbers)
    points = near.near.points if near.scale is None else near.near.points * near.scale
    own = np.asarray(dense(rows), np.float64)
    return Conditional(
        np.concatenate([points[at], own[:, None]], axis=1),
        np.concatenate([near.targets[at], targets[numbers][:, None]], axis=1),
        sample,
        hyper,
        prior,
        engine,
        None if near.weights is None or weights is None else np.c_[near.weights[at], weights[numbers]],
    )
