"""Loss of a leaf by its units and directions, with the best weights for them, and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array, FloatArray
from gramian.fast.learning.training_set import TrainingSet
from gramian.fast.serving.predictor import bumps_in_place, denominators

#: Penalty on a unit's weight, relative to the total sample weight (a unit's values are at most 1). With a
#: hundredth of it units nearly cancel each other, and single rows between them are predicted far off (on
#: cadata by 3.5 times the range of y). Chosen by hand, as are the next constants.
WEIGHT_RIDGE = 1e-5
#: Penalty on the linear part, relative to the diagonal, and in units of the rounding of the rows' type.
LINEAR_RIDGE, LINEAR_ROUNDING = 1e-8, 32.0
#: Updates of the working targets from a nearby state.
TARGET_ROUNDS = 3
#: Rows whose units, targets and gradients stay in the second-level cache together.
TILE_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of a leaf, one a column: features (d, m), target values (outputs, m), weights (m,).

    low, high : bounds that the values were clipped to; None for regression. Any output beyond a bound meets
        a target at that bound, as in the squared hinge loss.
    """

    rows: FloatArray
    values: FloatArray
    weights: FloatArray
    low: float | None = None
    high: float | None = None

    def targets(self, outputs: FloatArray) -> FloatArray:
        """Return the values, replacing those at a bound that ``outputs`` exceed by the outputs."""
        if self.low is None or self.high is None:
            return self.values
        least, most = self.span
        return np.minimum(np.maximum(outputs, least), most)

    @cached_property
    def span(self) -> tuple[FloatArray, FloatArray]:
        """The least and the most that each value may be replaced by."""
        assert self.low is not None
        assert self.high is not None
        least = np.where(self.values <= self.low, -np.inf, self.values)
        most = np.where(self.values >= self.high, np.inf, self.values)
        return least.astype(self.values.dtype), most.astype(self.values.dtype)


