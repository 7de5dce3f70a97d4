"""Support vector regression on a memory budget."""

from __future__ import annotations

import numbers
from copy import deepcopy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from gramian._checks import one_of
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.answers import predicted_numbers
from gramian.estimator.base import checked_weights, own_target
from gramian.estimator.kinds import Regressor
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.ridge.streaming import PREDICT_ROWS
from gramian.solvers.losses import EpsilonInsensitive, Loss, SquaredEpsilonInsensitive
from gramian.svm.newton import StreamingNewton

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class KernelSVR(Regressor, StreamingNewton):
    r"""Support vector regression: minimise C Σ w_i ℓ(y_i − f(x_i) − b) + ½ ‖f‖², on a compressed kernel.

    ℓ(r) is ``max(0, |r| − ε)`` or its square. Trained like :class:`KernelSVC`: the square by Newton steps,
    the other by proximal losses of decreasing width to a relative duality gap of ``tol``. Several targets are
    problems of their own.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, as in scikit-learn's ``SVR`` and ``LinearSVR``.
    epsilon : float, default=0.1
        Residuals up to it cost nothing; in the unit of y.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The square is five to ten times faster, and weighs outliers more.
    kernel, gamma, degree, coef0, kernel_params, approximation, memory_budget, tile_dtype
    random_state, n_jobs
        As for :class:`KernelRidge`; what the budget leaves over holds the rows' features between passes.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`; rounds are judged by the squared error.
    fit_intercept : bool, default=True
        Whether to add b, which is not penalised.
    tol, max_iter, verbose
        As for :class:`KernelSVC`.

    Attributes
    ----------
    intercept_ (outputs,), kernel_, rank_, n_iter_, solution_, plan_, n_features_in_ : as for
        :class:`KernelSVC`.
    metric_, metric_rounds_, feature_importances_ : as for :class:`KernelRidge`

    Time, errors and warnings as for :class:`KernelSVC`.

    Source: Ho and Lin 2012 (squared loss); Rockafellar 1976, Li, Sun and Toh 2018 (proximal points).

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.svm.regressor import KernelSVR
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(9 * X[:, 1])
    >>> m = KernelSVR(C=100.0, epsilon=0.05, gamma=10.0).fit(X, y)
    >>> bool(np.abs(m.predict(X) - y).max() < 0.06)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        loss: str = "epsilon_insensitive",
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        metric: Any = None,
        approximation: Any = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 100,
        memory_budget: int | str = "1GB",
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.metric = metric
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs), by default those of a row source.

        y of shape (n, 1) is taken as (n,), with a ``DataConversionWarning``, as scikit-learn's ``SVR`` does.
        """
        with self._all_or_nothing():
            y = own_target(X, y)
            source = self._fit_rows(X, y)
            targets = NumberTargets(y, source.shape[0])
            if targets.shape[1] == 1 and not targets.flat:
                targets = NumberTargets(column_or_1d(targets.values, warn=True), source.shape[0])
            self._flat = targets.flat
            weights = checked_weights(sample_weight, source.shape[0])
            self._loss(1.0)  # what is wrong with it is told first
            self._fit_part(self._under_metric(source, targets, weights), targets, weights)
            return self

    def _fit_part(self, source: RowSource, targets: Any, weights: Any, before: Any = None) -> None:
        mean = targets.mean(weights)
        spread = _spread(targets, weights, mean)
        loss = self._loss(spread)
        mass = float(source.shape[0] if weights is None else weights.sum())
        size = spread if isinstance(loss, EpsilonInsensitive) else spread**2
        settings = self._settings(loss, mass * size, spread)
        start = mean if before is None else before.intercept_
        self._minimise(source, targets, weights, settings, start if self.fit_intercept else None)

    def _loss(self, spread: float) -> Loss:
        epsilon = self.epsilon
        real = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
        if not real or not 0 <= float(epsilon) < float("inf"):
            raise InputError(f"epsilon={epsilon!r} must be a finite number of at least 0.")
        if one_of("loss", self.loss, LOSSES) == LOSSES[1]:
            return SquaredEpsilonInsensitive(float(epsilon))
        # Parabolas that begin as wide as the targets: the first step is nearly a ridge regression.
        return EpsilonInsensitive(float(epsilon), 2.0 * spread)

    def predict(self, X: Any) -> Float64Array:
        """Return f(x) + b per row, shape (n,) or (n, outputs)."""
        check_is_fitted(self, "predictor_")
        return predicted_numbers(self._decision(X), flat=self._flat)

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Predict sizes and bytes of bases and a pass, without fitting (``y``: the outputs)."""
        with self._all_or_nothing(keep=False):
            source = self._scaled(self._rows(X, reset=True), learn=True, sampled=True)
            outputs = 1 if y is None else NumberTargets(y, source.shape[0]).shape[1]
            return self._planned(source, outputs, deepcopy(self.random_state))[0]


def _spread(targets: NumberTargets, weights: Array | None, mean: Float64Array) -> float:
    """Return the largest weighted standard deviation of a target; 1 where all are constant."""
    total, mass = np.zeros(targets.shape[1]), 0.0
    for where in row_slices(targets.shape[0], PREDICT_ROWS):
        block = targets[where]
        w = np.ones(len(block)) if weights is None else weights[where]
        total += w @ (block - mean) ** 2
        mass += float(w.sum())
    return float(np.sqrt(total.max() / mass)) or 1.0
