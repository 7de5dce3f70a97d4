"""Training of one member of a table model: exact or streamed, with the penalty chosen on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.approximations.setup import FitSetup
from gramian.data.source import ArraySource
from gramian.exact.penalties import IterativeTrials
from gramian.exceptions import BudgetError
from gramian.metric.learning import Round
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import plan_ridge
from gramian.ridge.streaming import RidgeStream
from gramian.search import Split
from gramian.tables.importance.unseen import ExactUnseen, FoldsUnseen, Unseen
from gramian.tables.training.gain import FACTORS, HeldLoss, best_penalty
from gramian.tables.training.logistic import LogisticPart, with_logistic
from gramian.tables.training.model_factory import EXACT_TOL, TOL_OF_ERROR, ModelFactory
from gramian.tables.training.time import SUMS_SHARE, TimeEstimate, sizes_in_time, sum_in_time

#: Smallest relative residual to which an exact model is ever solved. Chosen by hand.
LEAST_TOL = 1e-6
#: Largest share of the remaining time for each exact model of a part of the rows; safety factor on the time
#: of the next fit; seconds that a small exact model may take even if no time is left. Chosen by hand.
TRIAL_SHARE, LONGER, GRACE = 0.35, 1.5, 0.5
#: A logistic model is fitted under a time limit if at least so many times the seconds of a ridge model of a
#: part of the rows are left. Chosen by hand.
LOGISTIC_TIMES = 10.0
#: Coefficients (n, outputs) and offset (outputs,) of a model.
Solved = tuple[Float64Array, Float64Array]


@dataclass(frozen=True)
class Member:
    """A model with one kernel, and the values of rows from models without them.

    ``setup`` is what the model was trained with, ``rounds`` those that learned its metric. ``held`` are the
    numbers of these rows: the held-out rows, or all rows of a small table. ``logistic`` is the logistic model
    beside an exact model of classes. ``short`` says what there was no time for ("" if there was time for
    all). ``unseen`` are the models behind the values, None if no row is held out.
    """

    model: KernelModel
    setup: FitSetup
    held: IntArray
    values: Float64Array
    rounds: tuple[Round, ...] = ()
    logistic: LogisticPart | None = None
    unseen: Unseen | None = None
    short: str = ""

    def narrow(self, held: IntArray) -> Member:
        """Return this member with the values of these rows only."""
        places, part = np.searchsorted(self.held, held), self.logistic
        part = None if part is None else replace(part, values=part.values[places])
        return replace(self, held=held, values=self.values[places], logistic=part)


def all_in_time(factories: Sequence[ModelFactory], rest: IntArray, timing: TimeEstimate) -> bool:
    """Return whether there is time for the largest model of each factory that memory holds."""
    if not timing.limited or len(factories) == 1:
        return True
    expected = 0.0
    for factory in factories:
        whole = factory.exact_factory() if not expected else None
        if whole is not None:
            plan = whole.plan(whole.exact_solver(), np.arange(whole.rows.n))
            times = len(FACTORS) + 1  # one fit for each penalty, and the last fit
        else:
            plans = (factory.plan(one, rest, streamed=True) for one in factory.approximations)
            plan, times = next((one for one in plans if one is not None), None), 1
        expected += 0.0 if plan is None else times * timing.seconds(plan)
    return expected <= SUMS_SHARE * timing.left


# ---- streamed ------------------------------------------------------------------------------------


def stream_model(factory: ModelFactory, split: Split, loss: HeldLoss, timing: TimeEstimate) -> Member:
    """Return the model of all rows: penalties are compared on held-out rows, which are then added.

    Under a time limit the ranks are smaller, and if that does not suffice, fewer rows are used.
    """
    held, rest = split.held_out, split.train
    stream, used, smallest = _sum_first_part(factory, rest, timing)
    alpha, values = factory.point.alpha, np.zeros((0, 1))
    longest, least, best = 0.0, np.inf, None
    if len(held):

        def judge(held: IntArray, alpha: float) -> tuple[float, Float64Array]:
            nonlocal longest, least, best
            began = time.perf_counter()
            tried = stream.with_penalty(alpha)
            answers = factory.values(tried, held)
            longest, error = max(longest, time.perf_counter() - began), loss(answers, held)
            if best is None or error < least:

                def answer(some: Array) -> Float64Array:
                    return tried.values(ArraySource(some), factory.resources.engine)

                least, best = error, FoldsUnseen((held,), (answer,))
            return error, answers

        def more() -> bool:
            # Besides one more penalty, the last solve and the sums of the held-out rows need time.
            return not timing.limited or timing.left > (2.0 + LONGER) * longest

        alpha, values = best_penalty(judge, held, alpha, factory.enough, more)
        stream = factory.add(stream, held, alpha)
    # The plan was made before the held-out rows were added.
    plan = replace(stream.solved.plan, n_rows=used + len(held))
    short = "the smallest model was fitted" if smallest else ""
    if used < len(rest):
        rows = f"{used + len(held):,} of {len(rest) + len(held):,} rows"
        short = f"{short or 'the model was fitted'} to {rows}"
        plan = replace(plan, reason=f"{rows}, drawn at random, to suit time_limit")
    model = replace(stream.solved, plan=plan)
    return Member(model, stream.setup, held, values, factory.rounds, short=short, unseen=best)


def _sum_first_part(
    factory: ModelFactory, rest: IntArray, timing: TimeEstimate
) -> tuple[RidgeStream, int, bool]:
    """Return a stream of the largest possible sizes, with the sums of the first part of the rows.

    Memory and time limit the sizes. Also return that part's rows, and whether the sizes are the smallest.
    """
    if timing.limited:
        quick, approximation, rows = sizes_in_time(factory, rest, timing)
        with suppress(BudgetError):  # something smaller may fit; else the error below says what is needed
            stream, used = sum_in_time(quick, approximation, rows, timing)
            return stream, used, approximation.n_levels == 1 and len(factory.approximations) > 1
    for approximation in factory.approximations:
        setup = factory.setup(approximation)
        try:
            plan_ridge(setup, factory.rows.source, factory.rows.n_outputs)
            # A streamed fit needs more memory than a fit at once, and raises before it begins.
            return factory.add(RidgeStream.of(setup), rest), len(rest), False
        except BudgetError:
            continue
    raise factory.too_small()


def fit_exact(first: ModelFactory, split: Split, loss: HeldLoss, timing: TimeEstimate) -> Member | None:
    """Return the exact model of all rows, with a penalty chosen by exact models of a part of them.

    None if memory or time is too short for it.
    """
    factory = first.exact_factory()
    if factory is None:
        return None
    held, rest = split.held_out, split.train
    rows, every, direct = factory.rows, np.arange(factory.rows.n), factory.direct
    last = 0.0  # seconds that the last fit is expected to take
    if timing.limited:
        plan = factory.plan(factory.exact_solver(), every)
        last = np.inf if plan is None else timing.seconds(plan)
        if 2.0 * last > (max(timing.left, GRACE) if direct else timing.left):
            return None
    alpha, values, tol = factory.point.alpha, np.zeros((0, 1)), EXACT_TOL
    longest, solved = 0.0, dict[float, Solved]()
    if len(held):
        trials = factory.trials(rest, held)

        def judge(held: IntArray, alpha: float) -> tuple[float, Float64Array]:
            nonlocal tol, longest
            if not direct and factory.resources.tile_dtype == "float32" and alpha < factory.least_float32:
                return np.inf, np.zeros((0, 1))
            began = time.perf_counter()
            if isinstance(trials, IterativeTrials) and timing.limited:
                trials.deadline, trials.cut = began + TRIAL_SHARE * timing.left, False
            answers = trials.values(alpha)
            if isinstance(trials, IterativeTrials) and not factory.classifies and not trials.cut:
                # The solver's residual must be too small to affect the held-out error.
                wanted = rows.targets.part(held)[slice(0, len(held))]
                size = float(np.linalg.norm(wanted - wanted.mean(axis=0)))
                error = float(np.linalg.norm(answers - wanted)) / size if size > 0 else 1.0
                finer = max(LEAST_TOL, TOL_OF_ERROR * error)
                if finer < trials.tol:
                    tol = trials.tol = finer
                    answers = trials.values(alpha)
            longest = max(longest, time.perf_counter() - began)
            if trials.solved is not None:
                solved[alpha] = trials.solved
            return (loss(answers, held) if np.isfinite(answers).all() else np.inf), answers

        def more() -> bool:
            reserve = last if direct else longest * LONGER * (len(every) / len(rest)) ** 2
            return not timing.limited or timing.left > LONGER * (longest + reserve)

        alpha, values = best_penalty(judge, held, alpha, factory.enough, more)
        if isinstance(trials, IterativeTrials) and trials.cut and timing.limited:
            return None  # the last fit has more rows and would take even longer
        del trials
    method = factory.exact_solver(tol, max(timing.left, GRACE) if timing.limited else None)
    setup = replace(factory.setup(method), alpha=alpha)
    model, unseen, point = factory.fit(setup, every), None, factory.point
    if alpha in solved:
        coefficients, offset = solved[alpha]
        unseen = ExactUnseen(
            point.kernel_of(),
            point.metric,
            rows.source,
            np.intersect1d(rows.counted, rest),
            (held,),
            coefficients[:, None],
            offset[None],
            factory.resources.engine,
        )
    if not len(held) or (timing.limited and timing.left < LOGISTIC_TIMES * longest):
        return Member(model, setup, held, values, factory.rounds, unseen=unseen)
    folded = factory.effort.leaves_out_all(len(rows.counted)) and not timing.limited
    found = with_logistic(factory, model, alpha, held, values, unseen, folded=folded)
    held, values, logistic, unseen = found
    return Member(model, setup, held, values, factory.rounds, logistic, unseen)
