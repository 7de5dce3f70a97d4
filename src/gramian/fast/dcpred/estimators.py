"""DC-Pred++ in scikit-learn's interface: local models on few landmarks and many pseudo-landmarks."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._checks import positive_number
from gramian._numerics import narrowed
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, class_labels, decision_values, predicted_numbers
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.labelled import labelled_classes, labelled_numbers
from gramian.estimator.mixins import Classifier, Regressor
from gramian.estimator.summaries import FitFacts
from gramian.fast.dcpred.model import LEARNED, DCPredModel
from gramian.fast.dcpred.training import DCPredParameters, fit_dcpred


@dataclass(eq=False, repr=False)
class DCPredClassifier(Classifier, KernelEstimator):
    r"""DC-Pred++: a k-means tree with a kernel machine on few landmarks in each leaf.

    A row is routed to its leaf. There f(x) = c̄(x)ᵀβ + b, with c̄(x) the kernel values of ``n_landmarks``
    points u_j and ``n_pseudo`` cheap functions of them. A leaf's model minimises ½‖f‖² + C Σ_i w_i ℓ(y_i,
    f(x_i) + b) in the approximate kernel Ḡ = C̄ W̄ C̄ᵀ, where C̄ holds c̄ of the leaf's rows, G is the exact
    kernel matrix and W̄ = C̄⁺ G C̄⁺ᵀ is fitted on sampled rows. With ᾱ the dual coefficients, β = W̄ C̄ᵀ ᾱ is
    stored, so that a prediction needs no training rows.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a row's loss, as in scikit-learn's ``SVC``.
    loss : {"hinge", "squared_hinge", "logistic", "ridge"}, default="squared_hinge"
        ℓ: max(0, 1 − y f), its square, log(1 + exp(−y f)) or (y − f)². More than two classes are fitted one
        against the rest. "hinge" is solved with its corner rounded (width 0.01).
    kernel, gamma, degree, coef0, kernel_params
        The kernel, as for :class:`gramian.KernelRidge`; not "precomputed", which has no points.
    n_leaves : int or "auto", default="auto"
        Leaves of the tree; "auto" is one for every 500 rows, up to 64.
    n_levels : int, default=2
        Levels of the tree; 1 compares a row with the centres of all leaves.
    partition : {"kmeans", "minibatch", "kcenters", "tree"}, default="kmeans"
        How rows are clustered; "tree" is a balanced bisection (``n_levels`` has no effect).
    n_landmarks : int, default=16
        Landmarks of a leaf; a leaf with no more rows than that uses all of them.
    landmarks : {"weighted-kmeans", "kmeans", "uniform", "rpcholesky"}, default="weighted-kmeans"
        "weighted-kmeans" first fits the exact model of the leaf, then weights each row by its squared dual
        coefficient α².
    n_pseudo : int, default=64
        Pseudo-landmarks of a leaf; "monomials" of m landmarks number at most m(m + 1)/2.
    pseudo : {"monomials", "triangle-upper", "triangle-lower", None}, default="monomials"
        "monomials": products c_i c_j of two kernel values, for any kernel. "triangle-…": the kernel value at
        the triangle inequality's bound on the distance to a training row; the kernel must be a function of
        one distance.
    pseudo_degree : int, default=2
        Highest degree of the monomials, which are spread evenly over the degrees from 2. More than 2 answers
        more slowly: the leaves are then evaluated one by one.
    fit_intercept : bool, default=True
        Whether a leaf has a bias b, which is not penalised. A leaf with one class has b = ±1 in any case.
    exact_rows : int, default=2000
        Rows of a leaf on which its exact model is fitted. A larger leaf uses a sample, and
        ``exact_from_sample_`` says so. Time grows with the cube of this number, memory with its square.
        Except for "ridge", each class in a leaf has its own exact model. If classes · rows³ summed over all
        leaves exceeds 10¹³ (15 to 60 minutes on one core), ``fit`` raises and names a feasible
        ``exact_rows``.
    class_weight : None, "balanced" or dict from class to weight, default=None
    dtype : {"auto", "float32", "float64"}, default="auto"
        Type of the stored model; "auto" is float64 for at most 3,000 training rows, unless these are float32
        or bytes, and float32 otherwise.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`gramian.KernelRidge`.
    random_state, n_jobs
        As in scikit-learn; ``n_jobs=None`` uses all cores.
    verbose : int, default=0
        1 shows a bar of the leaves that are trained.

    Attributes
    ----------
    classes_ : (n_classes,)
    n_leaves_ : int
        Number of leaves; fewer than asked for if rows repeat.
    leaves_ : tuple of LeafReport
        For each leaf: rows, landmarks, pseudo-landmarks, rank, rows of the exact model, steps, gradient.
    exact_from_sample_ : (leaves,) of bool
        Whether a leaf's exact model saw a sample of its rows.
    model_ : DCPred
        The predictor: ``model_.partition``, ``model_.leaves[i].beta``.
    kernel_, nbytes_, n_features_in_ : as named.
    scaler_ : as for :class:`gramian.KernelRidge`.

    With m landmarks and p pseudo-landmarks, training takes O(e³) for a leaf's exact model on e rows and
    O(n (m d + (m + p)²)) a Newton step. A prediction takes O(d · (route + m) + (m + p) · outputs), where
    route is the number of centres compared. Raises ``InputError`` for unusable input; warns
    ``AccuracyWarning`` if a local model missed its tolerance. Values jump at the borders of leaves. With
    thousands of features the landmarks cost as much as an exact SVM with as many support vectors.
    Monomials can grow without bound between and beyond the training rows; an answer that leaves the range of
    the leaf's targets and fitted values is moved back to the limit, and further out to the bias b.

    Source: Hsieh, Si and Dhillon 2014, "Fast prediction for large-scale kernel machines", Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.fast.dcpred.estimators import DCPredClassifier
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> y = np.where(np.sin(8 * X[:, 0]) * np.cos(8 * X[:, 1]) > 0, "plus", "minus")
    >>> m = DCPredClassifier(C=10, gamma=10.0, n_landmarks=8, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.97), m.n_leaves_, m.model_.leaves[0].beta.shape
    (True, 4, (44, 1))
    """

    _learns = LEARNED

    C: float = 1.0
    _: KW_ONLY
    loss: str = "squared_hinge"
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    n_leaves: int | str = "auto"
    n_levels: int = 2
    partition: str = "kmeans"
    n_landmarks: int = 16
    landmarks: str = "weighted-kmeans"
    n_pseudo: int = 64
    pseudo: str | None = "monomials"
    pseudo_degree: int = 2
    fit_intercept: bool = True
    exact_rows: int = 2000
    class_weight: Any = None
    dtype: str = "auto"
    standardize: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,); a row source X may hold the labels.

        Rows of weight 0 have no effect.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            parameters = DCPredParameters.of(self, positive_number("C", self.C), phases=phases)
            y = required_target(self, X, y)
            rows = labelled_classes(self._rows(X, reset=True), y, sample_weight, self.class_weight)
            targets, q = rows.targets, rows.n_outputs
            codes = np.concatenate([targets.codes(s) for s in row_slices(rows.n, PREDICT_ROWS)])
            numbers = np.arange(1, 2) if q == 1 else np.arange(q)

            def columns(which: IntArray) -> Float64Array:
                return np.where(codes[which][:, None] == numbers, 1.0, -1.0)

            self._keep(fit_dcpred(rows, columns, parameters).state())
            self.classes_ = targets.classes
            return self

    def _evidence(self) -> FitFacts:
        return DCPredModel.of(self).facts(C=self.C)

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes.

        In a leaf without training rows of a class its value is −1; if it is the leaf's only class, +1.
        """
        check_is_fitted(self, "model_")
        return decision_values(DCPredModel.of(self).values(self._rows(X, reset=False), Engine(self.n_jobs)))

    def predict(self, X: RowsLike) -> Array:
        """Return the class of each row."""
        check_is_fitted(self, "model_")
        rows, labels = self._rows(X, reset=False), partial(class_labels, classes=self.classes_)
        return DCPredModel.of(self).values(rows, Engine(self.n_jobs), labels, dtype=self.classes_.dtype)


