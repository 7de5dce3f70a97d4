"""Search for the best fast predictor within a cost limit: time the shapes, then fit and validate them."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gramian._phases import Progress
from gramian._typing import Float64Array
from gramian.exceptions import BudgetError
from gramian.fast.learning.distill import (
    LEAST_LEAF_ROWS,
    Shape,
    StageLimits,
    Student,
    begin,
    learn_alone,
    learn_together,
)
from gramian.fast.learning.leaves import Limit
from gramian.fast.learning.loss import LeafRows, settle
from gramian.fast.learning.metric import metric_directions
from gramian.fast.learning.training_set import Pool, TrainingSet
from gramian.fast.serving.router import TreeRouter
from gramian.search import Limits, Trials, search

#: Numbers of units and of tree levels that are tried. Chosen by hand.
UNITS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
LEVELS = (0, 2, 4, 6, 8)
#: Fractions of the metric's trace that the tried numbers of directions keep, and the number of features up
#: to which keeping all of them is tried too. Chosen by hand.
HELD_PARTS, FEW_FEATURES = (0.8, 0.99), 24
#: Effort of a trial, of the nearest three trials, which go on, and of the nearest of these; at last its
#: leaves are learned on their own, and with the held-out rows. Chosen by hand.
TRIAL, FINALISTS, FINAL = StageLimits(20, 3.0, 30_000, 4e9, 0.4), 3, StageLimits(40, 6.0, 60_000, 1.5e10, 0.6)
FULL, OWN, AGAIN = StageLimits(90, 8.0, 200_000, 1.2e11, 0.8), StageLimits(60, 8.0, 200_000, 5e10, 0.9), 30
#: If the loss exceeds that of a shallower tree by this factor, deeper trees are not tried. Chosen by hand.
WORSE = 1.25
#: Effort of learning the labels after the teacher's values, until the held-out loss stops falling, and the
#: score by which a student of the labels must then be ahead. Chosen by hand.
TUNE, AHEAD = StageLimits(40, 6.0, 200_000, 3e10, 0.95), 0.001
#: Part of the loss below which leaves on their own must bring it for another turn. Chosen by hand.
WORTH = 0.9
#: Updates of a linear model's working targets.
LINEAR_ROUNDS = 60

#: Function from a shape to the measured nanoseconds a row of a model's ``predict``.
Clock = Callable[[Shape], float]


@dataclass(frozen=True, eq=False)
class FittedShape:
    """A student with its results on the held-out rows.

    learned : name of the training set that it learned, "teacher" or "labels". alone : whether its leaves were
    learned on their own. score : score against the labels of the held-out rows. loss : mean squared error
    against the target values of that set on the held-out rows.
    """

    student: Student
    learned: str
    alone: bool
    score: float
    loss: float

    @property
    def shape(self) -> Shape:
        """The sizes."""
        return self.student.shape


@dataclass(frozen=True, eq=False)
class ShapeTrainer:
    """Trainer of fast predictors of any shape, with what all fits share.

    M : metric, the teacher's average gradient outer product (d, d); pools : rows to learn from, and
    held_out : held-out rows with their values, both by the name of the training set. Every shape begins with
    the first set: the teacher's values, if they are learned. labelled : the held-out rows with their labels,
    which give the scores.
    """

    M: Float64Array
    pools: dict[str, Pool]
    held_out: dict[str, TrainingSet]
    labelled: TrainingSet
    seed: int
    progress: Progress | None = None  #: called with 1 for each predictor that is judged
    start: float = 0.0  #: on the clock of ``time.perf_counter``
    seconds: float = math.inf  #: for the whole fit

    def deadline(self, part: float) -> float:
        """Return when a part of the time is over."""
        return self.start + part * self.seconds

    def rows(self, pool: Pool, shape: Shape, effort: StageLimits) -> TrainingSet:
        """Return the rows of a pool that a stage learns from."""
        return pool.rows(effort.rows(shape, len(self.M), pool.own.values.shape[1]))

    def judge(self, name: str, shape: Shape) -> tuple[float, FittedShape]:
        """Fit a shape for a few rounds, and return its loss with the fit.

        If the metric has fewer directions above rounding than the shape asks for, fewer are used.
        """
        pool = self.pools[name]
        Q = metric_directions(self.M, pool.spread, shape.n_directions) * pool.spread[:, None]
        shape = replace(shape, n_directions=Q.shape[1])
        rows, rng = self.rows(pool, shape, TRIAL), np.random.default_rng(self.seed)
        start = self.validate(begin(rows, shape, Q, (pool.center, pool.inverse), rng), name)
        trial = self.improve(start, name, TRIAL)
        return trial.loss, trial

    def improve(self, trial: FittedShape, name: str, effort: StageLimits) -> FittedShape:
        """Go on with a student, on a training set; return the better of both on the set's held-out rows.

        Within one set the loss compares stages and shapes, since it needs far fewer rows than an error count
        does; only between sets must the score decide.
        """
        before = trial if trial.learned == name else self.validate(trial.student, name)
        deadline = self.deadline(effort.part)
        if time.perf_counter() >= deadline:
            return before
        rows = self.rows(self.pools[name], trial.shape, effort)
        limit = Limit(effort.most_rounds(trial.shape, rows), deadline)
        if effort is OWN:
            student = learn_alone(trial.student, rows, limit)
        else:
            student = learn_together(trial.student, rows, limit, self.held_out[name])
        after = self.validate(student, name, effort is OWN)
        return min(before, after, key=lambda one: one.loss)

    def fit(self, shape: Shape) -> FittedShape:
        """Fit a shape to the end."""
        first = next(iter(self.pools))
        return self.finish(self.improve(self.judge(first, shape)[1], first, FINAL))

    def finish(self, fit: FittedShape) -> FittedShape:
        """Fit a student to the end, and then to the labels too if they are ahead on the held-out rows.

        Leaves on their own have a step length and a quasi-Newton matrix each. Where they come much nearer to
        the teacher, all leaves with the directions go on once more.
        """
        for _ in range(2):
            whole = self.improve(fit, fit.learned, FULL)
            fit = self.improve(whole, fit.learned, OWN)
            if fit.loss > WORTH * whole.loss:
                break
        for name in self.pools:
            if name != fit.learned:
                tuned = self.improve(fit, name, TUNE)
                fit = max(fit, tuned, key=lambda one: one.score - AHEAD * (one.learned == name))
        return fit

    def refit(self, fit: FittedShape, pool: Pool) -> Student:
        """Go on from a fitted student on the rows of a pool that holds more than those it learned from."""
        if fit.shape.linear:
            return linear_student(pool)
        rows = self.rows(pool, fit.shape, OWN if fit.alone else FULL)
        learn = learn_alone if fit.alone else learn_together
        return learn(fit.student, rows, Limit(AGAIN, self.deadline(1.0)))

    def validate(self, student: Student, name: str, alone: bool = False) -> FittedShape:
        """Return a student with its score and its loss on the held-out rows."""
        if self.progress is not None:
            self.progress(1)
        outputs = student.values(self.labelled.rows)
        loss = self.held_out[name].loss(outputs)
        return FittedShape(student, name, alone, self.labelled.score(outputs), loss)


def linear_student(pool: Pool) -> Student:
    """Return a linear model of a pool's own rows, in float64."""
    own, d = pool.own, pool.own.rows.shape[1]
    leaf = LeafRows.of(replace(own, rows=(own.rows - pool.center) * pool.inverse))
    units = settle(leaf, np.zeros((0, d)), np.zeros((0, d)), rounds=LINEAR_ROUNDS).units
    return Student(Shape(0, 0, d), np.eye(d), TreeRouter(), [units], pool.center, pool.inverse)


