"""Scores of held-out predictions for each alpha: squared errors, or one of scikit-learn's scorers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from gramian._numerics import size_of
from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError, did_you_mean, shortened, user_level
from gramian.ridge.held_out import HeldOut


def warn_at_edge(alphas: Float64Array, best: Float64Array) -> None:
    """Warn if the best alpha, or that of an output, is the smallest or largest of several that were tried."""
    least, most = float(alphas.min()), float(alphas.max())
    if least == most:
        return
    edges = ((least, "smallest", "smaller", least / 10.0), (most, "largest", "larger", most * 10.0))
    for edge, word, further, beyond in edges:
        if (best == edge).any():
            whose = f", of {np.sum(best == edge)} of {best.size} outputs" if best.size > 1 else ""
            warnings.warn(
                f"the best alpha, {edge:.3g}{whose}, is the {word} of alphas ({least:.3g} to {most:.3g}): a "
                f"{further} one may do better. Add values beyond it, such as {beyond:.3g}, or choose "
                "alphas='auto'.",
                UserWarning,
                stacklevel=user_level(),
            )


@dataclass(frozen=True)
class Scores:
    """Scores for each alpha, (alphas,) or (alphas, outputs), larger is better, and their standard errors.

    ``freedom`` (alphas,) is the fit's effective degrees of freedom; None where folds were judged.
    """

    values: Float64Array
    errors: Float64Array
    freedom: Float64Array | None = None

    @property
    def best(self) -> IntArray:
        """The number of the best alpha, shape () or (outputs,)."""
        return np.asarray(self.values.argmax(axis=0), np.intp)

    @property
    def top(self) -> Float64Array:
        """The score of the best alpha, shape () or (outputs,)."""
        return np.asarray(self.values.max(axis=0))

    @staticmethod
    def joined(parts: Sequence[Scores]) -> Scores:
        """Return the scores of several groups of alphas as one."""
        freedoms = [p.freedom for p in parts if p.freedom is not None]
        return Scores(
            np.concatenate([p.values for p in parts]),
            np.concatenate([p.errors for p in parts]),
            np.concatenate(freedoms) if len(freedoms) == len(parts) else None,
        )

    @staticmethod
    def of_folds(parts: Sequence[Scores]) -> Scores:
        """Return the mean over folds, and its standard error from their spread."""
        values = np.stack([p.values for p in parts])
        unit = size_of(values)
        spread = (values / unit).std(axis=0, ddof=1) if len(parts) > 1 else np.full(values.shape[1:], np.nan)
        return Scores(values.mean(axis=0), spread * unit / np.sqrt(len(parts)))


class Scorer:
    """From held-out errors to scores.

    ``scoring=None`` is −Σw e²/Σw, the mean over outputs, whose standard error is bounded by the mean of the
    outputs'. Else a scorer judges the held-out predictions, all at once; its scores have no standard error.
    """

    def __init__(self, scoring: str | Callable[..., float] | None, *, per_target: bool) -> None:
        self._scorer: Any = None if scoring is None else checked_scorer(scoring)
        self._per_target = per_target

    @property
    def needs_predictions(self) -> bool:
        """Whether every held-out prediction is wanted, and not only squared errors."""
        return self._scorer is not None

    def score(self, errors: HeldOut, targets: NumberTargets, weights: Array | None) -> Scores:
        """Return the scores of each alpha."""
        if self._scorer is None:
            if self._per_target:
                return Scores(-errors.losses, errors.errors, errors.freedom)
            return Scores(-errors.losses.mean(axis=1), errors.errors.mean(axis=1), errors.freedom)
        assert errors.residuals is not None
        y, residuals = targets[slice(0, targets.shape[0])] + targets.shift, errors.residuals
        if weights is not None and not (counted := weights > 0).all():
            y, residuals, weights = y[counted], residuals[counted], weights[counted]
        options = {} if weights is None or not takes_weights(self._scorer) else {"sample_weight": weights}
        rows = []
        for k in range(residuals.shape[1]):
            predicted = y - residuals[:, k]
            if self._per_target:
                columns = [(predicted[:, j], y[:, j]) for j in range(y.shape[1])]
            else:
                columns = [(predicted.ravel(), y.ravel()) if targets.flat else (predicted, y)]
            rows.append([self._judged(p, t, options) for p, t in columns])
        values = np.asarray(rows) if self._per_target else np.asarray(rows)[:, 0]
        if not np.isfinite(values).all():
            raise InputError(
                "the scorer gave NaN or infinity for held-out predictions. Use a scoring that is defined for "
                "them, or scoring=None."
            )
        return Scores(values, np.full(values.shape, np.nan), errors.freedom)

    def _judged(self, predicted: Array, true: Array, options: dict[str, Any]) -> float:
        """Return the scorer's number for predictions; raise if it cannot judge numbers."""
        assert self._scorer is not None
        try:
            return float(self._scorer(_Identity(), predicted, true, **options))
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"the scorer failed on held-out predictions with {type(error).__name__}: "
                f"{shortened(str(error))}. Use a scoring for numbers, such as 'r2', or scoring=None."
            ) from error


class _Identity(RegressorMixin, BaseEstimator):
    """An estimator whose rows are its predictions, for scorers that call ``predict``."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Array) -> Array:
        return X


#: Scikit-learn's names of scorers that are usually called something else.
USUAL_NAMES = {
    "mae": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
    "mse": "neg_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
    "auc": "roc_auc",
    "logloss": "neg_log_loss",
    "log_loss": "neg_log_loss",
}


def checked_scorer(scoring: object) -> Any:
    """Return a callable scorer(estimator, X, y), or raise for a name or a value that is none."""
    if callable(scoring):
        return scoring
    names = get_scorer_names()
    if not isinstance(scoring, str) or scoring not in names:
        meant = USUAL_NAMES.get(str(scoring).lower())
        hint = f" Did you mean {meant!r}?" if meant else did_you_mean(scoring, names)
        raise InputError(
            f"scoring={scoring!r} is not a scorer.{hint} Give None for the mean "
            "squared error, a name of sklearn.metrics.get_scorer_names(), or a callable "
            "scorer(estimator, X, y)."
        )
    return get_scorer(scoring)


def name_of(scoring: object) -> str:
    """Return a scorer's name for messages."""
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))


def takes_weights(scorer: Callable[..., float]) -> bool:
    """Whether a scorer, or the function under one of scikit-learn's, takes ``sample_weight``."""
    try:
        return "sample_weight" in inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    except ValueError:  # of a function in C that has no signature
        return False


def warn_of_unused_weights(scoring: object, weights: Array | None) -> None:
    """Warn if rows of different weights above 0 are judged by a scorer that takes no weights."""
    if scoring is None or weights is None or takes_weights(checked_scorer(scoring)):
        return
    counted = weights[weights > 0]
    if np.ptp(counted) > 1e-6 * counted.max():
        warnings.warn(
            f"scoring={name_of(scoring)!r} takes no sample_weight, so it counts all {len(counted):,} rows of "
            "weight above 0 alike; the fits use the weights. Choose a scoring that takes sample_weight, or "
            "scoring=None.",
            UserWarning,
            stacklevel=user_level(),
        )
