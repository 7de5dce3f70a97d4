"""The kernel machines that a fitted model consists of, and the map from their values to its prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import is_index
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.predictor import KernelTerms, Predictor
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, predicted_blocks
from gramian.estimator.base import KernelEstimator, read_rows
from gramian.estimator.input import Input
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError, listed, quoted
from gramian.fast.probabilities import Calibration
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels.precomputed import bound
from gramian.tables.regressor import TabularRegressor
from gramian.tables.ridge_mean import Boosted, RidgeMean, members_of
from gramian.tables.serving import TableServer, encoded_rows
from gramian.tables.target import NONE, OutputMap

#: A map of numbers, elementwise.
Map = Callable[[Float64Array], Float64Array]
#: Relative size of a difference below which a secant is taken as a slope, and the step of that slope.
NEAR, STEP = 1e-9, 1e-6


@dataclass(frozen=True)
class Affine:
    """The map v ↦ slope · v + offset, through which sums keep their parts."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, v: Float64Array) -> Float64Array:
        """Return the mapped numbers."""
        return v * self.slope + self.offset


@dataclass(frozen=True)
class Explained:
    """What is explained of each row: the number of an output, its sign, and by what the groups count.

    outputs, signs : (n,); factors : (n, groups), with the sign.
    """

    outputs: IntArray
    signs: Float64Array
    factors: Float64Array

    def rows(self, where: slice | IntArray) -> Explained:
        """Return this for some of the rows."""
        return Explained(self.outputs[where], self.signs[where], self.factors[where])


@dataclass(frozen=True)
class Machine:
    """A part of a model with its weight in the mean: weight · (intercept + Σ_j k(x, z_j) c_j)."""

    weight: float
    predictor: Predictor | ExactPredictor
    input: Input
    intercept: Float64Array
    engine: Engine

    def values(self, source: RowSource) -> Float64Array:
        """Return the weighted values of all rows, (n, outputs)."""
        rows, predictor = self.input.over(source), bound(self.predictor, source)
        blocks = predicted_blocks(predictor, rows, self.engine)
        return self.weight * (np.concatenate([values for _, values in blocks]) + self.intercept)

    def terms(self, source: RowSource, where: slice) -> Iterator[KernelTerms]:
        """Yield k(x, z_j) and c_j for a slice of the rows."""
        return bound(self.predictor, source).terms(self.input.over(source).rows(where), self.engine)


