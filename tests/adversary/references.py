"""Dense solutions in float64, by textbook algebra and long optimisation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.svm import SVC, SVR

from gramian._numerics import unit_roundoff


@dataclass(frozen=True)
class Dense:
    """f(x) = k(x, X) a + b, and how far it moves for an error of the kernel values."""

    a: np.ndarray  #: (n, outputs)
    b: np.ndarray  #: (outputs,)
    shifted: np.ndarray  #: √W (√W K √W + alpha I)⁻¹ √W, (n, n)

    def values(self, cross: np.ndarray) -> np.ndarray:
        """Return predictions for rows of kernel values, (m, outputs)."""
        return np.asarray(cross @ self.a + self.b)

    def shift(self, cross: np.ndarray, error: float, noise: float = 0.0) -> np.ndarray:
        """Bound the change of the predictions, (m, outputs).

        ``error`` bounds the entries of a change E of K (or jitter). To first order it moves f(x) by
        (E_x − k_x B E) a with B the inverse: by at most error·‖a‖₁·(1 + ‖k_x B‖₁). ``noise`` is the norm of
        a change of y, such as the residual of the linear system.
        """
        pull = cross @ self.shifted
        size = np.abs(self.a).sum(axis=0)
        moved = error * np.outer(1.0 + np.abs(pull).sum(axis=1), size)
        return np.asarray(moved + noise * np.linalg.norm(pull, axis=1)[:, None])


def ridge(
    K: np.ndarray, Y: np.ndarray, alpha: float, w: np.ndarray | None = None, intercept: bool = False
) -> Dense:
    """Minimise Σ w (y − K a − b)² + alpha aᵀ K a by an eigendecomposition, refined."""
    root = np.ones(len(K)) if w is None else np.sqrt(w)
    values, vectors = la.eigh(root[:, None] * K * root)
    inverse = (vectors / (np.maximum(values, 0.0) + alpha)) @ vectors.T
    shifted = root[:, None] * inverse * root
    counts = root > 0
    matrix = K[np.ix_(counts, counts)].astype(np.longdouble)
    matrix[np.diag_indices_from(matrix)] += alpha / np.longdouble(root[counts]) ** 2
    a, b = np.zeros_like(Y, np.float64), np.zeros(Y.shape[1])
    inner = shifted[np.ix_(counts, counts)]
    for _ in range(3):  # refinement: residuals in extended precision
        left = np.asarray(Y[counts] - matrix @ a[counts] - b, np.float64)
        step = (inner.sum(axis=0) @ left + a.sum(axis=0)) / inner.sum() if intercept else np.zeros_like(b)
        a[counts] += inner @ (left - step)
        b = b + step
    return Dense(a, b, shifted)


def root_of(K: np.ndarray) -> np.ndarray:
    """Return F (n, r) with F Fᵀ = K up to rounding, whose directions of rounding are left out."""
    values, vectors = la.eigh(K)
    keep = values > 4.0 * len(K) * unit_roundoff(np.float64) * max(values[-1], 0.0)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def loss_values(name: str, y: np.ndarray, f: np.ndarray, epsilon: float = 0.0) -> np.ndarray:
    """Return ℓ(y, f) row by row; y is ±1, a target, or class codes beside f (n, classes) for softmax."""
    if name == "softmax":
        return np.asarray(logsumexp(f, axis=1) - f[np.arange(len(y)), y])
    if name == "hinge":
        return np.maximum(1.0 - y * f, 0.0)
    if name == "squared_hinge":
        return np.maximum(1.0 - y * f, 0.0) ** 2
    if name == "logistic":
        return np.logaddexp(0.0, -y * f)
    excess = np.maximum(np.abs(y - f) - epsilon, 0.0)
    return excess if name == "epsilon_insensitive" else excess**2


def _slopes(name: str, y: np.ndarray, f: np.ndarray, epsilon: float) -> np.ndarray:
    if name == "squared_hinge":
        return np.asarray(-2.0 * y * np.maximum(1.0 - y * f, 0.0))
    if name == "logistic":
        return np.asarray(-y / (1.0 + np.exp(np.clip(y * f, -700, 700))))
    if name == "softmax":
        p = np.exp(f - logsumexp(f, axis=1, keepdims=True))
        p[np.arange(len(y)), y] -= 1.0
        return np.asarray(p)
    return np.asarray(-2.0 * np.sign(y - f) * np.maximum(np.abs(y - f) - epsilon, 0.0))


def smooth_minimum(
    name: str,
    K: np.ndarray,
    y: np.ndarray,
    cost: np.ndarray,
    intercept: bool,
    *,
    epsilon: float = 0.0,
    outputs: int = 1,
) -> float:
    """Return the least Σ cost ℓ(y, f + b) + ½‖f‖² found by limited-memory BFGS from zero: an upper bound."""
    F = root_of(K)
    n, r = F.shape

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        beta, b = at[: r * outputs].reshape(r, outputs), at[r * outputs :]
        f = F @ beta + (b if intercept else 0.0)
        shown = f if name == "softmax" else f[:, 0]
        total = float(cost @ loss_values(name, y, shown, epsilon) + 0.5 * (beta**2).sum())
        slopes = cost[:, None] * _slopes(name, y, shown, epsilon).reshape(n, outputs)
        inner = F.T @ slopes + beta
        return total, np.concatenate([inner.ravel(), slopes.sum(axis=0) if intercept else []])

    start = np.zeros(r * outputs + outputs * intercept)
    if intercept and name.endswith("insensitive"):
        start[-1] = np.average(y, weights=cost)
    if not len(start):  # K = 0
        return value(start)[0]
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=LONG)
    return float(min(found.fun, value(start)[0]))


LONG = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-11, "maxcor": 30}


def hinge_bound(K: np.ndarray, y: np.ndarray, cost: np.ndarray, intercept: bool) -> float:
    """Return the least hinge objective: the dual's of a feasible α, a lower bound; at most that of f = 0."""
    return min(_hinge_dual(K, y, cost, intercept), float(cost.sum()))


