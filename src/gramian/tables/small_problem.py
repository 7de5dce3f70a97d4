r"""Exact kernel ridge on a few rows, with metric, kernel and penalty scored on held-out rows.

Leave-one-out errors would use every row, but cannot score a metric that was learned from all rows. So
models are fitted to a part of the rows, which also gives the gradients, and the other rows are held out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian._typing import Float64Array, FloatArray
from gramian.engine import Engine
from gramian.exact.penalties import ridge_solution
from gramian.exact.predictor import ExactPredictor
from gramian.kernels.powered import PoweredExponential, powered_distances
from gramian.metric.gradients import Differentiable, gradient_rows
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product

#: Powers (p, q) of exp(−‖x − z‖_p^q / L^q) for each kernel name.
POWERS = {"laplacian": (1.0, 1.0), "exponential": (2.0, 1.0), "gaussian": (2.0, 2.0)}
#: Other names of these kernels, as other estimators take them.
SYNONYMS = {"matern12": "exponential", "rbf": "gaussian"}
#: Bandwidths to start from, in units of the mean distance between two standardised rows, and penalties to
#: start from. Chosen by hand.
BANDWIDTHS = {
    "laplacian": (0.1, 0.4, 1.5, 6.0),
    "exponential": (0.3, 1.0, 4.0, 16.0),
    "gaussian": (0.3, 0.7, 1.5, 4.0),
}
ALPHAS = (1e-2, 1e-1, 1.0)
#: Largest number of rows at which gradients are taken. Chosen by hand.
GRADIENT_ROWS = 500

#: Fits run in float32 if alpha is at least this times the number of rows: a relative error of 0.3 %.
#: Chosen by hand.
SINGLE = 2e-5

#: Function from residuals (held-out rows, outputs) of transformed targets to an error.
Loss = Callable[[Float64Array], float]


@dataclass(frozen=True)
class Setting:
    """The choices that the search compares in full: scaling and target map, by name, kernel, level means."""

    scaling: str
    target: str
    kernel: str
    levels: bool = False  #: whether categories have level means besides

    @property
    def norm(self) -> float:
        """The p of the kernel's norm."""
        return POWERS[self.kernel][0]


@dataclass(frozen=True)
class Point:
    """Hyperparameters of an exact model: kernel, metric of the scaled rows, bandwidth L and penalty alpha."""

    kernel: str
    metric: Metric
    bandwidth: float
    alpha: float

    def kernel_of(self) -> PoweredExponential:
        """Return the kernel k, to be applied to rows under the metric."""
        p, q = POWERS[self.kernel]
        return PoweredExponential(self.bandwidth, p=p, q=q)


def usual_point(kernel: str, n_columns: int) -> Point:
    """Return the point to fit if there was no time to compare: no metric, a usual bandwidth."""
    bandwidth = np.sqrt(2.0 * n_columns) if POWERS[kernel][0] == 2.0 else float(n_columns)
    return Point(kernel, Metric(scales=np.ones(n_columns)), bandwidth, 0.1)


def first_points(kernel: str, rows: Float64Array) -> list[Point]:
    """Return the points at which a search on these rows starts, before any metric."""
    variances = rows.var(axis=0)
    metric = Metric(scales=np.ones(rows.shape[1]), spreads=np.sqrt(variances))
    # Two rows of deviation σ differ by √2 σ in the root mean square and by 2σ/√π on average.
    if POWERS[kernel][0] == 2.0:
        unit = float(np.sqrt(2.0 * variances.sum()))
    else:
        unit = float(2.0 / np.sqrt(np.pi) * np.sqrt(variances).sum())
    return [Point(kernel, metric, f * (unit or 1.0), 1.0) for f in BANDWIDTHS[kernel]]


@dataclass(frozen=True)
class ExactFit:
    """An exact model at one point: its held-out error and its coefficients for the fitted rows."""

    point: Point
    error: float
    coefficients: Float64Array  #: (n_fit, outputs)


#: A point, and the penalties to compare there instead of its own.
PenaltyGrid = tuple[Point, Sequence[float]]


#: Memory by name that is used again by each fit: new pages would cost a quarter of the time.
Workspace = dict[str, NDArray[np.uint8]]


