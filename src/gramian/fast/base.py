"""Shared base of the two fast models: checked rows and parameters, cost, prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, positive_number, whole_number
from gramian._phases import Progress
from gramian._typing import Array, Float64Array, FloatArray, RowsLike
from gramian.engine import Engine
from gramian.estimator.answers import finite_values
from gramian.estimator.base import KernelEstimator, is_source
from gramian.estimator.fitting import remove
from gramian.estimator.rows import checked_rows, checked_values
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import InputError
from gramian.fast.cost import (
    Cost,
    batch_rows,
    dummy,
    interpolate_time,
    measure,
    parse_cost,
    random_batch,
    seconds_per_row,
    warn_if_missed,
)
from gramian.fast.fidelity import Fidelity
from gramian.fast.fit import FastFit, FastPlan, Teach, fit_fast
from gramian.fast.learning.distill import Shape
from gramian.fast.learning.training_set import TrainingSet
from gramian.fast.serving.compiled import single_row
from gramian.fast.serving.flat import FlatPredictor, flatten
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.teachers import by_name
from gramian.kernels.columns import dense

#: Values of ``learn``: the targets that a fast model is fitted to.
LEARN = ("auto", "teacher", "labels")
DTYPES = ("float32", "float16", "float64")
#: Nanoseconds by what was timed in this process. They are kept, so that equal fits choose the same shape
#: however busy the machine is.
_TIMED: dict[tuple[Any, ...], float] = {}


class FastKernelModel(KernelEstimator):
    """Base of the two fast models: checked rows, the plan of a fit, cost, prediction."""

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
        rows = self._rows(X, reset=reset).rows(slice(0, X.shape[0]))
        return np.asarray(dense(checked_values(self, rows, reset=reset, dtype=dtype)))

    def _given_teacher(self, X: RowsLike) -> Any:
        """Return the teacher of rows with the columns of X; None if there is none that is fitted."""
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

    def _plan(self, n_features: int) -> FastPlan:
        """Return what a fit to rows of so many features does, from the checked parameters."""
        given = self.teacher
        return FastPlan(
            sizes=self._sizes,
            cost=self.cost,
            budget=parse_cost(self.cost),
            learn=one_of("learn", self.learn, LEARN),
            teacher="default" if given is None else "unfitted" if is_unfitted(given) else "fitted",
            dtype=np.dtype(one_of("dtype", self.dtype, DTYPES)),
            seconds=math.inf if self.time_limit is None else positive_number("time_limit", self.time_limit),
            batch_rows=self._rows_at_a_time(n_features),
            random_state=self.random_state,
        )

    def _learn(
        self, labelled: TrainingSet, unlabelled: RowsLike | None, teach: Teach, progress: Progress
    ) -> FastFit:
        """Fit to labelled rows, and to the teacher's values of ``unlabelled`` ones; keep the predictor."""
        plan, further = self._plan(labelled.rows.shape[1]), self._unlabelled(unlabelled)
        clock = partial(self._nanoseconds, labelled.rows.shape[1], labelled.values.shape[1])
        fit = fit_fast(labelled, further, plan, teach, clock, progress)
        self.predictor_, self.shape_, self.learned_ = fit.predictor, fit.shape, fit.learned
        self.validation_score_, self.fidelity_ = fit.score, fit.fidelity
        drawn = np.random.default_rng(0).integers(len(labelled.rows), size=plan.batch_rows)
        self._batch = np.asarray(labelled.rows[drawn], np.float32)
        if plan.sizes is None and not fit.shape.linear:  # nothing is cheaper than a linear model
            warn_if_missed(self.cost_, plan.budget, plan.cost)
        return fit

    def _evidence(self) -> FitFacts:
        shape: Shape = self.shape_
        sizes = f"{2**shape.n_levels:,} leaves of {shape.n_units:,} units, {shape.n_directions:,} directions"
        return FitFacts(
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
            d = batch.shape[1]
            drawn = random_batch(self._rows_at_a_time(d), d)
            batch = np.asarray(batch[0] + batch[1] * drawn, np.float32)
        return measure(self._predict_by(self.predictor_), self.predictor_, self.shape_, batch)

    def _predict_by(self, predictor: FastPredictor) -> Callable[[Array], Any]:
        """Return ``predict`` of this model with another predictor, for arrays, on one thread."""
        model: Any = copy(self)
        remove(model, "feature_names_in_")
        model.predictor_, model.n_jobs = predictor, 1
        return model.predict

    def _nanoseconds(self, n_features: int, n_outputs: int, centers: bool, shape: Shape) -> float:
        """Return the nanoseconds a row of ``predict`` with a shape; ``centers``: and of centring rows."""
        return interpolate_time(shape, partial(self._timed, n_features, n_outputs, centers))

    def _timed(self, n_features: int, n_outputs: int, centers: bool, shape: Shape) -> float:
        """Return the nanoseconds a row of ``predict`` with a shape, measured once in this process."""
        n, labels = self._rows_at_a_time(n_features), getattr(self, "classes_", np.zeros(0)).dtype
        key = (type(self), labels, shape, n_features, n_outputs, n, centers)
        if key not in _TIMED:
            made = dummy(shape, n_features, n_outputs, np.random.default_rng(0), centers=centers)
            seconds = seconds_per_row(self._predict_by(made), random_batch(n, n_features))
            _TIMED[key] = 1e9 * seconds
        return _TIMED[key]

    def _rows_at_a_time(self, n_features: int) -> int:
        """Return how many rows a timed batch has."""
        if self.batch_rows is None:
            return batch_rows(n_features)
        return whole_number("batch_rows", self.batch_rows, 1)

    def _values(self, X: RowsLike) -> Float64Array:
        return np.asarray(self._answers(X), np.float64)

    def _answers(self, X: RowsLike) -> FloatArray:
        """Return the values (n, outputs) of rows in the predictor's type."""
        if not hasattr(self, "predictor_"):  # ten times faster than check_is_fitted
            check_is_fitted(self, "predictor_")
        plain = self._is_plain(X)
        rows: Any = X if plain else self._dense(X, reset=False)
        values = self.predictor_(rows, Engine(self.n_jobs))
        if plain:
            if np.isfinite(values).all():
                return values
            rows = self._dense(X, reset=False)  # names a missing or an infinite value
        return finite_values(values, rows.__getitem__)

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
