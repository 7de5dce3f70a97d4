"""Rows of a training set and synthetic rows between them, each labelled once by the teacher."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gramian._random import children
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.fast.learning.loss import WeightedTargets
from gramian.fast.learning.metric import inverse_spread
from gramian.fast.learning.training_set import TrainingSet, together
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


@dataclass(frozen=True, eq=False)
class AugmentedRows:
    """Rows to learn from, centred and in units of the features' spread, float32 (n, d), and their targets."""

    scaled: FloatArray
    targets: WeightedTargets

    def some(self, count: int) -> AugmentedRows:
        """Return the first rows."""
        return AugmentedRows(self.scaled[:count], self.targets.some(slice(count)))

    @classmethod
    def together(cls, parts: list[AugmentedRows]) -> AugmentedRows:
        """Return the rows of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        targets = [part.targets for part in parts]
        values, weights = (
            np.concatenate(arrays)
            for arrays in zip(*((one.values, one.weights) for one in targets), strict=True)
        )
        scaled = np.concatenate([part.scaled for part in parts])
        return cls(scaled, replace(targets[0], values=values, weights=weights))


class Pool:
    """The rows of a training set in random order, then synthetic rows, labelled when they are first needed.

    All shapes learn from a beginning of the same rows, so that the teacher answers for each of them once.
    Half of the synthetic rows lie within cells of equal numbers of rows (leaves of a tree in the directions
    of the metric), half between any two rows: these teach which features to ignore.

    center, spread : of the features; Q : (d, r), directions of the metric in units of the spread. Memory
    O(rows · (d + outputs)), float32.
    """

    def __init__(
        self,
        lesson: TrainingSet,
        center: Float64Array,
        spread: Float64Array,
        Q: Float64Array,
        rng: np.random.Generator,
    ) -> None:
        order, self._cells_rng, self._rng = children(rng, 3)
        self.lesson = lesson.some(order.permutation(len(lesson.rows)))
        self.center, self.spread, self.inverse = center, spread, inverse_spread(spread)
        self.known = self._scaled(self.lesson)
        self._two, self._Q = two_valued(lesson.rows), Q

    def joined(self, more: TrainingSet) -> Pool:
        """Return a pool that begins with more rows, of the same teacher."""
        pool = copy(self)
        pool.lesson = together([self.lesson, more])
        pool.known = AugmentedRows.together([self._scaled(more), self.known])
        return pool

    @property
    def most(self) -> int:
        """The most rows that the pool gives."""
        if self.lesson.teacher is None:
            return len(self.lesson.rows)
        return max(len(self.lesson.rows), NUMBERS // self.lesson.rows.shape[1])

    def rows(self, count: int) -> AugmentedRows:
        """Return the first ``count`` rows, or as many as there are."""
        count = min(count, self.most)
        blocks = [self.known]
        missing = count - len(self.known.scaled)
        while missing > 0:
            blocks.append(self._block())
            missing -= len(blocks[-1].scaled)
        self.known = AugmentedRows.together(blocks)
        return self.known.some(count)

    @cached_property
    def _cells(self) -> list[tuple[list[IntArray], Float64Array]]:
        """The rows of each cell and the noise in it (cells, d): of the leaves of a tree, and of all rows."""
        n = len(self.lesson.rows)
        levels = int(np.clip(np.log2(max(1, n / CELL_ROWS)), 0, CELL_LEVELS))
        points = ((self.lesson.rows - self.center) * self.inverse) @ self._Q
        router = fit_router(points, levels, self._cells_rng)
        fine = [mine for mine in members(router, points) if len(mine)]
        return [
            (cells, NOISE * np.stack([self.lesson.rows[mine].std(axis=0) for mine in cells]))
            for cells in (fine, [np.arange(n)])
        ]

    def _block(self) -> AugmentedRows:
        """Return some more copies with the teacher's answers."""
        rng = self._rng
        parts = []
        for cells, noise in self._cells:
            counts = [-(-BLOCK_ROWS // (2 * len(cells)))] * len(cells)
            parts.append(between(self.lesson.rows, cells, counts, noise, self._two, rng))
        rows, first = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = rng.permutation(len(rows))
        rows, first = rows[order], first[order]
        return self._scaled(
            replace(
                self.lesson,
                rows=rows,
                values=self.lesson.asked(rows),
                weights=COPY_WEIGHT * self.lesson.weights[first],
            )
        )

    def _scaled(self, lesson: TrainingSet) -> AugmentedRows:
        scaled = ((lesson.rows - self.center) * self.inverse).astype(np.float32)
        values = lesson.values.astype(np.float32)
        return AugmentedRows(scaled, WeightedTargets(values, lesson.weights, lesson.low, lesson.high))


def members(router: TreeRouter, points: FloatArray) -> list[IntArray]:
    """Return the rows of each leaf for points (n, r)."""
    labels = router.route(np.column_stack([points, np.ones(len(points), points.dtype)]))
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
