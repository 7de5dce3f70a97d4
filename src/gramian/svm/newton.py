"""Fits by Newton's method: from parameters, rows and a loss to what an estimator keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from gramian._checks import positive_number, whole_number
from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array
from gramian.approximations.setup import AsksForFit, FitSetup
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.matching import names_known
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.summaries import Evidence
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import BudgetError, InputError
from gramian.kernels import Kernel
from gramian.metric.input import Input, InputParameters, planned_input
from gramian.metric.rounds import FittedRound, RoundModel, RoundSetup, compares_exactly
from gramian.ridge.model import KernelModel
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import Planned, plan_sums
from gramian.ridge.training import ridge_round
from gramian.selection.automatic import USUAL_PENALTY, automatic, usual_setup
from gramian.selection.kernel_choice import KernelChoice
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import NewtonPoint
from gramian.solvers.solution import Solution, Status
from gramian.svm.newton_training import NewtonSettings, NewtonTraining, bytes_beside

#: Tolerances are relative to the objective, or to this fraction of its value at f = 0 if that is larger:
#: with one class and an unpenalised intercept the loss has no minimum.
FLOOR = 1e-4
#: Largest outputs · rank³ that approximation="auto" may choose. Each unit takes 0.5 ns (squared hinge) to
#: 3.5 ns (hinge) of a fit, so this limit is 7 minutes to an hour. A rank that the user gives has no limit.
MOST_WORK = 9e11


class AsksForNewton(AsksForFit, Protocol):
    """The parameters of an estimator that minimises a loss, beside those of its kernel and approximation."""

    C: object
    metric: object
    standardize: bool
    fit_intercept: bool
    tol: object
    max_iter: object
    solution_: Solution  #: after a fit


@dataclass(frozen=True, eq=False)
class NewtonParameters:
    """Minimise C Σ w_i ℓ(y_i, f(x_i) + b) + ½ ‖f‖², to a relative accuracy ``tol``.

    Without ``intercept`` b is 0.
    """

    setup: FitSetup
    input: InputParameters
    C: float
    intercept: bool
    tol: float
    max_iter: int
    asked: tuple[str, ...] = ()  #: names of the parameters that are "auto", which have usual values here

    @classmethod
    def of(cls, model: AsksForNewton, phases: Phases = silent) -> Self:
        """Return the checked parameters of an estimator that minimises a loss.

        ``phases`` is told of the phases of its fit.
        """
        setup = FitSetup.of(model, phases)
        asked = automatic(setup.kernel, C=model.C)
        setup = usual_setup(setup, asked, metric=model.metric)
        scaling = InputParameters.of(setup, standardize=model.standardize, metric=model.metric)
        return cls(
            setup,
            replace(scaling, each_feature="kernel" in asked),
            1.0 / USUAL_PENALTY if "C" in asked else positive_number("C", model.C),
            bool(model.fit_intercept),
            positive_number("tol", model.tol),
            whole_number("max_iter", model.max_iter, 1),
            asked,
        )

    def settings(self, loss: Loss, mass: float, scale: float = 1.0) -> NewtonSettings:
        """Return a loss with this penalty and these tolerances.

        ``mass`` is the objective's size at f = 0 without C, ``scale`` that of the decision values.
        """
        return NewtonSettings(
            loss, 1.0 / self.C, self.intercept, self.tol, self.max_iter, scale, FLOOR * mass
        )

    def with_kernel(self, kernel: Kernel) -> Self:
        """Return the parameters with another kernel."""
        return replace(self, setup=replace(self.setup, kernel=KernelParameters(kernel)))

    def of_round(self, asked: RoundSetup) -> Self:
        """Return the parameters of a round of learning a metric, whose rows are ready for the kernel."""
        plain = InputParameters(self.setup.kernel)
        return replace(self, setup=asked.applied(self.setup), input=plain)


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
    """What one kind of estimator minimises."""

    #: Returns the loss for a number of outputs.
    loss: Callable[[int], Loss]
    #: Largest curvature of the loss: a ridge penalty is divided by it to compare with 1/C.
    bend: float = 1.0
    #: Loss of each row, from targets and values (n, outputs), by which rounds of a metric are compared.
    #: None: the loss that is minimised.
    judged: Callable[[Float64Array, Float64Array], Float64Array] | None = None

    def penalty(self, C: float) -> float:
        """Return the ridge penalty that sizes and precision are planned for."""
        return 1.0 / (self.bend * C)

    def losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return the loss of each row, (n,), by which rounds of a metric are compared."""
        if self.judged is not None:
            return self.judged(targets, values)
        return np.asarray(self.loss(targets.shape[1]).value(targets, values).sum(axis=1))


