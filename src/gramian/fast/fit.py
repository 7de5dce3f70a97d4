"""A fit of a fast model: a plan that can be printed, and the function that carries it out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gramian._numerics import unit_roundoff
from gramian._phases import Progress
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, RandomState
from gramian.data.source import as_source
from gramian.estimator.answers import likeliest, overflowing
from gramian.estimator.repeats import repeats_together
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.fast.cost import product_nanoseconds
from gramian.fast.fidelity import Fidelity, explained_variance, same_class, warn_if_low
from gramian.fast.learning.distill import Shape
from gramian.fast.learning.metric import Teacher, center_and_spread, gradient_outer_product, metric_directions
from gramian.fast.learning.training_set import Pool, TrainingSet
from gramian.fast.search import FittedShape, ShapeTrainer, linear_shape, search_shapes
from gramian.fast.serving.predictor import FastPredictor, far_center
from gramian.fast.teachers import check_steady

#: Fraction of the rows held out to choose the shape, and the largest number of them. Small held-out sets are
#: trained on in the end. Chosen by hand.
HELD_OUT, MOST_HELD_OUT = 0.15, 10_000
#: Part of the time limit that the default teacher's fit may take. Chosen by hand.
TEACHER_PART = 0.25
#: Change of the values by rounding, in units of their deviation, from which a fit warns; number of rows that
#: are looked at. Chosen by hand.
MOST_ROUNDING, ROUNDED_ROWS = 0.01, 1_000

#: Function from training rows and a time (``time.perf_counter``) by which to end to a teacher.
Teach = Callable[[TrainingSet, float], Teacher]
#: Function from whether the rows are centred, and a shape, to the nanoseconds a row of ``predict``.
ModelClock = Callable[[bool, Shape], float]


@dataclass(frozen=True)
class FastPlan:
    """Settings of a fit of a fast model, checked and complete; nothing is learned yet.

    sizes : the shape that is fitted; None if the search chooses it within the budget.
    cost : the budget as the user gave it; budget : its number and unit, "x" or "ns".
    learn : "teacher", "labels" or "auto", which tries both.
    teacher : "default" or "unfitted" if the fit trains it; "fitted" if it may have seen the rows.
    dtype : of the stored numbers; seconds : time limit; batch_rows : rows of a timed batch.
    """

    sizes: Shape | None
    cost: str | float
    budget: tuple[float, str]
    learn: str
    teacher: str
    dtype: np.dtype[np.floating]
    seconds: float
    batch_rows: int
    random_state: RandomState


@dataclass(frozen=True, eq=False)
class FastFit:
    """A fitted predictor, and how it did on the held-out rows.

    score : accuracy or R² to the labels of the held-out rows; fidelity : agreement with the teacher there.
    held_out : these rows with their labels; outputs : the values found for them, (rows, outputs). The
    predictor may have learned them after that.
    """

    predictor: FastPredictor
    shape: Shape
    learned: str
    score: float
    fidelity: Fidelity
    held_out: TrainingSet
    outputs: Float64Array


def fit_fast(
    labelled: TrainingSet,
    unlabelled: Float64Array | None,
    plan: FastPlan,
    teach: Teach,
    clock: ModelClock,
    progress: Progress,
) -> FastFit:
    """Fit to labelled rows, and to the teacher's values of ``unlabelled`` rows.

    The teacher's values are clipped to the bounds of the labelled rows. The rows that are not held out
    contain a row of every class. A teacher that the fit trains is trained again, with the held-out rows.
    """
    start, rng = time.perf_counter(), as_generator(plan.random_state)
    order, held, kept = _split(labelled, plan, rng)
    training, held_out = labelled.some(kept), labelled.some(held)
    teacher = teach(training, start + TEACHER_PART * plan.seconds)
    check_steady(teacher, training.rows)
    sets = _training_sets(labelled, plan.learn, teacher)
    parts = {name: each.some(kept).with_unlabelled(unlabelled) for name, each in sets.items()}

    first = next(iter(parts.values()))
    center, spread = center_and_spread(first.rows, first.weights)
    M = gradient_outer_product(teacher, first.rows, spread, rng)
    Q = metric_directions(M, spread, len(M)) * spread[:, None]
    seed = int(rng.integers(2**32))
    trainer = ShapeTrainer(
        M,
        {name: Pool(part, center, spread, Q, seed) for name, part in parts.items()},
        {name: each.some(held) for name, each in sets.items()},
        held_out,
        seed,
        progress,
        start,
        plan.seconds,
    )
    best, used = _best_shape(plan, trainer, clock)

    stored = round_numbers(best.student.predictor(), plan.dtype, training.rows)
    outputs = np.asarray(stored(held_out.rows), np.float64)
    agreement = same_class if labelled.classifies else explained_variance
    fidelity = agreement(outputs, teacher(held_out.rows), held_out.weights)
    if plan.teacher == "fitted":
        fidelity = replace(fidelity, teacher_saw=True)
        warn_if_low(fidelity, used, plan.cost)

    student = best.student
    # Beyond MOST_HELD_OUT the held-out rows are too few to be worth learning from.
    if len(kept) < len(order) and len(held) < MOST_HELD_OUT:
        deadline = trainer.deadline(1.0)
        if best.learned == "teacher" and plan.teacher == "unfitted" and time.perf_counter() < deadline:
            teacher = teach(labelled.some(order), deadline)
            everything = _training_sets(labelled, "teacher", teacher)["teacher"].some(order)
            pool = Pool(everything.with_unlabelled(unlabelled), center, spread, Q, seed)
        else:
            pool = trainer.pools[best.learned].joined(trainer.held_out[best.learned])
        student = trainer.refit(best, pool)
    predictor = student.predictor().astype(plan.dtype)
    return FastFit(predictor, best.shape, best.learned, best.score, fidelity, held_out, outputs)


def _split(labelled: TrainingSet, plan: FastPlan, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return the numbers of all rows that count, in random order, of the held-out rows and of the others."""
    order = rng.permutation(np.flatnonzero(labelled.weights > 0))
    warns = plan.teacher != "fitted"  # whose values say nothing about copies
    order, repeats = repeats_together(order, as_source(labelled.rows), labelled.values, warn=warns)
    groups = likeliest(labelled.values) if labelled.classifies else np.zeros(len(labelled.rows), np.intp)
    return order, *split_held_out(order, groups, repeats)


