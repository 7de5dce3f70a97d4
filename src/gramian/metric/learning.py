"""Learning a metric: rounds of fit, outer product of gradients, and the metric that it gives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gramian._phases import Phases, silent
from gramian._typing import Float64Array
from gramian.metric.from_gradients import FLOOR, metric_of
from gramian.metric.metric import Metric

#: A round must lower the error by this part of it to count as progress.
PROGRESS = 2e-3
#: Factors of a bandwidth are tried in steps of this, this many in one direction at most.
STEP, STEPS = 1.5, 4
#: What powers are multiplied by after a round that was undone.
TIMID = 0.5


@dataclass(frozen=True)
class MetricLearningSettings:
    """How a metric is learned; see :class:`gramian.LearnedMetric`."""

    form: str = "diagonal"
    rounds: int = 5
    powers: tuple[float, ...] = (0.5, 1.0)
    bandwidth: bool = True
    patience: int = 1
    floor: float = FLOOR


@dataclass(frozen=True)
class Round:
    """What one round did."""

    error: float  #: held-out error of the fit in this round's metric; infinite where it was not finite
    power: float  #: of the outer product; 0 for the start
    bandwidth: float  #: what all distances were divided by, beside the metric, since the start
    kept: bool  #: whether the metric is the one that was chosen in the end
    undone: str  #: why the round was taken back, or ""
    seconds: float


class Fitted(Protocol):
    """A model that was fitted under a metric, with its error on held-out rows."""

    @property
    def error(self) -> float:
        """Held-out error; lower is better."""

    @property
    def fault(self) -> str:
        """What is wrong with the held-out predictions themselves, or ""."""

    def outer_product(self) -> Float64Array:
        """Return the average gradient outer product by the features as they were, (d,) or (d, d)."""


class Learner(Protocol):
    """What is fitted again and again, on the same rows."""

    @property
    def covariance(self) -> Float64Array:
        """Covariance of the rows, (d, d), or (d,) its diagonal."""

    def fit(self, metric: Metric, before: Any) -> Fitted:
        """Fit anew under a metric; ``before`` is the model of an earlier round, to start from, or None."""

    def screen(self, metric: Metric, before: Any) -> float:
        """Return the held-out error of a small, quick fit, by which candidates are compared."""


@dataclass(frozen=True)
class MetricResult:
    """The best metric that was found, and how."""

    metric: Metric
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class _Candidate:
    """A metric beside the choices that made it."""

    metric: Metric
    power: float
    bandwidth: float

    def wider(self, factor: float) -> _Candidate:
        """Return this with another bandwidth."""
        return replace(self, metric=self.metric.times(1.0 / factor), bandwidth=self.bandwidth * factor)


def learn_metric(
    learner: Learner, start: Metric, settings: MetricLearningSettings, phases: Phases = silent
) -> MetricResult:
    r"""Return the best metric of some rounds of fit → outer product of gradients → metric → refit.

    Round 0 is the fit under ``start``. Every later one takes M of the model so far, forms the metric of each
    power (:func:`~gramian.metric.from_gradients.metric_of`), compares them by ``learner.screen``, climbs to
    the best bandwidth where that is free, and fits. Then the error on held-out rows decides:

    - it falls: the round is the best so far, and the next begins from it;
    - it does not fall: the next begins from it still, ``patience`` times; then learning ends;
    - the round is *bad*: predictions that are not finite or far outside of the targets' range, or an error
      above that of round 0. It is undone: the next begins from the best round, with half the power, and
      learning ends after ``patience`` of these.

    The best round is kept, round 0 among them, so that the result is never worse than no metric, on those
    rows. Cost: a fit a round, and len(powers) + 2 to 6 small fits.

    Source: Radhakrishnan et al. 2024 (recursive feature machines), algorithm 1.
    """
    began = time.perf_counter()
    phases("metric, fit without one")
    fitted = learner.fit(start, None)
    first = best = _judge(fitted)
    found: list[Round] = [_round(best, _Candidate(start, 0.0, 1.0), "", began)]
    chosen, place, model = _Candidate(start, 0.0, 1.0), 0, fitted
    now, now_model, tame, idle = chosen, fitted, 1.0, 0
    for number in range(settings.rounds):
        began = time.perf_counter()
        phases(f"metric, round {number + 1} of {settings.rounds}, best error {best:.3g}")
        M = now_model.outer_product()
        if not np.isfinite(M).all() or not M.any():
            break  # a constant f, or one that no metric can be read from
        candidate = _best_candidate(learner, M, now_model, now.bandwidth, settings, tame)
        fitted = learner.fit(candidate.metric, now_model)
        error = _judge(fitted)
        undone = fitted.fault
        if not undone and error > first * (1.0 + PROGRESS):
            undone = f"held-out error {error:.4g} above the {first:.4g} of no metric"
        found.append(_round(error, candidate, undone, began))
        if undone:
            now, now_model, tame, idle = chosen, model, tame * TIMID, idle + 1
        elif error < best * (1.0 - PROGRESS):
            best, chosen, place, model = error, candidate, len(found) - 1, fitted
            now, now_model, idle = candidate, fitted, 0
        else:
            now, now_model, idle = candidate, fitted, idle + 1
        if idle > settings.patience:
            break
    rounds = [replace(each, kept=i == place) for i, each in enumerate(found)]
    return MetricResult(chosen.metric, tuple(rounds))


def _best_candidate(
    learner: Learner,
    M: Float64Array,
    before: Any,
    bandwidth: float,
    settings: MetricLearningSettings,
    tame: float,
) -> _Candidate:
    """Return the best power, then the best bandwidth for it, by small fits."""
    candidates: list[_Candidate] = []
    for power in settings.powers:
        metric = metric_of(M, power * tame, learner.covariance, floor=settings.floor)
        candidates.append(_Candidate(metric.times(1.0 / bandwidth), power * tame, bandwidth))
    if len(candidates) == 1 and not settings.bandwidth:
        return candidates[0]
    errors = [learner.screen(candidate.metric, before) for candidate in candidates]
    at = _least(errors)
    if not settings.bandwidth:
        return candidates[at]
    return _climb(learner, before, candidates[at], errors[at])


def _climb(learner: Learner, before: Any, start: _Candidate, error: float) -> _Candidate:
    """Return the best bandwidth uphill of ``start``: narrower and wider while that helps."""
    for factor in (1.0 / STEP, STEP):
        best, lowest = start, error
        for _ in range(STEPS):
            tried = best.wider(factor)
            found = learner.screen(tried.metric, before)
            if not found < lowest:
                break
            best, lowest = tried, found
        if best is not start:
            return best
    return start


def _judge(fitted: Fitted) -> float:
    """Return the error, infinite where there is none."""
    return fitted.error if np.isfinite(fitted.error) else np.inf


def _round(error: float, candidate: _Candidate, undone: str, began: float) -> Round:
    return Round(
        float(error), candidate.power, candidate.bandwidth, False, undone, time.perf_counter() - began
    )


def _least(errors: Sequence[float]) -> int:
    """Return where the least error is; those that are not finite count as infinite."""
    return int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
