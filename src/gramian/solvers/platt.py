"""Platt's sigmoid: probabilities from decision values."""

from __future__ import annotations

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
