"""Target as the search uses it: transformed and centred, with the loss of its residuals."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array
from gramian.exceptions import InputError
from gramian.tables.scoring import HeldOutScore
from gramian.tables.small_problem import Loss
from gramian.tables.target import NONE, TargetTransform, smearing

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
            found = transform.expected(guess)
            if smears and np.isfinite(guess).all():
                for j, output in enumerate(transform.outputs):
                    if output.how != NONE:
                        z = guess[:, j]
                        at = np.linspace(z.min(), z.max(), JUDGED_KNOTS)
                        rise = smearing(output.expected, at, z, residuals[:, j], w)
                        found[:, j] += np.interp(z, at, rise)
            return found

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

        def of(residuals: Float64Array) -> float:
            errors = residuals if transform is None else own - back(residuals) / unit
            return float(np.average(errors**2, axis=0, weights=w) @ share)

        return of
