"""MINRES (minimal residuals) for symmetric systems that need not be positive definite."""

from __future__ import annotations

import warnings

import numpy as np

from gramian._checks import positive_number
from gramian._typing import Float64Array
from gramian.exceptions import AccuracyWarning, user_level
from gramian.solvers.krylov import CHECK_EVERY, Multiply
from gramian.solvers.solution import GRAVEST_FIRST, Solution, Status


def minimal_residual(multiply: Multiply, right: Float64Array, *, tol: float, max_iterations: int) -> Solution:
    r"""Solve A x = b for a symmetric, possibly indefinite A known by its products.

    Lanczos makes A tridiagonal, Givens rotations make that triangular, and x_k minimises ‖b − A x‖ over the
    Krylov space. Each column has its own recurrence; the columns share the products. The true residual is
    computed when all columns claim convergence, and every 1,000 iterations. A column whose claim turns out
    false restarts from there.

    multiply : V (m, q) → A V (m, q).
    right : b, (m,) or (m, p); not written to.
    tol : target of ‖b − A x‖/‖b‖ for every column.
    max_iterations : largest number of products with A, not counting the checks of the residual.

    Cost: one product and O(m p) per iteration, memory 8 m p numbers. Source: Paige and Saunders 1975.
    Warns ``AccuracyWarning`` if the tolerance is missed.

    >>> import numpy as np
    >>> A = np.diag([1.0, -2.0, 3.0])
    >>> minimal_residual(lambda V: A @ V, np.ones(3), tol=1e-10, max_iterations=10).value.round(3).tolist()
    [1.0, -0.5, 0.333]
    """
    positive_number("tol", tol, why="the target of the relative residual")
    b = np.asarray(right, np.float64)
    columns = b if b.ndim == 2 else b[:, None]
    scale = np.linalg.norm(columns, axis=0)
    used = np.flatnonzero(scale > 0)
    x = np.zeros((len(columns), len(used)))
    units = columns[:, used] / scale[used]
    status = [Status.LIMIT] * len(used)
    residual, before = np.ones(len(used)), np.full(len(used), np.inf)
    live, step = np.arange(len(used)), 0
    while live.size and step < max_iterations:
        left = units[:, live] - multiply(x[:, live]) if step else units[:, live]
        moved, count = _lanczos(multiply, left, residual[live], tol, max_iterations - step)
        step += count
        there = x[:, live] + moved
        true = np.linalg.norm(units[:, live] - multiply(there), axis=0)
        # Rounding can lead away from the solution, so the best x is kept.
        nearer = true < residual[live]
        x[:, live[nearer]], residual[live[nearer]] = there[:, nearer], true[nearer]
        # A restart that did not halve the residual is down to rounding error.
        done = true <= tol
        stuck = ~done & ~(true <= 0.5 * before[live])
        before[live] = true
        for column, size in zip(live[stuck], true[stuck], strict=True):
            status[column] = Status.STAGNATED if np.isfinite(size) else Status.NOT_FINITE
        for column in live[done]:
            status[column] = Status.CONVERGED
        live = live[~(done | stuck)]
    worst = next((s for s in GRAVEST_FIRST if s in status), Status.CONVERGED)
    largest = float(residual.max(initial=0.0))
    if not largest <= tol:
        warnings.warn(
            f"Minimal residuals ended with relative residual {largest:.2g}, above the target {tol:.2g}, "
            f"after {step} iterations: {worst.value}.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    out = np.zeros(columns.shape)
    out[:, used] = x * scale[used]
    return Solution(out.reshape(b.shape), worst, step, largest)


def _lanczos(
    multiply: Multiply, right: Float64Array, size: Float64Array, tol: float, max_iterations: int
) -> tuple[Float64Array, int]:
    """Run MINRES from x = 0 for all columns; return x with A x ≈ right, and the iterations.

    Stops when every column claims ‖b − A x‖ ≤ tol, starting from ``size``, or after 20 · CHECK_EVERY
    iterations.
    """
    x = np.zeros(right.shape)
    v_before, v = np.zeros_like(right), right
    beta = np.linalg.norm(v, axis=0)
    start = beta.copy()
    eta, beta_before = beta.copy(), np.ones_like(beta)
    c_before = c = np.ones_like(beta)
    s_before = s = np.zeros_like(beta)
    w_before, w = np.zeros_like(right), np.zeros_like(right)
    for step in range(1, max_iterations + 1):
        # A column whose Krylov space is exhausted has β = 0 and no longer changes.
        going = beta > 0
        unit = np.where(going, beta, 1.0)
        z = v / unit
        az = multiply(z)
        delta = np.einsum("ij,ij->j", z, az)
        v_next = az - v * (delta / unit) - v_before * (beta / beta_before)
        beta_next = np.linalg.norm(v_next, axis=0)
        a0 = c * delta - c_before * s * beta
        a1 = np.hypot(a0, beta_next)
        a2 = s * delta + c_before * c * beta
        a3 = s_before * beta
        safe = np.where(a1 > 0, a1, 1.0)
        c_before, c = c, np.where(a1 > 0, a0 / safe, 1.0)
        s_before, s = s, np.where(a1 > 0, beta_next / safe, 0.0)
        w_before, w = w, np.where(going & (a1 > 0), (z - w_before * a3 - w * a2) / safe, 0.0)
        x += w * np.where(going, c * eta, 0.0)
        eta = np.where(going, -s * eta, eta)
        v_before, v = v, v_next
        beta_before, beta = unit, np.where(going, beta_next, 0.0)
        fallen = np.abs(eta) <= tol / np.maximum(size, tol) * start
        if (fallen | (beta <= 0)).all() or step % (CHECK_EVERY * 20) == 0:
            return x, step
    return x, max_iterations
