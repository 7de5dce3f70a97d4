"""Compression of a trained model of numeric rows into one that predicts in nanoseconds a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from gramian._typing import Array, RowsLike
from gramian.engine import Engine
from gramian.estimator.answers import class_labels
from gramian.exceptions import InputError
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.fast.teacher_adapters import function_of, stored_teacher, teacher_of
from gramian.fast.teachers import Translated, class_teacher


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
    wanted = targets_of(teacher, X, classifies) if y is None else y
    asked = teacher if form is None else Translated(teacher, form)
    kind = FastKernelClassifier if classifies else FastKernelRegressor
    fast = kind(asked, cost=cost, learn=learn, **options).fit(rows, wanted, unlabelled=unlabelled)
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
    found = np.asarray(function_of(teacher)(X))
    if not classifies:
        return found
    if found.size != len(found):
        raise InputError(
            f"The teacher gave labels of shape {found.shape}, several for each row; a fast classifier gives "
            "one. Compress a classifier for each column of the labels."
        )
    return found.reshape(len(found))  # CatBoost's labels have shape (n, 1)
