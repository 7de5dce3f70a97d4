"""Kernel units of a leaf: initial centres and widths, and the best weights for given units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array
from gramian.landmarks.rules import lloyd

#: Ridge of a unit's weight, in units of the rows' total weight: the units are at most 1. With a hundredth of
#: it units nearly cancel, and single rows between them are far off (cadata: by 3.5 times the range of y).
WEIGHT_RIDGE = 1e-5
#: Ridge of the linear part, relative to the diagonal.
LINEAR_RIDGE = 1e-8
#: A unit's first width: s² = START_SPREAD / (2 · mean squared distance of its rows).
START_SPREAD = 0.5
#: Rounds of Lloyd for the first centres; of working targets for the weights near a state, and from none.
CENTRE_ROUNDS, TARGET_ROUNDS, START_TARGET_ROUNDS = 8, 3, 60
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
    """Return units to start from: centres of k-means, one width, the best weights.

    points : (n, r); n_units : u, cut to n; 0 gives the linear part alone. Time O(n u r + n u²).
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
    """Return the largest log s of a unit that float32 predicts well; 0 for points that are all the origin."""
    return _log_scale(points, SHARPEST)


def flattest(points: Float64Array) -> float:
    """Return the log s under which a unit is 1 at the points but for rounding, whatever s is."""
    return _log_scale(points, unit_roundoff(np.float64))


def _log_scale(points: Float64Array, share: float) -> float:
    """Return log s with s² = share / mean ‖z‖²; 0 for points that are all the origin."""
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
    """Return the state with the best weights for these units.

    outputs : those of a state near it, None without one. rounds : of working targets, each O(n (u + r)).
    """
    u, weights = len(centers), targets.weights
    n, r = points.shape
    design = np.empty((n, u + r + 1))
    if u:
        design[:, :u] = units_at(points, centers, log_scales)
    design[:, u:-1] = points
    design[:, -1] = 1.0
    root = np.sqrt(weights)[:, None]
    weighted = design * root  # of an array with itself half of the product is computed
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
