"""The last fit of a tabular model: to all rows, metric and penalty judged by rows that are held out of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from gramian._budget import format_bytes, parse_bytes
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimators.exact import Exact
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.ridge_mean import RidgeMean
from gramian.estimators.tabular_maker import EXACT_ROWS, EXACT_TOL, TOL_OF_ERROR, Maker, of_sizes
from gramian.estimators.tabular_rounds import Rounds
from gramian.exact.penalties import IterativeTrials
from gramian.exceptions import BudgetError
from gramian.metric.learning import PROGRESS, Round, Settings, learn_metric
from gramian.tables.small_problem import Point

#: Part of the rows that judges, and such rows at most.
HELD_PART, MOST_HELD = 0.2, 4_000
#: Rounds of the metric at most, rows that they fit in a regression and of classes, and their sizes.
ROUNDS, ROUND_ROWS, ROUND_CLASS_ROWS = 5, 10_000, 20_000
ROUND_SIZES = ((300, 100, 650), (100, 0, None))
#: Bytes of memory for each number of those rows.
ROUND_BYTES = 64
#: Factors that the bandwidth is multiplied by after the rounds while that helps, and how often at most.
BANDWIDTH_FACTORS, BANDWIDTH_STEPS = (0.5, 2.0), 2
#: Factors of the search's penalty: more rows want less. One step further is tried so often where an end is
#: best.
FACTORS, FURTHER = (1.0, 1.0 / 3.0), 3
#: Mean squared error of ±1 under which no held row of MOST_HELD can be wrong: nothing is left to choose by.
ENOUGH_OF_CLASSES = 1e-4
#: Least relative residual that the solve of an exact model is asked for.
LEAST_TOL = 1e-6
#: From values (held, outputs) and the numbers of the held rows to an error.
HeldLoss = Callable[[Float64Array, IntArray], float]


#: A second model counts where its held-out error after the rounds is within this factor of the first one's;
#: below this share of the mean it is left out.
NEAR, LEAST_SHARE = 1.1, 0.1


@dataclass(frozen=True)
class LastFit:
    """The model of all rows, and what the rows that were held out of a part of it say.

    ``values`` are the held rows' decision values (held, outputs) of the model without them, ``held`` their
    numbers; ``rounds`` those of the leading model's metric; ``cheapest`` whether the time sufficed for the
    smallest sizes alone.
    """

    model: Any
    held: IntArray
    values: Float64Array
    rounds: tuple[Round, ...]
    cheapest: bool


@dataclass(frozen=True)
class _Member:
    """A model of one kernel, with the held rows' values of the one without them."""

    model: Any
    values: Float64Array
    cheapest: bool = False
    rounds: tuple[Round, ...] = ()


