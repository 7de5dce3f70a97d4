"""Gradients of the library's predictors, in closed form where one exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.expansion import PairwisePredictor, class_pairs
from gramian.compression.features import Unit, units_by_leaf
from gramian.compression.predictor import Predictor
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.input_gradient import has_input_gradient, input_gradient
from gramian.kernels.precomputed import Precomputed
from gramian.metric.differences import by_differences
from gramian.metric.metric import Metric

#: What can be differentiated: a predictor of the library, or any function of rows.
Predicts: TypeAlias = "Predictor | ExactPredictor | PairwisePredictor | Callable[[Array], Array]"


class Gradients(Protocol):
    """f and ∇f of a predictor."""

    def values(self, rows: Float64Array) -> Float64Array:
        """Return f, shape (n, outputs)."""

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        """Return the rows' numbers so that those which share work are neighbours."""

    def __call__(self, rows: Float64Array) -> Float64Array:
        """Return ∇f, shape (n, d, outputs)."""


def gradients_of(predictor: Predicts, kernel: Kernel | None, steps: Float64Array) -> Gradients:
    """Return the gradients of a predictor: in closed form, or by differences where there is no formula.

    kernel : of a :class:`Predictor`, which holds none.
    steps : (d,), steps of differences; features with a step of 0 have the slope 0.

    Differences serve any function, explicit feature maps and a user's own kernel function.
    """
    if not isinstance(predictor, Predictor | ExactPredictor | PairwisePredictor):
        if not callable(predictor):
            raise InputError(
                f"predictor has type {type(predictor).__name__}; expected a predictor of the library, or a "
                "function from rows (n, d) to values (n, outputs)."
            )
        return _Differences(predictor, steps)
    chunk = predictor if isinstance(predictor, PairwisePredictor) else predictor.chunk
    differences = _Differences(lambda rows: chunk(rows, Engine(1)), steps)
    own = predictor.kernel
    if isinstance(predictor, Predictor):
        if any(isinstance(columns, ExplicitColumns) for columns in predictor.columns):
            return differences
        if kernel is None:
            raise InputError(
                "kernel=None was given with a Predictor, which holds no kernel. Pass the one that it was "
                "trained with, such as kernel=model.kernel_."
            )
        own = kernel
    if isinstance(own, Precomputed):
        raise InputError(
            "the kernel is precomputed: its rows are numbers of a stored matrix and have no features, along "
            "which values could change. Fit to the rows themselves, with a kernel's name."
        )
    if not has_input_gradient(own):
        return differences
    if isinstance(predictor, Predictor):
        return _PathGradients(predictor, own)
    return _ExactGradients(predictor) if isinstance(predictor, ExactPredictor) else _PairGradients(predictor)


@dataclass(frozen=True)
class _PathGradients:
    """Σ over the nodes on a row's path of ∇k(x, Z)ᵀ κ; the borders between leaves are left out."""

    predictor: Predictor
    kernel: Kernel

    def values(self, rows: Float64Array) -> Float64Array:
        return self.predictor.chunk(rows, Engine(1))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        return np.argsort(self.predictor.partition.route(rows, engine), kind="stable")

    def __call__(self, rows: Float64Array) -> Float64Array:
        p = self.predictor
        labels = p.partition.route(rows, Engine(1))
        out = np.empty((*rows.shape, p.n_outputs))
        for unit in units_by_leaf(labels, p.leaf_levels):
            out[unit.rows] = self._unit(rows[unit.rows], unit, labels[unit.rows])
        return out

    def _unit(self, X: Float64Array, unit: Unit, leaves: Array) -> Float64Array:
        p = self.predictor
        out = np.zeros((*X.shape, p.n_outputs))
        for level, segments in enumerate(unit.levels):
            for segment in segments:
                if p.columns[segment.node].n_columns == 0:
                    continue
                # Rows of one node but of several leaves carry different weights.
                for leaf in unit.levels[-1]:
                    a = max(leaf.rows.start, segment.rows.start)
                    b = min(leaf.rows.stop, segment.rows.stop)
                    if a < b:
                        weight = p.weights[level][int(leaves[a])]
                        out[a:b] += input_gradient(self.kernel, X[a:b], p.landmarks[segment.node], weight)
        return out