@dataclass(frozen=True)
class Machines:
    """A fitted model as a sum of kernel machines and a map of its values.

    Its prediction of output o is Σ_g maps[o][g](v_{g, o}), where the machines give the first groups of
    values v: one, or for a classifier of tables a second with log odds of logistic models. Boosted values,
    times ``boosting``, are added to the last group, which for classes is one of their own.
    """

    model: Any
    machines: tuple[Machine, ...]
    maps: tuple[tuple[Map, ...], ...]
    unit: str
    boosted: Boosted | None = None
    boosting: float = 0.0

    def read(self, X: RowsLike) -> RowSource:
        """Return a user's rows as the machines take them: of a table encoded and scaled."""
        if isinstance(self.model, TableServer):
            return encoded_rows(self.model, X)
        return read_rows(self.model, X)

    def values(self, source: RowSource) -> tuple[Float64Array, Float64Array]:
        """Return the values (n, groups, outputs), and the boosted part in the last group (n, outputs)."""
        total = self.machines[0].values(source)
        for each in self.machines[1:]:
            total += each.values(source)
        boosted = np.zeros((len(total), len(self.maps)))
        if self.boosted is not None:
            boosted = self.boosting * self.boosted.predict(source)
        values = self._grouped(total)
        values[:, -1] += boosted
        return values, boosted

    @property
    def straight(self) -> bool:
        """Whether the prediction is a linear map of the machines' sums alone."""
        return self.boosted is None and all(isinstance(one, Affine) for maps in self.maps for one in maps)

    def coefficients(self, machine: Machine, terms: KernelTerms, explained: Explained) -> Float64Array:
        """Return c_j for each row of the terms, (rows, points), in the unit of the prediction."""
        weights, width = np.asarray(terms.weights, np.float64).T, len(self.maps)
        found = np.zeros((len(terms.rows), weights.shape[1]))
        for g in range(len(weights) // width):
            found += explained.factors[:, g, None] * weights[g * width + explained.outputs]
        return machine.weight * found

    def _grouped(self, total: Float64Array) -> Float64Array:
        """Return sums of the machines (n, columns) as groups (n, groups, outputs)."""
        values = np.zeros((len(total), len(self.maps[0]) * len(self.maps)))
        values[:, : total.shape[1]] = total
        return values.reshape(len(total), len(self.maps[0]), len(self.maps))

    def predictions(self, values: Float64Array) -> Float64Array:
        """Return the number that is explained of each output, (n, outputs)."""
        return np.column_stack(
            [sum(one(values[:, g, o]) for g, one in enumerate(maps)) for o, maps in enumerate(self.maps)]
        )

    def factors(
        self, output: int, values: Float64Array, boosted: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return base (n,), factors (n, groups) of the shares, and what boosting adds (n,), of one output.

        A map h of a value v = b + Σ_j s_j counts by its secant: h(v) = h(b) + Σ_j s_j (h(v) − h(b))/(v − b).
        """
        intercept = sum(each.weight * np.asarray(each.intercept) for each in self.machines)
        starts = np.repeat(self._grouped(np.atleast_2d(intercept)), len(values), axis=0)
        maps = list(enumerate(self.maps[output]))
        base = np.asarray(sum(one(starts[:, g, output]) for g, one in maps))
        factors = np.column_stack(
            [secant(one, starts[:, g, output], values[:, g, output]) for g, one in maps]
        )
        return base, factors, factors[:, -1] * boosted[:, output]


def secant(one: Map, start: Float64Array, end: Float64Array) -> Float64Array:
    """Return (h(end) − h(start))/(end − start), and the slope of h where both are equal.

    >>> secant(np.square, np.array([0.0, 2.0]), np.array([3.0, 2.0])).round(6)
    array([3., 4.])
    """
    if isinstance(one, Affine):
        return np.full(len(start), one.slope)
    unit = np.maximum(np.maximum(np.abs(start), np.abs(end)), 1.0)
    equal = np.abs(end - start) <= NEAR * unit
    low = np.where(equal, start - STEP * unit, start)
    high = np.where(equal, start + STEP * unit, end)
    return np.asarray((one(high) - one(low)) / (high - low))


def machines_of(model: BaseEstimator) -> Machines:
    """Return the kernel machines of a fitted model; raise for a model that is none."""
    if isinstance(model, TableServer):
        check_is_fitted(model, "model_")
        return _of_table(model)
    if isinstance(model, GaussianProcessRegressor):
        check_is_fitted(model, "posterior_")
        one = _machine(model, predictor=model.posterior_.predictor)
        moments = zip(np.asarray(model.y_std_), np.asarray(model.y_mean_), strict=True)
        maps = tuple((Affine(spread, mean),) for spread, mean in moments)
        return Machines(model, (one,), maps, "of the target")
    if isinstance(model, KernelEstimator):
        check_is_fitted(model)
        one = _machine(model)
        unit = "decision value" if hasattr(model, "classes_") else "of the target"
        return Machines(model, (one,), ((Affine(),),) * one.predictor.n_outputs, unit)
    raise InputError(
        f"model has type {type(model).__name__}; expected a fitted kernel model of gramian, such as "
        "gm.KernelRidge().fit(X, y)."
    )


def _machine(model: BaseEstimator, weight: float = 1.0, *, predictor: object = None) -> Machine:
    """Return a model as a machine; raise unless its predictor is a sum of kernel values with points.

    predictor : by default the model's ``predictor_``.
    """
    predictor = getattr(model, "predictor_", None) if predictor is None else predictor
    explicit = isinstance(predictor, Predictor) and any(
        isinstance(columns, ExplicitColumns) for columns in predictor.columns
    )
    if isinstance(predictor, Predictor | ExactPredictor) and not explicit:
        start = np.asarray(getattr(model, "intercept_", np.zeros(predictor.n_outputs)))
        return Machine(weight, predictor, Input.of(model), start, Engine(model.n_jobs))
    if isinstance(predictor, NeighbourPosterior):
        raise InputError(
            f"this {type(model).__name__} predicts each row from its nearest rows, with weights of its own, "
            "so it is no one sum over rows. Fit it with approximation='multiresolution' to explain it."
        )
    what = "predicts by random features, which belong to no row" if explicit else "is no sum over rows"
    raise InputError(
        f"this {type(model).__name__} {what}, so no row has a share in its predictions. Explain a "
        "KernelRidge, KernelRidgeClassifier, KernelSVC, KernelSVR, KernelLogisticRegression, "
        "GaussianProcessRegressor, TabularRegressor or TabularClassifier, with landmarks or exact."
    )


def _of_table(model: BaseEstimator) -> Machines:
    inner = model.model_
    boosted = inner.boosted_ if isinstance(inner, RidgeMean) and hasattr(inner, "boosted_") else None
    share = float(inner.share_) if boosted is not None and isinstance(model, TabularRegressor) else 0.0
    machines = tuple(_machine(each, (1.0 - share) * weight) for weight, each in members_of(inner))
    if isinstance(model, TabularRegressor):
        back = tuple((_straightened(output),) for output in model.target_.outputs)
        return Machines(model, machines, back, "of the target", boosted, share)
    n_outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
    calibration: Calibration = model.calibration_
    plain = replace(calibration, logistic=0.0, boosting=0.0)

    def log_odds(v: Float64Array) -> Float64Array:
        return plain.log_odds(np.repeat(v[:, None], n_outputs, axis=1))[:, 0]

    linear = Affine(calibration.slope) if calibration.bend == 0.0 else log_odds
    maps: tuple[Map, ...] = (linear, Affine(calibration.logistic))[
        : machines[0].predictor.n_outputs // n_outputs
    ]
    if boosted is not None:
        maps = (*maps, Affine())
    return Machines(model, machines, (maps,) * n_outputs, "log odds", boosted, calibration.boosting)


def _straightened(output: OutputMap) -> Map:
    """Return the map of predictions to means of the target, as a linear one where it is one."""
    if output.how != NONE:
        return output.expected
    start, end = output.expected(np.array([0.0, 1.0])).tolist()
    return Affine(end - start, start)


def explained_outputs(
    model: BaseEstimator, predictions: Float64Array, output: object
) -> tuple[Array, Float64Array, tuple[str, ...]]:
    """Return the output to explain of each row, a sign for each row, and names of the classes.

    For classes ``output`` is a label and by default that of the prediction; two classes share a column of
    values, which counts with the sign −1 for the first.
    """
    n, width = predictions.shape
    classes = getattr(model, "classes_", None)
    if classes is None:
        if output is None and width > 1:
            raise InputError(
                f"the model has {width} outputs: pass output=0 to output={width - 1} for the one to explain."
            )
        chosen = 0 if output is None else output
        if not is_index(chosen, width):
            raise InputError(f"output={quoted(output)} must be a whole number from 0 to {width - 1}.")
        return np.full(n, int(chosen)), np.ones(n), ()
    if output is None:
        labels = class_labels(predictions, classes)
        numbers = np.searchsorted(classes, labels)
    else:
        found = np.flatnonzero(classes == output)
        if not len(found):
            raise InputError(
                f"output={quoted(output)} is none of the classes; choose one of "
                f"{listed(classes.tolist(), 5)}."
            )
        numbers = np.full(n, found[0])
    names = tuple(str(label) for label in classes[numbers])
    if width > 1:
        return numbers, np.ones(n), names
    return np.zeros(n, np.intp), np.where(numbers == 1, 1.0, -1.0), names
