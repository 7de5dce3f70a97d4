r"""Local models of one leaf: an exact kernel model, used to choose landmarks, and a linear one on features.

Both minimise ½‖f‖² + Σ_i c_i ℓ(y_i, f(x_i) + b) for each column of y, with costs c_i = C · weight_i and an
unpenalised bias b. :func:`exact_duals` minimises over all functions f of the kernel's space and returns the
dual coefficients α_i = −c_i ℓ′(y_i, f(x_i)). :func:`fit_linear` minimises over f(x) = φ(x)ᵀw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg as la
from sklearn.svm import SVC

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import ridge_tolerance, unit_roundoff
from gramian._typing import Float64Array, IntArray

#: Most Newton steps for one width of the loss. Chosen by hand, as are the next constants.
MOST_STEPS = 50
#: Stop when the gradient's norm, relative to its norm at zero, is below this.
GRADIENT_TOLERANCE = 1e-9
#: A fit counts as converged if that relative norm is below this. The α that weight rows need no better.
ACCEPTED_GRADIENT = 1e-4
#: Most halvings of a step.
HALVINGS = 40
#: Half-widths of the parabola that rounds the corner of the hinge; each solve starts from the one before. At
#: f = 0 every row lies within the first width, so the first Hessian includes every row.
WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01)

#: Step limit of the exact SVM of a leaf (100 a row if that is more). Without a limit some take minutes.
LEAST_SVM_STEPS = 100_000

#: Function that yields (rows, features of these rows), in the same order at each call.
Tiles: TypeAlias = Callable[[], Iterator[tuple[slice, Float64Array]]]


@dataclass(frozen=True, slots=True)
class LocalLoss:
    """A loss ℓ(y, f) by name; the corner of "hinge" is rounded with half-width h = ``width``.

    - ``"ridge"``: (y − f)²
    - ``"squared_hinge"``: max(0, 1 − y f)²
    - ``"logistic"``: log(1 + exp(−y f))
    - ``"hinge"``: max(0, 1 − y f), and (1 + h − y f)²/(4h) where |1 − y f| ≤ h (Chapelle 2007); it
      exceeds the hinge by h/4 at most.
    """

    name: str
    width: float = 0.0

    def value(self, y: Float64Array, f: Float64Array) -> Float64Array:
        """Return ℓ(y, f), elementwise."""
        if self.name == "ridge":
            return np.square(y - f)
        if self.name == "logistic":
            return np.logaddexp(0.0, -y * f)
        short = 1.0 - y * f
        if self.name == "squared_hinge":
            return np.square(np.maximum(short, 0.0))
        h = self.width
        return np.where(short > h, short, np.square(np.maximum(short + h, 0.0)) / (4.0 * h))

    def slopes(self, y: Float64Array, f: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the first and second derivatives of ℓ in f, elementwise."""
        if self.name == "ridge":
            return 2.0 * (f - y), np.full(f.shape, 2.0)
        if self.name == "logistic":
            wrong: Float64Array = np.exp(-np.logaddexp(0.0, y * f))
            return -y * wrong, wrong * (1.0 - wrong)
        short = 1.0 - y * f
        if self.name == "squared_hinge":
            return -2.0 * y * np.maximum(short, 0.0), 2.0 * (short > 0.0).astype(np.float64)
        h = self.width
        ramp = np.clip((short + h) / (2.0 * h), 0.0, 1.0)
        return -y * ramp, (np.abs(short) <= h) / (2.0 * h)