@dataclass(frozen=True)
class _ExactGradients:
    """Σ_i ∇k(x, x_i) a_i over all training rows."""

    predictor: ExactPredictor

    def values(self, rows: Float64Array) -> Float64Array:
        return self.predictor.chunk(rows, Engine(1))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        return np.arange(rows.shape[0])

    def __call__(self, rows: Float64Array) -> Float64Array:
        p = self.predictor
        return input_gradient(p.kernel, rows, p.rows, p.coefficients)


@dataclass(frozen=True)
class _PairGradients:
    """Σ_s ∇k(x, x_s) u_s of each pair of classes, over the support vectors in the row's cluster."""

    predictor: PairwisePredictor

    def values(self, rows: Float64Array) -> Float64Array:
        return self.predictor(rows, Engine(1))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        return np.argsort(self._clusters(rows, engine), kind="stable")

    def __call__(self, rows: Float64Array) -> Float64Array:
        p = self.predictor
        labels = self._clusters(rows, Engine(1))
        out = np.zeros((*rows.shape, p.offsets.shape[1]))
        for cluster in np.unique(labels):
            members, vectors = np.flatnonzero(labels == cluster), np.flatnonzero(p.cluster == cluster)
            if len(vectors):
                weights = self._weights(vectors)
                out[members] = input_gradient(p.kernel, rows[members], p.support[vectors], weights)
        return out

    def _clusters(self, rows: Rows, engine: Engine) -> IntArray:
        p = self.predictor
        if p.partition is None or p.level is None:
            return np.zeros(rows.shape[0], np.intp)
        return np.asarray(p.level[p.partition.route(rows, engine)], np.intp)

    def _weights(self, vectors: IntArray) -> Float64Array:
        """Return the weight of support vectors in each pair of classes, (vectors, pairs), 0 in most."""
        p = self.predictor
        owners, coefficients = p.owner[vectors], p.coefficients[:, vectors]
        pairs = class_pairs(len(p.coefficients) + 1)
        out = np.zeros((len(vectors), len(pairs)))
        for number, (first, second) in enumerate(pairs):
            # A class's column has the pairs with the others in their order, itself left out.
            for own, other in ((first, second - 1), (second, first)):
                members = owners == own
                out[members, number] = coefficients[other, members]
        return out


@dataclass(frozen=True)
class _Differences:
    """(f(x + h_j e_j) − f(x − h_j e_j))/(2 h_j) of any function."""

    function: Callable[[Array], Array]
    steps: Float64Array

    def values(self, rows: Float64Array) -> Float64Array:
        found = np.asarray(self.function(rows), np.float64)
        found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or len(found) != len(rows):
            raise InputError(
                f"predictor gave values of shape {found.shape} for {len(rows)} rows; expected "
                f"({len(rows)},) or ({len(rows)}, outputs), one row of values for each row."
            )
        return found

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        return np.arange(rows.shape[0])

    def __call__(self, rows: Float64Array) -> Float64Array:
        varying = np.flatnonzero(self.steps > 0)
        if not varying.size:
            return np.zeros((*rows.shape, self.values(rows[:1]).shape[1]))
        slopes = by_differences(self.values, rows, varying, self.steps)
        out = np.zeros((*rows.shape, slopes.shape[2]))
        out[:, varying] = slopes
        return out


@dataclass(frozen=True)
class MappedGradients:
    """x ↦ f(T(x)) and its gradient T ∇f, by the chain rule. Time of ``inner`` and O(d r outputs) a row."""

    inner: Gradients
    metric: Metric

    def values(self, rows: Float64Array) -> Float64Array:
        return self.inner.values(np.asarray(self.metric.apply(rows)))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        return self.inner.order(self.metric.apply(rows), engine)

    def __call__(self, rows: Float64Array) -> Float64Array:
        found = self.inner(np.asarray(self.metric.apply(rows)))
        if self.metric.scales is not None:
            return found * self.metric.scales[:, None]
        matrix = self.metric.matrix
        assert matrix is not None
        return np.einsum("dr,nro->ndo", matrix, found, optimize=True)
