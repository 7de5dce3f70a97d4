"""Log marginal likelihood of all rows on nested bases, as a function of the hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike

from gramian._checks import numbers_of
from gramian._typing import Array, Float64Array
from gramian.compression.features import FeatureMap
from gramian.data.fingerprint import fingerprint
from gramian.exceptions import InputError, quoted
from gramian.gp.composite import FAILED
from gramian.gp.dense import dense_likelihood
from gramian.gp.gradient import gradient
from gramian.gp.hyperparameters import Hyperparameters
from gramian.gp.likelihood import MarginalLikelihood, Observations, evidence
from gramian.gp.prior import with_kernel


@dataclass(frozen=True)
class LikelihoodObjective:
    """Log marginal likelihood as a function of θ, for fixed landmarks and blocks."""

    features: FeatureMap
    hyper: Hyperparameters
    data: Observations
    #: Whether every row is a landmark of the root. The model is then exact, and dense algebra is cheaper.
    exact: bool = False
    fingerprint: str | None = None  #: of the rows at the fit, which a user may write over; targets are copies

    def moved(self, theta: Array) -> LikelihoodObjective:
        """Return the objective whose own kernel and noise are those of θ."""
        return replace(self, hyper=self.hyper.at(theta))

    def checked(self, theta: ArrayLike) -> Float64Array:
        """Return a user's θ as numbers; raise for a wrong number of them, or if the rows have changed."""
        size = len(self.hyper.theta)
        values = numbers_of("theta", theta, f"Give {size} numbers.")
        with np.errstate(over="ignore"):
            meant = np.exp(values)
        if values.shape != (size,) or not (np.isfinite(meant) & (meant > 0.0)).all():
            raise InputError(
                f"theta={quoted(theta)} has shape {values.shape}; expected {size} numbers: the logarithms of "
                f"the parameters, positive and finite, of {self.hyper.kernel!r}"
                + (" and of the noise." if self.hyper.learn_noise else ".")
            )
        if self.fingerprint is not None and fingerprint(self.data.source) != self.fingerprint:
            raise InputError(
                "the rows that fit was given have been changed since, so that the likelihood at another "
                "theta is not known. Pass a copy to fit, or fit again."
            )
        return values

    def found(self) -> MarginalLikelihood:
        """Return the evidence for the objective's own kernel and noise."""
        features = with_kernel(self.features, self.hyper.kernel, self.data.engine)
        return evidence(features, self.hyper.noise, self.data)

    def value(self, theta: Array) -> tuple[float, Float64Array]:
        """Return log p(y) for θ, and its gradient."""
        by_kernel = bool(len(self.hyper.own))
        if self.exact:
            at = self.hyper.at(theta)
            n = self.data.source.shape[0]
            rows, targets = self.data.source.rows(slice(0, n)), self.data.targets[:n]
            value, full = dense_likelihood(
                at.kernel, at.noise, rows, targets, self.data.weights, by_kernel=by_kernel
            )
        else:
            found = self.moved(theta).found()
            value, full = found.value, gradient(found, self.data, by_kernel=by_kernel)
        return value, self.hyper.slope(full)

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −log p(y) and its gradient; a very large value if a factorisation fails."""
        try:
            value, slope = self.value(theta)
        except la.LinAlgError:
            return FAILED, np.zeros(len(theta))
        return (-value, -slope) if np.isfinite(value) else (FAILED, np.zeros(len(theta)))
