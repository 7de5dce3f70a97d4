"""Block sketch-and-project: steps on a few thousand rows, for data where a product with K is too slow."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import DTypeLike

from gramian._lapack import cho_solve
from gramian._numerics import cholesky_lower
from gramian._typing import Float64Array, IntArray
from gramian.exact.blocks import balanced_blocks
from gramian.exact.system import ExactSystem
from gramian.exceptions import AccuracyWarning, user_level
from gramian.operators.kernel import KernelOperator
from gramian.solvers.solution import Solution, Status

#: Number of passes over the rows between two computations of the true residual. Chosen by hand.
LOOK_EVERY = 4
#: The iteration counts as diverging if the true residual is this many times the smallest so far. By hand.
DIVERGED = 10.0
#: Smallest and largest number of rows of a block. Chosen by hand.
LEAST_BLOCK, MOST_BLOCK = 500, 8192


def block_rows(n: int, memory_bytes: int) -> int:
    """Return the rows of a block: a hundredth of all, fewer if memory cannot hold two squares of them."""
    most = min(MOST_BLOCK, n, max(1, int((memory_bytes / 32.0) ** 0.5)))
    return int(np.clip(n // 100, min(LEAST_BLOCK, most), most))


def sketch_and_project(
    system: ExactSystem,
    right: Float64Array,
    *,
    block: int,
    tol: float,
    max_passes: int,
    rng: np.random.Generator,
    start: Float64Array | None = None,
    time_limit: float | None = None,
    progress: Callable[[Solution], bool | None] | None = None,
) -> Solution:
    r"""Solve (K + D) a = y by exact solves on blocks of rows, with acceleration.

    A pass goes over all rows in blocks. Odd passes use blocks of random rows, which capture global structure.
    Even passes use blocks of nearby rows (:func:`balanced_blocks`), which capture local structure. On
    pendigits (gamma 1, alpha 0.01, 8,000 rows, blocks of 400) 16 passes leave a residual of 3e-4; with random
    blocks alone it is 2e-3. A step takes the next block S, computes the residual there,
    g = (K + D)_{S,:} z − y_S, solves (K_SS + D_SS) δ = g by Cholesky, and moves by −δ on S. This is block
    coordinate descent, accelerated after Nesterov with

        β = 1 − √(μ/ν),   γ = 1/√(μν),   η = 1/(1 + γν),   μ = min D, ν = n/b (μ ≤ ν, μν ≤ 1).

    for blocks of b rows. A step computes n b kernel values and a pass n², as many as two products of
    conjugate gradients. Every block makes progress, so there is an answer even if time is too short for many
    products. Every four passes, and at the end, the true residual is computed (n²/2 values in float64), and
    the iterate with the smallest one is returned. If the residual has grown tenfold over the smallest,
    rounding makes the iteration diverge: it continues from the best iterate with float64 tiles, or stops if
    it already had them.

    Memory 8·(2 b² + 7 n p) bytes. Source: Rathore, Frangella, Yang, Dereziński and Udell 2025 (ASkotch, here
    with the block's own matrix in place of its Nyström approximation); Gower and Richtárik 2015.
    """
    n, p = right.shape
    scale = np.linalg.norm(right, axis=0)
    scale[~(scale > 0)] = 1.0
    b = right / scale
    w = np.zeros((n, p)) if start is None else start / scale
    best, least = w, float(np.linalg.norm(b, axis=0).max(initial=0.0))
    if start is not None:
        least = _residual(system, b, w)
    v, z, dtype = w.copy(), w.copy(), system.dtype
    blocks = balanced_blocks(system.rows, system.kernel, block, rng, system.engine)
    nearby = [np.sort(blocks.order[part]) for part in blocks.slices]
    ratio = n / min(block, n)
    strength = min(float(system.shift.min()), ratio, 1.0 / ratio)
    beta = 1.0 - float(np.sqrt(strength / ratio))
    gamma = 1.0 / float(np.sqrt(strength * ratio))
    eta = 1.0 / (1.0 + gamma * ratio)
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    status, passes, steps = Status.LIMIT, 0, 0
    while passes < max_passes and status is Status.LIMIT:
        for rows in _blocks(n, block, nearby if passes % 2 else [], rng):
            step = _step(system, b, z, rows, dtype)
            moved = z.copy()
            moved[rows] -= step
            v = beta * v + (1.0 - beta) * z
            v[rows] -= gamma * step
            w = moved
            z = eta * v + (1.0 - eta) * w
            steps += 1
            if deadline is not None and time.perf_counter() >= deadline:
                status = Status.TIME
                break
        passes += 1
        if progress is not None and progress(Solution(w * scale, Status.PAUSED, passes, least)):
            status = Status.PAUSED
        if passes % LOOK_EVERY and passes < max_passes and status is Status.LIMIT:
            continue
        residual = _residual(system, b, w)
        if residual < least:
            best, least = w, residual
        if least <= tol:
            status = Status.CONVERGED
        elif status is Status.LIMIT and not residual <= DIVERGED * least:
            if np.dtype(dtype) == np.float64:
                status = Status.STAGNATED if np.isfinite(residual) else Status.NOT_FINITE
            w, v, z, dtype = best, best.copy(), best.copy(), np.float64
    if not least <= tol and status is not Status.PAUSED:
        warnings.warn(
            f"Sketch-and-project ended with relative residual {least:.2g}, above the target {tol:.2g}, "
            f"after {steps} blocks ({passes} passes): {status.value}.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return Solution(best * scale, status, steps, least)


def _blocks(n: int, block: int, given: list[IntArray], rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the given blocks in random order, or blocks cut from a random order of the rows."""
    if given:
        yield from (given[i] for i in rng.permutation(len(given)))
        return
    order = rng.permutation(n)
    for start in range(0, n, block):
        yield np.sort(order[start : start + block])


def _step(
    system: ExactSystem, b: Float64Array, z: Float64Array, rows: IntArray, dtype: DTypeLike
) -> Float64Array:
    """Return (K_SS + D_SS)⁻¹ ((K + D)_{S,:} z − b_S) for the rows S, with tiles of the given dtype."""
    points, shift = system.rows[rows], system.shift[rows]
    across = KernelOperator(system.kernel, points, system.rows, dtype=dtype, n_jobs=system.engine.n_jobs)
    gradient = across @ z + shift[:, None] * z[rows] - b[rows]
    square = np.asarray(system.kernel(points, dtype=np.float64, n_jobs=system.engine.n_jobs), np.float64)
    square.flat[:: len(square) + 1] += shift
    system.evaluations += across.evaluations + square.size
    system.held = max(system.held, 2 * square.nbytes)
    lower, _ = cholesky_lower(square, "a block of K + alpha·I", warn=False)
    return np.asarray(cho_solve(lower, gradient))


def _residual(system: ExactSystem, b: Float64Array, w: Float64Array) -> float:
    return float(np.linalg.norm(b - system.accurate(w), axis=0).max(initial=0.0))
