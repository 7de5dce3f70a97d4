"""Compression of a trained model, or of stored answers, into a model that predicts in nanoseconds a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_array

from gramian._checks import refuse_masked
from gramian._typing import Array, Float64Array, IntArray, RandomState, RowsLike
from gramian.engine import Engine
from gramian.estimator.answers import class_labels
from gramian.exceptions import InputError
from gramian.fast.default_teacher import default_teacher
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.fast.teachers import LEAST_CHANCE, METHODS, Translated, class_teacher
from gramian.ridge.ridge import KernelRidge

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: How far the probabilities of a row may be from a sum of 1: those of float32 models are up to 1e-6 off.
SUM_ERROR = 1e-4


def compress_rows(
    model: object,
    X: RowsLike,
    y: Any,
    cost: object,
    options: dict[str, Any],
    *,
    rows: RowsLike | None = None,
    form: Callable[[Array], Any] | None = None,
) -> Any:
    """Return a fast model of numeric rows that imitates a teacher; see :func:`gramian.compress`.

    X : rows as the teacher takes them. rows : the same as numbers (n, d), if X is none. form : function from
    numbers (n, d) to rows as the teacher takes them, if these are not numbers.
    """
    options = dict(options)
    rows = X if rows is None else rows
    stored = is_answers(model)
    if stored:
        numbers = np.asarray(check_array(rows, dtype=np.float64))
        teacher, classifies = stored_teacher(cast(ArrayLike, model), numbers, y, options.get("random_state"))
        form, X = None, numbers
    else:
        teacher, classifies = teacher_of(model, X, y)
    unlabelled = options.pop("unlabelled", None)
    learn = options.pop("learn", "teacher" if y is None else "auto")
    targets = targets_of(teacher, X, classifies) if y is None else y
    numeric = teacher if form is None else Translated(teacher, form)
    kind = FastKernelClassifier if classifies else FastKernelRegressor
    fast = kind(numeric, cost=cost, learn=learn, **options).fit(rows, targets, unlabelled=unlabelled)
    if stored or form is not None:
        fast.set_params(teacher=None)  # it has learned the teacher's values
    if classifies and y is None and not hasattr(teacher, "predict_proba"):
        del fast.calibration_  # the teacher's own labels say nothing about probabilities
    return fast


def is_answers(model: object) -> bool:
    """Return whether a model is an array of answers."""
    array = hasattr(model, "__array__") or hasattr(model, "__dataframe__")
    return array and not hasattr(model, "predict") and not callable(model)


def targets_of(teacher: Any, X: Any, classifies: bool) -> Any:
    """Return the classes or numbers that a teacher predicts for the rows X."""
    if classifies and not hasattr(teacher, "predict"):
        values = class_teacher(teacher, teacher.classes_, Engine(None), X)
        return class_labels(values(X), teacher.classes_)
    answers = np.asarray(function_of(teacher)(X))
    if not classifies:
        return answers
    if answers.size != len(answers):
        raise InputError(
            f"The teacher gave labels of shape {answers.shape}, several for each row; a fast classifier "
            "gives one. Compress a classifier for each column of the labels."
        )
    return answers.reshape(len(answers))  # CatBoost's labels have shape (n, 1)


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
        columns = [np.asarray(function_of(each)(rows), np.float64) for each in self.teachers]
        return np.column_stack(columns)


def function_of(model: BaseEstimator) -> Callable[[Any], Any]:
    """Return the function from rows to answers of a model, or the function that the model is."""
    for name in ("inplace_predict", "predict"):  # a Booster of XGBoost predicts arrays by the first only
        if hasattr(model, name):
            method: Callable[[Any], Any] = getattr(model, name)
            return method
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
    answers = np.asarray(ask(X))
    if answers.dtype.kind != "f":
        labels = answers if y is None else np.concatenate([answers.ravel(), np.asarray(y).ravel()])
        return Labels(ask, np.unique(labels)), True
    if are_chances(answers):
        classes = np.arange(answers.shape[1]) if y is None else np.unique(y)
        if len(classes) == answers.shape[1]:
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


class KnownRows:
    """Lookup of rows (n, d) of float64 by their values."""

    def __init__(self, rows: Float64Array) -> None:
        self._number = {key: i for i, key in reversed(list(enumerate(_keys(rows))))}

    def numbers(self, rows: Array) -> IntArray:
        """Return the number of the first known row with the values of each row, −1 if there is none."""
        found = (self._number.get(key, -1) for key in _keys(rows))
        return np.fromiter(found, np.intp, len(rows))


def _keys(rows: Array) -> list[bytes]:
    whole = np.ascontiguousarray(rows, np.float64) + 0.0  # −0.0 becomes 0.0
    return [row.tobytes() for row in whole]


class StoredNumbers:
    """A teacher of stored numbers (n, outputs) at rows (n, d)."""

    def __init__(self, rows: Float64Array, answers: Float64Array, random_state: RandomState) -> None:
        self._known, self._answers = KnownRows(rows), answers.reshape(len(rows), -1)
        wanted = self._answers[:, 0] if self._answers.shape[1] == 1 else self._answers
        self._between = default_teacher(KernelRidge, rows, wanted, np.ones(len(rows)), random_state)

    def predict(self, rows: Array) -> Float64Array:
        """Return the stored answers of known rows, and those of a kernel ridge model for others."""
        numbers = self._known.numbers(rows)
        found = self._answers[numbers]
        new = numbers < 0
        if new.any():
            found[new] = self._between.predict(rows[new]).reshape(int(new.sum()), -1)
        return found

    def chances(self, rows: Array) -> Float64Array:
        """Return the answers as probabilities of classes, (n, classes)."""
        found = np.clip(self.predict(rows), LEAST_CHANCE, None)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def stored_teacher(
    answers: ArrayLike, rows: Float64Array, y: ArrayLike, random_state: RandomState
) -> tuple[Any, bool]:
    """Return the teacher of stored answers for rows, and whether it teaches classes.

    Their kind is judged as that of a function's answers (:func:`teacher_of`).
    """
    refuse_masked("answers", answers)
    stored = np.asarray(answers)
    if stored.ndim not in (1, 2) or len(stored) != len(rows):
        raise InputError(
            f"The stored answers have shape {stored.shape}, but X has {len(rows)} rows. Pass one answer for "
            f"each row, in the same order: ({len(rows)},) or ({len(rows)}, outputs)."
        )
    numbers_wanted = y is not None and np.asarray(y).dtype.kind == "f"

    def chances(answers: Array, classes: Array) -> Chances:
        return Chances(StoredNumbers(rows, answers.astype(np.float64), random_state).chances, classes)

    if stored.dtype.kind != "f" and not numbers_wanted:
        labels = stored.reshape(len(rows), -1)
        if labels.shape[1] != 1:
            raise InputError(
                f"The stored answers have shape {stored.shape} and type {stored.dtype}; labels have one "
                "column. Convert numbers to float: answers.astype(float)."
            )
        classes = np.unique(labels) if y is None else np.unique(np.concatenate([labels[:, 0], np.ravel(y)]))
        return chances(labels == classes, classes), True
    if not np.isfinite(np.asarray(stored, np.float64)).all():
        bad = ~np.isfinite(np.asarray(stored, np.float64).reshape(len(rows), -1)).all(axis=1)
        raise InputError(
            f"The stored answers hold NaN or infinity for {int(bad.sum())} of {len(rows)} rows. Drop those "
            "rows from X and from the answers."
        )
    if are_chances(stored) and not numbers_wanted:
        classes = np.arange(stored.shape[1]) if y is None else np.unique(y)
        if len(classes) != stored.shape[1]:
            raise InputError(
                f"The stored probabilities have {stored.shape[1]} columns, but y has {len(classes)} classes. "
                "Pass one column for each class, in ascending order."
            )
        return chances(stored, classes), True
    if y is not None and not numbers_wanted:
        raise InputError(
            "y holds class labels, but the stored answers are neither labels nor probabilities. Pass labels, "
            "or rows of probabilities that sum to 1."
        )
    return StoredNumbers(rows, stored.astype(np.float64), random_state), False