@dataclass(eq=False, repr=False)
class DCPredRegressor(Regressor, KernelEstimator):
    r"""DC-Pred++ for regression: a k-means tree with kernel ridge regression on few landmarks in each leaf.

    Each leaf minimises Σ_i w_i (y_i − f(x_i) − b)² + alpha ‖f‖². Parameters, attributes and cost are those of
    :class:`DCPredClassifier`, with ``alpha`` in place of C = 1/(2 alpha). The outputs share their landmarks.

    Parameters
    ----------
    alpha : float, default=1.0
        Ridge penalty, as in scikit-learn's ``KernelRidge``.
    loss : {"ridge"}, default="ridge"

    Source: Hsieh, Si and Dhillon 2014, "Fast prediction for large-scale kernel machines", equation (2).

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.fast.dcpred.estimators import DCPredRegressor
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(9 * X[:, 1])
    >>> m = DCPredRegressor(alpha=1e-4, gamma=4.0, n_landmarks=8, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.99)
    True
    """

    _learns = LEARNED

    alpha: float = 1.0
    _: KW_ONLY
    loss: str = "ridge"
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    n_leaves: int | str = "auto"
    n_levels: int = 2
    partition: str = "kmeans"
    n_landmarks: int = 16
    landmarks: str = "weighted-kmeans"
    n_pseudo: int = 64
    pseudo: str | None = "monomials"
    pseudo_degree: int = 2
    fit_intercept: bool = True
    exact_rows: int = 2000
    dtype: str = "auto"
    standardize: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs); a row source X may hold the targets.

        Rows of weight 0 have no effect.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            cost = 0.5 / positive_number("alpha", self.alpha)
            parameters = DCPredParameters.of(self, cost, losses=("ridge",), phases=phases)
            y = required_target(self, X, y)
            rows = labelled_numbers(self._rows(X, reset=True), y, sample_weight, "DCPredClassifier")
            numbers = rows.numbers
            wide = narrowed(numbers, np.float32).dtype == np.float64
            self._keep(fit_dcpred(rows, numbers.__getitem__, parameters, wide=wide).state())
            self._flat = rows.targets.flat
            return self

    def _evidence(self) -> FitFacts:
        return DCPredModel.of(self).facts(alpha=self.alpha)

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs)."""
        check_is_fitted(self, "model_")
        values = DCPredModel.of(self).values(self._rows(X, reset=False), Engine(self.n_jobs))
        return predicted_numbers(values, flat=self._flat)
