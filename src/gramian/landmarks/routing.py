"""Routing of rows to blocks: by nearest centre of points or features, or by the leaf of a tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import ROUTING_TOLERANCE, distance_error
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns, dense, squared_norms


class Partition(ABC):
    """Disjoint blocks V_1 … V_c that cover the space, so that every row belongs to one block.

    ``ancestors[l][b]`` is the block of level l (coarser levels first) that contains leaf block b. The blocks
    of a level are numbered 0 … k − 1, and the leaves of one ancestor are consecutive. A flat partition has no
    ancestors.
    """

    ancestors: tuple[IntArray, ...]

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of leaf blocks."""

    def with_kernel(self, kernel: Kernel) -> Partition:
        """Return the partition that uses this kernel; the same partition if it uses none."""
        return self

    @abstractmethod
    def row_numbers(self, n_features: int) -> int:
        """Return the numbers that one row needs in the work space of a tile."""

    @abstractmethod
    def route_tile(self, X: Rows) -> IntArray:
        """Return the block of each row of a tile."""

    def route(self, X: Rows, engine: Engine | None = None) -> IntArray:
        """Return the leaf block of each row, the same for any number of threads.

        X : (n, d), dense of any real type or CSR.

        Time O(n d c), or O(n d log c) for a tree; memory one tile per thread.
        """
        n, d = X.shape
        labels = np.zeros(n, np.intp)
        if self.n_blocks > 1:

            def fill(rows: slice) -> None:
                labels[rows] = self.route_tile(X[rows])

            tiles = row_slices(n, tile_rows(self.row_numbers(d), np.dtype(np.float32).itemsize))
            (engine or Engine(1)).run(fill, tiles)
        return labels


@dataclass(frozen=True, eq=False)
class CenterPartition(Partition):
    """Partition by the nearest centre in Euclidean distance; of equally near centres the first counts.

    argmin_s ‖x − c_s‖ = argmax_s (x − o)·(c_s − o) − ‖c_s − o‖²/2, o the mean of the centres.

    Scores that differ by no more than their rounding error count as equal. Rounding depends on the container
    and on the other rows of the tile. On a grid (integers, clipped values) many rows lie exactly between two
    centres, and without this margin such a row could change blocks from one call to the next.

    Rounding moves a score by about ``distance_error`` of ‖c_s − o‖². If that is too large beside the squared
    distance to the next centre (``ROUTING_TOLERANCE``), o becomes the median of the centres, which outliers
    do not move. If it is still too large, scores are computed in float64.

    centers : (c, d), float32 or float64: the type of the scores, except for those that need float64.
    """

    centers: FloatArray
    ancestors: tuple[IntArray, ...] = ()
    _offset: FloatArray = field(init=False, repr=False)
    _factor: FloatArray = field(init=False, repr=False)
    _by_zero: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Scores about the mean of the centres keep their digits far from the origin. Rounding of the offset
        # does no harm, as long as rows and centres are moved by the same numbers.
        dtype = self.centers.dtype
        offset = self.centers.mean(axis=0, dtype=np.float64).astype(dtype)
        by_zero = True
        if dtype == np.float32 and self.n_blocks > 1:
            near = _nearest(self.centers)
            if _misses(self.centers, offset, offset, near):
                offset = np.median(self.centers, axis=0)
                if _misses(self.centers, offset, offset, near):
                    dtype = np.dtype(np.float64)
            by_zero = not _misses(self.centers, offset, np.zeros_like(offset), near)
        offset = offset.astype(dtype, copy=False)
        points = self.centers - offset
        half_norms = 0.5 * np.einsum("ij,ij->i", points, points)
        object.__setattr__(self, "_offset", offset)
        # The last row is multiplied by a column of ones, so that one product gives the scores.
        object.__setattr__(self, "_factor", np.vstack([points.T, -half_norms]).astype(dtype))
        object.__setattr__(self, "_by_zero", by_zero)

    def __reduce__(self) -> tuple[Any, ...]:
        # Model files need not store what __post_init__ derives.
        return CenterPartition, (self.centers, self.ancestors)

    @property
    def n_blocks(self) -> int:
        """Number of centres."""
        return len(self.centers)

    def keep(self, blocks: IntArray) -> CenterPartition:
        """Return the partition with these blocks only, in this order, its levels renumbered."""
        levels = tuple(np.unique(level[blocks], return_inverse=True)[1] for level in self.ancestors)
        return CenterPartition(self.centers[blocks], levels)

    def row_numbers(self, n_features: int) -> int:
        return max(self.n_blocks, n_features + 1)

    def route_tile(self, X: Rows) -> IntArray:
        if sp.issparse(X) and not self._by_zero:
            X = X.toarray()  # the tile has room for it
        with np.errstate(over="ignore", invalid="ignore"):
            labels, best = self._route_near(X)
        # To so far a row all centres are equally near within rounding, so that the first one counts.
        labels[~np.isfinite(best)] = 0
        return labels

    def _route_near(self, X: Rows) -> tuple[IntArray, FloatArray]:
        """Return the block of each row and its score, which is not finite where the row is too large."""
        if sp.issparse(X):
            directions, minus_half_norms = self._factor[:-1], self._factor[-1]
            scores = np.asarray(X @ directions)
            scores += minus_half_norms - self._offset @ directions
            squares, far = _squares_about(X, self._offset.astype(np.float64))
        else:
            points = shift_rows(X, self._offset, ones=True)
            scores = points @ self._factor
            squares = np.einsum("ij,ij->i", points[:, :-1], points[:, :-1]).astype(np.float64)
            far = np.zeros(1)
        rows, labels = np.arange(len(scores)), scores.argmax(axis=1)
        best = scores[rows, labels]
        margin = self._rounding(squares, far, best)
        least = np.where(np.isfinite(margin), best - margin, -np.inf)
        near = scores >= least[:, None]
        near[rows, labels] = True
        if np.count_nonzero(near) > len(near):  # a row has several
            labels = near.argmax(axis=1)
        return labels, best

    def _rounding(self, squares: Float64Array, far: Float64Array, best: FloatArray) -> FloatArray:
        """Bound, for each row, the difference of two scores that rounding alone can cause.

        squares : ‖x − o‖²; far : length that the row's distance from the origin adds to what is rounded.

        The error of a score is c(d) u ‖c_s − o‖ (‖x − o‖ + ‖c_s − o‖/2). A centre as near as the best one has
        ‖c_s − o‖ ≤ ‖x − o‖ + ‖x − c_s‖, and ‖x − c_s‖² = ‖x − o‖² − 2 best.
        """
        error = distance_error(np.zeros(1), len(self._factor) - 1, self._factor.dtype)
        # Where squares overflow the margin is infinite or NaN.
        reach = np.sqrt(squares) + np.sqrt(np.maximum(squares - 2.0 * best.astype(np.float64), 0.0))
        margin: FloatArray = (2.0 * error * reach * (reach + far)).astype(best.dtype)
        return margin


