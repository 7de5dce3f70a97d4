"""Support vector classification on a memory budget."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, whole_number
from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array, RowsLike
from gramian.compression.plan import Plan
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, decision_values
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import INPUT, feature_importances_
from gramian.estimator.labelled import labelled_classes
from gramian.estimator.mixins import Classifier
from gramian.ridge.model import TRAINED, KernelModel
from gramian.solvers.losses import Hinge, Loss, SquaredHinge
from gramian.svm.choosing import CHOSEN, fit_newton
from gramian.svm.newton import NewtonParameters, newton_evidence, plan_newton

#: Losses by name.
LOSSES: dict[str, Loss] = {"squared_hinge": SquaredHinge(), "hinge": Hinge()}

#: Largest curvature of the squared hinge; fits with the hinge are planned with the same number.
BEND = 2.0


def _calibrated(estimator: KernelSVC) -> bool:
    if estimator.probability:
        return True
    raise AttributeError("predict_proba needs probability=True. Set it before fit.")


@dataclass(eq=False, repr=False)
class KernelSVC(Classifier, KernelEstimator):
    r"""Support vector machine: minimise C Σ w_i ℓ(y_i (f(x_i) + b)) + ½ ‖f‖², on a compressed kernel.

    ℓ(t) is max(0, 1 − t)² or max(0, 1 − t), and y = ±1; with more than two classes each one is separated from
    the rest. A Newton step is a weighted ridge solve. Its sums run over the rows with 1 − y f > 0 (squared
    hinge) or near the kink (hinge), in one pass over tiles: memory does not grow with n, except for a few
    numbers per row. Training starts at the minimum for half the rows, which is found from that for a quarter,
    and so on down to 500 rows; near a minimum few rows have curvature, so the Gram matrices stay small.
    With the squared hinge about ten passes suffice. The hinge has no curvature: it is approached by proximal
    losses (parabolas around the kink, whose widths decrease and whose centres follow the dual) until the
    relative duality gap is ``tol``, in five to ten times as many passes over fewer rows.

    Parameters
    ----------
    C : float or "auto", default=1.0
        Weight of the loss, as in scikit-learn's ``SVC`` (hinge) and ``LinearSVC`` (squared hinge).
        It multiplies sample weights. "auto" takes that of the least loss of held-out rows, on the features
        of all rows, with weights divided by their mean: there only their ratios matter.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        The squared hinge is smoother, and five to ten times faster; the hinge is that of ``SVC``.
    kernel, gamma, degree, coef0, kernel_params, approximation, memory_budget, tile_dtype
    random_state, n_jobs
        As for :class:`KernelRidge`, with "auto" for kernel and gamma. Memory that the budget leaves
        is used to keep the rows' features between passes, and the Gram matrices of several classes at a time.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`KernelRidge`.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`.
    fit_intercept : bool, default=True
        Whether to add b, which is not penalised.
    class_weight : None, "balanced" or dict from class to weight
    probability : bool, default=False
        Whether to calibrate probabilities with Platt's sigmoid for each class. It is fitted to decision
        values of held-out rows, from ``calibration_folds`` further minimisations on the same bases, each
        started at the first minimum. Probabilities are normalised over classes, and ``predict`` returns the
        likeliest class. scikit-learn deprecates this parameter of ``SVC`` for ``CalibratedClassifierCV``,
        which works here too (see the examples), with sigmoid, isotonic or temperature scaling; it fits bases
        anew in every fold.
    calibration_folds : int, default=5
    tol : float, default=1e-6
        Training stops at this relative accuracy of the objective, by the duality gap, with float32 tiles by
        Newton's decrement.
    max_iter : int, default=100
        Most Newton steps (with the hinge: for each width).
    verbose : int, default=0
        1 shows a progress bar of the rows read.

    Attributes
    ----------
    classes_, intercept_ (outputs,), kernel_, rank_, n_features_in_ : as named
    scaler_, metric_, metric_rounds_, feature_importances_ : as for :class:`KernelRidge`
    choice_, C_ : KernelChoice, float
        What was chosen where parameters are "auto"; with fewer than 40 rows C is 40/sum(weights).
    n_iter_ : passes over all rows
    solution_ : Solution
        Status, passes, and as ``residual`` the remaining relative gap, computed in float64.
    plan_ : Plan
        Sizes, and the bytes of the bases and of a pass.
    calibration_ : ndarray (outputs, 2)
        Slope and offset of each sigmoid, where ``probability`` is set.

    Time O(passes · n (m d + m r + classes · active part · r²)). Raises ``InputError`` for unusable input,
    ``BudgetError`` for too small a budget; warns ``AccuracyWarning`` where ``tol`` was missed.

    Agreement with ``SVC``: decision values to 1e-3 with ``loss="hinge"``, ``approximation="exact"`` and two
    classes. With more, ``SVC`` compares pairs of classes, and this class each one with the rest.

    Source: Keerthi and DeCoste 2005 (Newton on active rows); Chapelle 2007 (halves of the rows); Rockafellar
    1976, Li, Sun and Toh 2018 (proximal points in the dual); Lin, Lin and Weng 2007 (calibration).

    Examples
    --------
    >>> import gramian as gm
    >>> from gramian.svm.classifier import KernelSVC
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> m = KernelSVC(C=10.0, gamma=0.001, approximation="nystrom", random_state=0).fit(X[:1000], y[:1000])
    >>> bool(m.score(X[1000:], y[1000:]) > 0.95), m.decision_function(X[:3]).shape
    (True, (3, 10))

    Probabilities by scikit-learn's calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> machine = KernelSVC(C=10.0, gamma=0.001, approximation=gm.Nystrom(rank=50), random_state=0)
    >>> calibrated = CalibratedClassifierCV(machine, cv=2, ensemble=False).fit(X[:300], y[:300])
    >>> calibrated.predict_proba(X[1000:1003]).shape
    (3, 10)
    """

    _learns = (*TRAINED, *INPUT, *CHOSEN, "n_iter_", "calibration_")

    C: float | str = 1.0
    _: KW_ONLY
    loss: str = "squared_hinge"
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
    probability: bool = False
    calibration_folds: int = 5
    tol: float = 1e-6
    max_iter: int = 100
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,), by default those of a row source."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            y = required_target(self, X, y)
            source = self._rows(X, reset=True)
            folds = whole_number("calibration_folds", self.calibration_folds, 2)
            rows = labelled_classes(source, y, sample_weight, self.class_weight)
            parameters = self._parameters(phases, folds if self.probability else 0)
            self._keep(fit_newton(rows, parameters).state())
            self.classes_ = rows.targets.classes
            return self

    def _parameters(self, phases: Phases = silent, folds: int = 0) -> NewtonParameters:
        loss = LOSSES[one_of("loss", self.loss, tuple(LOSSES))]
        return NewtonParameters.of(self, loss, BEND, phases, folds)

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
        # Each class has its own sigmoid, so the largest decision value need not be the likeliest class.
        calibrated = hasattr(self, "calibration_")
        return class_labels(self._probabilities(values) if calibrated else values, self.classes_)

    def plan(self, X: RowsLike, y: ArrayLike | None = None) -> Plan:
        """Predict sizes and bytes of bases and a pass, without fitting (``y``: the classes)."""
        return self._plan_fit(X, y, lambda *rows: plan_newton(self._parameters(), *rows))

    feature_importances_ = feature_importances_
    _evidence = newton_evidence

    @available_if(_calibrated)
    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the calibrated probability of each class, shape (n, classes)."""
        check_is_fitted(self, "calibration_")
        return self._probabilities(self._values(X))

    def _probabilities(self, values: Float64Array) -> Float64Array:
        p = expit(self.calibration_[:, 0] * values + self.calibration_[:, 1])
        if len(self.classes_) == 2:
            return np.hstack([1.0 - p, p])
        # If all probabilities underflow to 0, the classes are equally likely.
        p = np.maximum(p, np.finfo(np.float64).tiny)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @available_if(_calibrated)
    def predict_log_proba(self, X: RowsLike) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            logs: Float64Array = np.log(self.predict_proba(X))
        return logs
