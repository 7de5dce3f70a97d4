"""Teacher values that a fast model learns from, taken from any fitted model or function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.exceptions import InputError, quoted
from gramian.fast.libsvm_values import libsvm_values

#: Bound at which a teacher's decision values are clipped: beyond it the class is decided.
CLIP = 1.0


def class_teacher(model: Any, classes: Array, engine: Engine) -> Callable[[Array], Float64Array]:
    """Return a function from rows to decision values: (n, 1) for two classes, (n, classes) for more.

    model : a fitted model with ``decision_function`` or ``predict_proba``, or a function that returns these.
    classes : the labels, in the order of the columns.
    With more than two classes, each value is the class's own value minus the best value of the other classes.
    It is positive only for the winning class, whatever the scale of the model, and even if it counts votes.
    """
    outputs = 1 if len(classes) == 2 else len(classes)
    order = _class_order(model, classes)
    tiled = libsvm_values(model, engine)
    if tiled is not None:
        ask, shift = tiled, 0.0
    elif hasattr(model, "decision_function"):
        ask, shift = model.decision_function, 0.0
    elif hasattr(model, "predict_proba"):
        ask, shift = model.predict_proba, 0.5
    elif callable(model):
        ask, shift = model, 0.0
    else:
        raise _no_teacher(model, "decision_function or predict_proba")

    def values(rows: Array) -> Float64Array:
        found = np.asarray(ask(rows), np.float64)
        if found.ndim == 1:
            found = found[:, None]
        if shift:  # probabilities: 2 p − 1
            found = 2.0 * (found - shift)
            found = found[:, -1:] if outputs == 1 else found
        _check(found, len(rows), outputs)
        if outputs == 1:
            return found if order is None else -found
        found = found if order is None else found[:, order]
        best = np.sort(found, axis=1)[:, -2:]
        others = np.where(found == best[:, 1:], best[:, :1], best[:, 1:])
        return found - others

    return values


def number_teacher(model: Any, outputs: int, engine: Engine) -> Callable[[Array], Float64Array]:
    """Return a function from rows to the predictions (n, outputs) of a fitted model or a function."""
    ask = libsvm_values(model, engine) or (model.predict if hasattr(model, "predict") else model)
    if not callable(ask):
        raise _no_teacher(model, "predict")

    def values(rows: Array) -> Float64Array:
        found = np.asarray(ask(rows), np.float64)
        found = found[:, None] if found.ndim == 1 else found
        _check(found, len(rows), outputs)
        return found

    return values


def _class_order(model: Any, classes: Array) -> Array | None:
    """Return the model's column for each of our classes, or None if the order is equal or unknown."""
    theirs = getattr(model, "classes_", None)
    if theirs is None or np.array_equal(theirs, classes):
        return None
    theirs = np.asarray(theirs)
    if len(theirs) != len(classes) or set(theirs.tolist()) != set(classes.tolist()):
        raise InputError(
            f"The teacher knows the classes {quoted(theirs.tolist())}, but y holds "
            f"{quoted(classes.tolist())}. Fit both on the same classes."
        )
    return np.asarray([theirs.tolist().index(label) for label in classes.tolist()])


def _check(found: Float64Array, n_rows: int, outputs: int) -> None:
    if found.shape != (n_rows, outputs):
        raise InputError(
            f"The teacher gave values of shape {found.shape} for {n_rows} rows; expected ({n_rows},) or "
            f"({n_rows}, {outputs}). A teacher gives one decision value for two classes, and one for each "
            "of more classes or outputs."
        )
    bad = ~np.isfinite(found).all(axis=1)
    if bad.any():
        raise InputError(
            f"The teacher gave NaN or infinity for {int(bad.sum())} of {n_rows} rows. Check that it is "
            "fitted, and on the same features."
        )


def _no_teacher(model: Any, wanted: str) -> InputError:
    return InputError(
        f"teacher has type {type(model).__name__}, which has no {wanted} and cannot be called. Pass a fitted "
        "model, or a function from rows to values."
    )
