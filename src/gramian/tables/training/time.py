"""Time of a table fit: remaining time, speed of this machine, and the model sizes it allows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from gramian._random import as_generator
from gramian._typing import IntArray
from gramian.approximations.multiresolution import MultiResolution
from gramian.compression.plan import Plan
from gramian.ridge.streaming import RidgeStream
from gramian.tables.training.model_factory import SHRUNK_SIZES, ModelFactory, of_sizes

#: Largest share of the remaining time for the sums of the last model, and share below which all rows are
#: added in one part; the rest is for penalties and for errors of the estimate. Chosen by hand.
SUMS_SHARE, WHOLE_SHARE = 0.6, 0.25
#: Factors that reduce root and rank to save time, largest first; with fewer rows than the second entry blocks
#: do not help. Chosen by hand.
QUICKER, LEAST_BLOCK_ROWS = (0.7, 0.5, 0.35), 5_000
#: Smallest number of rows to fit, even if no time is left. Chosen by hand.
LEAST_ROWS = 2_000
#: Factor that reduces the number of blocks until memory holds them. Chosen by hand.
FEWER = 0.8


@dataclass(frozen=True)
class TimeEstimate:
    """The remaining time, and estimates of fit times from the fits made so far.

    deadline : when to end, by ``time.perf_counter``; infinite without a limit.
    """

    deadline: float
    _made: list[Plan] = field(default_factory=list)

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.deadline < math.inf

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.deadline - time.perf_counter())

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() > self.deadline

    def part(self, share: float) -> TimeEstimate:
        """Return the same estimate with a share of the remaining time."""
        deadline = time.perf_counter() + share * self.left if self.limited else math.inf
        return TimeEstimate(deadline, self._made)

    def note(self, plan: Plan) -> None:
        """Record the time that a fit took, with the time that its plan predicted."""
        if plan.used_seconds:
            self._made.append(plan)

    def seconds(self, plan: Plan) -> float:
        """Return the seconds that a fit will take: those of its plan, times the ratio of earlier fits.

        The ratio of used to planned time is taken for each phase, from fits of the same method if there are
        any.
        """
        made = [one for one in self._made if one.method == plan.method] or self._made
        phases = {phase for one in made for phase in one.used_seconds}

        def ratio(phases: set[str]) -> float:
            planned = sum(one.seconds.get(phase, 0.0) for one in made for phase in phases)
            took = sum(one.used_seconds.get(phase, 0.0) for one in made for phase in phases)
            return took / planned if planned > 0 else 1.0

        known = {phase: ratio({phase}) for phase in phases}
        whole = ratio(phases) if phases else 1.0
        return sum(planned * known.get(phase, whole) for phase, planned in plan.seconds.items())


def sizes_in_time(
    factory: ModelFactory, rest: IntArray, timing: TimeEstimate
) -> tuple[ModelFactory, MultiResolution, IntArray]:
    """Return the largest approximation that memory and time allow, and the rows to fit it to.

    All rows with smaller ranks if that saves enough time, else as many random rows as the time allows. The
    factory that comes first fixes one precision for all of these sizes, since to probe each would take long.
    """
    n, smallest = factory.rows.n, factory.approximations[-1]
    least = factory.plan(smallest, rest, streamed=True)
    if least is None and len(rest):
        # Each larger size would be planned in vain, which takes long for many columns.
        raise factory.too_small()
    if least is not None:
        factory = factory.with_resources(tile_dtype=least.dtype)
    room, expected = SUMS_SHARE * timing.left, math.inf
    planned = ((one, factory.plan(one, rest, streamed=True)) for one in factory.approximations)
    largest = next((one for one, plan in planned if plan is not None), smallest)
    if largest.n_levels > 1:
        for one in (largest, *(_quicker(factory, rest, factor, n) for factor in QUICKER)):
            plan = None if one is None else factory.plan(one, rest, streamed=True)
            if one is not None and plan is not None:
                expected = timing.seconds(plan)
                if expected <= room:
                    return factory, one, rest
        count = int(len(rest) * room / expected)
        if count >= LEAST_BLOCK_ROWS:
            some = factory.drawn(rest, count, as_generator(factory.seed))
            quicker = _quicker(factory, some, QUICKER[-1], len(some))
            if quicker is not None:
                return factory, quicker, some
    # The smallest sizes, and as many rows as the time allows.
    plan = factory.plan(smallest, rest, streamed=True)
    expected = math.inf if plan is None else timing.seconds(plan)
    count = max(LEAST_ROWS, int(len(rest) * min(1.0, SUMS_SHARE * timing.left / expected)))
    if plan is None or count >= len(rest):
        return factory, smallest, rest
    return factory, smallest, factory.drawn(rest, count, as_generator(factory.seed))


def _quicker(factory: ModelFactory, rest: IntArray, factor: float, n_rows: int) -> MultiResolution | None:
    """Return an approximation of smaller ranks, with as many blocks as memory holds."""
    root, rank, block = SHRUNK_SIZES
    blocks = max(2, n_rows // block)
    while blocks >= 2:
        smaller = of_sizes((int(factor * root), int(factor * rank), max(1, n_rows // blocks)), n_rows)
        if factory.plan(smaller, rest, streamed=True) is not None:
            return smaller
        blocks = int(FEWER * blocks)
    return None


def sum_in_time(
    factory: ModelFactory, approximation: MultiResolution, rows: IntArray, timing: TimeEstimate
) -> tuple[RidgeStream, int]:
    """Return the stream of rows that are added in as many parts as the time requires, and their number.

    A random half is added first; the time that it took decides how many of the others follow.
    """
    empty = RidgeStream.of(factory.setup(approximation))
    plan = factory.plan(approximation, rows, streamed=True)
    whole = plan is None or timing.seconds(plan) <= WHOLE_SHARE * timing.left
    if not timing.limited or whole or len(rows) <= LEAST_ROWS:
        return factory.add(empty, rows), len(rows)
    rng = as_generator(factory.seed)
    first = factory.drawn(rows, len(rows) // 2, rng)
    began = time.perf_counter()
    stream = factory.add(empty, first)
    took = time.perf_counter() - began
    others = rows[~np.isin(rows, first, assume_unique=True, kind="table")]
    # A coarse clock may not have moved; then there is time for all rows.
    affordable = len(first) * SUMS_SHARE * timing.left / took if took > 0 else math.inf
    count = int(min(len(others), affordable))
    if count < len(others) // 8:
        return stream, len(first)
    others = others if count >= len(others) else np.sort(rng.choice(others, count, replace=False))
    return factory.add(stream, others), len(first) + count
