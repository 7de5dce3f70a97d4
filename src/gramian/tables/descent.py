"""One round of a table's search: every setting improves bandwidth, penalty and metric on the same rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from gramian.engine import Engine
from gramian.metric.metric import Metric, metric_of
from gramian.search import Limits, Trials, search
from gramian.tables.small_problem import (
    POWERS,
    ExactFit,
    PenaltyGrid,
    Point,
    SmallProblem,
    Workspace,
    fit_bytes,
)

#: All points under one metric form one task if that leaves at least this many tasks per thread.
#: Chosen by hand.
TASKS_A_THREAD = 2
#: A setting learns a metric only if its first error is at most this multiple of the smallest one.
#: Chosen by hand.
FIRST_GAP = 1.2
#: Bandwidths to start from, in units of the mean distance between two standardised rows, and penalties to
#: start from. Chosen by hand.
BANDWIDTHS = {
    "laplacian": (0.1, 0.4, 1.5, 6.0),
    "exponential": (0.3, 1.0, 4.0, 16.0),
    "gaussian": (0.3, 0.7, 1.5, 4.0),
}
ALPHAS = (1e-2, 1e-1, 1.0)
#: Factors from the best bandwidth and penalty to their neighbours, and bounds of the penalty. Chosen by hand.
NEAR_BANDWIDTHS, NEAR_ALPHAS = (0.5, 2.0), (1.0 / 3.0, 3.0)
ALPHA_RANGE = (1e-6, 1e3)
#: Powers of the gradient outer product that are tried as a metric. Chosen by hand.
METRIC_POWERS = (1.0, 0.5)
#: With more encoded columns than this, full matrices are not tried as a metric. Chosen by hand.
MOST_FULL = 500


@dataclass(frozen=True)
class Setting:
    """The choices that the search compares in full: scaling and target map, by name, kernel, level means."""

    scaling: str
    target: str
    kernel: str
    levels: bool = False  #: whether categories have level means besides


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
    def point(self) -> Point:
        """Point of the best fit."""
        assert self.best is not None
        return self.best.point


#: Result of a task: its number of fits, and the best of them if it beats the setting's best so far.
Evidence = tuple[int, ExactFit | None]
#: One task: points of a setting under one metric, which share their distances.
Task = tuple[SettingProgress, list[PenaltyGrid]]
TaskTrials = Trials[Task, Evidence]


@dataclass
class Descent:
    """One round of the search: settings, their problems with ``n_rows`` fitted rows, and limits.

    until : time at which to end; engine : threads, at most as many as ``memory_bytes`` allows fits at a time;
    forms : forms of the metric to try; fresh : whether the settings start here, from a grid.
    """

    settings: list[SettingProgress]
    problems: dict[Setting, SmallProblem]
    n_rows: int
    until: float
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
        self._side_by_side = Engine(max(1, threads))
        limits = Limits(until=self.until)
        found = search(self.problems, self._candidates, self._judge, limits, engine=self._side_by_side)
        self._take(found)
        return not (found.out_of_time or self.cut)

    def _candidates(self, found: TaskTrials) -> Iterator[list[Task]]:
        yield self._tasks([(each, grid) for each in self.settings for grid in self._starts(each)])
        self._take(found)
        errors = [self._error(each) for each in self.settings]
        bound = FIRST_GAP * min(errors)
        moving = [
            each for each, error in zip(self.settings, errors) if error <= bound and math.isfinite(error)
        ]
        yield self._tasks(_neighbours(moving))
        self._take(found)
        moving = [each for each in moving if self._forms_of(each)]
        yield self._tasks(self._under_metrics(moving))
        gained = self._take(found)
        yield self._tasks(_neighbours([each for each in moving if each.setting in gained]))

    def _judge(self, problems: dict[Setting, SmallProblem], task: Task) -> tuple[float, Evidence]:
        progress, grids = task
        space = self._spaces.pop() if self._spaces else Workspace()  # at most one for each thread
        try:
            fits = problems[progress.setting].fit(grids, space, self.until)
        finally:
            self._spaces.append(space)
        if len(fits) < sum(len(alphas) for _, alphas in grids):
            self.cut = True
        best = min(fits, key=lambda fit: fit.error)
        # Coefficients fill memory: drop those of a fit that is not the best.
        return best.error, (len(fits), best if best.error < self._error(progress) else None)

    def _take(self, found: TaskTrials) -> set[Setting]:
        """Record the trials with their settings; return the settings that have a new best."""
        gained = set()
        for trial in found.drain():
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
        if self.fresh:
            setting = progress.setting
            return [(point, ALPHAS) for point in _first_points(setting.kernel, self.problems[setting])]
        points = [progress.point] + ([] if progress.plain is None else [progress.plain])
        return [(point, (point.alpha,)) for point in dict.fromkeys(points)]

    def _under_metrics(self, moving: list[SettingProgress]) -> Iterator[tuple[SettingProgress, PenaltyGrid]]:
        """Yield the best points under the metrics from the gradient outer products of their fits."""
        for progress, metrics in zip(moving, self._side_by_side.map(self._metrics, moving)):
            for metric in metrics:
                at = replace(progress.point, metric=metric)
                for factor in (1.0, *NEAR_BANDWIDTHS) if self.fresh else (1.0,):
                    yield progress, (replace(at, bandwidth=factor * at.bandwidth), (at.alpha,))

    def _metrics(self, progress: SettingProgress) -> list[Metric]:
        """Return the metrics that the best fit's gradients give, for each form and power."""
        if time.perf_counter() >= self.until:
            self.cut = True
            return []
        assert progress.best is not None
        problem, forms = self.problems[progress.setting], self._forms_of(progress)
        M = problem.outer_product(progress.best, "full" if "full" in forms else "diagonal", self.until)
        if not np.isfinite(M).all() or not M.any():
            return []  # a constant fit has no gradients to learn from
        found = []
        for form in forms:
            own = M if form == "full" or M.ndim == 1 else np.diagonal(M).copy()
            covariance = problem.covariance if form == "full" else problem.rows.var(axis=0)
            found += [metric_of(own, power, covariance) for power in METRIC_POWERS]
        return found

    def _forms_of(self, progress: SettingProgress) -> tuple[str, ...]:
        """Return the forms of metrics to try; a Laplacian works column by column and takes no full matrix."""
        d = self.problems[progress.setting].rows.shape[1]
        full = POWERS[progress.setting.kernel][0] == 2.0 and d <= MOST_FULL
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


def _first_points(kernel: str, problem: SmallProblem) -> list[Point]:
    """Return the points at which a setting starts, before any metric."""
    d = problem.rows.shape[1]
    covariance = problem.rows.var(axis=0)
    metric = Metric(scales=np.ones(d), spreads=np.sqrt(covariance))
    p, _ = POWERS[kernel]
    # Two rows of deviation σ differ by √2 σ in the root mean square and by 2σ/√π on average.
    total = float(
        np.sqrt(2.0 * covariance.sum()) if p == 2.0 else 2.0 / np.sqrt(np.pi) * np.sqrt(covariance).sum()
    )
    unit = total or 1.0
    return [Point(kernel, metric, f * unit, 1.0) for f in BANDWIDTHS[kernel]]
