"""Base of ridge estimators whose rows may come in several calls: ``partial_fit``, ``forget`` and ``merge``.

The coefficients of a stream are found when ``predict`` or one of the attributes in
:data:`~gramian.ridge.streaming.SOLVED` asks for them, once for each state; a pickle holds rows and sums, and
has the coefficients only where they were found before.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import clone, is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian._checks import refuse_masked
from gramian._phases import Phases
from gramian._typing import Array, Float64Array, RowsLike
from gramian.approximations.setup import FitSetup
from gramian.compression.features import same_values
from gramian.compression.plan import Plan
from gramian.data.distributed import cluster_of, distributed, is_elsewhere
from gramian.data.fingerprint import fingerprint
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fitting import all_or_nothing
from gramian.estimator.input import feature_importances_
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.estimator.labels import label_array
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.rows import check_width, matched, names_known
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import InputError, listed, quoted, user_level
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import exact_of, plan_ridge, ridge_setup
from gramian.ridge.streaming import RidgeStream
from gramian.selection.automatic import automatic


@dataclass(frozen=True)
class FitData:
    """Rows, targets and sample weights as the user passed them to ``fit``; nothing is copied.

    Rows that a caller writes over between two calls, as in a buffer that is filled again, would be counted
    twice. Arrays in memory are therefore recognised by a fingerprint; files, frames and lists are not.
    """

    X: Any
    y: Any
    sample_weight: Any
    fingerprints: tuple[str | None, ...]

    @classmethod
    def of(cls, X: RowsLike, y: ArrayLike | None, sample_weight: ArrayLike) -> Self:
        """Return these rows with their fingerprints. Time independent of n."""
        return cls(X, y, sample_weight, tuple(map(_fingerprint, (X, y, sample_weight))))

    def check_unchanged(self) -> None:
        """Raise where an array has been written to since the fit."""
        given = {"X": self.X, "y": self.y, "sample_weight": self.sample_weight}
        for (name, value), known in zip(given.items(), self.fingerprints, strict=True):
            if _fingerprint(value) != known:
                raise InputError(
                    f"the array {name} that fit was given has been changed since, so that its rows cannot be "
                    "added to the new ones. Pass a copy to fit, or train by partial_fit from the start."
                )


def _fingerprint(given: Any) -> str | None:
    """Return the fingerprint of an array in memory; None for anything else."""
    values = given.data if sp.issparse(given) and hasattr(given, "data") else given
    in_memory = isinstance(values, np.ndarray) and not isinstance(values, np.memmap) and values.ndim > 0
    return fingerprint(values) if in_memory else None


#: Parameters that a stream reads when it begins; kernel and intercept are compared with those that it has.
AT_START = ("standardize", "metric", "approximation", "tile_dtype", "random_state", "gamma")


@dataclass(eq=False, repr=False)
class RidgeEstimator(KernelEstimator):
    """A ridge estimator. It holds the stream of its calls of ``partial_fit``, or what ``fit`` was given."""

    alpha: float | str | ArrayLike = 1.0
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    approximation: Any = "auto"
    fit_intercept: bool = False
    standardize: bool = False
    metric: Any = None
    memory_budget: int | str = "1GB"
    checkpoint: Any = None
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    engine: Any = None
    verbose: int = 0

    _holds = ("_stream", "_started_with", "_fit_data", "n_rows_waiting_")
    _left_out = ("_fit_data",)
    _stream: ClassVar[RidgeStream | None] = None
    #: Values of the parameters ``AT_START`` when the stream's sums began.
    _started_with: ClassVar[dict[str, Any] | None] = None
    _fit_data: ClassVar[FitData | None] = None

    def __getattr__(self, name: str) -> Any:
        """Return a learned attribute that the stream finds when it is asked for."""
        learned = None if self._stream is None else self._stream.learned(name)
        # The usual look-up raises again, in the words of a property or a method that is not there.
        return super().__getattribute__(name) if learned is None else learned

    def forget(self, share: float) -> Self:
        """Give all rows so far 1 − ``share`` of the weight that they have; later rows have their full weight.

        Called between two calls of ``partial_fit`` it makes the model follow a target that drifts: with a
        share of s after every chunk, a row counts (1 − s)^k after k chunks. Beside alpha, which does not
        fade, a model that forgets and learns nothing goes to 0 (to its intercept). Landmarks stay.

        share : number from 0 (nothing) to under 1.

        Time and memory of the sums; after ``fit``, first that of adding the rows of that fit. Raises
        ``InputError`` where neither rows nor sums are known, as in a model that was loaded from a file.
        """
        real = isinstance(share, numbers.Real) and not isinstance(share, bool)
        if not real or not 0 <= float(share) < 1:
            raise InputError(
                f"share={share!r} must be a number of at least 0 and under 1. To start anew over the same "
                "landmarks, clone a model with approximation=FrozenEstimator(a)."
            )
        with all_or_nothing(self):
            stream = self._require_stream()
            return self._keep_stream(stream.fade(ridge_setup(self), 1.0 - float(share)))

    def merge(self, other: Self) -> Self:
        """Add the rows of another model of a stream: the result is that of one model that saw both.

        Both must have the same feature map: start them with ``approximation=FrozenEstimator(a)`` of one
        fitted approximation ``a``. The map is compared number by number, so that models may come from other
        processes. alpha may differ; this model's stays. ``other`` is not changed. Rows that still wait (see
        ``partial_fit``) have no map: they are added to the other ones, in whatever map those have.

        Time O(bytes of map and sums); after ``fit``, first that of adding the rows of that fit. Raises
        ``InputError`` for other maps, classes or outputs, and where neither rows nor sums are known, as in a
        model that was loaded from a file.
        """
        if type(other) is not type(self):
            raise InputError(
                f"other is a {type(other).__name__}; expected a {type(self).__name__} that was trained by "
                "partial_fit."
            )
        with all_or_nothing(self):
            mine, its = self._require_stream(), other._require_stream()
            names, others = names_known(self), names_known(other)
            if names and others and names != others:
                raise InputError(
                    f"this model has the columns {listed(names)}, the other {listed(others)}. Pass both the "
                    "same columns in the same order."
                )
            if is_classifier(self) and not np.array_equal(self.classes_, other.classes_):
                raise InputError(
                    f"this model has the classes {quoted(self.classes_.tolist())}, the other "
                    f"{quoted(other.classes_.tolist())}. Name the same classes in the first call of both."
                )
            for name in ("standardize", "metric"):
                if not same_values(getattr(self, name), getattr(other, name)):
                    raise InputError(
                        f"this model has {name}={quoted(getattr(self, name))}, the other "
                        f"{quoted(getattr(other, name))}. Start both alike."
                    )
            waiting = its.waiting or mine.waiting
            if waiting is not None:
                check_width(self, waiting.source.shape[1], reset=False)
            return self._keep_stream(mine.merge(ridge_setup(self), its))

    def plan(self, X: RowsLike | None, y: ArrayLike | None = None) -> Plan:
        """Predict sizes and bytes of a fit, without fitting (``y`` gives the outputs or the classes)."""
        X, y, _ = self._opened(X, y, None)
        return self._plan_fit(X, y, lambda *rows: plan_ridge(ridge_setup(self), *rows))

    feature_importances_ = feature_importances_

    def _decision(self, X: RowsLike) -> Float64Array:
        source = distributed(self._rows(X, reset=False), self.engine)
        return KernelModel.of(self).finite(source, Engine(self.n_jobs))

    def _evidence(self) -> FitFacts:
        names = names_known(self)
        if self._stream is not None:
            return self._stream.facts(names)
        stated = KernelModel.of(self).facts(names, alpha=getattr(self, "alpha_", self.alpha))
        return replace(stated, n_rows=getattr(self, "n_rows_seen_", stated.n_rows))

    # ---- rows, checked ---------------------------------------------------------------------------

    def _opened(
        self, X: RowsLike | None, y: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[Any, Any, Any]:
        """Return rows, targets and weights, collections of a cluster among them as sources and columns."""
        if self.engine is None and not is_elsewhere(X):
            return X, y, sample_weight
        cluster = cluster_of(X, self.engine)
        return cluster.rows(X), cluster.column(y, flat=is_classifier(self)), cluster.column(sample_weight)

    def _checked(
        self, X: RowsLike | None, y: ArrayLike | None, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> tuple[RowSource, Any, Any]:
        """Return checked rows, over the machines of a cluster where there is one, targets and weights."""
        X, y, sample_weight = self._opened(X, y, sample_weight)
        return distributed(self._rows(X, reset=reset), self.engine), y, sample_weight

    def _next_rows(
        self, X: RowsLike | None, y: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[RowSource, Any, Any]:
        """Return the checked rows of a call of ``partial_fit``, their targets and weights."""
        source, y, sample_weight = self._checked(X, y, sample_weight, reset=not self._has_rows)
        if source.shape[0] == 0:
            raise InputError(f"X has shape {source.shape}: a call of partial_fit takes at least one row.")
        if not self._has_rows and hasattr(self, "predictor_"):
            warnings.warn(
                f"this {type(self).__name__} has neither the rows of its fit nor their sums, so that "
                "partial_fit starts anew with these rows: model files, pickles and copies leave the rows of "
                "fit out. To go on from them, train by partial_fit from the start: pickles and copies keep "
                "its sums.",
                UserWarning,
                stacklevel=user_level(),
            )
        return source, y, sample_weight

    # ---- the stream ------------------------------------------------------------------------------

    @property
    def _has_rows(self) -> bool:
        """Whether there are earlier rows that the next rows are added to."""
        return self._stream is not None or self._fit_data is not None

    def _stream_so_far(self, setup: FitSetup) -> RidgeStream:
        """Return the stream of earlier calls or of the rows of a fit; one without rows if there are none."""
        if self._stream is not None:
            for name, before in (self._started_with or {}).items():
                now = getattr(self, name)
                if not same_values(before, now) and (name != "gamma" or isinstance(now, str)):
                    raise InputError(
                        f"{name}={quoted(now)}, but the stream was started with {quoted(before)}. Change it "
                        "before the first call of partial_fit, or clone the model."
                    )
            return self._stream
        empty, given = RidgeStream.of(setup), self._fit_data
        if given is None:
            return empty
        if (why := why_no_stream(self)) is not None:
            raise InputError(f"this {type(self).__name__} keeps no sums of its rows{why}")
        given.check_unchanged()
        checked = self._checked(given.X, given.y, given.sample_weight, reset=False)
        rows: LabelledRows[Any]
        if is_classifier(self):
            rows = labelled_classes(*checked, self.class_weight, self.classes_)
        else:
            rows = labelled_numbers(*checked)
        return empty.with_rows(setup, rows)

    def _require_stream(self) -> RidgeStream:
        """Return the stream so far; raise where there is none."""
        if self._has_rows:
            return self._stream_so_far(ridge_setup(self))
        check_is_fitted(self)
        raise InputError(
            f"this {type(self).__name__} has neither the rows of its fit nor their sums: model files, "
            "pickles and copies leave the rows of fit out. Train by partial_fit, whose sums pickles and "
            "copies keep."
        )

    def _add_rows(self, rows: LabelledRows[Any], phases: Phases) -> Self:
        """Add rows to the stream, with the parameters that the model has now."""
        setup = ridge_setup(self, phases)
        return self._keep_stream(self._stream_so_far(setup).with_rows(setup, rows))

    def _keep_stream(self, stream: RidgeStream) -> Self:
        """Make this the stream of the model; what is not known yet is found when it is asked for."""
        started = self._started_with
        if started is None and stream.summed is not None:
            given = {name: getattr(self, name) for name in AT_START}
            # Copies, but of a generator, which draws on: settings may be changed in place.
            started = {
                name: v if name == "random_state" else clone(v, safe=False) for name, v in given.items()
            }
        self._keep({**stream.state(), "_stream": stream, "_started_with": started})
        return self

    def _lazily(self, X: RowsLike, method: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return a method's values for a collection as one of the same package, nothing computed.

        To callers it is an array; one of Dask has the same methods.
        """
        cluster = cluster_of(X, self.engine)
        cluster.header(X)  # raises for columns that are no numbers
        rows = matched(self, X, reset=False)
        check_width(self, rows.shape[1], reset=False)
        # One that runs where the rows lie: without what only a fit needs, and on one thread.
        plain = {"approximation": "auto", "random_state": None, "engine": None, "n_jobs": 1}
        plain |= {"checkpoint": None, "verbose": 0}
        sent = type(self)(**{**self.get_params(deep=False), **plain})
        sent._restore({**self._state(), "n_features_in_": self.n_features_in_})
        values: Array = cluster.lazily(rows, getattr(sent, method), shape, dtype)
        return values

    def _keep_fit(self, fitted: KernelModel, *given: Any) -> Self:
        """Make this the fit of the model, and keep what it was given, so that ``partial_fit`` can go on.

        A matrix of kernel values is not kept: there is no stream of such rows.
        """
        data = {} if self._precomputed else {"_fit_data": FitData.of(*given)}
        self._keep({**fitted.state(), **data})
        return self


