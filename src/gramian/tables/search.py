r"""Search for a table's scaling, kernel, metric, bandwidth and penalty by successive halving.

Settings are compared by exact kernel ridge on nested random rows, few at first, on the same rows that none of
them saw. In each round a setting climbs in bandwidth and penalty, takes the average gradient outer
product of its best fit, and tries the metrics that follow from it; the better part of the settings goes on to
more rows. Source: Jamieson and Talwalkar 2016 (successive halving); Radhakrishnan et al. 2024 (the metric).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

import numpy as np

from gramian.engine import Engine
from gramian.metric.metric import Metric
from gramian.metric.rule import metric_of
from gramian.tables.small_problem import (
    POWERS,
    Judged,
    Point,
    SmallProblem,
    Try,
    Workspace,
    judge_bytes,
    most_fit,
)

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Rows that the two rounds fit.
ROUND_ROWS = (400, 1_000)
#: Rows that judge: a third of all, and at most so many; the same in each round.
JUDGES_PART, MOST_JUDGES = 3, 1_500
#: Settings of the best one's norm that go on to the last round, and by how much their error may exceed the
#: least; of the other norm one with the best one's scaling and target, which may exceed it by more.
LAST_SETTINGS, LAST_GAP, OTHER_GAP = 2, 1.15, 1.5
#: Scalings and kernels with which further maps of the target are tried.
OTHER_TARGETS = 2
#: Threads whose Gram matrices the memory has to hold.
NOMINAL_THREADS = 2
#: Tasks of a thread from which on points under one metric are one task.
TASKS_A_THREAD = 2
#: Settings whose first error exceeds the least by more get no metric.
FIRST_GAP = 1.2
#: First bandwidths, in units of the mean distance of two standardised rows, and first penalties.
BANDWIDTHS = {
    "laplacian": (0.1, 0.4, 1.5, 6.0),
    "exponential": (0.3, 1.0, 4.0, 16.0),
    "gaussian": (0.3, 0.7, 1.5, 4.0),
}
ALPHAS = (1e-2, 1e-1, 1.0)
#: Factors of the next ones, and bounds of the penalty.
NEAR_BANDWIDTHS, NEAR_ALPHAS = (0.5, 2.0), (1.0 / 3.0, 3.0)
ALPHA_RANGE = (1e-6, 1e3)
#: Powers of the outer product that a metric is made of.
METRIC_POWERS = (1.0, 0.5)
#: Features beyond which matrices (d, d) are not tried.
MOST_FULL = 500


@dataclass(frozen=True)
class Setting:
    """What is chosen by comparing all: the scaling and the target's map by name, and the kernel."""

    scaling: str
    target: str
    kernel: str


@dataclass(frozen=True)
class Trial:
    """How far a setting came: its held-out error in its last round.

    ``metric`` is the form of the best metric (None: distances as they were), ``kept`` whether it was chosen.
    """

    setting: Setting
    n_rows: int
    error: float
    bandwidth: float
    alpha: float
    metric: str | None
    n_judged: int
    kept: bool = False


@dataclass(frozen=True)
class Found:
    """The best setting with its numbers.

    ``best`` is None where time was over before one model was judged; ``other`` is the best of the other norm
    with the same scaling and target on the same rows, where it came near. ``n_judged`` counts
    factorisations, ``finished`` says whether all rounds were made.
    """

    setting: Setting
    best: Judged | None
    trials: tuple[Trial, ...]
    n_rows: int
    n_judged: int
    seconds: float
    finished: bool
    other: Judged | None = None


@dataclass(frozen=True)
class Limits:
    """What a search may take: threads, bytes, and the time at which it has to end (infinite: none)."""

    engine: Engine
    memory_bytes: int
    until: float = math.inf


