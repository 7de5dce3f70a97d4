"""Kernel units of a leaf: their model, initial centres and widths, and limits of the widths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, FloatArray
from gramian.fast.bumps import denominators
from gramian.fast.learning.loss import LeafRows, State, WeightedTargets, settle
from gramian.landmarks.rules import lloyd

#: Sets the first scale of the units: s² = START_SPREAD / (2 · mean squared distance to the nearest centre).
#: Chosen by hand, as are the next constants.
START_SPREAD = 1.0
#: Lloyd iterations for the first centres, the most rows for them, and updates of the first working targets.
CENTRE_ROUNDS, CENTRE_ROWS, START_TARGET_ROUNDS = 8, 20_000, 20
#: Largest s² in units of 1/mean ‖z‖². A prediction sums terms of this size in float32 for q = s²‖z − c‖², so
#: the error of a unit, 1/(1 + q), stays near 2,000 · 2⁻²³ = 2e-4.
SHARPEST = 2_000.0


@dataclass(frozen=True, eq=False)
class Units:
    """Model of a leaf: f(z) = A φ(z) + B [z, 1], φ_j(z) = 1/(1 + Σ_k s_jk² (z_k − c_jk)²).

    centers : (u, r), c; log_scales : (u, r), log s; weights : (outputs, u), A; linear : (outputs, r + 1), B.
    objective : weighted sum of squared residuals plus the penalty.
    """

    centers: Float64Array
    log_scales: Float64Array
    weights: Float64Array
    linear: Float64Array
    objective: float

    @classmethod
    def of(cls, state: State) -> Units:
        """Return the units of a state with their weights."""
        u = len(state.centers)
        A, B = state.solution[:u].T, state.solution[u:].T
        return cls(state.centers, state.log_scales, A, B, state.objective)

    @property
    def denominators(self) -> Float64Array:
        """Return E with 1/φ_j(z) = E_j·[z, 1, z²], shape (u, 2r + 1)."""
        return denominators(self.centers, self.log_scales)


def first_units(
    points: FloatArray, targets: WeightedTargets, n_units: int, rng: np.random.Generator
) -> Units:
    """Return units to start from: k-means centres, one common scale, optimal weights.

    points : (n, r); n_units : u, at most n are used; 0 gives the linear part alone. Time O(n u r + n u²).
    """
    n, r = points.shape
    n_units = min(n_units, n)
    leaf = LeafRows.of(points, targets)
    if n_units:
        some = np.arange(n) if n <= CENTRE_ROWS else rng.choice(n, CENTRE_ROWS, replace=False)
        drawn = points[some]
        centers = np.asarray(lloyd(drawn, n_units, CENTRE_ROUNDS, rng), np.float64)
        near = _nearest_squares(drawn, centers)
        spread = float(np.average(near, weights=targets.weights[some]))
        spread = max(spread, float(np.finfo(np.float64).tiny))
        scales = np.full(centers.shape, min(0.5 * np.log(START_SPREAD / (2.0 * spread)), sharpest(leaf)))
    else:
        centers, scales = np.zeros((0, r)), np.zeros((0, r))
    return Units.of(settle(leaf, centers, scales, rounds=START_TARGET_ROUNDS))


def sharpest(leaf: LeafRows, Q: Float64Array | None = None) -> float:
    """Return the largest log s that float32 predicts accurately; 0 if all points are the origin."""
    return _log_scale(leaf.size(Q), SHARPEST)


def flattest(leaf: LeafRows, Q: Float64Array | None = None) -> float:
    """Return the log s below which a unit is 1 at all points up to rounding."""
    return _log_scale(leaf.size(Q), unit_roundoff(np.float64))


def _log_scale(size: float, share: float) -> float:
    """Return log s with s² = share / mean ‖z‖²; 0 if all points are the origin."""
    return 0.5 * float(np.log(share / size)) if size > 0 else 0.0


def _nearest_squares(points: FloatArray, centers: Float64Array) -> FloatArray:
    squares = np.einsum("ij,ij->i", points, points)[:, None] - 2.0 * points @ centers.T
    squares += np.einsum("ij,ij->i", centers, centers)
    return np.maximum(squares.min(axis=1), 0.0)
