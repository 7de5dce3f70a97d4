"""``partial_fit``, ``forget`` and ``merge`` of ridge models, and coefficients that are found when asked for.

The coefficients of a stream are found when ``predict`` or one of the attributes in
:data:`~gramian.ridge.streaming.SOLVED` asks for them, once for each state; a pickle holds rows and sums, and
has the coefficients only where they were found before.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian._phases import Phases
from gramian._typing import Array, RowsLike
from gramian.data.source import RowSource
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fit_inputs import fit_rows, opened
from gramian.estimator.fitting import all_or_nothing, remove
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.estimator.labels import label_array
from gramian.estimator.matching import check_width, names_known
from gramian.estimator.summaries import Evidence
from gramian.exceptions import InputError, listed, quoted
from gramian.ridge.fit_data import FitData
from gramian.ridge.model import KernelModel, RidgeModel
from gramian.ridge.parameters import RidgeParameters, exact_of
from gramian.ridge.streaming import CHOSEN, SOLVED, RidgeStream
from gramian.selection.automatic import automatic

if TYPE_CHECKING:

    class RidgeEstimator(KernelEstimator):
        """A ridge estimator, whose rows may come in several calls of ``partial_fit``."""

        alpha: Any
        engine: Any
        class_weight: Any  #: of a classifier
        classes_: Array  #: of a classifier
        _stream: RidgeStream
        _fit_data: FitData

else:
    RidgeEstimator = KernelEstimator  # a base that states attributes is for the type checker

Ridge = TypeVar("Ridge", bound=RidgeEstimator)


# ---- what a class of such models has -------------------------------------------------------------


class FromStream:
    """A learned attribute that the stream of a model finds when it is asked for, and then keeps.

    The model of a ``fit`` has the attribute itself, which is read without a call of this.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, model: RidgeEstimator, owner: type | None = None) -> Any:
        if model is None:
            return self
        stream: RidgeStream | None = vars(model).get("_stream")
        found = {} if stream is None else stream.solved.state() if self.name in SOLVED else stream.chosen()
        if self.name not in found:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        return found[self.name]


def of_streams(kind: type[Ridge]) -> type[Ridge]:
    """Decorate a class of ridge models that have ``partial_fit``: attributes are found when asked for."""
    for name in (*SOLVED, *CHOSEN):
        setattr(kind, name, FromStream(name))
    return kind


