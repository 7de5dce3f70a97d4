"""Kernel ridge regression and classification on a memory budget."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array
from gramian.compression.plan import Plan
from gramian.data.distributed import is_elsewhere
from gramian.estimator.answers import class_labels, decision_values, in_blocks, predicted_numbers
from gramian.estimator.base import checked_weights, own_target
from gramian.estimator.kinds import Classifier, Regressor
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.ridge.partial_kinds import PartialClassifier, PartialRegressor


class KernelRidge(Regressor, PartialRegressor):
    r"""Kernel ridge regression: minimise Σ w_i (y_i − f(x_i))² + alpha ‖f‖², on a compressed kernel.

    f(x) = Σ over x's path of k(x, Z)ᵀ κ, trained by one pass of sums in tiles: the bases are never
    stored and memory does not grow with n.

    Parameters
    ----------
    alpha : float, default=1.0
        Ridge penalty, as in scikit-learn's ``KernelRidge``.
    kernel, gamma, degree, coef0, kernel_params
        The kernel, as for :class:`gramian.MEKA`; ``gamma=None`` is 1/n_features. With "precomputed" ``fit``
        takes K(X, X), square and symmetric, ``predict`` K(X_new, X); cross-validation cuts rows and columns.
    approximation : str or unfitted approximation, default="auto"
        ``"auto"`` plans from the data and the budget; ``"multiresolution"``, ``"meka"``; ``"exact"`` solves
        with K itself, by tiles, and :class:`gramian.Exact` says how; or an instance such as
        ``gm.MEKA(rank=256, n_blocks=40)``, whose kernel parameters are not used. scikit-learn's
        ``FrozenEstimator(a)`` with a fitted approximation ``a`` takes its landmarks, tiles and kernel as they
        are; kernel parameters are then left as they are by default.
    fit_intercept : bool, default=False
        Whether to add an intercept that is not penalised, as in scikit-learn's ``Ridge``.
    standardize : bool, default=False
        Whether columns get mean 0 and deviation 1 as they are read, in predictions too; costs a pass over
        the rows. Mean and standard deviation are weighted by ``sample_weight`` (and ``class_weight``). Sparse
        rows are divided by the same deviation and not centred: with kernels of differences x − z ("rbf",
        "laplacian" and most others) the model is that of dense rows; with "linear", "poly" and "cosine" it
        is another one. ``partial_fit`` scales by its first rows.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        The distance that the kernel takes. "diagonal" learns a scale for each feature, "full" a matrix that
        mixes them, by rounds of fit and gradients on at most 10,000 of the rows, judged on others
        (:class:`gramian.LearnedMetric`); a :class:`gramian.Metric` is taken as it is. Columns should be of
        like scale (``standardize=True``). ``partial_fit`` learns from its first call's rows.
    memory_budget : int or str, default="1GB"
        Bound on working memory beyond the caller's arrays, while fitting.
    checkpoint : path or None, default=None
        Folder in which the sums of an unfinished fit are kept, so often that writing takes a twentieth of
        the pass. After a fit that was broken off (killed, even), the next one to the same rows with the same
        parameters goes on from there, and gives the same bits as one that was not.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of tiles; "auto" takes float64 up to 3,000 rows, for smooth kernels (whose spectrum falls
        under the cutoff of float32 before it falls under alpha), or for an alpha that float32 sums
        could not resolve (under 128·u·√n·mean k(x, x)), else float32.
    random_state, n_jobs, verbose
        As in scikit-learn; ``n_jobs=None`` uses all cores; ``verbose=1`` shows a progress bar.
    engine : DaskEngine or None, default=None
        Cluster that makes the sums and predictions of any rows, from :mod:`gramian.engine_dask`. Dask
        collections are worked on where they lie without it; ``predict`` of one is a Dask array, not computed.

    Attributes
    ----------
    plan_ : Plan
        Sizes chosen, predicted and used bytes, and the seconds used, per phase.
    solution_ : Solution
        Status and true relative residual of the linear system.
    stages_ : list of Stage
        Of an exact solve: what was solved with, iterations and seconds of each.
    n_rows_seen_, n_rows_waiting_, n_blocks_ : int
        Of a model trained by ``partial_fit``: rows so far, those of them that wait for more before scale,
        metric and landmarks are chosen, leaf blocks.
    scaler_ : Scaler
        With ``standardize``: mean and deviation of each column.
    metric_, feature_importances_ : Metric, ndarray (d,)
        With ``metric``: the metric, and each feature's share in it.
    metric_rounds_ : tuple of Round
        With a learned one: held-out error, power and seconds of each round, and why one was undone; empty
        under 60 rows, from which nothing is learned.
    kernel_, rank_, intercept_, n_features_in_ : as named.

    Time O(n (m d + m r + r²)) and the solve; memory as ``plan_`` says, independent of n. Raises
    ``InputError`` for unusable input, ``BudgetError`` (with the least that works) for too small a budget;
    warns ``AccuracyWarning`` or ``NumericalWarning`` with amounts.

    Source: Snelson and Ghahramani 2007; Si, Hsieh and Dhillon 2014 for MEKA.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(9 * X[:, 1])
    >>> m = gm.KernelRidge(alpha=1e-3, gamma=10.0, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.999), m.plan_.method
    (True, 'multiresolution')
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        approximation: Any = "auto",
        fit_intercept: bool = False,
        standardize: bool = False,
        metric: Any = None,
        memory_budget: int | str = "1GB",
        checkpoint: Any = None,
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.metric = metric
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs), by default those of a row source."""
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._fit_rows(X, y)
            targets = NumberTargets(y, source.shape[0])
            self._flat = targets.flat
            weights = checked_weights(sample_weight, source.shape[0])
            return self._train(self._under_metric(source, targets, weights), targets, weights)

    def predict(self, X: Any) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs). Time O(n (route + m d))."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            shape = () if self._flat else (self.predictor_.n_outputs,)
            return self._lazily(X, "predict", shape, np.float64)
        return predicted_numbers(self._decision(X), flat=self._flat)

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Predict sizes and bytes of a fit, without fitting (``y`` gives the outputs)."""
        with self._all_or_nothing(keep=False):
            X, y, _ = self._opened(X, y, None)
            source = self._scaled(self._rows(X, reset=True), learn=True, sampled=True)
            outputs = 1 if y is None else NumberTargets(y, source.shape[0]).shape[1]
            return self._ridge_plan(source, outputs, deepcopy(self.random_state))


