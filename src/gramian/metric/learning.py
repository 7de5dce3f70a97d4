"""Learning a metric: its settings, and rounds of fit, outer product of gradients, and a new metric."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from gramian._checks import not_negative, one_of, positive_number, whole_number
from gramian._phases import Phases, silent
from gramian._typing import Float64Array
from gramian.exceptions import InputError
from gramian.metric.metric import Metric, metric_of
from gramian.metric.outer_product import FORMS

#: A round must lower the error by this part of it to count as progress.
PROGRESS = 2e-3
#: Factors of a bandwidth are tried in steps of this, this many in one direction at most.
STEP, STEPS = 1.5, 4
#: What powers are multiplied by after a round that was undone.
TIMID = 0.5


@dataclass(eq=False, repr=False)
class LearnedMetric(BaseEstimator):
    r"""A metric learned with the model, for ``metric=`` of the estimators: how it is learned.

    One bandwidth for all features throws accuracy away where few of them matter. Rounds of fit → average
    outer product of its gradients M = E ∇f ∇fᵀ → metric M^p → refit find out which ones do (recursive feature
    machines). They use some of the rows. The round with the least error on held-out rows is kept, which may
    be the one without a metric. Then the model is fitted to all rows under that metric, with landmarks chosen
    in it.
    ``metric="diagonal"`` is ``gm.LearnedMetric()``, ``metric="full"`` is ``gm.LearnedMetric("full")``.

    Parameters
    ----------
    form : {"diagonal", "full"}, default="diagonal"
        A scale for each feature, or a matrix (d, d) that mixes them: O(d³) time, O(d²) memory, and sparse
        rows become dense.
    rounds : int, default=5
        At most.
    powers : sequence of float, default=(0.5, 1.0)
        Powers of M to choose from in each round: 0 would change nothing, 1 makes f change alike in every
        direction.
    bandwidth : {"auto", True, False}, default="auto"
        Whether a factor of all distances is chosen in each round too, by small fits; it is part of
        ``metric_``. "auto" does so for a kernel by name with ``gamma=None``.
    patience : int, default=1
        Rounds without progress after which learning goes on.
    rows : int, default=10_000
        Rows to learn from at most, drawn at random from those of positive weight (fewer where they would take
        an eighth of the memory budget); under 60 rows nothing is learned.
    held_out : float, default=0.2
        Fraction of these rows that is held out for validation, at most 4,000 rows.
    gradient_rows : int, default=2_000
        Rows at which gradients are taken, at most.
    switched : sequence of groups of columns, default=()
        Columns to be switched between their values in place of a derivative, such as the one-hot columns of a
        category: ``[(4, 5, 6)]``. Those of two values are found, and switched, in any case.
    floor : float, default=1e-4
        Least eigenvalue of the metric, as a part of the largest.

    A round is undone where its held-out predictions are not finite, lie outside of the targets' range by
    three times its width, or have a larger error than those without a metric; the next one begins from the
    best with half the power. See :func:`gramian.metric.metric.metric_of` for power and floor.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin 2024.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).standard_normal((1000, 10))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> plain = gm.KernelRidge(0.1, random_state=0).fit(X[:800], y[:800])
    >>> model = gm.KernelRidge(0.1, metric=gm.LearnedMetric(rounds=3), random_state=0).fit(X[:800], y[:800])
    >>> bool(model.score(X[800:], y[800:]) > 0.95 > plain.score(X[800:], y[800:]))
    True
    >>> bool(model.feature_importances_[:2].sum() > 0.8)
    True
    """

    form: str = "diagonal"
    _: KW_ONLY
    rounds: int = 5
    powers: Any = (0.5, 1.0)
    bandwidth: Any = "auto"
    patience: int = 1
    rows: int = 10_000
    held_out: float = 0.2
    gradient_rows: int = 2_000
    switched: Any = ()
    floor: float = 1e-4

    def checked(self, *, free: bool) -> LearnedMetric:
        """Return the checked settings; ``free`` says what bandwidth="auto" is."""
        one_of("form", self.form, FORMS)
        if self.bandwidth not in ("auto", True, False):
            raise InputError(f"bandwidth={self.bandwidth!r} is unknown. Give 'auto', True or False.")
        powers = self.powers
        if isinstance(powers, str) or not isinstance(powers, Iterable) or not list(powers):
            raise InputError(f"powers={powers!r} must be numbers to choose from, such as (0.5, 1.0).")
        return replace(
            self,
            rounds=whole_number("rounds", self.rounds, 1),
            powers=tuple(positive_number(f"powers[{i}]", p) for i, p in enumerate(powers)),
            bandwidth=free if self.bandwidth == "auto" else bool(self.bandwidth),
            patience=whole_number("patience", self.patience, 0),
            floor=_share("floor", self.floor, not_negative),
            rows=whole_number("rows", self.rows, 60),
            held_out=_share("held_out", self.held_out, positive_number),
            gradient_rows=whole_number("gradient_rows", self.gradient_rows, 1),
            switched=_groups(self.switched),
        )


def _share(name: str, value: object, checked: Callable[[str, object], float]) -> float:
    """Return a number under 1."""
    number = float(checked(name, value))
    if not isinstance(value, numbers.Real) or number >= 1:
        raise InputError(f"{name}={value!r} must be under 1.")
    return number


def _groups(switched: Any) -> tuple[tuple[int, ...], ...]:
    """Return groups of columns as tuples of whole numbers."""
    sequence = isinstance(switched, Sequence | np.ndarray) and not isinstance(switched, str)
    if not sequence or not all(
        isinstance(group, Sequence | np.ndarray) and not isinstance(group, str) for group in switched
    ):
        raise InputError(
            f"switched={switched!r} must be groups of columns, such as [(4, 5, 6)] for the one-hot columns "
            "of a category."
        )
    return tuple(tuple(int(j) for j in group) for group in switched)


@dataclass(frozen=True)
class Round:
    """What one round did."""

    error: float  #: held-out error of the fit in this round's metric; infinite where it was not finite
    power: float  #: of the outer product; 0 for the start
    bandwidth: float  #: what all distances were divided by, beside the metric, since the start
    kept: bool  #: whether the metric is the one that was chosen in the end
    undone: str  #: why the round was taken back, or ""
    seconds: float


class Learner(Protocol):
    """What is fitted again and again, on the same rows."""

    @property
    def covariance(self) -> Float64Array:
        """Covariance of the rows, (d, d), or (d,) its diagonal."""

    def fit(self, metric: Metric, before: Any) -> Any:
        """Fit anew under a metric; ``before`` is the model of an earlier round, to start from, or None.

        The model has its ``error`` on held-out rows, lower being better; as ``fault`` what is wrong with the
        predictions of these themselves, or ""; and ``outer_product()``, the average gradient outer product by
        the features as they were, (d,) or (d, d).
        """

    def screen(self, metric: Metric, before: Any) -> float:
        """Return the held-out error of a small, quick fit, by which candidates are compared."""


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
    learner: Learner, start: Metric, settings: LearnedMetric, phases: Phases = silent
) -> tuple[Metric, tuple[Round, ...]]:
    r"""Return the best metric of some rounds, and the rounds.

    They are fit → outer product of gradients → metric → refit.

    Round 0 is the fit under ``start``. Every
    later one takes M of the model so far, forms the metric of each power
    (:func:`~gramian.metric.metric.metric_of`), compares them by ``learner.screen``, climbs to the best
    bandwidth where that is free, and fits. Then the error on held-out rows decides:

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
    first = best = _error_of(fitted)
    tried: list[Round] = [_round(best, _Candidate(start, 0.0, 1.0), "", began)]
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
        error = _error_of(fitted)
        undone = fitted.fault
        if not undone and error > first * (1.0 + PROGRESS):
            undone = f"held-out error {error:.4g} above the {first:.4g} of no metric"
        tried.append(_round(error, candidate, undone, began))
        if undone:
            now, now_model, tame, idle = chosen, model, tame * TIMID, idle + 1
        elif error < best * (1.0 - PROGRESS):
            best, chosen, place, model = error, candidate, len(tried) - 1, fitted
            now, now_model, idle = candidate, fitted, 0
        else:
            now, now_model, idle = candidate, fitted, idle + 1
        if idle > settings.patience:
            break
    rounds = tuple(replace(each, kept=i == place) for i, each in enumerate(tried))
    return chosen.metric, rounds


def _best_candidate(
    learner: Learner, M: Float64Array, before: Any, bandwidth: float, settings: LearnedMetric, tame: float
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
            error = learner.screen(tried.metric, before)
            if not error < lowest:
                break
            best, lowest = tried, error
        if best is not start:
            return best
    return start


def _error_of(fitted: Any) -> float:
    """Return the error, infinite where there is none."""
    return float(fitted.error) if np.isfinite(fitted.error) else np.inf


def _round(error: float, candidate: _Candidate, undone: str, began: float) -> Round:
    return Round(error, candidate.power, candidate.bandwidth, False, undone, time.perf_counter() - began)


def _least(errors: Sequence[float]) -> int:
    """Return where the least error is; those that are not finite count as infinite."""
    return int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