def _hinge_dual(K: np.ndarray, y: np.ndarray, cost: np.ndarray, intercept: bool) -> float:
    counts = cost > 0
    K, y, cost = K[np.ix_(counts, counts)], y[counts], cost[counts]
    if intercept and len(np.unique(y)) < 2:
        return 0.0
    signed = y[:, None] * K * y
    if not intercept:
        return box_maximum(signed, np.ones(len(y)), cost)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVC(C=1.0, kernel="precomputed", tol=1e-8, max_iter=500_000).fit(K, y, sample_weight=cost)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return float(alpha.sum() - 0.5 * alpha @ (signed @ alpha))


def tube_bound(K: np.ndarray, y: np.ndarray, cost: np.ndarray, epsilon: float, intercept: bool) -> float:
    """Return the least objective of the ε-tube: a feasible dual's, a lower bound."""
    counts = cost > 0
    K, y, cost = K[np.ix_(counts, counts)], y[counts], cost[counts]
    both = np.block([[K, -K], [-K, K]])
    if intercept:
        middle = np.average(y, weights=cost)  # the dual's terms are then of the size of the residuals
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SVR(C=1.0, epsilon=epsilon, kernel="precomputed", tol=1e-9, max_iter=500_000)
            model.fit(K, y - middle, sample_weight=cost)
        beta = np.zeros(len(y))
        beta[model.support_] = model.dual_coef_[0]
        found = float((y - middle) @ beta - epsilon * np.abs(beta).sum() - 0.5 * beta @ (K @ beta))
        # libsvm's steps end far from the maximum where the eigenvalues of K lie far apart.
        linear = np.concatenate([y - middle, middle - y]) - epsilon
        sign = np.repeat([1.0, -1.0], len(y))
        return max(found, balanced_maximum(both, linear, np.concatenate([cost, cost]), sign))
    # Without an intercept β = α − α* has no equality to hold.
    return box_maximum(both, np.concatenate([y, -y]) - epsilon, np.concatenate([cost, cost]))


def balanced_maximum(Q: np.ndarray, linear: np.ndarray, upper: np.ndarray, sign: np.ndarray) -> float:
    """Return a value of linearᵀα − ½ αᵀQα with 0 ≤ α ≤ upper and signᵀα = 0, near the largest: a lower bound.

    A penalty of signᵀα takes the place of the equality; the larger side is then made smaller to hold it.
    """
    penalty = 1e9 / float(upper.sum())
    alpha = box_maximiser(Q + penalty * np.outer(sign, sign), linear, upper)
    sides = [float(alpha[sign == side].sum()) for side in (1.0, -1.0)]
    least = min(sides)
    for side, total in zip((1.0, -1.0), sides, strict=True):
        alpha[sign == side] *= least / max(total, np.finfo(np.float64).tiny)
    return float(linear @ alpha - 0.5 * alpha @ (Q @ alpha))


