"""Fits by Newton's method: from parameters, rows and a loss to what an estimator keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gramian._checks import positive_number, whole_number
from gramian._numerics import unit_roundoff
from gramian._phases import Phases, silent
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.answers import PREDICT_ROWS
from gramian.estimator.input import Input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.rows import names_known
from gramian.estimator.summaries import Evidence
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import BudgetError, InputError
from gramian.kernels import Kernel
from gramian.metric.input import planned_source
from gramian.metric.learner import FittedRound, compares_exactly
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import Planned, plan_sums
from gramian.ridge.training import ridge_round
from gramian.selection.automatic import USUAL_PENALTY, usual_setup
from gramian.selection.kernel_choice import KernelChoice
from gramian.solvers.losses import EpsilonInsensitive, Loss, Proximal
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import NewtonPoint
from gramian.solvers.solution import Solution, Status
from gramian.svm.newton_training import NewtonSettings, NewtonTraining, bytes_beside

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Tolerances are relative to the objective, or to this fraction of its value at f = 0 if that is larger:
#: with one class and an unpenalised intercept the loss has no minimum.
FLOOR = 1e-4
#: Largest outputs · rank³ that approximation="auto" may choose. Each unit takes 0.5 ns (squared hinge) to
#: 3.5 ns (hinge) of a fit, so this limit is 7 minutes to an hour. A rank that the user gives has no limit.
MOST_WORK = 9e11


@dataclass(frozen=True, eq=False)
class NewtonParameters:
    """Minimise C Σ w_i ℓ(y_i, f(x_i) + b) + ½ ‖f‖², to a relative accuracy ``tol``.

    Without ``intercept`` b is 0.
    """

    setup: FitSetup
    C: float
    intercept: bool
    tol: float
    max_iter: int
    asked: tuple[str, ...] = ()  #: names of the parameters that are "auto", which have usual values here

    @classmethod
    def of(cls, model: BaseEstimator, phases: Phases = silent) -> Self:
        """Return the checked parameters of an estimator that minimises a loss.

        ``phases`` is told of the phases of its fit.
        """
        setup = usual_setup(FitSetup.of(model, phases), C=model.C)
        return cls(
            setup,
            1.0 / USUAL_PENALTY if "C" in setup.asked else positive_number("C", model.C),
            setup.intercept,
            positive_number("tol", model.tol),
            whole_number("max_iter", model.max_iter, 1),
            setup.asked,
        )


class Signs:
    """Class codes as columns of ±1: one column for two classes, else one for each."""

    def __init__(self, codes: Array, n_classes: int) -> None:
        self.codes, self._n_classes = codes, n_classes
        self.shape = (len(codes), 1 if n_classes == 2 else n_classes)

    @classmethod
    def of(cls, labels: ClassTargets) -> Signs:
        """Return the signs of checked labels, which take a byte or two a row."""
        n_classes = len(labels.classes)
        codes = labels.codes(slice(None)).astype(np.min_scalar_type(-n_classes))
        return cls(codes, n_classes)

    def __getitem__(self, where: slice) -> Float64Array:
        codes = self.codes[where]
        if self._n_classes == 2:
            return 2.0 * codes[:, None] - 1.0
        block = np.full((len(codes), self._n_classes), -1.0)
        block[np.arange(len(codes)), codes] = 1.0
        return block


@dataclass(frozen=True)
class Problem:
    """Loss that an estimator minimises: of class labels as columns of ±1, or of numbers."""

    #: Returns the loss for a number of outputs and, of numbers, the size of the targets.
    loss: Callable[[int, float], Loss]
    #: Largest curvature of the loss: a ridge penalty is divided by it to compare with 1/C.
    bend: float = 1.0
    #: Loss of each row, from targets and values (n, outputs), by which rounds of a metric and C are compared.
    #: None: the loss that is minimised.
    judged: Callable[[Float64Array, Float64Array], Float64Array] | None = None
    numbers: bool = False  #: whether the targets are numbers

    def penalty(self, C: float) -> float:
        """Return the ridge penalty that sizes and precision are planned for."""
        return 1.0 / (self.bend * C)

    def losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return the loss of each row, (n,), by which rounds of a metric and C are compared."""
        if self.judged is not None:
            return self.judged(targets, values)
        return np.asarray(self.loss(targets.shape[1], 1.0).value(targets, values).sum(axis=1))

    def posed(
        self, parameters: NewtonParameters, rows: LabelledRows[Any], before: KernelModel | None = None
    ) -> tuple[LabelledRows[Any], NewtonSettings, Float64Array | None]:
        """Return rows with targets as numbers, loss and tolerances, and intercepts to begin with.

        ``before`` is the model of an earlier round of learning a metric.
        """
        scale, mass, start = 1.0, rows.mass, None
        if self.numbers:
            mean = rows.targets.mean(rows.weights)
            scale = _spread(rows, mean)
            loss = self.loss(rows.n_outputs, scale)
            mass *= scale if isinstance(loss, EpsilonInsensitive) else scale**2
            if parameters.intercept:
                start = mean if before is None else before.intercept
        else:
            rows = replace(rows, targets=Signs.of(rows.targets))
            loss = self.loss(rows.n_outputs, scale)
            # Losses that are minimised output by output have a better start: the minimum for half the rows.
            if before is not None and not loss.separable:
                start = before.intercept
        tol, most = parameters.tol, parameters.max_iter
        settings = NewtonSettings(
            loss, 1.0 / parameters.C, parameters.intercept, tol, most, scale, FLOOR * mass
        )
        return rows, settings, start


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


