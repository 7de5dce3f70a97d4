"""A factor for each row by which a Gaussian process's deviations agree with its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramian._typing import Float64Array

#: Deviations are scaled as if so many more rows had agreed with them. Chosen by hand.
AGREEING_ROWS = 10
#: Fewer errors than this give one factor for all rows. Chosen by hand.
LEAST_ROWS = 100
#: Deviations and means of rows are taken within this many standard deviations of those of the checked rows.
WITHIN = 2.5
#: Degrees of freedom of the Student-t by which factors of rows are fitted: a few errors far out, which are
#: common, move them little. Chosen by hand.
FREEDOM = 4.0
#: Factors of rows must raise the normal density of rows unseen by so many standard errors. Chosen by hand.
CLEARLY = 2.0
#: Scores count as no smaller, and steps of weights are no larger, than these: 0 has no logarithm.
LEAST_SCORE, LARGEST_STEP = 1e-12, 5.0
#: Newton steps of a fit at most, and the least decrease of the loss that another is taken for.
STEPS, DECREASE = 50, 1e-9
#: Largest change of the level's logarithm from which it is found. Chosen by hand.
LEVEL_TOL = 1e-9


@dataclass(frozen=True)
class RowScale:
    r"""s(x) = max(exp(w₀ + w₁ a + w₂ m + w₃ (m² − 1)), least), for each output.

    a : the logarithm of the predicted deviation, and m : the predicted mean, both less their centre and over
    their width on the checked rows, and within 2.5 of 0. So noise may grow with the level of the targets, and
    deviations that differ too much or too little from row to row are stretched. w₁ = w₂ = w₃ = 0 is one
    factor for all rows.
    """

    center: Float64Array  #: (2, outputs): of the logarithm of the deviation, and of the mean
    width: Float64Array  #: (2, outputs)
    weights: Float64Array  #: (4, outputs)
    least: Float64Array | float = 0.0  #: (outputs,), below which no factor falls

    @property
    def by_row(self) -> bool:
        """Whether the factor differs from row to row."""
        return bool(self.weights[1:].any())

    def factor(self, means: Float64Array, deviations: Float64Array) -> Float64Array:
        """Return the factors (n, outputs) of rows with these means (n, outputs) and deviations (n,)."""
        logs = np.einsum("inj,ij->nj", self.terms(means, deviations), self.weights)
        return np.asarray(np.maximum(np.exp(logs), self.least))

    def terms(self, means: Float64Array, deviations: Float64Array) -> Float64Array:
        """Return 1, a, m and m² − 1 of each row and output, (4, n, outputs)."""
        size = np.log(np.maximum(deviations, np.finfo(np.float64).tiny))[:, None]
        given = np.stack([np.broadcast_to(size, means.shape), means])
        a, m = np.clip((given - self.center[:, None]) / self.width[:, None], -WITHIN, WITHIN)
        return np.stack([np.ones_like(m), a, m, m * m - 1.0])

    @classmethod
    def of(
        cls,
        errors: Float64Array,
        means: Float64Array,
        deviations: Float64Array,
        counts: Float64Array | None = None,
    ) -> Self:
        """Return the scale that errors (n, outputs) of left-out rows ask for; ``counts`` is what each counts.

        w₁, w₂ and w₃ have the largest Student-t density of the errors, with a weak prior about 0. The least
        factor is the least root mean square of the scores of the rows with the smallest factors, over all
        numbers of these rows, so that a few errors that happen to be small do not promise more. For outputs
        where this does not raise the normal density of rows that it was not fitted to, the other half each
        time, by two standard errors of the gain, all rows have one factor. w₀ gives scaled errors a mean
        square of 1. Time O(n outputs).
        """
        size = np.log(np.maximum(deviations, np.finfo(np.float64).tiny))
        given = np.stack([np.broadcast_to(size[:, None], means.shape), means])
        width = given.std(axis=1)
        weights, least = np.zeros((4, means.shape[1])), np.zeros(means.shape[1])
        scale = cls(given.mean(axis=1), np.where(width > 0.0, width, 1.0), weights, least)
        terms, scores = scale.terms(means, deviations), np.abs(errors) / deviations[:, None]
        counts = np.ones(len(errors)) if counts is None else counts
        for j in range(means.shape[1]):
            squares = np.square(np.maximum(scores[:, j], LEAST_SCORE))
            weights[:, j], least[j] = _chosen(terms[:, :, j], squares, counts)
        return scale


def _chosen(terms: Float64Array, squares: Float64Array, counts: Float64Array) -> tuple[Float64Array, float]:
    """Return weights (4,) and least factor of one output, from its terms (4, n), squared scores, counts."""
    if counts.sum() < LEAST_ROWS - 1e-6:
        return _scale(terms, squares, counts, by_row=False)
    gains = np.empty(len(squares))
    halves = np.arange(len(squares)) % 2 == 0
    for half in (halves, ~halves):
        losses = []
        for by_row in (False, True):
            weights, least = _scale(terms[:, ~half], squares[~half], counts[~half], by_row=by_row)
            factor = np.maximum(np.exp(weights @ terms[:, half]), least)
            losses.append(0.5 * squares[half] / np.square(factor) + np.log(factor))
        gains[half] = losses[0] - losses[1]
    mean = np.average(gains, weights=counts)
    spread = np.sqrt(np.average(np.square(gains - mean), weights=counts))
    pays = bool(mean > CLEARLY * spread / np.sqrt(counts.sum()))
    return _scale(terms, squares, counts, by_row=pays)


def _scale(
    terms: Float64Array, squares: Float64Array, counts: Float64Array, *, by_row: bool
) -> tuple[Float64Array, float]:
    """Return weights (4,) and least factor with which scaled scores have a mean square of 1."""
    weights, least = np.zeros(4), 0.0
    if by_row:
        weights = _fitted(terms, squares, counts)
        order = np.argsort(weights @ terms, kind="stable")
        sums, rows = np.cumsum((counts * squares)[order]), np.cumsum(counts[order])
        least = float(np.sqrt(((sums + AGREEING_ROWS) / (rows + AGREEING_ROWS)).min()))
    shape, level = np.exp(weights[1:] @ terms[1:]), 0.0
    for _ in range(STEPS):  # without a least factor the first is right
        total = float(counts @ (squares / np.square(np.maximum(shape, least * np.exp(-level)))))
        before, level = level, 0.5 * np.log((total + AGREEING_ROWS) / (counts.sum() + AGREEING_ROWS))
        if abs(level - before) < LEVEL_TOL:
            break
    weights[0] = level
    return weights, least


def _losses(terms: Float64Array, squares: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the negative log densities of scores over exp(termsᵀ weights), less a constant, (n,)."""
    logs = weights @ terms
    return np.asarray(0.5 * (FREEDOM + 1.0) * np.log1p(squares * np.exp(-2.0 * logs) / FREEDOM) + logs)