#: Steps of :func:`box_maximum`, and the gap at which it ends, over the value.
STEPS, CLOSED = 100, 1e-11


def box_maximum(Q: np.ndarray, linear: np.ndarray, upper: np.ndarray) -> float:
    """Return the largest linearᵀα − ½ αᵀQα with 0 ≤ α ≤ upper: that of a feasible α, a lower bound."""
    alpha = box_maximiser(Q, linear, upper)
    return max(0.0, float(alpha @ (linear - 0.5 * (Q @ alpha))))


def box_maximiser(Q: np.ndarray, linear: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the α with 0 ≤ α ≤ upper that is found to make linearᵀα − ½ αᵀQα largest.

    A primal-dual interior point method with dense factors. Ends when the gap Σ (upper max(g, 0) − α g), g the
    gradient, is rounding, or no step is left.
    """
    alpha, room = 0.5 * upper, 0.5 * upper
    gradient = linear - Q @ alpha
    least = np.abs(gradient).mean() + np.finfo(np.float64).tiny
    below, above = np.maximum(-gradient, 0.0) + least, np.maximum(gradient, 0.0) + least
    best, chosen = 0.0, np.zeros_like(alpha)
    for _ in range(STEPS):
        gradient = linear - Q @ alpha
        value = 0.5 * float(alpha @ (linear + gradient))
        if value > best:
            best, chosen = value, alpha
        if upper @ np.maximum(gradient, 0.0) - alpha @ gradient <= CLOSED * best:
            break
        centre = 0.1 * float(alpha @ below + room @ above) / (2 * len(Q))
        barrier = below / alpha + above / room
        scale = 1.0 / np.sqrt(np.diag(Q) + barrier)
        try:
            factor = la.cho_factor(scale[:, None] * (Q + np.diag(barrier)) * scale)
        except (la.LinAlgError, ValueError):
            break  # the best so far is feasible, and so a bound
        step = scale * la.cho_solve(factor, scale * (gradient + centre / alpha - centre / room))
        moves = (
            (alpha, step),
            (room, -step),
            (below, centre / alpha - below - below / alpha * step),
            (above, centre / room - above + above / room * step),
        )
        shares = [(-x[dx < 0] / dx[dx < 0]).min(initial=np.inf) for x, dx in moves]
        share = min(1.0, 0.99 * min(shares))
        alpha, room, below, above = (x + share * dx for x, dx in moves)
    return chosen.copy()


@dataclass(frozen=True)
class Posterior:
    """Mean and covariance at new rows, and log p(y)."""

    mean: np.ndarray
    covariance: np.ndarray
    likelihood: float


def posterior(
    K: np.ndarray,
    cross: np.ndarray,
    new: np.ndarray,
    Y: np.ndarray,
    noise: float,
    w: np.ndarray | None = None,
) -> Posterior:
    """Return the exact Gaussian process's answers, Rasmussen and Williams 2006, algorithm 2.1.

    A row of weight w has the noise noise/w: W^½KW^½ + noise·I is W^½(K + noise·W⁻¹)W^½. Weight 0 is no row.
    """
    counted = np.ones(len(K), bool) if w is None else w > 0
    root = np.ones(int(counted.sum())) if w is None else np.sqrt(w[counted])
    K, cross = root[:, None] * K[np.ix_(counted, counted)] * root, cross[:, counted] * root
    Y = root[:, None] * Y[counted]
    values, vectors = la.eigh(K)
    values = np.maximum(values, 0.0) + noise
    rotated, half = vectors.T @ Y, cross @ vectors
    fit = -0.5 * float((rotated**2 / values[:, None]).sum())
    size = 0.5 * Y.shape[1] * float(np.log(2.0 * np.pi * values / root**2).sum())
    return Posterior(half @ (rotated / values[:, None]), new - (half / values) @ half.T, fit - size)


def components(K: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the centred matrix, descending, none under 0."""
    n = len(K)
    centre = np.eye(n) - 1.0 / n
    return np.asarray(np.maximum(np.linalg.eigvalsh(centre @ K @ centre)[::-1], 0.0))