@dataclass(frozen=True)
class NewtonTask:
    """What is minimised for the rows of a fit."""

    rows: LabelledRows[Any]  #: with targets as numbers
    settings: NewtonSettings
    penalty: float  #: the ridge penalty that sizes and precision are planned for
    start: Float64Array | None = None  #: intercepts to begin with


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


def newton_evidence(model: AsksForNewton) -> Evidence:
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


def class_task(
    parameters: NewtonParameters, rows: LabelledRows[Any], problem: Problem, start: Float64Array | None = None
) -> NewtonTask:
    """Return the task for rows with class labels; ``start`` are intercepts to begin with."""
    signs = Signs.of(rows.targets)
    settings = parameters.settings(problem.loss(signs.shape[1]), rows.mass)
    return NewtonTask(replace(rows, targets=signs), settings, problem.penalty(parameters.C), start)


def minimise(
    parameters: NewtonParameters,
    task: NewtonTask,
    choose: Callable[[NewtonTraining], tuple[NewtonSettings, NewtonPoint]] | None = None,
) -> NewtonFit:
    """Minimise the loss of a task's rows, which are ready for the kernel.

    ``choose`` returns settings in place of the task's and a point to begin with, once there are bases.
    """
    rows, settings, setup = task.rows, task.settings, parameters.setup
    source, weights, outputs = rows.source, rows.weights, rows.n_outputs
    anchored = isinstance(settings.loss, Proximal)
    plan, kernel, engine, rng = _plan(setup, source, outputs, task.penalty, weights, anchored=anchored)
    rank = min(plan.root_rank, rows.n)
    if setup.automatic and settings.loss.separable and outputs * float(rank) ** 3 > MOST_WORK:
        raise InputError(
            f"{outputs:,} outputs, each a problem of its own with a matrix of {rank:,} columns, would "
            "take many minutes. Give a rank, such as approximation=Nystrom(rank=200), or solve for all "
            "outputs together: KernelRidge, KernelRidgeClassifier or KernelLogisticRegression."
        )
    training = NewtonTraining(
        source,
        kernel,
        weights,
        plan,
        n_outputs=outputs,
        anchored=anchored,
        rng=rng,
        engine=engine,
        phases=setup.phases,
    )
    at = None
    if choose is not None:
        settings, at = choose(training)
    elif task.start is not None:
        zero = NewtonPoint.zeros(training.features.rank, outputs)
        at = NewtonPoint(zero.beta, zero.dual, task.start)
    found = training.minimise(rows.targets, weights, settings, at)
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
    budget = setup.resources.memory_bytes
    beside = bytes_beside(source.shape[0], n_outputs, anchored)
    if setup.automatic and beside < budget:
        with suppress(BudgetError):
            less = setup.less(beside)
            plan, kernel, engine, rng = plan_sums(less, source, n_outputs, penalty, weights=weights)
            return replace(plan, memory_budget=budget), kernel, engine, rng
    return plan_sums(setup, source, n_outputs, penalty, weights=weights)


def plan_newton(
    parameters: NewtonParameters, penalty: Callable[[float], float], source: RowSource, n_outputs: int
) -> Plan:
    """Return the plan of bases and a pass; ``penalty`` gives the ridge penalty of the plan from C."""
    source = planned_input(parameters.input, parameters.setup, source).over(source)
    return _plan(parameters.setup.planning(), source, n_outputs, penalty(parameters.C))[0]


# ---- rounds of a metric --------------------------------------------------------------------------


def newton_round(
    parameters: NewtonParameters,
    asked: RoundSetup,
    penalty: float,
    make: Callable[[NewtonParameters], RoundModel],
) -> RoundModel:
    """Return what a round of a metric fits: ``make`` of the round's parameters, or a ridge model.

    A ridge model ranks metrics as well as this one does, and takes one solve instead of several passes.
    """
    if not asked.quick or not compares_exactly(parameters.setup.resources.memory_bytes):
        return make(parameters.of_round(asked))
    setup = replace(asked.applied(parameters.setup), approximation="exact")
    plain = InputParameters(setup.kernel)
    return ridge_round(RidgeParameters(setup, plain, penalty, parameters.intercept))


def class_round(parameters: NewtonParameters, problem: Problem, asked: RoundSetup) -> RoundModel:
    """Return what a round of a metric fits for a classifier."""

    def make(own: NewtonParameters) -> RoundModel:
        def fit(rows: LabelledRows[Any]) -> FittedRound:
            # Losses that are minimised output by output have a better start: the minimum for half the rows.
            coupled = not problem.loss(rows.n_outputs).separable
            start = asked.before.intercept if coupled and asked.before is not None else None
            found = minimise(own, class_task(own, rows, problem, start)).trained()
            return found.of_round(own.setup.resources.engine)

        return RoundModel(fit, problem.losses, bounded=False)

    return newton_round(parameters, asked, problem.penalty(parameters.C), make)
