"""Kernel ridge regression and classification on a memory budget."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array, RowsLike
from gramian.data.distributed import distributed, is_elsewhere
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, decision_values, predicted_numbers
from gramian.estimator.base import required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import INPUT
from gramian.estimator.labelled import labelled_classes, labelled_numbers
from gramian.estimator.mixins import Classifier, Regressor
from gramian.ridge.choosing import fit_ridge
from gramian.ridge.model import CHOSEN, TRAINED, KernelModel
from gramian.ridge.partial_fit import RidgeEstimator, if_streamable, named_classes
from gramian.ridge.planning import ridge_setup

#: Learned attributes of a ridge model.
LEARNED = (*TRAINED, *INPUT, *CHOSEN, "stages_", "n_rows_seen_", "n_blocks_")


@dataclass(eq=False, repr=False)
class KernelRidge(Regressor, RidgeEstimator):
    r"""Kernel ridge regression: minimise Σ w_i (y_i − f(x_i))² + alpha ‖f‖², on a compressed kernel.

    f(x) sums k(x, Z)ᵀ κ over the nodes on x's path. Training is one pass that sums over tiles of rows: the
    bases are never stored, and memory does not grow with n.

    Parameters
    ----------
    alpha : float, array (outputs,) or "auto", default=1.0
        Ridge penalty, as in scikit-learn's ``KernelRidge``, for the weights as they are: twice the weights
        is half the penalty. An array has a penalty for each output, such as ``alpha_`` of
        :class:`KernelRidgeCV`; a solve is made for each distinct one. "auto" takes the alpha of the least
        leave-one-out error on the features of all rows, with weights divided by their mean: there only their
        ratios matter. Copies of a row count as one row, whose weight is their number.
    kernel, gamma, degree, coef0, kernel_params
        The kernel, as for :class:`gramian.MEKA`; ``gamma=None`` is 1/n_features, "scale" is
        1/(n_features · X.var()) of the rows as the kernel takes them, weighted by ``sample_weight``;
        of ``partial_fit`` of its first rows. ``gamma="auto"`` chooses the lengthscale of the named kernel on
        a sample of the rows; ``kernel="auto"`` chooses between Gaussian, Matérn 3/2, exponential and
        Laplacian too, each also with a lengthscale for each feature. With fewer than 40 rows nothing is
        chosen ("rbf", 1/n_features, alpha sum(weights)/40). With "precomputed" ``fit`` takes the symmetric
        matrix K(X, X) and ``predict`` takes K(X_new, X); cross-validation then selects rows and columns of K.
    approximation : str or unfitted approximation, default="auto"
        ``"auto"`` chooses from the data and the budget. ``"multiresolution"``, ``"meka"`` and other names of
        methods use their default sizes; pass an instance such as ``gm.MEKA(rank=256, n_blocks=40)`` to
        choose them (its kernel parameters are not used). ``"exact"`` solves with K itself, tile by tile;
        :class:`gramian.Exact` has options for that. ``FrozenEstimator(a)`` of scikit-learn, with a fitted
        approximation ``a``, reuses its landmarks, tiles and kernel: leave the kernel parameters here at
        their defaults.
    fit_intercept : bool, default=False
        Whether to add an intercept that is not penalised, as in scikit-learn's ``Ridge``. Without one, a
        warning names targets that lie 10 deviations from 0 or more: the penalty draws predictions towards 0.
    standardize : bool, default=False
        Whether to scale columns to mean 0 and standard deviation 1 as they are read, also in predictions;
        costs one pass over the rows. Without it, a warning names columns whose scales differ by 1,000 or
        more under one bandwidth. Mean and deviation are weighted by ``sample_weight`` (and
        ``class_weight``). Sparse rows are scaled but not centred: for kernels of the difference x − z ("rbf",
        "laplacian" and most others) this gives the same model as dense rows, for "linear", "poly" and
        "cosine" it does not. ``partial_fit`` scales by its first rows.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        The distance that the kernel uses. "diagonal" learns a scale for each feature, "full" a matrix that
        mixes features. Both are learned in rounds of fits and gradients on at most 10,000 rows, and compared
        on held-out rows (see :class:`gramian.LearnedMetric`). A :class:`gramian.Metric` is used as given.
        Columns should have similar scales (``standardize=True``). ``partial_fit`` learns from its first rows.
    memory_budget : int or str, default="1GB"
        Bound on working memory beyond the caller's arrays, while fitting.
    checkpoint : path or None, default=None
        Folder for the sums of an unfinished fit. They are saved so often that writing takes a twentieth of
        the pass. If a fit is interrupted, or its process killed, the next fit to the same rows with the same
        parameters continues from there and gives bit for bit the same model.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of the kernel tiles. "auto" uses float64 in three cases and float32 otherwise: up to 3,000
        rows; for smooth kernels, whose spectrum falls below the float32 cutoff before it falls below alpha;
        and for an alpha that float32 sums could not resolve (under 128·u·√n·mean k(x, x)).
    random_state, n_jobs, verbose
        As in scikit-learn; ``n_jobs=None`` uses all cores; ``verbose=1`` shows a progress bar.
    engine : DaskEngine or None, default=None
        Cluster that computes sums and predictions for any rows, from :mod:`gramian.engine_dask`. Dask
        collections do not need it: work is sent to where they are, and ``predict`` returns a lazy Dask array.

    Attributes
    ----------
    plan_ : Plan
        Sizes chosen, predicted and used bytes, and the seconds used, per phase.
    solution_ : Solution
        Status and true relative residual of the linear system.
    stages_ : list of Stage
        For an exact solve: the solvers that were used, with iterations and seconds.
    n_rows_seen_, n_rows_waiting_, n_blocks_ : int
        For a model trained by ``partial_fit``: the rows so far, those that still wait until there are enough
        to choose scaler, metric and landmarks, and the leaf blocks.
    scaler_ : Scaler
        With ``standardize``: mean and deviation of each column.
    choice_, alpha_ : KernelChoice, float
        What was chosen where parameters are "auto": the kernels that were tried, with their errors.
    metric_, feature_importances_ : Metric, ndarray (d,)
        With ``metric``: the metric, and each feature's share in it.
    metric_rounds_ : tuple of Round
        For a learned metric: held-out error, power and seconds of each round, and why a round was undone.
        Empty with fewer than 60 rows, from which no metric is learned.
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

    _learns = LEARNED

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs), by default those of a row source."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            given = X, required_target(self, X, y), sample_weight
            rows = labelled_numbers(*self._checked(*given))
            model = fit_ridge(rows, ridge_setup(self, phases))
            self._flat = rows.targets.flat
            return self._keep_fit(model, *given)

    @if_streamable
    def partial_fit(
        self, X: RowsLike | None, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows X (n, d) with targets y (n,) or (n, outputs) to those of earlier calls.

        The first rows are kept until there are 2,000 of them, or they fill a sixteenth of the memory budget;
        ``n_rows_waiting_`` says how many are kept. Then scaler, metric, sizes and landmarks are chosen from
        them, with a precision that suits a million rows. If you predict earlier, the model of the rows so far
        answers, and everything is chosen again when more rows come. With given landmarks
        (``approximation=FrozenEstimator(a)``) no rows are kept.

        Later calls add the sums of their rows. For the same landmarks the model, intercept included, equals
        one fit to all rows. A call that fails or is interrupted adds nothing. alpha is that of the latest
        call. The coefficients are computed when first needed. ``checkpoint`` works for ``fit`` only; for a
        stream, pickle the model between two calls.

        After ``fit`` the stream begins with the rows of that fit, as if they had been passed to
        ``partial_fit``: landmarks are chosen anew, and one more pass is made over them. For this, ``fit``
        keeps a reference to X, y and ``sample_weight`` (no copy; leave these arrays as they are). Pickles,
        copies and model files leave the reference out: ``partial_fit`` of such a model starts anew, with a
        warning.

        Parameters
        ----------
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self, with the attributes of a fit and ``n_rows_seen_``, ``n_rows_waiting_`` and ``n_blocks_``

        Time O(n (m d + m r + R_path²)), and a solve when coefficients are first needed; memory as ``plan_``
        says, independent of n. Raises ``InputError`` for unusable rows, other outputs, or a parameter that is
        read only when a stream begins (such as ``standardize``) and was changed later. There is no
        ``partial_fit`` with ``approximation="exact"`` and ``kernel="precomputed"``, which need all rows at
        once.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            rows = labelled_numbers(
                *self._next_rows(X, required_target(self, X, y), sample_weight), whole=False
            )
            if not self._has_rows:
                self._flat = rows.targets.flat
            return self._add_rows(rows, phases)

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs). Time O(n (route + m d))."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            shape = () if self._flat else (self.predictor_.n_outputs,)
            return self._lazily(X, "predict", shape, np.float64)
        return predicted_numbers(self._decision(X), flat=self._flat)


