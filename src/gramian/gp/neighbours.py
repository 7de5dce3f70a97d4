r"""Posterior of a Gaussian process at each row from its nearest training rows alone.

With the m nearest rows N of x in the kernel's metric, Σ = k(N, N) + noise·I and c = k(N, x), a new
observation at x has

    mean cᵀΣ⁻¹y,   variance s² = k(x, x) + noise − cᵀΣ⁻¹c.

Both stand in the last rows of one Cholesky factor, that of

    [Σ   c                y]         [L                 ]
    [cᵀ  k(x, x) + noise  0]   with  [(L⁻¹c)ᵀ   s       ]
    [yᵀ  0                b]         [(L⁻¹y)ᵀ  −mean/s  ·]

where b is large enough for the factor to exist. Factors of many rows are computed together.
Source: Vecchia 1988; Gramacy and Apley 2015.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gramian._tiles import row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, user_level
from gramian.gp.prior import Hyperparameters, in_units, lengthscales
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.kernels.gradient import stacked_grams
from gramian.landmarks.bisection import bisect
from gramian.landmarks.routing import BisectionPartition

#: Fewest neighbours of a row. Chosen by hand.
FEWEST = 64
#: Rows of a leaf, and rows of the nearest leaves that are searched at least. Up to so many rows all are
#: searched, and the neighbours are the true ones. Chosen by hand.
LEAF_ROWS, SEARCHED_ROWS = 128, 4_096
#: Most rows that the tree is fitted on. Chosen by hand.
FITTED_ROWS = 100_000
#: Rows that are searched for at a time in a leaf. Chosen by hand.
GROUP_ROWS = 64
#: Bytes of the matrices that are factored together. Chosen by hand.
STACK_BYTES = 1 << 23
#: Change of a mean, in deviations of a new observation, from which float32 is too coarse. Chosen by hand.
NOTICEABLE = 1e-2
#: Rows by which the size of the kernel's diagonal is judged. Chosen by hand.
DIAGONAL_ROWS = 1_000


@dataclass(frozen=True)
class NearestRows:
    """Points in leaves of a bisection, with the leaves about each leaf: finds near points of any row.

    points : (n, d) in units of the metric, in the order of their leaves; numbers : (n,), what they were
    called before; starts : (leaves + 1,), where each leaf begins; nearest : (leaves, leaves kept), the leaves
    by the distance of their centres from each leaf's, itself first; kept : (leaves,), how many are searched.
    """

    points: Float64Array
    numbers: IntArray
    partition: BisectionPartition
    starts: IntArray
    nearest: IntArray
    kept: IntArray

    @classmethod
    def of(cls, points: Float64Array, rng: np.random.Generator) -> NearestRows:
        """Return the search among these points. Time O(n d log n + leaves²), memory two copies."""
        n = len(points)
        sample = points if n <= FITTED_ROWS else points[np.sort(rng.choice(n, FITTED_ROWS, replace=False))]
        leaves = round(n / LEAF_ROWS) if n > SEARCHED_ROWS else 1
        partition = bisect(sample, leaves, 1, rng)
        labels = partition.route(points)
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=partition.n_blocks)
        starts = np.append(0, np.cumsum(sizes))
        centers = np.add.reduceat(points[order], np.minimum(starts[:-1], n - 1), axis=0)
        centers /= np.maximum(sizes, 1)[:, None]
        some = min(len(sizes), 4 * (1 + SEARCHED_ROWS // LEAF_ROWS))
        nearest = np.empty((len(sizes), some), np.intp)
        for part in row_slices(len(sizes), GROUP_ROWS):
            away = cdist(centers[part], centers)
            away[:, sizes == 0] = np.inf
            nearest[part] = np.argsort(away, axis=1, kind="stable")[:, :some]
        kept = np.minimum(1 + (np.cumsum(sizes[nearest], axis=1) < SEARCHED_ROWS).sum(axis=1), some)
        return cls(points[order], order, partition, starts, nearest, kept)

    def groups(self, rows: Float64Array, engine: Engine) -> list[tuple[int, IntArray]]:
        """Return (leaf, numbers of the rows in it) for all rows, in groups of up to 64."""
        labels = self.partition.route(rows, engine)
        order = np.argsort(labels, kind="stable")
        bounds = np.searchsorted(labels[order], np.arange(self.partition.n_blocks + 1))
        return [
            (leaf, order[bounds[leaf] : bounds[leaf + 1]][part])
            for leaf in np.flatnonzero(np.diff(bounds)).tolist()
            for part in row_slices(int(bounds[leaf + 1] - bounds[leaf]), GROUP_ROWS)
        ]

    def find(self, leaf: int, rows: Float64Array, count: int, without: IntArray | None = None) -> IntArray:
        """Return the positions in ``points`` of near points of each row of a leaf, (rows, count).

        They are the nearest of the points in the leaves that are searched, or all of these if they are fewer.
        ``without`` : the number of the training row that each row is itself, which is left out. Order within
        a row is arbitrary.
        """
        leaves = self.nearest[leaf, : self.kept[leaf]]
        at = np.concatenate([np.arange(self.starts[one], self.starts[one + 1]) for one in leaves])
        center = self.points[at].mean(axis=0)
        points, moved = self.points[at] - center, rows - center
        with np.errstate(over="ignore", invalid="ignore"):  # to a row that far away, all are equally near
            squares = np.einsum("ij,ij->i", points, points) - 2.0 * (moved @ points.T)
        if without is not None:
            squares[self.numbers[at] == without[:, None]] = np.inf
        count = min(count, len(at) - (without is not None))
        if count < len(at):
            return at[np.argpartition(squares, max(0, count - 1), axis=1)[:, :count]]
        return np.tile(at, (len(rows), 1))


@dataclass(frozen=True)
class NeighbourPosterior:
    """Posterior of f and of new observations at any row, from its ``count`` nearest training rows.

    kernel : in units of the metric; scale : (d,), what divides the rows, or None; targets : (n, outputs), in
    the order of the leaves of ``near``; dtype : of the factors. Mean and variance jump a little where a
    row's neighbours change.
    """

    kernel: Kernel
    noise: float
    scale: Float64Array | None
    near: NearestRows
    targets: Float64Array
    count: int
    dtype: np.dtype[Any]
    weights: Float64Array | None = None  #: (n,), of the same order: a row has noise/weight

    @classmethod
    def of(
        cls, known: LabelledRows[Any], hyper: Hyperparameters, count: int, rng: np.random.Generator
    ) -> NeighbourPosterior:
        """Return the posterior given all of some rows, by factors in float64.

        Warns :class:`AccuracyWarning` where the noise is raised, so that a factor of rows that repeat exists.
        Time O(n d log n), memory two copies of the rows, one of which is kept.
        """
        scale = lengthscales(hyper.kernel)
        rows, weights = np.asarray(dense(known.rows), np.float64), known.weights
        points = rows if scale is None else rows / scale
        kernel = hyper.kernel if scale is None else in_units(hyper.kernel)
        near = NearestRows.of(points, rng)
        count = min(count, len(points))
        least = _least_noise(kernel, near.points)
        noise = max(hyper.noise, least)
        if noise > hyper.noise:
            warnings.warn(
                f"noise={hyper.noise:.2g} is too small to solve for rows that may repeat; neighbours take "
                f"{noise:.2g}. Give a larger noise.",
                AccuracyWarning,
                stacklevel=user_level(),
            )
        # A weight that makes a noise smaller than the least counts as that one.
        kept = None if weights is None else np.minimum(weights[near.numbers], max(1.0, noise / least))
        targets = known.numbers[near.numbers]
        return cls(kernel, noise, scale, near, targets, count, np.dtype(np.float64), kept)

    def narrowed(self, X: Rows, engine: Engine, *, without: IntArray | None = None) -> NeighbourPosterior:
        """Return this posterior with float32 factors, unless a mean of these rows changes noticeably."""
        fast = replace(self, dtype=np.dtype(np.float32))
        mean, variance = self.moments(X, engine, without=without)
        try:
            other, _ = fast.moments(X, engine, without=without, wider=False)
        except np.linalg.LinAlgError:
            return self
        return fast if (np.abs(mean - other) <= NOTICEABLE * np.sqrt(variance)[:, None]).all() else self

    @property
    def nbytes(self) -> int:
        """Bytes of points and targets."""
        return self.near.points.nbytes + self.near.numbers.nbytes + self.targets.nbytes

    @property
    def n_outputs(self) -> int:
        """Number of outputs, which share the kernel."""
        return int(self.targets.shape[1])

    def moments(
        self, X: Rows, engine: Engine, *, without: IntArray | None = None, wider: bool = True
    ) -> tuple[Float64Array, Float64Array]:
        """Return mean (q, outputs) and variance (q,) of new observations at the rows.

        ``without`` : for each row the number of the training row that it is, which is left out of its
        neighbours. ``wider`` : compute in float64 what has no factor in float32, instead of raising. Time
        O(m³/3 + m² d) a row, memory for a stack of matrices for each thread.
        """
        rows = self._scaled(X)
        mean, variance = np.empty((len(rows), self.n_outputs)), np.empty(len(rows))

        def work(group: tuple[int, IntArray]) -> tuple[IntArray, Float64Array, Float64Array]:
            leaf, numbers = group
            left_out = None if without is None else without[numbers]
            return numbers, *self._group(leaf, rows[numbers], left_out, wider)

        with engine.results(work, self.near.groups(rows, engine)) as results:
            for numbers, m, v in results:
                mean[numbers], variance[numbers] = m, v
        return mean, variance

    def neighbours(self, X: Rows, engine: Engine, *, without: IntArray) -> IntArray:
        """Return the positions of the nearest points of rows, (q, count); ``without`` as for moments."""
        rows = self._scaled(X)
        out = np.empty((len(rows), min(self.count, len(self.near.points) - 1)), np.intp)
        for leaf, numbers in self.near.groups(rows, engine):
            out[numbers] = self.near.find(leaf, rows[numbers], self.count, without[numbers])
        return out

    def chunk(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return the mean of rows in memory, shape (rows, outputs)."""
        return self.moments(rows, engine)[0]

    def blocks(
        self, source: RowSource, *, engine: Engine, chunk_rows: int
    ) -> Iterator[tuple[slice, Float64Array]]:
        """Yield (rows, mean) for each chunk of the source."""
        for where, rows in row_blocks(source, chunk_rows):
            yield where, self.chunk(rows, engine)

    def _scaled(self, X: Rows) -> Float64Array:
        """Return rows in units of the metric."""
        rows = np.asarray(dense(X), np.float64)
        return rows if self.scale is None else rows / self.scale

    def _group(
        self, leaf: int, rows: Float64Array, without: IntArray | None, wider: bool
    ) -> tuple[Float64Array, Float64Array]:
        """Return mean and variance at rows of one leaf."""
        at = self.near.find(leaf, rows, self.count, without)
        size = at.shape[1] + 1 + self.n_outputs
        mean, variance = np.empty((len(rows), self.n_outputs)), np.empty(len(rows))
        height = max(1, STACK_BYTES // (8 * size**2))
        for part in row_slices(len(rows), height):
            points = np.concatenate([self.near.points[at[part]], rows[part, None]], axis=1)
            y = self.targets[at[part]]
            noise = np.full(points.shape[:2], self.noise)
            if self.weights is not None:
                noise[:, :-1] /= self.weights[at[part]]
            try:
                last = self._last_columns(points, y, noise, self.dtype)
            except np.linalg.LinAlgError:
                if not wider:
                    raise
                last = self._last_columns(points, y, noise, np.dtype(np.float64))
            variance[part] = np.square(last[:, 0])
            mean[part] = -last[:, :1] * last[:, 1:]
        return mean, variance

    def _last_columns(
        self, points: Float64Array, y: Float64Array, noise: Float64Array, dtype: np.dtype[Any]
    ) -> Float64Array:
        """Return (s, −mean/s) for each set of points, whose last is the row, (b, 1 + outputs)."""
        count, size, _ = points.shape
        outputs = self.n_outputs
        stack = np.zeros((count, size + outputs, size + outputs), dtype)
        stack[:, :size, :size] = stacked_grams(self.kernel, points, dtype)
        diagonal = np.arange(size + outputs)
        stack[:, diagonal[:size], diagonal[:size]] += noise
        stack[:, size:, : size - 1] = y.transpose(0, 2, 1)
        # yᵀΣ⁻¹y is at most Σ y²/noise.
        bound = 2.0 * np.einsum("bmo,bmo,bm->bo", y, y, 1.0 / noise[:, :-1]) + 1.0
        stack[:, diagonal[size:], diagonal[size:]] = bound
        return np.asarray(np.linalg.cholesky(stack)[:, size - 1 :, size - 1], np.float64)


def _least_noise(kernel: Kernel, points: Float64Array) -> float:
    """Return the least noise with which solving for rows that repeat keeps a third of the digits."""
    size = float(kernel.diagonal(points[:DIAGONAL_ROWS]).mean())
    return float(float(np.finfo(np.float64).eps) ** (2.0 / 3.0) * size)
