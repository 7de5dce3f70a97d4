r"""Losses of decision values with their first and second derivatives, and Platt's probabilities of these.

A loss takes targets y and decision values f of shape (rows, outputs) and knows nothing about kernels. Losses
with a kink are built on the positive part u₊ = max(0, u), where u = 1 − y f for classification and
u = ±(f − y) − ε for regression. The positive part is squared, or approximated by smooth losses
(:class:`Proximal`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import expit, logit

from gramian._numerics import ridge_tolerance
from gramian._typing import Array, Float64Array

#: Largest number of Newton steps; more than ten are rare.
MAX_STEPS = 100
#: Share of the predicted decrease that a step must achieve (Armijo's rule), and the shortest step. Usual
#: values.
SUFFICIENT_FALL, SHORTEST = 1e-4, 1e-10
#: Least slope, in deviations of the decision values: a larger value never means a smaller probability.
LEAST_SLOPE = 1e-6


class LossTerms(NamedTuple):
    """Values, slopes and curvatures of a loss, entry by entry."""

    value: Float64Array  #: ℓ(y, f); one column for a loss that couples the outputs
    slope: Float64Array  #: ∂ℓ/∂f
    curvature: Float64Array  #: ∂²ℓ/∂f² ≥ 0, taken from one side at kinks of the slope


def squared_part(u: Float64Array) -> LossTerms:
    """Return u₊², 2 u₊ and 2·[u > 0]."""
    positive = np.maximum(u, 0.0)
    return LossTerms(positive * positive, 2.0 * positive, np.where(u > 0.0, 2.0, 0.0))


class Loss(ABC):
    """A convex loss of decision values; subclasses are frozen dataclasses.

    ``separable``: the outputs are independent problems. ``even_start``: at f = 0 all rows and outputs have
    the same curvature, so that they can share one Gram matrix. ``in_pieces``: the curvature jumps, so that
    the Newton decrement at a point says little about the minimum: rows that count there may not count nearby.
    """

    separable: ClassVar[bool] = True
    even_start: ClassVar[bool] = False
    in_pieces: ClassVar[bool] = False

    @abstractmethod
    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        """Return the loss, slope and curvature at f; only :class:`Proximal` losses use ``anchor``."""

    def value(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> Float64Array:
        """Return the loss alone."""
        return self.terms(y, f, anchor).value


class Proximal(Loss):
    r"""A loss with kinks, max over a in an interval of a u − c(a), smoothed around an anchor a₀.

    ℓ_ρ(u; a₀) = max_a a u − c(a) − (ρ/2)(a − a₀)² has the slope a, and the curvature 1/ρ if a is inside the
    interval. Minimising it and replacing a₀ by the a found, again and again, converges to the minimiser of ℓ
    itself, and faster for smaller ρ. This is the proximal point method in the dual (Rockafellar 1976), with
    subproblems solved by Newton's method (Li, Sun and Toh 2018). Every a is feasible in the dual, so
    Σ w (ℓ(u) − a u + c(a)) is the duality gap.

    Two contracts, beside those of the signatures:

    - c(0) = 0, so that ``gap`` with a dual of 0 is the loss itself: the objective is summed that way.
    - With a huge ρ (1e200) ``dual`` returns an anchor other than 0 to the last bit: the check of a training
      measures the gap of the anchors that way. Write a₀ + u/ρ, not (ρ a₀ + u)/ρ.
    """

    rho: float
    first_anchor: ClassVar[float]

    @abstractmethod
    def dual(self, y: Float64Array, f: Float64Array, anchor: Float64Array) -> Float64Array:
        """Return the maximising a."""

    @abstractmethod
    def gap(self, y: Float64Array, f: Float64Array, dual: Float64Array) -> Float64Array:
        """Return ℓ(u) − a u + c(a) ≥ 0, the part of each row in the duality gap."""

    def sharper(self, factor: float) -> Self:
        """Return the loss with ρ multiplied by a factor."""
        return replace(self, rho=factor * self.rho)  # type: ignore[type-var]


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 − y f)² for y = ±1."""

    even_start: ClassVar[bool] = True
    in_pieces: ClassVar[bool] = True

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        value, slope, curvature = squared_part(1.0 - y * f)
        return LossTerms(value, -y * slope, curvature)


