"""``partial_fit``, ``forget`` and ``merge`` of ridge models, and coefficients that are found when asked for.

The coefficients of a stream are found when ``predict`` or one of the attributes in
:data:`~gramian.ridge.streaming.SOLVED` asks for them, once for each state; a pickle holds rows and sums, and
has the coefficients only where they were found before.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from copy import copy
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets

from gramian._typing import Array
from gramian.data.source import as_source
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fitting import all_or_nothing, remove
from gramian.estimator.labels import label_array
from gramian.estimator.matching import check_width
from gramian.exceptions import InputError, quoted
from gramian.metric.input import Input
from gramian.ridge.parameters import exact_of
from gramian.ridge.streaming import (
    CHOSEN,
    SOLVED,
    STREAMED,
    begun,
    choose,
    keep,
    labelled,
    solve,
    start,
    stream_of,
    take,
    wait,
    waits,
)
from gramian.selection.automatic import automatic

Model = TypeVar("Model", bound=KernelEstimator)


# ---- what a class of such models has -------------------------------------------------------------


class FromStream:
    """A learned attribute that a model of a stream finds when it is asked for, and then keeps.

    The model of a ``fit`` has the attribute itself, which is read without a call of this.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, model: KernelEstimator, owner: type | None = None) -> Any:
        if model is None:
            return self
        held = vars(model)
        if waits(model) and "_stream" not in held:
            choose(model)
        if self.name not in held and self.name in SOLVED and "_stream" in held:
            solve(model)
        if self.name not in held:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        return held[self.name]


def of_streams(kind: type[Model]) -> type[Model]:
    """Decorate a class of ridge models that have ``partial_fit``: attributes are found when asked for."""
    for name in (*SOLVED, *CHOSEN):
        setattr(kind, name, FromStream(name))
    return kind


class offered:
    """Decorate ``partial_fit``, which a model has unless its parameters need all rows at once."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: KernelEstimator, owner: type | None = None) -> Any:
        if model is None:
            return self._method
        why = _no_stream(model)
        if why is not None:
            name = self._method.__name__
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {name!r}{why}")
        return MethodType(self._method, model)


def _no_stream(model: KernelEstimator) -> str | None:
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


def named_classes(model: KernelEstimator, classes: Any) -> Array:
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
    if begun(model) and not np.array_equal(named, model.classes_):
        raise InputError(
            f"classes={quoted(named.tolist())} are not those of the rows so far "
            f"({quoted(model.classes_.tolist())}). Leave classes out, or start anew with a clone."
        )
    return named


# ---- the methods that both classes have ----------------------------------------------------------


def forget(self: Any, share: float) -> Any:
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
        _start(self)
        if waits(self):
            return wait(self, self._waiting.faded(1.0 - float(share)))
        return keep(self, stream_of(self).faded(1.0 - float(share)))


def merge(self: Any, other: Any) -> Any:
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
        _start(self)
        other = _begun_copy(other)
        for model in (self, other):
            if not waits(model):
                stream_of(model)  # raises where there is no stream
        _check_classes(self, other)
        if not waits(self) and not waits(other):
            return keep(self, stream_of(self).merged(stream_of(other)))
        rows = other._waiting if waits(other) else self._waiting
        if not waits(other):
            _adopt(self, other)
        source = as_source(rows.rows)
        check_width(self, source.shape[1], reset=False)
        return take(self, labelled(self, rows, source), grow=False)


def _start(model: KernelEstimator) -> None:
    """Begin the stream with the rows of a fit, if there are any; raise where such a model has no stream."""
    if "_fit_data" in vars(model):
        why = _no_stream(model)
        if why is not None:
            raise InputError(f"this {type(model).__name__} keeps no sums of its rows{why}")
        start(model)


def _begun_copy(model: KernelEstimator) -> Any:
    """Return a model of a stream: the same one, or a copy that begins with the rows of its fit."""
    if "_fit_data" not in vars(model):
        return model
    made = copy(model)
    made._fit_data = model._fit_data
    _start(made)
    return made


def _adopt(model: KernelEstimator, other: Any) -> None:
    """Take the map and the sums of another model of a stream, in place of the rows that wait."""
    remove(model, *STREAMED, *SOLVED, *CHOSEN)
    Input.of(other).keep_in(model)
    keep(model, stream_of(other))


def _check_classes(model: KernelEstimator, other: Any) -> None:
    """Raise where two classifiers know different classes."""
    if is_classifier(model) and not np.array_equal(model.classes_, other.classes_):
        raise InputError(
            f"this model has the classes {quoted(model.classes_.tolist())}, the other "
            f"{quoted(other.classes_.tolist())}. Name the same classes in the first call of both."
        )
