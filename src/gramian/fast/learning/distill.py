"""A fast predictor fitted to a teacher, or to labels: metric, tree, and learned units in each leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gramian._random import children
from gramian._typing import Array, Float64Array, IntArray
from gramian.engine import Engine
from gramian.fast.learning.copies import between, two_valued
from gramian.fast.learning.joint import LeafRows, learn_together
from gramian.fast.learning.leaves import learn_alone
from gramian.fast.learning.metric import Teacher, center_and_spread, inverse_spread
from gramian.fast.learning.units import Targets, Units, first_units
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.serving.router import TreeRouter, fit_router, stage_levels

#: Rows of a leaf at least, copies included.
LEAST_LEAF_ROWS = 200
#: Noise of copies in units of a feature's spread: what the teacher does not see, the directions learn not to
#: see; and when the directions are held.
NOISE, OWN_NOISE = 0.3, 0.1
#: Copies that exist at a time, where only their points are kept.
ASKED_ROWS = 50_000
#: Times as many rows in the last stage as before.
OWN_ROWS = 4


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
    own_rounds : of a last stage, in which every leaf is learned on its own.
    """

    rounds: tuple[int, ...]
    rows_per_number: float
    most_rows: int
    operations: float
    own_rounds: int = 0

    def own(self) -> Effort:
        """Return the effort of the last stage: more rows, which are kept as points of few numbers."""
        return replace(self, most_rows=OWN_ROWS * self.most_rows, operations=OWN_ROWS * self.operations)

    def rows(self, shape: Shape, n_features: int, n_outputs: int) -> tuple[int, int]:
        """Return how many rows a fit of a shape wants, and how many at most."""
        least = LEAST_LEAF_ROWS * 2**shape.n_levels
        by_work = int(self.operations / shape.round_operations(n_features, n_outputs))
        most = max(min(self.most_rows, by_work), least)
        numbers = 2**shape.n_levels * shape.leaf_numbers(n_outputs) + n_features * shape.n_directions
        return min(max(int(self.rows_per_number * numbers), least), most), most


