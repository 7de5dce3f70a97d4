"""Values of changed rows by models that have not seen these rows: parts of a table model, during its fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.powered import PoweredExponential, powered_distances
from gramian.metric.metric import Metric

#: Numbers of a tile of distances, and of the changed rows that are answered at a time. Chosen by hand.
TILE_NUMBERS, ROW_NUMBERS = 1 << 18, 1 << 21
#: Distances of points with at most this many values in the changed places are looked up. Chosen by hand.
FEW_VALUES = 256


class Change(NamedTuple):
    """Places whose numbers rows take from other rows: row i those of row ``order[i]``."""

    places: IntArray
    order: IntArray

    def apply(self, rows: Array) -> Array:
        """Return changed rows, a new array."""
        out = np.array(rows)
        out[:, self.places] = rows[self.order][:, self.places]
        return out


@dataclass(frozen=True)
class ExactUnseen:
    r"""Exact models of one kernel, each of the rows outside one fold: f(x) = Σ_i k(x, x_i) c_i + offset.

    source : all rows, (n, width); points : numbers of the rows x_i; folds : numbers of the rows that each
    model has not seen; coefficients : (points, folds, outputs); offsets : (folds, outputs).

    A change costs no more than the places that it changes. Under a metric of scales, a distance is a sum over
    the places: D − D_j + D_j', where D_j' are the rows of D_j in another order; under a full metric a squared
    distance changes by a product of these places. Time O(m·points) for each change and O(m·points·width)
    once, in float32; memory a tile for each thread.
    """

    kernel: PoweredExponential
    metric: Metric
    source: RowSource
    points: IntArray
    folds: tuple[IntArray, ...]
    coefficients: Float64Array
    offsets: Float64Array
    engine: Engine

    def add_outputs(self, points: IntArray, coefficients: Float64Array, offsets: Float64Array) -> ExactUnseen:
        """Return models whose further outputs have these coefficients (points, folds, outputs).

        ``points`` are those of these models and perhaps others, ascending.
        """
        own = np.zeros((len(points), *self.coefficients.shape[1:]))
        own[np.searchsorted(points, self.points)] = self.coefficients
        both = np.concatenate([own, coefficients], axis=2)
        return replace(self, points=points, coefficients=both, offsets=np.hstack([self.offsets, offsets]))

    def changed(self, rows: Array, numbers: IntArray, changes: Sequence[Change]) -> Float64Array:
        """Return the values of rows as they are and after each change, (1 + changes, m, outputs).

        rows : (m, width), encoded and scaled; numbers : (m,), their numbers in the table. The values of a row
        are by a model that has not seen it.
        """
        fold, every = fold_of(self.folds, numbers), np.arange(len(rows))
        outputs = self.coefficients.shape[2]
        flat = np.asarray(self.coefficients.reshape(len(self.points), -1), np.float32)
        distances = self._distances(np.asarray(rows, np.float64), changes)
        values = np.zeros((1 + len(changes), len(rows), outputs))
        for tile in row_slices(len(flat), max(1, TILE_NUMBERS // len(rows))):
            whole = distances[0](tile)

            def add(j: int, tile: slice = tile, whole: Array = whole) -> None:
                near = distances[j](tile) + whole if j else whole
                near = np.maximum(near, 0.0)
                with np.errstate(over="ignore"):
                    self.kernel.of_distances(near, near)
                values[j] += (near @ flat[tile]).reshape(len(rows), -1, outputs)[every, fold]

            self.engine.run(add, range(len(values)))
        return values + self.offsets[fold]

    def _distances(self, rows: Float64Array, changes: Sequence[Change]) -> list[Callable[[slice], Array]]:
        """Return functions from a slice of the points to numbers (m, points), in float32.

        The first gives distances of the rows as they are, the others what the changes add to them.
        """
        points = np.asarray(self.metric.apply(np.asarray(self.source.take(self.points), np.float64)))
        mapped, p, matrix = np.asarray(self.metric.apply(rows)), self.kernel.p, self.metric.matrix
        if matrix is None:
            moved = [_moved(mapped[:, own], points[:, own], order, p) for own, order in changes]
        else:
            # Tᵀ(x + δ) is as far from Tᵀz as before, plus ‖x'‖² − ‖x‖² − 2 δᵀT(Tᵀz), about any centre.
            centre = points.mean(axis=0)
            steps = [(own, (rows[order] - rows)[:, own]) for own, order in changes]
            against, near = (points - centre) @ matrix.T, mapped - centre
            moved = [_shifted(near, step, matrix[own], against[:, own]) for own, step in steps]
        return [lambda tile: _powered(mapped, points[tile], p), *moved]


@dataclass(frozen=True)
class FoldsUnseen:
    """Models of the rows outside of each fold, by the functions from rows (m, width) to their values."""

    folds: tuple[IntArray, ...]
    models: tuple[Callable[[Array], Float64Array], ...]

    def changed(self, rows: Array, numbers: IntArray, changes: Sequence[Change]) -> Float64Array:
        """Return the values of rows as they are and after each change, (1 + changes, m, outputs)."""
        fold, parts = fold_of(self.folds, numbers), list[Float64Array]()
        for part in row_slices(1 + len(changes), max(1, ROW_NUMBERS // rows.size)):
            wanted = [rows if j == 0 else changes[j - 1].apply(rows) for j in range(part.start, part.stop)]
            some, folds = np.concatenate(wanted), np.tile(fold, len(wanted))
            places = [np.flatnonzero(folds == j) for j in range(len(self.models))]
            values = [model(some[own]) for model, own in zip(self.models, places, strict=True)]
            order = np.argsort(np.concatenate(places), kind="stable")
            parts.append(np.concatenate(values)[order].reshape(len(wanted), len(rows), -1))
        return np.concatenate(parts)


#: Models of a table's rows, each of which has not seen some of them.
Unseen = ExactUnseen | FoldsUnseen


def fold_of(folds: Sequence[IntArray], numbers: IntArray) -> IntArray:
    """Return the fold of each of the rows with these numbers; each is in one of them."""
    out = np.full(len(numbers), -1, np.intp)
    for j, fold in enumerate(folds):
        out[np.isin(numbers, fold)] = j
    if len(out) and out.min() < 0:
        raise ValueError("a row is in no fold, so that every model has seen it")
    return out


def _powered(rows: Float64Array, points: Float64Array, p: float) -> Array:
    """Return ‖x − z‖_p, squared for p = 2, in float32."""
    out = np.empty((len(rows), len(points)), np.float32)
    powered_distances(rows, points, p, out)
    return out


def _shifted(
    rows: Float64Array, step: Float64Array, matrix: Float64Array, against: Float64Array
) -> Callable[[slice], Array]:
    """Return what steps (m, places) add to the squared distances of mapped rows to a slice of the points.

    matrix : (places, r) of the metric; against : (points, places), mapped points times its transpose.
    """
    along = step @ matrix
    norms = np.einsum("ij,ij->i", along, along + 2.0 * rows)[:, None].astype(np.float32)
    left, right = (-2.0 * step).astype(np.float32), against.T.astype(np.float32)
    return lambda tile: left @ right[:, tile] + norms


def _moved(rows: Float64Array, points: Float64Array, order: IntArray, p: float) -> Callable[[slice], Array]:
    """Return the distances of rows in another order to a slice of the points, minus those of the rows.

    Where the points have few values, they are looked up.
    """
    # A sum with unlike weights tells rows apart ten times as fast as np.unique of rows; it is checked.
    keys = points @ np.sqrt(np.arange(2.0, points.shape[1] + 2.0))
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) <= FEW_VALUES and np.array_equal(points[first][codes], points):
        own = _powered(rows, points[first], p)
        table = own[order] - own
        return lambda tile: table[:, codes[tile]]
    x, z = rows.T.astype(np.float32), points.T.astype(np.float32)

    def moved(tile: slice) -> Array:
        total = np.zeros((len(rows), len(z[0, tile])), np.float32)
        for left, right in zip(x, z[:, tile], strict=True):
            own = np.subtract.outer(left, right)
            total += np.abs(own, out=own) if p == 1.0 else np.square(own, out=own)
        return total[order] - total

    return moved
