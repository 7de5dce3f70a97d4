"""Kernel units of leaves: their start and their training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, FloatArray
from gramian.engine import one_blas_thread
from gramian.fast.learning.loss import LeafRows, State, Units, gradients, settle
from gramian.fast.learning.training_set import TrainingSet
from gramian.landmarks.rules import lloyd

#: Sets the first scale of the units: s² = START_SPREAD / (2 · mean squared distance to the nearest centre).
#: Chosen by hand, as are the next constants.
START_SPREAD = 1.0
#: Lloyd iterations for the first centres, the most rows for them, and updates of the first working targets.
CENTRE_ROUNDS, CENTRE_ROWS, START_TARGET_ROUNDS = 8, 20_000, 20
#: Largest s² in units of 1/mean ‖z‖². A prediction sums terms of this size in float32 for q = s²‖z − c‖², so
#: the error of a unit, 1/(1 + q), stays near 2,000 · 2⁻²³ = 2e-4.
SHARPEST = 2_000.0
#: Pairs of steps and gradients that limited-memory BFGS keeps. Chosen by hand, as are the next constants.
MEMORY = 20
#: Iterations between looks at held-out rows, and looks without progress after which a minimisation ends.
LOOK, PATIENCE = 4, 4


def first_units(own: TrainingSet, n_units: int, rng: np.random.Generator) -> Units:
    """Return units to start from: k-means centres, one common scale, optimal weights.

    own : the rows of a leaf, which are the points z, (n, r); n_units : u, at most n are used; 0 gives the
    linear part alone. Time O(n u r + n u²).
    """
    n, r = own.rows.shape
    n_units = min(n_units, n)
    leaf = LeafRows.of(own)
    if n_units:
        some = np.arange(n) if n <= CENTRE_ROWS else rng.choice(n, CENTRE_ROWS, replace=False)
        drawn = own.rows[some]
        centers = np.asarray(lloyd(drawn, n_units, CENTRE_ROUNDS, rng), np.float64)
        near = _nearest_squares(drawn, centers)
        spread = float(np.average(near, weights=own.weights[some]))
        spread = max(spread, float(np.finfo(np.float64).tiny))
        sharpest = scale_limits(leaf)[1]
        scales = np.full(centers.shape, min(0.5 * np.log(START_SPREAD / (2.0 * spread)), sharpest))
    else:
        centers, scales = np.zeros((0, r)), np.zeros((0, r))
    return settle(leaf, centers, scales, rounds=START_TARGET_ROUNDS).units


def scale_limits(leaf: LeafRows, Q: Float64Array | None = None) -> tuple[float, float]:
    """Return the limits of log s: below the first a unit is 1 at all points up to rounding.

    The second is the largest that float32 predicts accurately. Both are 0 if all points are the origin.
    """
    points = (one.rows if Q is None else Q.T.astype(one.rows.dtype) @ one.rows for one in leaf.tiles)
    squares = sum([float(np.vdot(z, z)) for z in points])
    size = squares / sum(one.rows.shape[1] for one in leaf.tiles)  # mean of ‖z‖²
    if not size > 0:
        return 0.0, 0.0
    return 0.5 * float(np.log(unit_roundoff(np.float64) / size)), 0.5 * float(np.log(SHARPEST / size))


def _nearest_squares(points: FloatArray, centers: Float64Array) -> FloatArray:
    squares = np.einsum("ij,ij->i", points, points)[:, None] - 2.0 * points @ centers.T
    squares += np.einsum("ij,ij->i", centers, centers)
    return np.maximum(squares.min(axis=1), 0.0)


#: Function from directions and the units of all leaves to their loss on held-out rows.
Watch = Callable[[Float64Array, list[Units]], float]


@dataclass(frozen=True)
class Limit:
    """The most iterations of a minimisation, and when (``time.perf_counter``) the last of them may begin."""

    rounds: int
    deadline: float = math.inf


def learn_units(
    leaves: list[Units],
    sets: list[LeafRows],
    limit: Limit,
    Q: Float64Array | None = None,
    watch: Watch | None = None,
) -> tuple[Float64Array, list[Units]]:
    r"""Improve the units of leaves, and directions Q (d, r), so that Σ_i w_i ‖t_i − f(Qᵀx_i)‖² falls.

    Without Q the rows of the leaves are the points z, and the directions that are returned are empty. The
    variables are Q and, for all leaves, the log scales log s_j and the centres c_j in units of the first
    widths; the gradients are those of :func:`.loss.gradients`. The bounds of log s keep a unit from being
    flat, or sharper than float32 predicts. Runs iterations of limited-memory BFGS, up to a limit; with
    ``watch`` until the loss on held-out rows stops falling, and returns the iterate where it was least. Time
    O(n r (d + u) + n u²) a round, memory O(n u) for one leaf, besides the rows.
    """
    r, size = leaves[0].centers.shape[1], 0 if Q is None else Q.size
    shape = (0, 0) if Q is None else Q.shape
    counts = [len(units.centers) for units in leaves]
    ends = np.cumsum([0, *counts])
    lowest, sharpest = np.repeat([scale_limits(leaf, Q) for leaf in sets], counts, axis=0).T[:, :, None]
    first_scales = np.maximum(np.concatenate([units.log_scales for units in leaves]), lowest)
    reach = np.exp(first_scales)
    first_centers = np.concatenate([units.centers for units in leaves]) * reach
    free = np.full_like(reach, np.inf)
    low = np.column_stack([-free, np.broadcast_to(lowest, reach.shape)]).ravel()
    high = np.column_stack([free, np.maximum(sharpest, first_scales)]).ravel()
    start = np.concatenate(
        [np.zeros(0) if Q is None else Q.ravel(), np.column_stack([first_centers, first_scales]).ravel()]
    )
    outputs: list[list[FloatArray] | None] = [None] * len(leaves)
    current, best = list(leaves), (math.inf, np.zeros(shape) if Q is None else Q, leaves)
    iterations = since = 0

    def settle_leaf(s: int, theta: Float64Array) -> State:
        """Return the state of a leaf, from the outputs of its last one."""
        directions = None if Q is None else theta[:size].reshape(shape)
        mine = slice(ends[s], ends[s + 1])
        own = theta[size:].reshape(-1, 2 * r)[mine]
        state = settle(sets[s], own[:, :r] / reach[mine], own[:, r:].copy(), directions, outputs[s])
        outputs[s] = state.outputs
        return state

    def evaluate(theta: Float64Array) -> tuple[float, Float64Array]:
        objective, slopes, of_Q = 0.0, [], []
        for s in range(len(sets)):
            state = settle_leaf(s, theta)
            current[s] = state.units
            of_own, of_directions = gradients(state, directions=Q is not None)
            objective += state.units.objective
            slopes.append(of_own)
            of_Q.append(np.zeros(shape) if of_directions is None else of_directions)
            del state  # so that the designs of one leaf are in memory, not of two
        of_units = np.concatenate(slopes)
        of_units[:, :r] /= reach
        return objective, np.concatenate([np.sum(of_Q, axis=0).ravel(), of_units.ravel()])

    def look(intermediate_result: OptimizeResult) -> None:
        """Stop if the time is over, or if the loss on the held-out rows has not fallen for some time."""
        nonlocal best, iterations, since
        iterations += 1
        if time.perf_counter() >= limit.deadline:
            raise StopIteration
        if watch is None or iterations % LOOK:
            return
        directions = intermediate_result.x[:size].reshape(shape).copy()
        loss = watch(directions, list(current))
        since = 0 if loss < best[0] else since + 1
        best = min(best, (loss, directions, list(current)), key=lambda one: one[0])
        if since >= PATIENCE:
            raise StopIteration

    # The arrays of a leaf are so small that two threads took twice as long as one, in BLAS or beside it.
    with one_blas_thread():
        theta = start
        if len(start):
            theta = minimize(
                evaluate,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(np.append(np.full(size, -np.inf), low), np.append(np.full(size, np.inf), high)),
                callback=look,
                options={"maxiter": limit.rounds, "maxfun": 2 * limit.rounds, "maxcor": MEMORY},
            ).x
        learned, ended = (
            theta[:size].reshape(shape),
            [settle_leaf(s, theta).units for s in range(len(sets))],
        )
        if watch is None or watch(learned, ended) < best[0]:
            return learned, ended
    return best[1:]
