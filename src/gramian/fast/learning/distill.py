"""Fast predictors in training: a shape, a start, and stages that go on from one another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._random import children
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.engine import one_blas_thread
from gramian.fast.learning.leaves import Limit, first_units, learn_units
from gramian.fast.learning.loss import LeafRows, Units
from gramian.fast.learning.training_set import TrainingSet, members
from gramian.fast.serving.predictor import FastPredictor, far_center
from gramian.fast.serving.router import TreeRouter, fit_router, stage_levels

#: Factor by which a stage may have more iterations than planned. Chosen by hand.
MORE_ROUNDS = 3
#: Fewest rows to train a leaf on, copies included; the search tries no trees whose leaves have fewer of the
#: rows themselves. Chosen by hand.
LEAST_LEAF_ROWS = 200


@dataclass(frozen=True)
class Shape:
    """Sizes of a fast predictor: tree levels, units a leaf, directions. Without units a leaf is linear."""

    n_levels: int
    n_units: int
    n_directions: int

    @property
    def linear(self) -> bool:
        """Whether it is one linear model."""
        return self.n_units == self.n_levels == 0

    def operations(self, n_features: int, n_outputs: int) -> int:
        """Return the multiplications and additions of predicting a row; a division counts as four."""
        r, K, u = self.n_directions, n_outputs, self.n_units
        route = sum(2 * (r + 1) * (2**levels - 1) for levels in stage_levels(self.n_levels))
        return 2 * n_features * r + route + 2 * (2 * r + 1) * (u + K) + 4 * u + 2 * u * K

    def round_operations(self, n_features: int, n_outputs: int) -> int:
        """Return the multiplications and additions a row of one training round."""
        r, u = self.n_directions, self.n_units
        return 2 * (2 * n_features * r + 6 * u * r + (u + r) * (u + r + n_outputs))


@dataclass(frozen=True)
class StageLimits:
    """Limits on the work of a stage.

    rounds : iterations, up to ``MORE_ROUNDS`` times as many where they are cheap. rows_per_number : wanted
    rows, copies included, for each learned parameter. most_rows : most rows, copies included. operations :
    most operations of the stage; with many units a leaf, fewer rows are used to stay below it. part : of a
    fit's time that may have passed when it ends.
    """

    rounds: int
    rows_per_number: float
    most_rows: int
    operations: float
    part: float = 1.0

    def rows(self, shape: Shape, n_features: int, n_outputs: int) -> int:
        """Return how many rows a stage of a shape should use."""
        least = LEAST_LEAF_ROWS * 2**shape.n_levels
        by_work = int(self.operations / self.rounds / shape.round_operations(n_features, n_outputs))
        most = max(min(self.most_rows, by_work), least)
        r, u = shape.n_directions, shape.n_units
        of_leaf = u * (2 * r + n_outputs) + (r + 1) * n_outputs
        numbers = 2**shape.n_levels * of_leaf + n_features * r
        return min(max(int(self.rows_per_number * numbers), least), most)

    def most_rounds(self, shape: Shape, rows: TrainingSet) -> int:
        """Return how many iterations on these rows the operations allow."""
        each = len(rows.rows) * shape.round_operations(rows.rows.shape[1], rows.values.shape[1])
        return int(np.clip(self.operations / each, self.rounds, MORE_ROUNDS * self.rounds))


@dataclass(frozen=True, eq=False)
class Student:
    """A predictor in training: units in each leaf of z = Qᵀx̃, where x̃ is a row in units of the spread.

    Q : (d, r); router : tree on z; leaves : the units of every leaf; center, inverse : mean and inverse
    spread of the features, x̃ = (x − center) inverse.
    """

    shape: Shape
    Q: Float64Array
    router: TreeRouter
    leaves: list[Units]
    center: Float64Array
    inverse: Float64Array

    def points(self, rows: TrainingSet) -> FloatArray:
        """Return z, shape (n, r)."""
        return rows.rows @ self.Q.astype(np.float32)

    def members(self, points: FloatArray) -> list[IntArray]:
        """Return the points of each leaf; an empty leaf gets those of the closest leaf that has some."""
        mine = members(self.router, points)
        full = [s for s, part in enumerate(mine) if len(part)]
        return [part if len(part) else mine[min(full, key=lambda t: s ^ t)] for s, part in enumerate(mine)]

    def values(self, rows: Array) -> Float64Array:
        """Return f (n, outputs) of rows (n, d) as they are, neither centred nor scaled."""
        return np.asarray(self.predictor()(rows), np.float64)

    def predictor(self) -> FastPredictor:
        """Return the predictor; missing units get weight 0."""
        P = self.Q * self.inverse[:, None]
        router, leaves, n_units = self.router, self.leaves, self.shape.n_units
        center = far_center(self.center, self.inverse)
        offset = self.center @ P if center is None else np.zeros(P.shape[1])
        r, K = P.shape[1], len(leaves[0].linear)
        if len(leaves) == 1 and not n_units and r > K:  # a linear model: its outputs are its directions
            B = leaves[0].linear
            P, offset = P @ B[:, :r].T, B[:, :r] @ offset
            leaves = [replace(leaves[0], linear=np.column_stack([np.eye(K), B[:, r]]))]
            router, r = TreeRouter(), K
        forms = np.zeros((len(leaves), n_units + K, 2 * r + 1))
        weights = np.zeros((len(leaves), K, n_units))
        for s, leaf in enumerate(leaves):
            u = len(leaf.centers)
            if u:
                forms[s, :u] = leaf.denominators
                weights[s, :, :u] = leaf.weights
            forms[s, n_units:, : r + 1] = leaf.linear
        return FastPredictor(P, offset, router, forms, weights, center)


def begin(
    rows: TrainingSet,
    shape: Shape,
    Q: Float64Array,
    units: tuple[Float64Array, Float64Array],
    rng: np.random.Generator,
) -> Student:
    """Return a student whose tree halves the rows and whose units start from k-means.

    Q : (d, r), directions in units of the spread; units : centre and inverse spread of the features. A leaf
    with fewer rows than units gets as many units as rows. Time O(n (r (d + u) + u²)).
    """
    streams = children(rng, 2)
    points = rows.rows @ Q.astype(np.float32)
    moved = replace(rows, rows=points)
    router = fit_router(points.astype(np.float64), shape.n_levels, streams[0])
    student = Student(shape, Q, router, [], *units)
    mine, seeds = student.members(points), children(streams[1], router.n_leaves)
    with one_blas_thread():
        leaves = [first_units(moved.some(own), shape.n_units, seed) for own, seed in zip(mine, seeds)]
    return replace(student, leaves=leaves)


def learn_together(
    student: Student, rows: TrainingSet, limit: Limit, held_out: TrainingSet | None = None
) -> Student:
    """Improve the directions and the units of all leaves; stop where the loss on held-out rows is least."""

    def watch(Q: Float64Array, leaves: list[Units]) -> float:
        assert held_out is not None
        return held_out.loss(replace(student, Q=Q, leaves=leaves).values(held_out.rows))

    sets = [LeafRows.of(rows.some(mine)) for mine in student.members(student.points(rows))]
    watched = None if held_out is None else watch
    Q, leaves = learn_units(student.leaves, sets, limit, student.Q, watched)
    return replace(student, Q=Q, leaves=leaves)


def learn_alone(student: Student, rows: TrainingSet, limit: Limit) -> Student:
    """Improve the units of every leaf on its own, with the directions as they are.

    Unlike in :func:`learn_together` each leaf has its own step length and quasi-Newton matrix.
    """
    moved, leaves = replace(rows, rows=student.points(rows)), list[Units]()
    with one_blas_thread():
        for units, mine in zip(student.leaves, student.members(moved.rows), strict=True):
            leaves += learn_units([units], [LeafRows.of(moved.some(mine))], limit)[1]
    return replace(student, leaves=leaves)
