"""Compressed models: a fast model in place of any trained one, of numbers or of tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._random import as_generator, seed_for_sklearn
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.distributed import refuse_elsewhere
from gramian.data.formats.frames import opened_frame
from gramian.data.formats.records import Records
from gramian.data.names import names_of
from gramian.data.source import RowSource
from gramian.estimator.answers import class_labels, predicted_numbers
from gramian.estimator.base import KernelEstimator, is_source
from gramian.estimator.mixins import Classifier, Regressor
from gramian.estimator.rows import matched, names_known
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError, quoted
from gramian.fast.base import FastKernelModel
from gramian.fast.compress import compress_rows, is_answers
from gramian.fast.cost import Cost
from gramian.fast.estimators import FastKernelClassifier
from gramian.fast.fidelity import Fidelity
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.raw_rows import RawRows
from gramian.tables.serving import ClassAnswers, NumberAnswers, TableServer, encoded_rows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Rows that a fast model predicts at a time. Chosen by hand.
BLOCK_ROWS = 1 << 14
#: Copies of the rows in float64 that training a fast model holds; a cautious estimate, chosen by hand.
COPIES = 6


class FastTable(TableServer, KernelEstimator):
    """Base of the fast table models that :func:`gramian.compress` returns for models of tables.

    ``model_`` is a fast model of encoded rows; columns and scales come from a tabular model, or were learned
    from the rows that another model was compressed with. A fast table is frozen, like scikit-learn's
    ``FrozenEstimator``: ``fit`` changes nothing, and a clone is the model itself.
    """

    def __sklearn_clone__(self) -> Self:
        return self

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the model unchanged: nothing is learned."""
        check_is_fitted(self, "model_")
        return self

    @property
    def cost_(self) -> Cost:
        """Measure operations, bytes and nanoseconds per row of ``model_``, without the encoding."""
        cost: Cost = self.model_.cost_
        return cost

    @property
    def fidelity_(self) -> Fidelity:
        """The agreement of ``model_`` with its teacher on held-out rows."""
        fidelity: Fidelity = self.model_.fidelity_
        return fidelity

    @classmethod
    def of(cls, columns: TableColumns, scaling: Scaling, fast: FastKernelModel) -> Self:
        """Return the model that encodes and scales the rows of tables for a fast model."""
        model = cls()
        model.columns_, model.scaling_, model.model_ = columns, scaling, fast
        model.n_features_in_ = len(columns.columns)
        if columns.named:
            model.feature_names_in_ = np.asarray(columns.column_names, object)
        return model

    @classmethod
    def in_place_of(cls, model: TableServer, fast: FastKernelModel) -> Self:
        """Return the model with the columns and scales of a table model, and a fast model of its values."""
        made = cls.of(model.columns_, model.scaling_, fast.set_params(teacher=None))  # it has learned them
        if hasattr(model, "feature_importances_"):
            made.feature_importances_ = model.feature_importances_
            made.feature_importances_std_ = model.feature_importances_std_
            made.importances_reason_ = model.importances_reason_
        return made

    def _values(self, X: RowsLike) -> Float64Array:
        source, parts = encoded_rows(self, X), list[Float64Array]()
        answer = getattr(self.model_, "decision_function", self.model_.predict)
        for where in row_slices(source.shape[0], BLOCK_ROWS):
            rows = source.rows(where)
            parts.append(np.asarray(answer(rows), np.float64).reshape(len(rows), -1))
        return np.concatenate(parts)


def _has_probabilities(model: BaseEstimator) -> bool:
    inner = getattr(model, "model_", None)
    return inner is None or hasattr(inner, "predict_proba")


class FastTabularRegressor(Regressor, NumberAnswers, FastTable):
    """A fast regressor for tables, returned by :func:`gramian.compress`.

    ``predict`` and ``score`` work as in the original model. ``model_`` is a
    :class:`gramian.FastKernelRegressor` (of the transformed target of a :class:`gramian.TabularRegressor`),
    ``cost_`` its measured cost, ``fidelity_`` its agreement with the teacher.
    """

    def _back(self, z: Float64Array) -> Float64Array:
        if not hasattr(self, "target_"):  # the teacher was no tabular model: its numbers are as they are
            return predicted_numbers(z, flat=self._flat)
        return super()._back(z)