def stages(name: str) -> tuple[LocalLoss, ...]:
    """Return the losses to solve in turn: for the hinge several with an ever sharper corner, else one."""
    return tuple(LocalLoss(name, h) for h in WIDTHS) if name == "hinge" else (LocalLoss(name),)


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Linear models of all columns of y: weights w and bias b, with steps and final gradient."""

    weights: Float64Array  #: (r, outputs)
    bias: Float64Array  #: (outputs,)
    steps: int  #: Newton steps of all stages
    gradient: float  #: largest final norm of the gradient over the columns, relative to that at zero
    limits: Float64Array  #: (2, outputs), the least and the largest value on the rows

    @property
    def converged(self) -> bool:
        """Whether every column reached its tolerance."""
        return self.gradient <= ACCEPTED_GRADIENT


def fit_linear(
    tiles: Tiles, n_features: int, y: Float64Array, costs: Float64Array, name: str, *, intercept: bool = True
) -> LinearFit:
    r"""Minimise ½‖w‖² + Σ_i c_i ℓ(y_i, φ_iᵀw + b) for each column of y by Newton steps with a line search.

    tiles : yields (rows, features Φ of these rows); it is called twice a step, so Φ need not be in memory.
    n_features : r; y : (n, outputs); costs : (n,), positive; name : a loss (see :class:`LocalLoss`).

    The hinge's corner is rounded by ever narrower parabolas; the final objective is within Σ c_i · 0.0025 of
    the minimum. Time O(n r² outputs) a step, 5 to 30 steps (one for "ridge"); memory O(n outputs + r²).
    Source: Chapelle 2007, "Training a support vector machine in the primal".
    """
    n, q = y.shape
    weights, scores = np.zeros((n_features + 1, q)), np.zeros((n, q))
    zero = np.zeros(q)
    steps, gradient = 0, np.zeros(q)
    for loss in stages(name):
        active = np.arange(q)
        for step in range(MOST_STEPS + 1):
            slope, curve = loss.slopes(y[:, active], scores[:, active])
            right, hessians = _sums(tiles, costs[:, None] * slope, costs[:, None] * curve, loss, intercept)
            right[:-1] += weights[:-1, active]
            norms = np.linalg.norm(right, axis=0)
            if not zero[active].any():
                zero = np.where(norms > 0, norms, 1.0)
            gradient[active] = norms / zero[active]
            left = gradient[active] > GRADIENT_TOLERANCE
            if not left.any() or step == MOST_STEPS:
                break
            active, right = active[left], right[:, left]
            hessians = hessians if loss.name == "ridge" else hessians[left]
            direction = np.column_stack(
                [-_solve(hessians[c % len(hessians)], right[:, c], costs) for c in range(len(active))]
            )
            change = _scores(tiles, direction, n)
            lengths = _line_search(
                loss, y[:, active], costs, scores[:, active], change, weights[:, active], direction
            )
            weights[:, active] += lengths * direction
            scores[:, active] += lengths * change
            steps += 1
            active = active[lengths > 0]
            if not active.size:
                break  # no step lowers the objective beyond rounding
    limits = np.stack([scores.min(axis=0), scores.max(axis=0)])
    return LinearFit(weights[:-1], weights[-1], steps, float(gradient.max(initial=0.0)), limits)


def _sums(
    tiles: Tiles, slope: Float64Array, curve: Float64Array, loss: LocalLoss, intercept: bool
) -> tuple[Float64Array, Float64Array]:
    """Return [Φ 1]ᵀ slope (r + 1, q) and each column's Hessian I + [Φ 1]ᵀ diag(curve) [Φ 1].

    The columns of "ridge" share one Hessian. The bias has no penalty, so its entry of I is 0.
    """
    right: Float64Array | None = None
    hessians = np.zeros((0, 0, 0))
    columns = 1 if loss.name == "ridge" else slope.shape[1]
    for rows, features in tiles():
        ones = np.full((len(features), 1), float(intercept))
        design = np.hstack([features, ones])
        if right is None:
            right = np.zeros((design.shape[1], slope.shape[1]))
            hessians = np.zeros((columns, design.shape[1], design.shape[1]))
        right += design.T @ slope[rows]
        for c in range(columns):
            seen = np.flatnonzero(curve[rows, c])
            part = design if len(seen) == len(design) else design[seen]
            hessians[c] += part.T @ (part * curve[rows, c][seen, None])
    assert right is not None
    step = hessians.shape[1] + 1
    hessians.reshape(columns, -1)[:, ::step][:, :-1] += 1.0
    return right, hessians


def _solve(hessian: Float64Array, right: Float64Array, costs: Float64Array) -> Float64Array:
    """Solve for a Newton step.

    If no row gives the bias any curvature, a tiny one is used: its step is long, and the line search cuts it.
    """
    matrix, total = hessian.copy(), max(float(costs.sum()), 1.0)
    if matrix[-1, -1] <= unit_roundoff(np.float64) * total:
        matrix[-1, -1] = ridge_tolerance(np.float64) * total
    try:
        factor = cholesky(matrix)
    except la.LinAlgError:
        # Features that are constant up to rounding cannot be told from the bias.
        matrix[-1, -1] += ridge_tolerance(np.float64) * (matrix[-1, -1] + total)
        factor = cholesky(matrix)
    return cho_solve(factor, right)


def _scores(tiles: Tiles, direction: Float64Array, n_rows: int) -> Float64Array:
    out = np.empty((n_rows, direction.shape[1]))
    for rows, features in tiles():
        out[rows] = features @ direction[:-1] + direction[-1]
    return out


def _line_search(
    loss: LocalLoss,
    y: Float64Array,
    costs: Float64Array,
    scores: Float64Array,
    change: Float64Array,
    weights: Float64Array,
    direction: Float64Array,
) -> Float64Array:
    """Return each column's step length, at most 1, to the minimum of its objective along the direction.

    Bisects the increasing derivative, since narrow hinge parabolas stall under a rule that only asks for some
    decrease. Returns the lower end, where the objective still falls, or 0 if it never falls.
    """
    inner, cross = np.square(direction[:-1]).sum(axis=0), (weights[:-1] * direction[:-1]).sum(axis=0)

    def derivative(t: Float64Array) -> Float64Array:
        slope, _ = loss.slopes(y, scores + t * change)
        return cross + t * inner + costs @ (slope * change)

    low, high = np.zeros(len(inner)), np.ones(len(inner))
    whole = derivative(high) <= 0.0
    if whole.all():
        return high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        falls = derivative(middle) < 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
        if (whole | (high - low <= 0.01 * high)).all():
            break
    return np.where(whole, 1.0, low)


def exact_svm(gram: Float64Array, y: Float64Array, costs: Float64Array) -> Float64Array:
    """Return the dual coefficients α of the hinge loss on a kernel matrix, by libsvm. Time O(n²) to O(n³).

    If C is too large for the data, libsvm stops at the step limit with scikit-learn's ConvergenceWarning. The
    α found so far are used: they only weight rows for the choice of landmarks.
    """
    alpha = np.zeros(len(y))
    most = max(LEAST_SVM_STEPS, 100 * len(y))
    model = SVC(C=1.0, kernel="precomputed", max_iter=most).fit(gram, y, sample_weight=costs)
    alpha[model.support_] = model.dual_coef_[0]
    return alpha


def exact_duals(gram: Float64Array, y: Float64Array, costs: Float64Array, name: str) -> Float64Array:
    r"""Return α (n, outputs) of the exact kernel model f = K α + b, Σ α = 0, for each column of y.

    gram : K, (n, n), symmetric positive semi-definite; y : (n, outputs); costs : (n,), positive.

    "hinge" is solved by :func:`exact_svm`. Other losses take Newton steps in the dual: with d = c ℓ″,
    D = diag(d) and v = d f − c ℓ′ on the rows where d > 0, solve α + D K α + D b = v and Σ α = 0. Time O(s³)
    a step for the s rows with d > 0, memory O(n²). The first step, at f = 0, has the same d for all targets
    ±1, so every column shares its factor. Without sharing it took 5/6 of the time on 200 classes.
    Source: DC-Pred++, equations (1) and (2); Chapelle 2007 for the steps.
    """
    if name == "hinge":
        return np.column_stack([exact_svm(gram, column, costs) for column in y.T])
    first: list[tuple[Float64Array, Float64Array]] = []  # d and factor of the latest first step
    return np.column_stack([_dual(gram, column, costs, LocalLoss(name), first) for column in y.T])


def exact_work(n_rows: int, outputs: int, name: str) -> float:
    """Return the work of :func:`exact_duals`: rows³ times the number of outputs, which "ridge" solves as one.

    One unit takes 0.1 ns ("squared_hinge", "hinge") to 0.4 ns ("logistic"), measured on 1,000 classes of two
    rows in four leaves.
    """
    return float(n_rows) ** 3 * (1 if name == "ridge" else outputs)


def _system_factor(gram: Float64Array, d: Float64Array, s: IntArray) -> Float64Array:
    """Return the Cholesky factor of I + D^(1/2) K D^(1/2) on the rows s."""
    root = np.sqrt(d[s])
    # Taking rows, then columns, takes half the time of taking both at once.
    system = gram.take(s, axis=0).take(s, axis=1)
    system *= root[:, None]
    system *= root
    system[np.diag_indices(len(s))] += 1.0
    return cholesky(system, overwrite=True)


def _dual(
    gram: Float64Array,
    y: Float64Array,
    costs: Float64Array,
    loss: LocalLoss,
    first: list[tuple[Float64Array, Float64Array]],
) -> Float64Array:
    n = len(y)
    alpha, f, bias = np.zeros(n), np.zeros(n), 0.0
    accepted = ACCEPTED_GRADIENT * costs.max() * np.abs(y).max()  # labels are ±1, numbers of any size
    for step in range(MOST_STEPS):
        slope, curve = loss.slopes(y, f)
        d, g = costs * curve, costs * slope
        missed = np.abs(alpha + g).max() + abs(alpha.sum())
        if missed <= accepted:
            break
        s = np.flatnonzero(d)
        if not s.size:
            break  # every row is beyond its margin, so the loss is flat and α = 0
        root = np.sqrt(d[s])
        if step == 0 and first and np.array_equal(first[0][0], d):
            factor = first[0][1]
        else:
            factor = _system_factor(gram, d, s)
            if step == 0:
                first[:] = [(d, factor)]
        right = np.column_stack([root * f[s] - g[s] / root, root])
        solved = cho_solve(factor, right)
        new_bias = (root @ solved[:, 0]) / (root @ solved[:, 1])
        new = np.zeros(n)
        new[s] = root * (solved[:, 0] - new_bias * solved[:, 1])
        change, bias_change = new - alpha, new_bias - bias
        f_change = gram @ change + bias_change
        start = 0.5 * float(alpha @ (f - bias)) + float(costs @ loss.value(y, f))
        noise = 8.0 * unit_roundoff(np.float64) * abs(start)
        for t in 0.5 ** np.arange(HALVINGS):
            now, scores = alpha + t * change, f + t * f_change
            fitted = float(now @ (scores - bias - t * bias_change))
            if 0.5 * fitted + float(costs @ loss.value(y, scores)) < start + noise:
                break
        else:
            break  # no step lowers ½αᵀKα + Σ c ℓ
        alpha, f, bias = now, scores, bias + t * bias_change
    return alpha
