"""Block conjugate gradients and MINRES for many right-hand sides at once, with true residuals at exit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg as la

from gramian._checks import positive_number
from gramian._numerics import DIRECTION_CUTOFF
from gramian._typing import Float64Array
from gramian.exceptions import AccuracyWarning, user_level
from gramian.solvers.solution import GRAVEST_FIRST, Solution, Status

#: Iterations between two recomputations of the true residual. Chosen by hand.
CHECK_EVERY = 50
#: A column is given up after this many iterations in which the true residual did not halve. Chosen by hand.
PATIENCE = 1000
#: The residual is recomputed once the rounding of the products may have reached this share of it. Chosen by
#: hand.
DRIFT = 0.25
#: The rounding of the products is first measured once the residual has fallen by this factor. Chosen by hand.
FIRST_LOOK = 1e-3
#: A residual with rounding error counts as converged below this share of the tolerance, subject to a check
#: with accurate products. Chosen by hand.
CLAIM = 0.9

Multiply = Callable[[Float64Array], Float64Array]


def conjugate_gradient(
    multiply: Multiply,
    right: Float64Array,
    *,
    precondition: Multiply | None = None,
    accurate: Multiply | None = None,
    start: Float64Array | None = None,
    tol: float,
    max_iterations: int,
    time_limit: float | None = None,
    progress: Callable[[Solution], bool | None] | None = None,
) -> Solution:
    r"""Solve A x = b for a symmetric positive definite A known by its products.

    All columns share one block of search directions P, made conjugate to the last block, with

        X += P γ,   R −= A P γ,   γ = (PᵀAP)⁻¹ PᵀR,   P ← orth(Z − P (PᵀAP)⁻¹ (AP)ᵀZ),   Z = M⁻¹R,

    Directions that have become dependent are left out. p right-hand sides need fewer steps together than each
    alone, and right-hand sides that are multiples of each other do no harm.

    A column is done when its *true* residual b − A x is at most tol·‖b‖. The recursive residual is replaced
    by the true one every 50 iterations and when it claims convergence. If ``multiply`` is rounded more than
    ``accurate``, it is replaced once all columns claim convergence, and as soon as rounding may be a quarter
    of it. The directions are kept. In this way products in float32 reach the accuracy of float64.

    Parameters
    ----------
    multiply : callable
        V (m, q) → A V (m, q).
    right : ndarray of shape (m,) or (m, p)
        b; not written to.
    precondition : callable, optional
        V → M⁻¹ V with M ≈ A symmetric positive definite.
    accurate : callable, optional
        Like ``multiply``, but as accurate as the answer shall be; called for true residuals only.
    start : ndarray of the shape of ``right``, optional
        x to start from, such as that of a checkpoint; 0 where left out.
    tol : float
        Target of ‖b − A x‖/‖b‖ for every column.
    max_iterations : int
        Largest number of products with A, not counting the checks of the residual.
    time_limit : float, optional
        Seconds, after which no further iteration is begun.
    progress : callable, optional
        Called after every iteration with x so far and the residual of the recursion. If it returns True the
        iteration stops with status ``PAUSED`` and without a warning.

    Returns
    -------
    Solution
        ``status`` is that of the worst column; ``residual`` is recomputed at exit.

    Cost: one product and O(m p²) per iteration, memory 6 m p numbers. Source: O'Leary 1980; dependent
    directions are left out as in Ji and Li 2017; residual replacement as in van der Vorst and Ye 2000. If the
    tolerance is missed, an ``AccuracyWarning`` gives residual, target and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, 4.0, 9.0])
    >>> s = conjugate_gradient(lambda V: A @ V, np.ones(3), tol=1e-10, max_iterations=10)
    >>> s.value.round(3).tolist(), s.iterations
    ([1.0, 0.25, 0.111], 3)
    """
    positive_number("tol", tol, why="the target of the relative residual")
    b = np.asarray(right, np.float64)
    columns = b if b.ndim == 2 else b[:, None]
    scale = np.linalg.norm(columns, axis=0)
    live = np.flatnonzero(scale > 0)
    x = np.zeros(columns.shape)
    run = _KrylovRun(multiply, accurate, precondition, columns[:, live] / scale[live], tol)
    if start is not None:
        run.begin(np.asarray(start, np.float64).reshape(columns.shape)[:, live] / scale[live])
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    iterations = 0
    while run.live.size and not run.check(iterations):
        if iterations >= max_iterations:
            run.stop(Status.LIMIT)
        elif deadline is not None and time.perf_counter() >= deadline:
            run.stop(Status.TIME)
        elif run.step():
            iterations += 1
            if progress is not None:
                x[:, live] = run.x * scale[live]
                if progress(Solution(x.reshape(b.shape), Status.PAUSED, iterations, run.claimed)):
                    run.stop(Status.PAUSED)
    x[:, live] = run.x * scale[live]
    x = x.reshape(b.shape)
    worst = min(run.status, key=GRAVEST_FIRST.index, default=Status.CONVERGED)
    if worst is Status.PAUSED:
        return Solution(x, worst, iterations, run.claimed)
    return _ended("Conjugate gradients", Solution(x, worst, iterations, run.residual()), tol)


def _ended(method: str, solved: Solution, tol: float) -> Solution:
    """Return the solution; warn if its residual is above the target."""
    if not solved.residual <= tol:
        warnings.warn(
            f"{method} ended with relative residual {solved.residual:.2g}, above the target {tol:.2g}, after "
            f"{solved.iterations} iterations: {solved.status.value}.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return solved


class _KrylovRun:
    """Columns of one solve, scaled so that every right-hand side has norm 1."""

    def __init__(
        self,
        multiply: Multiply,
        accurate: Multiply | None,
        precondition: Multiply | None,
        b: Float64Array,
        tol: float,
    ) -> None:
        self._multiply, self._precondition = multiply, precondition
        self._rounded = accurate is not None
        self._accurate = multiply if accurate is None else accurate
        self._b, self._tol = b, tol
        p = b.shape[1]
        self.x = np.zeros(b.shape)
        self.live = np.arange(p)
        self.status = [Status.CONVERGED] * p
        self._r = b.copy()
        self._true = np.full(p, np.nan)  # true residual, if x has not changed since it was computed
        self._best = np.full(p, np.inf)  # true residual at the last check that found it halved
        self._since = np.zeros(p, np.intp)  # and the iteration of that check
        self._directions: tuple[Float64Array, Float64Array, Float64Array] | None = None
        self._checked = -1
        # Rounding error per unit of step length, and the step length since the last replacement.
        self._rounding = 0.0
        self._moved = np.zeros(p)

    def begin(self, x: Float64Array) -> None:
        """Start from x."""
        self.x = x.copy()
        self._r = self._b - self._accurate(x)

    @property
    def claimed(self) -> float:
        """Largest residual according to the recursion."""
        return float(np.linalg.norm(self._r, axis=0).max(initial=0.0))

    def stop(self, status: Status) -> None:
        """End the columns that are still running."""
        for column in self.live:
            self.status[column] = status
        self.live = self.live[:0]

    def residual(self) -> float:
        """Return the largest true residual, relative to the right-hand side."""
        open_ = np.flatnonzero(np.isnan(self._true))
        if open_.size:
            left = self._b[:, open_] - self._accurate(self.x[:, open_])
            self._true[open_] = np.linalg.norm(left, axis=0)
        return float(self._true.max(initial=0.0))

    def check(self, iteration: int) -> bool:
        """Replace residuals by the true ones where due; return whether every column has ended."""
        if self._checked == iteration:
            return False
        self._checked = iteration
        norms = np.linalg.norm(self._r, axis=0)
        claims = norms <= (CLAIM * self._tol if self._rounded else self._tol)
        if self._rounded:
            claims &= claims.all()  # true residuals are expensive: one product for all columns
        due = claims | (iteration > 0 and iteration % CHECK_EVERY == 0)
        if self._rounded:
            first = self._rounding == 0.0 and (norms <= FIRST_LOOK).any()
            due |= first | (self._rounding * self._moved > DRIFT * norms).any()
        if not due.any():
            return False
        which = self.live[due]
        true = self._b[:, which] - self._accurate(self.x[:, which])
        size = np.linalg.norm(true, axis=0)
        if self._rounded and iteration:
            gap = np.linalg.norm(true - self._r[:, due], axis=0)
            moved = np.where(self._moved[due] > 0, self._moved[due], np.inf)
            self._rounding = max(self._rounding, float((gap / moved).max()))
            self._moved[due] = 0.0
        self._r[:, due] = true
        self._true[which] = size
        done = size <= self._tol
        halved = size <= self._best[which] / 2
        self._best[which[halved]], self._since[which[halved]] = size[halved], iteration
        # A false claim whose residual did not halve is rounding error. The same holds if the residual has not
        # halved for a long time.
        stuck = ~done & ~halved & (claims[due] | (iteration - self._since[which] >= PATIENCE))
        for column in which[stuck]:
            self.status[column] = Status.STAGNATED
        keep = np.ones(len(self.live), bool)
        keep[due] = ~(done | stuck)
        self.live, self._r, self._moved = self.live[keep], self._r[:, keep], self._moved[keep]
        return not self.live.size

    def step(self) -> bool:
        """Search along one more block of directions; return False if that was not possible.

        Rounding in the products may cause a direction of negative curvature or an overflow. The iteration
        then goes on with accurate products, and ends only if those show the same.
        """
        z = self._r if self._precondition is None else self._precondition(self._r)
        if self._directions is not None:
            p, ap, factor = self._directions
            z = z - p @ la.cho_solve((factor, True), ap.T @ z, check_finite=False)
        if not np.isfinite(z).all():
            self.stop(Status.NOT_FINITE)
            return False
        p = _orthonormal(z)
        if not p.shape[1]:
            self.stop(Status.STAGNATED)  # the residual lies in the space already searched
            return False
        ap = self._multiply(p)
        finite = bool(np.isfinite(ap).all())
        lower = _factor(p.T @ ap) if finite else None
        if lower is None:
            if self._rounded:
                self._precise()
            else:
                self.stop(Status.INDEFINITE if finite else Status.NOT_FINITE)
            return False
        gamma = la.cho_solve((lower, True), p.T @ self._r, check_finite=False)
        self._directions = p, ap, lower
        self._true[self.live] = np.nan
        self._r = self._r - ap @ gamma
        self._moved += np.linalg.norm(gamma, axis=0)
        self.x[:, self.live] += p @ gamma
        return True

    def _precise(self) -> None:
        """Continue from x with accurate products and new directions."""
        self._multiply, self._rounded, self._directions = self._accurate, False, None
        self._r = self._b[:, self.live] - self._accurate(self.x[:, self.live])


def _factor(square: Float64Array) -> Float64Array | None:
    """Return the lower Cholesky factor of the symmetric part; None if it is not positive definite."""
    try:
        return np.asarray(la.cholesky(0.5 * (square + square.T), lower=True, check_finite=False))
    except la.LinAlgError:
        return None


def _orthonormal(z: Float64Array) -> Float64Array:
    """Return an orthonormal basis of the columns, without those that depend on the others."""
    norms = np.linalg.norm(z, axis=0)
    z = z[:, norms > 0] / norms[norms > 0]
    if z.shape[1] <= 1:
        return z
    basis, triangle, _ = la.qr(z, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(triangle.diagonal())
    return np.asarray(basis[:, sizes > DIRECTION_CUTOFF * sizes[0]])


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
        moved, count = _run_minres(multiply, left, residual[live], tol, max_iterations - step)
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
    out = np.zeros(columns.shape)
    out[:, used] = x * scale[used]
    worst = min(status, key=GRAVEST_FIRST.index, default=Status.CONVERGED)
    largest = float(residual.max(initial=0.0))
    return _ended("Minimal residuals", Solution(out.reshape(b.shape), worst, step, largest), tol)


def _run_minres(
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
