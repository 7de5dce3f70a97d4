"""Conjugate gradients for many right-hand sides at once, with the true residual at the end."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from gramian._typing import Float64Array
from gramian.exceptions import AccuracyWarning, InputError
from gramian.solvers.solution import Solution, Status, relative_residual

#: Iterations between two recomputations of the true residual.
CHECK_EVERY = 50

#: Iterations without a halving of the true residual after which a column is given up.
PATIENCE = 1000

#: From the gravest to the harmless: a solution has the status of its worst column.
_GRAVEST_FIRST = (Status.INDEFINITE, Status.LIMIT, Status.STAGNATED, Status.CONVERGED)

Multiply = Callable[[Float64Array], Float64Array]


def conjugate_gradient(
    multiply: Multiply,
    right: Float64Array,
    *,
    precondition: Multiply | None = None,
    tol: float,
    max_iterations: int,
) -> Solution:
    r"""Solve A x = b for a symmetric positive definite A that is only ever multiplied with.

    Each column runs its own conjugate gradients; the columns share the products A P. A column
    ends when its *true* residual b − A x is at most tol·‖b‖: the recursive residual is replaced by
    the true one every 50 iterations and wherever it claims convergence.

    Parameters
    ----------
    multiply : callable
        V (m, p) → A V (m, p).
    right : ndarray of shape (m,) or (m, p)
        b; not written to.
    precondition : callable, optional
        V → M⁻¹ V with M ≈ A symmetric positive definite.
    tol : float
        Target of ‖b − A x‖/‖b‖ for every column.
    max_iterations : int
        Products with A at most, beside the checks of the residual.

    Returns
    -------
    Solution
        ``status`` is that of the worst column; ``residual`` is recomputed at exit.

    Cost: one product and O(m p) per iteration, memory 5 m p numbers. Source: Hestenes and Stiefel
    (1952); residual replacement as in van der Vorst and Ye (2000). Fails with an
    ``AccuracyWarning`` whose text says residual, target and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, 4.0, 9.0])
    >>> s = conjugate_gradient(lambda V: A @ V, np.ones(3), tol=1e-10, max_iterations=10)
    >>> s.value.round(3).tolist(), s.iterations
    ([1.0, 0.25, 0.111], 3)
    """
    if not tol > 0:
        raise InputError(f"tol={tol!r} must be positive: the target of the relative residual.")
    b = np.asarray(right, np.float64)
    columns = b if b.ndim == 2 else b[:, None]
    x = np.zeros(columns.shape)
    status, iterations = _iterate(multiply, columns, x, precondition, tol, max_iterations)
    residual = relative_residual(columns - multiply(x), columns) if x.size else 0.0
    worst = next(s for s in _GRAVEST_FIRST if s in status or s is Status.CONVERGED)
    if residual > tol:
        # A column may pass its own check and still lie a rounding above it here.
        worst = Status.STAGNATED if worst is Status.CONVERGED else worst
        warnings.warn(
            f"Conjugate gradients ended with relative residual {residual:.2g}, above the target "
            f"{tol:.2g}, after {iterations} iterations: {worst.value}.",
            AccuracyWarning,
            stacklevel=2,
        )
    return Solution(x.reshape(b.shape), worst, iterations, residual)


def _iterate(
    multiply: Multiply,
    b: Float64Array,
    x: Float64Array,
    precondition: Multiply | None,
    tol: float,
    max_iterations: int,
) -> tuple[list[Status], int]:
    """Advance every column of x to its end; returns the columns' statuses and the iterations."""
    status = [Status.CONVERGED] * b.shape[1]
    target = tol * np.linalg.norm(b, axis=0)
    live = np.flatnonzero(target > 0)
    r = b[:, live].copy()
    p, rz = np.zeros_like(r), np.ones(len(live))
    best = np.full(b.shape[1], np.inf)  # true residual at the last check that saw it halved
    since = np.zeros(b.shape[1], np.intp)  # and the iteration of that check
    for step in range(max_iterations + 1):
        claims = np.linalg.norm(r, axis=0) <= target[live]
        if claims.any() or (step and step % CHECK_EVERY == 0):
            replace = claims | (step % CHECK_EVERY == 0)
            which = live[replace]
            r[:, replace] = b[:, which] - multiply(x[:, which])
            true = np.linalg.norm(r, axis=0)
            done = true <= target[live]
            # A false claim means that the directions have lost conjugacy: restart, unless the last
            # restart did not halve the residual either; then rounding is all that is left. So it is
            # where a long run of checks saw no halving.
            p[:, claims] = 0.0
            halved = true <= best[live] / 2
            best[live[halved]], since[live[halved]] = true[halved], step
            stuck = ~done & ~halved & (claims | (step - since[live] >= PATIENCE))
            for column in live[stuck]:
                status[column] = Status.STAGNATED
            keep = ~(done | stuck)
            live, r, p, rz = live[keep], r[:, keep], p[:, keep], rz[keep]
        if not len(live):
            return status, step
        if step == max_iterations:
            break
        z = r if precondition is None else precondition(r)
        rz, before = np.einsum("ij,ij->j", r, z), rz
        p = z + p * (rz / before)
        ap = multiply(p)
        curvature = np.einsum("ij,ij->j", p, ap)
        good = curvature > 0
        if not good.all():
            for column in live[~good]:
                status[column] = Status.INDEFINITE
            live, r, p, rz = live[good], r[:, good], p[:, good], rz[good]
            ap, curvature = ap[:, good], curvature[good]
        x[:, live] += p * (rz / curvature)
        r = r - ap * (rz / curvature)
    for column in live:
        status[column] = Status.LIMIT
    return status, max_iterations
