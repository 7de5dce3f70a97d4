"""The best fast predictor within a budget of nanoseconds: shapes timed first, then fitted and validated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gramian._random import children
from gramian._typing import Float64Array
from gramian.engine import Engine
from gramian.exceptions import BudgetError
from gramian.fast.cost import batch_rows, dummy, linear_nanoseconds, seconds_per_row
from gramian.fast.distill import FULL, Effort, Lesson, Shape, distill
from gramian.fast.metric import metric_directions
from gramian.fast.predictor import FastPredictor

#: Units and tree levels that are tried, rows of a leaf at least.
UNITS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
LEVELS = (0, 2, 4, 6, 8)
LEAF_ROWS = 60
#: Numbers of units beyond the budget in a row that end the list: a timing may be disturbed.
MISSES = 2
#: Parts of the metric's trace that directions hold, and features that are few.
HELD_PARTS, FEW_FEATURES = (0.8, 0.95, 0.99), 24
#: How long a trial goes on, and trials that are fitted to the end.
TRIAL, FINALISTS = Effort((20,), 4.0, 60_000, 2e9), 3
#: A linear model is done where it starts.
LINEAR = replace(FULL, rounds=())

#: (values of the predictor on held-out rows) → score, the larger the better.
Score = Callable[[Float64Array], float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted predictor with its shape and its score on held-out rows."""

    shape: Shape
    predictor: FastPredictor
    score: float
    lesson: str


@dataclass(frozen=True, eq=False)
class Trial:
    """What the fits of several shapes share: the metric, the held-out rows, and the random numbers."""

    M: Float64Array
    spread: Float64Array
    held_out: Float64Array
    score: Score
    seed: int
    engine: Engine

    def candidate(
        self,
        lesson: Lesson,
        name: str,
        shape: Shape,
        effort: Effort = FULL,
    ) -> Candidate:
        """Return the stage of a fit that does best on the held-out rows.

        Fewer directions are taken where the rest of the metric is rounding.
        """
        projection = metric_directions(self.M, self.spread, shape.n_directions)
        exact = replace(shape, n_directions=projection.shape[1])
        rng = np.random.default_rng(self.seed)
        stages = distill(lesson, projection, exact, rng, self.engine, effort)
        found = (
            Candidate(exact, one, self.score(np.asarray(one(self.held_out), np.float64)), name)
            for one in stages
        )
        return max(found, key=lambda one: one.score)


@lru_cache(maxsize=4096)
def shape_nanoseconds(shape: Shape, n_features: int, n_outputs: int) -> float:
    """Return measured nanoseconds a row of a shape; once in a process, so that equal fits choose alike."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((batch_rows(n_features), n_features)).astype(np.float32)
    return 1e9 * seconds_per_row(dummy(shape, n_features, n_outputs, rng), batch, least=True)


@lru_cache(maxsize=256)
def linear_cost(n_features: int, n_outputs: int) -> float:
    """Return measured nanoseconds a row of a linear model, once in a process."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((batch_rows(n_features), n_features)).astype(np.float32)
    return linear_nanoseconds(batch, n_outputs)


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


def search(
    lessons: dict[str, Lesson],
    M: Float64Array,
    spread: Float64Array,
    nanoseconds: float,
    held_out: Float64Array,
    score: Score,
    rng: np.random.Generator,
    engine: Engine,
) -> Candidate:
    """Return the best predictor within ``nanoseconds`` a row.

    lessons : by name, what may be learned from (the teacher's values, the labels); trials use the first.
    M, spread : gradient outer product and feature scales (:mod:`.metric`).

    Every shape of :func:`shapes_within` is fitted for a few rounds and scored on the held-out rows; the
    ``FINALISTS`` best go on to the end with every lesson, and a linear model stands beside them. Raises
    ``BudgetError`` where the budget is below a linear model's cost.
    """
    first = next(iter(lessons.values()))
    d, K = first.rows.shape[1], first.values.shape[1]
    least = shape_nanoseconds(linear_shape(d, K), d, K)
    if least > nanoseconds:
        raise BudgetError(
            f"cost={nanoseconds:.3g} ns a row is below a linear model's, which takes {least:.3g} ns here for "
            f"{d} features and {K} output(s). Raise cost to at least {least:.0f} ns.",
            int(np.ceil(least)),
        )
    (stream,) = children(rng, 1)
    seed = int(stream.integers(2**32))

    trial = Trial(M, spread, held_out, score, seed, engine)
    name = next(iter(lessons))
    trials = [
        trial.candidate(first, name, shape, TRIAL)
        for shape in shapes_within(nanoseconds, len(first.rows), d, K, direction_counts(M))
    ]
    trials.sort(key=lambda found: -found.score)
    finals = [linear_candidate(lesson, n, held_out, score) for n, lesson in lessons.items()]
    for best in trials[:FINALISTS]:
        finals += [trial.candidate(lessons[n], n, best.shape) for n in lessons]
    return max(finals, key=lambda final: final.score)


def linear_candidate(lesson: Lesson, name: str, held_out: Float64Array, score: Score) -> Candidate:
    """Return the linear model, the first of equals: nothing is cheaper."""
    d, K = lesson.rows.shape[1], lesson.values.shape[1]
    (found,) = distill(lesson, np.eye(d), Shape(0, 0, d), np.random.default_rng(0), Engine(1), LINEAR)
    return Candidate(linear_shape(d, K), found, score(np.asarray(found(held_out), np.float64)), name)