class if_streamable:
    """Decorate ``partial_fit``, which a model has unless its parameters need all rows at once."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: RidgeEstimator, owner: type | None = None) -> Any:
        if model is None:
            return self._method
        why = _no_stream(model)
        if why is not None:
            name = self._method.__name__
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {name!r}{why}")
        return MethodType(self._method, model)


def _no_stream(model: RidgeEstimator) -> str | None:
    """Return why a model with these parameters has no ``partial_fit``; None where it has."""
    class_weight = vars(model).get("class_weight")
    if isinstance(class_weight, str):
        return (
            f": class_weight={class_weight!r} needs the labels of all rows. Give a dict from class "
            "to weight, or sample_weight."
        )
    asked = automatic(model._kernel_parameters, alpha=model.alpha)
    if asked:
        return (
            f": {asked[0]}='auto' chooses by all rows. Fit some rows first, and give partial_fit what "
            "was found: kernel_ and alpha_."
        )
    if exact_of(model.approximation) is not None:
        return (
            ": approximation='exact' solves with the kernel matrix of all rows at once. Use fit, or "
            "another approximation."
        )
    if model._precomputed:
        return (
            ": kernel='precomputed' takes the kernel values of all rows with each other. Use fit, or a "
            "kernel's name and rows."
        )
    return None


def check_named_classes(model: RidgeEstimator, classes: Any) -> Array:
    """Return the sorted classes of a call of ``partial_fit``; None stands for those of earlier rows."""
    if classes is None:
        if hasattr(model, "classes_"):
            return model.classes_
        raise InputError(
            "classes must be passed on the first call to partial_fit: the labels of all rows to come, "
            "such as classes=np.unique(y)."
        )
    given = np.asarray(classes)
    if given.ndim != 1 or not given.size:
        raise InputError(f"classes has shape {given.shape}; expected one label a class, shape (classes,).")
    given = np.asarray(label_array(classes))
    check_classification_targets(np.repeat(given, 3))  # of each once it would warn
    named = np.unique(given)
    if has_rows(model) and not np.array_equal(named, model.classes_):
        raise InputError(
            f"classes={quoted(named.tolist())} are not those of the rows so far "
            f"({quoted(model.classes_.tolist())}). Leave classes out, or start anew with a clone."
        )
    return named


# ---- the methods that both classes have ----------------------------------------------------------


def forget(self: Ridge, share: float) -> Ridge:
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
        stream = require_stream(self)
        return keep_stream(self, stream.fade(RidgeParameters.of(self), 1.0 - float(share)))


def merge(self: Ridge, other: object) -> Ridge:
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
        mine, its = require_stream(self), require_stream(other)
        _check_alike(self, other)
        waiting = its.waiting or mine.waiting
        if waiting is not None:
            check_width(self, waiting.rows.shape[1], reset=False)
        return keep_stream(self, mine.merge(RidgeParameters.of(self), its))


# ---- the stream of a model -----------------------------------------------------------------------


def has_rows(model: RidgeEstimator) -> bool:
    """Return whether there are earlier rows that the next rows are added to."""
    return "_stream" in vars(model) or "_fit_data" in vars(model)


def keep_stream(model: Ridge, stream: RidgeStream) -> Ridge:
    """Make this the stream of a model; what is not known yet is found when it is asked for."""
    drop_stream(model)
    model._keep(stream.state())
    model._stream = stream
    return model


def drop_stream(model: RidgeEstimator) -> None:
    """Drop the stream of a model, and the reference to the rows of its fit."""
    remove(model, "_stream", "_fit_data", "n_rows_waiting_")


def keep_fit(model: Ridge, fitted: RidgeModel, X: Any, y: ArrayLike, sample_weight: ArrayLike) -> Ridge:
    """Make this the fit of a model, and keep what it was given, so that ``partial_fit`` can go on from it.

    A matrix of kernel values is not kept: there is no stream of such rows.
    """
    drop_stream(model)
    model._keep(fitted.state())
    if not model._precomputed:
        model._fit_data = FitData.of(X, y, sample_weight)
    return model


def add_rows(model: Ridge, rows: LabelledRows[Any], phases: Phases, *, grow: bool) -> Ridge:
    """Add rows to the stream of a model, with the parameters that it has now."""
    parameters = RidgeParameters.of(model, phases)
    return keep_stream(model, stream_so_far(model, parameters).with_rows(parameters, rows, grow=grow))


def without_fit_data(model: Ridge) -> Ridge:
    """Drop the reference to the rows of a fit, from which no ``partial_fit`` will go on."""
    remove(model, "_fit_data")
    return model


def stream_so_far(model: RidgeEstimator, parameters: RidgeParameters) -> RidgeStream:
    """Return the stream of earlier calls, or that of the rows of a fit; without rows where there are none."""
    held = vars(model)
    if "_stream" in held:
        found: RidgeStream = model._stream
        return found
    given: FitData | None = held.get("_fit_data")
    empty = RidgeStream.of(parameters)
    if given is None:
        return empty
    why = _no_stream(model)
    if why is not None:
        raise InputError(f"this {type(model).__name__} keeps no sums of its rows{why}")
    given.check_unchanged()
    labels = is_classifier(model)
    X, y, weights = opened(given.X, given.y, given.sample_weight, engine=model.engine, labels=labels)
    source = fit_rows(model, X, y, engine=model.engine, reset=False)
    if labels:
        rows: Any = labelled_classes(source, y, weights, model.class_weight, model.classes_)
    else:
        rows = labelled_numbers(source, y, weights)
    return empty.with_rows(parameters, rows, grow=False)


def require_stream(model: RidgeEstimator) -> RidgeStream:
    """Return the stream so far; raise where there is none."""
    if has_rows(model):
        return stream_so_far(model, RidgeParameters.of(model))
    check_is_fitted(model)
    raise InputError(
        f"this {type(model).__name__} has neither the rows of its fit nor their sums: model files, pickles "
        "and copies leave the rows of fit out. Train by partial_fit, whose sums pickles and copies keep."
    )


def next_rows(model: RidgeEstimator, X: RowsLike, y: ArrayLike) -> RowSource:
    """Return the checked rows of a call of ``partial_fit``."""
    required_target(model, y)
    if not has_rows(model) and "predictor_" in vars(model):
        warnings.warn(
            f"this {type(model).__name__} has neither the rows of its fit nor their sums, so that "
            "partial_fit starts anew with these rows: model files, pickles and copies leave the rows of fit "
            "out. To go on from them, train by partial_fit from the start: pickles and copies keep its sums.",
            UserWarning,
            stacklevel=3,
        )
    source = fit_rows(model, X, y, engine=model.engine, reset=not has_rows(model))
    if source.shape[0] == 0:
        raise InputError(f"X has shape {source.shape}: a call of partial_fit takes at least one row.")
    return source


def ridge_evidence(model: RidgeEstimator) -> Evidence:
    """Return what a ridge model states."""
    held, names = vars(model), names_known(model)
    if "_stream" in held:
        found: Evidence = model._stream.facts(names)
        return found
    stated = KernelModel.of(model).facts(names, alpha=held.get("alpha_", model.alpha))
    return replace(stated, n_rows=held.get("n_rows_seen_", stated.n_rows))


def _check_alike(model: RidgeEstimator, other: RidgeEstimator) -> None:
    """Raise where two models learned from other columns, or classifiers from other classes."""
    mine, its = names_known(model), names_known(other)
    if mine and its and mine != its:
        raise InputError(
            f"this model has the columns {listed(mine)}, the other {listed(its)}. Pass both the same "
            "columns in the same order."
        )
    if is_classifier(model) and not np.array_equal(model.classes_, other.classes_):
        raise InputError(
            f"this model has the classes {quoted(model.classes_.tolist())}, the other "
            f"{quoted(other.classes_.tolist())}. Name the same classes in the first call of both."
        )
