"""Compression of any trained model into one that predicts in nanoseconds a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from gramian.data.formats.frames import frame_kind
from gramian.estimator.base import is_source
from gramian.exceptions import InputError
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor

#: Attributes in which fitted models keep rows that they were trained on.
KEPT_ROWS = ("X_train_", "X_fit_", "support_vectors_")


def compress(model: Any, X: Any = None, y: Any = None, *, cost: Any = "20x", **options: Any) -> Any:
    """Return a fast model that imitates a fitted model, within a budget for the time of a prediction.

    model : any fitted classifier or regressor (from gramian, or scikit-learn's SVC, SVR, KernelRidge,
        GaussianProcessClassifier and so on), or a function of rows. For a function, ``y`` decides its kind:
        with class labels it is taken as a classifier's decision function.
    X : rows to learn on: the training rows, and more if you have them. By default the rows that the model
        keeps: all training rows for KernelRidge and Gaussian processes, only the support vectors for SVMs.
        Support vectors lie near the boundary, so pass X if you can. A row source is read into memory.
    y : targets, if you have them. The fast model then learns from the teacher's values or from the targets,
        whichever does better on held-out rows. Without y it learns the teacher's predictions.
    cost : "20x", "100ns" or nanoseconds a row, as for :class:`gramian.FastKernelClassifier`.
    options : parameters of that class, or of :class:`gramian.FastKernelRegressor`.

    A fast model compares rows of numbers. If X holds anything else (text, dates, missing values) and the
    model is a pipeline, its last step is compressed, on the rows that the earlier steps produce. The result
    is a pipeline with the same earlier steps; their time is not part of the cost.
    :class:`gramian.TabularRegressor` and :class:`gramian.TabularClassifier` have a ``compress`` of their own.

    Raises ``InputError`` if no rows are passed and the model keeps none, if its predictions are not numbers,
    or if X is a table with non-numeric columns and the model is no pipeline that turns them into numbers.

    >>> import gramian as gm
    >>> from sklearn.svm import SVC
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> svc = SVC(gamma=10).fit(X, (X[:, 0] > X[:, 1] ** 2).astype(int))
    >>> fast = gm.compress(svc, X, n_levels=0, n_units=6, n_directions=2, random_state=0)
    >>> bool((fast.predict(X) == svc.predict(X)).mean() > 0.97)
    True
    """
    if X is None:
        X = next((getattr(model, name) for name in KEPT_ROWS if hasattr(model, name)), None)
        if X is None:
            raise InputError(
                f"{type(model).__name__} keeps no rows to learn on. Pass rows X of the kind that it will "
                "be asked about, for example those that it was trained on."
            )
    if hasattr(model, "compress"):
        return model.compress(X, y, cost=cost, **options)
    if is_source(X):  # other models and functions take rows in memory
        X = X.rows(slice(0, X.shape[0]))
    if not _are_numbers(X):
        steps = getattr(model, "best_estimator_", model)  # if the model is a search, its best pipeline
        if isinstance(steps, Pipeline) and len(steps.steps) > 1:
            fast = compress(steps[-1], steps[:-1].transform(X), y, cost=cost, **options)
            return Pipeline([*steps.steps[:-1], (steps.steps[-1][0], fast)])
        if frame_kind(X) is not None:
            raise InputError(
                f"X has missing values or columns that are not numbers, and {type(model).__name__} takes "
                "them as they are; a fast model compares rows of numbers. Pass a fitted pipeline whose first "
                "steps turn them into numbers, or compress a TabularRegressor or TabularClassifier."
            )
    regression = (hasattr(model, "__sklearn_tags__") and is_regressor(model)) or (
        not hasattr(model, "predict") and (y is None or np.asarray(y).dtype.kind == "f")
    )
    learn = options.pop("learn", "teacher" if y is None else "auto")
    if y is None:
        y = model.predict(X) if hasattr(model, "predict") else model(X)
    kind = FastKernelRegressor if regression else FastKernelClassifier
    return kind(model, cost=cost, learn=learn, **options).fit(X, y)


def _are_numbers(X: Any) -> bool:
    """Return whether rows can be read as finite numbers."""
    try:
        rows = check_array(X, accept_sparse=True, ensure_min_samples=0, ensure_min_features=0)
    except (TypeError, ValueError):
        return False
    return bool(rows.dtype.kind in "iufb")
