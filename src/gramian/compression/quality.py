r"""Error estimates of K̃: Frobenius error from sampled rows with a confidence interval, trace, blocks.

‖K − K̃‖_F² is the sum over rows of Σ_j E_ij², and a few rows may hold much of it. So the sample goes
where the error is: one pass finds what K̃ leaves of each diagonal entry, which for E ⪰ 0 bounds a row's
error; half of the sample is drawn by it; the columns of that half estimate the error of *every* row; the
other half is drawn by the estimate. Each step keeps the sum unbiased, for a row's weight is one over the
probability with which it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from gramian._typing import Float64Array, FloatArray, IntArray
from gramian.compression.residual import ColumnSums, Leftover, Residual
from gramian.compression.row_sampling import design_variance, draw, inclusion, sum_variance
from gramian.operators.base import SymmetricOperator

#: Quantile of Student's t on either side. Over the cases of benchmarks/quality_coverage.py with 260 and with
#: 2,000 rows, the interval covered the truth in 98 % of the trials at 0.975 and in 99 % at 0.99; in the worst
#: case, two dozen rows with nearly all of the error, in 88 and 92 %.
QUANTILE = 0.99
#: Fewer rows than this give a number without an interval.
LEAST_ROWS = 8
#: Share of the first half's probability that all rows have alike.
UNIFORM = 0.5
#: Shares of the second half's that are tried on the first.
SHARES = (0.2, 0.35, 0.5, 0.75)


class ErrorEstimate(float):
    """A relative error with ``standard_error``, ``n_rows`` and its 95 % interval ``low``, ``high``."""

    standard_error: float
    n_rows: int
    low: float
    high: float

    def __new__(
        cls, value: float, standard_error: float, n_rows: int, low: float, high: float
    ) -> ErrorEstimate:
        """Make the number and attach its evidence."""
        self = super().__new__(cls, value)
        self.standard_error = standard_error
        self.n_rows = n_rows
        self.low, self.high = low, high
        return self

    def __repr__(self) -> str:
        return f"{float(self):.4g} ± {self.standard_error:.2g} ({self.n_rows} rows)"

    def __reduce__(self) -> tuple[type[ErrorEstimate], tuple[float, float, int, float, float]]:
        return ErrorEstimate, (float(self), self.standard_error, self.n_rows, self.low, self.high)


@dataclass(frozen=True)
class Measured:
    """What a sample of rows says about E = K − K̃."""

    relative: ErrorEstimate  #: ‖E‖_F/‖K‖_F
    trace: ErrorEstimate  #: tr(E)/tr(K), exact
    squared: Float64Array  #: Σ E_ij² by the leaf block of row i, shape (blocks,)
    inside: float  #: Σ E_ij² where i and j share a leaf block
    diagonal: float  #: Σ E_ii²
    counts: IntArray  #: rows of each block


def relative_error(residual: Residual, *, n_rows: int, rng: np.random.Generator) -> ErrorEstimate:
    """Return the Frobenius part of :func:`measure`."""
    return measure(residual, n_rows=n_rows, rng=rng).relative


def trace_error(residual: Residual) -> ErrorEstimate:
    """Return tr(K − K̃)/tr(K), the relative nuclear norm where K − K̃ ⪰ 0; exact, in one pass.

    Time O(n (m d + r)), memory O(n).
    """
    return _trace_error(residual, residual.leftover())


def measure(residual: Residual, *, n_rows: int, rng: np.random.Generator) -> Measured:
    r"""Estimate ‖K − K̃‖_F/‖K‖_F from ``n_rows`` rows, with its 95 % interval.

    With e_i = Σ_{j≠i} E_ij² and k_i = Σ_{j≠i} K_ij², both diagonals are summed over all rows and

        ‖E‖_F² ≈ Σ_i E_ii² + Σ_{i∈A} e_i + Σ_{i∈B} e_i/π_i,
        ‖K‖_F² ≈ Σ_i K_ii² + Σ_{i∈A} k_i + Σ_{i∉A} k̂_i + Σ_{i∈B} (k_i − k̂_i)/π_i.

    A, the first half, is drawn without replacement by what the levels of bases leave of the diagonal,
    mixed half and half with equal chances. Its columns give ẽ_i and k̃_i of every other row, without bias.
    B is drawn with π_i by a mixture of ẽ_i and its mean, whose share is the one of least variance on A;
    k̂_i is k̃_i drawn towards its mean as far as A says.

    The standard error is Hájek's for B, of the ratio r, or what A foretold of it if that is more: a B that
    misses the few rows which hold much of the error is sure of itself. The interval is r·exp(±h) with
    h = t·se/r + ln(1 + g/r): t is Student's at 98 %, because tails that no row of the sample has met are
    missing in se, and g = (1 − m/n) Σ E_ii²/(m ‖K‖_F²) says that one row in m may hold off its diagonal what
    it holds on it. ``benchmarks/quality_coverage.py`` has the coverage. Fewer than 8 rows give the interval
    (0, ∞).

    The draw is its own, independent of the sample that K̃ was built on. With all rows all is exact. Three
    passes; time O(n_rows · n · (d + r) + n m (d + r)), memory O(n_rows · (d + R) + n) and tiles.

    Source: Horvitz and Thompson (1952); Hájek (1964); the two phases are gramian's.
    """
    n, left = residual.n_rows, residual.leftover()
    m = min(n_rows, n)
    certain = m == n or m < LEAST_ROWS
    found = _one_phase(residual, left, m, rng) if certain else _two_phases(residual, left, m, rng)

    diagonal = residual.diagonal(left) ** 2
    kernel = float(left.kernel @ left.kernel) + found.kernel
    ratio = _ratio(float(diagonal.sum() + found.error.sum()), kernel)
    low, high, spread = 0.0, np.inf, np.inf
    if not certain or m == n:
        variance, loose = sum_variance(found.gap_error - ratio * found.gap_kernel, found.chance)
        spread = _ratio(float(np.sqrt(max(variance, found.foretold))), kernel)
        unseen = _ratio((1.0 - m / n) / m * float(left.final @ left.final), kernel)
        low, high = interval(ratio, spread, loose, unseen)
    value = float(np.sqrt(ratio))
    blocks = residual.features.partition.n_blocks
    held = np.concatenate([left.leaves, left.leaves[found.rows]])
    squared = np.bincount(held, np.concatenate([diagonal, found.error]), minlength=blocks)
    return Measured(
        ErrorEstimate(value, _root_error(spread, value), m, float(np.sqrt(low)), float(np.sqrt(high))),
        _trace_error(residual, left),
        np.asarray(squared, np.float64),
        found.inside + float(diagonal.sum()),
        float(diagonal.sum()),
        np.bincount(left.leaves, minlength=blocks),
    )


@dataclass(frozen=True)
class _Sample:
    """Estimates off the diagonal, and what their variance is made of."""

    rows: IntArray  #: rows that were drawn
    error: Float64Array  #: what each adds to Σ e_i
    inside: float  #: the part of Σ e_i inside the leaf blocks
    kernel: float  #: Σ k_i
    gap_error: Float64Array  #: e_i of the rows of the last phase
    gap_kernel: Float64Array  #: k_i − k̂_i of them
    chance: Float64Array  #: π_i of them
    foretold: float = 0.0  #: variance that the first phase expects of the last


def _one_phase(residual: Residual, left: Leftover, m: int, rng: np.random.Generator) -> _Sample:
    """Draw by what the bases leave of the diagonal; all rows where m is their number."""
    rows, chance = np.arange(m), np.ones(m)
    if m < residual.n_rows:
        chance = inclusion(_first_size(left), m)
        rows = draw(chance, rng)
        chance = chance[rows]
    sums = residual.column_sums(rows, 1.0 / chance)
    inside, kernel = float((sums.inside / chance).sum()), float((sums.kernel / chance).sum())
    return _Sample(rows, sums.error / chance, inside, kernel, sums.error, sums.kernel, chance)


def _two_phases(residual: Residual, left: Leftover, m: int, rng: np.random.Generator) -> _Sample:
    """Draw half by what the bases leave of the diagonal, half by the errors that the first half shows."""
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
    design = _second_design(pilot, first, rest, weights, m - len(first), ratio)

    chance = inclusion(design.size, m - len(first))
    place = draw(chance, rng)
    second, chance = rest[place], chance[place]
    sums = residual.column_sums(second, 1.0 / chance)
    gap = sums.kernel - design.guess[place]
    return _Sample(
        np.concatenate([first, second]),
        np.concatenate([pilot.error, sums.error / chance]),
        float(pilot.inside.sum() + (sums.inside / chance).sum()),
        float(pilot.kernel.sum() + design.guess.sum() + (gap / chance).sum()),
        sums.error,
        gap,
        chance,
        design.variance,
    )


def interval(ratio: float, error: float, loose: int, unseen: float = 0.0) -> tuple[float, float]:
    """Return the 95 % interval of a ratio r >= 0 with standard error se: r·exp(±(t·se/r + ln(1 + g/r)))."""
    if ratio <= 0.0:
        return 0.0, unseen
    student = float(stdtrit(max(loose - 1, 1), QUANTILE))
    with np.errstate(over="ignore"):
        width = float(np.exp(student * error / ratio) * (1.0 + unseen / ratio))
    return ratio / width, ratio * width


def block_intervals(
    operator: SymmetricOperator, exact: Callable[[IntArray, IntArray], FloatArray], *, n_rows: int
) -> Float64Array:
    """Return relative error, low and high of each diagonal block, shape (3, blocks).

    A block of at most ``n_rows`` rows is exact. Of a larger one that many rows are met with each other, so
    that rows and columns are sampled alike: the standard error of the ratio is twice that of row sums.
    """
    found = np.full((3, operator.n_blocks), np.nan)
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
        found[:, s] = np.sqrt([ratio, *bounds])
    return found


def _trace_error(residual: Residual, left: Leftover) -> ErrorEstimate:
    total = float(left.kernel.sum())
    value = float(residual.diagonal(left).sum()) / total if total > 0 else 0.0
    return ErrorEstimate(value, 0.0, residual.n_rows, value, value)


def _first_size(left: Leftover) -> Float64Array:
    """Each row's share of what the levels leave of the trace, summed over them; half of it alike for all.

    Two rows that part below level l meet in what the bases down to l leave: |E_ij| ≤ (δ_i δ_j)^(1/2) where
    that is positive semidefinite. Elsewhere |δ_i| still tells which rows are badly met.
    """
    size = np.abs(left.levels)
    totals = size.sum(axis=1, keepdims=True)
    share = np.divide(size, totals, out=np.zeros_like(size), where=totals > 0).sum(axis=0)
    mean = float(share.mean())
    return UNIFORM * mean + (1.0 - UNIFORM) * share if mean > 0.0 else np.ones(len(share))


@dataclass(frozen=True)
class _Design:
    """How the second half is drawn from the rows that the first left."""

    guess: Float64Array  #: k̂_i
    size: Float64Array  #: to which π_i is proportional
    variance: float  #: of the sum to come, as far as the first half can tell


def _second_design(
    pilot: ColumnSums, first: IntArray, rest: IntArray, weights: Float64Array, count: int, ratio: float
) -> _Design:
    # A row of the first half is seen by one column less than the others are.
    others = len(first) / (len(first) - 1.0)
    seen_error, seen_kernel = others * pilot.row_error[first], others * pilot.row_kernel[first]
    mean_error, mean = (float(np.average(v, weights=weights)) for v in (pilot.error, pilot.kernel))
    away = seen_kernel - mean
    slope = _ratio(float(weights @ (away * (pilot.kernel - mean))), float(weights @ away**2))
    slope = min(max(slope, 0.0), 1.0)
    guess = mean + slope * (pilot.row_kernel[rest] - mean)
    if mean_error <= 0.0:
        return _Design(guess, np.ones(len(rest)), 0.0)
    gaps = pilot.error - ratio * (pilot.kernel - mean - slope * away)

    def drawn_by(share: float) -> _Design:
        size, seen = (share * mean_error + (1.0 - share) * e for e in (pilot.row_error[rest], seen_error))
        # w_i − 1 of the rows that row i stands for are still to be drawn from.
        chance = np.minimum(seen * (count / size.sum()), 1.0)
        return _Design(guess, size, design_variance(gaps, chance, weights - 1.0))

    return min(map(drawn_by, SHARES), key=lambda design: design.variance)


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 0.0


def _root_error(error: float, value: float) -> float:
    """Standard error of the root of a ratio (delta method)."""
    return error / (2.0 * value) if value > 0 else 0.0
