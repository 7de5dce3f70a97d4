"""Shared base of the estimators trained by Newton's method: targets, fit, decisions as classes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._checks import positive_number, whole_number
from gramian._typing import Array, Float64Array, IntArray
from gramian.compression.plan import Plan
from gramian.compression.ridge_sums import Targets
from gramian.data.source import RowSource
from gramian.estimator.answers import decision_values, in_blocks, likeliest
from gramian.estimator.base import checked_weights
from gramian.estimator.kinds import Classifier
from gramian.estimator.progress import shown_bar
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import InputError
from gramian.metric.parameter import QUICK_BYTES
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.ridge.streaming import StreamingRidge
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import Point
from gramian.solvers.solution import Solution, Status
from gramian.svm.newton_training import NewtonTraining, Settings

#: An objective under this part of its size at f = 0 counts as that much: without a penalty on the
#: intercept a single class has none that is least.
FLOOR = 1e-4
#: Largest outputs · rank³ that approximation="auto" may choose. One of these takes 0.5 ns (squared hinge) to
#: 3.5 ns (hinge) of a fit, so that this many are 7 minutes to an hour. A rank that the user gave is taken.
MOST_WORK = 9e11
#: What a ridge model that compares metrics has from the estimator.
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

    def __getitem__(self, where: slice) -> Float64Array:
        codes = self.codes[where]
        if self._n_classes == 2:
            return 2.0 * codes[:, None] - 1.0
        block = np.full((len(codes), self._n_classes), -1.0)
        block[np.arange(len(codes)), codes] = 1.0
        return block


class StreamingNewton(StreamingRidge):
    """Base of the estimators that minimise C Σ w_i ℓ(y_i, f(x_i) + b) + ½ ‖f‖²."""

    C: float
    tol: float
    max_iter: int
    #: Largest curvature of the loss: what a ridge penalty is divided by to compare with C.
    _bend = 1.0

    def _penalty(self) -> float:
        return 1.0 / (self._bend * positive_number("C", self.C))

    def _copy(self, before: Any, quick: bool) -> Any:
        if not quick or parse_bytes(self.memory_budget) < QUICK_BYTES:
            return super()._copy(before, quick)
        # A ridge model tells good metrics from bad ones as well, and takes a solve instead of passes.
        kind = KernelRidgeClassifier if is_classifier(self) else KernelRidge
        shared = {name: getattr(self, name) for name in RIDGE_PARAMETERS}
        return kind(self._penalty(), approximation="exact", **shared)

    def _settings(self, loss: Loss, mass: float, scale: float = 1.0) -> Settings:
        return Settings(
            loss,
            1.0 / positive_number("C", self.C),
            bool(self.fit_intercept),
            positive_number("tol", self.tol),
            whole_number("max_iter", self.max_iter, 1),
            scale,
            FLOOR * mass,
        )

    def _minimise(
        self,
        source: RowSource,
        targets: Targets,
        weights: Array | None,
        settings: Settings,
        start: Float64Array | None = None,
    ) -> tuple[NewtonTraining, Minimum, np.random.Generator]:
        """Train and set what every fit sets; ``start`` are intercepts to begin with."""
        plan, kernel, engine, rng = self._planned(
            source, targets.shape[1], self.random_state, weights=weights
        )
        outputs, rank = targets.shape[1], min(plan.root_rank, source.shape[0])
        chosen = isinstance(self.approximation, str) and self.approximation == "auto"
        if chosen and settings.loss.separable and outputs * float(rank) ** 3 > MOST_WORK:
            raise InputError(
                f"{outputs:,} outputs, each a problem of its own with a matrix of {rank:,} columns, would "
                "take many minutes. Give a rank, such as approximation=Nystrom(rank=200), or solve for all "
                "outputs together: KernelRidge, KernelRidgeClassifier or KernelLogisticRegression."
            )
        with shown_bar(self.verbose, unit="rows", desc="passes") as bar:
            training = NewtonTraining(
                source,
                kernel,
                weights,
                plan,
                n_outputs=targets.shape[1],
                anchored=isinstance(settings.loss, Proximal),
                rng=rng,
                engine=engine,
                progress=bar.update,
            )
            at = None
            if start is not None:
                zero = Point.zeros(training.features.rank, targets.shape[1])
                at = Point(zero.beta, zero.dual, start)
            found = training.minimise(targets, weights, settings, at)
        self.intercept_ = found.point.offset
        self.predictor_, self.kernel_ = self._released(training.predictor(found.point), kernel)
        gap = float(found.gap.max(initial=0.0))
        status = Status.CONVERGED if training.reached else Status.LIMIT
        self.solution_ = Solution(found.point.beta, status, found.iterations, gap)
        self.plan_ = training.used()
        self.rank_ = training.features.rank
        self.n_iter_ = found.iterations
        return training, found, rng


class NewtonClassifier(Classifier, StreamingNewton):
    """Base of the classifiers: labels in, decisions and classes out."""

    class_weight: Any
    _bounded = False

    def _fit_classes(
        self, source: RowSource, y: Any, sample_weight: Any
    ) -> tuple[NewtonTraining, Minimum, Signs, Array | None, Settings, np.random.Generator]:
        labels = ClassTargets(y, source.shape[0])
        weights = checked_weights(labels.weights(self.class_weight, sample_weight), source.shape[0])
        return self._fit_labels(self._under_metric(source, labels, weights), labels, weights)

    def _fit_labels(
        self,
        source: RowSource,
        labels: ClassTargets,
        weights: Array | None,
        start: Float64Array | None = None,
    ) -> tuple[NewtonTraining, Minimum, Signs, Array | None, Settings, np.random.Generator]:
        self.classes_ = labels.classes
        codes = labels.codes(slice(None)).astype(np.min_scalar_type(-len(self.classes_)))
        signs = Signs(codes, len(self.classes_))
        mass = float(source.shape[0] if weights is None else weights.sum())
        settings = self._settings(self._loss_of(len(self.classes_)), mass)
        training, found, rng = self._minimise(source, signs, weights, settings, start)
        return training, found, signs, weights, settings, rng

    def _loss_of(self, n_classes: int) -> Loss:
        """Return the loss that is minimised for this many classes."""
        raise AssertionError("each classifier has its loss")

    def _fit_part(self, source: RowSource, targets: Any, weights: Any, before: Any = None) -> None:
        # Losses that are minimised output by output begin nearer, at the minimum for half the rows.
        coupled = not self._loss_of(len(targets.classes)).separable
        start = before.intercept_ if coupled and before is not None else None
        self._fit_labels(source, targets, weights, start)

    def _losses(self, targets: Float64Array, values: Float64Array) -> Float64Array:
        """Return what each row adds to the objective."""
        return self._loss_of(len(self.classes_)).value(targets, values).sum(axis=1)

    def decision_function(self, X: Any) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        check_is_fitted(self, "predictor_")
        return decision_values(self._decision(X))

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row; of several the first in ``classes_``."""
        check_is_fitted(self, "predictor_")
        source = self._rows(X, reset=False)
        blocks, labels = self._finite_blocks(source), lambda values: self.classes_[self._likeliest(values)]
        return in_blocks(blocks, source.shape[:1], labels, dtype=self.classes_.dtype)

    def _likeliest(self, values: Float64Array) -> IntArray:
        """Return the number of the likeliest class for decision values, shape (rows, outputs)."""
        return likeliest(values)

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Predict sizes and bytes of bases and a pass, without fitting (``y``: the classes)."""
        with self._all_or_nothing(keep=False):
            source = self._scaled(self._rows(X, reset=True), learn=True, sampled=True)
            outputs = 1 if y is None else ClassTargets(y, source.shape[0]).shape[1]
            return self._planned(source, outputs, deepcopy(self.random_state))[0]