@dataclass(frozen=True, eq=False)
class FeaturePartition(Partition):
    """Partition by the centre at the smallest angle to the features φ(x) = Vᵀ k(Z, x).

    argmax_s φ(x)·c_s/‖c_s‖ = argmax_s k(x, Z) V c_s/‖c_s‖: the length of φ(x), which is small far from all
    landmarks, does not matter.

    landmarks : (m, d), Z; columns : k(·, Z); weights : (m, c), V c_s/‖c_s‖.
    """

    landmarks: Rows
    columns: Columns
    weights: FloatArray
    ancestors: tuple[IntArray, ...] = ()

    @property
    def n_blocks(self) -> int:
        """Number of centres."""
        return int(self.weights.shape[1])

    def with_kernel(self, kernel: Kernel) -> FeaturePartition:
        """Return the partition with k(·, Z) of this kernel value."""
        return replace(self, columns=kernel.against(self.landmarks, self.columns.dtype))

    def row_numbers(self, n_features: int) -> int:
        return self.columns.n_columns + self.n_blocks

    def route_tile(self, X: Rows) -> IntArray:
        return np.asarray((self.columns(X) @ self.weights).argmax(axis=1))


@dataclass(frozen=True, eq=False)
class BisectionPartition(Partition):
    """Partition by a balanced binary tree of half-spaces: node i sends x left if (x − offset)·w_i < t_i.

    directions : (c − 1, d), the w_i.
    thresholds : (c − 1), the t_i in float64, which holds the products of either type exactly.
    children : (c − 1, 2), the left and right child: the number of an inner node, or −1 − leaf.
    offset : (d), subtracted from the rows so that products keep their digits; None for the origin.
    """

    directions: FloatArray
    thresholds: FloatArray
    children: IntArray
    ancestors: tuple[IntArray, ...] = ()
    offset: FloatArray | None = None
    _shifts: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        offset = np.zeros(self.directions.shape[1]) if self.offset is None else self.offset
        object.__setattr__(self, "_shifts", self.directions @ offset.astype(np.float64))

    @property
    def n_blocks(self) -> int:
        """Number of leaves."""
        return len(self.thresholds) + 1

    def row_numbers(self, n_features: int) -> int:
        return n_features

    def route_tile(self, X: Rows) -> IntArray:
        points = X
        if not sp.issparse(X):
            d, dtype = X.shape[1], self.directions.dtype
            points = shift_rows(X, np.zeros(d, dtype) if self.offset is None else self.offset)
        node = np.zeros(X.shape[0], np.intp)
        active = np.arange(X.shape[0])
        while active.size:
            at = node[active]
            with np.errstate(over="ignore", invalid="ignore"):
                value = dots(points if active.size == len(node) else points[active], self.directions, at)
                if sp.issparse(X):
                    value = value - self._shifts[at]
            right = (value >= self.thresholds[at]).astype(np.intp)
            far = np.flatnonzero(~np.isfinite(value))  # products that overflow: the row in units of its size
            if far.size:
                rows = dense(X[active[far]], np.float64)
                size = np.abs(rows).max(axis=1)
                value = dots(rows / size[:, None], self.directions.astype(np.float64), at[far])
                right[far] = value >= (self.thresholds[at[far]] + self._shifts[at[far]]) / size
            node[active] = self.children[at, right]
            active = active[node[active] >= 0]
        return -1 - node


