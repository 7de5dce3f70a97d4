"""Rounds that refine a table model's metric: small models of many rows, scored on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gramian._random import as_generator
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.exact.exact import Exact
from gramian.metric.gradients import Differentiable, gradient_rows
from gramian.metric.learning import PROGRESS, LearnedMetric, Round, learn_metric
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product
from gramian.ridge.model import KernelModel
from gramian.search import Split
from gramian.tables.small_problem import Point
from gramian.tables.training.gain import HeldLoss
from gramian.tables.training.model_factory import Method, ModelFactory, of_sizes
from gramian.tables.training.time import TimeEstimate

#: A second model is fitted if its held-out error after the rounds is at most this multiple of the first
#: one's; and the largest share of the remaining time that the rounds may take. Chosen by hand.
NEAR, ROUNDS_TIME = 1.1, 0.3
#: Sizes of the models that the metric rounds fit: root, rank and rows of a block (None: the root alone).
#: The first that memory holds is taken. Chosen by hand.
ROUND_SIZES = ((300, 100, 650), (100, 0, None))
#: Largest share of the rounds' time that a single fit may take; with less time than LEAST_ROUND_ROWS rows
#: need, no rounds are run. Chosen by hand.
ROUND_SHARE, LEAST_ROUND_ROWS = 0.3, 500
#: Bytes of memory reserved for each number of the rows of the rounds. Chosen by hand.
ROUND_BYTES = 64
#: Rows of the fits that measure the pace, and the largest share of the remaining time for a fit after the
#: first one. Chosen by hand.
PACE_ROWS, PACE_SHARE = (500, 2_000), 0.05
#: After the rounds the bandwidth is multiplied by one of these factors while that helps, at most this often.
#: Chosen by hand.
BANDWIDTH_FACTORS, BANDWIDTH_STEPS = (0.5, 2.0), 2
#: Largest number of rows at which gradients are taken. Chosen by hand.
GRADIENT_ROWS = 2_000


def learn_points(
    factories: Sequence[ModelFactory],
    split: Split,
    loss: HeldLoss,
    switched: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    timing: TimeEstimate,
) -> tuple[list[ModelFactory], list[Float64Array]]:
    """Return the factories with learned metrics and bandwidths, the best first, without clearly worse ones.

    Also return the values of the held-out rows by the best small model of each that had any.
    """
    count, short = len(factories), timing.part(ROUNDS_TIME)
    seeds = rng.spawn(count)

    def learned(j: int) -> tuple[Point, tuple[Round, ...], Float64Array | None]:
        # Models this small are learned faster side by side than on several threads each.
        single = factories[j].part(count).with_resources(engine=Engine(1))
        return learn_point(single, split, loss, switched, seeds[j], short)

    found = factories[0].resources.engine.map(learned, range(count))
    errors = [min((each.error for each in rounds), default=math.inf) for _, rounds, _ in found]
    order = np.argsort(errors, kind="stable").tolist()
    near = [j for j in order if errors[j] <= NEAR * min(errors)] or order[:1]
    better = [replace(factories[j], point=found[j][0], rounds=found[j][1]) for j in near]
    return better, [values for *_, values in map(found.__getitem__, near) if values is not None]


def learn_point(
    factory: ModelFactory,
    split: Split,
    loss: HeldLoss,
    switched: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    timing: TimeEstimate,
) -> tuple[Point, tuple[Round, ...], Float64Array | None]:
    """Return the factory's point with the metric and bandwidth learned in some rounds, and these rounds.

    Last come the values of the held-out rows by the best of the small models, None if there was no model.
    """
    held, rest = split.held_out, split.train
    most, d = factory.effort.round_rows[factory.classifies], factory.rows.source.shape[1]
    most = min(most, factory.resources.memory_bytes // (ROUND_BYTES * d))
    drawn = rest if len(rest) <= most else factory.drawn(rest, most, rng)
    sized = for_rounds(factory, drawn)
    if sized is None:
        return factory.point, (), None
    factory, small = sized
    if timing.limited:
        plan = factory.plan(small, drawn)
        expected = 0.0 if plan is None else timing.seconds(plan)
        fits = expected <= ROUND_SHARE * timing.left
        count = len(drawn) if fits else int(len(drawn) * ROUND_SHARE * timing.left / expected)
        if count < LEAST_ROUND_ROWS:
            return factory.point, (), None
        if count < len(drawn):
            drawn = factory.drawn(drawn, count, rng)
            fewer = for_rounds(factory, drawn)
            small = small if fewer is None else fewer[1]
    least, values = math.inf, None

    def error_of(model: KernelModel) -> float:
        nonlocal least, values
        own = factory.values(model, held)
        error = loss(own, held)
        if error < least:
            least, values = error, own
        return error

    rows = factory.rows.source.take(drawn[rng.permutation(len(drawn))])
    form = "diagonal" if factory.point.metric.matrix is None else "full"
    learner = TableLearner(factory, small, drawn, error_of, rows, form, switched, timing)
    settings = LearnedMetric(form, rounds=factory.effort.rounds, powers=(1.0,), bandwidth=False)
    metric, rounds = learn_metric(learner, factory.point.metric, settings)
    start = best = replace(factory.point, metric=metric)
    lowest = min(each.error for each in rounds)
    for factor in BANDWIDTH_FACTORS:
        for step in range(1, BANDWIDTH_STEPS + 1):
            if lowest <= factory.enough or not timing.left:
                break
            other = replace(start, bandwidth=factor**step * start.bandwidth)
            error = error_of(factory.fit(replace(factory, point=other).setup(small), drawn))
            if not (error < lowest and error <= (1.0 - PROGRESS) * lowest):
                break
            best, lowest = other, error
        if best is not start:
            break
    return best, rounds, values


def for_rounds(factory: ModelFactory, drawn: IntArray) -> tuple[ModelFactory, Method] | None:
    """Return the factory and approximation for the metric rounds; None if memory holds no model.

    The precision is chosen once for all rounds: to probe it would take a tenth of each fit.
    """
    exact = Exact(solver="cholesky")
    if factory.direct and factory.plan(exact, drawn) is not None:
        return factory, exact
    for sizes in ROUND_SIZES:
        approximation = of_sizes(sizes, len(drawn))
        plan = factory.plan(approximation, drawn)
        if plan is not None:
            return factory.with_resources(tile_dtype=plan.dtype), approximation
    return None


def time_small_fit(factory: ModelFactory, rest: IntArray, timing: TimeEstimate) -> None:
    """Fit small models to some of the rows and record how long that took."""
    for most in PACE_ROWS:
        rng = as_generator(factory.seed)
        drawn = rest if len(rest) <= most else factory.drawn(rest, most, rng)
        smaller = for_rounds(factory, drawn)
        if smaller is None:
            return
        small, approximation = smaller
        plan = small.plan(approximation, drawn) if most > PACE_ROWS[0] else None
        if plan is not None and timing.seconds(plan) > PACE_SHARE * timing.left:
            return
        timing.note(small.fit(small.setup(approximation), drawn).plan)


@dataclass(frozen=True)
class TableLearner:
    """Input of :func:`gramian.metric.learning.learn_metric`: how to fit, judge and differentiate a model.

    factory, method, numbers : train models, by this method, of the rows with these numbers; judge : from a
    model to its held-out error; rows : these rows in random order; form : form of the metric; switched :
    groups of columns whose values are switched in place of a derivative; timing : remaining time of the
    rounds, updated by their fits.
    """

    factory: ModelFactory
    method: Method
    numbers: IntArray
    judge: Callable[[KernelModel], float]
    rows: Rows
    form: str
    switched: tuple[tuple[int, ...], ...]
    timing: TimeEstimate

    @cached_property
    def covariance(self) -> Float64Array:
        """Covariance of the rows, or its diagonal."""
        rows = np.asarray(self.rows, np.float64)
        if self.form == "diagonal":
            return np.asarray(rows.var(axis=0))
        rows = rows - rows.mean(axis=0)
        return np.asarray(rows.T @ rows / len(rows))

    def fit(self, metric: Metric, before: object) -> _Fitted:
        """Fit a new model under a metric."""
        model = self.factory.fit(self.factory.setup(self.method, metric), self.numbers)
        self.timing.note(model.plan)
        return _Fitted(self, model, self.judge(model))

    def screen(self, metric: Metric, before: object) -> float:
        """Return the held-out error of a model under a metric."""
        return self.judge(self.factory.fit(self.factory.setup(self.method, metric), self.numbers))

    @cached_property
    def gradient_rows(self) -> Float64Array:
        """Rows at which gradients are taken."""
        count = gradient_rows(self.switched, GRADIENT_ROWS)
        return np.asarray(self.rows[:count], np.float64)

    @cached_property
    def levels(self) -> tuple[Float64Array, Float64Array]:
        """Smallest and largest value of each column."""
        rows = np.asarray(self.rows)
        return rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)


@dataclass(frozen=True)
class _Fitted:
    learner: TableLearner
    model: KernelModel
    error: float
    fault: str = ""

    def outer_product(self) -> Float64Array:
        """Return the average gradient outer product; zeros, which end the rounds, if no more are needed."""
        learner = self.learner
        if learner.timing.is_over or self.error <= learner.factory.enough:
            d = learner.gradient_rows.shape[1]
            return np.zeros((d, d) if learner.form == "full" else d)
        model = self.model
        kernel = getattr(model.predictor, "kernel", model.kernel)
        return outer_product(
            Differentiable(model.predictor, kernel, model.input.metric),
            learner.gradient_rows,
            form=learner.form,
            switched=learner.switched,
            levels=learner.levels,
            engine=learner.factory.resources.engine,
            deadline=learner.timing.deadline,
        )
