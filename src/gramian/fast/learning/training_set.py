"""Training set of a fast model: rows, the values to learn, their teacher, and synthetic rows between them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gramian._random import children
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.estimator.answers import likeliest
from gramian.fast.learning.metric import Teacher, inverse_spread
from gramian.fast.serving.router import TreeRouter, fit_router

#: A copy of a row lies up to this fraction of the way to another row of its cell. Chosen by hand, as are the
#: next constants.
MIXED = 0.8
#: Most noise of a copy, in units of a feature's spread in its cell. Each copy draws its own part of it. Cells
#: are narrow where the teacher varies and wide where it does not, so that directions learn what to ignore.
NOISE = 0.8
#: Weight of a copy over that of its row. Where a set has far outliers, copies lie where no row is, and with
#: weight 1 the teacher's values there would outweigh those at the rows. Chosen by hand, mostly on cpusmall.
COPY_WEIGHT = 0.1
#: Copies that are made and labelled at a time.
BLOCK_ROWS = 8_192
#: Levels of the tree whose cells copies are made in, and the fewest rows of a cell.
CELL_LEVELS, CELL_ROWS = 8, 20
#: Most numbers that the rows of a pool have.
NUMBERS = 50_000_000


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows (n, d), target values (n, outputs), weights, and the teacher if there is one.

    low, high : bounds that the values were clipped to; None for regression.
    """

    rows: Array
    values: Array
    weights: Array
    teacher: Teacher | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(
        cls,
        rows: Array,
        values: Float64Array,
        weights: Array | None,
        bounds: tuple[float | None, float | None] = (None, None),
    ) -> TrainingSet:
        """Return labelled rows, in float64; weights are 1 where there are none."""
        weights = np.ones(len(rows)) if weights is None else weights
        return cls(rows.astype(np.float64), values, weights, None, *bounds)

    @property
    def classifies(self) -> bool:
        """Whether the values are decision values of classes, clipped to the bounds."""
        return self.low is not None

    def some(self, mine: IntArray | slice) -> TrainingSet:
        """Return the training set of some of the rows."""
        return replace(self, rows=self.rows[mine], values=self.values[mine], weights=self.weights[mine])

    def with_unlabelled(self, rows: Float64Array | None) -> TrainingSet:
        """Return the training set with rows of the teacher's values and the mean weight, if there is one."""
        if rows is None or self.teacher is None:
            return self
        weights = np.full(len(rows), self.weights.mean())
        return join_sets([self, replace(self, rows=rows, values=self.teacher_values(rows), weights=weights)])

    def loss(self, outputs: Float64Array) -> float:
        """Return the mean of ‖t_i − f_i‖² of outputs f, clipped to the same bounds as the targets t.

        Clipping bounds the loss of an output by (high − low)², however far off it is.
        """
        if self.classifies:
            outputs = np.clip(outputs, self.low, self.high)
        left = float(self.weights @ np.square(self.values - outputs).sum(axis=1))
        return left / float(self.weights.sum())

    def score(self, outputs: Float64Array) -> float:
        """Return the accuracy of decision values, or R² of numbers; of constant targets minus the squares."""
        if self.classifies:
            return float(np.average(likeliest(outputs) == likeliest(self.values), weights=self.weights))
        left = self.weights @ np.square(self.values - outputs).sum(axis=1)
        mean = np.average(self.values, axis=0, weights=self.weights)
        total = self.weights @ np.square(self.values - mean).sum(axis=1)
        return float(1.0 - left / total) if total > 0 else float(-left)

    def teacher_values(self, rows: Float64Array) -> Float64Array:
        """Return the teacher's values at the rows, clipped to the bounds."""
        assert self.teacher is not None
        values = self.teacher(rows)
        return np.clip(values, self.low, self.high) if self.classifies else values


def join_sets(parts: list[TrainingSet]) -> TrainingSet:
    """Return one training set with the rows of several, which have the teacher of the first."""
    if len(parts) == 1:
        return parts[0]
    rows, values, weights = (
        np.concatenate(arrays)
        for arrays in zip(*((part.rows, part.values, part.weights) for part in parts), strict=True)
    )
    return replace(parts[0], rows=rows, values=values, weights=weights)


def two_valued(rows: Float64Array) -> Array:
    """Return a mask (d,) of the features that have at most two values."""
    return np.asarray(((rows == rows.min(axis=0)) | (rows == rows.max(axis=0))).all(axis=0))