def n_judges(n_rows: int) -> int:
    """Return how many of the rows judge."""
    return min(MOST_JUDGES, n_rows // JUDGES_PART)


def round_sizes(n_rows: int, limits: Limits) -> tuple[int, ...]:
    """Return the rows that each round fits, ascending; fewer where the memory does not hold Gram matrices.

    >>> round_sizes(20_000, Limits(Engine(2), 10**9))
    (400, 1000)
    """
    # Not by the number of threads, which must not change the result.
    judges = n_judges(n_rows)
    most = min(most_fit(limits.memory_bytes // NOMINAL_THREADS, judges), n_rows - judges)
    return tuple(sorted({max(1, min(size, most)) for size in ROUND_ROWS}))


def search(
    problem: Callable[[Setting, int], SmallProblem],
    settings: Sequence[Setting],
    sizes: Sequence[int],
    limits: Limits,
    *,
    forms: Sequence[str] = ("diagonal", "full"),
) -> Found:
    """Return the best of some settings.

    Parameters
    ----------
    problem : from a setting and a number of rows to fit to the exact problem; rows are nested.
    settings : to compare, at least one.
    sizes : rows that each round fits, ascending.
    limits : of time and memory. The time is looked at before every factor, so that one may run over.
    forms : of metrics to try: "diagonal", "full" (with Euclidean kernels alone), or none.

    Returns
    -------
    Found
        Deterministic unless the time ends it.

    Time O(m³) a judgement of m rows, some twenty a setting and round; memory :func:`judge_bytes` a thread.
    """
    run = _Run(problem, limits, tuple(forms))
    alive = [_State(setting) for setting in settings if setting.target == settings[0].target]
    everyone = list(alive)
    for number, size in enumerate(sizes):
        run.round(alive, size, first=number == 0)
        alive.sort(key=lambda state: state.error)
        if number == 0:
            # Another map of the target is tried where the first one did best.
            places = [(state.setting.scaling, state.setting.kernel) for state in alive[:OTHER_TARGETS]]
            others = [
                _State(setting)
                for setting in settings
                if setting.target != settings[0].target and (setting.scaling, setting.kernel) in places
            ]
            if others:
                run.round(others, size, first=True)
            everyone += others
            alive = sorted([*alive, *others], key=lambda state: state.error)
        if run.over:
            break
        if number < len(sizes) - 1:
            alive = _going_on(alive)
    # Errors of few rows and of many do not compare: those that came furthest do.
    ranked = sorted(everyone, key=lambda state: (-state.n_rows, state.error))
    best = ranked[0]
    judged = best.best if best.best is not None and np.isfinite(best.best.error) else None
    near = [state for state in _others(best, ranked) if state.n_rows == best.n_rows and judged is not None]
    other = near[0].best if near else None
    trials = tuple(replace(state.trial(), kept=state is best) for state in ranked if state.best is not None)
    return Found(
        best.setting,
        judged,
        trials,
        best.n_rows,
        sum(state.n_judged for state in everyone),
        time.perf_counter() - run.began,
        not run.over,
        other,
    )


@dataclass
class _State:
    """A setting on its way."""

    setting: Setting
    plain: Point | None = None  #: the best without a metric
    best: Judged | None = None  #: of the present rows
    n_rows: int = 0
    n_judged: int = 0

    @property
    def error(self) -> float:
        return math.inf if self.best is None else self.best.error

    @property
    def point(self) -> Point:
        assert self.best is not None
        return self.best.point

    def take(self, found: Iterable[Judged]) -> bool:
        """Keep the best; return whether it is a new one."""
        better = False
        for judged in found:
            self.n_judged += 1
            if np.isfinite(judged.error) and judged.error < self.error:
                self.best, better = judged, True
        return better

    def trial(self) -> Trial:
        point = self.point
        plain = self.plain is not None and point.metric == self.plain.metric
        form = None if plain else "diagonal" if point.metric.matrix is None else "full"
        return Trial(self.setting, self.n_rows, self.error, point.bandwidth, point.alpha, form, self.n_judged)


@dataclass
class _Run:
    """One search: judgements on threads until the time is over."""

    problem: Callable[[Setting, int], SmallProblem]
    limits: Limits
    forms: tuple[str, ...]
    began: float = field(default_factory=time.perf_counter)
    over: bool = False
    _bytes: int = 0  #: of a judgement of the present round
    _spaces: list[Workspace] = field(default_factory=list)  #: that no thread has

    def round(self, alive: list[_State], size: int, *, first: bool) -> None:
        """Let each setting do its best on ``size`` rows."""
        problems = {id(state): self.problem(state.setting, size) for state in alive}
        self._bytes = max(judge_bytes(each.n_fit, len(each.rows) - each.n_fit) for each in problems.values())
        starts: list[tuple[_State, Point, Sequence[float]]] = []
        for state in alive:
            if first:
                starts += [(state, point, ALPHAS) for point in _first_points(state, problems[id(state)])]
                continue
            points = [state.point] + ([] if state.plain is None else [state.plain])
            state.best = None  # of fewer rows
            starts += [(state, point, (point.alpha,)) for point in dict.fromkeys(points)]
        self._judge(starts, problems, size)
        least = min(state.error for state in alive)
        moving = [state for state in alive if state.error <= FIRST_GAP * least and state.best is not None]
        self._climb(moving, problems, size)
        if first:
            for state in moving:
                state.plain = state.point
        moving = self._metrics(moving, problems, size, wide=first)
        self._climb(moving, problems, size)

    def _metrics(
        self, states: list[_State], problems: dict[int, SmallProblem], size: int, *, wide: bool
    ) -> list[_State]:
        """Try the metrics of the outer products of the best fits; return the settings that gained."""
        todo = [state for state in states if _forms(self.forms, state.setting, problems[id(state)])]

        def metrics(state: _State) -> list[Metric]:
            forms = _forms(self.forms, state.setting, problems[id(state)])
            return _metrics_of(problems[id(state)], state, forms, self.limits.until)

        tasks: list[tuple[_State, Point, Sequence[float]]] = []
        for state, made in zip(todo, self._timed(metrics, todo)):
            for metric in made or ():
                at = replace(state.point, metric=metric)
                near = (1.0, *NEAR_BANDWIDTHS) if wide else (1.0,)
                tasks += [(state, replace(at, bandwidth=f * at.bandwidth), (at.alpha,)) for f in near]
        gained = self._judge(tasks, problems, size)
        return [state for state in todo if id(state) in gained]

    def _climb(self, states: list[_State], problems: dict[int, SmallProblem], size: int) -> None:
        """Try the neighbours of each best point."""
        tasks: list[tuple[_State, Point, Sequence[float]]] = []
        for state in states:
            if state.best is None:
                continue
            point = state.point
            tasks += [
                (state, replace(point, bandwidth=f * point.bandwidth), (point.alpha,))
                for f in NEAR_BANDWIDTHS
            ]
            alphas = [float(np.clip(f * point.alpha, *ALPHA_RANGE)) for f in NEAR_ALPHAS]
            tasks.append((state, point, alphas))
        self._judge(tasks, problems, size)

    def _judge(
        self,
        tasks: list[tuple[_State, Point, Sequence[float]]],
        problems: dict[int, SmallProblem],
        size: int,
    ) -> set[int]:
        """Judge points for some penalties each; return the settings that have a new best."""

        spaces = self._spaces

        def judge(task: tuple[_State, list[Try]]) -> list[Judged]:
            state, tries = task
            space = spaces.pop() if spaces else Workspace()  # as many as there are threads
            try:
                found = problems[id(state)].judge(tries, space, self.limits.until)
            finally:
                spaces.append(space)
            if len(found) < sum(len(alphas) for _, alphas in tries):
                self.over = True
            return found

        alone = [(state, [(point, alphas)]) for state, point, alphas in tasks]
        together: list[tuple[_State, list[Try]]] = []
        for _, same in groupby(alone, lambda task: (id(task[0]), id(task[1][0][0].metric))):
            those = list(same)
            together.append((those[0][0], [each for _, tries in those for each in tries]))
        many = len(together) >= TASKS_A_THREAD * self.limits.engine.n_threads
        work = together if many else alone
        gained = set()
        for (state, _), found in zip(work, self._timed(judge, work)):
            if found is not None:
                state.n_rows = size
                if state.take(found):
                    gained.add(id(state))
        return gained

    def _timed(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result | None]:
        """Yield the results of tasks, None of those that the time did not reach.

        On as many threads as the memory holds judgements for.
        """

        def one(task: Task) -> Result | None:
            if time.perf_counter() >= self.limits.until:
                self.over = True
                return None
            return work(task)

        held = self.limits.memory_bytes // max(1, self._bytes)
        yield from Engine(max(1, min(self.limits.engine.n_threads, held))).map(one, tasks)


def _going_on(ranked: list[_State]) -> list[_State]:
    """Return the settings of the last round: the best, those near it, and one of the other norm.

    A Laplacian gains more by rows than kernels of a Euclidean distance do, and the mean of both is often
    better than either, so that neither is dropped for what few rows say.
    """
    best = ranked[0]
    kept = [
        state for state in ranked if _norm(state) == _norm(best) and state.error <= LAST_GAP * best.error
    ][:LAST_SETTINGS] or [best]
    return kept + _others(best, ranked)[:1]


def _others(best: _State, ranked: list[_State]) -> list[_State]:
    """Return the settings of the other norm that share the best one's scaling and target, ranked."""
    own = (best.setting.scaling, best.setting.target)
    return [
        state
        for state in ranked
        if _norm(state) != _norm(best)
        and (state.setting.scaling, state.setting.target) == own
        and state.error <= OTHER_GAP * best.error
    ]


def _norm(state: _State) -> float:
    return POWERS[state.setting.kernel][0]


def _first_points(state: _State, problem: SmallProblem) -> list[Point]:
    """Return the points that a setting begins with, rows as they are."""
    d = problem.rows.shape[1]
    covariance = problem.rows.var(axis=0)
    metric = Metric(scales=np.ones(d), spreads=np.sqrt(covariance))
    p, _ = POWERS[state.setting.kernel]
    # Two rows of deviation σ are √2 σ apart in the mean square, 2σ/√π in the mean.
    total = float(
        np.sqrt(2.0 * covariance.sum()) if p == 2.0 else 2.0 / np.sqrt(np.pi) * np.sqrt(covariance).sum()
    )
    unit = total or 1.0
    return [Point(state.setting.kernel, metric, f * unit, 1.0) for f in BANDWIDTHS[state.setting.kernel]]


def _forms(forms: tuple[str, ...], setting: Setting, problem: SmallProblem) -> tuple[str, ...]:
    """Return the forms of metrics for a setting: a matrix mixes features, which a Laplacian keeps apart."""
    d = problem.rows.shape[1]
    euclidean = POWERS[setting.kernel][0] == 2.0
    return tuple(form for form in forms if d > 1 and (form != "full" or (euclidean and d <= MOST_FULL)))


def _metrics_of(problem: SmallProblem, state: _State, forms: tuple[str, ...], until: float) -> list[Metric]:
    """Return the metrics of each form and power that the best fit's gradients give."""
    assert state.best is not None
    M = problem.outer_product(state.best, "full" if "full" in forms else "diagonal", until)
    if not np.isfinite(M).all() or not M.any():
        return []  # a constant fit says nothing of features
    found = []
    for form in forms:
        own = M if form == "full" or M.ndim == 1 else np.diagonal(M).copy()
        covariance = problem.covariance if form == "full" else problem.rows.var(axis=0)
        found += [metric_of(own, power, covariance) for power in METRIC_POWERS]
    return found
