"""Kernel logistic regression on a memory budget."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array, RowsLike
from gramian.compression.plan import Plan
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, decision_values, log_probabilities, probabilities
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import INPUT, feature_importances_
from gramian.estimator.labelled import labelled_classes
from gramian.estimator.mixins import Classifier
from gramian.ridge.model import TRAINED, KernelModel
from gramian.solvers.losses import Logistic, Softmax
from gramian.svm.choosing import CHOSEN, fit_newton
from gramian.svm.newton import NewtonParameters, newton_evidence, plan_newton

#: Largest curvature of the logistic loss.
BEND = 0.25


@dataclass(eq=False, repr=False)
class KernelLogisticRegression(Classifier, KernelEstimator):
    r"""Logistic regression: minimise −C Σ w_i log P(y_i | x_i) + ½ Σ_k ‖f_k‖², on a compressed kernel.

    With two classes P = 1/(1 + exp(−f − b)). It is fitted by Newton's method (iteratively reweighted least
    squares): each step is a weighted ridge solve from one pass of sums, and four to ten passes suffice. With
    more classes P_k = exp(f_k + b_k)/Σ, fitted by limited-memory BFGS that starts from a factored bound of
    the Hessian: every tenth pass forms one Gram matrix for all classes. On the digits this takes 9 passes for
    C = 0.1, 24 for C = 1, and 50 to 60 for C = 100.

    Parameters
    ----------
    C : float or "auto", default=1.0
        Weight of the loss, as in scikit-learn's ``LogisticRegression``. Sample weights and "auto" as for
        :class:`KernelSVC`.
    kernel, gamma, degree, coef0, kernel_params, approximation, memory_budget, tile_dtype
    random_state, n_jobs
        As for :class:`KernelRidge`, with "auto" for kernel and gamma. Memory that the budget leaves
        keeps the rows' features between passes.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`KernelRidge`.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`.
    fit_intercept : bool, default=True
        Whether to add b, which is not penalised.
    class_weight : None, "balanced" or dict from class to weight
    tol : float, default=1e-8
        Training stops at this predicted relative distance of the objective from its minimum; with float32
        tiles at 2.4e-7 or more.
    max_iter : int, default=300
    verbose : int, default=0
        1 shows a progress bar of the rows read.

    Attributes
    ----------
    classes_, intercept_ (outputs,), kernel_, rank_, n_features_in_ : as named
    scaler_, metric_, metric_rounds_, feature_importances_ : as for :class:`KernelRidge`
    choice_, C_ : KernelChoice, float
        What was chosen where parameters are "auto"; with fewer than 40 rows C is 40/sum(weights).
    n_iter_ : passes over the rows
    solution_ : Solution
        Status, passes, and as ``residual`` the remaining relative gap.
    plan_ : Plan
        Sizes, and the bytes of the bases and of a pass.

    Time O(passes · n (m d + m r + classes · r)), and for two classes O(n r²) more per pass. Raises
    ``InputError`` for unusable input, ``BudgetError`` for too small a budget; warns ``AccuracyWarning`` if
    ``tol`` was missed.

    Source: Zhu and Hastie 2005 (kernel logistic regression); Nocedal and Wright 2006, algorithm 7.4.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.svm.logistic import KernelLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((500, 2))
    >>> y = np.where(np.sin(9 * X[:, 0]) > 2 * X[:, 1] - 1, "above", "below")
    >>> m = KernelLogisticRegression(C=100.0, gamma=10.0).fit(X, y)
    >>> bool(m.score(X, y) > 0.97), m.predict_proba(X[:3]).shape
    (True, (3, 2))
    """

    _learns = (*TRAINED, *INPUT, *CHOSEN, "n_iter_")

    C: float | str = 1.0
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    standardize: bool = False
    metric: Any = None
    approximation: Any = "auto"
    fit_intercept: bool = True
    class_weight: Any = None
    tol: float = 1e-8
    max_iter: int = 300
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,), by default those of a row source."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            y = required_target(self, X, y)
            rows = labelled_classes(self._rows(X, reset=True), y, sample_weight, self.class_weight)
            self._keep(fit_newton(rows, self._parameters(rows.n_outputs, phases)).state())
            self.classes_ = rows.targets.classes
            return self

    def _parameters(self, n_outputs: int, phases: Phases = silent) -> NewtonParameters:
        # Two classes have one output; more classes have one each.
        loss = Logistic() if n_outputs == 1 else Softmax()
        return NewtonParameters.of(self, loss, BEND, phases)

    def _values(self, X: RowsLike) -> Float64Array:
        return KernelModel.of(self).finite(self._rows(X, reset=False), Engine(self.n_jobs))

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        check_is_fitted(self, "predictor_")
        return decision_values(self._values(X))

    def predict(self, X: RowsLike) -> Array:
        """Return the likeliest class of each row; of several the first in ``classes_``."""
        check_is_fitted(self, "predictor_")
        source = self._rows(X, reset=False)
        return KernelModel.of(self).classes(source, Engine(self.n_jobs), self._labels, self.classes_.dtype)

    def _labels(self, values: Float64Array) -> Array:
        # As in predict_proba: rounding can make two probabilities equal whose decision values differ.
        return class_labels(probabilities(values), self.classes_)

    def plan(self, X: RowsLike, y: ArrayLike | None = None) -> Plan:
        """Predict sizes and bytes of bases and a pass, without fitting (``y``: the classes)."""
        return self._plan_fit(X, y, lambda rows, k: plan_newton(self._parameters(k), rows, k))

    feature_importances_ = feature_importances_
    _evidence = newton_evidence

    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the probability of each class, shape (n, classes)."""
        check_is_fitted(self, "predictor_")
        return probabilities(self._values(X))

    def predict_log_proba(self, X: RowsLike) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`, without its underflow."""
        check_is_fitted(self, "predictor_")
        return log_probabilities(self._values(X))