class if_streamable:
    """Decorate ``partial_fit``, which a model has unless its parameters need all rows at once."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: RidgeEstimator, owner: type | None = None) -> Any:
        if model is None:
            return self._method
        if (why := why_no_stream(model)) is not None:
            name = self._method.__name__
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {name!r}{why}")
        return MethodType(self._method, model)


def why_no_stream(model: RidgeEstimator) -> str | None:
    """Return why a model with these parameters has no ``partial_fit``; None where it has."""
    kernel, class_weight = KernelParameters(model.kernel, model.gamma), getattr(model, "class_weight", None)
    if isinstance(class_weight, str):
        return (
            f": class_weight={class_weight!r} needs the labels of all rows. Give a dict from class "
            "to weight, or sample_weight."
        )
    auto_names = automatic(kernel, alpha=model.alpha)
    if auto_names:
        return (
            f": {auto_names[0]}='auto' chooses by all rows. Fit some rows first, and give partial_fit what "
            "was found: kernel_ and alpha_."
        )
    if exact_of(model.approximation) is not None:
        return (
            ": approximation='exact' solves with the kernel matrix of all rows at once. Use fit, or "
            "another approximation."
        )
    if kernel.precomputed:
        return (
            ": kernel='precomputed' takes the kernel values of all rows with each other. Use fit, or a "
            "kernel's name and rows."
        )
    return None


def named_classes(classes: ArrayLike | None, known: Array | None, *, fixed: bool) -> Array:
    """Return the sorted classes of a call of ``partial_fit``; None stands for the known ones.

    With ``fixed`` the known ones are those of earlier rows, and others are refused.
    """
    if classes is None:
        if known is not None:
            return known
        raise InputError(
            "classes must be passed on the first call to partial_fit: the labels of all rows to come, "
            "such as classes=np.unique(y)."
        )
    refuse_masked("classes", classes)
    given = np.asarray(classes)
    if given.ndim != 1 or not given.size:
        raise InputError(f"classes has shape {given.shape}; expected one label a class, shape (classes,).")
    given = np.asarray(label_array(classes))
    check_classification_targets(np.repeat(given, 3))  # of each once it would warn
    named = np.unique(given)
    if fixed and known is not None and not np.array_equal(named, known):
        raise InputError(
            f"classes={quoted(named.tolist())} are not those of the rows so far "
            f"({quoted(known.tolist())}). Leave classes out, or start anew with a clone."
        )
    return named
