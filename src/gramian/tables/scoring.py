"""Scores that decide a table model's choices: scikit-learn's scorers, asked about values of held-out rows."""

from __future__ import annotations

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
            asked: Any = _Numbers(values[:, 0] if flat else values)
            truth: Array = wanted[:, 0] if flat else wanted
        else:
            codes = (wanted[:, 0] > 0).astype(np.intp) if wanted.shape[1] == 1 else wanted.argmax(axis=1)
            signs = values / max(float(np.abs(wanted).max()), np.finfo(np.float64).tiny)
            odds = Calibration.of_labels(signs, codes, weights).log_odds(signs)
            asked, truth = _Classes(odds, self.classes), self.classes[codes]
        rows = np.arange(len(wanted), dtype=np.float64)[:, None]
        try:
            score = float(self.scorer(asked, rows, truth, **options))
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


class _Answers(BaseEstimator):
    """A fitted estimator whose answers are known, for scorers that ask about the rows in order."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Numbers(RegressorMixin, _Answers):
    def predict(self, X: RowsLike) -> Any:
        return self.values


class _Classes(ClassifierMixin, _Answers):
    def __init__(self, values: Any = None, classes: Any = None) -> None:
        super().__init__(values)
        self.classes_ = self.classes = classes

    def predict(self, X: RowsLike) -> Array:
        return class_labels(self.values, self.classes_)

    def predict_proba(self, X: RowsLike) -> Float64Array:
        return probabilities(self.values)

    def decision_function(self, X: RowsLike) -> Float64Array:
        return decision_values(self.values)
