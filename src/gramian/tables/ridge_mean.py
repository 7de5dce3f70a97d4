"""Weighted mean of ridge models fitted to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array, RowsLike
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, decision_values, probabilities
from gramian.estimator.base import KernelEstimator, read_rows
from gramian.fast.probabilities import Calibration
from gramian.kernels import Kernel
from gramian.metric.metric import Metric
from gramian.ridge.model import KernelModel
from gramian.ridge.ridge import KernelRidge
from gramian.tables.boosting.boosted import Boosted


class RidgeMean(BaseEstimator):
    """f(x) = Σ_j w_j f_j(x), the weighted mean of fitted ridge models that err on different rows.

    A tabular model has one as ``model_`` if a Laplacian and a Euclidean kernel come near each other, and
    always for classes, where ``calibration_`` turns f into log odds. It is made from fitted models by
    :meth:`of` and is not fitted itself. ``members_`` starts with the model of the largest weight,
    ``weights_`` (members,) are the weights w_j; ``metric_``, ``kernel_``, ``plan_`` and ``alpha`` are those
    of the first member. With logistic models, members answer the ridge models' values in the first half of
    their outputs and the logistic models' log odds in the second. With ``boosted_``, its values have the
    weight ``share_`` in the mean of numbers, or are a term of the log odds. Cost: the sum over all members,
    or that of boosting where these have no weight.
    """

    @classmethod
    def of(
        cls,
        members: Sequence[Any],
        weights: Sequence[float],
        classes: Array | None = None,
        calibration: Calibration | None = None,
        boosted: Boosted | None = None,
        share: float = 0.0,
    ) -> Self:
        """Return the mean of fitted models with these weights, which sum to 1; of classifiers calibrated."""
        order = np.argsort(-np.asarray(weights, np.float64), kind="stable")
        made = cls()
        made.members_ = [members[j] for j in order]
        made.weights_ = np.asarray(weights, np.float64)[order]
        made.n_features_in_ = members[0].n_features_in_
        if classes is not None and calibration is not None:
            made.classes_, made.calibration_ = classes, calibration
        if boosted is not None:
            made.boosted_, made.share_ = boosted, share
        return made

    members_: list[Any]
    weights_: Float64Array
    n_features_in_: int
    classes_: Array
    calibration_: Calibration
    boosted_: Boosted
    share_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self, "members_"):
            tags.estimator_type = "classifier" if hasattr(self, "classes_") else "regressor"
        return tags

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Return the mean unchanged: its members are fitted already."""
        check_is_fitted(self, "members_")
        return self

    def values(self, X: RowsLike) -> Float64Array:
        """Return f, or the log odds of classes, shape (n, outputs)."""
        check_is_fitted(self, "members_")
        boosted = None
        if hasattr(self, "boosted_"):
            boosted = self.boosted_.predict(X, engine=Engine(self.members_[0].n_jobs))
            if hasattr(self, "classes_") and self.calibration_.boosting_alone:
                return self.calibration_.boosting * boosted
            if not hasattr(self, "classes_") and self.share_ == 1.0:
                return boosted
        parts = [
            weight * values_of(each, X) for weight, each in zip(self.weights_, self.members_, strict=True)
        ]
        values = np.asarray(sum(parts[1:], parts[0]))
        if not hasattr(self, "classes_"):
            return values if boosted is None else (1.0 - self.share_) * values + self.share_ * boosted
        others = None
        if values.shape[1] > (len(self.classes_) if len(self.classes_) > 2 else 1):
            values, others = np.hsplit(values, 2)
        return self.calibration_.log_odds(values, others, boosted)

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return f or the log odds, shape (n, outputs), or (n,) if there is one output."""
        return decision_values(self.values(X))

    def predict(self, X: RowsLike) -> Array:
        """Return f for a regression, or the likeliest class."""
        values = self.values(X)
        return class_labels(values, self.classes_) if hasattr(self, "classes_") else decision_values(values)

    @available_if(lambda model: hasattr(model, "classes_"))
    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the probability of each class, shape (n, classes)."""
        return probabilities(self.values(X))

    @property
    def metric_(self) -> Metric:
        """The metric of the first member."""
        metric: Metric = self.members_[0].metric_
        return metric

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the first member."""
        kernel: Kernel = self.members_[0].kernel_
        return kernel

    @property
    def plan_(self) -> Plan:
        """The plan of the first member."""
        plan: Plan = self.members_[0].plan_
        return plan

    @property
    def alpha(self) -> float:
        """The penalty of the first member."""
        return float(self.members_[0].alpha)


def ridge_estimator(setup: FitSetup, model: KernelModel) -> KernelRidge:
    """Return an estimator that predicts with a model; classes are numbers to it, as to the model."""
    made = KernelRidge(
        setup.alpha,
        kernel=setup.kernel.kernel,
        metric=setup.metric,
        approximation=setup.approximation,
        fit_intercept=setup.intercept,
        memory_budget=setup.run.memory_bytes,
        tile_dtype=setup.run.tile_dtype,
        random_state=setup.run.random_state,
        n_jobs=setup.run.engine.n_jobs,
    )
    made.n_features_in_ = setup.metric.n_features
    made._restore({**model.state(), "_flat": model.predictor.n_outputs == 1})
    return made


def values_of(numeric: RidgeMean | KernelEstimator, X: RowsLike) -> Float64Array:
    """Return the values (n, outputs) of a mean, or of the single numeric model that a table model has."""
    if isinstance(numeric, RidgeMean):
        return numeric.values(X)
    return KernelModel.of(numeric).finite(read_rows(numeric, X), Engine(numeric.n_jobs))


def members_of(model: BaseEstimator) -> list[tuple[float, KernelEstimator]]:
    """Return the numeric models of a mean, or the single one that a table model has, with their weights."""
    if isinstance(model, RidgeMean):
        return list(zip(model.weights_.tolist(), model.members_, strict=True))
    return [(1.0, model)]
