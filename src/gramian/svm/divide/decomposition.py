"""Solver for the dual of the hinge loss: large working sets, with the gradient updated tile by tile."""

from __future__ import annotations

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.svm.divide.active_set_cg import TwoLevel, solve_faces
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import TILE_BYTES, Gram, SymmetricTiles
from gramian.svm.divide.subproblem import SQUARES, solve_box

#: A row held at its bound by a gradient of at least this much is always left out of a round. Chosen by hand,
#: as are the next constants.
MOST_MARGIN = 0.5
#: A round ends when the violation among its rows is this fraction of the violation among all rows.
ROUND_SHARE = 0.1
#: The solution of a large working set is accepted if it cuts the violation to this fraction; otherwise it
#: must lower the objective.
REACHED_SHARE = 0.5
#: Rows held at a bound by less than this fraction of the violation join the working set.
NEAR_SHARE = 0.1
#: Most rows of a working set that is solved densely; fewer if memory is short.
DENSE_ROWS = 1024


def refine(gram: Gram, dual: Dual, tol: float, max_iter: int) -> None:
    """Minimise ½uᵀKu − yᵀu over the box, starting from ``dual`` and updating it; the equality keeps Σu.

    Each round leaves out the rows held at a bound by more than a margin (shrinking), solves for the others to
    a tenth of the violation, and updates the gradient of the rows left out. Within a round the working set is
    every free or violating row, so that few sets are needed. Up to about a thousand rows it is solved densely
    (:func:`solve_box`), beyond that by active sets with preconditioned conjugate gradients
    (:func:`solve_faces`). Order rows by clusters: consecutive rows form the preconditioner's blocks.

    The objective falls with each set. Stops when m(α) − M(α) ≤ tol, libsvm's criterion. Time O(n · changed) a
    round and O(free²) a conjugate gradient step, memory that of the run besides the rows.
    """
    left = max_iter
    while (violation := dual.violation()) > tol and left > 0:
        half = violation if dual.total is None else 0.5 * violation
        keep = (dual.sides == 0) | (dual.pressure() > -min(half, MOST_MARGIN))
        index, rest = np.flatnonzero(keep), np.flatnonzero(~keep)
        part, local = gram.part(index), dual.part(index)
        _settle(part, local, max(tol, ROUND_SHARE * violation), left)
        left -= local.steps
        dual.steps += local.steps
        change = local.u - dual.u[index]
        dual.u[index], dual.gradient[index] = local.u, local.gradient
        changed = np.flatnonzero(change)
        if not changed.size:
            break  # only rounding errors are left
        if rest.size:
            gram.add(dual.gradient, part.rows[changed], change[changed], rest)


def _settle(gram: Gram, dual: Dual, tol: float, max_iter: int) -> None:
    """Optimise over working sets until the violation is at most the tolerance."""
    dense_rows = min(DENSE_ROWS, int((gram.run.memory_bytes / (8.0 * (SQUARES + 1))) ** 0.5))
    while dual.steps < max_iter and (violation := dual.violation()) > tol:
        dual.steps += 1
        pressure = dual.pressure()
        inner = max(0.3 * tol, 0.05 * violation)
        # Include rows close to violating, held at their bound at first: the set's moves may release them.
        near = np.flatnonzero((dual.sides == 0) | (pressure > -NEAR_SHARE * violation))
        chosen, new = near, None
        if len(near) > dense_rows:
            new = _large(gram.part(near), dual.part(near), pressure[near], inner)
            if new is None:
                chosen = np.argpartition(-pressure, dense_rows)[:dense_rows]
        if new is None:
            new = _dense(gram.part(chosen).square(), dual.part(chosen), 0.1 * tol)
        change = new - dual.u[chosen]
        moved = np.flatnonzero(change)
        if not moved.size:
            return
        gram.add(dual.gradient, gram.rows[chosen[moved]], change[moved])
        dual.u[chosen] = new


def _dense(square: Float64Array, local: Dual, tol: float) -> Float64Array:
    """Return the optimum of a working set, or its present coefficients if rounding makes that one worse."""
    aim, _ = solve_box(square, local.gradient - square @ local.u, local, tol)
    change = aim - local.u
    image = square @ change
    if float((local.gradient + 0.5 * image) @ change) < 0.0:
        return aim
    reached = local.at(aim, local.gradient + image).violation()
    return aim if reached < local.violation() else local.u


def _large(gram: Gram, local: Dual, pressure: Array, tol: float) -> Float64Array | None:
    """Return coefficients of a large working set that lower the objective, or None if none were found."""
    # Beside what is kept, each thread computes one tile or one block of the preconditioner.
    kept = max(gram.run.memory_bytes // 2, gram.run.memory_bytes - gram.run.engine.n_threads * TILE_BYTES)
    tiles, preconditioner = SymmetricTiles(gram, kept // 2), TwoLevel(gram, kept // 2)
    aim = solve_faces(tiles, preconditioner, local, pressure <= 0.25 * tol, tol)
    change = aim - local.u
    image = tiles.matvec(change)
    reached = local.at(aim, local.gradient + image).violation()
    if reached <= REACHED_SHARE * local.violation():
        # Near the optimum the objective is flat to within a face's accuracy; the violation is more reliable.
        return aim
    slope, curvature = float(local.gradient @ change), float(change @ image)
    if not slope < 0.0:
        return None
    length = 1.0 if curvature <= 0.0 else min(1.0, -slope / curvature)
    return aim if length >= 1.0 else np.clip(local.u + length * change, local.lower, local.upper)
