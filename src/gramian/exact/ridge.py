"""Kernel ridge regression on the exact K: the system, an intercept, the predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import expansion_error, expansion_tolerance
from gramian._typing import Float64Array, Rows
from gramian.compression.plan import Plan
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exact.predictor import ExactPredictor
from gramian.exact.solve import Settings, Stage, solve_exact
from gramian.exact.system import ExactSystem
from gramian.kernels.base import Kernel
from gramian.solvers.krylov import Progress
from gramian.solvers.solution import Solution


@dataclass(frozen=True)
class ExactFit:
    """A trained model and how it came about."""

    predictor: ExactPredictor
    offset: Float64Array  #: of an unpenalised intercept, (outputs,)
    solution: Solution
    stages: list[Stage]


def train_exact(
    labelled: LabelledRows[Any],
    kernel: Kernel,
    alpha: float,
    settings: Settings,
    plan: Plan,
    *,
    intercept: bool,
    engine: Engine,
    rng: np.random.Generator,
    progress: Callable[[Progress], None] | None = None,
) -> ExactFit:
    r"""Minimise Σ w_i ‖y_i − f(x_i) − b‖² + alpha ‖f‖² over all f of the kernel's space.

    f = Σ a_i k(x_i, ·) with (K + alpha·W⁻¹) a = y − b·1; rows of weight 0 have a_i = 0 and are left out. The
    intercept b (0 unless ``intercept``) makes Σ a_i = 0: with (a_y, a_1) the solutions for y and for 1, it is
    b = Σ a_y / Σ a_1, and a = a_y − b a_1; both are solved for together.

    plan : says the type of the tiles and the memory. Time and memory: :func:`solve_exact`, with a copy of
    the rows, which the predictor keeps.
    """
    rows = labelled.rows
    rows = rows.copy() if sp.issparse(rows) else np.array(rows)
    targets, weights, dtype = labelled.numbers, labelled.weights, np.dtype(plan.dtype)
    if weights is not None and not (weights > 0).all():
        kept = np.flatnonzero(weights > 0)
        rows, targets, weights = rows[kept], targets[kept], weights[kept]
    n = int(rows.shape[0])
    shift = np.full(n, alpha) if weights is None else alpha / weights
    right = np.column_stack([targets, np.ones(n)]) if intercept else targets
    system = ExactSystem(kernel, rows, shift, dtype, plan.memory_budget, engine)
    solution, stages = solve_exact(system, right, settings, rng=rng, progress=progress)
    value, offset = solution.value, np.zeros(targets.shape[1])
    if intercept:
        value, offset = without_ones(value)
    predictor = ExactPredictor(kernel, rows, value, _served(kernel, rows, value, targets, dtype))
    return ExactFit(predictor, offset, solution, stages)


def without_ones(value: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return a and b of Σ a_i = 0, (n, outputs) and (outputs,), from the solutions for y and, last, for 1."""
    ones = value[:, -1]
    offset = value[:, :-1].sum(axis=0) / ones.sum()
    return value[:, :-1] - np.outer(ones, offset), offset


def _served(
    kernel: Kernel, rows: Rows, value: Float64Array, targets: Float64Array, dtype: Any
) -> np.dtype[Any]:
    """Return the type of a prediction's tiles: ``dtype``, unless its rounding would show in the answer."""
    largest = float(np.mean(kernel.diagonal(rows[: min(1024, rows.shape[0])])))
    error = largest * expansion_error(1.0, dtype) * np.linalg.norm(value, axis=0)
    allowed = expansion_tolerance() * np.sqrt(np.mean(np.square(targets), axis=0))
    return np.dtype(dtype if (error <= allowed).all() else np.float64)
