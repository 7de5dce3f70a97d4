"""Regression of mixed tables that need no preparation."""

from __future__ import annotations

import numbers as number_types
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._checks import one_of, several
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.mapped import map_rows
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, predicted_numbers
from gramian.estimator.base import all_or_nothing
from gramian.estimator.conformal import held_out_quantile, share, sort_errors
from gramian.estimator.mixins import Regressor
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.tables.base import TabularModel
from gramian.tables.compression import FastTabularRegressor, compressed_regressor
from gramian.tables.effort import DEFAULT
from gramian.tables.intervals import CHOSEN, learned_spread
from gramian.tables.scoring import HeldOutScore, MappedTarget
from gramian.tables.serving import NumberAnswers, encoded_rows
from gramian.tables.target import AUTO, HOWS, LOG, TargetTransform
from gramian.tables.training.time import TimeEstimate

#: Decimal digits of the transformed target, of deviation 1. Chosen by hand.
DIGITS = 9


@dataclass(eq=False, repr=False)
class TabularRegressor(Regressor, NumberAnswers, TabularModel):
    r"""Regression on a mixed table: kernel ridge under a learned metric, beside boosting.

    By default the model is the mean of kernel models and scikit-learn's gradient boosting where held-out rows
    gain by it: trees and kernels err on different rows. ``include=()`` leaves boosting out.

    f(x) = E_r g⁻¹(Σ_j k(‖M T(x) − M z_j‖_p / L) κ_j + b + r). T encodes a row as numbers (missing values,
    categories and dates too) and scales them; z_j are encoded training rows or landmarks, κ_j and b
    coefficients. M is a metric learned from the gradients of fits; k is exp(−‖·‖₁), exp(−‖·‖₂) or
    exp(−‖·‖₂²) with bandwidth L; g transforms a skewed target, r are held-out residuals. Successive halving
    chooses T, g, k, M, L and the penalty: exact models of few rows are compared on the same held-out rows,
    the better ones again on more rows. Small models of up to 20,000 rows then refine the metric. The last
    model is fitted to all rows, exactly if memory holds half of the Gram matrix K, else on multi-resolution
    operators. A fifth of the rows (4,000 at most) is held out to choose its penalty and added afterwards. If
    a Laplacian and a Euclidean kernel come near each other, the model is their mean, with weights from the
    held-out rows. Boosting is left out if its share in the mean comes out below a tenth, and answers alone
    where kernel models lower its loss by less than 0.2 %.

    Parameters
    ----------
    kernel : str or tuple of str, default="auto"
        "laplacian" (for steps along single columns), "exponential", "gaussian" or "rbf" (for smooth targets),
        a tuple of those to compare, or "auto" to compare all.
    metric : {"auto", "diagonal", "full"} or None, default="auto"
        Forms of M to compare with M = 1: a scale for each column, or a matrix that mixes columns (only with
        Euclidean kernels, up to 500 encoded columns). "auto" compares both; None learns no metric.
    scaling : {"auto", "standard", "robust", "quantile"}, default="auto"
        How numbers are scaled; "auto" compares (see :class:`gramian.tables.Scaling`).
    target : {"auto", "none", "log", "yeo-johnson", "quantile"}, default="auto"
        Transformation of the target; "auto" compares none with one that reduces the skewness. The search
        always measures squared errors in the target's own units. Predictions are means: what is predicted of
        the transformed target is mapped back by the residuals of held-out rows (smearing). Medians are
        ``predict_quantiles(X, 0.5)``.
    scoring : str, callable or None, default=None
        What decides all choices, on held-out rows: a scorer of scikit-learn, such as
        "neg_mean_absolute_error", or scorer(estimator, X, y); None means squared errors. If it scores the
        centre of the transformed target, given as a constant, better than the mean target, as absolute and
        logarithmic errors do, predictions are g⁻¹ as it is, near the median.
    effort : {"instant", "fast", "default", "best"}, default="default"
        How long to look for the best model. "instant" compares neither kernels and scalings nor metrics, and
        fits one small model beside boosting; "fast" searches on fewer rows, refines the metric once, takes
        one scaling, kernel and hold-out, and approximates beyond 2,500 rows; "best" refines longer.
    include : "auto" or tuple of str, default="auto"
        What may join the kernel models. ("boosting",) is scikit-learn's gradient boosting, with 200 rows or
        more: a mean with the kernel models, weighted by values of rows that neither has seen (five folds, or
        beyond 7,500 rows the held-out ones). It is left out if its share of a mean is below a tenth, or if it
        lowers the log-loss of n rows by less than 1/n; kernel models of all rows are fitted only where small
        ones lower its loss by 0.2 % (``contributions_.looks``). "auto" is the same; () fits no boosting.
    categorical : list of names or places, or mask, default=None
        Numeric columns to treat as categories. Text is categorical anyway.
    missing : list or None, default=None
        Text that is a missing value in any column, in training and in rows to predict, whether they come as a
        file, a frame, records or one row. None means NA, N/A, null, NaN and the like, as in CSV files, with a
        warning that counts them; () keeps all text but blank text as values.
    time_limit : float or None, default=None
        Seconds that a fit should take, on the wall clock. Search and metric rounds get half of them, the
        last model the rest. Its ranks, and if necessary its number of rows, depend on how long the earlier
        steps of this fit took. A warning says what there was no time for and how many rows were used.
        Started steps are finished, so that a fit may take up to a fifth longer, and two seconds. If the time
        ends something, results depend on the machine.
    memory_budget : int or str, default="1GB"
        Bound on working memory while fitting, beyond the caller's table.
    random_state, n_jobs, verbose
        As in scikit-learn; ``n_jobs=None`` uses all cores; ``verbose=1`` shows progress bars.

    Attributes
    ----------
    columns_ : TableColumns
        Kind and encoding of each column; ``notes`` lists columns not used or read as dates.
    scaling_, target_ : Scaling, TargetTransform
        The chosen scales of the encoded columns, and the transformation of the target.
    metric_ : Metric
        M, on the encoded, scaled columns (``columns_.feature_names``); for a mean, that of the larger weight.
    metric_rounds_ : tuple of Round
        Held-out errors of the last rounds that refined the metric, and why one was undone.
    model_ : KernelRidge or RidgeMean
        The last model, of encoded and scaled rows (:meth:`transform_rows`) and the transformed target; a mean
        has ``members_`` and ``weights_``.
    search_ : SearchResult
        The best setting; ``trials`` holds the rows, error and hyperparameters that each setting reached.
    fit_seconds_ : float
        Seconds of the whole fit.
    feature_importances_, feature_importances_std_ : ndarray (columns of the table,)
        By how much the held-out loss rises if a column's values are permuted, in shares of sum 1 (0 where it
        falls), and their standard errors. The models that are asked have not seen the rows. At most 2,000
        rows; beyond 100 columns the less sensitive ones are permuted together.
    importances_reason_ : str
        Empty. If nothing was permuted, why: then the importances are ``metric_importances_``, their errors
        None.
    metric_importances_ : ndarray (columns of the table,)
        Shares E(∂f/∂x_j)² var x_j of the search's best fit, summed over the encoded columns of each column;
        for categories, switching the value replaces the derivative. They sum to 1.
    contributions_ : Contributions or None
        Losses on held-out rows of the ``kernel`` models alone, of ``boosting`` alone and of ``both``, and
        whether boosting was ``kept``; None if it was not tried.
    spread_ : Spread or None
        How far predictions are off, row by row, if held-out rows show that it differs: the mean size of an
        error of the transformed target, learned from held-out residuals.
    residuals_ : ndarray (held-out rows, outputs)
        Residuals of the transformed target on the held-out rows, in units of the spread, ascending.
    held_weights_ : ndarray (held-out rows, outputs) or None
        The weights of these rows, in the order of ``residuals_``; None if the fit had none.
    oof_rows_, oof_predictions_ : ndarray (rows,), ndarray (rows,) or (rows, outputs)
        Numbers of rows that were held out, and their predictions by models that had not seen them: all rows
        where every row was in a fold (about 2,500 rows of one output), else the held-out ones.
    plan_ : Plan
        Sizes, bytes and seconds of the last fit.
    n_features_in_, feature_names_in_ : columns of the table.

    Time: for the search O(m³) for each of some hundred fits of m rows (a ninth of all, 4,000 at most), then
    that of :class:`gramian.KernelRidge`. Memory: the budget, independent of n except for the target. A row of
    weight 0 counts as absent; a row of weight 2 counts as two, except when rows are drawn or held out.

    Raises ``InputError`` naming the column if one mixes numbers and text or holds infinite values, for fewer
    than two rows, or if no column can be used; ``BudgetError`` with the smallest sufficient number of bytes.
    Warns ``UserWarning`` about columns that are not used, ``AccuracyWarning`` if there was too little time or
    too few rows to compare settings.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin 2024 (the metric); Jamieson and Talwalkar 2016
    (successive halving); Duan 1983 (means of transformed targets); the composition is ours.

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

    _learns = ("residuals_", "spread_", "oof_rows_", "oof_predictions_")

    _: KW_ONLY
    kernel: Any = "auto"
    metric: Any = "auto"
    scaling: str = "auto"
    target: str = "auto"
    scoring: Any = None
    effort: str = DEFAULT
    include: Literal["auto"] | Sequence[str] = "auto"
    categorical: Any = None
    missing: Sequence[str] | None = None
    time_limit: float | None = None
    memory_budget: int | str = "1GB"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Self:
        """Fit to the rows of a table and targets y (n,) or (n, outputs); a row source may bring its own y.

        X : a pandas or polars frame, an Arrow table, an array of numbers or objects, CSR, a row source or
        a list of rows; shape (n, columns).
        sample_weight : (n,), at least 0; only their ratios matter.
        groups : what rows have in common that new rows do not share with them, such as the patient: an array
        (n,) or the name of a column, which is then not used to predict. Whole groups are held out.
        time : when the rows were taken, if new rows come later: numbers or dates (n,), also as text, or the
        name of a column. The latest rows are held out.

        Copies of a row are fitted as one with the sum of their weights; a warning says where they are many.
        """
        with all_or_nothing(self), self._timed():
            one_of("target", self.target, HOWS)
            targets_of = partial(NumberTargets, squared=False, classifier="TabularClassifier")
            fit = self._given(X, y, sample_weight, groups, time, targets_of)
            own, weights, n = fit.own, fit.weights, len(fit.own)
            self._flat = fit.targets.flat
            maps, score = self._target_transforms(own, weights), HeldOutScore.of(self.scoring, weights)
            # Rounded, so that the last bits, which change with the unit of the target, decide nothing.
            forward = {how: np.round(one.forward(own), DIGITS) for how, one in maps.items()}
            sample, n_held = self._sample(n, weights, fit.rng, fit.holdout)
            candidates = {
                how: MappedTarget.of(forward[how][sample], own[sample], one, score)
                for how, one in maps.items()
            }
            usual = NumberTargets(next(iter(forward.values())), n, squared=False)
            fit = replace(fit, targets=usual, sample=sample, n_held_out=n_held)
            result, fit = self._search(fit, candidates)
            z, self.target_ = forward[result.setting.target], maps[result.setting.target]
            judged = replace(candidates[result.setting.target], values=z, own=own)
            fit = replace(fit, targets=NumberTargets(z, n))
            last = self._fit_last(fit, result, partial(_mapped_loss, judged, weights))
            self.model_, self.contributions_ = last.model, last.contributions
            held, share = last.held, last.share
            values = last.values.reshape(len(held), z.shape[1])
            held_weights = None if weights is None else weights[held]
            residuals = z[held] - values
            if judged.smears and len(values):
                self.target_ = self.target_.smeared(values, residuals, sample_weight=held_weights)

            def answer(values: Float64Array, boosted: Float64Array | None) -> Float64Array:
                return values if boosted is None else (1.0 - share) * values + share * boosted

            loss = partial(_mapped_loss, replace(judged, transform=self.target_, smears=False), weights)
            self._set_importances(last.judged(answer, loss, bool(share)), fit)
            self.spread_, residuals = learned_spread(
                np.asarray(map_rows(fit.rows, self.scaling_).take(held)),
                values,
                residuals,
                held_weights,
                self.metric_,
                Engine(self.n_jobs),
                parse_bytes(self.memory_budget),
                fit.rng,
                fit.holdout.taken(held),
                TimeEstimate(fit.deadline).left,
            )
            self.residuals_, self.held_weights_ = sort_errors(residuals, held_weights)
            self.oof_predictions_ = self._back(values)
            return self

    def _target_transforms(self, own: Float64Array, weights: Array | None) -> dict[str, TargetTransform]:
        """Return the target transformations to compare."""
        if self.target == LOG and own.min() <= 0:
            raise InputError(
                f"target='log' needs positive targets, but the smallest value of y is {own.min():g}. Choose "
                "'yeo-johnson' or 'auto'."
            )
        flat = own[:, 0] if own.shape[1] == 1 else own
        hows: tuple[str, ...] = (self.target,)
        if self.target == AUTO:
            hows = TargetTransform.candidates(flat, sample_weight=weights)
        return {how: TargetTransform.learn(flat, how, sample_weight=weights) for how in hows}

    def predict_interval(self, X: RowsLike, coverage: float = 0.9) -> Float64Array:
        """Return the ends of an interval for the target of each row, (n, 2) or (n, outputs, 2).

        Split conformal: g⁻¹(v(x) ± q s(x)), where v predicts the transformed target and q is the
        (⌈coverage·(m + 1)⌉ + 1)-th smallest of the m absolute ``residuals_`` on held-out rows, of the model
        of the other rows, in units of the spread s (1 if ``spread_`` is None). On average over new rows like
        the training rows, an interval covers at least as often as you asked; where s follows the errors, also
        for parts of the rows. One caveat: the held-out rows also choose the metric, the bandwidth and the
        penalty, which makes their errors a little small; the rank above split conformal's makes up for it.
        Each output has its own q. A row of the fit counts by its weight, as if new rows came in these
        proportions.

        Raises ``InputError`` if coverage is not between 0 and 1, or m rows are too few for it: 9 suffice
        for 0.9. Source: Papadopoulos et al. 2002; Lei et al. 2018.
        """
        check_is_fitted(self, "model_")
        wanted, errors = share("coverage", coverage), np.abs(self.residuals_)
        q = held_out_quantile(errors, self.held_weights_, wanted, f"coverage={coverage}", CHOSEN)
        z, unit = self._values_and_spread(X)
        half = unit * q
        return np.stack([self._quantile(z - half), self._quantile(z + half)], axis=-1)

    def _quantile(self, z: Float64Array) -> Float64Array:
        """Return quantiles of targets (n,) or (n, outputs) from those of transformed ones (n, outputs)."""
        return predicted_numbers(self.target_.backward(z), flat=self._flat)

    def predict_quantiles(
        self, X: RowsLike, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)
    ) -> Float64Array:
        """Return quantiles of the target of each row, (n, quantiles) or (n, outputs, quantiles).

        A single number gives (n,) or (n, outputs).

        g⁻¹(v(x) + e s(x)), where v predicts the transformed target and e is a quantile of the m
        ``residuals_``: of rank ⌈q·(m + 1)⌉ for q ≥ 0.5 and ⌊q·(m + 1)⌋ below, so that at least a share q of
        new targets lies below an upper quantile, and at most q below a lower one. They never cross, and lie
        on either side as the residuals do. A row of the fit counts by its weight. The quantile 0.5 is the
        median, ``predict`` the mean: of a skewed target they differ.

        Raises ``InputError`` if a quantile is not between 0 and 1, or m rows are too few for it. Source: that
        of :meth:`predict_interval`.
        """
        check_is_fitted(self, "model_")
        errors, weights = self.residuals_, self.held_weights_
        single = isinstance(quantiles, number_types.Real)
        offsets = []
        for q in several("quantiles", [quantiles] if single else quantiles):
            wanted, sign = share("quantiles", q), 1.0 if q >= 0.5 else -1.0
            wanted = max(wanted, 1.0 - wanted)
            offsets.append(sign * held_out_quantile(sign * errors, weights, wanted, f"quantiles: {q}"))
        if not offsets:
            raise InputError("quantiles is empty: pass at least one number between 0 and 1, such as 0.5.")
        z, unit = self._values_and_spread(X)
        offsets = [self._quantile(z + unit * each) for each in offsets]
        return offsets[0] if single else np.stack(offsets, axis=-1)

    def _values_and_spread(self, X: RowsLike) -> tuple[Float64Array, Float64Array]:
        """Return predictions of the transformed target and the spread of their errors, (n, outputs) each."""
        z = self._values(X)
        if self.spread_ is None:
            return z, np.ones_like(z)
        source, unit, engine = encoded_rows(self, X), np.empty_like(z), Engine(self.n_jobs)
        for where in row_slices(len(z), PREDICT_ROWS):
            unit[where] = self.spread_.predict(np.asarray(source.rows(where)), z[where], engine)
        return z, unit

    def compress(
        self, X: RowsLike, y: ArrayLike | None = None, *, cost: object = "20x", **options: Any
    ) -> FastTabularRegressor:
        """Return a fast model within a cost that takes the same tables and approximates this one.

        :func:`gramian.compress` of ``model_``, behind the same columns, scales and target transformation.

        Parameters
        ----------
        X : rows of a table to learn from, those of the training or more; if they do not all fit into
            ``memory_budget``, as many as do are drawn at random.
        y : their targets, if you have them: the fast model then learns the better of these and the
            values of this model.
        cost : "20x" (times a linear model), "100ns" or nanoseconds per row, as for
            :class:`gramian.FastKernelRegressor`. Encoding the table is not counted; text makes it slower.
        options : of that class. ``random_state`` and ``n_jobs`` are those of this model by default.
        """
        check_is_fitted(self, "model_")
        return compressed_regressor(self, X, y, cost, options)


def _mapped_loss(target: MappedTarget, weights: Array | None, values: Float64Array, held: IntArray) -> float:
    """Return the error of predictions of the transformed target on the rows with these numbers."""
    part = replace(target, values=target.values[held], own=target.own[held])
    every = slice(0, len(held))
    w = None if weights is None else np.asarray(weights[held], np.float64)
    return part.loss(every, w)(part.values - values)
