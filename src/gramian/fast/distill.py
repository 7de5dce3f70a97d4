"""A fast predictor fitted to a teacher, or to labels: metric, tree, and learned units in each leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gramian._random import children
from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.fast.joint import LeafRows, learn_together
from gramian.fast.metric import Teacher, inverse_spread
from gramian.fast.predictor import FastPredictor
from gramian.fast.router import TreeRouter, fit_router, stage_levels
from gramian.fast.units import Targets, Units, first_units

#: A copy of a row lies up to this part of the way to another row of its leaf, and then moves by this part
#: of each feature's spread: what the teacher does not see, the directions learn not to see.
MIXED, NOISE = 0.8, 0.3
#: Rows of a leaf at least, copies included.
LEAST_LEAF_ROWS = 200


@dataclass(frozen=True)
class Shape:
    """Sizes of a fast predictor: tree levels, units a leaf, directions; no units is a linear model a leaf."""

    n_levels: int
    n_units: int
    n_directions: int

    def operations(self, n_features: int, n_outputs: int) -> int:
        """Return multiplications and additions a row, an exponential counted as ten."""
        r, K, u = self.n_directions, n_outputs, self.n_units
        route = sum(2 * (r + 1) * (2**levels - 1) for levels in stage_levels(self.n_levels))
        return 2 * n_features * r + route + 2 * (r + 2) * (u + K) + 10 * u + 2 * u * K

    def leaf_numbers(self, n_outputs: int) -> int:
        """Return how many numbers a leaf learns."""
        r = self.n_directions
        return self.n_units * (r + 1 + n_outputs) + (r + 1) * n_outputs

    def round_operations(self, n_features: int, n_outputs: int) -> int:
        """Return multiplications and additions a row of a round of learning."""
        r, u = self.n_directions, self.n_units
        return 2 * (2 * n_features * r + 3 * u * r + (u + r) * (u + r + n_outputs))


@dataclass(frozen=True)
class Effort:
    """How long a fit goes on.

    rounds : of each stage in which all leaves and the directions are learned together.
    rows_per_number : rows, copies included, for each number that is learned.
    most_rows : rows, copies included, at most.
    operations : of a round, at most: fewer rows are learned from where the units of a leaf are many.
    """

    rounds: tuple[int, ...]
    rows_per_number: float
    most_rows: int
    operations: float

    def rows(self, shape: Shape, n_features: int, n_outputs: int) -> tuple[int, int]:
        """Return how many rows a fit of a shape wants, and how many at most."""
        least = LEAST_LEAF_ROWS * 2**shape.n_levels
        by_work = int(self.operations / shape.round_operations(n_features, n_outputs))
        most = max(min(self.most_rows, by_work), least)
        numbers = 2**shape.n_levels * shape.leaf_numbers(n_outputs) + n_features * shape.n_directions
        return min(max(int(self.rows_per_number * numbers), least), most), most


#: Of a fit that is kept.
FULL = Effort((20, 40, 90), 12.0, 200_000, 2e10)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What is learned from: rows (n, d), values (n, outputs), weights, and the teacher if there is one.

    low, high : bounds that values were clipped to; None for regression.
    """

    rows: Float64Array
    values: Float64Array
    weights: Float64Array
    teacher: Teacher | None = None
    low: float | None = None
    high: float | None = None

    def targets(self, mine: IntArray) -> Targets:
        """Return the targets of some rows."""
        return Targets(self.values[mine], self.weights[mine], self.low, self.high)

    def some(self, mine: IntArray) -> Lesson:
        """Return the lesson with some of its rows."""
        return replace(self, rows=self.rows[mine], values=self.values[mine], weights=self.weights[mine])

    def asked(self, rows: Float64Array) -> Float64Array:
        """Return the teacher's values at rows, clipped."""
        assert self.teacher is not None
        values = self.teacher(rows)
        return values if self.low is None or self.high is None else np.clip(values, self.low, self.high)