def _fitted(terms: Float64Array, squares: Float64Array, counts: Float64Array) -> Float64Array:
    """Return the weights of least loss by Newton's method: it is convex in them."""
    ridge = np.full(len(terms), float(AGREEING_ROWS))
    ridge[0] = 0.0
    weights = np.zeros(len(terms))
    weights[0] = 0.5 * np.log(max(float(counts @ squares / counts.sum()), np.finfo(np.float64).tiny))

    def loss(at: Float64Array) -> float:
        return float(counts @ _losses(terms, squares, at) + 0.5 * ridge @ (at * at))

    value = loss(weights)
    for _ in range(STEPS):
        ratio = squares * np.exp(-2.0 * (weights @ terms))
        gradient = terms @ (counts * (1.0 - (FREEDOM + 1.0) * ratio / (FREEDOM + ratio))) + ridge * weights
        bend = counts * 2.0 * FREEDOM * (FREEDOM + 1.0) * ratio / np.square(FREEDOM + ratio)
        curvature = (terms * bend) @ terms.T + np.diag(ridge)
        step = np.linalg.lstsq(curvature, -gradient, rcond=None)[0]
        step = np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        tried = [(loss(weights + t * step), t) for t in 0.5 ** np.arange(12)]
        best, t = min(tried)
        if not best < value - DECREASE * abs(value):
            break
        weights, value = weights + t * step, best
    return weights
