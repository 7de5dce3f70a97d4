"""Kernel units of a leaf: their model, their start, and their training, alone or together with all leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, FloatArray
from gramian.engine import Engine, one_blas_thread
from gramian.fast.learning.loss import LeafRows, Over, State, gradients, settle
from gramian.fast.learning.training_set import TrainingSet
from gramian.fast.serving.predictor import denominators
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
    return Units.of(settle(leaf, centers, scales, rounds=START_TARGET_ROUNDS))


def scale_limits(leaf: LeafRows, Q: Float64Array | None = None) -> tuple[float, float]:
    """Return the limits of log s: below the first a unit is 1 at all points up to rounding.

    The second is the largest that float32 predicts accurately. Both are 0 if all points are the origin.
    """
    size = leaf.size(Q)
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
    until: float = math.inf


class Variables:
    """The numbers of one leaf that are learned: [c, log s] (u, 2r), centres in units of the first widths.

    lowest, highest : bounds of log s, within which a unit is neither flat nor sharper than float32 predicts.
    """

    def __init__(self, units: Units, leaf: LeafRows, Q: Float64Array | None = None) -> None:
        u, r = units.centers.shape
        self.shape = (u, 2 * r)
        self.lowest, sharpest = scale_limits(leaf, Q)
        log_scales = np.maximum(units.log_scales, self.lowest)
        self.highest = np.maximum(sharpest, log_scales)
        self.reach = np.exp(log_scales)
        self.start = np.column_stack([units.centers * self.reach, log_scales]).ravel()

    def parts(self, theta: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return centres and log scales."""
        own = theta.reshape(self.shape)
        r = own.shape[1] // 2
        return own[:, :r] / self.reach, own[:, r:].copy()

    def gradient(self, of_own: Float64Array) -> Float64Array:
        """Return the gradient by the variables from that by [c, log s]."""
        r = of_own.shape[1] // 2
        return np.column_stack([of_own[:, :r] / self.reach, of_own[:, r:]]).ravel()

    def bounds(self) -> tuple[Float64Array, Float64Array]:
        """Return the bounds of every variable."""
        low, high = np.full(self.shape, -np.inf), np.full(self.shape, np.inf)
        r = self.shape[1] // 2
        low[:, r:], high[:, r:] = self.lowest, self.highest
        return low.ravel(), high.ravel()


def learn_alone(leaf: LeafRows, units: Units, limit: Limit, over: Over = map) -> Units:
    """Improve the units of one leaf so that Σ_i w_i ‖t_i − f(z_i)‖² falls; the leaf's rows are the points z.

    Runs iterations of limited-memory BFGS, up to a limit, with the gradients of :func:`.loss.gradients`.
    Unlike in :func:`learn_together` the leaf has its own step length and quasi-Newton matrix. Time
    O(n u (r + u)) a round, memory O(n (u + r)).
    """
    if not len(units.centers):
        return Units.of(settle(leaf, units.centers, units.log_scales, over=over))
    own = Variables(units, leaf)
    outputs: list[FloatArray] | None = None

    def evaluate(theta: Float64Array) -> tuple[float, Float64Array]:
        nonlocal outputs
        state = settle(leaf, *own.parts(theta), None, outputs, over=over)
        outputs = state.outputs
        return state.objective, own.gradient(gradients(state, over=over)[0])

    found = _minimize(evaluate, own.start, own.bounds(), limit)
    return Units.of(settle(leaf, *own.parts(found), None, outputs, over=over))


def learn_together(
    Q: Float64Array,
    leaves: list[Units],
    sets: list[LeafRows],
    limit: Limit,
    engine: Engine,
    watch: Watch | None = None,
) -> tuple[Float64Array, list[Units]]:
    r"""Improve directions Q (d, r) and the units of every leaf so that Σ_i w_i ‖t_i − f(Qᵀx_i)‖² falls.

    The variables are Q and the centres c_j and log scales log s_j of all leaves, the gradients those of
    :func:`.loss.gradients`. Runs iterations of limited-memory BFGS, up to a limit; with ``watch`` until the
    loss on held-out rows stops falling, and returns the iterate where it was least. Time
    O(n r (d + u) + n u²) a round, memory O(n u) for the leaf that a thread works on, besides the rows.
    """
    owns = [Variables(units, leaf, Q) for units, leaf in zip(leaves, sets, strict=True)]
    ends = Q.size + np.cumsum([0, *(len(own.start) for own in owns)])
    outputs: list[list[FloatArray] | None] = [None] * len(leaves)
    current_leaves, best = list(leaves), (math.inf, Q, leaves)
    looks = since = 0

    def mine(theta: Float64Array, s: int) -> tuple[Float64Array, Float64Array]:
        return owns[s].parts(theta[ends[s] : ends[s + 1]])

    def evaluate(theta: Float64Array) -> tuple[float, Float64Array]:
        current = theta[: Q.size].reshape(Q.shape)

        def one(s: int) -> tuple[float, Float64Array, Float64Array]:
            state = settle(sets[s], *mine(theta, s), current, outputs[s], over=engine.map)
            outputs[s], current_leaves[s] = state.outputs, Units.of(state)
            of_own, of_Q = gradients(state, directions=True, over=engine.map)
            assert of_Q is not None
            return state.objective, of_Q, owns[s].gradient(of_own)

        # Inside a task of the engine, tiles are computed one after the other; one leaf is thus no task.
        results = engine.map(one, range(len(leaves))) if len(leaves) > 1 else [one(0)]
        of_Q = np.sum([found[1] for found in results], axis=0).ravel()
        return sum(found[0] for found in results), np.concatenate([of_Q, *(found[2] for found in results)])

    def look(theta: Float64Array) -> bool:
        """Return whether the held-out rows say that it is time to stop."""
        nonlocal best, looks, since
        looks += 1
        if watch is None or looks % LOOK:
            return False
        directions = theta[: Q.size].reshape(Q.shape).copy()
        loss = watch(directions, list(current_leaves))
        since = 0 if loss < best[0] else since + 1
        best = min(best, (loss, directions, list(current_leaves)), key=lambda one: one[0])
        return since >= PATIENCE

    bounds = [own.bounds() for own in owns]
    free = np.full(Q.size, np.inf)
    found = _minimize(
        evaluate,
        np.concatenate([Q.ravel(), *(own.start for own in owns)]),
        (
            np.concatenate([-free, *(low for low, _ in bounds)]),
            np.concatenate([free, *(high for _, high in bounds)]),
        ),
        limit,
        look,
    )
    learned = found[: Q.size].reshape(Q.shape)

    def final(s: int) -> Units:
        return Units.of(settle(sets[s], *mine(found, s), learned, outputs[s], over=engine.map))

    ended = engine.map(final, range(len(leaves))) if len(leaves) > 1 else [final(0)]
    if watch is None or watch(learned, ended) < best[0]:
        return learned, ended
    return best[1:]


def _minimize(
    evaluate: Callable[[Float64Array], tuple[float, Float64Array]],
    start: Float64Array,
    bounds: tuple[Float64Array, Float64Array],
    limit: Limit,
    stop: Callable[[Float64Array], bool] = lambda theta: False,
) -> Float64Array:
    def in_time(intermediate_result: OptimizeResult) -> None:
        if time.perf_counter() >= limit.until or stop(intermediate_result.x):
            raise StopIteration

    # These vectors are so short that several BLAS threads would only wait for each other.
    with one_blas_thread():
        found = minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(*bounds),
            callback=in_time,
            options={"maxiter": limit.rounds, "maxfun": 2 * limit.rounds, "maxcor": MEMORY},
        )
    return np.asarray(found.x)
