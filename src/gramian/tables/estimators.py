"""Regression and classification of tables as they are."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator.base import all_or_nothing, own_target, required_target
from gramian.estimator.kinds import Classifier, Regressor
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.tables.base import TabularModel
from gramian.tables.calibration import calibration_of
from gramian.tables.compression import (
    FastTabularClassifier,
    FastTabularRegressor,
    compressed_classifier,
    compressed_regressor,
)
from gramian.tables.mapped_target import MappedTarget
from gramian.tables.serving import ClassAnswers, NumberAnswers
from gramian.tables.target import AUTO, HOWS, LOG, TargetTransform

#: Residuals that intervals are made of, at most.
RESIDUALS = 10_000


class TabularRegressor(Regressor, NumberAnswers, TabularModel):
    r"""Regression of a table as it is: kernel ridge under a learned metric, every choice made by search.

    f(x) = g⁻¹(Σ_j k(‖M T(x) − M z_j‖_p / L) κ_j + b). T encodes a row as numbers (missing values, categories,
    dates) and scales them, M is a metric learned from the gradients of fits, k one of
    exp(−‖·‖₁), exp(−‖·‖₂) and exp(−‖·‖₂²), g a map of a skewed target. T, g, k, M, L and the penalty are
    chosen by successive halving: exact models of few rows, judged by the same held-out rows, the better ones
    again on more rows. The metric goes on to be learned by small models of up to 20,000 rows. The last model
    is fitted to all rows, exactly where memory holds half of K and on multi-resolution operators beyond, its
    penalty chosen by a fifth of them (4,000 at most) that are held out and added when it is chosen. Where a
    Laplacian and a Euclidean kernel come near each other it is their mean, with the share that those rows
    like best.

    Parameters
    ----------
    kernel : str or tuple of str, default="auto"
        "laplacian" (for steps along single columns), "exponential", "gaussian" (for smooth targets), some of
        them, or "auto" for all, to be compared.
    metric : {"auto", "diagonal", "full"} or None, default="auto"
        Forms of M to compare with M = 1: a scale for each column, or a matrix that mixes them (with the
        Euclidean kernels, up to 500 encoded columns); None learns none.
    scaling : {"auto", "standard", "robust", "quantile"}, default="auto"
        How numbers are scaled; "auto" compares (see :class:`gramian.tables.Scaling`).
    target : {"auto", "none", "log", "yeo-johnson", "quantile"}, default="auto"
        Map of the target; "auto" compares none with the one that makes a skewed target less so. Errors are
        squared ones in the target's own units in any case.
    categorical : list of names or places, or mask, default=None
        Columns of numbers that are categories in fact. Text is one anyway.
    time_limit : float or None, default=None
        Seconds that a fit should take, on the wall clock. Search and rounds of the metric get half of them.
        The last model gets the rest: its ranks, and if these do not suffice the number of its rows, follow
        from how long this fit's own earlier work took. A warning says what the time did not suffice for, and
        how many rows were used. What is begun is finished, so that a fit may take up to a fifth longer, and
        two seconds. Results depend on the machine if the time ends something.
    memory_budget : int or str, default="1GB"
        Bound on working memory beyond the caller's table, while fitting.
    random_state, n_jobs, verbose
        As in scikit-learn; ``n_jobs=None`` uses all cores; ``verbose=1`` shows progress bars.

    Attributes
    ----------
    columns_ : TableColumns
        What each column is, how it is encoded, and (``notes``) what is not used, or read as dates.
    scaling_, target_ : Scaling, TargetTransform
        The chosen scales of encoded columns, and map of the target.
    metric_ : Metric
        M, over the encoded, scaled columns (``columns_.feature_names``); of a mean that of the larger share.
    metric_rounds_ : tuple of Round
        Held-out errors of the metric's last rounds, and why one was undone.
    model_ : KernelRidge or RidgeMean
        The last model, of encoded and scaled rows (:meth:`transform_rows`) and the mapped target; a mean has
        ``members_`` and ``weights_``.
    search_ : SearchResult
        The best setting, and in ``trials`` how far each one came, with rows, error and numbers.
    feature_importances_ : ndarray (columns of the table,)
        Shares E(∂f/∂x_j)² var x_j of the best fit of the search, summed over the encoded columns of each
        column; those of switched values for categories. They sum to 1.
    residuals_ : ndarray (held-out rows, outputs)
        Absolute residuals of the mapped target on the rows that were held out, ascending: the half-widths
        of intervals; 10,000 at most.
    plan_ : Plan
        Sizes, bytes and seconds of the last fit.
    n_features_in_, feature_names_in_ : columns of the table.

    Time: the search O(m³) for each of some hundred fits of m rows (a ninth of all, 4,000 at most), then that
    of :class:`gramian.KernelRidge`. Memory as the budget says, independent of n but for the target. A row of
    weight 0 counts as absent; one of weight 2 as two but where rows are drawn or held out.

    Raises ``InputError`` naming the column for what cannot be a column (numbers and text in one, infinite
    values), for fewer than two rows, or where no column can be used; ``BudgetError`` with the least bytes.
    Warns ``UserWarning`` for columns that are not used, ``AccuracyWarning`` where time or rows were too few
    to compare settings.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin 2024 (the metric); Jamieson and Talwalkar 2016
    (successive halving); the composition is ours.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> rng = np.random.default_rng(0)
    >>> table = np.empty((400, 3), object)
    >>> table[:, 0], table[:, 1] = rng.random(400), rng.choice(["Bath", "Hull"], 400)
    >>> table[:, 2] = rng.random(400)
    >>> y = np.where(table[:, 1] == "Hull", 1.0, 0.0) + np.sin(6 * table[:, 0].astype(float))
    >>> table[::20, 2] = None
    >>> model = gm.TabularRegressor(random_state=0).fit(table[:300], y[:300])
    >>> bool(model.score(table[300:], y[300:]) > 0.97)
    True
    >>> bool(model.feature_importances_[:2].sum() > 0.95)
    True
    >>> model.predict_interval(table[300:302], coverage=0.8).shape
    (2, 2)
    """

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of a table and targets y (n,) or (n, outputs), by default those of a row source.

        X : a frame of pandas or polars, an Arrow table, an array of numbers or objects, CSR, a row source or
        a list of rows; shape (n, columns). sample_weight : (n,), at least 0.
        """
        with all_or_nothing(self), self._without_waits():
            y = own_target(X, y)
            required_target(self, y)
            one_of("target", self.target, HOWS)
            until, rng = self._clock(), as_generator(self.random_state)
            X, n_given, weights, numbers = self._counted(X, sample_weight)
            targets = NumberTargets(y, n_given, squared=False)  # they are scaled first
            self._flat = targets.flat
            own = np.asarray(targets[slice(0, n_given)])
            n_counted = n_given if numbers is None else len(numbers)
            X, weights, numbers = self._in_time(X, weights, numbers, until, rng)
            own = own if numbers is None else own[numbers]
            rows, n = self._learn_columns(X, weights, rng), len(own)
            maps = self._maps(own, weights)
            mapped = {how: _forward(one, own) for how, one in maps.items()}
            sample = self._sample(n, weights, rng)
            candidates = {
                how: MappedTarget(mapped[how][sample], own[sample], one) for how, one in maps.items()
            }
            found = self._learn_model(rows, candidates, sample, weights, weights, rng, until)
            self.target_, z = maps[found.setting.target], mapped[found.setting.target]
            last = z[:, 0] if z.shape[1] == 1 else z
            loss = partial(_mapped_loss, MappedTarget(z, own, self.target_), weights)
            fit = self._fit_last(rows, last, weights, found, rng, until, n_counted, loss)
            residuals = np.sort(np.abs(z[fit.held] - fit.values.reshape(len(fit.held), z.shape[1])), axis=0)
            self.residuals_ = _thinned(residuals)
            return self

    def _maps(self, own: Float64Array, weights: Array | None) -> dict[str, TargetTransform]:
        """Return the maps of the target to compare."""
        if self.target == LOG and own.min() <= 0:
            raise InputError(
                f"target='log' needs positive targets, but the least of y is {own.min():g}. Choose "
                "'yeo-johnson' or 'auto'."
            )
        flat = own[:, 0] if own.shape[1] == 1 else own
        hows: tuple[str, ...] = (self.target,)
        if self.target == AUTO:
            hows = TargetTransform.candidates(flat, sample_weight=weights)
        return {how: TargetTransform.learn(flat, how, sample_weight=weights) for how in hows}

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float64Array:
        """Return the ends of an interval for the target of each row, (n, 2) or (n, outputs, 2).

        Split conformal: g⁻¹(g(f(x)) ± q), q the ⌈coverage·(m + 1)⌉-th smallest of the absolute residuals
        (``residuals_``) of m rows by the model of the others. For rows that are drawn as the training rows
        were, a target lies within with at least this probability; on the average over x, and not at each x:
        the half-width is the same everywhere, in units of the mapped target. Rounds of the
        metric, penalty and shares in a mean were chosen by the same rows, among few, and the model that
        answers has seen these rows too; neither changes coverage much. Each output has its
        own q. Of more than 10,000 held-out rows every k-th residual counts.

        Raises ``InputError`` where coverage is not between 0 and 1, or m rows are too few for it: 9 allow
        0.9. Source: Papadopoulos et al. 2002; Lei et al. 2018.
        """
        check_is_fitted(self, "model_")
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
            raise InputError(f"coverage={coverage!r} must be a number between 0 and 1, such as 0.9.")
        count = len(self.residuals_)
        rank = _rank(coverage, count)
        if rank > count:
            raise InputError(
                f"coverage={coverage} needs {int(np.ceil(round(coverage / (1.0 - coverage), 9)))} held-out "
                f"rows, but there were {count}. Ask for less, or fit to more rows: a fifth is held out."
            )
        z, half = self._values(X), self.residuals_[rank - 1]
        return np.stack([self._back(z - half), self._back(z + half)], axis=-1)

    def compress(self, X: Any, y: Any = None, *, cost: Any = "20x", **options: Any) -> FastTabularRegressor:
        """Return a fast model that stands for this one and takes the same tables, within a cost.

        :func:`gramian.compress` of ``model_``, behind the same columns, scales and map of the target.

        Parameters
        ----------
        X : rows of a table to learn on, those of the training or more; of so many that they would not fit
            into ``memory_budget`` as many as do, drawn at random.
        y : their targets, where you have them: the better of the model's values and the targets is learned.
        cost : "20x" (times a linear model), "100ns" or nanoseconds a row, as for
            :class:`gramian.FastKernelRegressor`. Encoding the table is not counted; text makes it slower.
        options : of that class. ``random_state`` and ``n_jobs`` are those of this model by default.
        """
        check_is_fitted(self, "model_")
        return compressed_regressor(self, X, y, cost, options)


