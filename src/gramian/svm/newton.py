"""Newton models: what an estimator asks for, its targets as numbers, the plan, and what a fit states."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from gramian._budget import UNSEEN_BYTES
from gramian._checks import positive_number, whole_number
from gramian._numerics import unit_roundoff
from gramian._phases import Phases, silent
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.approximations.setup import FitSetup
from gramian.compression.features import UNIT_ROWS
from gramian.compression.plan import NOMINAL_THREADS, Plan
from gramian.data.source import RowSource
from gramian.estimator.answers import PREDICT_ROWS
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.rows import names_known
from gramian.estimator.summaries import FitFacts
from gramian.estimator.targets import NumberTargets, Signs
from gramian.exceptions import BudgetError
from gramian.metric.input import planned_source
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import Planned, plan_sums
from gramian.selection.automatic import USUAL_PENALTY, usual_setup
from gramian.solvers.losses import EpsilonInsensitive, Loss
from gramian.solvers.solution import Status

#: Decision values of a unit that are held at once.
UNIT_TERMS = 16


@dataclass(frozen=True, eq=False)
class NewtonParameters:
    """Minimise C Σ w_i ℓ(y_i, f(x_i) + b) + ½ ‖f‖², to a relative accuracy ``tol``.

    ``bend`` is the largest curvature of the loss: a ridge penalty is divided by
    it to compare with 1/C. ``folds`` of the rows calibrate probabilities, none where it is 0.
    """

    setup: FitSetup
    C: float
    tol: float
    max_iter: int
    loss: Loss
    bend: float
    folds: int
    scale: float = 1.0  #: typical size of decision values

    @classmethod
    def of(
        cls, model: BaseEstimator, loss: Loss, bend: float = 1.0, phases: Phases = silent, folds: int = 0
    ) -> Self:
        """Return the checked parameters of an estimator that minimises a loss.

        ``phases`` is told of the phases of its fit.
        """
        setup = usual_setup(FitSetup.of(model, phases), C=model.C)
        return cls(
            setup,
            1.0 / USUAL_PENALTY if "C" in setup.auto_names else positive_number("C", model.C),
            positive_number("tol", model.tol),
            whole_number("max_iter", model.max_iter, 1),
            loss,
            bend,
            folds,
        )

    @property
    def penalty(self) -> float:
        """The ridge penalty that sizes and precision are planned for."""
        return 1.0 / (self.bend * self.C)


def posed(
    parameters: NewtonParameters, rows: LabelledRows[Any], before: KernelModel | None = None
) -> tuple[NewtonParameters, LabelledRows[Any], Float64Array | None]:
    """Return the problem with its loss in the unit of the targets, and intercepts to begin with.

    Class labels become signs. ``before`` is the model of an earlier round of learning a metric.
    """
    targets, loss = rows.targets, parameters.loss
    if not isinstance(targets, NumberTargets):
        # Losses that are minimised output by output have a better start: the minimum for half the rows.
        start = None if before is None or loss.separable else before.intercept
        return parameters, replace(rows, targets=Signs(targets)), start
    mean = targets.mean(rows.weights)
    scale = _spread(rows, mean)
    if isinstance(loss, EpsilonInsensitive):
        # The first parabolas are as wide as the targets, so the first step is nearly a ridge regression.
        loss = replace(loss, rho=2.0 * scale)
    start = mean if before is None else before.intercept
    return replace(parameters, loss=loss, scale=scale), rows, start if parameters.setup.intercept else None


def _spread(rows: LabelledRows[Any], mean: Float64Array) -> float:
    """Return the largest weighted standard deviation of a target; if all are constant, their size."""
    total, mass = np.zeros(rows.n_outputs), 0.0
    for where in row_slices(rows.n, PREDICT_ROWS):
        block = rows.targets[where]
        w = np.ones(len(block)) if rows.weights is None else rows.weights[where]
        total += w @ (block - mean) ** 2
        mass += float(w.sum())
    spread, size = float(np.sqrt(total.max() / mass)), float(np.abs(mean).max())
    # The deviation of a constant is only rounding.
    return spread if spread > 16.0 * unit_roundoff(np.float64) * size else size or 1.0


def plan_bases(
    setup: FitSetup,
    source: RowSource,
    n_outputs: int,
    penalty: float,
    weights: Array | None = None,
    *,
    anchored: bool = False,
) -> Planned:
    """Plan bases and a pass; sizes that are left to the plan leave room for what passes take beside them.

    A budget that is too small for that room, but holds the plan, is used whole. ``anchored``: a proximal loss
    keeps a number for each row and output.
    """
    budget, setup = setup.run.memory_bytes, replace(setup, alpha=penalty)
    beside = bytes_beside(source.shape[0], n_outputs, anchored)
    if setup.automatic and beside < budget:
        with suppress(BudgetError):
            less = setup.with_memory(budget - beside)
            plan, kernel, run = plan_sums(less, source, n_outputs, weights=weights)
            return replace(plan, memory_budget=budget), kernel, run
    return plan_sums(setup, source, n_outputs, weights=weights)


def bytes_beside(n_rows: int, n_outputs: int, anchored: bool) -> int:
    """Return the bytes that a plan does not count, whatever the sizes of the bases.

    These are terms of units, row numbers, and what BLAS and malloc keep: twice what is usual for a thread,
    since passes and systems alternate. With it logistic regression of five classes keeps to 50 MB.
    """
    units = NOMINAL_THREADS * UNIT_TERMS * 8 * UNIT_ROWS * n_outputs
    rows = n_rows * (8 + 8 * n_outputs * anchored)
    return units + rows + 2 * (1 + NOMINAL_THREADS) * UNSEEN_BYTES


def plan_newton(parameters: NewtonParameters, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of bases and a pass."""
    source = planned_source(parameters.setup, source)
    return plan_bases(parameters.setup.planning(), source, n_outputs, parameters.penalty)[0]


def newton_evidence(model: BaseEstimator) -> FitFacts:
    """Return what an estimator of a Newton model states."""
    solution = model.solution_
    missed = (
        f"The objective ended a predicted {solution.residual:.2g} of its value above its minimum. Raise "
        "max_iter or tol, or lower C."
    )
    return replace(
        KernelModel.of(model).facts(names_known(model), C=getattr(model, "C_", model.C)),
        solver=(solution.as_fact("relative gap"),),
        warnings=(missed,) if solution.status is Status.LIMIT else (),
    )