class KernelRidgeClassifier(Classifier, PartialClassifier):
    """Kernel ridge regression on targets ±1, one column per class; the largest value wins.

    Parameters and attributes as for :class:`KernelRidge`, and ``classes_``. ``fit_intercept=True``
    adds an intercept that is not penalised, as ``RidgeClassifier`` does. ``class_weight`` is None,
    ``"balanced"`` or a dict from class to weight.

    Examples
    --------
    >>> import gramian as gm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> m = gm.KernelRidgeClassifier(alpha=0.1, gamma=0.001, random_state=0).fit(X[:1000], y[:1000])
    >>> bool(m.score(X[1000:], y[1000:]) > 0.95), m.decision_function(X[:3]).shape
    (True, (3, 10))
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        approximation: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        standardize: bool = False,
        metric: Any = None,
        memory_budget: int | str = "1GB",
        checkpoint: Any = None,
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.approximation = approximation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.standardize = standardize
        self.metric = metric
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,), by default those of a row source."""
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._fit_rows(X, y)
            targets = ClassTargets(y, source.shape[0])
            self.classes_ = targets.classes
            weights = targets.weights(self.class_weight, sample_weight)
            return self._train(self._under_metric(source, targets, weights), targets, weights)

    def decision_function(self, X: Any) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            shape = () if len(self.classes_) == 2 else (len(self.classes_),)
            return self._lazily(X, "decision_function", shape, np.float64)
        return decision_values(self._decision(X))

    def predict(self, X: Any) -> Array:
        """Return the class of each row."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            return self._lazily(X, "predict", (), self.classes_.dtype)
        source = self._rows(X, reset=False)
        labels = partial(class_labels, classes=self.classes_)
        blocks = self._finite_blocks(source)
        return in_blocks(blocks, source.shape[:1], labels, dtype=self.classes_.dtype)

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Predict sizes and bytes of a fit, without fitting (``y`` gives the classes)."""
        with self._all_or_nothing(keep=False):
            X, y, _ = self._opened(X, y, None)
            source = self._scaled(self._rows(X, reset=True), learn=True, sampled=True)
            outputs = 1 if y is None else ClassTargets(y, source.shape[0]).shape[1]
            return self._ridge_plan(source, outputs, deepcopy(self.random_state))
