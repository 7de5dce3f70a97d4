"""Kernel units with learned centres and widths, fitted by Levenberg–Marquardt with the weights eliminated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array
from gramian.landmarks import lloyd

#: Ridge of a unit's weight, in units of the rows' total weight: the units are at most 1.
WEIGHT_RIDGE = 1e-7
#: Ridge of the linear part and damping floor, relative to the diagonal.
LINEAR_RIDGE, DAMPING_FLOOR = 1e-8, 1e-9
#: A unit's first width: s² = START_SPREAD / (2 · mean squared distance of its rows).
START_SPREAD = 0.5
#: Rounds of Lloyd for the first centres, and of working targets for the weights at given units.
CENTRE_ROUNDS, TARGET_ROUNDS = 8, 3
#: Relative decrease of the objective that ends the iteration, and steps tried in one round.
LEAST_DECREASE, STEPS_TRIED = 1e-4, 8
#: Largest move of a centre in a step, in units of 1/s, and largest change of log s: units that run away or
#: collapse in the first rounds never come back (letter, 12 units: 94.0 to 95.6 % by these bounds).
CENTRE_STEP, WIDTH_STEP = 0.5, 0.1
#: Largest s² in units of 1/mean ‖z‖²: the exponent −s²‖z − c‖² is predicted as a sum of terms of that size in
#: float32, so that a unit's relative error stays near 2,000 · 2⁻²³ = 2e-4.
SHARPEST = 2_000.0


@dataclass(frozen=True, eq=False)
class Units:
    """f(z) = A exp(−s_j² ‖z − c_j‖²) + B [z, 1].

    centers : (u, r); log_scales : (u,), log s; weights : (outputs, u), A; linear : (outputs, r + 1), B.
    objective : the weighted squares left, and the ridge.
    """

    centers: Float64Array
    log_scales: Float64Array
    weights: Float64Array
    linear: Float64Array
    objective: float

    def __call__(self, points: Float64Array) -> Float64Array:
        """Return f (n, outputs) at points (n, r)."""
        out = points @ self.linear[:, :-1].T + self.linear[:, -1]
        if len(self.centers):
            out += units_at(points, self.centers, self.log_scales) @ self.weights.T
        return out

    @property
    def exponents(self) -> Float64Array:
        """Return E with −s_j²‖z − c_j‖² = E_j·[z, 1, ‖z‖²], shape (u, r + 2)."""
        squares = np.exp(2.0 * self.log_scales)
        constant = -squares * np.einsum("ij,ij->i", self.centers, self.centers)
        return np.column_stack([2.0 * squares[:, None] * self.centers, constant, -squares])


def units_at(points: Float64Array, centers: Float64Array, log_scales: Float64Array) -> Float64Array:
    """Return exp(−s_j² ‖z_i − c_j‖²), shape (n, u)."""
    middle = centers.mean(axis=0)
    moved, around = points - middle, centers - middle
    squares = moved @ (-2.0 * around.T)
    squares += np.einsum("ij,ij->i", moved, moved)[:, None]
    squares += np.einsum("ij,ij->i", around, around)
    np.maximum(squares, 0.0, out=squares)
    squares *= -np.exp(2.0 * log_scales)
    return np.exp(squares, out=squares)


@dataclass(frozen=True, eq=False)
class Targets:
    """What the outputs shall be: values (n, outputs), each row with a weight.

    low, high : bounds of clipped values: a target at a bound is met by any output beyond it, as for the
        squared hinge loss. None for regression.
    """

    values: Float64Array
    weights: Float64Array
    low: float | None = None
    high: float | None = None

    def working(self, outputs: Float64Array) -> Float64Array:
        """Return the targets with those that ``outputs`` meet beyond a bound moved to the outputs."""
        if self.low is None or self.high is None:
            return self.values
        met = ((self.values >= self.high) & (outputs > self.values)) | (
            (self.values <= self.low) & (outputs < self.values)
        )
        return np.where(met, outputs, self.values)


@dataclass
class State:
    """Units, their weights and what is left, at one point of the iteration.

    design : (n, u + r + 1), [φ, z, 1]; factor : Cholesky of its weighted Gram matrix; solution :
    (u + r + 1, outputs); residual : working targets less outputs.
    """

    centers: Float64Array
    log_scales: Float64Array
    design: Float64Array
    factor: tuple[Float64Array, bool]
    solution: Float64Array
    outputs: Float64Array
    residual: Float64Array
    objective: float

    @property
    def units(self) -> Units:
        """The units with their weights."""
        u = len(self.centers)
        A, B = self.solution[:u].T, self.solution[u:].T
        return Units(self.centers, self.log_scales, A, B, self.objective)


def fit_units(
    points: Float64Array,
    targets: Targets,
    n_units: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 40,
) -> Units:
    r"""Fit centres, widths and weights to targets by least squares.

    The weights W at given units solve a linear problem, so that the iteration is one in the centres and
    widths θ alone (variable projection, with Kaufman's Jacobian). With g_jp = ∂φ_j/∂θ_jp, P the projection
    off the design D = [φ, z, 1] and A the weights of the units, the normal matrix is

        H_(jp),(j'p') = (A Aᵀ)_jj' · (gᵀ P g)_(jp),(j'p')

    for any number of outputs: many classes cost no more than one. Bounds of clipped targets are met by
    working targets (:meth:`Targets.working`), which majorise the one-sided squares.

    points : (n, r); n_units : u, cut to n; 0 gives the linear part alone.

    Time O(n (u r)²) a round, memory O(n u r). Local minima: the result depends on the first centres, which
    are k-means'. Source: Golub and Pereyra 1973; Kaufman 1975.
    """
    n, r = points.shape
    n_units = min(n_units, n)
    if n_units:
        centers = np.asarray(lloyd(points, n_units, CENTRE_ROUNDS, rng), np.float64)
        near = _nearest_squares(points, centers)
        spread = max(float(np.average(near, weights=targets.weights)), np.finfo(np.float64).tiny)
        scales = np.full(len(centers), 0.5 * np.log(START_SPREAD / (2.0 * spread)))
        scales = np.minimum(scales, sharpest(points))
    else:
        centers, scales = np.zeros((0, r)), np.zeros(0)
    state = settle(points, targets, centers, scales, None)
    damping = 1e-2
    for _ in range(max_iter if n_units else 0):
        normal, gradient = _normal_equations(points, state, targets.weights)
        before, found = state.objective, None
        for _ in range(STEPS_TRIED):
            step = _step(normal, gradient, damping).reshape(-1, r + 1)
            # No further than a unit reaches: beyond, its gradient says nothing.
            far = np.sqrt(np.einsum("ij,ij->i", step[:, :r], step[:, :r])) * np.exp(state.log_scales)
            moved = (
                state.centers
                + step[:, :r] * np.minimum(CENTRE_STEP / np.maximum(far, CENTRE_STEP), 1.0)[:, None]
            )
            widths = state.log_scales + np.clip(step[:, r], -WIDTH_STEP, WIDTH_STEP)
            widths = np.minimum(widths, sharpest(points))
            trial = settle(points, targets, moved, widths, state.outputs)
            if trial.objective < before:
                found = trial
                break
            damping *= 4.0
        if found is None:
            break
        state, damping = found, max(damping / 3.0, 1e-7)
        if before - state.objective < LEAST_DECREASE * before:
            break
    return state.units


def sharpest(points: Float64Array) -> float:
    """Return the largest log s of a unit that float32 predicts well."""
    size = float(np.einsum("ij,ij->", points, points)) / len(points)
    return 0.5 * float(np.log(SHARPEST / size)) if size > 0 else np.inf


def _nearest_squares(points: Float64Array, centers: Float64Array) -> Float64Array:
    squares = np.einsum("ij,ij->i", points, points)[:, None] - 2.0 * points @ centers.T
    squares += np.einsum("ij,ij->i", centers, centers)
    return np.maximum(squares.min(axis=1), 0.0)


def settle(
    points: Float64Array,
    targets: Targets,
    centers: Float64Array,
    log_scales: Float64Array,
    outputs: Float64Array | None,
) -> State:
    """Return the state with the best weights for these units; ``outputs`` are those of a state near it."""
    u, weights = len(centers), targets.weights
    n, r = points.shape
    design = np.empty((n, u + r + 1))
    if u:
        design[:, :u] = units_at(points, centers, log_scales)
    design[:, u:-1] = points
    design[:, -1] = 1.0
    weighted = design * weights[:, None]
    gram = weighted.T @ design
    ridge = LINEAR_RIDGE * gram.diagonal().copy()
    ridge[:u] = WEIGHT_RIDGE * float(weights.sum())
    ridge += np.finfo(np.float64).tiny
    gram.flat[:: len(gram) + 1] += ridge
    factor = la.cho_factor(gram, check_finite=False)
    working = targets.values if outputs is None else targets.working(outputs)
    for _ in range(TARGET_ROUNDS):
        solution = la.cho_solve(factor, weighted.T @ working, check_finite=False)
        outputs = design @ solution
        if targets.low is None:
            break
        working = targets.working(outputs)
    assert outputs is not None
    residual = targets.working(outputs) - outputs
    objective = float(weights @ np.square(residual).sum(axis=1) + (ridge @ np.square(solution)).sum())
    return State(centers, log_scales, design, factor, solution, outputs, residual, objective)


def _normal_equations(
    points: Float64Array, state: State, weights: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return H and the gradient over the centres and log scales of each unit, (u (r + 1)) of them."""
    n, r = points.shape
    u = len(state.centers)
    A = state.solution[:u]
    squares = np.exp(2.0 * state.log_scales)
    change = np.empty((n, u, r + 1))
    np.subtract(points[:, None, :], state.centers, out=change[:, :, :r])
    change[:, :, r] = -np.einsum("nur,nur->nu", change[:, :, :r], change[:, :, :r])
    change *= 2.0 * (squares * state.design[:, :u])[:, :, None]
    flat = change.reshape(n, -1)
    weighted = flat * weights[:, None]
    met = weighted.T @ state.design
    normal = weighted.T @ flat - met @ la.cho_solve(state.factor, met.T, check_finite=False)
    shared = (A @ A.T)[:, None, :, None]
    normal = (normal.reshape(u, r + 1, u, r + 1) * shared).reshape(u * (r + 1), -1)
    gradient = np.einsum("jpk,jk->jp", (weighted.T @ state.residual).reshape(u, r + 1, -1), A)
    return normal, gradient.ravel()


def _step(normal: Float64Array, gradient: Float64Array, damping: float) -> Float64Array:
    """Return (H + μ diag H)⁻¹ g; a unit that does not matter has a floor under its diagonal."""
    diagonal = normal.diagonal() + DAMPING_FLOOR * max(float(normal.diagonal().max()), 0.0)
    damped = normal.copy()
    damped.flat[:: len(normal) + 1] += damping * diagonal + np.finfo(np.float64).tiny
    try:
        return np.asarray(
            la.cho_solve(la.cho_factor(damped, check_finite=False), gradient, check_finite=False)
        )
    except la.LinAlgError:
        # Rounding made it indefinite: the gradient alone, scaled, is a descent direction too.
        return gradient / (diagonal * (1.0 + damping) + np.finfo(np.float64).tiny)
