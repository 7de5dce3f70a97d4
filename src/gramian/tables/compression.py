"""Compressed table models: the same columns and scales with a fast model behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._random import as_generator, seed_for_sklearn
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.source import RowSource
from gramian.estimator.answers import class_labels, predicted_numbers
from gramian.estimator.base import KernelEstimator
from gramian.estimator.mixins import Classifier, Regressor
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError, quoted
from gramian.fast.base import FastKernelModel
from gramian.fast.compress import compress_rows
from gramian.fast.cost import Cost
from gramian.fast.fidelity import Fidelity
from gramian.tables import Scaling, TableColumns
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
        found: Cost = self.model_.cost_
        return found

    @property
    def fidelity_(self) -> Fidelity:
        """The agreement of ``model_`` with its teacher on held-out rows."""
        found: Fidelity = self.model_.fidelity_
        return found

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
        source = encoded_rows(self, X)
        blocks = [self._asked(source.rows(where)) for where in row_slices(source.shape[0], BLOCK_ROWS)]
        return np.concatenate(blocks)

    def _asked(self, rows: Any) -> Float64Array:
        """Return the values of encoded rows, shape (n, outputs)."""
        answer = getattr(self.model_, "decision_function", self.model_.predict)
        return np.asarray(answer(rows), np.float64).reshape(len(rows), -1)


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
    source, numbers, rows, options = _lesson(model, X, options)
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
    source, numbers, rows, options = _lesson(model, X, options)
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


def _lesson(
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
