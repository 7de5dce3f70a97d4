"""Search for the best fast predictor within a cost limit: time the shapes, then fit and validate them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from gramian._typing import Float64Array
from gramian.compression.sums import Progress
from gramian.engine import Engine
from gramian.exceptions import BudgetError
from gramian.fast.cost import batch_rows, dummy, linear_nanoseconds, seconds_per_row
from gramian.fast.learning.distill import FULL, Effort, Shape, TrainingSet, distill
from gramian.fast.learning.metric import metric_directions
from gramian.fast.serving.predictor import FastPredictor
from gramian.search import Trials, search

#: Numbers of units and of tree levels that are tried, and the fewest rows a leaf may have. Chosen by hand.
UNITS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
LEVELS = (0, 2, 4, 6, 8)
LEAF_ROWS = 60
#: Stop trying more units after this many consecutive misses of the budget. More than one, since a single
#: timing may be disturbed.
MISSES = 2
#: Fractions of the metric's trace that the tried numbers of directions keep, and the number of features up to
#: which keeping all of them is tried too. Chosen by hand.
HELD_PARTS, FEW_FEATURES = (0.8, 0.95, 0.99), 24
#: Effort of a trial, the number of best trials that are trained further, and their effort. Chosen by hand.
TRIAL, FINALISTS, FINAL = Effort((20,), 4.0, 60_000, 2e9), 3, Effort((60,), 8.0, 60_000, 4e9)
#: If the loss exceeds that of a shallower tree by this factor, deeper trees are not tried. Chosen by hand.
WORSE = 1.25
#: Effort for a linear model, whose starting point is already the solution.
LINEAR = replace(FULL, rounds=())

#: Function from a predictor's values on the held-out rows to a score; larger is better.
Score = Callable[[Float64Array], float]


@dataclass(frozen=True, eq=False)
class FittedShape:
    """A fitted predictor with its shape and its results on the held-out rows.

    lesson : name of the training set that it was fitted to, "teacher" or "labels".
    again : function that fits the same shape to other rows, up to the same stage.
    score : score against the labels of the held-out rows.
    loss : mean squared error against the lesson's values on the held-out rows.
    """

    shape: Shape
    predictor: FastPredictor
    lesson: str
    again: Callable[[TrainingSet], FastPredictor]
    score: float
    loss: float


@dataclass(frozen=True, eq=False)
class ShapeTrainer:
    """Trainer of fast predictors of any shape, with the metric, held-out rows and seed that all fits share.

    M : metric, the teacher's average gradient outer product (d, d); spread : deviation of each feature.
    held_out : held-out rows with their values, by the name of the lesson.
    """

    M: Float64Array
    spread: Float64Array
    held_out: dict[str, TrainingSet]
    score: Score
    seed: int
    engine: Engine
    progress: Progress | None = None  #: called with 1 for each predictor that is judged

    def fitted(
        self,
        lesson: TrainingSet,
        name: str,
        shape: Shape,
        effort: Effort = FULL,
    ) -> FittedShape:
        """Fit a shape to a lesson and return the stage with the smallest loss on the held-out rows.

        Within one lesson the loss compares stages and shapes, since it needs far fewer rows than an error
        count does; only between lessons must the score decide. If the metric has fewer directions above
        rounding than the shape asks for, fewer are used.
        """
        projection = metric_directions(self.M, self.spread, shape.n_directions)
        exact = replace(shape, n_directions=projection.shape[1])

        def stages(lesson: TrainingSet) -> Iterator[FastPredictor]:
            return distill(lesson, projection, exact, np.random.default_rng(self.seed), self.engine, effort)

        def up_to(stage: int) -> Callable[[TrainingSet], FastPredictor]:
            def fit(lesson: TrainingSet) -> FastPredictor:
                *_, found = islice(stages(lesson), stage + 1)  # other rows may give fewer stages
                return found

            return fit

        found = [self.judged(exact, one, name, up_to(at)) for at, one in enumerate(stages(lesson))]
        return min(found, key=lambda one: one.loss)

    def linear(self, lesson: TrainingSet, name: str) -> FittedShape:
        """Fit a linear model to a lesson."""
        d, K = lesson.rows.shape[1], lesson.values.shape[1]

        def fit(lesson: TrainingSet) -> FastPredictor:
            (found,) = distill(lesson, np.eye(d), Shape(0, 0, d), np.random.default_rng(0), Engine(1), LINEAR)
            return found

        return self.judged(linear_shape(d, K), fit(lesson), name, fit)

    def judged(
        self, shape: Shape, predictor: FastPredictor, name: str, again: Callable[[TrainingSet], FastPredictor]
    ) -> FittedShape:
        """Return a predictor with its score and its loss on the held-out rows."""
        if self.progress is not None:
            self.progress(1)
        held = self.held_out[name]
        outputs = np.asarray(predictor(held.rows), np.float64)
        loss = held.left(outputs) / float(held.weights.sum())
        return FittedShape(shape, predictor, name, again, self.score(outputs), loss)


@lru_cache(maxsize=4096)
def shape_nanoseconds(shape: Shape, n_features: int, n_outputs: int) -> float:
    """Return the measured nanoseconds a row of a shape; cached, so that equal fits choose the same shape."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((batch_rows(n_features), n_features)).astype(np.float32)
    return 1e9 * seconds_per_row(dummy(shape, n_features, n_outputs, rng), batch, least=True)


@lru_cache(maxsize=256)
def linear_cost(n_features: int, n_outputs: int) -> float:
    """Return the measured nanoseconds a row of a linear model; cached for the process."""
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

    With few features: all of them, and as many as hold 80 % and 95 % of the trace of M. With more features:
    multiples of eight, for which matrix products are fastest, up to as many as hold 99 % of the trace.
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


def search_shapes(lessons: dict[str, TrainingSet], nanoseconds: float, trainer: ShapeTrainer) -> FittedShape:
    """Return the best predictor within ``nanoseconds`` a row.

    lessons : training sets by name (the teacher's values, the labels); trials use the first one.

    First, every shape of :func:`shapes_within` is fitted for a few rounds. The ``FINALISTS`` shapes with the
    smallest held-out loss are then trained further on each lesson. The lesson with the best mean score wins
    (a mean, because one score rests on too few errors), and its shape with the smallest loss is fitted to the
    end. The result competes with a linear model of each lesson, which wins a tie since nothing is cheaper.
    Raises ``BudgetError`` if the budget is below a linear model's cost.
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

    def judge(lesson: TrainingSet, shape: Shape) -> tuple[float, FittedShape]:
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
    """Yield shapes one by one; once a deeper tree is clearly worse, skip the still deeper ones."""
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
