"""Check of a Gaussian process's deviations against errors on unseen rows, and factors that scale them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.compression.features import Unit
from gramian.engine import Engine
from gramian.estimator.conformal import held_out_quantile, held_out_rank
from gramian.gp.dense import noise_of
from gramian.gp.likelihood import MarginalLikelihood
from gramian.gp.prior import residual_diagonal

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
class BandCheck:
    """Errors on rows that the mean had not seen, beside the deviations predicted for them.

    errors : (m, outputs), target minus mean, of normalised targets; deviations : (m,), of new observations.
    held_out : whether the rows were held out of a first fit and of learning; otherwise each was left out of
    all the others, by hyperparameters that had seen all rows.
    means : (m, outputs) of normalised targets. scale : the factor on the deviations of new observations, None
    where they are left as they are. Deviations are those of rows of weight 1.
    """

    errors: Float64Array
    deviations: Float64Array
    held_out: bool
    means: Float64Array | None = None
    scale: RowScale | None = None
    weights: Float64Array | None = None  #: (m,), what each row counts

    def scaled(self) -> Self:
        """Return the check with the scale that its errors ask for."""
        assert self.means is not None
        return replace(self, scale=RowScale.of(self.errors, self.means, self.deviations, self._counts))

    def factor(self, means: Float64Array, deviations: Float64Array) -> Float64Array:
        """Return the factors on deviations (n,) of new observations with these means, (n, outputs)."""
        return np.ones(means.shape) if self.scale is None else self.scale.factor(means, deviations)

    @property
    def scores(self) -> Float64Array:
        """Errors over deviations, (m, outputs): standard normal if the model is right."""
        return self.errors / self.deviations[:, None]

    @property
    def nlpd(self) -> float:
        """Mean negative log predictive density of a normalised target."""
        return self._density(np.ones(self.errors.shape[1]))

    @property
    def spread(self) -> Float64Array:
        """Factor on all deviations, for each output, that gives the scores a mean square of 1: (outputs,)."""
        counts = self._counts
        squares = counts @ np.square(self.scores)
        return np.asarray(np.sqrt((squares + AGREEING_ROWS) / (counts.sum() + AGREEING_ROWS)))

    @property
    def scaled_nlpd(self) -> float:
        """The mean negative log predictive density with deviations times ``spread``."""
        return self._density(self.spread)

    @property
    def loss(self) -> float:
        """What choices are judged by: the mean of :attr:`scaled_nlpd` and that of one deviation for all rows.

        The second is the logarithm of ``rmse`` and a constant. Where targets have heavy tails, the density
        alone prefers deviations that differ from row to row to a mean that errs less.
        """
        return float(
            0.5 * (self.scaled_nlpd + np.log(max(self.rmse, 1e-300)) + 0.5 * (1.0 + np.log(2 * np.pi)))
        )

    def _density(self, factor: Float64Array) -> float:
        wide = self.deviations[:, None] * factor
        return self._mean(0.5 * (self.errors / wide) ** 2 + np.log(wide) + 0.5 * np.log(2 * np.pi))

    @property
    def rmse(self) -> float:
        """Root of the mean squared error of normalised targets."""
        return float(np.sqrt(self._mean(np.square(self.errors))))

    @property
    def pit(self) -> Float64Array:
        """Probability integral transform of each target, (m, outputs): uniform if the model is right."""
        return np.asarray(ndtr(self.scores))

    def coverage(self, wanted: float) -> float:
        """Return the share of targets within mean ± z·deviation, z the normal's for a share ``wanted``.

        >>> normal = np.random.default_rng(0).standard_normal((1000, 1))
        >>> round(BandCheck(normal, np.full(1000, 2.0), held_out=True).coverage(0.5), 2)  # too wide
        0.84
        """
        return self._mean(np.abs(self.scores) <= ndtri(0.5 + 0.5 * wanted))

    def half_width(self, coverage: float, n_hyperparameters: int) -> Float64Array:
        """Return the factor, for each output, by which deviations become half widths that cover."""
        sizes, chosen = np.abs(self._scaled_scores), self._chosen(n_hyperparameters)
        weights = None if self.weights is None else np.broadcast_to(self.weights[:, None], sizes.shape)
        return held_out_quantile(sizes, weights, coverage, f"coverage={coverage}", chosen)

    def quantile(self, wanted: float, n_hyperparameters: int) -> Float64Array:
        """Return the quantile of the scores for each output, by which a new target lies below mean + it·dev.

        Linear between the m sorted scores, of rank (m + 1)/2 + (q − 1/2)(m + 1 + 2c/3): what
        :meth:`half_width` adds for c numbers that these rows chose grows towards the ends and is 0 at the
        median, so that quantiles of −y are those of y mirrored.
        """
        count, beyond = float(self._counts.sum()), wanted - 0.5
        held_out_rank(0.5 + abs(beyond), round(count, 6), len(self.errors), f"quantiles: {wanted}")
        rank = 0.5 * (count + 1) + beyond * (count + 1 + 2.0 / 3.0 * self._chosen(n_hyperparameters))
        rank = min(max(rank, 1.0), count)
        scores = self._scaled_scores
        order = np.argsort(scores, axis=0, kind="stable")
        own, values = self._counts[order], np.take_along_axis(scores, order, axis=0)
        upto = np.cumsum(own, axis=0)
        shares = np.maximum(np.minimum(upto, rank) - np.maximum(upto - own, rank - 1.0), 0.0)
        return np.asarray((shares * values).sum(axis=0) / shares.sum(axis=0))

    @property
    def _scaled_scores(self) -> Float64Array:
        """Errors over scaled deviations, (m, outputs)."""
        if self.scale is None or self.means is None:
            return self.scores
        return self.scores / self.scale.factor(self.means, self.deviations)

    @property
    def _counts(self) -> Float64Array:
        """What each row counts, (m,): with weights they add up to (Σw)²/Σw², as many rows as tell as much."""
        if self.weights is None:
            return np.ones(len(self.errors))
        return np.asarray(self.weights * (self.weights.sum() / np.square(self.weights).sum()))

    def _mean(self, values: Array) -> float:
        """Return the mean over rows, by their weights, and outputs."""
        return float(np.average(values.mean(axis=1), weights=self.weights))

    def _chosen(self, n_hyperparameters: int) -> int:
        """Return how many numbers these rows chose."""
        by_row = self.scale is not None and self.scale.by_row
        return (0 if self.held_out else n_hyperparameters) + 3 * by_row


def leave_one_out(
    likelihood: MarginalLikelihood,
    rows: Rows,
    targets: Float64Array,
    engine: Engine,
    weights: Float64Array | None = None,
) -> BandCheck:
    r"""Return the errors of training rows, each predicted from all other rows, without another fit.

    With Σ = K̃ + D + noise·I, a = Σ⁻¹y and g = diag Σ⁻¹, the error is a_i/g_i and the variance of the
    observation 1/g_i. By Σ⁻¹ = Λ⁻¹ − Λ⁻¹F S⁻¹FᵀΛ⁻¹ both take one pass over the rows. rows : some of the
    training rows, with their targets (n, outputs) and weights. Deviations are those of rows of weight 1. Time
    O(n (m d + m r + path²)).
    Source: Rasmussen and Williams 2006, section 5.4.2.
    """
    features, forest = likelihood.features, likelihood.features.forest
    errors, variances = np.empty(targets.shape), np.empty(len(targets))

    def work(unit: Unit, X: Rows, F: FloatArray) -> None:
        rotated = np.array(F, np.float64)
        noise = noise_of(likelihood.noise, weights, unit.rows)
        total = residual_diagonal(features.kernel, X, rotated) + noise
        a = np.array(targets[unit.rows], np.float64)
        for segment in unit.segments:
            own = F[segment.rows, forest.columns(segment.node)]
            a[segment.rows] -= own @ likelihood.beta[segment.node]
        for segment in unit.upwards:
            likelihood.factor.forward(segment.node, rotated[segment.rows])
        # Σ⁻¹ of a row times its noise; rounding can make it vanish where the other rows know the row.
        share = np.maximum(1.0 - np.einsum("ij,ij->i", rotated, rotated) / total, np.finfo(np.float64).eps)
        variances[unit.rows] = np.maximum(total / share - noise, 0.0) + likelihood.noise
        errors[unit.rows] = a / share[:, None]

    with features.map_units(rows, work, engine) as units:
        for _ in units:
            pass
    return BandCheck(errors, np.sqrt(variances), held_out=False, means=targets - errors)


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
