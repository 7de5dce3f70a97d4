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

#: Where models keep rows that they were trained on.
KEPT_ROWS = ("X_train_", "X_fit_", "support_vectors_")


def compress(model: Any, X: Any = None, y: Any = None, *, cost: Any = "20x", **options: Any) -> Any:
    """Return a fast model that stands for a fitted one, within a cost.

    model : any fitted classifier or regressor (ours, scikit-learn's SVC, SVR, KernelRidge,
        GaussianProcessClassifier and so on), or a function of rows; ``y`` then says what it predicts
        (a function with labels y is a classifier's decision function).
    X : rows to learn on, those of the training or more; without them the rows that the model keeps (all
        of them for KernelRidge and Gaussian processes, the support vectors for SVMs, which lie near the
        boundary: pass X where you have it). The rows of a row source are read into memory.
    y : targets, where you have them: the better of the teacher's values and the targets is learned.
        Without them the teacher's predictions are taken.
    cost : "20x", "100ns" or nanoseconds a row, as for :class:`gramian.FastKernelClassifier`.
    options : of that class, or of :class:`gramian.FastKernelRegressor`.

    A fast model compares rows of numbers. Where X holds anything else (text, dates, missing values), the last
    step of a pipeline is compressed, on the rows that its other steps make, and the answer is a pipeline with
    the same other steps; their time is not part of the cost. A :class:`gramian.TabularRegressor` or
    :class:`gramian.TabularClassifier` is compressed by its own ``compress``.

    Raises ``InputError`` where the model keeps no rows and none are passed, its values are not numbers, or X
    is a frame of other columns than numbers and the model no pipeline that turns them into numbers.

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
        steps = getattr(model, "best_estimator_", model)  # of a search
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
