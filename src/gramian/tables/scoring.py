"""Errors of held-out rows: by scikit-learn's scorers, or squared, in the units of the target."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import log_loss, make_scorer

from gramian._typing import Array, Float64Array, RowsLike
from gramian.estimator.answers import class_labels, decision_values, probabilities
from gramian.exceptions import InputError, shortened
from gramian.fast.probabilities import Calibration
from gramian.ridge.scoring import checked_scorer, name_of, takes_weights, warn_of_unused_weights
from gramian.tables.small_problem import Loss
from gramian.tables.target import NONE, TargetTransform, smearing


@dataclass(frozen=True)
class HeldOutScore:
    """Error of held-out values by a scorer: positive, smaller is better, whatever the scorer's sign.

    scorer : scorer(estimator, X, y), as scikit-learn makes them; name : for error messages; classes : the
    labels of a classification, None for a regression.
    """

    scorer: Any
    name: str
    classes: Array | None = None

    @classmethod
    def of(cls, scoring: object, weights: Array | None, classes: Array | None = None) -> HeldOutScore | None:
        """Return the score for a parameter ``scoring``, None for None; raise for what is no scorer.

        Warns if the rows' weights differ and the scorer takes none.
        """
        if scoring is None:
            return None
        name = name_of(scoring)
        warn_of_unused_weights(scoring, weights)
        if scoring == "neg_log_loss" and classes is not None:  # rows may lack a class
            scorer = make_scorer(
                log_loss, greater_is_better=False, response_method="predict_proba", labels=classes
            )
            return cls(scorer, name, classes)
        return cls(checked_scorer(scoring), name, classes)

    def error(self, wanted: Float64Array, values: Float64Array, weights: Array | None) -> float:
        """Return the error of values (m, outputs) for targets (m, outputs), of classes in parts of ±1.

        1 − score for scores that are best at 1, −score for scorers that are named by an error (``neg_…``),
        ln(1 + exp(−score)) for a function of the user's. Classes have probabilities that are calibrated on
        these rows.
        """
        options = {} if weights is None or not takes_weights(self.scorer) else {"sample_weight": weights}
        if self.classes is None:
            flat = values.shape[1] == 1
            model: Any = _Numbers(values[:, 0] if flat else values)
            truth: Array = wanted[:, 0] if flat else wanted
        else:
            codes = (wanted[:, 0] > 0).astype(np.intp) if wanted.shape[1] == 1 else wanted.argmax(axis=1)
            signs = values / max(float(np.abs(wanted).max()), np.finfo(np.float64).tiny)
            odds = Calibration.of_labels(signs, codes, weights).log_odds(signs)
            model, truth = _Classes(odds, self.classes), self.classes[codes]
        rows = np.arange(len(wanted), dtype=np.float64)[:, None]
        try:
            score = float(self.scorer(model, rows, truth, **options))
        except Exception as error:
            why = shortened(str(error)).rstrip(".")
            raise InputError(
                f"scoring={self.name!r} failed on {len(wanted):,} held-out rows: {why}. "
                "Use a score that is defined for them, or scoring=None."
            ) from error
        if not np.isfinite(score):
            raise InputError(
                f"scoring={self.name!r} gave {score} on {len(wanted):,} held-out rows. Use a score that is "
                "defined for them, or scoring=None."
            )
        sign = getattr(self.scorer, "_sign", None)
        if sign is None:
            return float(np.log1p(np.exp(-abs(score))) + max(-score, 0.0))
        return max(1.0 - score, 0.0) if sign > 0 else max(-score, 0.0)


class _Numbers(RegressorMixin, BaseEstimator):
    """A fitted regressor whose answers are known, for scorers that ask about the rows in order."""

    def __init__(self, values: Any = None) -> None:
        self.values_ = self.values = values

    def predict(self, X: RowsLike) -> Any:
        return self.values


class _Classes(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose log odds are known."""

    def __init__(self, values: Any = None, classes: Any = None) -> None:
        self.values = values
        self.classes_ = self.classes = classes

    def predict(self, X: RowsLike) -> Array:
        return class_labels(self.values, self.classes_)

    def predict_proba(self, X: RowsLike) -> Float64Array:
        return probabilities(self.values)

    def decision_function(self, X: RowsLike) -> Float64Array:
        return decision_values(self.values)


