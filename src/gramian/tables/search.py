r"""Search for a table's scaling, kernel, metric, bandwidth and penalty by successive halving.

Settings are compared by exact kernel ridge on nested random rows, few at first, and scored on held-out rows
that none of the fits saw. In each round a setting improves its bandwidth and penalty, takes the average
gradient outer product of its best fit, and tries the metrics that follow from it. The better settings go on
to more rows. Source: Jamieson and Talwalkar 2016 (successive halving); Radhakrishnan et al. 2024 (the
metric).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from tqdm.std import tqdm

from gramian.engine import Engine
from gramian.metric.metric import Metric, metric_of
from gramian.search import Limits, Trials, search
from gramian.tables.effort import TableEffort
from gramian.tables.small_problem import (
    ALPHAS,
    ExactFit,
    PenaltyGrid,
    Point,
    Setting,
    SmallProblem,
    Workspace,
    first_points,
    fit_bytes,
    most_fit,
)

#: The held-out rows, the same in each round: all rows divided by the first number, and at most the second.
#: Chosen by hand.
HELD_OUT_PART, MOST_HELD_OUT = 3, 1_500
#: The last round keeps at most LAST_SETTINGS settings with the best one's norm, whose error is at most
#: LAST_GAP times the smallest; and one setting of the other norm, with the best one's scaling and target,
#: whose error is at most OTHER_GAP times the smallest. Chosen by hand.
LAST_SETTINGS, LAST_GAP, OTHER_GAP = 2, 1.15, 1.5
#: Number of best pairs of scaling and kernel with which other target transformations are tried.
#: Chosen by hand.
OTHER_TARGETS = 2
#: Least share by which level means must lower the error to be taken. Chosen by hand.
LEVELS_GAIN = 0.02
#: Number of threads whose Gram matrices must fit into the memory at a time. Chosen by hand.
NOMINAL_THREADS = 2
#: All points under one metric form one task if that leaves at least this many tasks per thread.
#: Chosen by hand.
TASKS_A_THREAD = 2
#: A setting learns a metric only if its first error is at most this multiple of the smallest one.
#: Chosen by hand.
FIRST_GAP = 1.2
#: Factors from the best bandwidth and penalty to their neighbours, and bounds of the penalty. Chosen by hand.
NEAR_BANDWIDTHS, NEAR_ALPHAS = (0.5, 2.0), (1.0 / 3.0, 3.0)
ALPHA_RANGE = (1e-6, 1e3)
#: Powers of the gradient outer product that are tried as a metric. Chosen by hand.
METRIC_POWERS = (1.0, 0.5)
#: With more encoded columns than this, full matrices are not tried as a metric. Chosen by hand.
MOST_FULL = 500


@dataclass(frozen=True)
class SettingResult:
    """Best fit that a setting reached, with the held-out error of its last round.

    ``metric`` is the form of the best metric (None: none learned), ``kept`` whether the setting was chosen.
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
class TableSearchResult:
    """The best setting of a search, with its evidence.

    ``best`` is None if the time was over before the first fit. ``other`` is the best setting of the other
    norm with the same scaling and target on the same rows, if its error came near. ``n_judged`` counts
    factorisations; ``finished`` says whether all rounds were run.
    """

    setting: Setting
    best: ExactFit | None
    trials: tuple[SettingResult, ...]
    n_rows: int
    n_judged: int
    seconds: float
    finished: bool
    other: ExactFit | None = None


