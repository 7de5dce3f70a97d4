"""Distillation: fit a fast predictor (projection, tree, units of each leaf) to a teacher or to labels."""

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

#: Fewest rows to train a leaf on, copies included. Chosen by hand, as are the next constants.
LEAST_LEAF_ROWS = 200
#: Noise of the copies, in units of a feature's spread. While directions are learned it is large, so that they
#: learn to ignore what the teacher ignores; in the last stage, with fixed directions, it is small.
NOISE, OWN_NOISE = 0.3, 0.1
#: Copies that are made and labelled at a time; in the last stage only their projections are kept.
ASKED_ROWS = 50_000
#: The last stage, in which each leaf is trained alone, may use this many times more rows.
OWN_ROWS = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of a fast predictor: tree levels, units a leaf, directions. Without units a leaf is linear."""

    n_levels: int
    n_units: int
    n_directions: int

    def operations(self, n_features: int, n_outputs: int) -> int:
        """Return the multiplications and additions of predicting a row; an exponential counts as ten."""
        r, K, u = self.n_directions, n_outputs, self.n_units
        route = sum(2 * (r + 1) * (2**levels - 1) for levels in stage_levels(self.n_levels))
        return 2 * n_features * r + route + 2 * (r + 2) * (u + K) + 10 * u + 2 * u * K

    def leaf_numbers(self, n_outputs: int) -> int:
        """Return the number of parameters of a leaf."""
        r = self.n_directions
        return self.n_units * (r + 1 + n_outputs) + (r + 1) * n_outputs

    def round_operations(self, n_features: int, n_outputs: int) -> int:
        """Return the multiplications and additions a row of one training round."""
        r, u = self.n_directions, self.n_units
        return 2 * (2 * n_features * r + 3 * u * r + (u + r) * (u + r + n_outputs))


@dataclass(frozen=True)
class Effort:
    """Limits on the work of a fit.

    rounds : iterations of each stage that trains all leaves and the directions together.
    rows_per_number : wanted rows, copies included, for each learned parameter.
    most_rows : most rows, copies included.
    operations : most operations of a round; with many units a leaf, fewer rows are used to stay below it.
    own_rounds : iterations of the last stage, which trains every leaf on its own.
    """

    rounds: tuple[int, ...]
    rows_per_number: float
    most_rows: int
    operations: float
    own_rounds: int = 0

    def own(self) -> Effort:
        """Return the effort of the last stage. It may use more rows, as it keeps only their projections."""
        return replace(self, most_rows=OWN_ROWS * self.most_rows, operations=OWN_ROWS * self.operations)

    def rows(self, shape: Shape, n_features: int, n_outputs: int) -> tuple[int, int]:
        """Return how many rows the fit of a shape should use, and the most it may use."""
        least = LEAST_LEAF_ROWS * 2**shape.n_levels
        by_work = int(self.operations / shape.round_operations(n_features, n_outputs))
        most = max(min(self.most_rows, by_work), least)
        numbers = 2**shape.n_levels * shape.leaf_numbers(n_outputs) + n_features * shape.n_directions
        return min(max(int(self.rows_per_number * numbers), least), most), most


#: Effort of the final fit, chosen by hand.
FULL = Effort((20, 40, 90), 12.0, 200_000, 2e10, 100)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """A training set: rows (n, d), values (n, outputs), weights, and the teacher if there is one.

    low, high : bounds that the values were clipped to; None for regression.
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

    def some(self, mine: IntArray) -> TrainingSet:
        """Return the lesson with some of its rows."""
        return replace(self, rows=self.rows[mine], values=self.values[mine], weights=self.weights[mine])

    def left(self, outputs: Float64Array) -> float:
        """Return the loss Σ_i w_i ‖t_i − f_i‖² of outputs f, clipped to the same bounds as the targets t.

        Clipping bounds the loss of an output by (high − low)², however far off it is.
        """
        if self.low is not None or self.high is not None:
            outputs = np.clip(outputs, self.low, self.high)
        return float(self.weights @ np.square(self.values - outputs).sum(axis=1))

    def asked(self, rows: Float64Array) -> Float64Array:
        """Return the teacher's values at the rows, clipped to the bounds."""
        assert self.teacher is not None
        values = self.teacher(rows)
        return values if self.low is None or self.high is None else np.clip(values, self.low, self.high)


def distill(
    lesson: TrainingSet,
    projection: Float64Array,
    shape: Shape,
    rng: np.random.Generator,
    engine: Engine,
    effort: Effort = FULL,
) -> Iterator[FastPredictor]:
    r"""Fit a predictor of a given shape. Yield it at the start and after each stage.

    projection : (d, r), P; a row x is projected to z = Pᵀ(x − mean).

    A balanced tree assigns rows to leaves, and the units of each leaf start from k-means. Each of the first
    stages learns all leaves and the directions together (:mod:`.joint`), then routes the rows again with the
    new directions. If the loss is larger after routing, the stage is undone and no further one is run: small
    leaves can lose more by exchanging rows than they gain from better directions. The last stage fixes the
    directions and trains every leaf on its own (:mod:`.leaves`), from more rows. With a teacher, synthetic
    copies of the rows (:mod:`.copies`) are labelled by the teacher and learned too, so that the predictor
    follows the teacher between the rows.

    A leaf with fewer rows than units gets as many units as rows. Time O(n (r (d + u) + u²)) a round for u
    units.
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

    leaves = engine.map(start, range(router.n_leaves))
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

    leaves = engine.map(alone, range(router.n_leaves))
    yield assemble(leaves, projection, offset, router, shape.n_units)


def assemble(
    leaves: list[Units], projection: Float64Array, offset: Float64Array, router: TreeRouter, n_units: int
) -> FastPredictor:
    """Combine fitted leaves into one predictor; missing units get weight 0."""
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


def _outputs(predictor: FastPredictor, lesson: TrainingSet) -> Float64Array:
    return np.asarray(predictor(lesson.rows), np.float64)


def _members(router: TreeRouter, points: Float64Array) -> list[IntArray]:
    """Return the rows of each leaf; an empty leaf gets the rows of the closest nonempty leaf in the tree."""
    labels = router.route(np.column_stack([points, np.ones(len(points))]))
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
    full = [s for s, mine in enumerate(members) if len(mine)]
    return [mine if len(mine) else members[min(full, key=lambda t: s ^ t)] for s, mine in enumerate(members)]


def _together(blocks: list[TrainingSet]) -> TrainingSet:
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
    lesson: TrainingSet,
    known: TrainingSet,
    router: TreeRouter,
    projection: Float64Array,
    offset: Float64Array,
    kinds: tuple[Float64Array, Array],
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> Iterator[TrainingSet]:
    """Yield the rows, then blocks of copies until there are as many rows as wanted.

    known : the rows with the copies made so far, or a sample of them; kinds : for each feature the noise of
    its copies, and whether it has two values; sizes : how many rows are wanted, and the most allowed.
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