@dataclass(frozen=True, eq=False)
class LeafRows:
    """The rows of a leaf with their targets, by tiles."""

    tiles: tuple[Tile, ...]
    mass: float
    even: bool  #: whether all weights are equal

    @classmethod
    def of(cls, own: TrainingSet) -> LeafRows:
        """Return the tiles of the rows (n, d) of a leaf in the rows' type."""
        dtype, n = own.rows.dtype, len(own.rows)
        count = -(-n // TILE_ROWS)
        cuts = [slice(a, b) for a, b in pairwise(n * at // count for at in range(count + 1))]
        tiles = tuple(
            Tile(
                np.ascontiguousarray(own.rows[cut].T),
                np.ascontiguousarray(own.values[cut].T, dtype),
                own.weights[cut].astype(dtype),
                own.low,
                own.high,
            )
            for cut in cuts
        )
        return cls(tiles, float(own.weights.sum()), not np.ptp(own.weights))


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

    @property
    def denominators(self) -> Float64Array:
        """Return E with 1/φ_j(z) = E_j·[z, 1, z²], shape (u, 2r + 1)."""
        return denominators(self.centers, self.log_scales)


@dataclass(frozen=True, eq=False)
class State:
    """Units with their best weights, at one point of the iteration.

    designs : for each tile (u + 2r + 1, m), the units' values, z, 1 and z²; outputs : for each tile
    (outputs, m).
    """

    leaf: LeafRows
    units: Units
    designs: list[FloatArray]
    outputs: list[FloatArray]


def settle(
    leaf: LeafRows,
    centers: Float64Array,
    log_scales: Float64Array,
    Q: Float64Array | None = None,
    outputs: list[FloatArray] | None = None,
    rounds: int = TARGET_ROUNDS,
) -> State:
    """Return the state with the optimal weights for these units.

    Q : (d, r), directions with z = Qᵀx; None if the leaf's rows are the points z themselves.
    outputs : outputs of a nearby state to start from, or None. rounds : updates of the working targets, each
    O(n (u + r)). Time O(n (u + r)²) for the rest.
    """
    u, r = centers.shape
    dtype = leaf.tiles[0].rows.dtype
    forms = denominators(centers, log_scales).astype(dtype)
    P = None if Q is None else np.ascontiguousarray(Q.T, dtype)
    even = leaf.mass / sum(one.rows.shape[1] for one in leaf.tiles) if leaf.even else 1.0

    designs, parts = [], []
    for tile in leaf.tiles:
        design = np.empty((u + 2 * r + 1, tile.rows.shape[1]), dtype)
        z = design[u : u + r]
        if P is None:
            z[:] = tile.rows
        else:
            np.matmul(P, tile.rows, out=z)
        design[u + r] = 1.0
        np.multiply(z, z, out=design[u + r + 1 :])
        if u:
            np.matmul(forms, design[u:], out=design[:u])
            bumps_in_place(design[:u])
        part = design[: u + r + 1] if leaf.even else design[: u + r + 1] * np.sqrt(tile.weights)
        designs.append(design)
        parts.append(part @ part.T)  # BLAS computes only half of it

    gram = np.asarray(np.sum(parts, axis=0, dtype=np.float64)) * even
    ridge = max(LINEAR_RIDGE, LINEAR_ROUNDING * float(np.finfo(dtype).eps)) * gram.diagonal().copy()
    ridge[:u] = WEIGHT_RIDGE * leaf.mass
    ridge += np.finfo(np.float64).tiny
    factor = None
    while factor is None:
        try:
            factor = la.cho_factor(gram + np.diag(ridge), check_finite=False)
        except la.LinAlgError:  # the rounding of many products outweighs the penalty
            if not np.isfinite(gram).all():
                raise
            ridge *= 10.0
    bounded = leaf.tiles[0].low is not None
    for _ in range(rounds):
        moments = []
        for at, tile in enumerate(leaf.tiles):
            targets = tile.values if outputs is None else tile.targets(outputs[at])
            moments.append((designs[at][: u + r + 1] @ (targets * tile.weights).T).astype(np.float64))
        solution = la.cho_solve(factor, np.sum(moments, axis=0), check_finite=False)
        weights = np.ascontiguousarray(solution.T, dtype)
        outputs = [weights @ design[: u + r + 1] for design in designs]
        if not bounded:
            break
    assert outputs is not None
    objective = 0.0
    for tile, out in zip(leaf.tiles, outputs, strict=True):
        left = tile.targets(out) - out
        objective += float(np.square(left).sum(axis=0, dtype=np.float64) @ tile.weights)
    objective += float((ridge @ np.square(solution)).sum())
    units = Units(centers, log_scales, solution[:u].T, solution[u:].T, objective)
    return State(leaf, units, designs, outputs)


def _product(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return A @ B; for one column and one row by broadcasting, which is three times faster than BLAS."""
    return A * B if len(B) == 1 else A @ B


def gradients(state: State, directions: bool = False) -> tuple[Float64Array, Float64Array | None]:
    r"""Return the gradients of the objective by [c, log s], shape (u, 2r), and by Q, shape (d, r).

    The weights A, B are the optimal ones for the units (variable projection), so the gradient of the squares
    may treat them as fixed. With φ = 1/(1 + q) the unit values, for which dφ/dq = −φ², r_i the residual and
    ρ_ij = w_i (A r_i)_j φ_ij²,

        ∂/∂c_jk = −4 s_jk² Σ_i ρ_ij (z_ik − c_jk),    ∂/∂log s_jk = 4 s_jk² Σ_i ρ_ij (z_ik − c_jk)²,
        ∂/∂z_ik = 4 Σ_j s_jk² ρ_ij (z_ik − c_jk) − 2 w_i (B_zᵀ r_i)_k,    ∂/∂Q = Σ_i x_i (∂/∂z_i)ᵀ.

    Source: Golub and Pereyra 1973 for the elimination. Time O(n u r), and O(n r d) for Q.
    """
    units = state.units
    u, r = units.centers.shape
    dtype = state.designs[0].dtype
    pulled = (2.0 * units.weights.T).astype(dtype)
    scales = np.exp(2.0 * units.log_scales)
    of_linear = np.ascontiguousarray(units.linear.T[:r], dtype)
    around = np.ascontiguousarray(np.hstack([scales * units.centers, scales]).T, dtype)

    sums, slopes = [], []
    for tile, design, outputs in zip(state.leaf.tiles, state.designs, state.outputs, strict=True):
        left = (tile.targets(outputs) - outputs) * tile.weights
        pull = _product(pulled, left)
        pull *= design[:u]
        pull *= design[:u]
        sums.append((pull @ design[u:].T).astype(np.float64))
        if directions:
            back = around @ pull
            of_z = back[r:] * design[u : u + r]
            of_z -= back[:r]
            of_z -= _product(of_linear, left)
            slopes.append((tile.rows @ of_z.T).astype(np.float64))
    of_units = np.sum(sums, axis=0)
    first, total, second = of_units[:, :r], of_units[:, r : r + 1], of_units[:, r + 1 :]
    of_centers = total * units.centers - first
    of_scales = second - units.centers * (2.0 * first - units.centers * total)
    of_own = 2.0 * np.hstack([scales * of_centers, scales * of_scales])
    of_Q = 2.0 * np.sum(slopes, axis=0) if directions else None
    return of_own, of_Q