def split_held_out(order: Array, groups: Array, repeats: Array) -> tuple[Array, Array]:
    """Split rows into held-out rows and training rows; with too few rows, return all of them as both.

    The first rows of ``order`` are held out, without parting neighbours of one number in ``repeats``. If a
    group had no training row, the last row of every group is kept for training.
    """
    count = min(MOST_HELD_OUT, round(HELD_OUT * len(order)))
    while count > 2 and repeats[count] == repeats[count - 1]:
        count -= 1
    held, kept = order[:count], order[count:]
    if len(np.unique(groups[kept])) < len(np.unique(groups[order])):
        last = len(order) - 1 - np.unique(groups[order[::-1]], return_index=True)[1]
        free = ~np.isin(repeats, repeats[last])
        held = order[free][:count]
        kept = order[~np.isin(order, held)]
    return (held, kept) if len(held) >= 2 else (order, order)


def _training_sets(labelled: TrainingSet, learn: str, teacher: Teacher) -> dict[str, TrainingSet]:
    """Return the candidate training sets: all rows with the teacher's values, and with the labels."""
    sets = {} if learn == "teacher" else {"labels": labelled}
    if learn == "labels":
        return sets
    own = replace(labelled, teacher=teacher)
    return {"teacher": replace(own, values=own.teacher_values(own.rows)), **sets}


def _best_shape(plan: FastPlan, trainer: ShapeTrainer, clock: ModelClock) -> tuple[FittedShape, float]:
    """Return the fit of the planned sizes, or the best one within the cost, and its part of the cost."""
    if plan.sizes is not None:
        return trainer.fit(plan.sizes), 1.0
    pool = next(iter(trainer.pools.values()))
    d, K = pool.own.rows.shape[1], pool.own.values.shape[1]
    timed = partial(clock, far_center(pool.center, pool.inverse) is not None)
    product, least = product_nanoseconds(d, K, plan.batch_rows), linear_shape(d, K)
    budget, unit = plan.budget
    limit = budget * product if unit == "x" else budget
    if unit == "x" and budget >= 1:
        # The unit "x" is the time of a linear model: noise in a timing must never forbid that model.
        limit = max(limit, timed(least))
    best = search_shapes(limit, timed, trainer)
    return best, timed(least if best.shape.linear else best.shape) / limit


def round_numbers(
    predictor: FastPredictor, dtype: np.dtype[np.floating], rows: Float64Array
) -> FastPredictor:
    """Return a predictor with numbers of a type; warn if that changes the values of training rows much.

    The projection holds one over the deviation of a feature, which float16 rounds to few digits or to
    infinity where features are very large or very small. Raises ``InputError`` if the numbers overflow.
    """
    rows = rows[:ROUNDED_ROWS]
    exact = predictor(rows)
    with overflowing():
        stored = predictor.astype(dtype)
        change = np.sqrt(np.mean(np.square(exact - stored(rows)), axis=0))
    allowed = np.maximum(MOST_ROUNDING * exact.std(axis=0), unit_roundoff(dtype) * np.abs(exact).max())
    if (change <= allowed).all():
        return stored
    deviations = rows.std(axis=0)
    sizes = np.log(deviations, where=deviations > 0, out=np.zeros(len(deviations)))
    j = int(np.abs(sizes).argmax())
    finite = np.isfinite(change).all()
    text = (
        f"Numbers of type {dtype} "
        + (f"change the values by more than {MOST_ROUNDING:.0%} of their deviation" if finite else "overflow")
        + f" on the training rows. The deviation of feature {j} (from 0) is furthest from 1: it is "
        f"{deviations[j]:.3g}. Scale such features in all rows, or pass dtype='float64'."
    )
    if not finite:
        raise InputError(text)
    warnings.warn(text, AccuracyWarning, stacklevel=user_level())
    return stored
