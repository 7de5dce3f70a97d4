"""Training of one member of a table model: exact or streamed, with the penalty chosen on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes, parse_bytes
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, IntArray
from gramian.exact.exact import Exact
from gramian.exact.penalties import IterativeTrials
from gramian.exceptions import BudgetError
from gramian.metric.learning import Round
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.ridge.streaming import closed, with_penalty
from gramian.search import Judge, Limits, Trials, search
from gramian.tables.model_factory import EXACT_ROWS, EXACT_TOL, TOL_OF_ERROR, ModelFactory, of_sizes
from gramian.tables.time import PACE_ROWS, PACE_SHARE, SUMS_SHARE, Pace, add_in_time, sizes_in_time

#: Sizes of the models that rounds of the metric fit: root, rank and rows of a block (None: the root alone).
ROUND_SIZES = ((300, 100, 650), (100, 0, None))
#: Factors of the search's penalty: more rows want less. One step further is tried so often where an end is
#: best.
FACTORS, FURTHER = (1.0, 1.0 / 3.0), 3
#: Mean squared error of ±1 under which no held row of MOST_HELD can be wrong: nothing is left to choose by.
ENOUGH_OF_CLASSES = 1e-4
#: Least relative residual that the solve of an exact model is asked for.
LEAST_TOL = 1e-6
#: Share of the time left that the first exact model of a part of the rows may take, and by how much the last
#: may take longer than one before it; seconds that a small exact model may take where none are left.
TRIAL_SHARE, LONGER, GRACE = 0.35, 1.5, 0.5
#: Share of the rounds' time that one of their fits may take.
ROUND_SHARE = 0.3
#: From values (held, outputs) and the numbers of the held rows to an error.
HeldLoss = Callable[[Float64Array, IntArray], float]


@dataclass(frozen=True)
class Member:
    """A model of one kernel, with the held rows' values of the one without them.

    ``short`` says what the time did not suffice for ("" where it did).
    """

    model: Any
    values: Float64Array
    short: str = ""
    rounds: tuple[Round, ...] = ()


def enough(factory: ModelFactory) -> float:
    """Return the held-out error that needs no better one."""
    return ENOUGH_OF_CLASSES if factory.kind is KernelRidgeClassifier else 0.0


def for_rounds(factory: ModelFactory, drawn: IntArray) -> tuple[ModelFactory, Any] | None:
    """Return the factory of the rounds' models and their approximation; None where memory holds none.

    Their precision is chosen once: the probe of it would take a tenth of each fit.
    """
    exact = Exact(solver="cholesky")
    if factory.rows.n <= EXACT_ROWS and factory.fits(exact, drawn):
        return factory, exact
    for sizes in ROUND_SIZES:
        approximation = of_sizes(sizes, len(drawn))
        plan = factory.plan(approximation, drawn)
        if plan is not None:
            return factory.under(tile_dtype=plan.dtype), approximation
    return None


def measure_pace(factory: ModelFactory, rest: IntArray, pace: Pace) -> None:
    """Fit small models to some of the rows, and take down how long that took."""
    for most in PACE_ROWS:
        rng = as_generator(factory.options["random_state"])
        drawn = rest if len(rest) <= most else factory.drawn(rest, most, rng)
        found = for_rounds(factory, drawn)
        if found is None:
            return
        small, approximation = found
        plan = small.plan(approximation, drawn) if most > PACE_ROWS[0] else None
        if plan is not None and pace.seconds(plan) > PACE_SHARE * pace.left:
            return
        pace.note(small.fit(small.model(approximation), drawn).plan_)


def rows_in_share(factory: ModelFactory, approximation: Any, rows: IntArray, pace: Pace) -> int:
    """Return to how many of some rows a model can be fitted in a share of the time: others are to follow."""
    plan = factory.plan(approximation, rows)
    expected = 0.0 if plan is None else pace.seconds(plan)
    return (
        len(rows)
        if expected <= ROUND_SHARE * pace.left
        else int(len(rows) * ROUND_SHARE * pace.left / expected)
    )


def all_in_time(factories: list[ModelFactory], rest: IntArray, pace: Pace) -> bool:
    """Tell whether the time suffices for the largest model of each that memory holds."""
    if not pace.limited or len(factories) == 1:
        return True
    expected = 0.0
    for factory in factories:
        whole = factory.exact() if not expected else None
        if whole is not None:
            plan = whole.plan(whole.exactly(), np.arange(whole.rows.n))
            times = len(FACTORS) + 1  # and the last fit
        else:
            plans = (factory.plan(one, rest, streamed=True) for one in factory.approximations)
            plan, times = next((one for one in plans if one is not None), None), 1
        expected += 0.0 if plan is None else times * pace.seconds(plan)
    return expected <= SUMS_SHARE * pace.left


# ---- streamed ------------------------------------------------------------------------------------


def streamed(factory: ModelFactory, held: IntArray, rest: IntArray, loss: HeldLoss, pace: Pace) -> Member:
    """Return the model of all rows from the sums of a part, by which penalties are compared, and the rest.

    With a limit of smaller ranks, and of fewer rows where that does not suffice.
    """
    model, used, smallest = _summed(factory, rest, pace)
    alpha, values = factory.point.alpha, np.zeros((0, 1))
    longest = 0.0
    if len(held):

        def judge(held: IntArray, alpha: float) -> tuple[float, Float64Array]:
            nonlocal longest
            began = time.perf_counter()
            found = factory.values(with_penalty(model, alpha), held)
            longest = max(longest, time.perf_counter() - began)
            return loss(found, held), found

        def more() -> bool:
            # Beside one more, the last solve and the held rows' sums.
            return not pace.limited or pace.left > (2.0 + LONGER) * longest

        alpha, values = _best_penalty(judge, held, alpha, enough(factory), more)
        factory.add(model.set_params(alpha=alpha), held)
    closed(model)
    short = "the smallest model was fitted" if smallest else ""
    if used < len(rest):
        n = len(rest) + len(held)
        rows = f"{used + len(held):,} of {n:,} rows"
        short = f"{short or 'the model was fitted'} to {rows}"
        model.plan_ = replace(model.plan_, reason=f"{rows}, drawn at random, to suit time_limit")
    return Member(model, values, short)


def _summed(factory: ModelFactory, rest: IntArray, pace: Pace) -> tuple[Any, int, bool]:
    """Return a model of the largest sizes that memory and time allow, with the sums of the first part.

    Beside it, how many rows that part has, and whether its sizes are the least.
    """
    if pace.limited:
        quick, approximation, rows = sizes_in_time(factory, rest, pace)
        model = quick.model(approximation)
        with suppress(BudgetError):  # something smaller may fit; else the error below says what is needed
            used = add_in_time(quick, model, rows, pace)
            return model, used, approximation.n_levels == 1 and len(factory.approximations) > 1
    for approximation in factory.approximations:
        model = factory.model(approximation)
        try:
            model.plan(factory.rows.source, factory.rows.targets)
            # A stream holds more than a fit, and says so before it begins.
            factory.add(model, rest)
        except BudgetError:
            continue
        return model, len(rest), False
    n = factory.rows.n
    least, budget = factory.least_bytes(), parse_bytes(factory.options["memory_budget"])
    raise BudgetError(
        f"memory_budget={format_bytes(budget)} is too small for the smallest model of {n:,} rows: at least "
        f"{format_bytes(1.01 * least)} is needed. Raise it.",
        least,
    )


# ---- exact ---------------------------------------------------------------------------------------


def exact(factory: ModelFactory, held: IntArray, rest: IntArray, loss: HeldLoss, pace: Pace) -> Member | None:
    """Return the exact model of all rows, after one of a part of them for each penalty.

    None where memory or time is too short for it.
    """
    whole = factory.exact()
    if whole is None:
        return None
    factory = whole
    every = np.arange(factory.rows.n)
    direct = len(every) <= EXACT_ROWS
    last = 0.0  # seconds that the last fit is expected to take
    if pace.limited:
        plan = factory.plan(factory.exactly(), every)
        last = np.inf if plan is None else pace.seconds(plan)
        if 2.0 * last > (max(pace.left, GRACE) if direct else pace.left):
            return None
    alpha, values, tol = factory.point.alpha, np.zeros((0, 1)), EXACT_TOL
    if len(held):
        trials = factory.trials(rest, held)
        longest = 0.0

        def judge(held: IntArray, alpha: float) -> tuple[float, Float64Array]:
            nonlocal tol, longest
            if not direct and factory.options["tile_dtype"] == "float32" and alpha < factory.least_float32:
                return np.inf, np.zeros((0, 1))
            began = time.perf_counter()
            if isinstance(trials, IterativeTrials) and pace.limited:
                trials.until, trials.cut = began + TRIAL_SHARE * pace.left, False
            found = trials.values(alpha)
            if isinstance(trials, IterativeTrials) and factory.kind is KernelRidge and not trials.cut:
                # What the solve leaves must not show in the error.
                finer = max(LEAST_TOL, TOL_OF_ERROR * _relative_error(factory.rows.targets[held], found))
                if finer < trials.tol:
                    tol = trials.tol = finer
                    found = trials.values(alpha)
            longest = max(longest, time.perf_counter() - began)
            return (loss(found, held) if np.isfinite(found).all() else np.inf), found

        def more() -> bool:
            if not pace.limited:
                return True
            reserve = last if direct else longest * LONGER * (len(every) / len(rest)) ** 2
            return pace.left > LONGER * (longest + reserve)

        alpha, values = _best_penalty(judge, held, alpha, enough(factory), more)
        if isinstance(trials, IterativeTrials) and trials.cut and pace.limited:
            return None  # the last fit would take longer still
        del trials
    model = factory.model(factory.exactly(tol, max(pace.left, GRACE) if pace.limited else None))
    model.alpha = alpha
    return Member(factory.fit(model, every), values)


def _relative_error(y: Array, values: Float64Array) -> float:
    """Return ‖values − y‖/‖y − mean y‖ of numbers; 1 where y is constant."""
    wanted = np.asarray(y, np.float64).reshape(values.shape)
    size = float(np.linalg.norm(wanted - wanted.mean(axis=0)))
    return float(np.linalg.norm(values - wanted)) / size if size > 0 else 1.0


def _best_penalty(
    judge: Judge[IntArray, float, Float64Array],
    held: IntArray,
    start: float,
    enough: float,
    more: Callable[[], bool],
) -> tuple[float, Float64Array]:
    """Return the best of some penalties and the held rows' values with it, going on where an end is best.

    An error of ``enough`` ends it, and ``more``, which tells whether there is time for another.
    """

    def penalties(found: Trials[float, Float64Array]) -> Iterator[list[float]]:
        tried: list[float] = []
        todo = [factor * start for factor in FACTORS]
        while todo and (not tried or more()):
            found.drain()  # the values of all but the best
            tried.append(todo.pop(0))
            yield tried[-1:]
            best = None if found.best is None else found.best.candidate
            if best is None or todo or len(tried) >= len(FACTORS) + FURTHER:
                continue
            if best in (min(tried), max(tried)):
                todo = [best / 3.0 if best == min(tried) else best * 3.0]

    found = search(held, penalties, judge, Limits(enough=enough))
    best = found.best or found.made[-1]
    return best.candidate, best.evidence
