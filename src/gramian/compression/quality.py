r"""Error estimates of K̃: Frobenius error with a confidence interval, trace, blocks, spectral norm.

‖K − K̃‖_F² is the sum over rows of Σ_j E_ij², where E = K − K̃, and a few rows may hold much of it. So rows
with large errors are sampled more often. One pass computes the diagonal of E, which bounds a row's error if
E ⪰ 0, and half of the sample is drawn in proportion to it. The columns of that half estimate the error of
*every* row, and the other half is drawn in proportion to this estimate. Both steps keep the sum unbiased: a
row's weight is one over the probability with which it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array, FloatArray, IntArray
from gramian.compression.residual import ColumnSums, Leftover, Residual
from gramian.compression.row_sampling import design_variance, draw, inclusion, interval, sum_variance
from gramian.compression.storage import operator_of
from gramian.data.source import as_source, sample_rows
from gramian.operators.base import SymmetricOperator

#: Samples with fewer rows than this give an error without an interval. Chosen by hand.
LEAST_ROWS = 8
#: Share of the first half's probability that is spread evenly over all rows. Chosen by hand.
UNIFORM = 0.5
#: Candidates for the same share in the second half; the first half selects one. Chosen by hand.
SHARES = (0.2, 0.35, 0.5, 0.75)


class ErrorEstimate(float):
    """A relative error with ``standard_error``, ``n_rows`` and its 95 % interval ``low``, ``high``."""

    standard_error: float
    n_rows: int
    low: float
    high: float

    def __new__(
        cls,
        value: float,
        standard_error: float = 0.0,
        n_rows: int = 0,
        low: float = 0.0,
        high: float = np.inf,
    ) -> ErrorEstimate:
        """Make the number and attach its evidence, which copies and pickles keep."""
        self = super().__new__(cls, value)
        self.standard_error, self.n_rows, self.low, self.high = standard_error, n_rows, low, high
        return self

    def __repr__(self) -> str:
        return f"{float(self):.4g} ± {self.standard_error:.2g} ({self.n_rows} rows)"


@dataclass(frozen=True)
class MeasuredErrors:
    """Error estimates of E = K − K̃ from a sample of rows."""

    relative: ErrorEstimate  #: ‖E‖_F/‖K‖_F
    trace: ErrorEstimate  #: tr(E)/tr(K), exact
    squared: Float64Array  #: Σ E_ij² for rows i in each leaf block, shape (blocks,)
    inside: float  #: Σ E_ij² over pairs i, j in the same leaf block
    diagonal: float  #: Σ E_ii²
    counts: IntArray  #: rows of each block


def trace_error(residual: Residual, left: Leftover | None = None) -> ErrorEstimate:
    """Return tr(K − K̃)/tr(K), the relative nuclear norm where K − K̃ ⪰ 0; exact, in one pass.

    ``left`` is what that pass finds, if it is known. Time O(n (m d + r)), memory O(n).
    """
    left = left or residual.leftover()
    total = float(left.kernel.sum())
    value = float(residual.diagonal(left).sum()) / total if total > 0 else 0.0
    return ErrorEstimate(value, 0.0, residual.n_rows, value, value)


def measure(residual: Residual, *, n_rows: int, rng: np.random.Generator) -> MeasuredErrors:
    r"""Estimate ‖K − K̃‖_F/‖K‖_F from ``n_rows`` rows, with its 95 % interval.

    With e_i = Σ_{j≠i} E_ij² and k_i = Σ_{j≠i} K_ij², both diagonals are summed over all rows and

        ‖E‖_F² ≈ Σ_i E_ii² + Σ_{i∈A} e_i + Σ_{i∈B} e_i/π_i,
        ‖K‖_F² ≈ Σ_i K_ii² + Σ_{i∈A} k_i + Σ_{i∉A} k̂_i + Σ_{i∈B} (k_i − k̂_i)/π_i.

    A is the first half of the sample. Its rows are drawn without replacement, with chances in proportion to
    the diagonal of E mixed half and half with equal chances. The columns of A give unbiased estimates ẽ_i
    and k̃_i for every other row. B is the second half, drawn with probabilities π_i that mix ẽ_i with its
    mean; the share of the mean is the one with the least variance on A. k̂_i is k̃_i shrunk towards its
    mean, by an amount estimated on A.

    The standard error se of the ratio r is Hájek's for B, or the one that A predicts for B if that is larger:
    if B misses the few rows that hold much of the error, its own standard error is far too small. The
    interval is r·exp(±h) with h = t·se/r + ln(1 + g/r). Here t is Student's at 98 %, because se cannot see
    tails that no sampled row has met. With m sampled rows, g = (1 − m/n) Σ E_ii²/(m ‖K‖_F²) allows that one
    row in m has as much error off its diagonal as on it. ``benchmarks/quality_coverage.py`` measures the
    coverage. Fewer than 8 rows give the interval (0, ∞).

    The rows are drawn independently of the sample on which K̃ was built. With all rows the result is exact.
    Three passes; time O(n_rows · n · (d + r) + n m (d + r)), here with m landmarks a row; memory
    O(n_rows · (d + R) + n) and tiles.

    Source: Horvitz and Thompson (1952); Hájek (1964); the two phases are gramian's.
    """
    n, left = residual.n_rows, residual.leftover()
    m = min(n_rows, n)
    certain = m == n or m < LEAST_ROWS
    drawn = _one_phase(residual, left, m, rng) if certain else _two_phases(residual, left, m, rng)

    diagonal = residual.diagonal(left) ** 2
    kernel = float(left.kernel @ left.kernel) + drawn.kernel
    ratio = _ratio(float(diagonal.sum() + drawn.error.sum()), kernel)
    low, high, spread = 0.0, np.inf, np.inf
    if not certain or m == n:
        variance, loose = sum_variance(drawn.error_difference - ratio * drawn.kernel_difference, drawn.chance)
        spread = _ratio(float(np.sqrt(max(variance, drawn.predicted_variance))), kernel)
        unseen = _ratio((1.0 - m / n) / m * float(left.final @ left.final), kernel)
        low, high = interval(ratio, spread, loose, unseen)
    value = float(np.sqrt(ratio))
    root_spread = spread / (2.0 * value) if value > 0 else 0.0  # delta method
    blocks = residual.features.partition.n_blocks
    held = np.concatenate([left.leaves, left.leaves[drawn.rows]])
    squared = np.bincount(held, np.concatenate([diagonal, drawn.error]), minlength=blocks)
    return MeasuredErrors(
        ErrorEstimate(value, root_spread, m, float(np.sqrt(low)), float(np.sqrt(high))),
        trace_error(residual, left),
        np.asarray(squared, np.float64),
        drawn.inside + float(diagonal.sum()),
        float(diagonal.sum()),
        np.bincount(left.leaves, minlength=blocks),
    )


@dataclass(frozen=True)
class _Sample:
    """Off-diagonal estimates of a sample, and the numbers from which their variance is computed."""

    rows: IntArray  #: rows that were drawn
    error: Float64Array  #: contribution of each drawn row to Σ e_i
    inside: float  #: the part of Σ e_i inside the leaf blocks
    kernel: float  #: Σ k_i
    error_difference: Float64Array  #: e_i of the rows of the last phase
    kernel_difference: Float64Array  #: k_i − k̂_i of the same rows
    chance: Float64Array  #: π_i of the same rows
    predicted_variance: float = 0.0  #: variance of the last phase as predicted by the first


def _one_phase(residual: Residual, left: Leftover, m: int, rng: np.random.Generator) -> _Sample:
    """Draw m rows in proportion to the diagonal of E; take all rows if m is their number."""
    rows, chance = np.arange(m), np.ones(m)
    if m < residual.n_rows:
        chance = inclusion(_first_size(left), m)
        rows = draw(chance, rng)
        chance = chance[rows]
    sums = residual.column_sums(rows, 1.0 / chance)
    inside, kernel = float((sums.inside / chance).sum()), float((sums.kernel / chance).sum())
    return _Sample(rows, sums.error / chance, inside, kernel, sums.error, sums.kernel, chance)


def _two_phases(residual: Residual, left: Leftover, m: int, rng: np.random.Generator) -> _Sample:
    """Draw half the rows by the diagonal of E, and half by the errors that the first half estimates."""
    chance = inclusion(_first_size(left), m // 2)
    first = draw(chance, rng)
    weights = 1.0 / chance[first]
    pilot = residual.column_sums(first, weights)
    diagonal = residual.diagonal(left)
    ratio = _ratio(
        float(diagonal @ diagonal + weights @ pilot.error),
        float(left.kernel @ left.kernel + weights @ pilot.kernel),
    )
    rest = np.setdiff1d(np.arange(residual.n_rows), first, assume_unique=True)
    guess, size, variance = _second_design(pilot, first, rest, weights, m - len(first), ratio)

    chance = inclusion(size, m - len(first))
    place = draw(chance, rng)
    second, chance = rest[place], chance[place]
    sums = residual.column_sums(second, 1.0 / chance)
    gap = sums.kernel - guess[place]
    return _Sample(
        np.concatenate([first, second]),
        np.concatenate([pilot.error, sums.error / chance]),
        float(pilot.inside.sum() + (sums.inside / chance).sum()),
        float(pilot.kernel.sum() + guess.sum() + (gap / chance).sum()),
        sums.error,
        gap,
        chance,
        variance,
    )


def block_intervals(
    operator: SymmetricOperator, exact: Callable[[IntArray, IntArray], FloatArray], *, n_rows: int
) -> Float64Array:
    """Return relative error, low and high of each diagonal block, shape (3, blocks).

    A block of at most ``n_rows`` rows is computed exactly. From a larger one, ``n_rows`` rows are drawn and
    compared with each other. Rows and columns are then sampled alike, so the standard error of the ratio is
    twice that of row sums.
    """
    intervals = np.full((3, operator.n_blocks), np.nan)
    for s, (count, error, kernel) in enumerate(operator.block_sums(exact, n_rows=n_rows)):
        m = len(error)
        if m == 0:
            continue
        ratio = _ratio(float(error.sum()), float(kernel.sum()))
        spread = 0.0
        if m < count:
            gaps = error - ratio * kernel
            spread = 2.0 * float(np.sqrt((1.0 - m / count) * m * gaps.var(ddof=1))) / kernel.sum()
        bounds = interval(ratio, spread, m) if m < count else (ratio, ratio)
        intervals[:, s] = np.sqrt([ratio, *bounds])
    return intervals


def _first_size(left: Leftover) -> Float64Array:
    """Return each row's share of the trace that the levels leave, mixed half and half with equal shares.

    Two rows that part below level l have the error that the bases down to l leave: |E_ij| ≤ (δ_i δ_j)^(1/2)
    if that matrix, with diagonal δ, is positive semi-definite. If it is not, a large |δ_i| is still a sign
    of a large error.
    """
    size = np.abs(left.levels)
    totals = size.sum(axis=1, keepdims=True)
    share = np.divide(size, totals, out=np.zeros_like(size), where=totals > 0).sum(axis=0)
    mean = float(share.mean())
    return UNIFORM * mean + (1.0 - UNIFORM) * share if mean > 0.0 else np.ones(len(share))


def _second_design(
    pilot: ColumnSums, first: IntArray, rest: IntArray, weights: Float64Array, count: int, ratio: float
) -> tuple[Float64Array, Float64Array, float]:
    """Return k̂_i of the rows that the first half left out, and how likely the second half draws each.

    Chances are in proportion to the second array; the third is the variance of the second half's sum, as
    estimated on the first half.
    """
    # A row of the first half is seen by one column less than other rows are.
    others = len(first) / (len(first) - 1.0)
    seen_error, seen_kernel = others * pilot.row_error[first], others * pilot.row_kernel[first]
    mean_error, mean = (float(np.average(v, weights=weights)) for v in (pilot.error, pilot.kernel))
    away = seen_kernel - mean
    slope = _ratio(float(weights @ (away * (pilot.kernel - mean))), float(weights @ away**2))
    slope = min(max(slope, 0.0), 1.0)
    guess = mean + slope * (pilot.row_kernel[rest] - mean)
    if mean_error <= 0.0:
        return guess, np.ones(len(rest)), 0.0
    gaps = pilot.error - ratio * (pilot.kernel - mean - slope * away)

    def drawn_by(share: float) -> tuple[Float64Array, float]:
        size, seen = (share * mean_error + (1.0 - share) * e for e in (pilot.row_error[rest], seen_error))
        # Row i stands for w_i rows; the other w_i − 1 can still be drawn.
        chance = np.minimum(seen * (count / size.sum()), 1.0)
        return size, design_variance(gaps, chance, weights - 1.0)

    return guess, *min(map(drawn_by, SHARES), key=lambda drawn: drawn[1])


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 0.0


#: Columns of a Lanczos block; each tile of K is evaluated once for all of them. Chosen by hand.
BLOCK = 4
#: Allowed probability that the upper bound is too low.
FAILURE = 0.05
#: Products with K that turn K̃'s leading eigenvector towards K's, to estimate ‖K‖₂. Chosen by hand.
POWER_STEPS = 2


class SpectralError(float):
    """‖K − K̃‖₂ as a number with bounds.

    ``low`` ≤ ‖K − K̃‖₂ is certain: it is ‖Ev‖/‖v‖ for a vector v, with E = K − K̃. ``high`` ≥ ‖K − K̃‖₂
    holds with probability 95 % over the random start. If only ``n_rows`` of n rows were used, the number is
    n/n_rows times the norm of that principal submatrix. This estimate suits errors that are spread over all
    rows and is too large for local ones; ``low`` is the submatrix's own bound and still certain, and ``high``
    is infinite. ``norm`` is ‖K‖₂, estimated from below and scaled in the same way; ``relative`` is the ratio
    of the two norms. ``iterations`` counts the products with E.
    """

    low: float
    high: float
    norm: float
    iterations: int
    n_rows: int

    def __new__(
        cls,
        value: float,
        low: float = 0,
        high: float = 0,
        norm: float = 0,
        iterations: int = 0,
        n_rows: int = 0,
    ) -> SpectralError:
        """Make the number and attach its evidence, which copies and pickles keep."""
        self = super().__new__(cls, value)
        self.low, self.high, self.norm = low, high, norm
        self.iterations, self.n_rows = iterations, n_rows
        return self

    @property
    def relative(self) -> float:
        """‖K − K̃‖₂/‖K‖₂."""
        return float(self) / self.norm if self.norm > 0 else 0.0

    def __repr__(self) -> str:
        return f"{float(self):.4g} in [{self.low:.4g}, {self.high:.4g}] ({self.n_rows} rows)"


def spectral_error(
    residual: Residual, *, n_rows: int | None, tol: float, rng: np.random.Generator
) -> SpectralError:
    r"""Estimate ‖E‖₂ for E = K − K̃ on all rows, or on ``n_rows`` of them drawn without replacement.

    Block Lanczos with full reorthogonalisation makes k products with E from b = 4 Gaussian columns. The
    extreme Ritz values θ and the eigenvalues λ of E satisfy

        P(λ_1 − θ_1 > ε (λ_1 − λ_n)) ≤ (1.648 √n exp(−√ε (2k − 1)))^b

    and the same at the lower end; the power b means that b independent starts must all fail. So k is chosen
    for ε = tol/(2 (1 + tol)) at 2.5 % on either side, which gives high ≤ (1 + tol)·low. For at most b·k rows,
    E is multiplied with the identity and low = high.

    Time O(n² d + n² b) for each of k ≈ log(n)/√(2 tol) products, memory O(n (r + d + b k)).
    Source: Kuczyński and Woźniakowski (1992), Theorem 4.2 and its shift invariance.
    """
    n = residual.n_rows
    m = n if n_rows is None else min(n_rows, n)
    rows = sample_rows(residual.source, m, rng)[0]
    rows = rows.astype(np.float64, copy=False)
    features, engine = residual.features, residual.engine
    operator = operator_of(
        features,
        as_source(rows),
        chunk_rows=residual.chunk_rows,
        engine=engine,
        stored_diagonal=residual.stored_diagonal,
    )

    def multiply(values: Float64Array) -> Float64Array:
        return np.asarray(features.kernel.matvec(rows, None, values, n_jobs=engine.n_jobs), np.float64)

    reach = float(np.log(1.648 * np.sqrt(m)) + np.log(2.0 / FAILURE) / BLOCK)
    steps = int(np.ceil((reach / np.sqrt(tol / (2.0 * (1.0 + tol))) + 1.0) / 2.0))
    epsilon = (reach / (2.0 * steps - 1.0)) ** 2
    error = _Extremes(lambda v: multiply(v) - operator @ v, m, steps, rng)
    low = error.norm
    high = low
    if error.products > 1:
        # 1 − 2ε > 0: the Ritz values' own spread gives the spread of E up to this factor.
        margin = epsilon * (error.top - error.bottom) / (1.0 - 2.0 * epsilon)
        high = max(low, error.top + margin, -error.bottom + margin)
    leading = _Extremes(lambda v: operator @ v, m, steps, rng).vector
    norm = 0.0
    for _ in range(POWER_STEPS):
        image = multiply(leading)
        norm = max(norm, float(la.norm(image) / la.norm(leading)))
        leading = image if image.any() else leading
    scale = n / m
    return SpectralError(scale * low, low, high if m == n else np.inf, scale * norm, error.products, m)


class _Extremes:
    """Extreme Ritz values of a symmetric operator on a Krylov space, and a lower bound of its norm."""

    def __init__(
        self, multiply: Callable[[Float64Array], Float64Array], n: int, steps: int, rng: np.random.Generator
    ) -> None:
        if n <= BLOCK * steps:
            basis, images, self.products = np.eye(n), multiply(np.eye(n)), 1
        else:
            basis, images, self.products = np.empty((n, 0)), np.empty((n, 0)), steps
            start = rng.standard_normal((n, BLOCK))
            block: FloatArray = la.qr(start, mode="economic", check_finite=False)[0]
            for _ in range(steps):
                image = multiply(np.asarray(block, np.float64))
                basis, images = np.hstack([basis, block]), np.hstack([images, image])
                block = image
                for _ in range(2):  # two rounds suffice
                    block = la.qr(block - basis @ (basis.T @ block), mode="economic", check_finite=False)[0]
        projected = basis.T @ images
        values, vectors = la.eigh((projected + projected.T) / 2, check_finite=False)
        self.top, self.bottom = float(values[-1]), float(values[0])
        self.vector = basis @ vectors[:, -1]
        # ‖E v‖/‖v‖ for the v in the space with the largest ratio; valid even if orthogonality was lost.
        longest = la.svd(images, full_matrices=False, check_finite=False)[2][0]
        self.norm = float(la.norm(images @ longest) / la.norm(basis @ longest))
