"""Class probabilities of a fast model, calibrated to those of its teacher or to held-out labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator import answers
from gramian.estimator.labels import effective_rows

#: Least probability whose logarithm is taken, bounds of the coefficients, and what they start from. By hand.
#: The slope is at least 1e-6, since different values must have different probabilities: those that differ by
#: the last bit of float32 do so by 1e-13.
LEAST, COEFFICIENTS, START = 3e-3, ((1e-6, 100.0), *3 * ((0.0, 100.0),)), (0.5, 1.0, 0.5, 0.5)
#: Rows of each other class that are added to those of a label. Platt's smoothing, a single row, is too
#: conservative when the classes are separated: on 24 tables a tenth gave a log-loss of 0.93 times, a single
#: row 0.96 times that of a slope alone. Chosen by hand.
ADDED = 0.1


@dataclass(frozen=True)
class Calibration:
    """Probabilities of decision values v: of log odds a·v + b·L(v), where a > 0, b ≥ 0 and p = (1 + v)/2.

    Two classes: L(v) = ln p − ln(1 − p) and P = 1/(1 + exp(−log odds)). More classes: L(v) = ln p and
    P = softmax(log odds). The probability p is cut to [0.003, 0.997] in the logarithms. The map increases and
    has no offset, so that the likeliest class is the one with the largest value. Values 2P − 1 are mapped
    back to P by a = 10⁻⁶ and b = 1; margins have about a·v. Without rows to fit to, the log odds are 2v.
    Of models that give log odds g or h besides, ``logistic`` times g and ``boosting`` times h are added. The
    log odds of boosting alone are h: a, b and ``logistic`` are 0 then.

    Source: Guo, Pleiss, Sun and Weinberger 2017 (the slope); Genest and Zidek 1986 (the sum of log odds);
    the second term is ours.
    """

    slope: float = 2.0
    bend: float = 0.0
    logistic: float = 0.0
    boosting: float = 0.0

    @property
    def boosting_alone(self) -> bool:
        """Whether the log odds are those of boosting, whatever the values are."""
        return self.slope == self.bend == self.logistic == 0.0

    @classmethod
    def fit(
        cls,
        values: Float64Array,
        wanted: Float64Array,
        weights: Array,
        others: Float64Array | None = None,
        boosted: Float64Array | None = None,
    ) -> Calibration:
        """Return the calibration with the least cross-entropy to probabilities ``wanted`` (n, classes).

        others, boosted : log odds g and h of the same shape as the values. Time O(n·classes) a step; the
        problem is convex.
        """
        terms = _terms(values, others, boosted)
        targets = wanted[:, 1:] if values.shape[1] == 1 else wanted
        total = float(weights.sum())

        def loss(coefficients: Float64Array) -> tuple[float, Float64Array]:
            log_odds = np.tensordot(coefficients, terms, 1)
            left = answers.probabilities(log_odds)
            left = (left[:, 1:] if values.shape[1] == 1 else left) - targets
            cross = -float(weights @ (wanted * answers.log_probabilities(log_odds)).sum(axis=1))
            gradient = np.tensordot(terms, weights[:, None] * left, 2)
            return cross / total, gradient / total

        n = len(terms)
        found = minimize(loss, START[:n], jac=True, method="L-BFGS-B", bounds=COEFFICIENTS[:n])
        slope, bend, *rest = map(float, found.x)
        names = [name for name, each in (("logistic", others), ("boosting", boosted)) if each is not None]
        return cls(slope, bend, **dict(zip(names, rest, strict=True)))

    @classmethod
    def of_labels(
        cls,
        values: Float64Array,
        codes: IntArray,
        weights: Array | None,
        others: Float64Array | None = None,
        boosted: Float64Array | None = None,
    ) -> Calibration:
        """Return the calibration to the classes (n,), by number, of rows that the model has not seen."""
        if not len(values):
            return cls()
        n_classes = max(values.shape[1], 2)
        weights = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
        return cls.fit(values, smooth_labels(codes, n_classes, weights), weights, others, boosted)

    def log_odds(
        self, values: Float64Array, others: Float64Array | None = None, boosted: Float64Array | None = None
    ) -> Float64Array:
        """Return the log odds of values (n, outputs), and of log odds g and h of this shape if there are."""
        further = [
            share for share, each in ((self.logistic, others), (self.boosting, boosted)) if each is not None
        ]
        return np.tensordot((self.slope, self.bend, *further), _terms(values, others, boosted), 1)

    def log_probabilities(
        self, values: Float64Array, others: Float64Array | None = None, boosted: Float64Array | None = None
    ) -> Float64Array:
        """Return the logarithm of the probability of each class, (n, classes), of values (n, outputs)."""
        return answers.log_probabilities(self.log_odds(values, others, boosted))

    def log_loss(
        self, values: Float64Array, codes: IntArray, weights: Array | None, others: Float64Array | None = None
    ) -> float:
        """Return the mean of −ln P of the classes (n,), by number."""
        found = self.log_probabilities(values, others)[np.arange(len(codes)), codes]
        return -float(np.average(found, weights=weights))


def _terms(values: Float64Array, *others: Float64Array | None) -> Float64Array:
    """Return what the coefficients multiply, (terms, n, outputs)."""
    chances = np.clip(0.5 * (1.0 + values), LEAST, 1.0 - LEAST)
    logs = np.log(chances)
    terms = [values, logs - np.log1p(-chances) if values.shape[1] == 1 else logs]
    return np.stack([*terms, *(each for each in others if each is not None)])


def smooth_labels(codes: IntArray, n_classes: int, weights: Array) -> Float64Array:
    """Return target probabilities (n, classes) of labels, as if a tenth of a row of each class were added.

    Of n rows a label's class has (n + 0.1)/(n + 0.1·classes), so that coefficients stay finite if the classes
    are separated without an error; n counts rows of equal weight. Source: Platt 1999, who adds one row.
    """
    n = effective_rows(weights)
    total = n + ADDED * n_classes
    targets = np.full((len(codes), n_classes), ADDED / total)
    targets[np.arange(len(codes)), codes] += n / total
    return targets