def _array(space: Workspace, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FloatArray:
    """Return an array with arbitrary content, which the next call of this name overwrites."""
    size = math.prod(shape) * dtype.itemsize
    if name not in space or space[name].size < size:
        space.pop(name, None)
        space[name] = np.empty(size, np.uint8)
    return space[name][:size].view(dtype).reshape(shape)


def fit_bytes(n_fit: int, n_held_out: int) -> int:
    """Return the bytes of one fit in float64: three n_fit² matrices and two n_held_out × n_fit matrices."""
    return 8 * (3 * n_fit**2 + 2 * n_fit * n_held_out)


def most_fit(memory_bytes: int, n_held_out: int) -> int:
    """Return the largest number of fitted rows for which ``memory_bytes`` hold a fit."""
    numbers = memory_bytes // 8
    return int((math.sqrt(n_held_out**2 + 3.0 * numbers) - n_held_out) / 3.0)


@dataclass(frozen=True)
class SmallProblem:
    """Scaled rows in random order with centred, transformed targets: the first are fitted, the rest held out.

    rows : (m, d); targets : (m, outputs); weights : (m,), all > 0, or None; n_fit : number of fitted rows;
    loss : from held-out residuals to the error; switched : groups of columns whose values are switched in
    place of a derivative; levels : smallest and largest value of each column.
    """

    rows: Float64Array
    targets: Float64Array
    weights: Float64Array | None
    n_fit: int
    loss: Loss
    switched: tuple[tuple[int, ...], ...]
    levels: tuple[Float64Array, Float64Array]

    def fit(self, grids: list[PenaltyGrid], space: Workspace, deadline: float = math.inf) -> list[ExactFit]:
        """Fit points that share a metric and a norm, with several penalties each, in the given order.

        No other thread may use ``space`` meanwhile. After ``deadline``, by ``time.perf_counter``, no further
        penalty is started, so that there may be fewer results than penalties. The error is infinite if
        K + alpha·I has no factor. Time O(m² d) in all and n_fit³/3 a penalty, memory :func:`fit_bytes`.
        """
        mapped = np.asarray(grids[0][0].metric.apply(self.rows), np.float64)
        fitted, apart = mapped[: self.n_fit], list[FloatArray]()
        fits: list[ExactFit] = []
        for point, alphas in grids:
            # The largest eigenvalue of K is at most n_fit: float32 is used if that leaves enough digits.
            dtype = np.dtype(np.float32 if min(alphas) >= SINGLE * self.n_fit else np.float64)
            kernel, parts = point.kernel_of(), {"near": fitted, "across": mapped[self.n_fit :]}
            if not apart or apart[0].dtype != dtype:
                apart = [_array(space, name, (len(rows), self.n_fit), dtype) for name, rows in parts.items()]
                for rows, distances in zip(parts.values(), apart, strict=True):
                    powered_distances(rows, fitted, kernel.p, distances)
                np.fill_diagonal(apart[0], 0.0)
            gram, across = (_array(space, f"k {name}", each.shape, dtype) for name, each in zip(parts, apart))
            with np.errstate(over="ignore"):  # an infinite distance gives an exponential of zero
                kernel.of_distances(apart[0], gram)
                kernel.of_distances(apart[1], across)
            for alpha in alphas:
                if fits and time.perf_counter() >= deadline:
                    return fits
                system = _array(space, "system", gram.shape, dtype)
                np.copyto(system, gram)
                fits.append(self._fitted(replace(point, alpha=alpha), system, across))
        return fits

    def _fitted(self, point: Point, gram: FloatArray, across: FloatArray) -> ExactFit:
        """Fit a point to K, which is overwritten, and measure its error with k of the held-out rows."""
        y, weights = self.targets[: self.n_fit], self.weights
        coef = ridge_solution(gram, point.alpha, None if weights is None else weights[: self.n_fit], y)
        if coef is None:
            return ExactFit(point, np.inf, np.zeros_like(y))
        error = self.loss(self.targets[self.n_fit :] - across @ coef.astype(across.dtype))
        return ExactFit(point, error if np.isfinite(error) else np.inf, coef)

    def outer_product(self, fit: ExactFit, form: str, deadline: float = math.inf) -> Float64Array:
        """Return the average gradient outer product of a fit, with respect to the scaled features.

        Averaged over the rows that are reached by ``deadline``, always some.
        """
        point = fit.point
        mapped = np.asarray(point.metric.apply(self.rows[: self.n_fit]), np.float64)
        predictor = ExactPredictor(point.kernel_of(), mapped, fit.coefficients, np.dtype(np.float64))
        some = slice(0, min(self.n_fit, gradient_rows(self.switched, GRADIENT_ROWS)))
        return outer_product(
            Differentiable(predictor, metric=point.metric),
            self.rows[some],
            form=form,
            weights=None if self.weights is None else self.weights[some],
            switched=self.switched,
            levels=self.levels,
            engine=Engine(1),
            deadline=deadline,
        )

    @property
    def covariance(self) -> Float64Array:
        """Covariance of the rows, (d, d)."""
        centred = self.rows - self.rows.mean(axis=0)
        return centred.T @ centred / len(centred)