def between(
    rows: Float64Array,
    members: list[IntArray],
    counts: list[int],
    noise: Float64Array,
    two: Array,
    rng: np.random.Generator,
) -> tuple[Float64Array, IntArray]:
    r"""Return copies of rows, ``counts[s]`` for cell s, and the number of the row that each copies.

    members : the rows of each cell; noise : σ (cells, d), the most; two : mask (d,) of two-valued features.

    With row b another row of the same cell, the copy of row a is a + t (b − a) + u σ ε, with t uniform up
    to MIXED, u uniform up to 1 and ε normal. Two-valued features are copied together: from b with probability
    t, else from a. Real rows never lie between the two values, and a one-hot encoded category must keep
    exactly one level.
    """
    first, second = (
        np.concatenate([rng.choice(mine, count) for mine, count in zip(members, counts, strict=True)])
        for _ in range(2)
    )
    copies = rows[second] - rows[first]
    part = MIXED * rng.random((len(first), 1))
    copies *= part
    copies += rows[first]
    normal = rng.random((len(first), 1)) * rng.standard_normal(copies.shape)
    normal *= np.repeat(noise, counts, axis=0)
    copies += normal
    if two.any():
        source = np.where(rng.random(len(first)) < part[:, 0], second, first)
        copies[:, two] = rows[np.ix_(source, two)]
    return copies, first


class Pool:
    """The rows of a training set in random order, then synthetic rows, labelled when they are first needed.

    All shapes learn from a beginning of the same rows, so that the teacher answers for each of them once.
    Half of the synthetic rows lie within cells of equal numbers of rows (leaves of a tree in the directions
    of the metric), half between any two rows: these teach which features to ignore.

    center, spread : of the features; Q : (d, r), directions of the metric in units of the spread. The rows to
    learn from are centred, in units of the spread. Memory O(rows · (d + outputs)), float32.
    """

    def __init__(
        self,
        own: TrainingSet,
        center: Float64Array,
        spread: Float64Array,
        Q: Float64Array,
        seed: int | np.random.Generator,
    ) -> None:
        order, self._cells_rng, self._rng = children(np.random.default_rng(seed), 3)
        self.own = own.some(order.permutation(len(own.rows)))
        self.center, self.spread, self.inverse = center, spread, inverse_spread(spread)
        self.known = self._scaled(self.own)
        self._two, self._Q = two_valued(own.rows), Q

    def joined(self, more: TrainingSet) -> Pool:
        """Return a pool that begins with more rows, of the same teacher."""
        pool = copy(self)
        pool.own = join_sets([self.own, more])
        pool.known = join_sets([self._scaled(more), self.known])
        return pool

    def rows(self, count: int) -> TrainingSet:
        """Return the first ``count`` rows, or as many as there are: copies need a teacher."""
        n, d = self.own.rows.shape
        count = min(count, n if self.own.teacher is None else max(n, NUMBERS // d))
        blocks = [self.known]
        missing = count - len(self.known.rows)
        while missing > 0:
            blocks.append(self._block())
            missing -= len(blocks[-1].rows)
        self.known = join_sets(blocks)
        return self.known.some(slice(count))

    @cached_property
    def _cells(self) -> list[tuple[list[IntArray], Float64Array]]:
        """The rows of each cell and the noise in it (cells, d): of the leaves of a tree, and of all rows."""
        n = len(self.own.rows)
        levels = int(np.clip(np.log2(max(1, n / CELL_ROWS)), 0, CELL_LEVELS))
        points = ((self.own.rows - self.center) * self.inverse) @ self._Q
        router = fit_router(points, levels, self._cells_rng)
        fine = [mine for mine in members(router, points) if len(mine)]
        return [
            (cells, NOISE * np.stack([self.own.rows[mine].std(axis=0) for mine in cells]))
            for cells in (fine, [np.arange(n)])
        ]

    def _block(self) -> TrainingSet:
        """Return some more copies with the teacher's answers."""
        rng = self._rng
        parts = []
        for cells, noise in self._cells:
            counts = [-(-BLOCK_ROWS // (2 * len(cells)))] * len(cells)
            parts.append(between(self.own.rows, cells, counts, noise, self._two, rng))
        rows, first = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = rng.permutation(len(rows))
        rows, first = rows[order], first[order]
        return self._scaled(
            replace(
                self.own,
                rows=rows,
                values=self.own.teacher_values(rows),
                weights=COPY_WEIGHT * self.own.weights[first],
            )
        )

    def _scaled(self, rows: TrainingSet) -> TrainingSet:
        scaled = ((rows.rows - self.center) * self.inverse).astype(np.float32)
        return replace(rows, rows=scaled, values=rows.values.astype(np.float32))


def members(router: TreeRouter, points: FloatArray) -> list[IntArray]:
    """Return the rows of each leaf for points (n, r)."""
    labels = router.route(np.column_stack([points, np.ones(len(points), points.dtype)]))
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