def linear_shape(n_features: int, n_outputs: int) -> Shape:
    """Return the shape of one linear model: its outputs are its directions."""
    return Shape(0, 0, min(n_features, n_outputs))


def direction_counts(M: Float64Array) -> tuple[int, ...]:
    """Return numbers of directions to try.

    With few features: all of them, three quarters, and as many as hold 80 % of the trace of M. With more:
    multiples of eight, for which matrix products are fastest, up to as many as hold 99 % of the trace.
    """
    d = len(M)
    values = np.maximum(np.linalg.eigvalsh(M)[::-1], 0.0)
    total = values.sum()
    if total <= 0:
        return (1,)
    few, most = (int(np.searchsorted(np.cumsum(values) / total, part)) + 1 for part in HELD_PARTS)
    if d <= FEW_FEATURES:
        return tuple(sorted({d, -(-3 * d // 4), few}, reverse=True))
    counts = [8 * count for count in (1, 2, 3, 4, 6, 8) if 8 * (count - 1) < most]
    return tuple(count for count in reversed(counts) if few // 2 <= count <= d)


def search_shapes(nanoseconds: float, clock: Clock, trainer: ShapeTrainer) -> FittedShape:
    """Return the best predictor within ``nanoseconds`` a row.

    Every shape of :func:`worth_trying` is fitted for a few rounds to the teacher's values, or to the labels
    if they alone are learned. The ``FINALISTS`` with the smallest held-out loss go on, and the nearest of
    them is fitted to the end (:meth:`ShapeTrainer.finish`). It competes with a linear model of each set,
    which wins a tie since nothing is cheaper. Raises ``BudgetError`` if the budget is below a linear model's
    cost.
    """
    first, pool = next(iter(trainer.pools.items()))
    own = pool.own
    d, K = own.rows.shape[1], own.values.shape[1]
    least = clock(linear_shape(d, K))
    if least > nanoseconds:
        raise BudgetError(
            f"cost={nanoseconds:.3g} ns a row is below a linear model's, which takes {least:.3g} ns here for "
            f"{d} features and {K} output(s). Raise cost to at least {math.ceil(least)} ns.",
            math.ceil(least),
        )
    finals = [trainer.validate(linear_student(each), name) for name, each in trainer.pools.items()]
    directions = direction_counts(trainer.M)
    tried = search(
        first,
        lambda trials: worth_trying(trials, nanoseconds, clock, len(own.rows), directions),
        trainer.judge,
        Limits(deadline=trainer.deadline(TRIAL.part)),
    )
    if tried.made:
        nearest = [trainer.improve(one.evidence, first, FINAL) for one in tried.ranked[:FINALISTS]]
        finals.append(trainer.finish(min(nearest, key=lambda one: one.loss)))
    return max(finals, key=lambda final: final.score)


def worth_trying(
    trials: Trials[Shape, FittedShape],
    nanoseconds: float,
    clock: Clock,
    n_rows: int,
    directions: tuple[int, ...],
) -> Iterator[list[Shape]]:
    """Yield for each number of directions and levels the shape with the most units within the budget.

    Once a deeper tree is clearly worse, the still deeper ones are left out.
    """
    for r in directions:
        best = math.inf
        for levels in LEVELS:
            if levels and n_rows < LEAST_LEAF_ROWS * 2**levels:
                break
            # The time grows with the units, up to noise.
            count = bisect_left(UNITS, True, key=lambda u: clock(Shape(levels, u, r)) > nanoseconds)
            if not count:
                break
            shape = Shape(levels, UNITS[count - 1], r)
            if shape.n_units or shape.n_levels:
                yield [shape]
                loss = trials.made[-1].error
                if loss > WORSE * best:
                    break
                best = min(loss, best)