#: The search computes mean minus median at this many predictions, and interpolates. Chosen by hand.
JUDGED_KNOTS = 33


@dataclass(frozen=True)
class MappedTarget:
    """A target under one transformation.

    values : (m, outputs), transformed; transform : maps them back to the target's own units, in which errors
    are measured, or None if there is nothing to undo (classes); own : (m, outputs), the target in its own
    units; score : the error that the user asked for, or None for squared errors; smears : whether predictions
    become means by their own residuals before they are judged.
    """

    values: Float64Array
    own: Float64Array
    transform: TargetTransform | None = None
    score: HeldOutScore | None = None
    smears: bool = False

    @classmethod
    def of(
        cls, values: Float64Array, own: Float64Array, transform: TargetTransform, score: HeldOutScore | None
    ) -> MappedTarget:
        """Return a target of numbers, whose predictions are means unless the score prefers medians.

        It does if it gives the same constant for all rows a better score at g⁻¹(0) than at the mean target.
        """
        smears = True
        if score is not None:
            constants = own.mean(axis=0), transform.backward(np.zeros((1, own.shape[1])))[0]
            with suppress(InputError), warnings.catch_warnings():  # of scores that need different values
                warnings.simplefilter("ignore")
                mean, middle = (score.error(own, np.tile(each, (len(own), 1)), None) for each in constants)
                smears = mean <= middle * (1.0 + 1e-9)
        return cls(values, own, transform, score, smears)

    def centred(self, fit: slice, weights: Float64Array | None) -> Float64Array:
        """Return all values minus the mean of the fitted rows."""
        mean = np.average(self.values[fit], axis=0, weights=None if weights is None else weights[fit])
        return np.asarray(self.values - mean)

    def loss(self, held: slice, weights: Float64Array | None) -> Loss:
        """Return a function from residuals to an error: weighted mean squared error over the variance.

        Measured on the held-out rows, in the target's own units, averaged over the outputs. With ``score``
        that one's error.
        """
        own, mapped = self.own[held], self.values[held]
        w = None if weights is None else weights[held]
        transform, score, smears = self.transform, self.score, self.smears

        def back(residuals: Float64Array) -> Float64Array:
            guess = mapped - residuals
            if transform is None:
                return guess
            expected = transform.expected(guess)
            if smears and np.isfinite(guess).all():
                for j, output in enumerate(transform.outputs):
                    if output.how != NONE:
                        z = guess[:, j]
                        at = np.linspace(z.min(), z.max(), JUDGED_KNOTS)
                        rise = smearing(output.expected, at, z, residuals[:, j], w)
                        expected[:, j] += np.interp(z, at, rise)
            return expected

        if score is not None:

            def scored(residuals: Float64Array) -> float:
                guess = back(residuals)
                return score.error(own, guess, w) if np.isfinite(guess).all() else np.inf

            return scored
        unit = np.ones(own.shape[1])
        if transform is not None and len(own):  # in units of the largest, so that squares stay finite
            largest = np.abs(own).max(axis=0)
            unit = np.where(largest > 0, largest, 1.0)
            own = own / unit
        centre = np.average(own, axis=0, weights=w)
        # Every output has the same weight, except that one that is constant on the held-out rows has none.
        spread = np.average((own - centre) ** 2, axis=0, weights=w)
        if transform is None:  # classes share one scale, so that rare ones weigh little
            spread = np.full_like(spread, spread.mean())
        share = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0) / max(len(spread), 1)

        def error(residuals: Float64Array) -> float:
            errors = residuals if transform is None else own - back(residuals) / unit
            return float(np.average(errors**2, axis=0, weights=w) @ share)

        return error