def distill(
    lesson: Lesson,
    projection: Float64Array,
    shape: Shape,
    rng: np.random.Generator,
    engine: Engine,
    effort: Effort = FULL,
) -> Iterator[FastPredictor]:
    r"""Fit a predictor of a given shape, and yield it as it stands: the start, then after each stage.

    projection : (d, r), P; rows are seen as z = Pᵀ(x − mean).

    Leaves halve the rows; in each the units start from k-means, then all leaves and the directions are
    learned together (:mod:`.joint`); between two stages the rows are routed anew. With a teacher there are
    copies of the rows too, moved towards other rows of the leaf and labelled by the teacher, so that what
    the units do between the rows is the teacher's.

    A leaf with fewer rows than its units has as many units as rows. Time O(n (r (d + u) + u²)) a round.
    """
    center, spread = lesson.rows.mean(axis=0), lesson.rows.std(axis=0)
    offset = center @ projection
    streams = children(rng, 3)
    router = fit_router(lesson.rows @ projection - offset, shape.n_levels, streams[0])
    rows = _with_copies(lesson, router, projection, offset, spread, shape, effort, streams[1])
    seeds = children(streams[2], router.n_leaves)
    members = _members(router, rows.rows @ projection - offset)

    def start(s: int) -> Units:
        mine = members[s]
        return first_units(rows.rows[mine] @ projection - offset, rows.targets(mine), shape.n_units, seeds[s])

    leaves = list(engine.map(start, range(router.n_leaves)))
    inverse = inverse_spread(spread)
    yield assemble(leaves, projection, offset, router, shape.n_units)
    if not effort.rounds:
        return
    scaled = ((rows.rows - center) * inverse).astype(np.float32)
    for stage in effort.rounds:
        sets = [LeafRows(scaled[mine], rows.targets(mine)) for mine in members]
        Q, leaves = learn_together(projection * spread[:, None], leaves, sets, stage, engine)
        projection = Q * inverse[:, None]
        offset = center @ projection
        yield assemble(leaves, projection, offset, router, shape.n_units)
        members = _members(router, rows.rows @ projection - offset)


def assemble(
    leaves: list[Units], projection: Float64Array, offset: Float64Array, router: TreeRouter, n_units: int
) -> FastPredictor:
    """Put fitted leaves together; units that a leaf lacks have weight 0."""
    r, K = projection.shape[1], len(leaves[0].linear)
    if len(leaves) == 1 and not n_units and r > K:  # a linear model: its outputs are its directions
        B = leaves[0].linear
        projection, offset = projection @ B[:, :r].T, B[:, :r] @ offset
        leaves = [replace(leaves[0], linear=np.column_stack([np.eye(K), B[:, r]]))]
        router, r = TreeRouter(), K
    forms = np.zeros((len(leaves), n_units + K, r + 2))
    weights = np.zeros((len(leaves), K, n_units))
    for s, leaf in enumerate(leaves):
        u = len(leaf.centers)
        if u:
            forms[s, :u] = leaf.exponents
            weights[s, :, :u] = leaf.weights
        forms[s, n_units:, : r + 1] = leaf.linear
    return FastPredictor(projection, offset, router, forms, weights)


def _members(router: TreeRouter, points: Float64Array) -> list[IntArray]:
    """Return the rows of each leaf; one without any has those of the nearest by number, a sibling first."""
    labels = router.route(np.column_stack([points, np.ones(len(points))]))
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
    full = [s for s, mine in enumerate(members) if len(mine)]
    return [mine if len(mine) else members[min(full, key=lambda t: s ^ t)] for s, mine in enumerate(members)]


def _with_copies(
    lesson: Lesson,
    router: TreeRouter,
    projection: Float64Array,
    offset: Float64Array,
    spread: Float64Array,
    shape: Shape,
    effort: Effort,
    rng: np.random.Generator,
) -> Lesson:
    """Return the rows with copies of them, as many as what is learned asks for."""
    n, d = lesson.rows.shape
    wanted, most = effort.rows(shape, d, lesson.values.shape[1])
    if n > most:
        return lesson.some(rng.choice(n, most, replace=False))
    if lesson.teacher is None or wanted <= n:
        return lesson
    members = _members(router, lesson.rows @ projection - offset)
    wanted_each = -(-wanted // router.n_leaves)
    first, second = (
        np.concatenate([rng.choice(mine, max(0, wanted_each - len(mine))) for mine in members])
        for _ in range(2)
    )
    copies = lesson.rows[second] - lesson.rows[first]
    copies *= MIXED * rng.random((len(first), 1))
    copies += lesson.rows[first]
    copies += NOISE * spread * rng.standard_normal(copies.shape)
    return replace(
        lesson,
        rows=np.concatenate([lesson.rows, copies]),
        values=np.concatenate([lesson.values, lesson.asked(copies)]),
        weights=np.concatenate([lesson.weights, lesson.weights[first]]),
    )
