"""Regression and classification of tables as they are."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array, IntArray
from gramian.estimators.approximation import one_of
from gramian.estimators.base import all_or_nothing, checked_weights, required_target
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.tabular_base import TabularModel
from gramian.estimators.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError
from gramian.solvers.platt import platt_sigmoid
from gramian.tables.aim import Aim
from gramian.tables.target import AUTO, HOWS, TargetTransform

#: Residuals that intervals are made of, at most.
RESIDUALS = 10_000


class TabularRegressor(MultiOutputMixin, RegressorMixin, TabularModel):
    """Regression of a table as it is: kernel ridge under a learned metric, every choice made by search."""

    def __init__(
        self,
        *,
        kernel: Any = "auto",
        metric: Any = "auto",
        scaling: str = "auto",
        target: str = "auto",
        categorical: Any = None,
        time_limit: float | None = None,
        memory_budget: int | str = "1GB",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.metric = metric
        self.scaling = scaling
        self.target = target
        self.categorical = categorical
        self.time_limit = time_limit
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _kind = KernelRidge

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to the rows of a table and targets y (n,) or (n, outputs)."""
        with all_or_nothing(self):
            required_target(self, y)
            one_of("target", self.target, HOWS)
            rows, rng, until = self._learn_table(X, y)
            n = rows.shape[0]
            targets = NumberTargets(y, n)
            own = np.asarray(targets[slice(0, n)])
            self._flat = targets.flat
            weights = checked_weights(sample_weight, n)
            flat = own[:, 0] if own.shape[1] == 1 else own
            hows = TargetTransform.candidates(flat) if self.target == AUTO else (self.target,)
            maps = {how: TargetTransform.learn(flat, how) for how in hows}
            mapped = {how: one.forward(flat).reshape(own.shape) for how, one in maps.items()}
            sample = self._sample(n, weights, rng)
            aims = {how: Aim(mapped[how][sample], own[sample], one) for how, one in maps.items()}
            found = self._learn_model(rows, aims, sample, weights, rng, until)
            self.target_ = maps[found.setting.target]
            z = mapped[found.setting.target]
            self._held = Aim(z, own, self.target_), weights
            fit = self._fit_last(rows, z[:, 0] if z.shape[1] == 1 else z, weights, found, rng, until)
            del self._held
            residuals = np.sort(np.abs(z[fit.held] - fit.values.reshape(len(fit.held), -1)), axis=0)
            self.residuals_ = residuals[:: -(-len(residuals) // RESIDUALS)] if len(residuals) else residuals
            return self

    def _last_loss(self, values: Float64Array, held: IntArray) -> float:
        aim, weights = self._held
        part = Aim(aim.values[held], aim.own[held], aim.transform)
        every = slice(0, len(held))
        w = None if weights is None else np.asarray(weights[held], np.float64)
        return part.loss(every, w)(part.values - values)

    def predict(self, X: Any) -> Float64Array:
        """Return the target of each row, shape (n,) or (n, outputs)."""
        return self._back(self._values(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float64Array:
        check_is_fitted(self, "model_")
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
            raise InputError(f"coverage={coverage!r} must be a number between 0 and 1, such as 0.9.")
        count = len(self.residuals_)
        rank = int(np.ceil(coverage * (count + 1)))
        if rank > count:
            raise InputError(
                f"coverage={coverage} needs {int(np.ceil(coverage / (1 - coverage)))} held-out rows, but "
                f"there were {count}. Ask for less, or fit to more rows."
            )
        z = self._values(X)
        half = self.residuals_[rank - 1]
        return np.stack([self._back(z - half), self._back(z + half)], axis=-1)

    def _back(self, z: Float64Array) -> Float64Array:
        found = self.target_.backward(z if self.target_.many else z[:, 0])
        return found.reshape(len(z), -1)[:, 0] if self._flat else found.reshape(len(z), -1)


class TabularClassifier(ClassifierMixin, TabularModel):
    """Classification of a table as it is: kernel ridge under a learned metric, every choice made by search."""

    def __init__(
        self,
        *,
        kernel: Any = "auto",
        metric: Any = "auto",
        scaling: str = "auto",
        categorical: Any = None,
        class_weight: Any = None,
        time_limit: float | None = None,
        memory_budget: int | str = "1GB",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.metric = metric
        self.scaling = scaling
        self.categorical = categorical
        self.class_weight = class_weight
        self.time_limit = time_limit
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _kind = KernelRidgeClassifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to the rows of a table and class labels y (n,)."""
        with all_or_nothing(self):
            required_target(self, y)
            rows, rng, until = self._learn_table(X, y)
            n = rows.shape[0]
            targets = ClassTargets(y, n)
            self.classes_ = targets.classes
            weights = targets.weights(self.class_weight, sample_weight)
            codes = targets.codes(slice(0, n))
            sample = self._sample(n, weights, rng)
            signs = 0.5 * targets.part(sample)[slice(0, len(sample))]
            found = self._learn_model(rows, {"classes": Aim(signs, signs)}, sample, weights, rng, until)
            self._held = targets, codes, weights
            fit = self._fit_last(rows, np.asarray(targets.values), weights, found, rng, until)
            del self._held
            held = None if weights is None else weights[fit.held]
            self.calibration_ = _calibration(fit.values, codes[fit.held], held, len(self.classes_))
            return self

    def _last_loss(self, values: Float64Array, held: IntArray) -> float:
        targets, _, weights = self._held
        wrong = targets.part(held)[slice(0, len(held))] - values
        return float(np.average((wrong**2).sum(axis=1), weights=None if weights is None else weights[held]))

    def decision_function(self, X: Any) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        values = self._values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> Array:
        """Return the class of each row: that of the largest value."""
        values = self.decision_function(X)
        best = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Float64Array:
        """Return the probability of each class, shape (n, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`."""
        values = self.decision_function(X)
        slope, offset = self.calibration_
        if values.ndim == 1:
            f = slope * values + offset
            return np.stack([log_expit(-f), log_expit(f)], axis=1)
        return np.asarray(log_softmax(slope * values, axis=1))


def _calibration(
    values: Float64Array, codes: IntArray, weights: Array | None, n_classes: int
) -> tuple[float, float]:
    """Return slope and offset of log odds from held-out values: Platt's for two classes, else a temperature.

    Of several classes P = softmax(slope·f): one number, found by the largest likelihood.
    """
    if not len(values):
        return 2.0, 0.0
    if n_classes == 2:
        return platt_sigmoid(values[:, 0], codes == 1, weights)
    w = np.ones(len(codes)) if weights is None else np.asarray(weights, np.float64)
    own = np.arange(len(codes)), codes

    def loss(log_slope: float) -> float:
        return -float(np.average(log_softmax(np.exp(log_slope) * values, axis=1)[own], weights=w))

    found = minimize_scalar(loss, bounds=(np.log(0.1), np.log(100.0)), method="bounded")
    return float(np.exp(found.x)), 0.0
