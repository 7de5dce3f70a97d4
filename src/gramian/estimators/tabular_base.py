"""What the two estimators of tables share: columns, scales, the search, the last fit."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._random import as_generator, seed_for_sklearn
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.approximation.plan import Plan
from gramian.data.mapped import mapped
from gramian.data.source import ArraySource, RowSource
from gramian.engine import Engine
from gramian.estimators.approximation import one_of
from gramian.estimators.base import positive_number
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.shown import ShownEstimator
from gramian.estimators.tabular_fit import LastFit, last_fit
from gramian.exceptions import AccuracyWarning, InputError
from gramian.metric.metric import Metric
from gramian.metric.outer_product import FORMS
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.aim import Aim
from gramian.tables.scaling import AUTO, HOWS, QUANTILE, STANDARD
from gramian.tables.search import Found, Limits, Setting, n_judges, round_sizes, search
from gramian.tables.small_problem import POWERS, Point, SmallProblem

#: Parts of the time limit and of the memory budget that are the search's.
SEARCH_TIME, SEARCH_MEMORY = 0.5, 2
#: Scaled rows are kept in memory where they take this part of the budget at most; else made as they are read.
KEPT_PART = 8
#: Scalings to compare, where none is given; those that do the same count once.
SCALINGS = (AUTO, STANDARD, QUANTILE)


@dataclass(frozen=True)
class Learned:
    """What the search is made of: sampled rows in each scaling, targets under each map, weights."""

    rows: dict[str, Float64Array]
    aims: dict[str, Aim]
    weights: Float64Array | None
    groups: tuple[tuple[int, ...], ...]
    n_judges: int

    def problem(self, setting: Setting, n_fit: int) -> SmallProblem:
        """Return the exact problem of a setting: the judges stand first in the sample, and last here."""
        rows, aim = self.rows[setting.scaling], self.aims[setting.target]
        judges = slice(0, self.n_judges)
        chosen = np.r_[self.n_judges : self.n_judges + n_fit, judges]
        fit = slice(self.n_judges, self.n_judges + n_fit)
        weights = self.weights
        return SmallProblem(
            rows[chosen],
            aim.centred(fit, weights)[0][chosen],
            None if weights is None else weights[chosen],
            n_fit,
            aim.loss(judges, weights),
            self.groups,
            (rows.min(axis=0), rows.max(axis=0)),
        )


class TabularModel(ShownEstimator):
    """Base of the estimators that take a table as it is."""

    kernel: Any
    metric: Any
    scaling: str
    categorical: Any
    time_limit: float | None
    memory_budget: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    columns_: TableColumns
    scaling_: Scaling
    model_: Any
    search_: Found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    # ---- what the two kinds differ in ---------------------------------------------------------------

    _kind: type[KernelRidge] | type[KernelRidgeClassifier]

    def _last_loss(self, values: Float64Array, held: IntArray) -> float:
        """Return the error of the last model's values of held rows."""
        raise AssertionError("each kind judges in its way")

    # ---- fitting --------------------------------------------------------------------------------------

    def _learn_table(self, X: Any, y: Any) -> tuple[EncodedRows, np.random.Generator, float]:
        """Learn the columns; return the encoded rows, a generator and the time at which to end."""
        began = time.perf_counter()
        one_of("scaling", self.scaling, HOWS)
        self._kernels()
        self._forms()
        until = math.inf
        if self.time_limit is not None:
            until = began + positive_number("time_limit", self.time_limit)
        parse_bytes(self.memory_budget)
        rng = as_generator(self.random_state)
        self.columns_ = TableColumns.learn(X, categorical=self.categorical, rng=rng)
        self.n_features_in_ = len(self.columns_.columns)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier table
        if self.columns_.named:
            self.feature_names_in_ = np.asarray(self.columns_.column_names, object)
        rows = EncodedRows(self.columns_, X)
        return rows, rng, until

    def _learn_model(
        self,
        rows: EncodedRows,
        aims: dict[str, Aim],
        sample: IntArray,
        weights: Array | None,
        rng: np.random.Generator,
        until: float,
    ) -> Found:
        """Search on the sampled rows, of which the aims are; set scales and what was found."""
        encoded = np.asarray(rows.take(sample), np.float64)
        how = {name: Scaling.learn(rows, self.columns_, how=name, rng=rng) for name in self._scalings()}
        # Those that do the same to every column count once, by the first of their names.
        distinct = {scaling.methods: name for name, scaling in reversed(how.items())}
        scalings = {name: how[name] for name in how if name in distinct.values()}
        learned = Learned(
            {name: np.asarray(scaling.apply(encoded), np.float64) for name, scaling in scalings.items()},
            aims,
            None if weights is None else np.asarray(weights[sample], np.float64),
            (*self.columns_.groups, *((int(j),) for j in self.columns_.two_valued)),
            n_judges(len(sample)),
        )
        settings = [Setting(s, a, k) for a in aims for s in scalings for k in self._kernels()]
        limits = self._limits(until)
        sizes = self._sizes(len(sample), limits)
        found = search(learned.problem, settings, sizes, limits, forms=self._forms())
        self.scaling_ = scalings[found.setting.scaling]
        self.search_ = found
        self._set_importances(learned, found)
        return found

    def _limits(self, until: float) -> Limits:
        now = time.perf_counter()
        end = until if until == math.inf else now + SEARCH_TIME * (until - now)
        return Limits(Engine(self.n_jobs), parse_bytes(self.memory_budget) // SEARCH_MEMORY, end)

    def _sizes(self, n: int, limits: Limits) -> tuple[int, ...]:
        return round_sizes(n, limits)

    def _sample(self, n: int, weights: Array | None, rng: np.random.Generator) -> IntArray:
        """Return the rows of the search in random order, judges first."""
        counted = np.arange(n) if weights is None else np.flatnonzero(weights > 0)
        limits = self._limits(math.inf)
        size = n_judges(len(counted)) + round_sizes(len(counted), limits)[-1]
        return rng.choice(counted, min(size, len(counted)), replace=False)

    def _set_importances(self, learned: Learned, found: Found) -> None:
        """Set each column's share of how much the best fit changes: E (∂f/∂x_j)² var x_j, added by column."""
        share = np.ones(self.columns_.width)
        if found.best is not None:
            problem = learned.problem(found.setting, found.n_rows)
            share = problem.outer_product(found.best, "diagonal") * problem.rows.var(axis=0)
        total = np.zeros(self.n_features_in_)
        places = {column.name: j for j, column in enumerate(self.columns_.columns)}
        for feature in self.columns_.features:
            total[places[feature.column]] += share[feature.places].sum()
        self.feature_importances_ = (
            total / total.sum() if total.sum() > 0 else np.full(len(total), 1.0 / len(total))
        )

    def _fit_last(
        self,
        rows: EncodedRows,
        y: Array,
        weights: Array | None,
        found: Found,
        rng: np.random.Generator,
        until: float,
    ) -> LastFit:
        """Fit the model of all rows; warn where time was short."""
        source = self._scaled_rows(rows)
        point = found.best.point if found.best is not None else self._usual_point(source)
        fit = last_fit(
            self._kind,
            source,
            y,
            weights,
            point,
            self._last_loss,
            rng=rng,
            until=until,
            memory_budget=self.memory_budget,
            random_state=seed_for_sklearn(rng),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self.model_ = fit.model
        if fit.cheapest or found.best is None or not found.finished:
            what = (
                "no setting was compared"
                if found.best is None
                else f"{found.n_judged} settings were compared"
            )
            size = "the smallest model was fitted" if fit.cheapest else "then the model was fitted"
            warnings.warn(
                f"time_limit={self.time_limit} s was too short for the whole search: {what}, {size}. Raise it, "
                "or leave it out.",
                AccuracyWarning,
                stacklevel=4,
            )
        return fit

    def _usual_point(self, source: RowSource) -> Point:
        """Return what is fitted where no time was left to compare: no metric, a usual bandwidth."""
        d = source.shape[1]
        kernel = self._kernels()[0]
        unit = np.sqrt(2.0 * d) if POWERS[kernel][0] == 2.0 else float(d)
        return Point(kernel, Metric(scales=np.ones(d)), unit, 0.1)

    def _scaled_rows(self, rows: EncodedRows) -> RowSource:
        """Return the scaled rows, in memory as float32 where they are a small part of the budget."""
        source = mapped(rows, self.scaling_)
        n, d = source.shape
        if 4 * n * d * KEPT_PART > parse_bytes(self.memory_budget):
            return source
        kept = np.empty((n, d), np.float32)
        step = max(1, (1 << 22) // max(1, 8 * d))
        for start in range(0, n, step):
            kept[start : start + step] = np.asarray(source.rows(slice(start, min(n, start + step))))
        return ArraySource(kept)

    # ---- parameters -------------------------------------------------------------------------------------

    def _kernels(self) -> tuple[str, ...]:
        chosen = self.kernel
        if isinstance(chosen, str):
            one_of("kernel", chosen, (AUTO, *POWERS))
            return tuple(POWERS) if chosen == AUTO else (chosen,)
        if not isinstance(chosen, Sequence) or not len(chosen):
            raise InputError(f"kernel={chosen!r} must be 'auto', or names among {', '.join(POWERS)}.")
        for name in chosen:
            one_of("kernel", name, tuple(POWERS))
        return tuple(dict.fromkeys(chosen))

    def _forms(self) -> tuple[str, ...]:
        if self.metric is None:
            return ()
        one_of("metric", self.metric, (AUTO, *FORMS))
        return ("diagonal", "full") if self.metric == AUTO else (self.metric,)

    def _scalings(self) -> tuple[str, ...]:
        return SCALINGS if self.scaling == AUTO else (self.scaling,)

    # ---- what is known after a fit --------------------------------------------------------------------

    @property
    def metric_(self) -> Metric:
        """The metric over the encoded, scaled columns (``columns_.feature_names``)."""
        check_is_fitted(self, "model_")
        found: Metric = self.model_.metric_
        return found

    @property
    def plan_(self) -> Plan:
        """Sizes, bytes and seconds of the last fit."""
        check_is_fitted(self, "model_")
        plan: Plan = self.model_.plan_
        return plan

    def transform_rows(self, X: Any) -> FloatArray:
        """Return rows as ``model_`` takes them: encoded and scaled, shape (n, encoded columns)."""
        check_is_fitted(self, "model_")
        return np.asarray(self.scaling_.apply(self.columns_.encode(X)))

    def _values(self, X: Any) -> Float64Array:
        """Return the model's values, shape (n, outputs), by blocks of rows."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_._decision(mapped(EncodedRows(self.columns_, X), self.scaling_)))
