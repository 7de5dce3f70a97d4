"""Shared base of the ridge estimators that train in one pass: planning, accumulation, chunked prediction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier

from gramian._budget import parse_bytes
from gramian._checkpoint import checkpoint_folder
from gramian._checks import positive_number
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, Rows
from gramian.approximations.approximation import Approximation
from gramian.approximations.choice import auto_plan, probe, probe_rows
from gramian.approximations.frozen import frozen_map
from gramian.approximations.methods import METHODS
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.checkpoint import SumsCheckpoint
from gramian.compression.plan import AS_ASKED, EXACT, GIVEN, Plan, make_plan
from gramian.compression.predictor import Predictor
from gramian.compression.training import train_ridge
from gramian.data.distributed import Cluster, Partitioned, cluster_of
from gramian.data.mapped import mapped
from gramian.data.scaled import Scaler, moments
from gramian.data.source import ArraySource, RowSource
from gramian.data.taken import TakenRows
from gramian.engine import Engine
from gramian.estimator.answers import in_blocks
from gramian.estimator.base import checked_weights, required_target
from gramian.estimator.finite import finite_blocks, finite_values, quietly, rows_at
from gramian.estimator.progress import rows_bar, shown_bar
from gramian.estimator.targets import Targets
from gramian.exact.exact import Exact
from gramian.exact.plan import exact_plan
from gramian.exact.predictor import ExactPredictor
from gramian.exact.ridge import train_exact
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.metric.parameter import MetricEstimator
from gramian.solvers.krylov import Progress

#: Parameters of an approximation's instance that the estimator which it is given to decides.
OUTER = ("kernel", "gamma", "degree", "coef0", "kernel_params", "memory_budget", "tile_dtype")
#: Rows per chunk of a prediction: two outputs of this many rows are a few megabytes.
PREDICT_ROWS = 65_536
#: Rows that a plan takes the columns' deviations from.
SCALED_ROWS = 10_000
#: Rows for which a stream's precision is chosen: nobody knows how many will come.
STREAM_ROWS = 1_000_000


class StreamingRidge(MetricEstimator):
    """Base of the estimators that are trained by streaming sums."""

    alpha: float
    approximation: Any
    fit_intercept: bool
    memory_budget: Any
    random_state: Any
    verbose: int

    def _cluster(self, X: Any) -> Cluster | None:
        """Return the machines that are to work on X: the engine, or those of a collection."""
        return cluster_of(X, getattr(self, "engine", None))

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return rows, targets and weights, collections among them as sources and columns."""
        cluster = self._cluster(X)
        if cluster is None:
            return X, y, sample_weight
        labels = is_classifier(self)
        return cluster.rows(X), cluster.column(y, flat=labels), cluster.column(sample_weight)

    def _fit_rows(self, X: Any, y: Any) -> RowSource:
        required_target(self, y)
        source = self._rows(X, reset=True)
        cluster = self._cluster(X)
        return source if cluster is None else cluster.over(source)

    def _under_metric(self, source: RowSource, targets: Any, weights: Array | None) -> RowSource:
        """Return the rows of a fit, scaled where that was asked for, under the metric learned from them."""
        return super()._under_metric(self._scaled(source, learn=True, weights=weights), targets, weights)

    def _scaled(
        self, source: RowSource, *, learn: bool, sampled: bool = False, weights: Array | None = None
    ) -> RowSource:
        """Return the rows scaled, where that was asked for; ``learn`` takes mean and deviation from them.

        ``sampled``: from some of them, which is enough for a plan. Rows that are not learned from come under
        the metric of the fit too; those of a fit have none yet.
        """
        if learn:
            self.__dict__.pop("scaler_", None)  # of an earlier fit
            self._forget_metric()
            if not getattr(self, "standardize", False):
                return source
            if self._precomputed:
                raise InputError(
                    "standardize=True scales the columns of rows; with kernel='precomputed' X has kernel "
                    "values. Scale the rows before their kernel values are computed."
                )
            if frozen_map(self, source.shape[1]) is not None:
                raise InputError(
                    "standardize=True would scale the rows anew for landmarks that are fixed by "
                    "FrozenEstimator. Scale the rows first, for both."
                )
            if sampled:
                numbers = np.unique(np.linspace(0, source.shape[0] - 1, SCALED_ROWS).astype(np.intp))
                self.scaler_ = Scaler.of(moments(TakenRows(source, numbers)))
            else:
                self.scaler_ = Scaler.of(moments(source, weights))
        found: Scaler | None = self.__dict__.get("scaler_")
        source = source if found is None else mapped(source, found)
        if learn:
            return self._planned_metric(source) if sampled else source
        return self._mapped(source)

    def _lazily(self, X: Any, method: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a method's values for a collection as one of the same package, nothing computed."""
        cluster = self._cluster(X)
        assert cluster is not None
        self._check_width(cluster.header(X), reset=False)
        of_all = ("predictor_", "kernel_", "intercept_", "classes_", "_flat", "n_features_in_")
        names = (*of_all, "scaler_", "metric_")
        model = type(self)(**{**self.get_params(deep=False), "approximation": "auto", "random_state": None})
        model.__dict__.update(engine=None, n_jobs=1, checkpoint=None, verbose=0)
        model.__dict__.update((name, getattr(self, name)) for name in names if hasattr(self, name))
        return cluster.lazily(X, getattr(model, method), shape, dtype)

    def _penalty(self) -> float:
        """Return the ridge penalty that sizes and precision are planned for."""
        return positive_number("alpha", self.alpha)

    def _planned(
        self,
        source: RowSource,
        n_outputs: int,
        random_state: Any,
        *,
        stream: bool = False,
        weights: Array | None = None,
        held: int = 0,
    ) -> tuple[Plan, Kernel, Engine, np.random.Generator]:
        """Return plan, kernel, engine and the generator, which the probe has drawn from.

        ``stream``: more rows will follow, so that precision is chosen as for :data:`STREAM_ROWS`. Rows whose
        weight is 0 are not looked at. ``held``: bytes of the memory budget that the rows take.
        """
        alpha = self._penalty()
        engine, rng = self._engine(), as_generator(random_state)
        budget = parse_bytes(self.memory_budget) - held
        work = self._workload(source, n_outputs)
        if stream:
            work = replace(work, sums_held=2)
        threads = engine.n_threads
        frozen = frozen_map(self, source.shape[1])
        if frozen is not None:
            plan = make_plan(
                frozen.builder.sizes,
                work,
                dtype=frozen.features.dtype,
                n_threads=threads,
                memory_budget=budget,
                reason=GIVEN,
            )
            plan = replace(plan, builder=frozen.builder)
            return plan, frozen.features.kernel, Engine(plan.n_threads), rng
        kernel = self._kernel_of(source)
        if weights is not None and not (weights > 0).all():
            counted: RowSource = TakenRows(source, np.flatnonzero(weights > 0))
        else:
            counted = source
        n = STREAM_ROWS if stream else source.shape[0]
        dtype = self._tiles(counted, kernel, alpha, n)
        # Drawn in any case: landmarks must not depend on whether the precision is asked for.
        sample = probe_rows(counted, rng, budget)
        chosen = isinstance(self.approximation, str) and self.approximation == "auto"
        open_dtype = self.tile_dtype == "auto" and dtype == np.float32
        found = probe(sample, kernel, source.shape[0]) if chosen or open_dtype else None
        if found is not None and open_dtype and replace(found, n_rows=n).needs_float64(alpha):
            dtype = np.dtype(np.float64)
        if chosen and found is not None:
            plan = auto_plan(found, alpha, work, dtype=dtype, n_threads=threads, memory_budget=budget)
        else:
            exact = isinstance(self.approximation, str) and self.approximation == "exact"
            builder = MultiResolutionBuilder.root_only(work.n_rows) if exact else self._method()._builder()
            plan = make_plan(
                builder.settle(source, kernel, dtype=dtype, rng=rng, engine=engine),
                work,
                dtype=dtype,
                n_threads=threads,
                memory_budget=budget,
                reason=EXACT if exact else AS_ASKED,
            )
        return plan, kernel, Engine(plan.n_threads), rng

    def _method(self) -> Approximation:
        chosen = self.approximation
        if isinstance(chosen, Exact):
            raise InputError(
                f"approximation=Exact(...) solves ridge systems; {type(self).__name__} has none. Use "
                "approximation='exact', or KernelRidge and KernelRidgeClassifier."
            )
        if isinstance(chosen, Approximation):
            self._refuse_ignored(chosen)
            return chosen
        if isinstance(chosen, type) and issubclass(chosen, BaseEstimator):
            raise InputError(
                f"approximation={chosen.__name__} is a class. Pass an instance: {chosen.__name__}()."
            )
        names = ("auto", "exact", *METHODS)
        if not isinstance(chosen, str) or chosen not in METHODS:
            raise InputError(
                f"approximation={chosen!r} is unknown. Choose one of {', '.join(names)}, or pass an "
                "unfitted instance such as gramian.MEKA(rank=256)." + did_you_mean(chosen, names)
            )
        return METHODS[chosen]()

    def _refuse_ignored(self, chosen: Approximation) -> None:
        """Raise where the instance sets what only the outer estimator decides."""
        given, plain = chosen.get_params(deep=False), type(chosen)().get_params(deep=False)
        for name in OUTER:
            inner, outer = given[name], getattr(self, name)
            if inner is not outer and inner != plain[name] and inner != outer:
                kind = type(chosen).__name__
                raise InputError(
                    f"approximation={kind}({name}={inner!r}) would have no effect: {name} is taken from "
                    f"{type(self).__name__}. Write {type(self).__name__}({name}={inner!r}, "
                    f"approximation={kind}(...))."
                )

    @property
    def _exact(self) -> Exact | None:
        """How the exact system is to be solved, where that was asked for."""
        chosen = self.approximation
        if isinstance(chosen, Exact):
            return chosen
        return Exact() if isinstance(chosen, str) and chosen == "exact" else None

    def _ridge_plan(self, source: RowSource, n_outputs: int, random_state: Any) -> Plan:
        """Return the plan of a ridge fit: of the exact system, or of the approximation."""
        if self._exact is None:
            return self._planned(source, n_outputs, random_state)[0]
        return self._exact_plan(source, n_outputs, self._exact)[0]

    def _exact_plan(self, source: RowSource, n_outputs: int, exact: Exact) -> tuple[Plan, Kernel]:
        kernel, alpha = self._kernel_of(source), self._penalty()
        plan = exact_plan(
            self._workload(source, n_outputs + bool(self.fit_intercept)),
            exact.settings(),
            dtype=self._tiles(source, kernel, alpha),
            n_threads=self._engine().n_threads,
            memory_budget=parse_bytes(self.memory_budget),
        )
        return plan, kernel

    def _train_exact(self, source: RowSource, targets: Targets, sample_weight: Any, exact: Exact) -> Self:
        if isinstance(source, Partitioned):
            raise InputError(
                "approximation='exact' needs all rows in the memory of this machine. Choose another "
                "approximation, or pass arrays (X.compute()) and engine=None."
            )
        n, p = targets.shape
        weights = checked_weights(sample_weight, n)
        plan, kernel = self._exact_plan(source, p, exact)
        mean = targets.mean(weights) if self.fit_intercept else np.zeros(p)
        targets.shift = mean
        settings, folder = exact.settings(), getattr(self, "checkpoint", None)
        if folder is not None and settings.checkpoint is None:
            settings = replace(settings, checkpoint=checkpoint_folder(Path(folder)) / "solve.npz")
        rows = source.rows(slice(0, n))
        began = time.perf_counter()
        with shown_bar(self.verbose, unit="steps", desc="exact") as bar:

            def progress(state: Progress) -> None:
                bar.set_postfix(residual=f"{state.residual:.1e}", refresh=False)
                bar.update(1)

            fit = train_exact(
                rows.copy() if sp.issparse(rows) else np.array(rows),
                targets[slice(0, n)],
                weights,
                kernel,
                self._penalty(),
                settings,
                intercept=bool(self.fit_intercept),
                dtype=np.dtype(plan.dtype),
                memory_bytes=plan.memory_budget,
                engine=self._engine(),
                rng=as_generator(self.random_state),
                progress=progress,
            )
        self.intercept_ = mean + fit.offset
        released, self.kernel_ = self._released(fit.predictor, kernel)
        self.predictor_: Predictor | ExactPredictor = released
        self.solution_, self.stages_ = fit.solution, fit.stages
        self.plan_ = plan.used({"solve": fit.solution.bytes}, {"solve": time.perf_counter() - began})
        self.rank_ = fit.predictor.rows.shape[0]
        return self

    def _train(self, source: RowSource, targets: Targets, sample_weight: Any) -> Self:
        if self._exact is not None:
            return self._train_exact(source, targets, sample_weight, self._exact)
        self.__dict__.pop("stages_", None)  # of an earlier fit to the exact system
        n = source.shape[0]
        weights = checked_weights(sample_weight, n)
        generator = as_generator(self.random_state)
        folder = getattr(self, "checkpoint", None)
        checkpoint = None if folder is None else SumsCheckpoint(Path(folder), generator)
        plan, kernel, engine, rng = self._planned(source, targets.shape[1], generator, weights=weights)
        mean = targets.centre(weights) if self.fit_intercept else np.zeros(targets.shape[1])
        with rows_bar(n, self.verbose) as done:
            fit = train_ridge(
                source,
                targets,
                weights,
                kernel,
                self._penalty(),
                plan,
                intercept=bool(self.fit_intercept),
                shift=mean,
                rng=rng,
                engine=engine,
                progress=done,
                checkpoint=checkpoint,
            )
        self.intercept_ = fit.intercept
        self.predictor_, self.kernel_ = self._released(fit.predictor, kernel)
        self.solution_ = fit.solution
        self.plan_ = fit.plan
        self.rank_ = fit.rank
        return self

    def _fit_part(self, source: RowSource, targets: Any, weights: Any, before: Any = None) -> None:
        self._train(source, targets, weights)

    def _values_of(self, source: RowSource) -> Float64Array:
        return np.concatenate([values for _, values in self._decision_blocks(source)])

    @property
    def _differentiated(self) -> tuple[Any, Kernel]:
        return self.predictor_, self.kernel_

    def _decision_blocks(self, source: RowSource) -> Iterator[tuple[slice, Float64Array]]:
        cluster = self._cluster(source)
        if cluster is not None:
            source = cluster.over(source)
        predictor = self.predictor_  # of a stream whose rows wait, the scale is chosen for it
        source = self._scaled(source, learn=False)
        if isinstance(source, Partitioned):
            start = 0
            for values in source.map(partial(_decided, predictor)):
                yield slice(start, start + len(values)), values + self.intercept_
                start += len(values)
            return
        blocks = self._on(predictor, source).blocks(source, engine=self._engine(), chunk_rows=PREDICT_ROWS)
        for where, values in quietly(blocks):
            values += self.intercept_
            yield where, values

    def _finite_blocks(self, source: RowSource) -> Iterator[tuple[slice, Float64Array]]:
        """Yield decision values by blocks of rows; raise for the first block with one that overflows."""
        return finite_blocks(self._decision_blocks(source), partial(rows_at, source))

    def _decision(self, X: Any) -> Float64Array:
        source = self._rows(X, reset=False)
        out = in_blocks(self._decision_blocks(source), (source.shape[0], self.predictor_.n_outputs))
        return finite_values(out, partial(rows_at, source))


def _decided(predictor: Predictor | ExactPredictor, rows: Rows) -> Float64Array:
    """Return the predictor's values for a part of the rows, on one thread."""
    blocks = predictor.blocks(ArraySource(rows), engine=Engine(1), chunk_rows=PREDICT_ROWS)
    return np.concatenate([values for _, values in quietly(blocks)])
