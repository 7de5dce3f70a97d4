"""Compression of any trained model, of numbers or of tables, into one that predicts in nanoseconds a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from gramian._random import as_generator
from gramian._typing import RowsLike
from gramian.data.distributed import refuse_elsewhere
from gramian.data.formats.frames import opened_frame
from gramian.data.formats.records import Records
from gramian.data.names import names_of
from gramian.estimator.base import is_source
from gramian.estimator.rows import matched, names_known
from gramian.exceptions import InputError
from gramian.fast.compress import compress_rows, is_answers
from gramian.fast.estimators import FastKernelClassifier
from gramian.tables.columns import TableColumns
from gramian.tables.compression import FastTabularClassifier, FastTabularRegressor
from gramian.tables.encoded import EncodedRows
from gramian.tables.raw_rows import RawRows
from gramian.tables.scaling import Scaling

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Attributes in which fitted models keep rows that they were trained on.
KEPT_ROWS = ("X_train_", "X_fit_", "support_vectors_")


def compress(
    model: object,
    X: RowsLike | None = None,
    y: ArrayLike | None = None,
    *,
    cost: Any = "20x",
    unlabelled: RowsLike | None = None,
    categorical: object = None,
    **options: Any,
) -> Any:
    """Return a fast model that imitates a fitted model, within a budget for the time of a prediction.

    Parameters
    ----------
    model : the teacher. A fitted classifier is asked by ``predict_proba``, ``decision_function`` or
        ``predict``, whichever it has first (a support vector machine for its decision values); a fitted
        regressor by ``predict``. A function of rows, or a model
        that does not say what it is, is judged by ``y`` (numbers make a regression, labels a classification)
        or by its answers: integers, booleans and text are class labels; rows of at least two numbers in
        [0, 1] that sum to 1 are probabilities, of the classes of ``y`` or else 0, 1, 2, …; other numbers,
        (n,) or (n, outputs), make a regression. A list of regressors or functions makes one with an output
        for each, such as quantiles. An array holds answers for the rows X, judged in the same way: a kernel
        ridge model of them then answers between the rows.
    X : rows to learn on, of the kind that the model takes: the training rows, or any others; labels are not
        needed. By default the rows that the model keeps: all training rows for KernelRidge and Gaussian
        processes, only the support vectors for SVMs. Support vectors lie near the boundary, so pass X if you
        can. A row source is read into memory.
    y : targets of X, if you have them. The fast model then learns from the teacher's values or from the
        targets, whichever does better on held-out rows. Without y it learns the teacher's values.
    cost : "20x", "100ns" or nanoseconds a row, as for :class:`gramian.FastKernelClassifier`.
    unlabelled : further rows, beside X with y, of which only the teacher's values are learned.
    categorical : for a table, its numeric columns that are categories: names, places or a mask. Text and the
        categorical types of frames are categories anyway, and so are the columns that a model of scikit-learn
        or CatBoost names as such.
    options : parameters of the fast model, :class:`gramian.FastKernelClassifier` or
        :class:`gramian.FastKernelRegressor`, such as ``time_limit`` in seconds, or ``verbose=1`` for a bar of
        the predictors that are compared.

    The result has ``predict``, for classes ``predict_proba`` if the teacher has probabilities or y is given,
    ``cost_`` and ``fidelity_``, its agreement with the teacher.

    A fast model compares rows of numbers. If X is a table with text, categories, dates or missing values, its
    columns are turned into numbers as by :class:`gramian.TabularRegressor`; the fast model takes the same
    tables, and encoding them is not part of its cost. The teacher is asked about tables too, whose values all
    come from X. If the model is a pipeline, its last step is compressed instead, on the rows that the earlier
    steps produce, and the result is a pipeline with the same earlier steps.
    :class:`gramian.TabularRegressor` and :class:`gramian.TabularClassifier` have a ``compress`` of their own.

    Raises ``InputError`` if no rows are passed and the model keeps none, if the model fails or gives answers
    that are not finite, or if their number is not that of the rows. Warns if it changes its answers.

    >>> import gramian as gm
    >>> from sklearn.svm import SVC
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> svc = SVC(gamma=10).fit(X, (X[:, 0] > X[:, 1] ** 2).astype(int))
    >>> fast = gm.compress(svc, X, n_levels=0, n_units=6, n_directions=2, random_state=0)
    >>> bool((fast.predict(X) == svc.predict(X)).mean() > 0.97), fast.fidelity_.n_rows
    (True, 150)
    """
    if X is None:
        X = next((getattr(model, name) for name in KEPT_ROWS if hasattr(model, name)), None)
        if X is None:
            raise InputError(
                f"{type(model).__name__} keeps no rows to learn on. Pass rows X of the kind that it will "
                "be asked about, for example those that it was trained on."
            )
    if unlabelled is not None:
        options["unlabelled"] = unlabelled
    if hasattr(model, "compress") and not is_answers(model):
        return model.compress(X, y, cost=cost, **options)
    X = _as_asked(model, X)
    categorical = _categories_of(model) if categorical is None else categorical
    numeric = _are_numbers(X)
    if isinstance(X, list | tuple):
        X = np.asarray(X, None if numeric else object)
    if numeric and categorical is None:
        return compress_rows(model, X, y, cost, options)
    steps = getattr(model, "best_estimator_", model)  # if the model is a search, its best pipeline
    if not numeric and isinstance(steps, Pipeline) and len(steps.steps) > 1:
        if unlabelled is not None:
            options["unlabelled"] = steps[:-1].transform(unlabelled)
        fast = compress(steps[-1], steps[:-1].transform(X), y, cost=cost, **options)
        return Pipeline([*steps.steps[:-1], (steps.steps[-1][0], fast)])
    return _of_table(model, X, y, cost, categorical, options)


def _as_asked(model: BaseEstimator, X: Any) -> Any:
    """Return rows in memory, with their columns in the order of the teacher's if both have names."""
    refuse_elsewhere(X, "compress")
    X = opened_frame(X)
    if is_source(X):  # other models and functions take rows in memory
        names, X = names_of(X), X.rows(slice(0, X.shape[0]))
        if names is not None and not sp.issparse(X):
            X = Records.of(names, X)
    if isinstance(X, Records):
        X = X.as_arrow()
    known = names_known(model)
    return X if known is None or names_of(X) is None else matched(model, X, reset=False)