@dataclass(frozen=True)
class Hinge(Proximal):
    """max(0, 1 − y f) = max over a in [0, 1] of a (1 − y f), for y = ±1.

    Around the first anchor ½ it is the Huber hinge, a parabola for |1 − y f| < ρ/2.
    """

    rho: float = 4.0
    even_start: ClassVar[bool] = True
    first_anchor: ClassVar[float] = 0.5

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        center = self.first_anchor if anchor is None else anchor
        u, a = 1.0 - y * f, self.dual(y, f, center)
        value = a * u - 0.5 * self.rho * (a - center) ** 2
        return LossTerms(value, -y * a, ((a > 0.0) & (a < 1.0)) / self.rho)

    def dual(self, y: Float64Array, f: Float64Array, anchor: Float64Array | float) -> Float64Array:
        return np.clip(anchor + (1.0 - y * f) / self.rho, 0.0, 1.0)

    def gap(self, y: Float64Array, f: Float64Array, dual: Float64Array) -> Float64Array:
        u = 1.0 - y * f
        return np.maximum(u, 0.0) - dual * u


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(−y f)) for y = ±1."""

    even_start: ClassVar[bool] = True

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        wrong = expit(-y * f)
        return LossTerms(np.logaddexp(0.0, -y * f), -y * wrong, wrong * (1.0 - wrong))


@dataclass(frozen=True)
class Softmax(Loss):
    r"""log Σ_k exp(f_k) − f_c for the class c with y_c = 1 (the others' y are −1).

    ``curvature`` is the diagonal p (1 − p) of the Hessian diag(p) − ppᵀ with respect to the outputs. This
    Hessian is the Laplacian of a graph with edge weights p_j p_k, so it is at most twice its diagonal.
    """

    separable: ClassVar[bool] = False
    #: The Hessian is at most this multiple of its diagonal.
    bound: ClassVar[float] = 2.0

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        value, p, total = self._shares(y, f)
        p /= total
        slope = np.where(y > 0, p - 1.0, p)
        return LossTerms(value, slope, p * (1.0 - p))

    def value(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> Float64Array:
        return self._shares(y, f)[0]

    def _shares(self, y: Float64Array, f: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return the loss, and exp(f − its largest) with its sum over the outputs."""
        largest = f.max(axis=1, keepdims=True)
        shares = f - largest
        own = shares[y > 0][:, None]
        np.exp(shares, out=shares)
        total = shares.sum(axis=1, keepdims=True)
        return np.log(total) - own, shares, total


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """max(0, |f − y| − ε)²."""

    in_pieces: ClassVar[bool] = True
    epsilon: float = 0.1

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        over, under = squared_part(f - y - self.epsilon), squared_part(y - f - self.epsilon)
        return LossTerms(over.value + under.value, over.slope - under.slope, over.curvature + under.curvature)


@dataclass(frozen=True)
class EpsilonInsensitive(Proximal):
    """max(0, |f − y| − ε) = max over a in [−1, 1] of a (f − y) − ε |a|."""

    epsilon: float = 0.1
    rho: float = 4.0
    first_anchor: ClassVar[float] = 0.0

    def terms(self, y: Float64Array, f: Float64Array, anchor: Float64Array | None = None) -> LossTerms:
        center = self.first_anchor if anchor is None else anchor
        r, a = f - y, self.dual(y, f, center)
        size = np.abs(a)
        value = a * r - self.epsilon * size - 0.5 * self.rho * (a - center) ** 2
        return LossTerms(value, a, ((size > 0.0) & (size < 1.0)) / self.rho)

    def dual(self, y: Float64Array, f: Float64Array, anchor: Float64Array | float) -> Float64Array:
        z = anchor + (f - y) / self.rho
        return np.copysign(np.clip(np.abs(z) - self.epsilon / self.rho, 0.0, 1.0), z)

    def gap(self, y: Float64Array, f: Float64Array, dual: Float64Array) -> Float64Array:
        r = f - y
        return np.maximum(np.abs(r) - self.epsilon, 0.0) - dual * r + self.epsilon * np.abs(dual)


def platt_sigmoid(
    decision: Float64Array, positive: Array, weights: Array | None = None
) -> tuple[float, float]:
    r"""Return (a, b) of P(positive | f) = 1/(1 + exp(−a f − b)) by maximum likelihood, where a > 0.

    The targets are (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) instead of 1 and 0, with N₊ and N₋ the total weights of
    the two classes, so that the maximum is finite for separated classes too. ``decision`` (n,) must not come
    from a model that was trained on the same rows; ``positive`` (n,) is boolean. Newton steps are halved
    until the likelihood rises. Where larger values are likelier negative, as by chance in a few rows, a is
    almost 0 and all probabilities are almost the mean target.

    Cost: time O(n) per step. Source: Platt 1999; Lin, Lin and Weng 2007.

    >>> a, b = platt_sigmoid(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    >>> bool(a > 0), bool(abs(b) < 1e-8)
    (True, True)
    """
    w = np.ones(len(decision)) if weights is None else np.asarray(weights, np.float64)
    up, down = float(w[positive].sum()), float(w[~positive].sum())
    target = np.where(positive, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))
    # Centring and scaling keep the 2 × 2 systems well conditioned.
    center = float(np.average(decision, weights=w))
    spread = float(np.sqrt(np.average((decision - center) ** 2, weights=w))) or 1.0
    z = (decision - center) / spread
    theta = np.array([0.0, np.log((up + 1.0) / (down + 1.0))])

    def cost(at: Array) -> float:
        s = at[0] * z + at[1]
        return float(w @ (np.logaddexp(0.0, s) - target * s))

    now = cost(theta)
    for _ in range(MAX_STEPS):
        p = expit(theta[0] * z + theta[1])
        g, h = w * (p - target), w * p * (1.0 - p)
        gradient = np.array([g @ z, g.sum()])
        # This small ridge keeps the matrix positive definite if all decision values are equal.
        hessian = np.array([[h @ (z * z), h @ z], [h @ z, h.sum()]])
        hessian += (
            ridge_tolerance(np.float64) * max(float(np.trace(hessian)), np.finfo(float).tiny) * np.eye(2)
        )
        step = -np.linalg.solve(hessian, gradient)
        fall = -float(gradient @ step)
        if fall <= ridge_tolerance(np.float64) * max(now, 1.0) * 1e-4:
            break
        length = 1.0
        while length > SHORTEST and cost(theta + length * step) > now - SUFFICIENT_FALL * length * fall:
            length *= 0.5
        theta = theta + length * step
        now = cost(theta)
    if theta[0] < LEAST_SLOPE:
        # The likelihood is concave, so that its maximum with a > 0 is at the bound.
        theta = np.array([LEAST_SLOPE, logit(np.average(target, weights=w))])
    return float(theta[0] / spread), float(theta[1] - theta[0] * center / spread)
