"""Shared base of the two table estimators: columns, scales, search, last fit."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._checks import one_of, positive_number
from gramian._random import as_generator, seed_for_sklearn
from gramian._tiles import one_blas_thread
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.compression.plan import Plan
from gramian.data.mapped import map_rows
from gramian.data.tables import TableSource, as_table
from gramian.engine import Engine, Run
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import remove, shown_bar, shown_phases
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.labels import checked_weights, relative_weights
from gramian.estimator.targets import ClassTargets, Targets
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.kernels.compiled import part_of_block
from gramian.metric.metric import Metric
from gramian.metric.outer_product import FORMS
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.boosting.boosted import Contributions
from gramian.tables.effort import EFFORTS, TableEffort, with_boosting
from gramian.tables.encoded import FitRows, in_memory, read_once, warn_of_order
from gramian.tables.holdout import HoldOut, merged_copies, place_of
from gramian.tables.importance.permutation import (
    TIME_SHARE,
    HeldOutModel,
    column_places,
    column_shares,
    permutation_importances,
)
from gramian.tables.input import checked_table, rows_in_time
from gramian.tables.ridge_mean import values_of
from gramian.tables.scaling import AUTO, HOWS, QUANTILE, STANDARD
from gramian.tables.scoring import MappedTarget
from gramian.tables.search import TableSearchResult, n_held_out, round_sizes, search_settings
from gramian.tables.serving import TableServer, encoded_rows
from gramian.tables.small_problem import POWERS, SYNONYMS, Setting, usual_point
from gramian.tables.summary import last_plan
from gramian.tables.training.fit import LastFit, last_fit
from gramian.tables.training.model_factory import ModelFactory
from gramian.tables.training.search_rows import SearchRows

#: Share of the time limit that the search may take, and of the memory budget its inverse. Chosen by hand.
SEARCH_TIME, SEARCH_MEMORY = 0.3, 2
#: The sampled rows may take the memory budget divided by the first number, but the search always gets at
#: least the second number of rows. Both chosen by hand.
ROWS_MEMORY, LEAST_SAMPLE = 4, 300
#: With fewer rows than this nothing is compared and usual settings are taken. Chosen by hand.
FEWEST = 6
#: Scalings to compare if the user names none; scalings with the same effect are compared once.
SCALINGS = (AUTO, STANDARD, QUANTILE)


class TabularModel(TableServer, KernelEstimator):
    """Base of the estimators that learn from a mixed table without preparation."""

    kernel: Any
    metric: Any
    scaling: str
    effort: str
    include: Any
    categorical: Any
    missing: Sequence[str] | None
    time_limit: float | None
    memory_budget: Any
    random_state: Any
    n_jobs: int | None
    verbose: int
    search_: TableSearchResult
    contributions_: Contributions | None
    metric_importances_: Float64Array
    held_weights_: Float64Array | None = None  # None in files that were written without it

    _learns: tuple[str, ...] = (
        *("search_", "metric_rounds_", "fit_seconds_", "contributions_", "metric_importances_"),
        "held_weights_",
    )

    # ---- fitting --------------------------------------------------------------------------------------

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Keep the seconds of a fit; hold BLAS to one thread if there is a time limit.

        On a busy machine the threads of BLAS wait for each other at each of thousands of small matrices: a
        fit of 1.6 to 2.8 s on one thread then took 9 to 29 s on two. Large steps are shared out by the
        engine, whose threads do not wait.
        """
        began = time.perf_counter()
        with nullcontext() if self.time_limit is None else one_blas_thread():
            yield
        self.fit_seconds_ = time.perf_counter() - began

    def _given(
        self,
        X: RowsLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        when: ArrayLike | None,
        targets_of: Callable[[Any, int], Targets],
    ) -> FitRows:
        """Check the parameters and what a fit was given; learn the columns; return the rows to learn from.

        Rows of weight 0 are left out, and those that there is no time to read; copies are one row.
        ``targets_of`` makes the targets of y and the number of rows.
        """
        y = required_target(self, X, y)
        began = time.perf_counter()
        one_of("scaling", self.scaling, HOWS)
        one_of("effort", self.effort, tuple(EFFORTS))
        with_boosting(self.include)
        self._kernels()
        self._forms()
        parse_bytes(self.memory_budget)
        limit = math.inf if self.time_limit is None else positive_number("time_limit", self.time_limit)
        deadline, rng = began + limit, as_generator(self.random_state)
        X = checked_table(self, X, reset=True)
        table = as_table(X)
        holdout = HoldOut.of(table, groups, when)
        weights, numbers = relative_weights(checked_weights(sample_weight, table.shape[0])), None
        if weights is not None and not (weights > 0).all():
            # Rows of weight 0 then count nowhere: not in medians, categories or scales.
            numbers = np.flatnonzero(weights > 0)
            X, weights = checked_table(self, table.subset(numbers), reset=True), weights[numbers]
        targets, every = targets_of(y, table.shape[0]), slice(0, table.shape[0])
        given: Array = np.asarray(
            targets.codes(every) if isinstance(targets, ClassTargets) else targets[every]
        )
        own = given if numbers is None else given[numbers]
        n_given = len(own)

        def read(part: TableSource) -> None:
            with warnings.catch_warnings(), suppress(InputError):
                # These rows alone may lack values or classes; the warning comes when all rows are read.
                warnings.simplefilter("ignore")
                columns = TableColumns.learn(part, categorical=self.categorical, missing=self.missing)
                EncodedRows(columns, part).rows(slice(0, part.shape[0]))

        classes = own if isinstance(targets, ClassTargets) else None
        some = rows_in_time(X, deadline, read, rng, classes)
        if some is not None:
            X = checked_table(self, as_table(X).subset(some), reset=True)
            weights = None if weights is None else weights[some]
            numbers = some if numbers is None else numbers[some]
            own = given[numbers]
        holdout = holdout.taken(numbers)
        rows = self._learn_columns(X, weights, rng, groups)
        if holdout.random:
            warn_of_order(rows)
        places = [each for each in column_places(self.columns_) if len(each)]
        kept, weights, holdout = merged_copies(rows, places, own, weights, holdout)
        if kept is not None:
            rows = self._learn_columns(rows.table.subset(kept), weights, rng, groups)
            n_given -= len(own) - len(kept)
            own, numbers = own[kept], kept if numbers is None else numbers[kept]
        return FitRows(rows, own, targets, weights, weights, numbers, n_given, holdout, rng, deadline)

    def _learn_columns(
        self, X: RowsLike, weights: Array | None, rng: np.random.Generator, groups: object
    ) -> EncodedRows:
        """Learn the columns; return the encoded rows. A column of ``groups`` is not used."""
        self.columns_ = TableColumns.learn(
            X,
            categorical=self.categorical,
            missing=self.missing,
            sample_weight=weights,
            rng=rng,
            groups=place_of(as_table(X), "groups", groups),
        )
        self.n_features_in_ = len(self.columns_.columns)
        remove(self, "feature_names_in_")  # left from an earlier fit
        if self.columns_.named:
            self.feature_names_in_ = np.asarray(self.columns_.column_names, object)
        return EncodedRows(self.columns_, X)

    def _search(self, fit: FitRows, targets: dict[str, MappedTarget]) -> tuple[TableSearchResult, FitRows]:
        """Search on the sampled rows, whose ``targets`` are given; set columns, scales and what was found.

        Return that with its coefficients, and the rows as they are encoded for it.
        """
        n, n_held, memory = len(fit.sample), fit.n_held_out, parse_bytes(self.memory_budget) // SEARCH_MEMORY
        sizes = {min(size, n - n_held) for size in round_sizes(n, memory, self._effort)}
        every = self.scaling == AUTO and self._effort.scalings
        rows = SearchRows.of(fit, targets, sorted(sizes), SCALINGS if every else (self.scaling,))
        names, kernels = rows.scalings, self._kernels()
        settings = [Setting(s, how, k, levels) for how in targets for s, levels in names for k in kernels]
        now = time.perf_counter()
        deadline = now + SEARCH_TIME * (fit.deadline - now)
        if n_held and n >= FEWEST:
            show = shown_bar(self.verbose, total=len(settings), unit="settings", desc="search")
            with show as bar, part_of_block(self._effort.entries(fit.rows.shape[0], self.time_limit), 1):
                result = search_settings(
                    rows.problem_of,
                    settings,
                    sorted(sizes),
                    engine=Engine(self.n_jobs),
                    memory_bytes=memory,
                    deadline=deadline,
                    forms=self._forms(),
                    bar=bar,
                )
        else:
            result = TableSearchResult(settings[0], None, (), 0, 0, 0.0, True)
        result, setting = replace(result, finished=result.finished and rows.whole), result.setting
        form = rows.forms[setting.levels]
        self.columns_, self.scaling_ = form.columns, rows.scalings[setting.scaling, setting.levels]
        self.metric_importances_ = column_shares(self.columns_, rows.sensitivities(result, deadline))
        best, other = (
            None if judged is None else replace(judged, coefficients=judged.coefficients[:0])
            for judged in (result.best, result.other)
        )
        self.search_ = replace(result, best=best, other=other)  # nothing that grows with the rows
        return result, replace(fit, rows=form)

    @property
    def _effort(self) -> TableEffort:
        return EFFORTS[self.effort]

    def _sample(
        self, n: int, weights: Array | None, rng: np.random.Generator, holdout: HoldOut
    ) -> tuple[IntArray, int]:
        """Return the rows of the search in random order, held-out rows first, and how many these are."""
        counted = np.arange(n) if weights is None else np.flatnonzero(weights > 0)
        memory = parse_bytes(self.memory_budget)
        sizes = round_sizes(len(counted), memory // SEARCH_MEMORY, self._effort)
        size = n_held_out(len(counted)) + sizes[-1]
        # Each setting holds a copy of the rows, and so does each scaling, with and without level means.
        copies = len(SCALINGS) * (1 + 2 * len(self._kernels())) * (2 if self.columns_.groups else 1)
        most = memory // (ROWS_MEMORY * 8 * self.columns_.width * copies)
        size = min(len(counted), max(LEAST_SAMPLE, min(size, most)))
        sample = rng.choice(counted, size, replace=False)
        if holdout.random:
            return sample, n_held_out(size)
        held = holdout.held(sample, n_held_out(size), rng)
        return np.concatenate([held, sample[~np.isin(sample, held)]]), len(held)

    def _fit_last(
        self, fit: FitRows, result: TableSearchResult, loss: Callable[[Float64Array, IntArray], float]
    ) -> LastFit:
        """Fit the model of all rows; warn if the time was too short for all that were given.

        ``loss`` maps the values of held-out rows and their row numbers to an error.
        """
        memory = parse_bytes(self.memory_budget)
        source = in_memory(map_rows(fit.rows, self.scaling_), memory)
        near = [judged.point for judged in (result.best, result.other) if judged is not None]
        near = near[: 2 if self._effort.mean else 1] or [usual_point(self._kernels()[0], source.shape[1])]
        n, seed = source.shape[0], seed_for_sklearn(fit.rng)
        labelled = LabelledRows(source, fit.targets, fit.weights)
        resources = Run(memory, Engine(self.n_jobs))
        with shown_phases(self.verbose) as phases, part_of_block(self._effort.entries(n, self.time_limit), 1):
            last = last_fit(
                [
                    ModelFactory(labelled, point, resources, seed, fit.holdout, self._effort, phases)
                    for point in near
                ],
                loss,
                boost=with_boosting(self.include),
                learn=bool(self._forms()),
                switched=fit.switched,
                rng=fit.rng,
                deadline=fit.deadline - TIME_SHARE * (self.time_limit or 0.0),
            )
        self.metric_rounds_ = last.rounds
        self.oof_rows_ = last.held if fit.numbers is None else fit.numbers[last.held]
        read = "" if n >= fit.n_given else f", and {n:,} of {fit.n_given:,} rows were read, drawn at random"
        if n < FEWEST:
            warnings.warn(
                f"{n} rows are too few to compare settings, so the usual settings were used. "
                f"Pass {FEWEST} rows or more.",
                AccuracyWarning,
                stacklevel=user_level(),
            )
        elif last.short or read or result.best is None or not result.finished:
            what = "no setting was" if result.best is None else f"{result.n_judged} settings were"
            work = "search" if not result.finished or result.best is None else "fit"
            size = (last.short or "then the model was fitted") + read
            warnings.warn(
                f"time_limit={self.time_limit or 0.0:.3g} s was too short for the whole {work}: {what} "
                f"compared, {size}. Raise it, or leave it out.",
                AccuracyWarning,
                stacklevel=user_level(),
            )
        return last

    def _set_importances(self, model: HeldOutModel, fit: FitRows) -> None:
        """Set the importances by permuting columns in the held-out rows."""
        shares, limit, count = self.metric_importances_, self.time_limit, self._effort.n_predictions
        rng, deadline = fit.rng.spawn(1)[0], fit.deadline
        result = permutation_importances(model, self.columns_, shares, rng, limit, deadline, count)
        self.feature_importances_, self.feature_importances_std_ = result.shares, result.errors
        self.importances_reason_ = result.reason

    # ---- parameters -------------------------------------------------------------------------------------

    def _kernels(self) -> tuple[str, ...]:
        chosen, names = self.kernel, (*POWERS, *SYNONYMS)
        if isinstance(chosen, str):
            one_of("kernel", chosen, (AUTO, *names))
            usual = tuple(POWERS) if self._effort.compare else ("laplacian",)
            chosen = usual if chosen == AUTO else (chosen,)
        if not isinstance(chosen, Sequence) or not len(chosen):
            raise InputError(f"kernel={chosen!r} must be 'auto', or names from {', '.join(names)}.")
        checked = [one_of("kernel", name, names) for name in chosen]
        return tuple(dict.fromkeys(SYNONYMS.get(name, name) for name in checked))

    def _forms(self) -> tuple[str, ...]:
        if self.metric is None or (self.metric == AUTO and not self._effort.compare):
            return ()
        one_of("metric", self.metric, (AUTO, *FORMS))
        return ("diagonal", "full") if self.metric == AUTO else (self.metric,)

    @property
    def metric_(self) -> Metric:
        """The metric on the encoded, scaled columns (``columns_.feature_names``)."""
        check_is_fitted(self, "model_")
        metric: Metric = self.model_.metric_
        return metric

    @property
    def plan_(self) -> Plan:
        """Sizes, bytes and seconds of the last fit, and the reason for the sizes."""
        check_is_fitted(self, "model_")
        return last_plan(self.model_.plan_)

    def _values(self, X: RowsLike) -> Float64Array:
        source = read_once(encoded_rows(self, X))  # first, as it raises before a fit
        entries = self._effort.entries(self.model_.plan_.n_rows, None)
        with one_blas_thread(), part_of_block(entries, 1):  # once for all members
            return values_of(self.model_, source)
