"""Slopes of functions of rows: closed forms of predictors, finite differences, values that are switched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.expansion import PairwisePredictor, class_pairs
from gramian.compression.features import units_by_leaf
from gramian.compression.predictor import Predictor
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.kernels.input_gradient import has_input_gradient, input_gradient
from gramian.kernels.precomputed import Precomputed
from gramian.metric.metric import Metric

#: Rows (n, d) → values (n, outputs).
Function: TypeAlias = "Callable[[Array], Float64Array]"
#: What can be differentiated: a predictor of the library, or any function of rows.
Predicts: TypeAlias = "Predictor | ExactPredictor | PairwisePredictor | Callable[[Array], Array]"
#: Columns that are switched together: one of two values, or the one-hot columns of a category.
Group: TypeAlias = "Sequence[int] | IntArray"

#: Step of a finite difference, in standard deviations of a feature: wide enough for functions with kinks.
STEP = 0.1
#: Evaluations by switching values, at most, and rows at which gradients are taken at least.
EVALUATIONS, LEAST_GRADIENTS = 16_000, 100
#: Bytes of changed rows that a function is given at a time: few at a time cost more in calls than in sums.
BATCH_BYTES = 1 << 23
#: Rows whose deviations are summed at a time.
SUMMED_ROWS = 512


@dataclass(frozen=True)
class Differentiable:
    """The function x ↦ f(T(x)), with its gradient by x.

    predictor : f, a predictor of the library (gradients in closed form), or a function from rows (n, d) to
        values (n,) or (n, outputs) (by finite differences, as for explicit feature maps and function kernels)
    kernel : that of a :class:`~gramian.compression.predictor.Predictor`, which holds none
    metric : T, if the predictor takes rows under a metric
    steps : (d,), of finite differences, in the units that the predictor takes; by default a tenth of each
        column's deviation, 0 for constant ones
    """

    predictor: Predicts
    kernel: Kernel | None = None
    metric: Metric | None = None
    steps: Array | None = None

    def settled(self, rows: Rows) -> Differentiable:
        """Return this with the kernel of its closed form; without one, with the steps that ``rows`` ask for.

        Raises ``InputError`` for what has no gradient.
        """
        kernel, steps = self._closed_form(), self.steps
        if kernel is None and steps is None:
            steps = _steps(self._mapped(rows))
        return replace(self, kernel=kernel, steps=None if steps is None else np.asarray(steps, np.float64))

    def _closed_form(self) -> Kernel | None:
        """Return the kernel whose derivative gives the gradient, None where there is no formula."""
        predictor = self.predictor
        if not isinstance(predictor, Predictor | ExactPredictor | PairwisePredictor):
            if not callable(predictor):
                raise InputError(
                    f"predictor has type {type(predictor).__name__}; expected a predictor of the library, or "
                    "a function from rows (n, d) to values (n, outputs)."
                )
            return None
        if not isinstance(predictor, Predictor):
            kernel: Kernel | None = predictor.kernel
        elif any(isinstance(columns, ExplicitColumns) for columns in predictor.columns):
            return None
        else:
            kernel = self.kernel
        if kernel is None:
            raise InputError(
                "kernel=None was given with a Predictor, which holds no kernel. Pass the one that it was "
                "trained with, such as kernel=model.kernel_."
            )
        if isinstance(kernel, Precomputed):
            raise InputError(
                "the kernel is precomputed: its rows are numbers of a stored matrix and have no features, "
                "along which values could change. Fit to the rows themselves, with a kernel's name."
            )
        return kernel if has_input_gradient(kernel) else None

    def values(self, rows: Array) -> Float64Array:
        """Return the function at some rows, shape (n, outputs)."""
        return self._values(np.asarray(self._mapped(rows)))

    def order(self, rows: Rows, engine: Engine) -> IntArray:
        """Return the rows' numbers so that those which share work are neighbours."""
        predictor = self.predictor
        if self.kernel is not None and isinstance(predictor, Predictor):
            labels = predictor.partition.route(self._mapped(rows), engine)
        elif self.kernel is not None and isinstance(predictor, PairwisePredictor):
            labels = _clusters(predictor, self._mapped(rows), engine)
        else:
            return np.arange(rows.shape[0])
        return np.argsort(labels, kind="stable")

    def gradients(self, rows: Float64Array) -> Float64Array:
        """Return the gradients at some rows, shape (n, d, outputs)."""
        mapped, predictor = np.asarray(self._mapped(rows)), self.predictor
        if self.kernel is None:
            slopes = self._differences(mapped)
        elif isinstance(predictor, Predictor):
            slopes = _path_gradients(predictor, self.kernel, mapped)
        elif isinstance(predictor, ExactPredictor):
            slopes = input_gradient(predictor.kernel, mapped, predictor.rows, predictor.coefficients)
        else:
            assert isinstance(predictor, PairwisePredictor)
            slopes = _pair_gradients(predictor, mapped)
        if self.metric is None:
            return slopes
        if self.metric.scales is not None:
            return slopes * self.metric.scales[:, None]
        assert self.metric.matrix is not None
        return np.einsum("dr,nro->ndo", self.metric.matrix, slopes, optimize=True)

    def _mapped(self, rows: Rows) -> Rows:
        return rows if self.metric is None else self.metric.apply(rows)

    def _values(self, mapped: Array) -> Float64Array:
        predictor = self.predictor
        if isinstance(predictor, Predictor | ExactPredictor):
            return np.asarray(predictor.chunk(mapped, Engine(1)), np.float64)
        if isinstance(predictor, PairwisePredictor):
            return predictor(mapped, Engine(1))
        values = np.asarray(predictor(mapped), np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(mapped):
            raise InputError(
                f"predictor gave values of shape {values.shape} for {len(mapped)} rows; expected "
                f"({len(mapped)},) or ({len(mapped)}, outputs), one row of values for each row."
            )
        return values

    def _differences(self, mapped: Float64Array) -> Float64Array:
        """Return (f(x + h_j e_j) − f(x − h_j e_j))/(2 h_j), 0 for columns with a step of 0."""
        assert self.steps is not None
        varying = np.flatnonzero(self.steps > 0)
        if not varying.size:
            return np.zeros((*mapped.shape, self._values(mapped[:1]).shape[1]))
        slopes = by_differences(self._values, mapped, varying, self.steps)
        out = np.zeros((*mapped.shape, slopes.shape[2]))
        out[:, varying] = slopes
        return out


def _path_gradients(p: Predictor, kernel: Kernel, rows: Float64Array) -> Float64Array:
    """Return Σ over the nodes on a row's path of ∇k(x, Z)ᵀ κ; the borders between leaves are left out."""
    labels = p.partition.route(rows, Engine(1))
    out = np.zeros((*rows.shape, p.n_outputs))
    for unit in units_by_leaf(labels, p.leaf_levels):
        X, leaves = rows[unit.rows], labels[unit.rows]
        slopes = np.zeros((*X.shape, p.n_outputs))
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
                        slopes[a:b] += input_gradient(kernel, X[a:b], p.landmarks[segment.node], weight)
        out[unit.rows] = slopes
    return out


def _clusters(p: PairwisePredictor, rows: Rows, engine: Engine) -> IntArray:
    """Return the cluster of each row."""
    if p.partition is None or p.level is None:
        return np.zeros(rows.shape[0], np.intp)
    return np.asarray(p.level[p.partition.route(rows, engine)], np.intp)


def _pair_gradients(p: PairwisePredictor, rows: Float64Array) -> Float64Array:
    """Return Σ_s ∇k(x, x_s) u_s of each pair of classes, over the support vectors in the row's cluster."""
    labels, pairs = _clusters(p, rows, Engine(1)), class_pairs(len(p.coefficients) + 1)
    out = np.zeros((*rows.shape, p.offsets.shape[1]))
    for cluster in np.unique(labels):
        members, vectors = np.flatnonzero(labels == cluster), np.flatnonzero(p.cluster == cluster)
        if not len(vectors):
            continue
        owners, weights = p.owner[vectors], np.zeros((len(vectors), len(pairs)))
        for number, (first, second) in enumerate(pairs):
            # A class's column has the pairs with the others in their order, itself left out.
            for own, other in ((first, second - 1), (second, first)):
                its = owners == own
                weights[its, number] = p.coefficients[other, vectors[its]]
        out[members] = input_gradient(p.kernel, rows[members], p.support[vectors], weights)
    return out


def gradient_rows(switched: Sequence[Group], most: int) -> int:
    """Return at how many rows gradients are taken: fewer where many columns are switched.

    >>> gradient_rows([(0,), (1, 2, 3)], 500), gradient_rows([(j,) for j in range(40)], 500)
    (500, 200)
    """
    switches = sum(max(2, len(group)) for group in switched)
    return most if not switches else int(np.clip(EVALUATIONS // switches, LEAST_GRADIENTS, most))


def by_differences(
    function: Function, rows: Float64Array, columns: Sequence[int] | IntArray, steps: Float64Array
) -> Float64Array:
    """Return (f(x + h_j e_j) − f(x − h_j e_j))/(2 h_j) for some columns j, shape (n, columns, outputs).

    steps : h, (d,), positive at these columns. Two evaluations of ``function`` at all rows a column, for
    several columns in one call.
    """
    n, columns = len(rows), np.asarray(columns, np.intp)
    slopes = []
    for some in row_slices(len(columns), max(1, BATCH_BYTES // (2 * rows.nbytes))):
        mine = columns[some]
        ends = np.tile(rows, (2, len(mine), 1, 1))
        at = np.arange(len(mine))
        ends[0, at, :, mine] += steps[mine, None]
        ends[1, at, :, mine] -= steps[mine, None]
        values = function(ends.reshape(-1, rows.shape[1])).reshape(2, len(mine), n, -1)
        slopes.append((values[0] - values[1]) / (2.0 * steps[mine, None, None]))
    return np.concatenate(slopes).swapaxes(0, 1)


def by_switching(
    function: Function, rows: Float64Array, groups: Sequence[Group], low: Float64Array, high: Float64Array
) -> Iterator[Float64Array]:
    r"""Yield what stands for the slope of each group of columns that is switched, (n, columns, outputs).

    One column of two values: (f(high) − f(low))/(high − low); of a local kernel the derivative at one value
    is 0, however much the other changes. The columns of a category, of which one at a time is high: with
    g_c(x) = f(x, switched to c), h_c = (g_c − mean_c g)/(high_c − low_c), so that a step from c to c'
    changes f by hᵀΔx as it does in truth. A column with high = low has 0.

    low, high : (d,), the values of each column. ``function`` is evaluated at the rows, and at many changed
    ones at a time: each value that a row does not have already costs one.
    """
    columns = [np.asarray(group, np.intp) for group in groups]
    values = _values_after_moves(
        function, rows, (move for group in columns for move in _moves(group, low, high))
    )
    for group in columns:
        widths = (high - low)[group]
        if len(group) == 1:
            below, above = next(values), next(values)
            slopes = (above - below)[:, None, :]
        else:
            slopes = np.stack(list(islice(values, len(group))), axis=1)
            slopes -= slopes.mean(axis=1, keepdims=True)
        inverse = np.divide(1.0, widths, out=np.zeros_like(widths), where=widths > 0)
        yield slopes * inverse[:, None]


def _moves(group: IntArray, low: Float64Array, high: Float64Array) -> Iterator[tuple[IntArray, Float64Array]]:
    """Yield the columns of a group with each of the values that they take together."""
    if len(group) == 1:
        yield group, low[group]
        yield group, high[group]
        return
    for k in range(len(group)):
        yield group, np.where(np.arange(len(group)) == k, high[group], low[group])


def _values_after_moves(
    function: Function, rows: Float64Array, moves: Iterable[tuple[IntArray, Float64Array]]
) -> Iterator[Float64Array]:
    """Yield f at the rows with some columns set to some values, for each move."""
    own = function(rows)
    most = max(1, BATCH_BYTES // max(1, rows[:1].nbytes))
    waiting: list[tuple[IntArray, Float64Array]] = []

    def batch() -> Iterator[Float64Array]:
        values = function(np.concatenate([changed for _, changed in waiting]))
        start = 0
        for places, changed in waiting:
            out = own.copy()
            out[places] = values[start : start + len(changed)]
            start += len(changed)
            yield out
        waiting.clear()

    held = 0
    for columns, values in moves:
        places = np.flatnonzero((rows[:, columns] != values).any(axis=1))
        changed = rows[places]
        changed[:, columns] = values
        waiting.append((places, changed))
        held += len(places)
        if held >= most:
            yield from batch()
            held = 0
    if waiting:
        yield from batch()


def column_levels(rows: Rows) -> tuple[Float64Array, Float64Array]:
    """Return least and largest value of each column."""
    levels = []
    for name in ("min", "max"):
        values = getattr(rows, name)(axis=0)
        levels.append(
            np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64).ravel()
        )
    return levels[0], levels[1]


def _steps(rows: Rows) -> Float64Array:
    """Return the steps of finite differences: a tenth of each column's deviation, 0 for constant columns."""
    n, d = rows.shape
    low, high = column_levels(rows)
    mean, squares = np.zeros(d), np.zeros(d)
    for where in row_slices(n, SUMMED_ROWS):
        mean += dense(rows[where], np.float64).sum(axis=0) / n
    for where in row_slices(n, SUMMED_ROWS):
        squares += np.square(dense(rows[where], np.float64) - mean).sum(axis=0) / n
    return np.where(high > low, STEP * np.sqrt(squares), 0.0)
