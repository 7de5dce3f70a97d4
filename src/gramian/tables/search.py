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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gramian.engine import Engine
from gramian.tables.descent import Descent, Setting, SettingProgress
from gramian.tables.effort import TableEffort
from gramian.tables.small_problem import POWERS, ExactFit, SmallProblem, most_fit

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
    until: float = math.inf,
    forms: Sequence[str] = ("diagonal", "full"),
    told: Callable[[float], object] | None = None,
) -> TableSearchResult:
    """Search for the best of some settings.

    Parameters
    ----------
    problem : from a setting and a number of rows to fit to the exact problem; the rows are nested.
    settings : the settings to compare, at least one.
    sizes : number of rows that each round fits, ascending.
    engine : threads.
    memory_bytes : bound on the memory of all threads together.
    until : when to end, on the clock of ``time.perf_counter``. It is checked before every factorisation, so
        that one may run over.
    forms : forms of metrics to try: "diagonal", "full" (only with Euclidean kernels), or none.
    told : is called with the least held-out error after each group of settings, to show it.

    Returns
    -------
    SearchResult
        Deterministic unless the time limit ends it.

    Time O(m³) for a fit of m rows, about twenty fits for each setting and round; memory :func:`fit_bytes` for
    each thread.
    """
    began = time.perf_counter()

    def descend(some: list[SettingProgress], size: int, fresh: bool) -> bool:
        problems = {each.setting: problem(each.setting, size) for each in some}
        ended = Descent(some, problems, size, until, engine, memory_bytes, tuple(forms), fresh).run()
        if told is not None:
            told(min(map(_price, some)))
        return ended

    first = settings[0]
    alive = [
        SettingProgress(setting)
        for setting in settings
        if setting.target == first.target and setting.levels == first.levels
    ]
    everyone, finished = list(alive), True
    for number, size in enumerate(sizes):
        fresh = number == 0
        finished = descend(alive, size, fresh)
        alive.sort(key=_price)
        if fresh:
            # Other target transformations are tried only where the first one did best, and level means only
            # for the best of all and the best one of the other norm.
            places = [(each.setting.scaling, each.setting.kernel) for each in alive[:OTHER_TARGETS]]
            targets = [
                SettingProgress(each)
                for each in settings
                if each.target != first.target
                and each.levels == first.levels
                and (each.scaling, each.kernel) in places
            ]
            finished &= not targets or descend(targets, size, fresh)
            alive = sorted([*alive, *targets], key=_price)
            wide = [replace(each.setting, levels=True) for each in (alive[0], *_others(alive[0], alive)[:1])]
            levels = [SettingProgress(each) for each in settings if each in wide]
            finished &= not levels or descend(levels, size, fresh)
            alive = sorted([*alive, *levels], key=_price)
            everyone += [*targets, *levels]
        if not finished:
            break
        if number < len(sizes) - 1:
            alive = _going_on(alive)
    # Errors on few and on many rows are not comparable, so that settings with the most rows come first.
    ranked = sorted(everyone, key=lambda each: (-each.n_rows, _price(each)))
    best = ranked[0]
    near = [each for each in _others(best, ranked) if each.n_rows == best.n_rows and best.best is not None]
    results = (_result(each, kept=each is best) for each in ranked if each.best is not None)
    return TableSearchResult(
        best.setting,
        best.best,
        tuple(results),
        best.n_rows,
        sum(each.n_fits for each in everyone),
        time.perf_counter() - began,
        finished,
        near[0].best if near else None,
    )


def _result(progress: SettingProgress, *, kept: bool) -> SettingResult:
    point = progress.point
    plain = progress.plain is not None and point.metric == progress.plain.metric
    form = None if plain else "diagonal" if point.metric.matrix is None else "full"
    return SettingResult(
        progress.setting,
        progress.n_rows,
        progress.error,
        point.bandwidth,
        point.alpha,
        form,
        progress.n_fits,
        kept,
    )


def _price(each: SettingProgress) -> float:
    """Return the error that settings are ranked by."""
    return each.error * (1.0 + LEVELS_GAIN * each.setting.levels)


def _going_on(ranked: list[SettingProgress]) -> list[SettingProgress]:
    """Return the settings of the last round: the best, those near it, and one of the other norm.

    More rows help a Laplacian more than a Euclidean kernel, and the mean of both is often better than either,
    so that an error on few rows excludes neither.
    """
    best = ranked[0]
    kept = [each for each in ranked if _norm(each) == _norm(best) and each.error <= LAST_GAP * best.error][
        :LAST_SETTINGS
    ] or [best]
    return kept + _others(best, ranked)[:1]


def _others(best: SettingProgress, ranked: list[SettingProgress]) -> list[SettingProgress]:
    """Return the settings of the other norm that share the best one's scaling, target and columns, ranked."""
    own = (best.setting.scaling, best.setting.target, best.setting.levels)
    return [
        each
        for each in ranked
        if _norm(each) != _norm(best)
        and (each.setting.scaling, each.setting.target, each.setting.levels) == own
        and each.error <= OTHER_GAP * best.error
    ]


def _norm(each: SettingProgress) -> float:
    return POWERS[each.setting.kernel][0]
