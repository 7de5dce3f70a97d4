"""Ridge models of streams: rows that come a few at a time, fade, join others, and find new territory."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.approximation.given import GivenBuilder, sizes_of
from gramian.approximation.growth import Territory, growable, growing_sizes
from gramian.approximation.ridge_sums import RidgeSums
from gramian.approximation.stream import Stream
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimators.base import checked_weights, own_target, required_target
from gramian.estimators.frozen import frozen_map
from gramian.estimators.metric_param import QUICK_BYTES
from gramian.estimators.progress import rows_bar
from gramian.estimators.streaming import StreamingRidge
from gramian.estimators.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError, quoted

#: What is found from a stream's sums when it is asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: What a model of a stream has beside what a fit leaves.
STREAMED = ("_stream", "n_rows_seen_", "n_blocks_")


class PartialRidge(StreamingRidge):
    """Base of the ridge models that take rows in several calls.

    ``_stream`` holds the feature map and the sums. The coefficients are found when ``predict`` or one of the
    attributes in :data:`SOLVED` asks for them, once for each state; a pickle holds the sums, and has the
    coefficients only where they were found before.
    """

    _stream: Stream

    if not TYPE_CHECKING:  # else every misspelt attribute would pass as Any

        def __getattr__(self, name: str) -> Any:
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
        faded = self._streamed().faded(1.0 - float(share))
        with self._all_or_nothing():
            return self._keep(faded)

    def merge(self, other: Any) -> Self:
        """Add the rows of another model of a stream: the result is that of one model that saw both.

        Both must have the same feature map: start them with ``approximation=FrozenEstimator(a)`` of one
        fitted approximation ``a``. The map is compared number by number, so that models may come from other
        processes. alpha may differ; this model's stays. ``other`` is not changed.

        Time O(bytes of map and sums). Raises ``InputError`` for other maps, classes or outputs, and for
        models that were trained by ``fit``.
        """
        if type(other) is not type(self):
            raise InputError(
                f"other is a {type(other).__name__}; expected a {type(self).__name__} that was trained by "
                "partial_fit."
            )
        mine, its = self._streamed(), other._streamed()
        self._check_mergeable(other)
        merged = mine.merged(its)
        with self._all_or_nothing():
            return self._keep(merged)

    def _check_mergeable(self, other: Any) -> None:
        """Raise where the targets of two models mean different things."""

    def _copy(self, before: Any, quick: bool) -> Any:
        made = super()._copy(before, quick)
        if quick and parse_bytes(self.memory_budget) >= QUICK_BYTES:
            made.approximation = "exact"
        return made

    def _streamed(self) -> Stream:
        """Return the stream so far; raise where there is none."""
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
        return "_stream" in self.__dict__

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
        if cluster is not None:
            source = cluster.over(source)
        return self._scaled(source, learn=False) if self._begun else source

    def _take(self, source: RowSource, targets: Targets, weights: Array | None, grow: bool) -> Self:
        """Add rows to the stream, which they begin where there is none."""
        if self._begun:
            stream, own = self._stream, False
            self._check_parameters(stream, source, targets)
            engine = self._stream_engine(stream)
        else:
            stream, engine = self._first(source, targets, weights)
            own = not isinstance(stream.plan.builder, GivenBuilder)
        if grow:
            growing_sizes(stream.features, sizes_of(stream.plan.builder))
        if grow and not own:  # no row is new to a map that was built from it
            stream = stream.explored(source, weights, engine, parse_bytes(self.memory_budget))
        with rows_bar(source.shape[0], self.verbose) as done:
            return self._keep(stream.extended(source, targets, weights, engine, done))

    def _first(self, source: RowSource, targets: Targets, weights: Array | None) -> tuple[Stream, Engine]:
        """Return the stream of no rows, on the map that these rows are given, and its engine."""
        self.__dict__.pop("stages_", None)  # of an earlier fit to the exact system
        n_outputs = targets.shape[1]
        plan, kernel, engine, rng = self._planned(
            source, n_outputs, self.random_state, stream=True, weights=weights
        )
        features = plan.build(source, kernel, rng=rng, engine=engine, weights=weights)
        intercept = bool(self.fit_intercept)
        shift = targets.centre(weights) if intercept else np.zeros(n_outputs)
        sizes, territory = sizes_of(plan.builder), None
        if growable(features, sizes):
            territory = Territory.around(
                features,
                growing_sizes(features, sizes),
                source,
                built=not isinstance(plan.builder, GivenBuilder),
                rng=rng,
                engine=engine,
                memory_budget=plan.memory_budget,
            )
        sums = RidgeSums.zeros(features, shift, intercept=intercept)
        work = replace(self._workload(source, n_outputs), sums_held=2)
        return Stream(features, sums, plan, work, territory), engine

    def _check_parameters(self, stream: Stream, source: RowSource, targets: Targets) -> None:
        """Raise where the rows, or parameters that have changed, do not go with the stream so far."""
        outputs = len(stream.sums.shift)
        if targets.shape[1] != outputs:
            raise InputError(
                f"y has {targets.shape[1]} outputs, but the rows so far have {outputs}. Give targets of the "
                "same shape in every call."
            )
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
        self.n_blocks_ = stream.n_blocks
        self.kernel_, self.rank_, self.plan_ = stream.features.kernel, stream.features.rank, stream.plan
        return self

    def _with_penalty(self, alpha: float) -> Self:
        """Give the rows so far another alpha; the coefficients are found anew from the same sums."""
        self.alpha = alpha
        return self._keep(self._stream)

    def _closed(self) -> Self:
        """Solve and drop the sums: what is left is as of one ``fit``."""
        self._solve()
        for name in STREAMED:
            self.__dict__.pop(name, None)
        return self

    def _solve(self) -> None:
        found = self._stream.solved(self._alpha, self._stream_engine(self._stream))
        self.intercept_, self.solution_ = found.intercept, found.solution
        self.plan_, self.predictor_ = found.plan, found.predictor

    def _stream_engine(self, stream: Stream) -> Engine:
        """Return an engine of as many threads as there are here and the plan has room for."""
        return Engine(min(self._engine().n_threads, stream.plan.n_threads))


def _streams(model: PartialRidge) -> bool:
    """Return whether a model's parameters allow a stream."""
    return model._no_stream() is None


