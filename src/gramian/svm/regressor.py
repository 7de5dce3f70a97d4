"""Support vector regression on a memory budget."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from gramian._checks import one_of
from gramian._phases import Phases, silent
from gramian._tiles import row_slices
from gramian._typing import Float64Array, RowsLike
from gramian.compression.plan import Plan
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, predicted_numbers
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import INPUT, feature_importances_
from gramian.estimator.labelled import LabelledRows, labelled_numbers
from gramian.estimator.mixins import Regressor
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError, user_level
from gramian.ridge.model import TRAINED, KernelModel
from gramian.solvers.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from gramian.svm.choosing import CHOSEN, fit_newton
from gramian.svm.newton import NewtonParameters, newton_evidence, plan_newton

#: Losses by name.
LOSSES = {"epsilon_insensitive": EpsilonInsensitive, "squared_epsilon_insensitive": SquaredEpsilonInsensitive}


@dataclass(eq=False, repr=False)
class KernelSVR(Regressor, KernelEstimator):
    r"""Support vector regression: minimise C Σ w_i ℓ(y_i − f(x_i) − b) + ½ ‖f‖², on a compressed kernel.

    ℓ(r) is ``max(0, |r| − ε)`` or its square. Training works as in :class:`KernelSVC`: by Newton steps for
    the square, else by proximal losses of decreasing width until the relative duality gap is ``tol``. Several
    targets are fitted independently.

    Parameters
    ----------
    C : float or "auto", default=1.0
        Weight of the loss, as in scikit-learn's ``SVR`` and ``LinearSVR``. "auto" takes that of the
        least squared error of held-out rows, on the features of all rows.
    epsilon : float, default=0.1
        Residuals up to this size cost nothing; in the unit of y.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The square is five to ten times faster, and gives outliers more weight.
    kernel, gamma, degree, coef0, kernel_params, approximation, memory_budget, tile_dtype
    random_state, n_jobs
        As for :class:`KernelRidge`, with "auto" for kernel and gamma. Memory that the budget leaves
        keeps the rows' features between passes.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`KernelRidge`.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`; rounds are compared by the squared error.
    fit_intercept : bool, default=True
        Whether to add b, which is not penalised.
    tol, max_iter, verbose
        As for :class:`KernelSVC`.

    Attributes
    ----------
    intercept_ (outputs,), kernel_, rank_, n_iter_, solution_, plan_, n_features_in_ : as for
        :class:`KernelSVC`.
    scaler_, metric_, metric_rounds_, feature_importances_ : as for :class:`KernelRidge`
    choice_, C_ : KernelChoice, float
        What was chosen where parameters are "auto"; with fewer than 40 rows C is 40/sum(weights).

    Time, errors and warnings as for :class:`KernelSVC`; a ``UserWarning`` says when all targets lie within
    epsilon of a constant, which then is the model.

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

    _learns = (*TRAINED, *INPUT, *CHOSEN, "n_iter_")

    C: float | str = 1.0
    _: KW_ONLY
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    standardize: bool = False
    metric: Any = None
    approximation: Any = "auto"
    fit_intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 100
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs), by default those of a row source.

        y of shape (n, 1) is taken as (n,), with a ``DataConversionWarning``, as scikit-learn's ``SVR`` does.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            y = required_target(self, X, y)
            source = self._rows(X, reset=True)
            rows = labelled_numbers(source, y, sample_weight, "KernelSVC")
            if rows.n_outputs == 1 and not rows.targets.flat:
                flat = column_or_1d(rows.targets.values, warn=True)
                rows = replace(rows, targets=NumberTargets(flat, rows.n))
            self._flat = rows.targets.flat
            parameters = self._parameters(phases)
            _warn_if_within(rows, float(self.epsilon), bool(self.fit_intercept))
            self._keep(fit_newton(rows, parameters).state())
            return self

    def _parameters(self, phases: Phases = silent) -> NewtonParameters:
        epsilon = self.epsilon
        real = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
        if not real or not 0 <= float(epsilon) < float("inf"):
            raise InputError(f"epsilon={epsilon!r} must be a finite number of at least 0.")
        loss = LOSSES[one_of("loss", self.loss, tuple(LOSSES))](float(epsilon))
        return NewtonParameters.of(self, loss, phases=phases)

    def _values(self, X: RowsLike) -> Float64Array:
        return KernelModel.of(self).finite(self._rows(X, reset=False), Engine(self.n_jobs))

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) + b per row, shape (n,) or (n, outputs)."""
        check_is_fitted(self, "predictor_")
        return predicted_numbers(self._values(X), flat=self._flat)

    def plan(self, X: RowsLike, y: ArrayLike | None = None) -> Plan:
        """Predict sizes and bytes of bases and a pass, without fitting (``y``: the outputs)."""
        return self._plan_fit(X, y, lambda *rows: plan_newton(self._parameters(), *rows))

    feature_importances_ = feature_importances_
    _evidence = newton_evidence


def _warn_if_within(rows: LabelledRows[NumberTargets], epsilon: float, intercept: bool) -> None:
    """Warn if a target varies, but so little that a constant (0 without intercept) has no loss anywhere."""
    low, high = np.full(rows.n_outputs, np.inf), np.full(rows.n_outputs, -np.inf)
    for where in row_slices(rows.n, PREDICT_ROWS):
        block = rows.targets[where]
        block = block if rows.weights is None else block[rows.weights[where] > 0]
        low = np.minimum(low, block.min(axis=0, initial=np.inf))
        high = np.maximum(high, block.max(axis=0, initial=-np.inf))
    reach = 0.5 * (high - low) if intercept else np.maximum(np.abs(low), np.abs(high))
    within = np.flatnonzero((high > low) & (reach <= epsilon))
    if len(within):
        j = within[0]
        which = "y" if rows.targets.flat else f"column {j} of y"
        warnings.warn(
            f"{which} lies between {low[j]:.3g} and {high[j]:.3g}, all within epsilon={epsilon:g} of "
            f"a constant, so that the model is a constant. Pass a smaller epsilon, such as "
            f"{0.1 * reach[j]:.2g}, or divide y by its deviation.",
            UserWarning,
            stacklevel=user_level(),
        )
