"""Kernel units of a leaf: initial centres and widths, and the best weights for given units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array
from gramian.landmarks.rules import lloyd

#: Penalty on a unit's weight, relative to the total sample weight (a unit's values are at most 1). With a
#: hundredth of it units nearly cancel each other, and single rows between them are predicted far off (on
#: cadata by 3.5 times the range of y). Chosen by hand, as are the next constants.
WEIGHT_RIDGE = 1e-5
#: Penalty on the linear part, relative to the diagonal.
LINEAR_RIDGE = 1e-8
#: Sets the first scale of the units: s² = START_SPREAD / (2 · mean squared distance to the nearest centre).
START_SPREAD = 0.5
#: Lloyd iterations for the first centres; updates of the working targets from a nearby state, and from none.
CENTRE_ROUNDS, TARGET_ROUNDS, START_TARGET_ROUNDS = 8, 3, 60
#: Largest s² in units of 1/mean ‖z‖². A prediction sums terms of this size in float32 for the exponent
#: −s²‖z − c‖², so a unit's relative error stays near 2,000 · 2⁻²³ = 2e-4.
SHARPEST = 2_000.0


@dataclass(frozen=True, eq=False)
class Units:
    """Model of a leaf: f(z) = A exp(−s_j² ‖z − c_j‖²) + B [z, 1].

    centers : (u, r), c; log_scales : (u,), log s; weights : (outputs, u), A; linear : (outputs, r + 1), B.
    objective : weighted sum of squared residuals plus the penalty.
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
    """Target values (n, outputs) and the weight of each row.

    low, high : bounds that the values were clipped to; None for regression. Any output beyond a bound meets
        a target at that bound, as in the squared hinge loss.
    """

    values: Float64Array
    weights: Float64Array
    low: float | None = None
    high: float | None = None

    def working(self, outputs: Float64Array) -> Float64Array:
        """Return the targets, replacing those at a bound that ``outputs`` exceed by the outputs."""
        if self.low is None or self.high is None:
            return self.values
        met = ((self.values >= self.high) & (outputs > self.values)) | (
            (self.values <= self.low) & (outputs < self.values)
        )
        return np.where(met, outputs, self.values)


@dataclass
class State:
    """Units, their weights and the residual, at one point of the iteration.

    design : (n, u + r + 1), [φ, z, 1]; solution : (u + r + 1, outputs); residual : working targets less
    outputs.
    """

    centers: Float64Array
    log_scales: Float64Array
    design: Float64Array
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


def first_units(points: Float64Array, targets: Targets, n_units: int, rng: np.random.Generator) -> Units:
    """Return units to start from: k-means centres, one common scale, optimal weights.

    points : (n, r); n_units : u, at most n are used; 0 gives the linear part alone. Time O(n u r + n u²).
    """
    n, r = points.shape
    n_units = min(n_units, n)
    if n_units:
        centers = np.asarray(lloyd(points, n_units, CENTRE_ROUNDS, rng), np.float64)
        near = _nearest_squares(points, centers)
        spread = max(float(np.average(near, weights=targets.weights)), np.finfo(np.float64).tiny)
        scales = np.full(len(centers), min(0.5 * np.log(START_SPREAD / (2.0 * spread)), sharpest(points)))
    else:
        centers, scales = np.zeros((0, r)), np.zeros(0)
    return settle(points, targets, centers, scales, None, START_TARGET_ROUNDS).units


def sharpest(points: Float64Array) -> float:
    """Return the largest log s that float32 predicts accurately; 0 if all points are the origin."""
    return _log_scale(points, SHARPEST)


def flattest(points: Float64Array) -> float:
    """Return the log s below which a unit is 1 at all points up to rounding."""
    return _log_scale(points, unit_roundoff(np.float64))


def _log_scale(points: Float64Array, share: float) -> float:
    """Return log s with s² = share / mean ‖z‖²; 0 if all points are the origin."""
    size = float(np.einsum("ij,ij->", points, points)) / len(points)
    return 0.5 * float(np.log(share / size)) if size > 0 else 0.0


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
    rounds: int = TARGET_ROUNDS,
) -> State:
    """Return the state with the optimal weights for these units.

    outputs : outputs of a nearby state to start from, or None. rounds : updates of the working targets, each
    O(n (u + r)).
    """
    u, weights = len(centers), targets.weights
    n, r = points.shape
    design = np.empty((n, u + r + 1))
    if u:
        design[:, :u] = units_at(points, centers, log_scales)
    design[:, u:-1] = points
    design[:, -1] = 1.0
    root = np.sqrt(weights)[:, None]
    weighted = design * root  # BLAS computes only half of a product of an array with its own transpose
    gram = weighted.T @ weighted
    ridge = LINEAR_RIDGE * gram.diagonal().copy()
    ridge[:u] = WEIGHT_RIDGE * float(weights.sum())
    ridge += np.finfo(np.float64).tiny
    gram.flat[:: len(gram) + 1] += ridge
    factor = la.cho_factor(gram, check_finite=False)
    working = targets.values if outputs is None else targets.working(outputs)
    for _ in range(rounds):
        solution = la.cho_solve(factor, weighted.T @ (root * working), check_finite=False)
        outputs = design @ solution
        if targets.low is None:
            break
        working = targets.working(outputs)
    assert outputs is not None
    residual = targets.working(outputs) - outputs
    objective = float(weights @ np.square(residual).sum(axis=1) + (ridge @ np.square(solution)).sum())
    return State(centers, log_scales, design, solution, outputs, residual, objective)
