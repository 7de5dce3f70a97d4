"""Ridge models of streams: batches of rows, forgetting, merging, and growth into new regions."""

from __future__ import annotations

import numbers
import warnings
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.approximations.frozen import frozen_map
from gramian.compression.given import GivenBuilder, sizes_of
from gramian.compression.ridge_sums import RidgeSums
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.base import required_target
from gramian.estimator.progress import rows_bar
from gramian.estimator.targets import Targets
from gramian.exceptions import InputError
from gramian.metric.parameter import QUICK_BYTES
from gramian.ridge.growth import Territory, growable, growing_sizes
from gramian.ridge.stream import Stream
from gramian.ridge.streaming import StreamingRidge
from gramian.ridge.waiting import Waiting, enough

#: What is found from a stream's sums when it is asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: What is chosen from a stream's first rows: when they are enough, or when it is asked for before that.
CHOSEN = ("kernel_", "rank_", "n_blocks_", "plan_", "scaler_", "metric_", "metric_rounds_")
#: What a model of a stream has beside what a fit leaves.
STREAMED = ("_stream", "_waiting", "n_rows_seen_", "n_rows_waiting_", "n_blocks_")


class PartialRidge(StreamingRidge):
    """Base of the ridge models that take rows in several calls.

    ``_waiting`` holds the first rows until they are enough to choose scale, metric and landmarks from;
    ``_stream`` the feature map and the sums, from then on or, of the waiting rows, once somebody asks for
    predictions. The coefficients are found when ``predict`` or one of the attributes in :data:`SOLVED` asks
    for them, once for each state; a pickle holds rows and sums, and has the coefficients only where they were
    found before.
    """

    _stream: Stream
    _waiting: Waiting

    if not TYPE_CHECKING:  # else every misspelt attribute would pass as Any

        def __getattr__(self, name: str) -> Any:
            if self._waits and "_stream" not in self.__dict__ and name in (*SOLVED, *CHOSEN):
                self._choose()
                return getattr(self, name)
            if name in SOLVED and "_stream" in self.__dict__:
                self._solve()
                return self.__dict__[name]
            why = self._no_stream() if name == "partial_fit" else None
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}" + (why or ""))

    def _no_stream(self) -> str | None:
        """Return why a model with these parameters has no ``partial_fit``; None where it has."""
        if self._exact is not None:
            return (
                ": approximation='exact' solves with the kernel matrix of all rows at once. Use fit, or "
                "another approximation."
            )
        if self._precomputed:
            return (
                ": kernel='precomputed' takes the kernel values of all rows with each other. Use fit, or a "
                "kernel's name and rows."
            )
        return None

    def forget(self, share: float) -> Self:
        """Give all rows so far 1 − ``share`` of the weight that they have; later rows have their full weight.

        Called between two calls of ``partial_fit`` it makes the model follow a target that drifts: with a
        share of s after every chunk, a row counts (1 − s)^k after k chunks. Beside alpha, which does not
        fade, a model that forgets and learns nothing goes to 0 (to its intercept). Landmarks stay.

        share : number from 0 (nothing) to under 1.

        Time and memory of the sums. Raises ``InputError`` where the model was trained by ``fit``, which keeps
        no sums.
        """
        real = isinstance(share, numbers.Real) and not isinstance(share, bool)
        if not real or not 0 <= float(share) < 1:
            raise InputError(
                f"share={share!r} must be a number of at least 0 and under 1. To start anew over the same "
                "landmarks, clone a model with approximation=FrozenEstimator(a)."
            )
        if self._waits:
            return self._wait(self._waiting.faded(1.0 - float(share)))
        faded = self._streamed().faded(1.0 - float(share))
        with self._all_or_nothing():
            return self._keep(faded)

    def merge(self, other: Any) -> Self:
        """Add the rows of another model of a stream: the result is that of one model that saw both.

        Both must have the same feature map: start them with ``approximation=FrozenEstimator(a)`` of one
        fitted approximation ``a``. The map is compared number by number, so that models may come from other
        processes. alpha may differ; this model's stays. ``other`` is not changed. Rows that still wait (see
        ``partial_fit``) have no map: they are added to the other ones, in whatever map those have.

        Time O(bytes of map and sums). Raises ``InputError`` for other maps, classes or outputs, and for
        models that were trained by ``fit``.
        """
        if type(other) is not type(self):
            raise InputError(
                f"other is a {type(other).__name__}; expected a {type(self).__name__} that was trained by "
                "partial_fit."
            )
        if not self._waits and not other._waits:
            mine, its = self._streamed(), other._streamed()
            self._check_mergeable(other)
            merged = mine.merged(its)
            with self._all_or_nothing():
                return self._keep(merged)
        for model in (self, other):
            if not model._waits:
                model._streamed()  # raises where there is no stream
        self._check_mergeable(other)
        with self._all_or_nothing():
            rows = other._waiting if other._waits else self._waiting
            if not other._waits:
                self._adopt(other)
            source = self._rows(as_source(rows.rows), reset=False)
            return self._take(source, self._targets_of(rows.y), rows.weights, False)

    def _adopt(self, other: Any) -> None:
        """Take the map and the sums of another model of a stream, in place of the rows that wait."""
        for name in (*STREAMED, *SOLVED, *CHOSEN):
            self.__dict__.pop(name, None)
        for name in ("scaler_", "metric_", "metric_rounds_"):
            if name in other.__dict__:
                setattr(self, name, other.__dict__[name])
        self._keep(other._streamed())

    def _check_mergeable(self, other: Any) -> None:
        """Raise where the targets of two models mean different things."""

    def _copy(self, before: Any, quick: bool) -> Any:
        made = super()._copy(before, quick)
        if quick and parse_bytes(self.memory_budget) >= QUICK_BYTES:
            made.approximation = "exact"
        return made

    def _streamed(self) -> Stream:
        """Return the stream so far, of waiting rows that which they begin; raise where there is none."""
        if self._waits and "_stream" not in self.__dict__:
            self._choose()
        if "_stream" in self.__dict__:
            return self._stream
        check_is_fitted(self)
        raise InputError(
            f"this {type(self).__name__} was trained by fit (or loaded from a file) and keeps no sums of its "
            "rows. Train it by partial_fit, which can also take all rows in its first call."
        )

    def _fit_rows(self, X: Any, y: Any) -> RowSource:
        for name in STREAMED:
            self.__dict__.pop(name, None)
        return super()._fit_rows(X, y)

    @property
    def _begun(self) -> bool:
        """Whether there is a stream that the next rows belong to."""
        return "_stream" in self.__dict__ or self._waits

    @property
    def _waits(self) -> bool:
        """Whether scale, metric and landmarks are still to be chosen."""
        return "_waiting" in self.__dict__

    def _targets_of(self, y: Array) -> Targets:
        """Return the targets of waiting rows."""
        raise AssertionError("each kind of target has its numbers")

    def _kept_targets(self, targets: Any) -> Array:
        """Return what rows that are to wait keep of their targets."""
        raise AssertionError("each kind of target has its numbers")

    def _next_rows(self, X: Any, y: Any) -> RowSource:
        """Check rows of a stream."""
        required_target(self, y)
        if not self._begun and "predictor_" in self.__dict__:
            # scikit-learn's contract has partial_fit go on after fit, of which there are no sums.
            warnings.warn(
                f"this {type(self).__name__} was trained by fit (or loaded from a file) and keeps no sums: "
                "partial_fit starts anew with these rows, and those of fit are forgotten. To add rows to "
                "rows, pass all of them to partial_fit.",
                UserWarning,
                stacklevel=3,
            )
        source: RowSource = self._rows(X, reset=not self._begun)
        if source.shape[0] == 0:
            raise InputError(f"X has shape {source.shape}: a call of partial_fit takes at least one row.")
        cluster = self._cluster(X)
        return source if cluster is None else cluster.over(source)

    def _take(self, source: RowSource, targets: Targets, weights: Array | None, grow: bool) -> Self:
        """Add rows to the stream; the first ones wait until there are enough."""
        if self._begun and not self._waits:
            return self._keep(self._added(self._stream, source, targets, weights, grow))
        before: Waiting | None = self.__dict__.get("_waiting")
        if before is not None:
            outputs = self._targets_of(before.y).shape[1]
            if targets.shape[1] != outputs:
                raise _other_outputs(targets.shape[1], outputs)
        if frozen_map(self, source.shape[1]) is None and not self._enough(source, targets, weights):
            read = source.rows(slice(0, source.shape[0]))
            now = Waiting(
                read.copy() if sp.issparse(read) else np.array(read),
                self._kept_targets(targets),
                None if weights is None else np.array(weights, np.float64),
            )
            now = now if before is None else before.joined(now)
            if not now.enough(parse_bytes(self.memory_budget)):
                return self._wait(now, grow)
            stream = self._first_of(now, self.random_state, grow)
        else:
            stream = self._first(source, targets, weights, self.random_state, grow)
            if before is not None:
                rows, y = as_source(before.rows), self._targets_of(before.y)
                stream = self._added(stream, rows, y, before.weights, False)
        for name in ("_waiting", "n_rows_waiting_"):
            self.__dict__.pop(name, None)
        return self._keep(stream)

    def _enough(self, source: RowSource, targets: Targets, weights: Array | None) -> bool:
        """Return whether rows are enough to choose from, or too large to wait, before any is read."""
        work = self._workload(source, targets.shape[1])
        each = work.itemsize * (work.n_features if work.row_numbers is None else work.row_numbers)
        n = source.shape[0]
        return enough(n, weights, n * each, parse_bytes(self.memory_budget))

    def _wait(self, rows: Waiting, grow: bool = False) -> Self:
        """Make this the model of rows that wait.

        Parameters that nothing can be trained with are refused at the first call, as those of a map that
        cannot grow (``"auto"`` may still choose one that can).
        """
        if not self._waits:
            with self._all_or_nothing(keep=False):
                if grow and not isinstance(self.approximation, str):
                    self._first_of(rows, deepcopy(self.random_state), grow)
                source = self._scaled(as_source(rows.rows), learn=True, sampled=True)
                n_outputs = self._targets_of(rows.y).shape[1]
                self._planned(source, n_outputs, deepcopy(self.random_state), stream=True)
        penalty = self._penalty()
        for name in ("_stream", "stages_", *SOLVED, *CHOSEN):
            self.__dict__.pop(name, None)
        self._alpha, self._waiting = penalty, rows
        self.n_rows_seen_ = self.n_rows_waiting_ = rows.n_rows
        return self

    def _choose(self) -> None:
        """Choose scale, metric and landmarks from the rows that wait, for as long as no others come."""
        alpha, rows = self._alpha, self._waiting
        with self._all_or_nothing():
            # A generator is left as it is: what is chosen in the end does not depend on who asks before.
            self._keep(self._first_of(rows, deepcopy(self.random_state), False))
            self._alpha = alpha

    def _first_of(self, rows: Waiting, random_state: Any, grow: bool) -> Stream:
        """Return the stream that waiting rows begin."""
        source = as_source(rows.rows)
        cluster = self._cluster(source)
        source = source if cluster is None else cluster.over(source)
        return self._first(
            source, self._targets_of(rows.y), rows.weights, random_state, grow, held=rows.nbytes
        )

    def _first(
        self,
        source: RowSource,
        targets: Targets,
        weights: Array | None,
        random_state: Any,
        grow: bool,
        held: int = 0,
    ) -> Stream:
        """Return the stream that these rows begin, which take ``held`` bytes of the memory budget."""
        self.__dict__.pop("stages_", None)  # of an earlier fit to the exact system
        source, n_outputs = self._under_metric(source, targets, weights), targets.shape[1]
        plan, kernel, engine, rng = self._planned(
            source, n_outputs, random_state, stream=True, weights=weights, held=held
        )
        features = plan.build(source, kernel, rng=rng, engine=engine, weights=weights)
        intercept = bool(self.fit_intercept)
        shift = targets.centre(weights) if intercept else np.zeros(n_outputs)
        given, sizes, territory = isinstance(plan.builder, GivenBuilder), sizes_of(plan.builder), None
        if growable(features, sizes):
            territory = Territory.around(
                features,
                growing_sizes(features, sizes),
                source,
                built=not given,
                rng=rng,
                engine=engine,
                memory_budget=plan.memory_budget,
            )
        if grow:
            growing_sizes(features, sizes)
        sums = RidgeSums.zeros(features, shift, intercept=intercept)
        work = replace(self._workload(source, n_outputs), sums_held=2)
        stream = Stream(features, sums, plan, work, territory)
        if grow and given:  # no row is new to a map that was built from it
            stream = stream.explored(source, weights, engine, parse_bytes(self.memory_budget))
        with rows_bar(source.shape[0], self.verbose) as done:
            return stream.extended(source, targets, weights, engine, done)

    def _added(
        self, stream: Stream, source: RowSource, targets: Targets, weights: Array | None, grow: bool
    ) -> Stream:
        """Return a stream, whose scale and metric this model has, with further rows."""
        source = self._scaled(source, learn=False)
        self._check_parameters(stream, source, targets)
        engine = self._stream_engine(stream)
        if grow:
            growing_sizes(stream.features, sizes_of(stream.plan.builder))
            stream = stream.explored(source, weights, engine, parse_bytes(self.memory_budget))
        with rows_bar(source.shape[0], self.verbose) as done:
            return stream.extended(source, targets, weights, engine, done)

    def _check_parameters(self, stream: Stream, source: RowSource, targets: Targets) -> None:
        """Raise where the rows, or parameters that have changed, do not go with the stream so far."""
        outputs = len(stream.sums.shift)
        if targets.shape[1] != outputs:
            raise _other_outputs(targets.shape[1], outputs)
        self._penalty()
        frozen = frozen_map(self, source.shape[1])
        kernel = self._kernel_of(source) if frozen is None else frozen.features.kernel
        if kernel != stream.features.kernel:
            raise InputError(
                f"the kernel is now {kernel}, but the stream was started with {stream.features.kernel}. "
                "Change it before the first call of partial_fit, or clone the model."
            )
        if bool(self.fit_intercept) != stream.sums.intercept:
            raise InputError(
                f"fit_intercept={self.fit_intercept!r}, but the stream was started with "
                f"{stream.sums.intercept}. Change it before the first call of partial_fit, or clone the "
                "model."
            )

    def _keep(self, stream: Stream) -> Self:
        """Make this the model of a stream; its coefficients are found when they are asked for."""
        for name in SOLVED:
            self.__dict__.pop(name, None)
        self._alpha = self._penalty()
        self._stream = stream
        self.n_rows_seen_ = stream.sums.n_rows
        self.n_rows_waiting_ = self._waiting.n_rows if self._waits else 0
        self.n_blocks_ = stream.n_blocks
        self.kernel_, self.rank_, self.plan_ = stream.features.kernel, stream.features.rank, stream.plan
        return self

    def _with_penalty(self, alpha: float) -> Self:
        """Give the rows so far another alpha; the coefficients are found anew from the same sums."""
        self.alpha = alpha
        return self._keep(self._streamed())

    def _closed(self) -> Self:
        """Solve and drop the sums: what is left is as of one ``fit``."""
        self._solve()
        for name in STREAMED:
            self.__dict__.pop(name, None)
        return self

    def _solve(self) -> None:
        stream = self._streamed()
        found = stream.solved(self._alpha, self._stream_engine(stream))
        self.intercept_, self.solution_ = found.intercept, found.solution
        self.plan_, self.predictor_ = found.plan, found.predictor

    def _stream_engine(self, stream: Stream) -> Engine:
        """Return an engine of as many threads as there are here and the plan has room for."""
        return Engine(min(self._engine().n_threads, stream.plan.n_threads))


def _other_outputs(found: int, expected: int) -> InputError:
    return InputError(
        f"y has {found} outputs, but the rows so far have {expected}. Give targets of the same shape in "
        "every call."
    )
