"""The library's search: candidates in their order, the best of them, and each limit."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from gramian.engine import Engine
from gramian.search import Limits, Trial, search


def distance(target, x):
    return abs(x - target), f"x={x}"


def tried(found):
    return [trial.candidate for trial in found.made]


@pytest.mark.parametrize("engine", [None, Engine(1), Engine(3)])
def test_trials_keep_the_order_of_the_candidates_and_the_first_of_equals_is_best(engine):
    found = search(2.0, [[5.0, 1.0, 3.0], [2.5, 1.5]], distance, engine=engine)
    assert tried(found) == [5.0, 1.0, 3.0, 2.5, 1.5]
    assert found.best == Trial(2.5, 0.5, "x=2.5")
    assert tried(search(2.0, [[5.0, 1.0, 3.0]], distance, engine=engine)) == [5.0, 1.0, 3.0]
    assert [trial.candidate for trial in found.ranked] == [2.5, 1.5, 1.0, 3.0, 5.0]
    assert not found.out_of_time


def test_candidates_may_follow_from_what_was_found():
    def descent(found):
        yield [8.0]
        while found.best is found.made[-1]:
            yield [found.best.candidate / 2.0]

    found = search(1.1, descent, distance)
    assert tried(found) == [8.0, 4.0, 2.0, 1.0, 0.5]
    assert found.best.candidate == 1.0


def test_failures_are_never_the_best():
    def judge(_, x):
        return (math.nan if x < 0 else math.inf if x == 0 else x), None

    assert search(None, [[-1.0, 0.0]], judge).best is None
    found = search(None, [[-1.0, 0.0, 4.0]], judge)
    assert found.best.candidate == 4.0
    assert [trial.error for trial in found.made] == [math.inf, math.inf, 4.0]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(most=2), [9.0, 8.0]),
        (Limits(enough=6.0), [9.0, 8.0, 4.0]),
        (Limits(patience=1), [9.0, 8.0, 4.0, 6.0]),
        (Limits(patience=2), [9.0, 8.0, 4.0, 6.0, 5.0]),
        (Limits(patience=1, progress=0.2), [9.0, 8.0]),
        (Limits(deadline=-math.inf), []),
        (Limits(deadline=-math.inf, at_least=1), [9.0]),
    ],
)
@pytest.mark.parametrize("batches", [1, 6])
def test_each_limit_ends_it(limits, expected, batches):
    candidates = [part.tolist() for part in np.array_split([9.0, 8.0, 4.0, 6.0, 5.0, 1.0], batches)]
    found = search(0.0, candidates, distance, limits)
    assert tried(found) == expected
    assert found.out_of_time == (limits.deadline < 0)


def test_the_time_is_looked_at_before_each_candidate(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow(_, x):
        now[0] += 1.0
        return x, None

    found = search(None, ([x] for x in range(9, 0, -1)), slow, Limits(deadline=2.5))
    assert tried(found) == [9, 8, 7]
    assert found.out_of_time


def test_candidates_have_to_beat_the_start():
    start = Trial("earlier", 0.5, None)
    found = search(2.0, [[1.0, 2.4]], distance, Limits(progress=0.5), start=start)
    assert found.best is start
    assert search(2.0, [[1.0, 2.2]], distance, Limits(progress=0.5), start=start).best.candidate == 2.2
    assert tried(search(2.0, [[1.0]], distance, Limits(enough=0.6), start=start)) == []


def test_drained_trials_are_forgotten_but_for_the_best():
    batches = []

    def candidates(found):
        yield [1.0, 4.0]
        batches.append([trial.candidate for trial in found.drain()])
        yield [5.0]
        batches.append([trial.candidate for trial in found.drain()])

    found = search(2.0, candidates, distance)
    assert batches == [[1.0, 4.0], [5.0]]
    assert found.made == []
    assert found.best.candidate == 1.0
