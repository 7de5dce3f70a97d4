"""The library's search: try candidates in turn or side by side, keep the best, stop at a limit.

A search is made of three parts that know nothing of each other. The *candidates* may depend on what was found
so far: a grid, a descent along a bandwidth, the survivors of an earlier round. The *judge* returns the error
of a candidate on a problem, usually a model's error on held-out rows. The *limits* say when to stop.
Successive halving is one search a round, each on more rows and for fewer candidates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gramian._typing import IntArray
from gramian.engine import Engine

Problem = TypeVar("Problem")
Candidate = TypeVar("Candidate")
Evidence = TypeVar("Evidence")


@dataclass(frozen=True)
class Split:
    """Numbers of the rows to train on and of the rows held out: the problem of many searches."""

    train: IntArray
    held_out: IntArray


@dataclass(frozen=True)
class Limits:
    """When a search stops.

    deadline : time, by ``time.perf_counter``, after which no candidate is begun.
    at_least : candidates that are tried even if the time is over.
    most : number of candidates.
    enough : error at which nothing is left to improve.
    patience : candidates in a row without progress; None for any number.
    progress : fraction of the best error by which a candidate must lower it to count as better.
    """

    deadline: float = math.inf
    at_least: int = 0
    most: float = math.inf
    enough: float = -math.inf
    patience: int | None = None
    progress: float = 0.0


@dataclass(frozen=True)
class Trial(Generic[Candidate, Evidence]):
    """A candidate, its error (infinite if it failed), and what the judge adds to it."""

    candidate: Candidate
    error: float
    evidence: Evidence


@dataclass
class Trials(Generic[Candidate, Evidence]):
    """Trials of a search in their order, and the best of them: None while no error is finite."""

    best: Trial[Candidate, Evidence] | None = None
    made: list[Trial[Candidate, Evidence]] = field(default_factory=list)
    out_of_time: bool = False  #: whether the time ended the search

    @property
    def ranked(self) -> list[Trial[Candidate, Evidence]]:
        """The trials by ascending error, equal ones in their order."""
        return sorted(self.made, key=lambda trial: trial.error)

    def drain(self) -> list[Trial[Candidate, Evidence]]:
        """Return the trials and forget all but the best: for candidates or evidence that fill memory."""
        drained, self.made = self.made, []
        return drained


#: From a problem and a candidate to its error and evidence.
Judge = Callable[[Problem, Candidate], tuple[float, Evidence]]
#: Batches of candidates, which may follow from the trials made so far. Those of one batch do not depend on
#: each other.
Candidates = (
    Iterable[Sequence[Candidate]] | Callable[[Trials[Candidate, Evidence]], Iterable[Sequence[Candidate]]]
)


def search(
    problem: Problem,
    candidates: Candidates[Candidate, Evidence],
    judge: Judge[Problem, Candidate, Evidence],
    limits: Limits = Limits(),
    *,
    engine: Engine | None = None,
    start: Trial[Candidate, Evidence] | None = None,
) -> Trials[Candidate, Evidence]:
    """Judge candidates on a problem until a limit is reached, and return the trials.

    Parameters
    ----------
    problem : anything that the judge understands.
    candidates : batches, or a function from the trials so far to batches. It is asked for a batch only when
        all earlier ones have been judged. A grid is one batch.
    judge : called as ``judge(problem, candidate)``; returns the error, lower is better, and any evidence.
        NaN counts as a failure.
    limits : when to stop. A candidate that has begun is finished.
    engine : judges the candidates of a batch side by side; None judges them one after the other, each free to
        use threads of its own. Either way trials are taken in the order of the candidates.
    start : an earlier trial that candidates have to beat.

    >>> trials = search(2.0, [[0.0, 1.0, 3.0]], lambda target, x: (abs(x - target), None))
    >>> trials.best.candidate, len(trials.made)
    (1.0, 3)
    """
    trials: Trials[Candidate, Evidence] = Trials(start)
    count, idle = 0, 0
    if _is_enough(trials, limits):
        return trials
    for batch in candidates(trials) if callable(candidates) else candidates:
        with _judge_batch(problem, batch, judge, limits, engine, count) as judgements:
            for judged, candidate in zip(judgements, batch):
                if judged is None:
                    trials.out_of_time = True
                    return trials
                error, evidence = judged
                trial = Trial(candidate, math.inf if math.isnan(error) else error, evidence)
                trials.made.append(trial)
                least = math.inf if trials.best is None else trials.best.error
                better = trial.error < least and trial.error <= (1.0 - limits.progress) * least
                count, idle = count + 1, 0 if better else idle + 1
                if better:
                    trials.best = trial
                if count >= limits.most or idle == limits.patience or _is_enough(trials, limits):
                    return trials
    return trials


def _is_enough(trials: Trials[Candidate, Evidence], limits: Limits) -> bool:
    return trials.best is not None and trials.best.error <= limits.enough


def _judge_batch(
    problem: Problem,
    batch: Sequence[Candidate],
    judge: Judge[Problem, Candidate, Evidence],
    limits: Limits,
    engine: Engine | None,
    count: int,
) -> AbstractContextManager[Iterator[tuple[float, Evidence] | None]]:
    """Give an iterator of the judgements of a batch; None for candidates that the time does not reach."""

    def one(place: int) -> tuple[float, Evidence] | None:
        if count + place >= limits.at_least and time.perf_counter() >= limits.deadline:
            return None
        return judge(problem, batch[place])

    places = range(len(batch))
    return nullcontext(map(one, places)) if engine is None else engine.results(one, places)
