"""Choice of a kernel and a ridge penalty for labelled rows, by dense systems of a sample of them.

Each candidate is fitted to some rows, by the gradient of its leave-one-out error, and compared on held-out
rows. First come kernels with one lengthscale, in the features' own units and in units of their deviations.
The best two families go on to more rows, also with a lengthscale for each feature, held near its start by a
prior.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._numerics import cholesky_lower
from gramian._phases import Phases, silent
from gramian._tiles import blas_for
from gramian._typing import Float64Array
from gramian.estimator.labelled import LabelledRows
from gramian.exact.loo import SQUARES, per_feature, refine_kernel
from gramian.exceptions import BudgetError, NumericalError, NumericalWarning
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.search import Limits, Trial, Trials, search

#: Rows that kernels with one lengthscale are fitted to, rows for the best of them, and most held-out rows.
FIRST_ROWS, MORE_ROWS, HELD_OUT_ROWS = 300, 1_000, 2_000
#: With fewer rows nothing is chosen: a dozen rows would be held out.
LEAST_ROWS = 40
#: Kernels that go on to more rows.
SURVIVORS = 2
#: Share of few rows that is held out.
HELD_OUT = 1 / 3
#: Most features that get a lengthscale each: what few rows say about each shrinks with their number. By hand.
MOST_FEATURES = 300
#: Deviation of the prior on the logarithm of a feature's lengthscale over the one for all. Of 0.2 to 1.5 and
#: none, 0.7 was best or next to it on eight sets with 8 to 256 features.
PRIOR = 0.7
#: Penalty where the search begins, for targets of deviation 1. By hand.
FIRST_ALPHA = 0.1
#: Iterations of a fit. By hand.
ITERATIONS = 25
#: Most numbers in the differences of all pairs of rows, which bounds MORE_ROWS for many features; by hand.
PAIRS = 40_000_000
#: Mean squared error over the targets' variance at which there is nothing left to learn. By hand.
ENOUGH = 1e-6
#: Ratio of the largest deviation of a feature to the least from which units of deviations are tried. By hand.
UNLIKE = 1.5
#: The work takes one part in so many of the memory budget, with so many copies of the rows.
PART, COPIES = 8, 4


@dataclass(frozen=True)
class KernelCandidate:
    """A kernel of rows that are divided by ``unit``, and the penalty to begin with."""

    kernel: Kernel
    unit: Float64Array | None  #: None for the features as they are
    alpha: float = FIRST_ALPHA
    each_feature: bool = False

    @property
    def unscaled(self) -> Kernel:
        """The kernel of the rows as they are."""
        if self.unit is None:
            return self.kernel
        scale = np.asarray(self.kernel.lengthscale) * self.unit  # type: ignore[attr-defined]
        return replace(self.kernel, lengthscale=tuple(scale.tolist()))  # type: ignore[type-var]


@dataclass(frozen=True)
class Sample:
    """Rows in memory, their targets and weights, in two parts: to fit to, and held out."""

    X: Float64Array
    Y: Float64Array
    weights: Float64Array
    fitted: slice
    held_out: slice


@dataclass(frozen=True)
class KernelChoice:
    """The kernel and the penalty that were chosen, and what was tried."""

    kernel: Kernel
    alpha: float
    n_rows: int  #: that the chosen one was fitted to
    n_held_out: int
    tried: tuple[Kernel, ...]
    errors: Float64Array  #: mean squared error over the targets' variance, for each that was tried
    alphas: Float64Array  #: the penalty of each that was tried
    seconds: float

    @property
    def finalists(self) -> tuple[tuple[Kernel, float], ...]:
        """The kernel that was chosen, and the best of the other form, each with its penalty.

        The forms are one lengthscale, and one for each feature. On a sample they may come out close, and
        otherwise on all rows.
        """
        form = np.ndim(self.kernel.lengthscale)  # type: ignore[attr-defined]
        others = [k for k, one in enumerate(self.tried) if np.ndim(one.lengthscale) != form]  # type: ignore[attr-defined]
        others = [k for k in others if np.isfinite(self.errors[k])]
        best = sorted(others, key=lambda k: float(self.errors[k]))[:1]
        return ((self.kernel, self.alpha), *((self.tried[k], float(self.alphas[k])) for k in best))


def choose_kernel(
    rows: LabelledRows[Any],
    families: Sequence[Kernel],
    *,
    each_feature: bool,
    intercept: bool,
    rng: np.random.Generator,
    memory_bytes: int,
    seconds: float = math.inf,
    phases: Phases = silent,
) -> KernelChoice | None:
    """Return the best of some kernels, with its lengthscales and a penalty, for rows like these.

    families : kernels with one lengthscale, whose value is not used. each_feature : whether a lengthscale for
    each feature may be chosen. seconds : time after which no step is
    begun; one kernel is tried in any case. None
    for fewer than 40 rows with a weight. Time O(candidates · m³) for m ≤ 300 rows, and of a few more steps
    for 1,000; memory within an eighth of ``memory_bytes``, or ``BudgetError`` where 40 rows do not fit.
    """
    began = time.perf_counter()
    deadline = began + seconds
    sample = _draw_sample(rows, intercept, rng, memory_bytes)
    if sample is None:
        return None
    deviations = sample.X[sample.fitted].std(axis=0)
    d = sample.X.shape[1]
    mean_square = float(np.mean(np.square(deviations))) or 1.0
    unit = np.where(deviations > 0, deviations, math.sqrt(mean_square))
    starts = [KernelCandidate(_with(family, math.sqrt(d * mean_square)), None) for family in families]
    each_feature = each_feature and 1 < d <= MOST_FEATURES
    if each_feature and unit.max() > UNLIKE * unit.min():
        starts += [KernelCandidate(_with(family, math.sqrt(d)), unit) for family in families]

    least = math.inf

    def judged(some: Sample, candidate: KernelCandidate) -> tuple[float, KernelCandidate]:
        nonlocal least
        error, fitted = _fit_and_score(some, candidate, intercept, deadline)
        least = min(least, error)
        done(1, f"best error {least:.3g} of the variance")
        return error, fitted

    few = replace(sample, fitted=slice(0, min(FIRST_ROWS, sample.fitted.stop)))
    done = phases(f"kernels on {few.fitted.stop:,} rows", len(starts), unit="kernels")
    first = search(few, [starts], judged, Limits(deadline=began + seconds / 2, at_least=1))
    best = _best_of_families(first)[:SURVIVORS]
    goes_on = [trial.evidence for trial in best]
    if each_feature:
        # The likeliest winners first, should the time end.
        freed = [replace(one, kernel=per_feature(one.kernel, d), each_feature=True) for one in goes_on]
        goes_on = freed + goes_on
    most = max(FIRST_ROWS, min(MORE_ROWS, math.isqrt(PAIRS // d)))
    more = replace(sample, fitted=slice(0, min(most, sample.fitted.stop)))
    done = phases(f"kernels on {more.fitted.stop:,} rows", len(goes_on), unit="kernels")
    second = search(more, [goes_on], judged, Limits(deadline=deadline, at_least=1))
    trials = (*first.made, *second.made)
    top = second.best or first.best
    # Where no kernel can be fitted at all, the first one as it began is as good as any.
    chosen = top.evidence if top is not None else starts[0]
    n_fitted = more.fitted.stop
    if n_fitted < min(most, len(sample.X)) and time.perf_counter() < deadline:
        # The held-out rows have had their say, and are more rows to learn from.
        n_fitted = min(most, len(sample.X))
        _, chosen = _fit_and_score(replace(sample, fitted=slice(0, n_fitted)), chosen, intercept, deadline)
    return KernelChoice(
        chosen.unscaled,
        chosen.alpha,
        n_fitted,
        sample.held_out.stop - sample.held_out.start,
        tuple(trial.evidence.unscaled for trial in trials),
        np.array([trial.error for trial in trials]),
        np.array([trial.evidence.alpha for trial in trials]),
        time.perf_counter() - began,
    )


def _draw_sample(
    rows: LabelledRows[Any], intercept: bool, rng: np.random.Generator, memory_bytes: int
) -> Sample | None:
    """Return a sample of the rows with weights, as many as the budget allows; targets of mean square 1."""
    counted = rows.counted
    if len(counted) < LEAST_ROWS:
        return None
    d = rows.source.shape[1]
    each = 8 * PART * COPIES * d
    room = min(memory_bytes // each, math.isqrt(memory_bytes // (8 * PART * SQUARES)))
    if room < LEAST_ROWS:
        least = max(each * LEAST_ROWS, 8 * PART * SQUARES * LEAST_ROWS**2)
        raise BudgetError(
            f"memory_budget={format_bytes(memory_bytes)} is too small to choose a kernel for {d} "
            f"features: at least {format_bytes(least)} is needed. Raise the budget, or name a kernel and a "
            "gamma.",
            least,
        )
    most = min(len(counted), room, MORE_ROWS + HELD_OUT_ROWS)
    numbers = rng.choice(counted, most, replace=False)
    held_out = min(HELD_OUT_ROWS, max(1, round(HELD_OUT * most)))
    part = rows.read(numbers)
    Y = np.array(part.numbers, np.float64)
    weights = np.ones(most) if part.weights is None else part.weights / part.weights.mean()
    if intercept:
        Y -= weights @ Y / weights.sum()
    Y /= math.sqrt(float(np.mean(weights @ np.square(Y)) / weights.sum())) or 1.0
    X = np.asarray(dense(part.rows), np.float64)
    return Sample(X, Y, weights, slice(0, most - held_out), slice(most - held_out, most))


def _with(family: Kernel, lengthscale: float) -> Kernel:
    return replace(family, lengthscale=lengthscale)  # type: ignore[type-var]


def _best_of_families(
    trials: Trials[KernelCandidate, KernelCandidate],
) -> list[Trial[KernelCandidate, KernelCandidate]]:
    """Return for each family its better trial, by their errors."""
    best: dict[type[Kernel], Trial[KernelCandidate, KernelCandidate]] = {}
    for trial in trials.ranked:
        best.setdefault(type(trial.evidence.kernel), trial)
    return list(best.values())


def _fit(sample: Sample, candidate: KernelCandidate, intercept: bool, deadline: float) -> KernelCandidate:
    X = _in_units(sample.X[sample.fitted], candidate)
    refined = refine_kernel(
        candidate.kernel,
        X,
        sample.Y[sample.fitted],
        candidate.alpha,
        weights=sample.weights[sample.fitted],
        intercept=intercept,
        max_iterations=ITERATIONS,
        prior=PRIOR if candidate.each_feature else None,
        enough=ENOUGH * sample.Y.shape[1],
        deadline=deadline,
    )
    return replace(candidate, kernel=refined.kernel, alpha=refined.alpha)


def _in_units(X: Float64Array, candidate: KernelCandidate) -> Float64Array:
    return X if candidate.unit is None else X / candidate.unit


def _fit_and_score(
    sample: Sample, candidate: KernelCandidate, intercept: bool, deadline: float
) -> tuple[float, KernelCandidate]:
    """Fit a candidate, and return its error on the held-out rows and what it became."""
    with warnings.catch_warnings():
        # A candidate that is ill-conditioned is judged by its error like any other.
        warnings.simplefilter("ignore", NumericalWarning)
        try:
            fitted = _fit(sample, candidate, intercept, deadline)
            return _error(sample, fitted, intercept), fitted
        except NumericalError:
            return math.inf, candidate


def _error(sample: Sample, candidate: KernelCandidate, intercept: bool) -> float:
    X, new = _in_units(sample.X[sample.fitted], candidate), _in_units(sample.X[sample.held_out], candidate)
    w, v = sample.weights[sample.fitted], sample.weights[sample.held_out]
    Y, wanted = sample.Y[sample.fitted], sample.Y[sample.held_out]
    with blas_for(len(X)):
        system = np.asarray(candidate.kernel(X, dtype=np.float64, n_jobs=1), np.float64)
        system.flat[:: len(X) + 1] += candidate.alpha / w
        lower, _ = cholesky_lower(system, "the kernel matrix K + alpha·I")
        mean = np.zeros(Y.shape[1])
        if intercept:
            ones = la.cho_solve((lower, True), np.ones(len(X)))
            mean = ones @ Y / ones.sum()
        coefficients = la.cho_solve((lower, True), Y - mean)
        values = np.asarray(candidate.kernel(new, X, dtype=np.float64, n_jobs=1)) @ coefficients + mean
    return float(v @ np.square(wanted - values).mean(axis=1) / v.sum())