class FastTabularClassifier(Classifier, ClassAnswers, FastTable):
    """A fast classifier for tables, returned by :func:`gramian.compress`.

    ``predict``, ``decision_function``, ``predict_proba`` and ``score`` work as in the original model.
    ``model_`` is a :class:`gramian.FastKernelClassifier`, ``cost_`` its measured cost, ``fidelity_`` its
    agreement with the teacher. Decision values saturate at ±1; probabilities are fitted to those of the
    original model. If it has none and no labels were given, there is no ``predict_proba``.
    """

    def predict(self, X: RowsLike) -> Array:
        """Return the class with the largest value of each row; if several tie, the first in ``classes_``."""
        return class_labels(self._values(X), self.classes_)

    @available_if(_has_probabilities)
    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the probability of each class, shape (n, classes); rows sum to 1."""
        return np.exp(self.predict_log_proba(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: RowsLike) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`."""
        values = self._values(X)  # says first if there is no fit
        return self.calibration_.log_probabilities(values)


def compressed_regressor(
    model: BaseEstimator, X: RowsLike, y: ArrayLike | None, cost: object, options: dict[str, Any]
) -> FastTabularRegressor:
    """Return a fast regressor that replaces a tabular one; see its ``compress``."""
    source, numbers, rows, options = _training_rows(model, X, options)
    given = None
    if y is not None:
        targets = NumberTargets(y, source.shape[0])
        own = np.asarray(targets[slice(0, source.shape[0])])[numbers]
        given = model.target_.forward(own if model.target_.many else own[:, 0])
    fast = FastTabularRegressor.in_place_of(model, compress_rows(model.model_, rows, given, cost, options))
    fast.target_, fast._flat = model.target_, model._flat
    if any(output.means is not None for output in model.target_.outputs):
        # Its residuals are those of what it learned: the model's values, behind the model's means, or y.
        learned, target = model.model_.predict(rows), model.target_
        if fast.model_.learned_ == "labels":
            plain = (replace(output, means=None) for output in target.outputs)
            learned, target = given, replace(target, outputs=tuple(plain))
        values, learned = (np.reshape(each, (len(rows), -1)) for each in (fast.model_.predict(rows), learned))
        fast.target_ = target.smeared(values, learned - values)
    return fast


def compressed_classifier(
    model: BaseEstimator, X: RowsLike, y: ArrayLike | None, cost: object, options: dict[str, Any]
) -> FastTabularClassifier:
    """Return a fast classifier that replaces a tabular one; see its ``compress``."""
    source, numbers, rows, options = _training_rows(model, X, options)
    labels = model.model_.predict(rows)
    if y is not None:
        targets = ClassTargets(y, source.shape[0], model.classes_)
        labels = model.classes_[targets.codes(slice(0, source.shape[0]))[numbers]]
    absent = sorted(set(range(len(model.classes_))) - set(np.searchsorted(model.classes_, labels)))
    if absent:
        lacking = model.classes_[absent].tolist()
        raise InputError(
            f"X has no row of class {quoted(lacking[0])} (by "
            f"{'the model' if y is None else 'y'}), so a fast model could not predict it. Pass rows of all "
            "classes, for example the training rows."
        )
    learn = options.pop("learn", "teacher" if y is None else "auto")
    student = compress_rows(model.model_, rows, labels, cost, options | {"learn": learn})
    fast = FastTabularClassifier.in_place_of(model, student)
    fast.classes_ = model.classes_
    return fast


def _training_rows(
    model: BaseEstimator, X: RowsLike, options: dict[str, Any]
) -> tuple[RowSource, IntArray, Float64Array, dict[str, Any]]:
    """Return the encoded rows, numbers and values of those to learn from, and the fast model's options."""
    source = encoded_rows(model, X)
    n, d = source.shape
    rng = as_generator(model.random_state)
    most = max(2, parse_bytes(model.memory_budget) // (8 * COPIES * max(d, 1)))
    numbers = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    options = {"random_state": seed_for_sklearn(rng), "n_jobs": model.n_jobs, **options}
    if options.get("unlabelled") is not None:
        options["unlabelled"] = model.transform_rows(options["unlabelled"])
    return source, numbers, np.asarray(source.take(numbers), np.float64), options


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
    """Return a fast model of tables like X, whose teacher takes them as they are."""
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