def _of_table(
    model: BaseEstimator,
    X: RowsLike,
    y: ArrayLike | None,
    cost: object,
    categorical: object,
    options: dict[str, Any],
) -> Any:
    """Return a fast model of tables like X, taught by a model that takes them as they are."""
    if sp.issparse(X):
        raise InputError("X is sparse and holds values that are not finite numbers. Fill them in first.")
    columns = TableColumns.learn(X, categorical=categorical, rng=as_generator(options.get("random_state")))
    source = EncodedRows(columns, X)
    scaling = Scaling.learn(source, columns)
    rows = np.asarray(scaling.apply(columns.encode(X)), np.float64)
    if options.get("unlabelled") is not None:
        more = scaling.apply(columns.encode(options["unlabelled"]))
        options["unlabelled"] = np.asarray(more, np.float64)
    form = None if is_answers(model) else RawRows(X, columns, rows)
    fast = compress_rows(model, X, y, cost, options, rows=rows, form=form)
    if isinstance(fast, FastKernelClassifier):
        table = FastTabularClassifier.of(columns, scaling, fast)
        table.classes_ = fast.classes_
        return table
    numbers = FastTabularRegressor.of(columns, scaling, fast)
    numbers._flat = fast._flat
    return numbers


def _categories_of(model: BaseEstimator) -> Any:
    """Return the columns that a fitted model names as categories, or None."""
    mask = getattr(model, "is_categorical_", None)  # scikit-learn's gradient boosting
    if mask is not None and np.any(mask):
        return np.asarray(mask, bool)
    if hasattr(model, "get_cat_feature_indices"):  # CatBoost
        return list(model.get_cat_feature_indices()) or None
    return None


def _are_numbers(X: RowsLike) -> bool:
    """Return whether rows can be read as finite numbers."""
    try:
        rows = check_array(X, accept_sparse=True, ensure_min_samples=0, ensure_min_features=0)
    except (TypeError, ValueError):
        return False
    return bool(rows.dtype.kind in "iufb")
