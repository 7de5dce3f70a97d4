"""Shared base of the two fast models: training data, search, prediction."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, positive_number, whole_number
from gramian._phases import Progress
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, FloatArray, RowsLike
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.answers import finite_values
from gramian.estimator.base import KernelEstimator, is_source
from gramian.estimator.fitting import remove
from gramian.estimator.repeats import repeats_together
from gramian.estimator.rows import checked_rows, checked_values
from gramian.estimator.summaries import Evidence
from gramian.exceptions import InputError
from gramian.fast.cost import (
    Cost,
    batch_rows,
    dummy,
    interpolate_time,
    measure,
    parse_cost,
    product_nanoseconds,
    seconds_per_row,
    timed_batch,
    warn_if_disturbed,
)
from gramian.fast.fidelity import Fidelity, rounded, warn_if_low
from gramian.fast.frames import by_name
from gramian.fast.learning.augmentation import Pool
from gramian.fast.learning.distill import Shape
from gramian.fast.learning.metric import (
    Teacher,
    center_and_spread,
    gradient_outer_product,
    inverse_spread,
    metric_directions,
)
from gramian.fast.learning.training_set import TrainingSet
from gramian.fast.search import FittedShape, ShapeTrainer, linear_shape, search_shapes
from gramian.fast.serving.centering import far_center
from gramian.fast.serving.compiled import single_row
from gramian.fast.serving.flat import FlatPredictor, flatten
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.teachers import check_steady
from gramian.kernels.columns import dense

#: Fraction of the rows held out to choose the shape, and the largest number of them. Small held-out sets are
#: trained on in the end. Chosen by hand.
HELD_OUT, MOST_HELD_OUT = 0.15, 10_000
#: Values of ``learn``: the targets that a fast model is fitted to.
LEARN = ("auto", "teacher", "labels")
DTYPES = ("float32", "float16", "float64")
#: Part of the time limit that the default teacher's fit may take. Chosen by hand.
TEACHER_PART = 0.25
#: Nanoseconds by what was timed in this process. They are kept, so that equal fits choose the same shape
#: however busy the machine is.
_TIMED: dict[tuple[Any, ...], float] = {}

linear_cost = lru_cache(maxsize=256)(product_nanoseconds)


class FastKernelModel(KernelEstimator):
    """Base of the two fast models: training sets, search over shapes, prediction."""

    teacher: Any
    cost: Any
    n_levels: int | None
    n_units: int | None
    n_directions: int | None
    learn: str
    dtype: str
    random_state: Any
    n_jobs: int | None
    time_limit: float | None
    batch_rows: int | None
    verbose: int
    fidelity_: Fidelity

    _learns: tuple[str, ...] = (
        "predictor_",
        "shape_",
        "learned_",
        "validation_score_",
        "fidelity_",
        "_batch",
    )

    def _state(self) -> dict[str, Any]:
        """Return the learned attributes; of the rows for timing only mean and spread, shape (2, d)."""
        return super()._state() | {"_batch": self.feature_moments()}

    def feature_moments(self) -> Float64Array:
        """Return the mean and the deviation of the features, shape (2, d), as float32 rows have them."""
        rows = self._batch
        if rows.dtype == np.float64:  # of a model file
            return np.asarray(rows, np.float64)
        return np.stack([rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)])

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        if np.shape(self._batch) != (2, self.n_features_in_):
            raise ValueError(f"the rows for timing have shape {np.shape(self._batch)}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _sizes(self) -> Shape | None:
        """The shape given by the three size parameters, or None if they are all None."""
        given = (self.n_levels, self.n_units, self.n_directions)
        if all(size is None for size in given):
            return None
        if any(size is None for size in given):
            raise InputError(
                f"n_levels={self.n_levels}, n_units={self.n_units}, n_directions={self.n_directions}: give "
                "all three, or none of them and a cost."
            )
        return Shape(
            whole_number("n_levels", self.n_levels, 0),
            whole_number("n_units", self.n_units, 0),
            whole_number("n_directions", self.n_directions, 1),
        )

    def _dense(self, X: RowsLike, *, reset: bool) -> Float64Array:
        """Return checked rows as a dense array in memory; read them first if X is a row source."""
        dtype = [np.float64, np.float32]
        if not is_source(X):
            return np.asarray(dense(checked_rows(self, X, reset=reset, dtype=dtype)))
        rows = self._matched_source(X, reset=reset).rows(slice(0, X.shape[0]))
        return np.asarray(dense(checked_values(self, rows, reset=reset, dtype=dtype)))

    def _given_teacher(self, X: RowsLike) -> Any:
        """Return the teacher, asked about the columns of X; None if there is none that is fitted."""
        if self.teacher is None or is_unfitted(self.teacher):
            return None
        return by_name(self.teacher, X, Engine(self.n_jobs))

    def _unlabelled(self, X: RowsLike | None) -> Float64Array | None:
        """Return checked rows without labels, or None if none are given."""
        if X is None:
            return None
        if self.learn == "labels":
            raise InputError("unlabelled rows have no effect with learn='labels'. Leave one of them out.")
        return self._dense(X, reset=False).astype(np.float64)

    def _train_teacher(
        self, given: object, rows: Float64Array, values: Float64Array, weights: Array, until: float
    ) -> Teacher:
        """Return the ``given`` teacher, or one trained on rows, values and weights until a time."""
        raise NotImplementedError

    def _score(self, found: Float64Array, held: TrainingSet) -> float:
        """Return how well values found agree with those of held-out rows; higher is better."""
        raise NotImplementedError

    def _compare(self, given: object, found: Float64Array, teacher: Float64Array, held: TrainingSet) -> None:
        """Keep what held-out rows say about the values found and the teacher's."""
        raise NotImplementedError

    def _learn(
        self,
        labelled: TrainingSet,
        given: object,
        progress: Progress,
        groups: Array | None = None,
        unlabelled: Float64Array | None = None,
    ) -> Self:
        """Fit to labelled rows, and to the teacher's values of ``unlabelled`` rows.

        ``given`` is the fitted teacher if there is one; its values are clipped to the bounds of the labelled
        rows. The rows that are not held out contain a row of every group, where each row has a group number.
        """
        start = time.perf_counter()
        seconds = math.inf if self.time_limit is None else positive_number("time_limit", self.time_limit)
        one_of("learn", self.learn, LEARN)
        dtype = np.dtype(one_of("dtype", self.dtype, DTYPES))
        rng = as_generator(self.random_state)
        sizes, cost = self._sizes, parse_cost(self.cost)
        rows, values, weights = labelled.rows, labelled.values, labelled.weights
        (n, d), K = rows.shape, values.shape[1]
        own = self.teacher is None or is_unfitted(self.teacher)  # a fitted one's values tell of no copies

        order = rng.permutation(np.flatnonzero(weights > 0))
        order, repeats = repeats_together(order, as_source(rows), values, told=own)
        held, kept = split_held_out(order, np.zeros(n, np.intp) if groups is None else groups, repeats)
        count = len(held) if len(kept) < len(order) else 0
        judged = labelled.some(held)
        until = start + TEACHER_PART * seconds
        teacher = self._train_teacher(given, rows[kept], values[kept], weights[kept], until)
        check_steady(teacher, rows[kept])
        sets = self._training_sets(labelled, teacher)
        parts = {name: each.some(kept).with_unlabelled(unlabelled) for name, each in sets.items()}

        seen, mass = rows[kept], weights[kept]
        if unlabelled is not None:
            seen = np.concatenate([seen, unlabelled])
            mass = np.concatenate([mass, np.full(len(unlabelled), mass.mean())])
        center, spread = center_and_spread(seen, mass)
        M = gradient_outer_product(teacher, seen, spread, rng)
        Q = metric_directions(M, spread, d) * spread[:, None]
        seed = int(rng.integers(2**32))
        pool = partial(Pool, center=center, spread=spread, Q=Q, seed=seed)
        trainer = ShapeTrainer(
            M,
            {name: pool(part) for name, part in parts.items()},
            {name: each.some(held) for name, each in sets.items()},
            partial(self._score, held=judged),
            seed,
            # One thread trains: the arrays of a leaf are so small that two threads took twice as long as one.
            # The teacher's answers have all threads.
            Engine(1),
            progress,
            start,
            seconds,
        )
        centers = far_center(center, inverse_spread(spread)) is not None
        if sizes is None:
            best, used = self._search(trainer, cost, d, K, centers)
        else:
            best, used = trainer.fitted(sizes), 1.0

        student = best.student
        found = np.asarray(rounded(student.predictor(), dtype, rows[kept])(judged.rows), np.float64)
        self._compare(given, found, teacher(judged.rows), judged)
        if not own:
            self.fidelity_ = replace(self.fidelity_, teacher_saw=True)
            warn_if_low(self.fidelity_, used, self.cost)
        if 2 <= count < MOST_HELD_OUT:  # beyond, the held-out rows are too few to be worth learning from
            until = trainer.until(1.0)
            if best.learned == "teacher" and is_unfitted(self.teacher) and time.perf_counter() < until:
                teacher = self._train_teacher(given, rows[order], values[order], weights[order], until)
                all_rows = self._training_sets(labelled, teacher)["teacher"].some(order)
                more = pool(all_rows.with_unlabelled(unlabelled))
            else:
                more = trainer.pools[best.learned].joined(trainer.held_out[best.learned])
            student = trainer.again(best, more)
        self.predictor_ = student.predictor().astype(dtype)
        self.shape_, self.learned_, self.validation_score_ = best.shape, best.learned, best.score
        self._batch = timed_batch(rows, self._rows_at_a_time(d), np.random.default_rng(0))
        return self

    def _training_sets(self, labelled: TrainingSet, teacher: Teacher) -> dict[str, TrainingSet]:
        """Return the candidate training sets: all rows with the teacher's values, and with the labels."""
        sets = {}
        if self.learn != "labels":
            taught = replace(labelled, teacher=teacher)
            sets["teacher"] = replace(taught, values=taught.asked(labelled.rows))
        if self.learn != "teacher":
            sets["labels"] = labelled
        return sets

    def _search(
        self, trainer: ShapeTrainer, cost: tuple[float, str], d: int, K: int, centers: bool
    ) -> tuple[FittedShape, float]:
        """Return the best fit within the cost, and its part of the cost."""

        def clock(shape: Shape) -> float:
            return self._nanoseconds(shape, d, K, centers)

        product, least = linear_cost(d, K, self._rows_at_a_time(d)), linear_shape(d, K)
        budget, unit = cost
        limit = budget * product if unit == "x" else budget
        if unit == "x" and budget >= 1:
            # The unit "x" is the time of a linear model: noise in a timing must never forbid that model.
            limit = max(limit, clock(least))
        best = search_shapes(limit, clock, trainer)
        warn_if_disturbed(product, product_nanoseconds(d, K, self._rows_at_a_time(d)), self.cost)
        return best, clock(least if best.linear else best.shape) / limit

    def _evidence(self) -> Evidence:
        shape: Shape = self.shape_
        sizes = f"{2**shape.n_levels:,} leaves of {shape.n_units:,} units, {shape.n_directions:,} directions"
        return Evidence(
            sizes=(("shape", sizes), ("learned from", self.learned_)),
            nbytes=self.predictor_.nbytes,
            scores={"validation score": self.validation_score_},
        )

    @property
    def cost_(self) -> Cost:
        """Operations, bytes and nanoseconds a row. Each access measures the time again, on one thread."""
        check_is_fitted(self, "predictor_")
        batch = self._batch
        if batch.dtype == np.float64:  # of a model file: mean and spread of the rows
            shape = (self._rows_at_a_time(batch.shape[1]), batch.shape[1])
            drawn = np.random.default_rng(0).standard_normal(shape, np.float32)
            batch = np.asarray(batch[0] + batch[1] * drawn, np.float32)
        return measure(self._predict_by(self.predictor_), self.predictor_, self.shape_, batch)

    def _predict_by(self, predictor: FastPredictor) -> Callable[[Array], Any]:
        """Return ``predict`` of this model with another predictor, for arrays, on one thread."""
        model: Any = copy(self)
        remove(model, "feature_names_in_")
        model.predictor_, model.n_jobs = predictor, 1
        return model.predict

    def _nanoseconds(self, shape: Shape, n_features: int, n_outputs: int, centers: bool) -> float:
        """Return the nanoseconds a row of ``predict`` with a shape, which centres the rows if asked to."""
        return interpolate_time(shape, lambda one: self._timed(one, n_features, n_outputs, centers))

    def _timed(self, shape: Shape, n_features: int, n_outputs: int, centers: bool) -> float:
        """Return the nanoseconds a row of ``predict`` with a shape, measured once in this process."""
        n, labels = self._rows_at_a_time(n_features), getattr(self, "classes_", np.zeros(0)).dtype
        key = (type(self), labels, shape, n_features, n_outputs, n, centers)
        if key not in _TIMED:
            rng = np.random.default_rng(0)
            predict = self._predict_by(dummy(shape, n_features, n_outputs, rng, centers=centers))
            batch = rng.standard_normal((n, n_features)).astype(np.float32)
            _TIMED[key] = 1e9 * seconds_per_row(predict, batch)
        return _TIMED[key]

    def _rows_at_a_time(self, n_features: int) -> int:
        """Return how many rows a timed batch has."""
        return (
            batch_rows(n_features)
            if self.batch_rows is None
            else whole_number("batch_rows", self.batch_rows, 1)
        )

    def _values(self, X: RowsLike) -> Float64Array:
        return np.asarray(self._answers(X), np.float64)

    def _answers(self, X: RowsLike) -> FloatArray:
        """Return the values (n, outputs) of rows in the predictor's type."""
        if not hasattr(self, "predictor_"):  # ten times faster than check_is_fitted
            check_is_fitted(self, "predictor_")
        plain = self._is_plain(X)
        rows: Any = X if plain else self._dense(X, reset=False)
        found = self.predictor_(rows, Engine(self.n_jobs))
        if plain:
            if np.isfinite(found).all():
                return found
            rows = self._dense(X, reset=False)  # names a missing or an infinite value
        return finite_values(found, rows.__getitem__)

    def _is_plain(self, X: RowsLike) -> bool:
        """Return whether X is an array that needs no check: its values are finite where the answers are."""
        return (
            type(X) is np.ndarray
            and X.dtype in (np.float32, np.float64)
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def _values_of_one(self, x: object) -> Array:
        """Return the values (outputs,) of one row (d,): by compiled loops if numba is installed."""
        if not hasattr(self, "predictor_"):  # ten times faster than check_is_fitted
            check_is_fitted(self, "predictor_")
        return single_row(self.predictor_)(x)

    def flat_predictor(self) -> FlatPredictor:
        """Return the fitted model as a few plain arrays that give decision values or predictions."""
        check_is_fitted(self, "predictor_")
        return flatten(self.predictor_)


def is_unfitted(teacher: BaseEstimator) -> bool:
    """Return whether a teacher is an estimator that has not been fitted."""
    if not isinstance(teacher, BaseEstimator):
        return False
    if hasattr(teacher, "__sklearn_is_fitted__"):  # a pipeline has no attributes of its own
        return not teacher.__sklearn_is_fitted__()
    return not any(name.endswith("_") and not name.startswith("_") for name in vars(teacher))


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