#: Of a fit that is kept.
FULL = Effort((20, 40, 90), 12.0, 200_000, 2e10, 100)


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

    def left(self, outputs: Float64Array) -> float:
        """Return Σ_i w_i ‖t_i − f_i‖² of a predictor's outputs f, these clipped as the targets are.

        So a row counts (high − low)² at most, however far off it is, as a row of the wrong class does.
        """
        if self.low is not None or self.high is not None:
            outputs = np.clip(outputs, self.low, self.high)
        return float(self.weights @ np.square(self.values - outputs).sum(axis=1))

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
    learned together (:mod:`.joint`); between two stages the rows are routed anew, by the directions as they
    are then. Where that leaves more squares than there were the stage is undone, and the last of its kind:
    many small leaves lose more rows to each other than new directions give them. At last the directions are
    held and every leaf is learned on its own (:mod:`.leaves`), from more rows. With a teacher there are
    copies of the rows too (:mod:`.copies`), labelled by the teacher, so that what the units do between the
    rows is the teacher's.

    A leaf with fewer rows than its units has as many units as rows. Time O(n (r (d + u) + u²)) a round.
    """
    center, spread = center_and_spread(lesson.rows, lesson.weights)
    offset = center @ projection
    streams = children(rng, 4)
    two = two_valued(lesson.rows)
    router = fit_router(lesson.rows @ projection - offset, shape.n_levels, streams[0])
    wanted = effort.rows(shape, len(center), lesson.values.shape[1])
    blocks = _blocks(lesson, lesson, router, projection, offset, (NOISE * spread, two), wanted, streams[1])
    rows = _together(list(blocks))
    seeds = children(streams[2], router.n_leaves)
    members = _members(router, rows.rows @ projection - offset)

    def start(s: int) -> Units:
        mine = members[s]
        return first_units(rows.rows[mine] @ projection - offset, rows.targets(mine), shape.n_units, seeds[s])

    leaves = list(engine.map(start, range(router.n_leaves)))
    inverse = inverse_spread(spread)
    yield assemble(leaves, projection, offset, router, shape.n_units)
    scaled = ((rows.rows - center) * inverse).astype(np.float32)
    left = rows.left(_outputs(assemble(leaves, projection, offset, router, shape.n_units), rows))
    for stage in effort.rounds:
        sets = [LeafRows(scaled[mine], rows.targets(mine)) for mine in members]
        Q, learned = learn_together(projection * spread[:, None], leaves, sets, stage, engine)
        moved = Q * inverse[:, None]
        found = assemble(learned, moved, center @ moved, router, shape.n_units)
        yield found
        last, left = left, rows.left(_outputs(found, rows))
        if left > last:
            break
        projection, offset, leaves = moved, center @ moved, learned
        members = _members(router, rows.rows @ projection - offset)
    if not effort.own_rounds or not shape.n_units:
        return
    wanted = effort.own().rows(shape, 0, lesson.values.shape[1])  # no directions are learned
    blocks = _blocks(lesson, rows, router, projection, offset, (OWN_NOISE * spread, two), wanted, streams[3])
    known = _together([replace(block, rows=block.rows @ projection - offset) for block in blocks])
    members = _members(router, known.rows)

    def alone(s: int) -> Units:
        mine = members[s]
        return learn_alone(known.rows[mine], known.targets(mine), leaves[s], effort.own_rounds)

    leaves = list(engine.map(alone, range(router.n_leaves)))
    yield assemble(leaves, projection, offset, router, shape.n_units)


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


def _outputs(predictor: FastPredictor, lesson: Lesson) -> Float64Array:
    return np.asarray(predictor(lesson.rows), np.float64)


def _members(router: TreeRouter, points: Float64Array) -> list[IntArray]:
    """Return the rows of each leaf; one without any has those of the nearest by number, a sibling first."""
    labels = router.route(np.column_stack([points, np.ones(len(points))]))
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
    full = [s for s, mine in enumerate(members) if len(mine)]
    return [mine if len(mine) else members[min(full, key=lambda t: s ^ t)] for s, mine in enumerate(members)]


def _together(blocks: list[Lesson]) -> Lesson:
    """Return one lesson with the rows of several."""
    if len(blocks) == 1:
        return blocks[0]
    return replace(
        blocks[0],
        rows=np.concatenate([block.rows for block in blocks]),
        values=np.concatenate([block.values for block in blocks]),
        weights=np.concatenate([block.weights for block in blocks]),
    )


def _blocks(
    lesson: Lesson,
    known: Lesson,
    router: TreeRouter,
    projection: Float64Array,
    offset: Float64Array,
    kinds: tuple[Float64Array, Array],
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> Iterator[Lesson]:
    """Yield the rows, then blocks of copies of them, as many as what is learned asks for.

    known : the rows and what copies of them there are already, or a sample of them; kinds : noise of each
    feature's copies, and whether it has two values; sizes : how many rows are wanted, and how many at most.
    """
    wanted, most = sizes
    n = len(lesson.rows)
    if n > most:
        yield lesson.some(rng.choice(n, most, replace=False))
        return
    known = known if len(known.rows) >= n else lesson
    yield known
    if lesson.teacher is None or wanted <= len(known.rows):
        return
    wanted_each = -(-wanted // router.n_leaves)
    there = _members(router, known.rows @ projection - offset)
    counts = np.array([max(0, wanted_each - len(mine)) for mine in there])
    members = _members(router, lesson.rows @ projection - offset)
    parts = -(-int(counts.sum()) // ASKED_ROWS)
    for part in range(parts):
        some = counts * (part + 1) // parts - counts * part // parts
        copies, first = between(lesson.rows, members, some.tolist(), *kinds, rng)
        yield replace(lesson, rows=copies, values=lesson.asked(copies), weights=lesson.weights[first])
