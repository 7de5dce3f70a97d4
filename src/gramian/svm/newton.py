"""Fits by Newton's method: from rows, a loss and an estimator's parameters to what the estimator keeps.

The estimators minimise C Σ w_i ℓ(y_i, f(x_i) + b) + ½ ‖f‖². Functions take the estimator as ``model`` for its
parameters alone, and change nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gramian._checks import positive_number, whole_number
from gramian._typing import Array, Float64Array
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.progress import shown_bar
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.metric.input import compares_exactly, plain_copy, planned_input
from gramian.metric.learner import RoundModel
from gramian.ridge.decisions import values_of
from gramian.ridge.planning import is_auto, plan_sums
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.ridge.training import Trained, ridge_trial
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import Point
from gramian.solvers.solution import Solution, Status
from gramian.svm.newton_training import NewtonSettings, NewtonTraining

#: Tolerances are relative to the objective, or to this fraction of its value at f = 0 if that is larger:
#: with one class and an unpenalised intercept the loss has no minimum.
FLOOR = 1e-4
#: Largest outputs · rank³ that approximation="auto" may choose. Each unit takes 0.5 ns (squared hinge) to
#: 3.5 ns (hinge) of a fit, so this limit is 7 minutes to an hour. A rank that the user gives has no limit.
MOST_WORK = 9e11
#: Parameters that the ridge model which compares metrics takes over from the estimator.
RIDGE_PARAMETERS = (
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "kernel_params",
    "fit_intercept",
    "memory_budget",
    "tile_dtype",
    "n_jobs",
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
    """What one kind of estimator minimises."""

    #: Returns the loss for a number of outputs.
    loss: Callable[[int], Loss]
    #: Largest curvature of the loss: a ridge penalty is divided by it to compare with 1/C.
    bend: float = 1.0
    #: Loss of each row, from targets and values (n, outputs), by which rounds of a metric are compared.
    #: None: the loss that is minimised.
    judged: Callable[[Float64Array, Float64Array], Float64Array] | None = None

    def penalty(self, C: Any) -> float:
        """Return the ridge penalty that sizes and precision are planned for."""
        return 1.0 / (self.bend * positive_number("C", C))

    def losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return the loss of each row, (n,), by which rounds of a metric are compared."""
        if self.judged is not None:
            return self.judged(targets, values)
        return self.loss(targets.shape[1]).value(targets, values).sum(axis=1)


@dataclass(frozen=True)
class NewtonFit:
    """A minimum, with everything that further minimisations on the same bases need."""

    training: NewtonTraining
    minimum: Minimum
    kernel: Kernel
    rows: LabelledRows[Any]
    settings: NewtonSettings
    rng: np.random.Generator

    def keep_in(self, model: Any) -> None:
        """Make this the fit of an estimator."""
        training, found = self.training, self.minimum
        gap = float(found.gap.max(initial=0.0))
        status = Status.CONVERGED if training.reached else Status.LIMIT
        Trained(
            training.predictor(found.point),
            self.kernel,
            found.point.offset,
            Solution(found.point.beta, status, found.iterations, gap),
            training.used(),
            training.features.rank,
        ).keep_in(model)
        model.n_iter_ = found.iterations


def minimise_classes(
    model: Any, rows: LabelledRows[Any], problem: Problem, start: Float64Array | None = None
) -> NewtonFit:
    """Minimise the loss of rows with class labels; ``start`` are intercepts to begin with."""
    signs = Signs.of(rows.targets)
    settings = settings_of(model, problem.loss(signs.shape[1]), rows.mass)
    return minimise(model, replace(rows, targets=signs), settings, problem.penalty(model.C), start)


def minimise(
    model: Any,
    rows: LabelledRows[Any],
    settings: NewtonSettings,
    alpha: float,
    start: Float64Array | None = None,
) -> NewtonFit:
    """Minimise the loss of rows; ``start`` are intercepts to begin with.

    ``alpha`` is the ridge penalty that sizes and precision are planned for.
    """
    source, targets, weights, outputs = rows.source, rows.targets, rows.weights, rows.n_outputs
    plan, kernel, engine, rng = plan_sums(model, source, outputs, alpha, model.random_state, weights=weights)
    rank = min(plan.root_rank, rows.n)
    if is_auto(model.approximation) and settings.loss.separable and outputs * float(rank) ** 3 > MOST_WORK:
        raise InputError(
            f"{outputs:,} outputs, each a problem of its own with a matrix of {rank:,} columns, would "
            "take many minutes. Give a rank, such as approximation=Nystrom(rank=200), or solve for all "
            "outputs together: KernelRidge, KernelRidgeClassifier or KernelLogisticRegression."
        )
    with shown_bar(model.verbose, unit="rows", desc="passes") as bar:
        training = NewtonTraining(
            source,
            kernel,
            weights,
            plan,
            n_outputs=outputs,
            anchored=isinstance(settings.loss, Proximal),
            rng=rng,
            engine=engine,
            progress=bar.update,
        )
        at = None
        if start is not None:
            zero = Point.zeros(training.features.rank, outputs)
            at = Point(zero.beta, zero.dual, start)
        found = training.minimise(targets, weights, settings, at)
    return NewtonFit(training, found, kernel, rows, settings, rng)


def settings_of(model: Any, loss: Loss, mass: float, scale: float = 1.0) -> NewtonSettings:
    """Return a loss with the penalty and tolerances of an estimator.

    ``mass`` is the objective's size at f = 0 without C, ``scale`` that of the decision values.
    """
    return NewtonSettings(
        loss,
        1.0 / positive_number("C", model.C),
        bool(model.fit_intercept),
        positive_number("tol", model.tol),
        whole_number("max_iter", model.max_iter, 1),
        scale,
        FLOOR * mass,
    )


def plan_newton(model: Any, penalty: float, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of bases and a pass for a fit to rows."""
    source = planned_input(model, source, metric=model.metric, standardize=model.standardize).over(source)
    return plan_sums(model, source, n_outputs, penalty, deepcopy(model.random_state))[0]


# ---- rounds of a metric --------------------------------------------------------------------------


def newton_trial(model: Any, penalty: float, make: Callable[[Any], RoundModel], quick: bool) -> RoundModel:
    """Return what a round of a metric fits: ``make`` of a copy of the model, or a ridge model.

    A ridge model ranks metrics as well as this one does, and takes one solve instead of several passes.
    """
    if not quick or not compares_exactly(model.memory_budget):
        return make(plain_copy(model))
    kind = KernelRidgeClassifier if is_classifier(model) else KernelRidge
    shared = {name: getattr(model, name) for name in RIDGE_PARAMETERS}
    return ridge_trial(kind(penalty, approximation="exact", **shared))


def class_trial(model: Any, problem: Problem, before: Any, quick: bool) -> RoundModel:
    """Return what a round of a metric fits for a classifier; ``before`` is the model of an earlier round."""

    def make(copied: Any) -> RoundModel:
        def fit(rows: LabelledRows[Any]) -> None:
            # Losses that are minimised output by output have a better start: the minimum for half the rows.
            coupled = not problem.loss(rows.n_outputs).separable
            start = before.intercept_ if coupled and before is not None else None
            minimise_classes(copied, rows, problem, start).keep_in(copied)

        return RoundModel(
            copied,
            fit,
            partial(values_of, copied),
            lambda: (copied.predictor_, copied.kernel_),
            problem.losses,
            bounded=False,
        )

    return newton_trial(model, problem.penalty(model.C), make, quick)