def _nearest(centers: FloatArray) -> Float64Array:
    """Return the squared distance of each centre to the nearest different centre; infinity if there is none.

    Time O(c² d), memory one float64 copy of the centres and a tile.
    """
    points = centers - np.median(centers, axis=0).astype(np.float64)
    norms = np.einsum("ij,ij->i", points, points)
    least = np.full(len(points), np.inf)
    noise = distance_error(np.zeros(1), points.shape[1], np.float64)
    for rows in row_slices(len(points), tile_rows(len(points), points.itemsize)):
        both = norms[rows, None] + norms
        squares = both - 2.0 * (points[rows] @ points.T)
        # Between equal centres only the rounding error of the norms is left.
        least[rows] = np.where(squares > noise * both, squares, np.inf).min(axis=1)
    return least


def _squares_about(X: Rows, offset: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return ‖x − o‖² of CSR rows, raised by its rounding error, and ‖x‖ + ‖o‖, in float64."""
    norms = squared_norms(X)
    far = np.sqrt(norms) + np.linalg.norm(offset)
    noise = distance_error(np.zeros(1), X.shape[1], np.float64) * far**2
    return np.maximum(norms - 2.0 * (X @ offset) + offset @ offset, 0.0) + noise, far


def _misses(centers: FloatArray, offset: FloatArray, origin: FloatArray, nearest: Float64Array) -> bool:
    """Tell whether scores (x − origin)·(c_s − offset) in float32 are too coarse for some centre."""
    rows = _lengths(centers, origin) + _lengths(offset[None, :], origin)
    error = distance_error(_lengths(centers, offset) * rows / nearest, centers.shape[1], np.float32)
    return bool((error > ROUTING_TOLERANCE).any())


def _lengths(points: FloatArray, origin: FloatArray) -> Float64Array:
    """Return the distance of each point to the origin, in float64."""
    lengths = np.empty(len(points))
    for rows in row_slices(len(points), tile_rows(points.shape[1], lengths.itemsize)):
        lengths[rows] = np.linalg.norm(points[rows].astype(np.float64) - origin, axis=1)
    return lengths


def mean_row(sample: Rows) -> FloatArray:
    """Return the mean row, summed in float64, in the sample's type."""
    return np.asarray(sample.mean(axis=0, dtype=np.float64)).ravel().astype(sample.dtype)


def shift_rows(X: Rows, offset: FloatArray, *, ones: bool = False) -> FloatArray:
    """Return X − offset in the offset's type, with a last column of ones where asked for."""
    n, d = X.shape
    out = np.empty((n, d + ones), offset.dtype)
    # The difference is computed in the wider type and rounded afterwards. The other way round, float64 rows
    # far from the origin would lose their digits.
    with np.errstate(over="ignore"):
        np.subtract(np.asarray(X), offset, out=out[:, :d], casting="unsafe")
    out[:, d:] = 1.0
    return out


def dots(points: Rows, directions: FloatArray, at: IntArray) -> FloatArray:
    """Return x_i · w_at[i] for each row; a row's result does not depend on the rows around it.

    CSR rows are not centred and multiplied in float64, because the offset's product is subtracted afterwards.
    """
    if not sp.issparse(points):
        return np.asarray(np.einsum("ij,ij->i", points, directions[at]))
    row = np.repeat(np.arange(points.shape[0]), np.diff(points.indptr))
    products = points.data * directions[at[row], points.indices].astype(np.float64)
    sums: FloatArray = np.bincount(row, products, points.shape[0]).astype(np.float64, copy=False)
    return sums
