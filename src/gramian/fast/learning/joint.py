"""Joint training of directions and the units of all leaves: quasi-Newton with the weights eliminated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from gramian._typing import Float64Array, FloatArray
from gramian.engine import Engine, one_blas_thread
from gramian.fast.learning.leaves import MEMORY, reduced
from gramian.fast.learning.units import Targets, Units, flattest, settle, sharpest


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Rows of a leaf, centred and in units of the features' spread, float32 (n, d), and their targets."""

    rows: FloatArray
    targets: Targets


def learn_together(
    Q: Float64Array, leaves: list[Units], sets: list[LeafRows], rounds: int, engine: Engine
) -> tuple[Float64Array, list[Units]]:
    r"""Improve directions Q (d, r) and the units of every leaf so that Σ_i w_i ‖t_i − f(Qᵀx_i)‖² falls.

    The variables are Q and the centres c_j and log scales log s_j of all leaves. For given variables each
    leaf's weights A, B are the optimal ones (variable projection), so the gradient of the squares may treat
    them as fixed. With φ_ij the unit values, r_i the residual and ρ_ij = w_i (A r_i)_j φ_ij, the gradients
    beyond those of :func:`.leaves.reduced` are

        ∂/∂z_i = 4 Σ_j s_j² ρ_ij (z_i − c_j) − 2 w_i B_zᵀ r_i,    ∂/∂Q = Σ_i x_i (∂/∂z_i)ᵀ.

    Centres are measured in units of their first widths. Runs at most ``rounds`` iterations of limited-memory
    BFGS: stopping early keeps Q near the teacher's metric. Time O(n r (d + u)) a round, memory O(n u) for the
    leaf that a thread works on, besides the rows. Source: Golub and Pereyra 1973 for the elimination.
    """
    d, r = Q.shape
    flat = [flattest(_points(leaf, Q)) for leaf in sets]
    widths = [np.maximum(leaf.log_scales, least) for leaf, least in zip(leaves, flat, strict=True)]
    reach = [np.exp(log_scales) for log_scales in widths]
    sizes = [len(leaf.centers) for leaf in leaves]
    ends = d * r + np.cumsum([0, *((r + 1) * u for u in sizes)])
    outputs: list[Float64Array | None] = [None] * len(leaves)

    def parts(theta: Float64Array, s: int) -> tuple[Float64Array, Float64Array]:
        own = theta[ends[s] : ends[s + 1]].reshape(sizes[s], r + 1)
        return own[:, :r] / reach[s][:, None], own[:, r].copy()

    def evaluate(theta: Float64Array) -> tuple[float, Float64Array]:
        current = theta[: d * r].reshape(d, r)

        def one(s: int) -> tuple[float, Float64Array, Float64Array]:
            centers, log_scales = parts(theta, s)
            value, of_q, of_own, found = _reduced(sets[s], current, centers, log_scales, outputs[s])
            outputs[s] = found
            of_own[:, :r] /= reach[s][:, None]
            return value, of_q, of_own

        results = engine.map(one, range(len(leaves)))
        gradient = np.concatenate(
            [
                np.sum([found[1] for found in results], axis=0).ravel(),
                *(found[2].ravel() for found in results),
            ]
        )
        return sum(found[0] for found in results), gradient

    start = np.concatenate(
        [Q.ravel()]
        + [
            np.column_stack([leaf.centers * own[:, None], log_scales]).ravel()
            for leaf, own, log_scales in zip(leaves, reach, widths, strict=True)
        ]
    )
    lowest, highest = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    for s, leaf in enumerate(sets):
        least, most = (
            bound[ends[s] : ends[s + 1]].reshape(sizes[s], r + 1)[:, r] for bound in (lowest, highest)
        )
        least[:], most[:] = flat[s], np.maximum(sharpest(_points(leaf, Q)), widths[s])
    bounds = Bounds(lowest, highest)
    # These vectors are so short that several BLAS threads would only wait for each other.
    with one_blas_thread():
        found = minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": MEMORY},
        )
    learned = found.x[: d * r].reshape(d, r)

    def final(s: int) -> Units:
        centers, log_scales = parts(found.x, s)
        points = _points(sets[s], learned)
        return settle(points, sets[s].targets, centers, log_scales, outputs[s]).units

    return learned, engine.map(final, range(len(leaves)))


def _points(leaf: LeafRows, Q: Float64Array) -> Float64Array:
    return np.asarray(leaf.rows @ Q.astype(np.float32), np.float64)


def _reduced(
    leaf: LeafRows,
    Q: Float64Array,
    centers: Float64Array,
    log_scales: Float64Array,
    outputs: Float64Array | None,
) -> tuple[float, Float64Array, Float64Array, Float64Array]:
    """Return the objective with the best weights, its gradients by Q and by [c, log s], and the outputs."""
    z = _points(leaf, Q)
    state, of_own, pull = reduced(z, leaf.targets, centers, log_scales, outputs)
    u, r = centers.shape
    of_z = pull.sum(axis=1)[:, None] * z
    of_z -= pull @ centers
    of_z -= (state.residual * leaf.targets.weights[:, None]) @ state.solution[u : u + r].T
    of_q = leaf.rows.T @ (2.0 * of_z).astype(np.float32)
    return state.objective, np.asarray(of_q, np.float64), of_own, state.outputs
