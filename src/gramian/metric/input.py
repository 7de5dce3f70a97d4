"""Input of an estimator: rows are scaled, then mapped by a metric that is given or learned in the fit."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gramian._budget import format_bytes
from gramian._random import as_generator, seed_for_sklearn
from gramian._typing import Array, Float64Array, IntArray
from gramian.approximations.setup import FitSetup
from gramian.data.mapped import map_rows
from gramian.data.scaled import Scaler, moments
from gramian.data.source import RowSource
from gramian.data.subset import SubsetRows
from gramian.estimator.column_scales import warn_of_scales
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.kernels.precomputed import Precomputed
from gramian.metric.learned_metric import LearnedMetric
from gramian.metric.learner import MOST_HELD_OUT, EstimatorLearner
from gramian.metric.learning import Round, learn_metric
from gramian.metric.metric import Metric
from gramian.metric.outer_product import FORMS
from gramian.metric.rounds import MakeRoundModel, RoundSetup

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: With fewer rows of positive weight nothing is learned: the held-out part would be a dozen rows.
LEAST_ROWS = 60
#: The rows to learn from take one part in this many of the memory budget.
SAMPLE_PART = 8
#: Matrices (d, d) that learning a full metric holds at a time.
MATRICES = 6
#: Rows that a plan takes the columns' deviations from.
SCALED_ROWS = 10_000
#: Attributes of a fitted estimator that hold its :class:`Input`.
INPUT = ("scaler_", "metric_", "metric_rounds_")


@dataclass(frozen=True)
class Input:
    """What a fit learned about its rows: a scaler and a metric, each None where there is none.

    An estimator has them as ``scaler_``, ``metric_`` and ``metric_rounds_``. ``rounds`` is None for a metric
    that was given, and empty where there were too few rows to learn one.
    """

    scaler: Scaler | None = None
    metric: Metric | None = None
    rounds: tuple[Round, ...] | None = None

    @classmethod
    def of(cls, model: BaseEstimator) -> Self:
        """Return the input of a fitted estimator."""
        return cls(*(getattr(model, name, None) for name in INPUT))

    def over(self, source: RowSource) -> RowSource:
        """Return rows as the kernel takes them, made from those of the source as they are read."""
        for found in (self.scaler, self.metric):
            source = source if found is None else map_rows(source, found)
        return source

    def prepared(self, rows: LabelledRows[Any]) -> LabelledRows[Any]:
        """Return labelled rows as the kernel takes them."""
        return replace(rows, source=self.over(rows.source))

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this input, by name."""
        found = dict(zip(INPUT, (self.scaler, self.metric, self.rounds), strict=True))
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class InputParameters:
    """What an estimator asks of its input, and what goes with it or does not.

    ``standardize`` and ``metric`` are the parameters of these names. ``frozen`` says that the landmarks are
    those of a fitted approximation, ``each_feature`` that the fit looks for a lengthscale for each feature.
    """

    kernel: KernelParameters
    standardize: bool = False
    metric: Any = None
    frozen: bool = False
    each_feature: bool = False

    @property
    def learns(self) -> bool:
        """Whether a metric is to be learned."""
        return isinstance(self.metric, str | LearnedMetric)

    @classmethod
    def of(cls, setup: FitSetup, *, standardize: bool, metric: object = None) -> Self:
        """Return the parameters of a fit with this setup."""
        return cls(setup.kernel, standardize, metric, setup.frozen)


def learned_input(
    asked: InputParameters,
    setup: FitSetup,
    rows: LabelledRows[Any],
    models: MakeRoundModel,
    *,
    own_bandwidth: bool = False,
) -> Input:
    """Return the scaler and the metric of a fit, learned from its rows where the parameters ask for that.

    ``models`` are what rounds of a metric fit. ``own_bandwidth`` says that the fit chooses the kernel's
    bandwidth, so that the metric leaves it alone.
    """
    scaled = _scaled(asked, rows.source, rows.weights)
    source = scaled.over(rows.source)
    chosen = _checked_metric(asked, source, setup.run.memory_bytes)
    if chosen is None and not own_bandwidth:
        _warn_of_scales(asked, rows.source, rows.weights)
    if chosen is None or isinstance(chosen, Metric):
        return Input(scaled.scaler, chosen)
    free = not own_bandwidth and _bandwidth_left_out(asked.kernel, source)
    return Input(scaled.scaler, *_learn(chosen, setup, scaled.prepared(rows), models, free=free))


def scaled_input(asked: InputParameters, source: RowSource, weights: Array | None = None) -> Input:
    """Return the input of a fit without a metric: the scaler of its rows, where one is asked for."""
    _warn_of_scales(asked, source, weights)
    return _scaled(asked, source, weights)


def _scaled(asked: InputParameters, source: RowSource, weights: Array | None) -> Input:
    return Input(_scaler(asked, source, weights) if asked.standardize else None)


def _warn_of_scales(asked: InputParameters, source: RowSource, weights: Array | None) -> None:
    """Warn about columns of very different scales, unless the fit scales them or its landmarks are fixed."""
    if not (asked.standardize or asked.frozen or asked.each_feature):
        warn_of_scales(source, asked.kernel.resolve(source.shape[1]), weights)


def planned_input(asked: InputParameters, setup: FitSetup, source: RowSource) -> Input:
    """Return a scaler and a metric of the kind that a fit would learn, to plan its sizes by."""
    scaler = None
    if asked.standardize:
        numbers = np.unique(np.linspace(0, source.shape[0] - 1, SCALED_ROWS).astype(np.intp))
        scaler = _scaler(asked, source, None, numbers)
    chosen = _checked_metric(asked, Input(scaler).over(source), setup.run.memory_bytes)
    if isinstance(chosen, LearnedMetric):
        full = chosen.form == "full"
        return Input(scaler, Metric(matrix=np.eye(source.shape[1])) if full else None)
    return Input(scaler, chosen)


