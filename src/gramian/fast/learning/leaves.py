"""Training of the units of one leaf: quasi-Newton with the weights eliminated."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, minimize

from gramian._typing import Float64Array
from gramian.fast.learning.units import State, Targets, Units, flattest, settle, sharpest

#: Pairs of steps and gradients that limited-memory BFGS keeps. Chosen by hand.
MEMORY = 20


def learn_alone(points: Float64Array, targets: Targets, units: Units, rounds: int) -> Units:
    """Improve the units of one leaf so that Σ_i w_i ‖t_i − f(z_i)‖² falls, at fixed points z (n, r).

    Runs at most ``rounds`` iterations of limited-memory BFGS on the centres, in units of their first widths,
    and the log scales, with the gradients of :func:`reduced`. Unlike in :func:`.joint.learn_together` the
    leaf has its own step length and quasi-Newton matrix. Time O(n u (r + u)) a round, memory O(n (u + r)).
    """
    u, r = units.centers.shape
    if not u:
        return settle(points, targets, units.centers, units.log_scales, None).units
    flat = flattest(points)
    log_scales = np.maximum(units.log_scales, flat)
    reach = np.exp(log_scales)
    outputs: Float64Array | None = None

    def parts(theta: Float64Array) -> tuple[Float64Array, Float64Array]:
        own = theta.reshape(u, r + 1)
        return own[:, :r] / reach[:, None], own[:, r].copy()

    def evaluate(theta: Float64Array) -> tuple[float, Float64Array]:
        nonlocal outputs
        state, of_own, _ = reduced(points, targets, *parts(theta), outputs)
        outputs = state.outputs
        of_own[:, :r] /= reach[:, None]
        return state.objective, of_own.ravel()

    start = np.column_stack([units.centers * reach[:, None], log_scales])
    highest = np.full(start.shape, np.inf)
    highest[:, r] = np.maximum(sharpest(points), log_scales)
    lowest = np.full(start.shape, -np.inf)
    lowest[:, r] = flat
    found = minimize(
        evaluate,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lowest.ravel(), highest.ravel()),
        options={"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": MEMORY},
    )
    return settle(points, targets, *parts(found.x), outputs).units


def reduced(
    z: Float64Array,
    targets: Targets,
    centers: Float64Array,
    log_scales: Float64Array,
    outputs: Float64Array | None,
) -> tuple[State, Float64Array, Float64Array]:
    r"""Return the state with optimal weights, its gradient by [c, log s] (u, r + 1), and 2 s_j² ρ_ij (n, u).

    outputs : outputs of a nearby state to start from, or None. With φ_ij the unit values, r_i the residual
    and ρ_ij = w_i (A r_i)_j φ_ij, the gradient is that of the squares at fixed weights (Golub and Pereyra
    1973),

        ∂/∂c_j = −4 s_j² Σ_i ρ_ij (z_i − c_j),    ∂/∂log s_j = 4 s_j² Σ_i ρ_ij ‖z_i − c_j‖².
    """
    state = settle(z, targets, centers, log_scales, outputs)
    u, r = centers.shape
    left = state.residual * targets.weights[:, None]
    pull = left @ state.solution[:u].T
    pull *= state.design[:, :u]
    pull *= 2.0 * np.exp(2.0 * log_scales)
    total = pull.sum(axis=0)
    first = pull.T @ z
    of_own = np.empty((u, r + 1))
    of_own[:, :r] = 2.0 * (total[:, None] * centers - first)
    lengths = np.einsum("ij,ij->i", z, z) @ pull
    lengths += np.einsum("ij,ij->i", centers, centers) * total
    lengths -= 2.0 * np.einsum("ij,ij->i", first, centers)
    of_own[:, r] = 2.0 * lengths
    return state, of_own, pull