def n_held_out(n_rows: int) -> int:
    """Return how many of the rows are held out."""
    return min(MOST_HELD_OUT, n_rows // HELD_OUT_PART)


def round_sizes(n_rows: int, memory_bytes: int, effort: TableEffort) -> tuple[int, ...]:
    """Return the number of rows that each round fits, ascending; fewer if memory is short.

    >>> from gramian.tables.effort import EFFORTS
    >>> round_sizes(20_000, 10**9, EFFORTS["default"])
    (400, 1000)
    """
    # Independent of the number of threads, which must not change the result.
    held = n_held_out(n_rows)
    most = min(most_fit(memory_bytes // NOMINAL_THREADS, held), n_rows - held)
    return tuple(sorted({max(1, min(size, most)) for size in effort.search_rows}))


def search_settings(
    problem: Callable[[Setting, int], SmallProblem],
    settings: Sequence[Setting],
    sizes: Sequence[int],
    *,
    engine: Engine,
    memory_bytes: int,
    deadline: float,
    forms: tuple[str, ...],
    bar: tqdm[Any],
) -> TableSearchResult:
    """Search for the best of some settings; deterministic unless the time limit ends it.

    Parameters
    ----------
    problem : from a setting and a number of rows to fit to the exact problem; the rows are nested.
    settings : the settings to compare, at least one.
    sizes : number of rows that each round fits, ascending.
    engine : threads.
    memory_bytes : bound on the memory of all threads together.
    deadline : when to end, by ``time.perf_counter``. It is checked before every factorisation, so
        that one may run over.
    forms : forms of metrics to try: "diagonal", "full" (only with Euclidean kernels), or none.
    bar : shows the least held-out error after each group of settings.

    Time O(m³) for a fit of m rows, about twenty fits for each setting and round; memory :func:`fit_bytes` for
    each thread.
    """
    began, first, price = time.perf_counter(), settings[0], attrgetter("price")

    def descend(some: list[SettingProgress], size: int, fresh: bool) -> bool:
        problems = {}
        for each in some:
            bar.set_description(f"search on {size:,} rows")
            if bar.total is not None and bar.n >= bar.total:
                bar.total += 1  # a later round, whose number of settings was not known before
            bar.update(1)
            problems[each.setting] = problem(each.setting, size)
        if not some:
            return True
        ended = Descent(some, problems, size, deadline, engine, memory_bytes, forms, fresh).run()
        bar.set_postfix_str(f"best error {min(each.price for each in some):.3g} of the variance")
        return ended

    usual = [each for each in settings if each.levels == first.levels]
    alive = [SettingProgress(each) for each in usual if each.target == first.target]
    everyone, finished = list(alive), True
    for number, size in enumerate(sizes):
        finished = descend(alive, size, number == 0)
        alive.sort(key=price)
        if number == 0:
            # Other target transformations are tried only where the first one did best, and level means only
            # for the best of all and the best one of the other norm.
            places = [(each.setting.scaling, each.setting.kernel) for each in alive[:OTHER_TARGETS]]
            others = [each for each in usual if each.target != first.target]
            targets = [SettingProgress(each) for each in others if (each.scaling, each.kernel) in places]
            finished &= descend(targets, size, True)
            alive = sorted([*alive, *targets], key=price)
            wide = [replace(each.setting, levels=True) for each in (alive[0], *_others(alive)[:1])]
            levels = [SettingProgress(each) for each in settings if each in wide]
            finished &= descend(levels, size, True)
            alive = sorted([*alive, *levels], key=price)
            everyone += [*targets, *levels]
        if not finished:
            break
        if number < len(sizes) - 1:
            # More rows help a Laplacian more than a Euclidean kernel, and the mean of both is often better
            # than either, so that an error on few rows excludes neither.
            best = alive[0]
            near = [each for each in alive if each.error <= LAST_GAP * best.error]
            same = [each for each in near if each.setting.norm == best.setting.norm]
            alive = same[:LAST_SETTINGS] + _others(alive)[:1]
    # Errors on few and on many rows are not comparable, so that settings with the most rows come first.
    ranked = sorted(everyone, key=lambda each: (-each.n_rows, each.price))
    best = ranked[0]
    near = [each for each in _others(ranked) if each.n_rows == best.n_rows and best.best is not None]
    return TableSearchResult(
        best.setting,
        best.best,
        tuple(each.result(kept=each is best) for each in ranked if each.best is not None),
        best.n_rows,
        sum(each.n_fits for each in everyone),
        time.perf_counter() - began,
        finished,
        near[0].best if near else None,
    )


@dataclass
class SettingProgress:
    """State of one setting: its best fit, and the best one before any metric was learned."""

    setting: Setting
    best: ExactFit | None = None
    plain: Point | None = None
    n_rows: int = 0  #: rows that the best fit used
    n_fits: int = 0

    @property
    def error(self) -> float:
        """Error of the best fit; infinite if there is none yet."""
        return math.inf if self.best is None else self.best.error

    @property
    def price(self) -> float:
        """The error that settings are ranked by."""
        return self.error * (1.0 + LEVELS_GAIN * self.setting.levels)

    @property
    def point(self) -> Point:
        """Point of the best fit."""
        assert self.best is not None
        return self.best.point

    def result(self, *, kept: bool) -> SettingResult:
        """Return the best fit that the setting reached."""
        point, metric = self.point, self.point.metric
        plain = self.plain is not None and metric == self.plain.metric
        form = None if plain else "diagonal" if metric.matrix is None else "full"
        best = point.bandwidth, point.alpha, form, self.n_fits, kept
        return SettingResult(self.setting, self.n_rows, self.error, *best)


def _others(ranked: list[SettingProgress]) -> list[SettingProgress]:
    """Return the settings of the other norm that share the best one's scaling, target and columns, ranked."""
    best, bound = ranked[0].setting, OTHER_GAP * ranked[0].error
    return [
        each
        for each in ranked
        if each.setting.norm != best.norm
        and replace(each.setting, kernel=best.kernel) == best
        and each.error <= bound
    ]


#: Result of a task: its number of fits, and the best of them if it beats the setting's best so far.
BetterFit = tuple[int, ExactFit | None]
#: One task: points of a setting under one metric, which share their distances.
Task = tuple[SettingProgress, list[PenaltyGrid]]
TaskTrials = Trials[Task, BetterFit]


@dataclass
class Descent:
    """One round of the search: settings, their problems with ``n_rows`` fitted rows, and limits.

    deadline : when to end; engine : threads, at most as many as ``memory_bytes`` allows fits at a time;
    forms : forms of the metric to try; fresh : whether the settings start here, from a grid.
    """

    settings: list[SettingProgress]
    problems: dict[Setting, SmallProblem]
    n_rows: int
    deadline: float
    engine: Engine
    memory_bytes: int
    forms: tuple[str, ...]
    fresh: bool
    cut: bool = False  #: whether the time limit cut off some work
    _spaces: list[Workspace] = field(default_factory=list)  #: workspaces not in use by a thread

    def run(self) -> bool:
        """Improve each setting on these rows; return whether the time sufficed."""
        most = max(fit_bytes(each.n_fit, len(each.rows) - each.n_fit) for each in self.problems.values())
        threads = min(self.engine.n_threads, self.memory_bytes // max(1, most))
        engine = Engine(max(1, threads))

        def candidates(trials: TaskTrials) -> Iterator[list[Task]]:
            yield self._tasks([(each, grid) for each in self.settings for grid in self._starts(each)])
            self._take(trials)
            errors = [self._error(each) for each in self.settings]
            bound = FIRST_GAP * min(errors)
            moving = [
                each for each, error in zip(self.settings, errors) if error <= bound and math.isfinite(error)
            ]
            yield self._tasks(_neighbours(moving))
            self._take(trials)
            moving = [each for each in moving if self._forms_of(each)]
            learned = zip(moving, engine.map(self._metrics, moving))
            factors = (1.0, *NEAR_BANDWIDTHS) if self.fresh else (1.0,)
            yield self._tasks(
                (
                    each,
                    (replace(each.point, metric=M, bandwidth=f * each.point.bandwidth), (each.point.alpha,)),
                )
                for each, metrics in learned
                for M in metrics
                for f in factors
            )
            gained = self._take(trials)
            yield self._tasks(_neighbours([each for each in moving if each.setting in gained]))

        trials = search(self.problems, candidates, self._score, Limits(deadline=self.deadline), engine=engine)
        self._take(trials)
        return not (trials.out_of_time or self.cut)

    def _score(self, problems: dict[Setting, SmallProblem], task: Task) -> tuple[float, BetterFit]:
        progress, grids = task
        space = self._spaces.pop() if self._spaces else Workspace()  # at most one for each thread
        try:
            fits = problems[progress.setting].fit(grids, space, self.deadline)
        finally:
            self._spaces.append(space)
        if len(fits) < sum(len(alphas) for _, alphas in grids):
            self.cut = True
        best = min(fits, key=lambda fit: fit.error)
        # Coefficients fill memory: drop those of a fit that is not the best.
        return best.error, (len(fits), best if best.error < self._error(progress) else None)

    def _take(self, trials: TaskTrials) -> set[Setting]:
        """Record the trials with their settings; return the settings that have a new best."""
        gained = set()
        for trial in trials.drain():
            progress, (count, fit) = trial.candidate[0], trial.evidence
            progress.n_fits += count
            if fit is None or fit.error >= self._error(progress):
                continue
            progress.best, progress.n_rows = fit, self.n_rows
            if progress.plain is None or fit.point.metric == progress.plain.metric:
                progress.plain = fit.point
            gained.add(progress.setting)
        return gained

    def _error(self, progress: SettingProgress) -> float:
        """Return a setting's smallest error on these rows; infinite if it has none yet."""
        return progress.error if progress.n_rows == self.n_rows else math.inf

    def _starts(self, progress: SettingProgress) -> list[PenaltyGrid]:
        """Return the best points so far, or before any metric those at which a setting starts."""
        if self.fresh:
            rows = self.problems[progress.setting].rows
            return [(point, ALPHAS) for point in first_points(progress.setting.kernel, rows)]
        points = [progress.point] + ([] if progress.plain is None else [progress.plain])
        return [(point, (point.alpha,)) for point in dict.fromkeys(points)]

    def _metrics(self, progress: SettingProgress) -> list[Metric]:
        """Return the metrics that the best fit's gradients give, for each form and power."""
        if time.perf_counter() >= self.deadline:
            self.cut = True
            return []
        assert progress.best is not None
        problem, forms = self.problems[progress.setting], self._forms_of(progress)
        M = problem.outer_product(progress.best, "full" if "full" in forms else "diagonal", self.deadline)
        if not np.isfinite(M).all() or not M.any():
            return []  # a constant fit has no gradients to learn from
        metrics = []
        for form in forms:
            own = M if form == "full" or M.ndim == 1 else np.diagonal(M).copy()
            covariance = problem.covariance if form == "full" else problem.rows.var(axis=0)
            metrics += [metric_of(own, power, covariance) for power in METRIC_POWERS]
        return metrics

    def _forms_of(self, progress: SettingProgress) -> tuple[str, ...]:
        """Return the forms of metrics to try; a Laplacian works column by column and takes no full matrix."""
        d = self.problems[progress.setting].rows.shape[1]
        full = progress.setting.norm == 2.0 and d <= MOST_FULL
        return tuple(form for form in self.forms if d > 1 and (form != "full" or full))

    def _tasks(self, grids: Iterable[tuple[SettingProgress, PenaltyGrid]]) -> list[Task]:
        """Return one task for each grid, or for each metric if that gives every thread enough tasks."""
        alone = [(progress, [grid]) for progress, grid in grids]
        together: list[Task] = []
        for _, same in groupby(alone, lambda task: (task[0].setting, id(task[1][0][0].metric))):
            those = list(same)
            together.append((those[0][0], [grid for _, own in those for grid in own]))
        return together if len(together) >= TASKS_A_THREAD * self.engine.n_threads else alone


def _neighbours(settings: list[SettingProgress]) -> Iterator[tuple[SettingProgress, PenaltyGrid]]:
    """Yield the neighbours of each best point in bandwidth and penalty."""
    for progress in settings:
        point = progress.point
        for factor in NEAR_BANDWIDTHS:
            yield progress, (replace(point, bandwidth=factor * point.bandwidth), (point.alpha,))
        yield progress, (point, [float(np.clip(f * point.alpha, *ALPHA_RANGE)) for f in NEAR_ALPHAS])