@dataclass(frozen=True)
class NewtonFit:
    """A minimum, with everything that further minimisations on the same bases need."""

    training: NewtonTraining
    minimum: Minimum
    kernel: Kernel
    rows: LabelledRows[Any]
    settings: NewtonSettings
    rng: np.random.Generator
    input: Input = field(default_factory=Input)
    choice: KernelChoice | None = None  #: where kernel or gamma are "auto"
    C: float | None = None  #: where it is "auto"
    seconds: Mapping[str, float] = field(default_factory=dict)  #: spent before the minimum, by phase

    def trained(self) -> KernelModel:
        """Return the model of the minimum."""
        training, found = self.training, self.minimum
        gap = float(found.gap.max(initial=0.0))
        status = Status.CONVERGED if training.reached else Status.LIMIT
        plan = training.used()
        return KernelModel(
            training.predictor(found.point),
            self.kernel,
            found.point.offset,
            Solution(found.point.beta, status, found.iterations, gap),
            replace(plan, used_seconds={**self.seconds, **plan.used_seconds}),
            training.features.rank,
            input=self.input,
        )

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this fit, by name."""
        chosen = {"n_iter_": self.minimum.iterations, "choice_": self.choice, "C_": self.C}
        found = {name: value for name, value in chosen.items() if value is not None}
        return self.trained().state() | found


def newton_evidence(model: BaseEstimator) -> Evidence:
    """Return what an estimator that holds a :class:`NewtonFit` states."""
    solution = model.solution_
    missed = (
        f"The objective ended a predicted {solution.residual:.2g} of its value above its minimum. Raise "
        "max_iter or tol, or lower C."
    )
    return replace(
        KernelModel.of(model).facts(names_known(model), C=getattr(model, "C_", model.C)),
        solver=(solution.told("relative gap"),),
        warnings=(missed,) if solution.status is Status.LIMIT else (),
    )


def begin_training(
    parameters: NewtonParameters, rows: LabelledRows[Any], settings: NewtonSettings, penalty: float
) -> tuple[NewtonTraining, Kernel, np.random.Generator]:
    """Plan and build the bases for rows that are ready for the kernel; return a generator that goes on.

    ``penalty`` is the ridge penalty that sizes and precision are planned for.
    """
    setup, source, weights, outputs = parameters.setup, rows.source, rows.weights, rows.n_outputs
    anchored = isinstance(settings.loss, Proximal)
    plan, kernel, run = _plan(setup, source, outputs, penalty, weights, anchored=anchored)
    rank = min(plan.root_rank, rows.n)
    if setup.automatic and settings.loss.separable and outputs * float(rank) ** 3 > MOST_WORK:
        raise InputError(
            f"{outputs:,} outputs, each a problem of its own with a matrix of {rank:,} columns, would "
            "take many minutes. Give a rank, such as approximation=Nystrom(rank=200), or solve for all "
            "outputs together: KernelRidge, KernelRidgeClassifier or KernelLogisticRegression."
        )
    training = NewtonTraining(source, kernel, weights, plan, n_outputs=outputs, anchored=anchored, run=run)
    return training, kernel, run.rng


def minimise(
    parameters: NewtonParameters, problem: Problem, rows: LabelledRows[Any], before: KernelModel | None = None
) -> NewtonFit:
    """Minimise the loss of rows that are ready for the kernel, with parameters of which none is "auto"."""
    rows, settings, start = problem.posed(parameters, rows, before)
    training, kernel, rng = begin_training(parameters, rows, settings, problem.penalty(parameters.C))
    at = None
    if start is not None:
        zero = NewtonPoint.zeros(training.features.rank, rows.n_outputs)
        at = NewtonPoint(zero.beta, zero.dual, start)
    found = training.minimise(rows.targets, rows.weights, settings, at)
    return NewtonFit(training, found, kernel, rows, settings, rng)


def _plan(
    setup: FitSetup,
    source: RowSource,
    n_outputs: int,
    penalty: float,
    weights: Array | None = None,
    *,
    anchored: bool = False,
) -> Planned:
    """Plan bases and a pass; sizes that are left to the plan leave room for what passes take beside them.

    A budget that is too small for that room, but holds the plan, is used whole.
    """
    budget, setup = setup.run.memory_bytes, replace(setup, alpha=penalty)
    beside = bytes_beside(source.shape[0], n_outputs, anchored)
    if setup.automatic and beside < budget:
        with suppress(BudgetError):
            less = setup.within(budget - beside)
            plan, kernel, run = plan_sums(less, source, n_outputs, weights=weights)
            return replace(plan, memory_budget=budget), kernel, run
    return plan_sums(setup, source, n_outputs, weights=weights)


def plan_newton(parameters: NewtonParameters, problem: Problem, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of bases and a pass."""
    source = planned_source(parameters.setup, source)
    return _plan(parameters.setup.planning(), source, n_outputs, problem.penalty(parameters.C))[0]


def newton_round(
    parameters: NewtonParameters,
    problem: Problem,
    rows: LabelledRows[Any],
    setup: FitSetup,
    before: KernelModel | None,
    quick: bool,
) -> FittedRound:
    """Return what a round of a metric fits: this model, or a ridge model.

    A ridge model ranks metrics as well as this one does, and takes one solve instead of several passes.
    """
    if quick and compares_exactly(setup):
        return ridge_round(rows, replace(setup, alpha=problem.penalty(parameters.C)), before, quick)
    fit = minimise(replace(parameters, setup=setup), problem, rows, before)
    found = fit.trained().of_round(setup.run.engine)
    return found if problem.numbers else replace(found, losses=problem.losses, bounded=False)
