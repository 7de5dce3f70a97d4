"""Teachers made of models, functions or arrays of answers, and whether they teach classes or numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier, is_regressor

from gramian._typing import Array, RowsLike
from gramian.exceptions import InputError
from gramian.fast.teachers import METHODS

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: How far the probabilities of a row may be from a sum of 1: those of float32 models are up to 1e-6 off.
SUM_ERROR = 1e-4


@dataclass(frozen=True, eq=False)
class Chances:
    """A teacher made of a function from rows to the probability of each class (n, classes)."""

    function: Callable[[Any], Any]
    classes_: Array

    def predict_proba(self, rows: RowsLike) -> Array:
        """Return the function's answers."""
        return np.asarray(self.function(rows))


@dataclass(frozen=True, eq=False)
class Labels:
    """A teacher made of a function from rows to class labels (n,)."""

    function: Callable[[Any], Any]
    classes_: Array

    def predict(self, rows: RowsLike) -> Array:
        """Return the function's answers."""
        return np.asarray(self.function(rows))


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A teacher made of several regressors or functions of numbers, one output after the other."""

    teachers: tuple[Any, ...]

    def predict(self, rows: RowsLike) -> Array:
        """Return the numbers of all, shape (n, outputs)."""
        found = [np.asarray(function_of(each)(rows), np.float64) for each in self.teachers]
        return np.column_stack(found)


def function_of(model: BaseEstimator) -> Callable[[Any], Any]:
    """Return the function from rows to answers of a model, or the function that the model is."""
    for name in ("inplace_predict", "predict"):  # a Booster of XGBoost predicts arrays by the first only
        if hasattr(model, name):
            found: Callable[[Any], Any] = getattr(model, name)
            return found
    if callable(model):
        return model
    raise InputError(
        f"model has type {type(model).__name__}, which has no predict and cannot be called. Pass a fitted "
        "model, a list of regressors, a function from rows to answers, or an array of answers for the rows X."
    )


def teaches_classes(model: BaseEstimator) -> bool | None:
    """Return whether a model is a classifier (True) or a regressor (False); None if it does not say."""
    if hasattr(model, "__sklearn_tags__"):
        if is_regressor(model):
            return False
        if is_classifier(model):
            return True
    own = getattr(model, "_estimator_type", None)
    if own in ("classifier", "regressor"):
        return bool(own == "classifier")
    methods = (*(name for name in METHODS if name != "predict"), "classes_")
    return True if any(hasattr(model, name) for name in methods) else None


def teacher_of(model: BaseEstimator, X: RowsLike, y: ArrayLike) -> tuple[Any, bool]:
    """Return a teacher with the methods of a fitted model, and whether it teaches classes.

    A list is taken as regressors side by side. What does not say its kind (a function, a booster) is judged
    by ``y``, of which real numbers make a regression; without it by its answers for the rows X: integers,
    booleans and text are class labels, rows of at least two numbers in [0, 1] that sum to 1 are
    probabilities, and anything else numbers.
    """
    if isinstance(model, list | tuple):
        return SideBySide(tuple(model)), False
    says = teaches_classes(model)
    if says is not None:
        return model, says
    ask = function_of(model)
    if y is not None and np.asarray(y).dtype.kind == "f":
        return ask, False
    found = np.asarray(ask(X))
    if found.dtype.kind != "f":
        labels = found if y is None else np.concatenate([found.ravel(), np.asarray(y).ravel()])
        return Labels(ask, np.unique(labels)), True
    if are_chances(found):
        classes = np.arange(found.shape[1]) if y is None else np.unique(y)
        if len(classes) == found.shape[1]:
            return Chances(ask, classes), True
    return ask, y is not None


def are_chances(answers: Array) -> bool:
    """Return whether answers are probabilities of at least two classes, (n, classes)."""
    return (
        answers.ndim == 2
        and answers.shape[1] >= 2
        and bool((answers >= 0).all())
        and bool(np.allclose(answers.sum(axis=1), 1.0, rtol=0, atol=SUM_ERROR))
    )