def _feature_importances(model: BaseEstimator) -> Float64Array:
    """Share of each feature in the mean squared distance of two rows under ``metric_``, of sum 1."""
    # A stream whose rows wait chooses its metric here.
    found: Metric | None = getattr(model, "metric_", None)
    if found is None:
        raise AttributeError(
            f"this {type(model).__name__} has no metric_, whose importances these are. Fit it with "
            "metric='diagonal'."
        )
    return found.importances


#: The property of this name, of the estimators that have a metric.
feature_importances_ = property(_feature_importances)


def _scaler(
    asked: InputParameters, source: RowSource, weights: Array | None, numbers: IntArray | None = None
) -> Scaler:
    """Return the scaler of the rows, or of those with the given numbers."""
    if asked.kernel.precomputed:
        raise InputError(
            "standardize=True scales the columns of rows; with kernel='precomputed' X has kernel "
            "values. Scale the rows before their kernel values are computed."
        )
    if asked.frozen:
        raise InputError(
            "standardize=True would scale the rows anew for landmarks that are fixed by "
            "FrozenEstimator. Scale the rows first, for both."
        )
    return Scaler.of(moments(source if numbers is None else SubsetRows(source, numbers), weights))


def _checked_metric(
    asked: InputParameters, source: RowSource, memory_bytes: int
) -> Metric | LearnedMetric | None:
    """Return the metric that is given, how it is to be learned, or None."""
    chosen = asked.metric
    if chosen is None:
        return None
    d = source.shape[1]
    if isinstance(chosen, str) and chosen in FORMS:
        chosen = LearnedMetric(chosen)
    if not isinstance(chosen, Metric | LearnedMetric):
        raise InputError(
            f"metric={chosen!r} is unknown. Choose None, 'diagonal' or 'full', or pass a "
            "gramian.LearnedMetric(...) or a gramian.Metric." + did_you_mean(chosen, FORMS)
        )
    if asked.kernel.precomputed or isinstance(asked.kernel.kernel, Precomputed):
        raise InputError(
            "metric is a map of the features of rows; with kernel='precomputed' X has kernel values. "
            "Pass the rows with a kernel's name, or metric=None."
        )
    if asked.frozen:
        raise InputError(
            "metric would map the rows anew for landmarks that are fixed by FrozenEstimator. Map the "
            "rows first, for both: metric.apply(X)."
        )
    if isinstance(chosen, Metric) and chosen.n_features != d:
        raise InputError(
            f"X has {d} features, but metric is of {chosen.n_features}. Give one scale for each feature."
        )
    if isinstance(chosen, LearnedMetric) and chosen.form == "full":
        least = 8 * MATRICES * d * d
        if least > memory_bytes:
            raise BudgetError(
                f"memory_budget={format_bytes(memory_bytes)} is too small to learn metric='full' of {d} "
                f"features: at least {format_bytes(least)} is needed. Raise the budget, or use "
                "metric='diagonal'.",
                least,
            )
    return chosen


def _learn(
    chosen: LearnedMetric, setup: FitSetup, rows: LabelledRows[Any], models: MakeRoundModel, *, free: bool
) -> tuple[Metric, tuple[Round, ...]]:
    """Return the best metric of some rounds, and the rounds; ``free`` says whether bandwidths are tried."""
    settings = chosen.settings(free=free)
    most, held_out, gradient_rows = chosen.sizes()
    start = Metric.identity_of(rows.source.shape[1])
    rng = as_generator(deepcopy(setup.run.random_state))
    budget = setup.run.memory_bytes
    numbers = _sample(rows, budget, most, rng)
    if len(numbers) < LEAST_ROWS:
        return start, ()
    n_held_out = min(max(1, round(held_out * len(numbers))), MOST_HELD_OUT, len(numbers) - 1)
    # The rows that are held for the rounds take their part of the budget.
    left = budget * (SAMPLE_PART - 1) // SAMPLE_PART
    learner = EstimatorLearner(
        models,
        RoundSetup(None, False, seed_for_sklearn(rng), left),
        rows.read(numbers[n_held_out:]),
        rows.read(numbers[:n_held_out]),
        setup.run.engine,
        settings.form,
        gradient_rows,
        _groups(chosen.switched),
    )
    found = learn_metric(learner, start, settings, setup.run.phases)
    return found.metric, found.rounds


def _bandwidth_left_out(own: KernelParameters, source: RowSource) -> bool:
    """Return whether the bandwidth is nobody's choice: of a kernel by name, whose gamma is left out."""
    if not isinstance(own.kernel, str) or own.gamma is not None or own.kernel_params:
        return False
    return hasattr(own.resolve(source.shape[1]), "lengthscale")


def _sample(rows: LabelledRows[Any], memory_budget: int, most: int, rng: np.random.Generator) -> IntArray:
    """Return the numbers of rows to learn from, in random order."""
    n, d = rows.source.shape
    beside = min(MOST_HELD_OUT, most // 4)
    room = memory_budget // (SAMPLE_PART * 3 * 8 * d)
    count = min(most + beside, n, max(LEAST_ROWS, room))
    if rows.weights is None:
        return rng.choice(n, count, replace=False)
    counted = np.flatnonzero(rows.weights > 0)
    return rng.choice(counted, min(count, len(counted)), replace=False)


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