class TabularClassifier(Classifier, ClassAnswers, TabularModel):
    r"""Classification of a table as it is: kernel ridge under a learned metric, every choice made by search.

    As :class:`gramian.TabularRegressor`, with targets ±1: one column for two classes, else one for each; the
    largest value wins. Settings are compared by the squared error of these, which is a proper score.

    Parameters
    ----------
    kernel, metric, scaling, categorical, time_limit, memory_budget, random_state, n_jobs, verbose
        As of the regressor.
    class_weight : None, "balanced" or dict from class to weight, default=None
        Weights of the classes, times those of the rows.

    Attributes
    ----------
    model_ : KernelRidgeClassifier or RidgeMean
        Exact where memory holds half of K: 19,000 rows in 1 GB.
    classes_ : ndarray
        Labels in ascending order.
    calibration_ : (slope, offset)
        The number that decision values are multiplied by before the sigmoid or softmax, from rows that were
        held out (2.0 without any), and 0: the likeliest class is that of the largest value.
    columns_, scaling_, metric_, metric_rounds_, search_, feature_importances_, plan_
        As of the regressor; ``n_features_in_`` and ``feature_names_in_`` too.

    Time, memory, errors, warnings and sources are those of the regressor, and a target of one class is an
    ``InputError``. Probabilities: Guo, Pleiss, Sun and Weinberger 2017.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 4))
    >>> y = np.where((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5), "yes", "no")
    >>> model = gm.TabularClassifier(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.9), model.predict_proba(X[300:302]).shape
    (True, (2, 2))
    """

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of a table and class labels y (n,), by default those of a row source.

        X and sample_weight as of :meth:`gramian.TabularRegressor.fit`; each class has a row that counts.
        """
        with all_or_nothing(self), self._without_waits():
            y = own_target(X, y)
            required_target(self, y)
            until, rng = self._clock(), as_generator(self.random_state)
            X, n_given, weights, numbers = self._counted(X, sample_weight)
            targets = ClassTargets(y, n_given)
            n_counted = n_given if numbers is None else len(numbers)

            def classes(numbers: IntArray | None = numbers) -> IntArray:
                codes = targets.codes(slice(0, n_given))
                return codes if numbers is None else codes[numbers]

            X, weights, numbers = self._in_time(X, weights, numbers, until, rng, classes)
            if numbers is not None:
                targets.weights(None, sample_weight)  # refuses a class of which no row counts
                labels = targets.classes[targets.codes(slice(0, n_given))[numbers]]
                targets = ClassTargets(labels, len(numbers))
            self.classes_, n = targets.classes, targets.shape[0]
            own_weights, weights = weights, targets.weights(self.class_weight, weights)
            rows = self._learn_columns(X, own_weights, rng)
            codes = targets.codes(slice(0, n))
            sample = self._sample(n, weights, rng)
            signs = 0.5 * targets.part(sample)[slice(0, len(sample))]
            candidates = {"classes": MappedTarget(signs, signs)}
            found = self._learn_model(rows, candidates, sample, weights, own_weights, rng, until)
            loss = partial(_squared_loss, targets, weights)
            labels = np.asarray(targets.values)
            fit = self._fit_last(rows, labels, weights, found, rng, until, n_counted, loss)
            held = None if weights is None else weights[fit.held]
            values = fit.values.reshape(len(fit.held), targets.shape[1])
            self.calibration_ = calibration_of(values, codes[fit.held], held)
            return self

    def compress(self, X: Any, y: Any = None, *, cost: Any = "20x", **options: Any) -> FastTabularClassifier:
        """Return a fast model that stands for this one and takes the same tables, within a cost.

        As :meth:`gramian.TabularRegressor.compress`, with :class:`gramian.FastKernelClassifier`. The rows
        must have all classes. Probabilities are fitted to those of this model on them.
        """
        check_is_fitted(self, "model_")
        return compressed_classifier(self, X, y, cost, options)


def _mapped_loss(target: MappedTarget, weights: Array | None, values: Float64Array, held: IntArray) -> float:
    """Return the error of values of the mapped target on the rows with these numbers."""
    part = MappedTarget(target.values[held], target.own[held], target.transform)
    every = slice(0, len(held))
    w = None if weights is None else np.asarray(weights[held], np.float64)
    return part.loss(every, w)(part.values - values)


def _squared_loss(
    targets: ClassTargets, weights: Array | None, values: Float64Array, held: IntArray
) -> float:
    """Return the mean squared error of decision values on the rows with these numbers."""
    wrong = targets.part(held)[slice(0, len(held))] - values
    return float(np.average((wrong**2).sum(axis=1), weights=None if weights is None else weights[held]))


def _forward(transform: TargetTransform, own: Float64Array) -> Float64Array:
    """Return mapped targets, shape (n, outputs)."""
    return transform.forward(own if transform.many else own[:, 0]).reshape(own.shape)


def _thinned(residuals: Float64Array) -> Float64Array:
    """Return every k-th of sorted residuals, the largest among them, so that at most 10,000 are kept."""
    step = -(-len(residuals) // RESIDUALS)
    return residuals[::-1][::step][::-1].copy() if step > 1 else residuals


def _rank(coverage: float, count: int) -> int:
    """Return which residual of ``count``, from 1, is the half-width; rounding of 0.9·10 is none of it."""
    return int(np.ceil(round(coverage * (count + 1), 9)))