def last_fit(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    source: RowSource,
    y: Array,
    weights: Array | None,
    points: Sequence[Point],
    loss: HeldLoss,
    *,
    learn: bool,
    switched: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    until: float,
    **options: Any,
) -> LastFit:
    """Learn metrics on more rows, fit to a part of all, choose penalties by the rest, and add the rest.

    Parameters
    ----------
    kind : the estimator.
    source : (n, d) scaled rows.
    y : (n,) or (n, outputs), targets or labels.
    weights : (n,) or None.
    points : kernel, metric, bandwidth and penalty to begin with, of one model or of two: these are averaged
        with the share that the held rows like best, if the second comes near the first.
    loss : what judges values of held-out rows.
    learn : whether further rounds of the metric are made.
    switched : groups of columns that are switched in place of a derivative.
    until : when it should end, on the clock of ``time.perf_counter``.
    options : of the estimator.

    The rounds fit small models (a root of 300, blocks of rank 100) to 10,000 rows at most, 20,000 of
    classes. The sums of the first part of the rows serve each penalty, and those of the rest are added to
    them, so that a model costs one pass. Where memory holds it (a Cholesky factor up to 2,500 rows, the tiles
    of K's lower half beyond: 19,000 rows in 1 GB) the last models are exact, and up to 2,500 rows all are.
    """
    n = source.shape[0]
    counted = np.arange(n) if weights is None else np.flatnonzero(weights > 0)
    held = np.sort(rng.permutation(counted)[: min(MOST_HELD, int(HELD_PART * len(counted)))])
    rest = np.setdiff1d(np.arange(n), held)
    if kind is KernelRidgeClassifier and len(np.unique(y[rest])) < len(np.unique(y)):
        # A class of which every row is needed.
        held = held[np.isin(y[held], y[rest])]
        rest = np.setdiff1d(np.arange(n), held)
    makers = [Maker(kind, source, y, weights, point, options) for point in points]
    rounds: list[tuple[Round, ...]] = [() for _ in makers]
    if learn and len(held) and time.perf_counter() < until:
        # Models this small are learned faster side by side than on several threads each.
        seeds, share = rng.spawn(len(makers)), parse_bytes(options["memory_budget"]) // len(makers)
        single = [make.under(n_jobs=1, memory_budget=share) for make in makers]

        def learned(j: int) -> tuple[Maker, tuple[Round, ...]]:
            make, rounds = _rounds(single[j], held, rest, loss, switched, seeds[j], until)
            return replace(make, options=options), rounds

        found = list(Engine(options["n_jobs"]).map(learned, range(len(makers))))
        makers, rounds = [each[0] for each in found], [each[1] for each in found]
        errors = [min((r.error for r in each), default=math.inf) for each in rounds]
        order = np.argsort(errors, kind="stable").tolist()
        order = [j for j in order if errors[j] <= NEAR * min(errors)] or order[:1]
        makers, rounds = [makers[j] for j in order], [rounds[j] for j in order]
    if not len(held) or time.perf_counter() > until:
        makers, rounds = makers[:1], rounds[:1]

    def member(make: Maker) -> _Member:
        whole = _exact_in_time(make, until)
        return _streamed(make, held, rest, loss, until) if whole is None else _exact(whole, held, rest, loss)

    # One alone has all threads; of two each has one, which suits the steps that are not shared out, where
    # the memory holds both. Where it holds one exact model, a second would take as long again: an approximate
    # one gives more than half of what it would.
    halves = [make.under(memory_budget=parse_bytes(options["memory_budget"]) // 2) for make in makers]
    if len(makers) > 1 and all(map(_as_large, halves, makers)):
        members = list(Engine(options["n_jobs"]).map(member, halves))
    else:
        alone = _exact_in_time(makers[0], until) is not None
        members = [member(makers[0])]
        for make in makers[1:]:
            members.append(_streamed(make, held, rest, loss, until) if alone else member(make))
    for each in members:
        each.model.memory_budget = options["memory_budget"]
    members = [replace(each, rounds=own) for each, own in zip(members, rounds, strict=True)]
    return _averaged(members, held, loss)


def _rounds(
    make: Maker,
    held: IntArray,
    rest: IntArray,
    loss: HeldLoss,
    switched: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    until: float,
) -> tuple[Maker, tuple[Round, ...]]:
    """Return what makes models under the metric and bandwidth of some rounds, and these."""
    most = ROUND_ROWS if make.kind is KernelRidge else ROUND_CLASS_ROWS
    most = min(most, parse_bytes(make.options["memory_budget"]) // (ROUND_BYTES * make.source.shape[1]))
    drawn = rest if len(rest) <= most else _drawn(make, rest, most, rng)
    found_sizes = _for_rounds(make, drawn)
    if found_sizes is None:
        return make, ()
    make, small = found_sizes
    form = "diagonal" if make.point.metric.matrix is None else "full"
    learner = Rounds(
        lambda metric: make.fit(make.model(small, metric), drawn),
        lambda model: loss(make.values(model, held), held),
        make.source.take(drawn[rng.permutation(len(drawn))]),
        form,
        switched,
        until,
        _enough(make),
    )
    settings = Settings(form=form, rounds=ROUNDS, powers=(1.0,), bandwidth=False)
    start = make.point.bandwidth
    found = learn_metric(learner, make.point.metric, settings)
    make = replace(make, point=replace(make.point, metric=found.metric))
    least = min(each.error for each in found.rounds)

    def judged(factor: float) -> tuple[float, Maker]:
        if time.perf_counter() > until or least <= _enough(make):
            return math.inf, make
        other = replace(make, point=replace(make.point, bandwidth=factor * make.point.bandwidth))
        return loss(other.values(other.fit(other.model(small), drawn), held), held), other

    for factor in BANDWIDTH_FACTORS:
        for _ in range(BANDWIDTH_STEPS):
            error, other = judged(factor)
            if error > (1.0 - PROGRESS) * least:
                break
            least, make = error, other
        if make.point.bandwidth != start:
            break
    return make, found.rounds


def _enough(make: Maker) -> float:
    """Return the held-out error that needs no better one."""
    return ENOUGH_OF_CLASSES if make.kind is KernelRidgeClassifier else 0.0


def _drawn(make: Maker, rest: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Return so many of some rows at random, and the first of each class that none of them has."""
    drawn = rng.choice(rest, most, replace=False)
    if make.kind is KernelRidgeClassifier:
        classes, first = np.unique(make.y[rest], return_index=True)
        drawn = np.concatenate([drawn, rest[first[~np.isin(classes, make.y[drawn])]]])
    return np.sort(drawn)


def _averaged(members: list[_Member], held: IntArray, loss: HeldLoss) -> LastFit:
    """Return the mean of one model or two, with the share that the held rows like best."""
    first, second = members[0], members[-1]
    if first is second:
        return LastFit(first.model, held, first.values, first.rounds, first.cheapest)

    def mean(share: float) -> Float64Array:
        return (1.0 - share) * first.values + share * second.values

    found = minimize_scalar(lambda share: loss(mean(share), held), bounds=(0.0, 1.0), method="bounded")
    share = float(found.x)
    cheapest = first.cheapest or second.cheapest
    if share < LEAST_SHARE:
        return LastFit(first.model, held, first.values, first.rounds, cheapest)
    if share > 1.0 - LEAST_SHARE:
        return LastFit(second.model, held, second.values, second.rounds, cheapest)
    model = RidgeMean.of([first.model, second.model], [1.0 - share, share])
    return LastFit(model, held, mean(share), (first if share <= 0.5 else second).rounds, cheapest)


def _streamed(make: Maker, held: IntArray, rest: IntArray, loss: HeldLoss, until: float) -> _Member:
    """Return the model of all rows from the sums of a part, by which penalties are compared, and the rest."""
    model, cheapest = _sized(make, rest, until)
    alpha, values = make.point.alpha, np.zeros((0, 1))
    if len(held):

        def tried(alpha: float) -> tuple[float, Float64Array]:
            found = make.values(model._with_penalty(alpha), held)
            return loss(found, held), found

        over = cheapest or time.perf_counter() > until
        alpha, values = _best_penalty(
            tried, alpha, (1.0,) if over else FACTORS, 0 if over else FURTHER, _enough(make)
        )
        make.add(model._with_penalty(alpha), held)
    return _Member(model._closed(), values, cheapest)


def _as_large(half: Maker, make: Maker) -> bool:
    """Tell whether half of the memory holds a model as large as all of it does."""
    if make.exact() is not None:
        return half.exact() is not None
    return half.fits(make.approximations[0], np.arange(make.source.shape[0]), streamed=True)


def _exact_in_time(make: Maker, until: float) -> Maker | None:
    """Return what makes the exact model; None where memory or time, by the plan's seconds, is too short."""
    whole = make.exact()
    if whole is None:
        return None
    n = whole.source.shape[0]
    plan = whole.plan(whole.exactly(), np.arange(n))
    late = plan is None or time.perf_counter() + sum(plan.seconds.values()) > until
    return None if late and n > EXACT_ROWS else whole


def _exact(make: Maker, held: IntArray, rest: IntArray, loss: HeldLoss) -> _Member:
    """Return the exact model of all rows, after one of a part of them for each penalty."""
    alpha, values, tol = make.point.alpha, np.zeros((0, 1)), EXACT_TOL
    direct = make.source.shape[0] <= EXACT_ROWS
    if len(held):
        trials = make.trials(rest, held)

        def tried(alpha: float) -> tuple[float, Float64Array]:
            nonlocal tol
            if not direct and make.options["tile_dtype"] == "float32" and alpha < make.least_float32:
                return math.inf, np.zeros((0, 1))
            found = trials.values(alpha)
            if isinstance(trials, IterativeTrials) and make.kind is KernelRidge:
                # What the solve leaves must not show in the error.
                finer = max(LEAST_TOL, TOL_OF_ERROR * _relative_error(make.y[held], found))
                if finer < trials.tol:
                    tol = trials.tol = finer
                    found = trials.values(alpha)
            return (loss(found, held) if np.isfinite(found).all() else math.inf), found

        alpha, values = _best_penalty(tried, alpha, FACTORS, FURTHER, _enough(make))
        del trials
    model = make.model(make.exactly(tol))
    model.alpha = alpha
    every = np.arange(make.source.shape[0])
    return _Member(make.fit(model, every), values)


def _relative_error(y: Array, values: Float64Array) -> float:
    """Return ‖values − y‖/‖y − mean y‖ of numbers; 1 where y is constant."""
    wanted = np.asarray(y, np.float64).reshape(values.shape)
    size = float(np.linalg.norm(wanted - wanted.mean(axis=0)))
    return float(np.linalg.norm(values - wanted)) / size if size > 0 else 1.0


def _best_penalty(
    tried: Callable[[float], tuple[float, Float64Array]],
    start: float,
    factors: tuple[float, ...],
    further: int,
    enough: float,
) -> tuple[float, Float64Array]:
    """Return the best of some penalties with its values, going on where an end of them is best.

    An error of ``enough`` ends it.
    """
    errors: dict[float, float] = {}
    best, values = start, np.zeros((0, 1))
    todo = [factor * start for factor in factors]
    while todo:
        alpha = todo.pop(0)
        errors[alpha], found = tried(alpha)
        if errors[alpha] <= min(errors.values()):
            best, values = alpha, found
        if errors[alpha] <= enough:
            break
        if not todo and len(errors) < len(factors) + further and best in (min(errors), max(errors)):
            todo = [best / 3.0 if best == min(errors) else best * 3.0]
    return best, values


def _sized(make: Maker, rest: IntArray, until: float) -> tuple[Any, bool]:
    """Return a model of the largest sizes that memory and time allow, with the sums of the first part.

    The second is whether there was time for none, so that it has the least sizes.

    Time counts where there is a limit: by the plan's seconds, which know this machine only roughly.
    """
    late = time.perf_counter() > until
    for approximation in make.approximations[-1:] if late else make.approximations:
        model = make.model(approximation)
        try:
            plan = model.plan(make.source, make.y)
            cheapest = time.perf_counter() + sum(plan.seconds.values()) > until
            if cheapest and approximation is not make.approximations[-1]:
                continue
            # A stream holds more than a fit, and says so before it begins.
            make.add(model, rest)
        except BudgetError:
            continue
        return model, cheapest
    n = make.source.shape[0]
    least, budget = make.least_bytes(), parse_bytes(make.options["memory_budget"])
    raise BudgetError(
        f"memory_budget={format_bytes(budget)} is too small for the smallest model of {n:,} rows: at least "
        f"{format_bytes(1.01 * least)} is needed. Raise it.",
        least,
    )


def _for_rounds(make: Maker, drawn: IntArray) -> tuple[Maker, Any] | None:
    """Return what makes the rounds' models and their approximation; None where memory holds none.

    Their precision is chosen once: the probe of it would take a tenth of each fit.
    """
    exact = Exact(solver="cholesky")
    if make.source.shape[0] <= EXACT_ROWS and make.fits(exact, drawn):
        return make, exact
    for sizes in ROUND_SIZES:
        approximation = of_sizes(sizes, len(drawn))
        plan = make.plan(approximation, drawn)
        if plan is not None:
            return make.under(tile_dtype=plan.dtype), approximation
    return None
