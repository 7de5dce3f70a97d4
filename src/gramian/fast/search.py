"""Search for the best fast predictor within a cost limit: time the shapes, then fit and validate them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from gramian._typing import Float64Array
from gramian.engine import Engine
from gramian.exceptions import BudgetError
from gramian.fast.cost import batch_rows, dummy, linear_nanoseconds, seconds_per_row
from gramian.fast.learning.distill import FULL, Effort, Lesson, Shape, distill
from gramian.fast.learning.metric import metric_directions
from gramian.fast.serving.predictor import FastPredictor
from gramian.search import Trials, search

#: Units and tree levels that are tried, rows of a leaf at least.
UNITS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
LEVELS = (0, 2, 4, 6, 8)
LEAF_ROWS = 60
#: Numbers of units beyond the budget in a row that end the list: a timing may be disturbed.
MISSES = 2
#: Parts of the metric's trace that directions hold, and features that are few.
HELD_PARTS, FEW_FEATURES = (0.8, 0.95, 0.99), 24
#: How long a trial goes on, how many of the best go on, and how long these do.
TRIAL, FINALISTS, FINAL = Effort((20,), 4.0, 60_000, 2e9), 3, Effort((60,), 8.0, 60_000, 4e9)
#: Times the loss of fewer levels at which deeper trees are not tried.
WORSE = 1.25
#: A linear model is done where it starts.
LINEAR = replace(FULL, rounds=())

#: (values of the predictor on held-out rows) → score, the larger the better.
Score = Callable[[Float64Array], float]


@dataclass(frozen=True, eq=False)
class FittedShape:
    """A fitted predictor and what it was fitted as.

    lesson : name of what it was fitted to.
    again : fits the same shape to a lesson, up to the same stage.
    score : on the labels of held-out rows. loss : on the values of the lesson there.
    """

    shape: Shape
    predictor: FastPredictor
    lesson: str
    again: Callable[[Lesson], FastPredictor]
    score: float
    loss: float


@dataclass(frozen=True, eq=False)
class ShapeTrainer:
    """What the fits of several shapes share: the metric, the held-out rows, and the random numbers.

    held_out : held-out rows with their values, by the name of the lesson.
    """

    M: Float64Array
    spread: Float64Array
    held_out: dict[str, Lesson]
    score: Score
    seed: int
    engine: Engine

    def fitted(
        self,
        lesson: Lesson,
        name: str,
        shape: Shape,
        effort: Effort = FULL,
    ) -> FittedShape:
        """Return the stage of a fit that is nearest on the held-out rows to what it learned.

        The loss tells stages and shapes of one lesson apart with far fewer rows than a count of errors
        does; only between lessons the score must decide. Fewer directions are taken where the rest of the
        metric is rounding.
        """
        projection = metric_directions(self.M, self.spread, shape.n_directions)
        exact = replace(shape, n_directions=projection.shape[1])

        def stages(lesson: Lesson) -> Iterator[FastPredictor]:
            return distill(lesson, projection, exact, np.random.default_rng(self.seed), self.engine, effort)

        def up_to(stage: int) -> Callable[[Lesson], FastPredictor]:
            def fit(lesson: Lesson) -> FastPredictor:
                *_, found = islice(stages(lesson), stage + 1)  # of other rows there may be fewer stages
                return found

            return fit

        found = [self.judged(exact, one, name, up_to(at)) for at, one in enumerate(stages(lesson))]
        return min(found, key=lambda one: one.loss)

    def linear(self, lesson: Lesson, name: str) -> FittedShape:
        """Return the linear model."""
        d, K = lesson.rows.shape[1], lesson.values.shape[1]

        def fit(lesson: Lesson) -> FastPredictor:
            (found,) = distill(lesson, np.eye(d), Shape(0, 0, d), np.random.default_rng(0), Engine(1), LINEAR)
            return found

        return self.judged(linear_shape(d, K), fit(lesson), name, fit)

    def judged(
        self, shape: Shape, predictor: FastPredictor, name: str, again: Callable[[Lesson], FastPredictor]
    ) -> FittedShape:
        """Return a predictor with its score and its loss on the held-out rows."""
        held = self.held_out[name]
        outputs = np.asarray(predictor(held.rows), np.float64)
        loss = held.left(outputs) / float(held.weights.sum())
        return FittedShape(shape, predictor, name, again, self.score(outputs), loss)


@lru_cache(maxsize=4096)
def shape_nanoseconds(shape: Shape, n_features: int, n_outputs: int) -> float:
    """Return measured nanoseconds a row of a shape; once in a process, so that equal fits choose alike."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((batch_rows(n_features), n_features)).astype(np.float32)
    return 1e9 * seconds_per_row(dummy(shape, n_features, n_outputs, rng), batch, least=True)


