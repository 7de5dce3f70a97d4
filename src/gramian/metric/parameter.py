"""Parameter ``metric`` of the estimators: rows are mapped as they are read, by a given or learned metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gramian._budget import format_bytes, parse_bytes
from gramian._random import as_generator, seed_for_sklearn
from gramian._typing import Array, Float64Array, IntArray
from gramian.approximations.frozen import frozen_map
from gramian.data.mapped import mapped
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator
from gramian.estimator.targets import Targets
from gramian.exact.exact import Exact
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.metric.learned_metric import LearnedMetric
from gramian.metric.learner import MOST_HELD_OUT, EstimatorLearner, drawn
from gramian.metric.learning import Round, learn_metric
from gramian.metric.metric import Metric
from gramian.metric.outer_product import FORMS
from gramian.metric.summary import metric_facts, metric_grids
from gramian.summary import Grid

#: Rows of positive weight under which nothing is learned: the held-out part would be a dozen.
LEAST_ROWS = 60
#: Budget from which metrics are compared by exact ridge fits: of a few rows they are the quickest.
QUICK_BYTES = 200_000_000
#: Part of the memory budget that the rows to learn from may take; and matrices (d, d) held at a time.
SAMPLE_PART, MATRICES = 8, 6
#: What a fit in a metric learns beside what all fits do.
LEARNED = ("metric_", "metric_rounds_")


class MetricEstimator(KernelEstimator):
    """Base of the estimators that may learn a metric; those without the parameter have none."""

    metric: Any
    memory_budget: Any
    random_state: Any

    @property
    def feature_importances_(self) -> Float64Array:
        """Share of each feature in the mean squared distance of two rows under ``metric_``, of sum 1."""
        found: Metric | None = getattr(self, "metric_", None)
        if found is None:
            raise AttributeError(
                f"this {type(self).__name__} has no metric_, whose importances these are. Fit it with "
                "metric='diagonal'."
            )
        return found.importances

    def _own_facts(self) -> Iterable[tuple[str, str]]:
        return metric_facts(self)

    def _own_grids(self) -> Iterable[Grid]:
        return metric_grids(self)

    # ---- what a kind of estimator says of itself ------------------------------------------------------

    #: Whether f stands for the targets; decision values of other losses may be as large as they like.
    _bounded = True
    #: Whether the estimator chooses its bandwidth itself.
    _own_bandwidth = False

    def _fit_part(self, source: RowSource, targets: Any, weights: Array | None, before: Any = None) -> None:
        """Fit to rows in memory."""
        raise AssertionError("each kind of estimator fits in its way")

    def _values_of(self, source: RowSource) -> Float64Array:
        """Return f, shape (n, outputs)."""
        raise AssertionError("each kind of estimator predicts in its way")

    @property
    def _differentiated(self) -> tuple[Any, Kernel]:
        """Predictor and kernel that gradients are taken of."""
        raise AssertionError("each kind of estimator keeps its predictor")

    def _losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return the squared error of each row."""
        return np.asarray(((values - targets) ** 2).mean(axis=1))

    def _copy(self, before: Any, quick: bool) -> Any:
        """Return an estimator like this one that has no metric, for a round.

        ``before``: the copy of an earlier round, or None; ``quick``: to compare metrics only, for which an
        estimator of another kind may serve.
        """
        own = self.get_params(deep=False)
        params: dict[str, Any] = {
            "metric": None,
            "standardize": False,
            "checkpoint": None,
            "engine": None,
            "verbose": 0,
        }
        changed: dict[str, Any] = {name: value for name, value in params.items() if name in own}
        chosen = own.get("approximation")
        if isinstance(chosen, Exact) or (isinstance(chosen, str) and chosen == "exact"):
            changed["approximation"] = "auto"  # the rounds need a metric, not the last digits
        return type(self)(**{**own, **changed})

    # ---- fitting ----------------------------------------------------------------------------------------

    def _forget_metric(self) -> None:
        for name in LEARNED:
            self.__dict__.pop(name, None)

    def _mapped(self, source: RowSource) -> RowSource:
        """Return rows under the metric of the fit, where it has one."""
        found: Metric | None = vars(self).get("metric_")
        return source if found is None else mapped(source, found)

    def _planned_metric(self, source: RowSource) -> RowSource:
        """Return rows as a plan should count them: under the given metric, or one of the form to learn."""
        chosen = self._checked_metric(source)
        if isinstance(chosen, Metric):
            return mapped(source, chosen)
        if chosen is not None and chosen.form == "full":
            return mapped(source, Metric(matrix=np.eye(source.shape[1])))
        return source

    def _under_metric(self, source: RowSource, targets: Targets, weights: Array | None) -> RowSource:
        """Return the rows of a fit under the metric that was given, or that is learned from them here."""
        self._forget_metric()
        chosen = self._checked_metric(source)
        if chosen is None:
            return source
        if isinstance(chosen, Metric):
            self.metric_ = chosen
        else:
            self.metric_, self.metric_rounds_ = self._learned(chosen, source, targets, weights)
        return self._mapped(source)

    def _checked_metric(self, source: RowSource) -> Metric | LearnedMetric | None:
        """Return the metric that is given, how it is to be learned, or None."""
        chosen = getattr(self, "metric", None)
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
        if self._precomputed or isinstance(self.kernel, Precomputed):
            raise InputError(
                "metric is a map of the features of rows; with kernel='precomputed' X has kernel values. "
                "Pass the rows with a kernel's name, or metric=None."
            )
        if frozen_map(self, d) is not None:
            raise InputError(
                "metric would map the rows anew for landmarks that are fixed by FrozenEstimator. Map the "
                "rows first, for both: metric.apply(X)."
            )
        if isinstance(chosen, Metric) and chosen.n_features != d:
            raise InputError(
                f"X has {d} features, but metric is of {chosen.n_features}. Give one scale for each feature."
            )
        if isinstance(chosen, LearnedMetric) and chosen.form == "full":
            least, budget = 8 * MATRICES * d * d, parse_bytes(self.memory_budget)
            if least > budget:
                raise BudgetError(
                    f"memory_budget={format_bytes(budget)} is too small to learn metric='full' of {d} "
                    f"features: at least {format_bytes(least)} is needed. Raise the budget, or use "
                    "metric='diagonal'.",
                    least,
                )
        return chosen

    def _learned(
        self, chosen: LearnedMetric, source: RowSource, targets: Targets, weights: Array | None
    ) -> tuple[Metric, tuple[Round, ...]]:
        settings = chosen.settings(free=self._free_bandwidth(source))
        most, held_out, gradient_rows = chosen.sizes()
        start = Metric.identity_of(source.shape[1])
        rng = as_generator(deepcopy(self.random_state))
        numbers = self._sampled(source, weights, most, rng)
        if len(numbers) < LEAST_ROWS:
            return start, ()
        judges = min(max(1, round(held_out * len(numbers))), MOST_HELD_OUT)
        learner = EstimatorLearner(
            _Copies(self, seed_for_sklearn(rng)),
            drawn(source, targets, weights, numbers[judges:]),
            drawn(source, targets, weights, numbers[:judges]),
            settings.form,
            gradient_rows,
            _groups(chosen.switched),
        )
        found = learn_metric(learner, start, settings)
        return found.metric, found.rounds

    def _free_bandwidth(self, source: RowSource) -> bool:
        """Return whether the bandwidth is nobody's choice: of a kernel by name, whose gamma is left out."""
        by_name = isinstance(self.kernel, str) and self.gamma is None and not self.kernel_params
        if not by_name or self._own_bandwidth:
            return False
        return hasattr(self._resolved_kernel(source.shape[1]), "lengthscale")

    def _sampled(
        self, source: RowSource, weights: Array | None, most: int, rng: np.random.Generator
    ) -> IntArray:
        """Return the numbers of rows to learn from, in random order."""
        n, d = source.shape
        beside = min(MOST_HELD_OUT, most // 4)
        room = parse_bytes(self.memory_budget) // (SAMPLE_PART * 3 * 8 * d)
        count = min(most + beside, n, max(LEAST_ROWS, room))
        if weights is None:
            return rng.choice(n, count, replace=False)
        counted = np.flatnonzero(weights > 0)
        return rng.choice(counted, min(count, len(counted)), replace=False)


@dataclass(frozen=True)
class _Copies:
    """Makes copies of an estimator that draw from one seed."""

    estimator: MetricEstimator = field(repr=False)
    seed: int

    def __call__(self, before: Any, quick: bool) -> MetricEstimator:
        made = self.estimator._copy(before, quick)
        made.random_state = self.seed
        # The rows that are held for the rounds take their part of the budget.
        made.memory_budget = parse_bytes(self.estimator.memory_budget) * (SAMPLE_PART - 1) // SAMPLE_PART
        made.n_features_in_ = self.estimator.n_features_in_
        return made


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