class PartialRegressor(PartialRidge):
    """A ridge model of a stream of numbers."""

    @available_if(_streams)
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, grow_landmarks: bool = False
    ) -> Self:
        """Add rows X (n, d) with targets y (n,) or (n, outputs) to those of earlier calls.

        The first call chooses sizes, landmarks and a learned metric from its rows (precision as for a million
        rows), so let it
        have some thousands that are like the others, or give the landmarks:
        ``approximation=FrozenEstimator(a)``. Later calls add their rows' sums. Over the same landmarks the
        model is that of one fit to all rows; the intercept too. A call that fails, or is broken off, adds
        nothing. After ``fit``, which keeps no sums, a stream starts anew, with a warning.
        alpha is that of the latest call; the coefficients are found when they are asked for. ``checkpoint``
        is of ``fit`` alone: pickle the model between two calls.

        Parameters
        ----------
        sample_weight : array of shape (n,), optional
        grow_landmarks : bool
            Adds blocks where rows lie of whose k(x, x) the map represents too little: more than half of what
            95 % of the first rows had left over is left of them. Once 2·rank such rows have come (they are
            kept for it, in a sixteenth of the memory budget at most), their clusters become blocks with
            landmarks among them. Rows go to the nearest centre from then on; rows that came before keep the
            features that they were summed with, so that a new block knows nothing of them. For a root with
            blocks (``MultiResolution``, ``n_levels=2``) only. Growth ends, with a warning, at the memory
            budget. About twice the time for a row.

        Returns
        -------
        self, with ``n_rows_seen_`` and ``n_blocks_`` beside the attributes of a fit

        Time O(n (m d + m r + R_path²)) and, when the coefficients are asked for, a solve; memory as ``plan_``
        says, independent of n. Raises ``InputError`` for unusable rows, other outputs, or a kernel or
        ``fit_intercept`` that was changed since the first call. There is no ``partial_fit`` with
        ``approximation="exact"`` and ``kernel="precomputed"``, which need all rows at once.
        """
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._next_rows(X, y)
            targets = NumberTargets(y, source.shape[0])
            if not self._begun:
                self._flat = targets.flat
            weights = checked_weights(sample_weight, source.shape[0])
            if not self._begun:
                source = self._under_metric(source, targets, weights)
            return self._take(source, targets, weights, grow_landmarks)


class PartialClassifier(PartialRidge):
    """A ridge model of a stream of classes."""

    class_weight: Any

    def _no_stream(self) -> str | None:
        if isinstance(self.class_weight, str):
            return (
                f": class_weight={self.class_weight!r} needs the labels of all rows. Give a dict from class "
                "to weight, or sample_weight."
            )
        return super()._no_stream()

    @available_if(_streams)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        grow_landmarks: bool = False,
    ) -> Self:
        """Add rows X (n, d) with labels y (n,) to those of earlier calls, as :class:`KernelRidge` does.

        Parameters
        ----------
        classes : all labels that will come
            Required in the first call, as in scikit-learn; later it may be left out.
        sample_weight, grow_landmarks : as of :meth:`KernelRidge.partial_fit`

        Raises ``InputError`` also for a label that was not named. There is no ``partial_fit`` with
        ``class_weight="balanced"``, which needs all labels at once.
        """
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._next_rows(X, y)
            self.classes_ = self._named(classes)
            targets = ClassTargets(y, source.shape[0], self.classes_)
            weights = targets.weights(self.class_weight, sample_weight)
            if not self._begun:
                source = self._under_metric(source, targets, weights)
            return self._take(source, targets, weights, grow_landmarks)

    def _named(self, classes: Any) -> Array:
        if classes is None:
            if hasattr(self, "classes_"):
                return self.classes_
            raise InputError(
                "classes must be passed on the first call to partial_fit: the labels of all rows to come, "
                "such as classes=np.unique(y)."
            )
        given = np.asarray(classes)
        if given.ndim != 1 or not given.size:
            raise InputError(
                f"classes has shape {given.shape}; expected one label a class, shape (classes,)."
            )
        check_classification_targets(np.repeat(given, 3))  # of each once it would warn
        named = np.unique(given)
        if self._begun and not np.array_equal(named, self.classes_):
            raise InputError(
                f"classes={quoted(named.tolist())} are not those of the first call to partial_fit "
                f"({quoted(self.classes_.tolist())}). Leave classes out, or start anew with a clone."
            )
        return named

    def _check_mergeable(self, other: Any) -> None:
        if not np.array_equal(self.classes_, other.classes_):
            raise InputError(
                f"this model has the classes {quoted(self.classes_.tolist())}, the other "
                f"{quoted(other.classes_.tolist())}. Name the same classes in the first call of both."
            )