@lru_cache(maxsize=256)
def linear_cost(n_features: int, n_outputs: int) -> float:
    """Return measured nanoseconds a row of a linear model, once in a process, as those of a shape are."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((batch_rows(n_features), n_features)).astype(np.float32)
    return linear_nanoseconds(batch, n_outputs, least=True)


def linear_shape(n_features: int, n_outputs: int) -> Shape:
    """Return the shape of one linear model: its outputs are its directions."""
    return Shape(0, 0, min(n_features, n_outputs))


def shapes_within(
    nanoseconds: float, n_rows: int, n_features: int, n_outputs: int, directions: tuple[int, ...]
) -> Iterator[Shape]:
    """Yield for each number of levels and directions the shape with the most units within the budget."""
    for r in directions:
        for levels in LEVELS:
            if levels and n_rows < LEAF_ROWS * 2**levels:
                break
            fitting, beyond = None, 0
            for units in UNITS:
                shape = Shape(levels, units, r)
                if shape_nanoseconds(shape, n_features, n_outputs) <= nanoseconds:
                    fitting, beyond = shape, 0
                else:
                    beyond += 1
                if beyond == MISSES:
                    break
            if fitting is None:
                break
            if fitting.n_units or fitting.n_levels:
                yield fitting


def direction_counts(M: Float64Array) -> tuple[int, ...]:
    """Return numbers of directions to try.

    Of few features all, and those with 80 and 95 % of the trace of M; of more, multiples of eight, which
    products are fastest for, up to those with 99 %.
    """
    d = len(M)
    values = np.maximum(np.linalg.eigvalsh(M)[::-1], 0.0)
    total = values.sum()
    if total <= 0:
        return (1,)
    few, some, most = (int(np.searchsorted(np.cumsum(values) / total, part)) + 1 for part in HELD_PARTS)
    if d <= FEW_FEATURES:
        return tuple(sorted({d, *(count for count in (few, some) if count < 0.75 * d)}))
    counts = [8 * count for count in (1, 2, 3, 4, 6, 8) if 8 * (count - 1) < most]
    return tuple(count for count in counts if few // 2 <= count <= d)


def search_shapes(lessons: dict[str, Lesson], nanoseconds: float, trainer: ShapeTrainer) -> FittedShape:
    """Return the best predictor within ``nanoseconds`` a row.

    lessons : by name, what may be learned from (the teacher's values, the labels); trials use the first.

    The shapes of :func:`shapes_within` are fitted for a few rounds; the ``FINALISTS`` nearest to the first
    lesson on the held-out rows go on with every lesson. The lesson with the best mean score of these (one
    score is of too few errors) and its nearest shape are fitted to the end, beside a linear model of each
    lesson, the first of equals: nothing is cheaper. Raises ``BudgetError`` where the budget is below a
    linear model's cost.
    """
    name, first = next(iter(lessons.items()))
    d, K = first.rows.shape[1], first.values.shape[1]
    least = shape_nanoseconds(linear_shape(d, K), d, K)
    if least > nanoseconds:
        raise BudgetError(
            f"cost={nanoseconds:.3g} ns a row is below a linear model's, which takes {least:.3g} ns here for "
            f"{d} features and {K} output(s). Raise cost to at least {math.ceil(least)} ns.",
            math.ceil(least),
        )
    shapes = shapes_within(nanoseconds, len(first.rows), d, K, direction_counts(trainer.M))

    def judge(lesson: Lesson, shape: Shape) -> tuple[float, FittedShape]:
        found = trainer.fitted(lesson, name, shape, TRIAL)
        return found.loss, found

    found = search(first, lambda trials: worth_trying(trials, shapes), judge)
    trials = [trial.evidence for trial in found.ranked]
    finals = [trainer.linear(lesson, n) for n, lesson in lessons.items()]
    if trials:
        ended = {
            n: [trainer.fitted(lesson, n, best.shape, FINAL) for best in trials[:FINALISTS]]
            for n, lesson in lessons.items()
        }
        chosen = max(ended, key=lambda n: float(np.mean([found.score for found in ended[n]])))
        nearest = min(ended[chosen], key=lambda found: found.loss)
        finals.append(trainer.fitted(lessons[chosen], chosen, nearest.shape))
    return max(finals, key=lambda final: final.score)


def worth_trying(trials: Trials[Shape, FittedShape], shapes: Iterator[Shape]) -> Iterator[list[Shape]]:
    """Yield shapes in turn: of equal directions none deeper than one that is clearly worse."""
    best: dict[int, float] = {}
    ended: set[int] = set()
    for shape in shapes:
        r = shape.n_directions
        if r in ended:
            continue
        yield [shape]
        loss = trials.made[-1].error
        if loss > WORSE * best.get(r, np.inf):
            ended.add(r)
        best[r] = min(loss, best.get(r, np.inf))