@dataclass(eq=False, repr=False)
class KernelRidgeClassifier(Classifier, RidgeEstimator):
    """Kernel ridge regression on targets ±1, one column per class; the largest value wins.

    Parameters and attributes as for :class:`KernelRidge`, with one ``alpha``, and ``classes_``.
    ``fit_intercept=True`` adds an intercept that is not penalised, as ``RidgeClassifier`` does.
    ``class_weight`` is None, ``"balanced"`` or a dict from class to weight.

    Examples
    --------
    >>> import gramian as gm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> m = gm.KernelRidgeClassifier(alpha=0.1, gamma=0.001, random_state=0).fit(X[:1000], y[:1000])
    >>> bool(m.score(X[1000:], y[1000:]) > 0.95), m.decision_function(X[:3]).shape
    (True, (3, 10))
    """

    _learns = LEARNED

    _: KW_ONLY
    fit_intercept: bool = True
    class_weight: Any = None

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,), by default those of a row source."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            given = X, required_target(self, X, y), sample_weight
            rows = labelled_classes(*self._checked(*given), self.class_weight)
            model = fit_ridge(rows, ridge_setup(self, phases))
            self.classes_ = rows.targets.classes
            return self._keep_fit(model, *given)

    @if_streamable
    def partial_fit(
        self,
        X: RowsLike | None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Add rows X (n, d) with labels y (n,) to those of earlier calls, as :class:`KernelRidge` does.

        Parameters
        ----------
        classes : all labels that will come
            Required in the first call, as in scikit-learn; later, and after ``fit``, it may be left out.
        sample_weight : as of :meth:`KernelRidge.partial_fit`

        Raises ``InputError`` also for a label that was not named. There is no ``partial_fit`` with
        ``class_weight="balanced"``, which needs all labels at once.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            checked = self._next_rows(X, required_target(self, X, y), sample_weight)
            known = getattr(self, "classes_", None)
            self.classes_ = named_classes(classes, known, fixed=self._has_rows)
            rows = labelled_classes(*checked, self.class_weight, self.classes_)
            return self._add_rows(rows, phases)

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            shape = () if len(self.classes_) == 2 else (len(self.classes_),)
            return self._lazily(X, "decision_function", shape, np.float64)
        return decision_values(self._decision(X))

    def predict(self, X: RowsLike) -> Array:
        """Return the class of each row."""
        check_is_fitted(self, "predictor_")
        if is_elsewhere(X):
            return self._lazily(X, "predict", (), self.classes_.dtype)
        labels = partial(class_labels, classes=self.classes_)
        source = distributed(self._rows(X, reset=False), self.engine)
        return KernelModel.of(self).classes(source, Engine(self.n_jobs), labels, self.classes_.dtype)
