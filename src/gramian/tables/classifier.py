"""Classification of mixed tables that need no preparation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.estimator.base import all_or_nothing
from gramian.estimator.conformal import held_out_quantile, share, sort_errors
from gramian.estimator.labels import relative_weights
from gramian.estimator.mixins import Classifier
from gramian.estimator.targets import ClassTargets
from gramian.tables.base import TabularModel
from gramian.tables.compression import FastTabularClassifier, compressed_classifier
from gramian.tables.effort import DEFAULT
from gramian.tables.intervals import CHOSEN
from gramian.tables.scoring import HeldOutScore, MappedTarget
from gramian.tables.serving import ClassAnswers


@dataclass(eq=False, repr=False)
class TabularClassifier(Classifier, ClassAnswers, TabularModel):
    r"""Classification of a mixed table: kernel ridge under a learned metric, beside boosting.

    By default log odds of scikit-learn's gradient boosting are added to those of the kernel models where
    held-out rows gain by it; ``include=()`` leaves boosting out.

    Works as :class:`gramian.TabularRegressor`, with targets ±1: one column for two classes, else one for each
    class. Settings are compared by the squared error of these, a proper score. Where the last models are
    exact and ``time_limit`` leaves enough time, kernel logistic regression on the same rows and kernels is
    fitted beside them, with a penalty of its own, unless that takes more than 3·10¹¹ multiplications (16,000
    rows of five classes). Log odds are a·v + b·L(v) + c·g of the ridge models' values v, their log odds L(v)
    as means of ±1 and the logistic models' log odds g; a, b, c ≥ 0 have the least log-loss on rows that the
    models have not seen: the held-out rows, or up to 2,500 rows every row, by models without a fifth of the
    table. Log odds of boosting are a further term. The logistic models are left out if they lower
    that by less than 0.2 %, boosting if by less than the standard error of the difference.

    Parameters
    ----------
    kernel, metric, scaling, effort, categorical, missing, time_limit
        As in the regressor.
    memory_budget, random_state, n_jobs, verbose
        As in the regressor.
    include : "auto" or tuple of str, default="auto"
        As in the regressor: whether gradient boosting joins, here as a further term of the log odds.
    scoring : str, callable or None, default=None
        What decides kernel, metric and ridge penalty, on held-out rows: "neg_log_loss", "roc_auc",
        "accuracy", "balanced_accuracy", any other scorer of scikit-learn, or scorer(estimator, X, y); None
        means squared errors of ±1. Logistic models and probabilities are fitted by their likelihood anyway.
    class_weight : None, "balanced" or dict from class to weight, default=None
        Weights of the classes, multiplied by those of the rows.

    Attributes
    ----------
    model_ : RidgeMean
        Mean of one or two kernel models that gives calibrated log odds of encoded and scaled rows. Its
        ``members_`` are exact if memory holds half of the Gram matrix: 19,000 rows in 1 GB.
    classes_ : ndarray
        Labels in ascending order.
    contributions_ : Contributions or None
        As in the regressor, of log-losses.
    calibration_ : Calibration
        Map from the ridge models' values to log odds, ``slope`` times the value and ``bend`` times the log
        odds that it would have as a mean of ±1, plus ``logistic`` times the logistic models' log odds and
        ``boosting`` times those of boosting (0 if there are none), learned on rows that the models had not
        seen.
    scores_ : ndarray (held-out rows,)
        1 − P of the true class of rows that the models had not seen, ascending: what sets of classes are
        made from.
    held_weights_ : ndarray (held-out rows,) or None
        The weights of these rows, in the order of ``scores_``; None if the fit had none.
    oof_rows_, oof_predictions_ : ndarray (rows,), ndarray (rows, classes)
        Numbers of rows that were held out, and their probabilities by models that had not seen them: all
        rows where every row was in a fold (about 4,000 rows of two classes), else the held-out ones.
    columns_, scaling_, metric_, metric_rounds_, search_, plan_, metric_importances_, importances_reason_
        As in the regressor; ``n_features_in_`` and ``feature_names_in_`` too.
    feature_importances_, feature_importances_std_ : ndarray (columns of the table,)
        As in the regressor, of log-losses.

    Time, memory, errors, warnings and sources are those of the regressor; a target with a single class is
    also an ``InputError``. Logistic models: Zhu and Hastie 2005.

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

    _learns = ("scores_", "oof_rows_", "oof_predictions_")

    _: KW_ONLY
    kernel: Any = "auto"
    metric: Any = "auto"
    scaling: str = "auto"
    scoring: Any = None
    effort: str = DEFAULT
    include: Literal["auto"] | Sequence[str] = "auto"
    categorical: Any = None
    missing: Sequence[str] | None = None
    class_weight: Any = None
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
        """Fit to the rows of a table and class labels y (n,); a row source may bring its own y.

        X, sample_weight, groups and time as in :meth:`gramian.TabularRegressor.fit`. A class whose rows all
        have weight 0 stays in ``classes_``, and is never the likeliest.
        """
        with all_or_nothing(self), self._timed():
            targets_of = partial(ClassTargets, regressor="TabularRegressor")
            fit = self._given(X, y, sample_weight, groups, time, targets_of)
            targets, n = fit.targets, len(fit.own)
            if fit.numbers is not None:
                targets = ClassTargets(targets.classes[fit.own], n, targets.classes)
            self.classes_ = targets.classes
            weights = relative_weights(targets.weights(self.class_weight, fit.own_weights))
            sample, n_held = self._sample(n, weights, fit.rng, fit.holdout)
            fit = replace(fit, targets=targets, weights=weights, sample=sample, n_held_out=n_held)
            signs = 0.5 * fit.responses(sample)
            score = HeldOutScore.of(self.scoring, fit.own_weights, targets.classes)
            result, fit = self._search(fit, {"classes": MappedTarget(signs, signs, score=score)})
            own, responses = fit.own, fit.responses

            def loss(values: Float64Array, held: IntArray) -> float:
                """Return the error of decision values: by the score, or mean squared."""
                wanted, w = responses(held), None if weights is None else weights[held]
                if score is not None:
                    return score.error(wanted, values, w) if np.isfinite(values).all() else np.inf
                return float(np.average(((wanted - values) ** 2).sum(axis=1), weights=w))

            last = self._fit_last(fit, result, loss)
            self.model_, last, self.oof_predictions_ = last.calibrated(targets, weights)
            self.contributions_ = last.contributions
            calibration, held = self.model_.calibration_, last.held

            def answer(values: Float64Array, boosted: Float64Array | None) -> Float64Array:
                """Return logarithms of probabilities; log odds of logistic models are further columns."""
                kernel, others = values[:, : signs.shape[1]], None
                if calibration.logistic > 0.0:
                    others = values[:, signs.shape[1] :]
                return calibration.log_probabilities(kernel, others, boosted)

            def log_loss(logs: Float64Array, numbers: IntArray) -> float:
                w = None if weights is None else weights[numbers]
                return -float(np.average(logs[np.arange(len(numbers)), own[numbers]], weights=w))

            judged = last.judged(answer, log_loss, calibration.boosting > 0.0)
            self._set_importances(judged, fit)
            self.scores_, self.held_weights_ = sort_errors(
                1.0 - self.oof_predictions_[np.arange(len(held)), own[held]],
                None if weights is None else weights[held],
            )
            return self

    def predict_set(self, X: RowsLike, coverage: float = 0.9) -> Array:
        """Return which classes each row may have, (n, classes) of booleans in the order of ``classes_``.

        Split conformal: all classes of probability at least p, where 1 − p is the (⌈coverage·(m + 1)⌉ + 1)-th
        smallest of the m held-out ``scores_``, and always the likeliest: one rank above split conformal's,
        since these rows chose hyperparameters too. On average over new rows like the
        training rows, the true class is in the set at least as often as you asked; not for each class: rare
        ones may be in it less often. A row with several classes is one that the model can't tell. A row of
        the fit counts by its weight.

        Raises ``InputError`` if coverage is not between 0 and 1, or m rows are too few for it: 9 suffice for
        0.9. Source: Sadinle, Lei and Wasserman 2019.
        """
        check_is_fitted(self, "model_")
        wanted, request = share("coverage", coverage), f"coverage={coverage}"
        most = held_out_quantile(self.scores_, self.held_weights_, wanted, request, CHOSEN)
        chances = self.predict_proba(X)
        inside = 1.0 - chances <= most
        inside[np.arange(len(inside)), chances.argmax(axis=1)] = True
        return np.asarray(inside)

    def compress(
        self, X: RowsLike, y: ArrayLike | None = None, *, cost: object = "20x", **options: Any
    ) -> FastTabularClassifier:
        """Return a fast model within a cost that takes the same tables and approximates this one.

        As :meth:`gramian.TabularRegressor.compress`, with :class:`gramian.FastKernelClassifier`. The rows
        must contain all classes; probabilities are fitted to those of this model on the rows.
        """
        check_is_fitted(self, "model_")
        return compressed_classifier(self, X, y, cost, options)
