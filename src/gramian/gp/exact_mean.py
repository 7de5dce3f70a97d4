"""Posterior mean by the exact kernel matrix of all rows, for as many rows as memory holds its tiles of."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.compression.costs import Workload
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.exact.exact import exact_plan
from gramian.exact.predictor import ExactPredictor, train_exact
from gramian.exact.solve import SolveSettings
from gramian.exact.system import keeps_tiles
from gramian.gp.hyperparameters import Hyperparameters

#: Tiles of K for the mean. The solve's residuals are computed in float64.
TILES = np.dtype(np.float32)
#: Relative residual of the solve. On cadata 1e-2 gives the same RMSE to three digits. Chosen by hand.
TOL = 1e-3


def fits_memory(n_rows: int, memory_budget: int) -> bool:
    """Tell whether memory holds the tiles of K, so that each iteration only reads them."""
    return keeps_tiles(n_rows, TILES, memory_budget)


def exact_mean(
    rows: LabelledRows[Any],
    hyper: Hyperparameters,
    *,
    memory_budget: int,
    engine: Engine,
    rng: np.random.Generator,
) -> ExactPredictor:
    """Return x ↦ k(x, X) (K + noise·I)⁻¹ y. Time and memory: see ``solve_exact``."""
    settings = SolveSettings(tol=TOL)
    work = Workload.of(rows.source, rows.n_outputs)
    plan = exact_plan(work, settings, Run(memory_budget, engine, TILES.name))
    return train_exact(
        rows, hyper.kernel, hyper.noise, settings, plan, intercept=False, engine=engine, rng=rng
    )[0]
