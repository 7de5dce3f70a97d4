"""A fast predictor fitted to a teacher, or to labels: metric, tree, and learned units in each leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._random import children
from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.fast.metric import Teacher
from gramian.fast.predictor import FastPredictor
from gramian.fast.router import TreeRouter, fit_router, stage_levels
from gramian.fast.units import Targets, Units, fit_units

#: A copy of a row lies up to this part of the way to another row of its leaf.
MIXED = 0.8
#: Rows of a leaf, copies included, for each number that its units learn; at least and at most so many rows.
ROWS_PER_NUMBER, LEAST_LEAF_ROWS, MOST_LEAF_ROWS = 12.0, 200, 12_000


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
    *,
    max_iter: int = 40,
    rows_per_number: float = ROWS_PER_NUMBER,
) -> FastPredictor:
    r"""Fit a predictor of a given shape.

    projection : (d, r), P; rows are seen as z = Pᵀ(x − mean).

    Leaves halve the rows; in each the units are fitted by :func:`.units.fit_units`. With a teacher each leaf
    has copies of its rows too, moved towards other rows of the leaf and labelled by the teacher:
    ``rows_per_number`` rows for each number that is learned, so that what the units do between the rows is
    the teacher's.

    A leaf with fewer rows than its units has as many units as rows. Time O(leaves · n_leaf (u r)²) a round.
    """
    center = lesson.rows.mean(axis=0)
    offset = center @ projection
    z = lesson.rows @ projection - offset
    streams = children(rng, 2)
    router = fit_router(z, shape.n_levels, streams[0])
    labels = router.route(np.column_stack([z, np.ones(len(z))]))
    seeds = children(streams[1], router.n_leaves)
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, router.n_leaves)))
    members = [mine if len(mine) else _like(members, s) for s, mine in enumerate(members)]

    def fit(s: int) -> Units:
        rows, values, weights = _leaf_rows(lesson, members[s], shape, rows_per_number, seeds[s])
        targets = Targets(values, weights, lesson.low, lesson.high)
        return fit_units(rows @ projection - offset, targets, shape.n_units, seeds[s], max_iter=max_iter)

    leaves = list(engine.map(fit, range(router.n_leaves)))
    return assemble(leaves, projection, offset, router, shape.n_units)


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


def _like(members: list[IntArray], s: int) -> IntArray:
    """Return the rows of the nearest leaf by number (a sibling first) that has any, for one without."""
    full = [t for t, mine in enumerate(members) if len(mine)]
    return members[min(full, key=lambda t: s ^ t)]


def _leaf_rows(
    lesson: Lesson, mine: IntArray, shape: Shape, rows_per_number: float, rng: np.random.Generator
) -> tuple[Float64Array, Float64Array, Float64Array]:
    rows, values, weights = lesson.rows[mine], lesson.values[mine], lesson.weights[mine]
    r = shape.n_directions
    numbers = shape.n_units * (r + 1 + values.shape[1]) + r + 1
    wanted = int(np.clip(rows_per_number * numbers, LEAST_LEAF_ROWS, MOST_LEAF_ROWS))
    most = max(wanted, LEAST_LEAF_ROWS) if rows_per_number < ROWS_PER_NUMBER else MOST_LEAF_ROWS
    if len(mine) > most:
        some = rng.choice(len(mine), most, replace=False)
        return rows[some], values[some], weights[some]
    extra = wanted - len(mine)
    if lesson.teacher is None or extra <= 0:
        return rows, values, weights
    first, second = rng.integers(len(mine), size=(2, extra))
    share = MIXED * rng.random((extra, 1))
    copies = rows[first] + share * (rows[second] - rows[first])
    return (
        np.concatenate([rows, copies]),
        np.concatenate([values, lesson.asked(copies)]),
        np.concatenate([weights, weights[first]]),
    )
