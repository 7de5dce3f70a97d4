"""Fast kernel models: learned kernel units in the leaves of a shallow tree, for a cost that is asked for."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian._random import as_generator
from gramian._typing import Array, Float64Array
from gramian.engine import Engine
from gramian.estimators.approximation import one_of
from gramian.estimators.base import checked_weights, required_target, whole_number
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.targets import ClassTargets, NumberTargets
from gramian.estimators.teachers import CLIP, class_teacher, number_teacher
from gramian.exceptions import InputError
from gramian.fast.compiled import available, one_row, single_row
from gramian.fast.cost import Cost, measure, parse_cost, timed_batch
from gramian.fast.distill import Lesson, Shape
from gramian.fast.flat import FlatPredictor, flatten
from gramian.fast.metric import Teacher, gradient_outer_product
from gramian.fast.search import Candidate, Trial, linear_cost, search
from gramian.kernels import Gaussian
from gramian.kernels.columns import dense

#: Held-out part of the rows, and rows of it at most.
HELD_OUT, MOST_HELD_OUT = 0.15, 10_000
#: What may be learned from.
LEARN = ("auto", "teacher", "labels")
DTYPES = ("float32", "float16", "float64")
#: Bandwidths over the median squared distance, and penalties, that the default teacher is chosen among, and
#: rows that they are compared on.
TEACHER_GAMMAS, TEACHER_ALPHAS, TEACHER_ROWS = (0.3, 1.0, 3.0, 10.0), (1e-3, 0.1), 4_000


class FastKernelModel(BaseEstimator):
    """Base of the two fast models: lessons, search, prediction."""

    teacher: Any
    cost: Any
    n_levels: int | None
    n_units: int | None
    n_directions: int | None
    learn: str
    dtype: str
    random_state: Any
    n_jobs: int | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _sizes(self) -> Shape | None:
        """The sizes that were given: all three of them, or none."""
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

    def _dense(self, X: Any, *, reset: bool) -> Float64Array:
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        return np.asarray(dense(checked))

    def _learn(self, rows: Float64Array, values: Float64Array, weights: Array | None) -> Self:
        one_of("learn", self.learn, LEARN)
        one_of("dtype", self.dtype, DTYPES)
        rng, engine = as_generator(self.random_state), Engine(self.n_jobs)
        shape, (budget, unit) = self._sizes, parse_cost(self.cost)
        rows = rows.astype(np.float64)
        n, d = rows.shape
        weights = np.ones(n) if weights is None else weights
        order = rng.permutation(np.flatnonzero(weights > 0))
        count = min(MOST_HELD_OUT, round(HELD_OUT * len(order)))
        held, kept = (order[:count], order[count:]) if count >= 2 else (order, order)
        teacher = self._teacher(rows[kept], values[kept], weights[kept])
        spread = rows[kept].std(axis=0)
        M = gradient_outer_product(teacher, rows[kept], spread, rng)
        lessons = self._lessons(rows[kept], values[kept], weights[kept], teacher)

        def score(found: Float64Array) -> float:
            return self._score(found, values[held], weights[held])

        if shape is None:
            limit = budget * linear_cost(d, values.shape[1]) if unit == "x" else budget
            best = search(lessons, M, spread, limit, rows[held], score, rng, engine)
        else:
            best = self._given(shape, lessons, M, spread, rows[held], score, rng, engine)
        self.predictor_ = best.predictor.astype(np.dtype(self.dtype))
        self.shape_, self.learned_, self.validation_score_ = best.shape, best.lesson, best.score
        self._batch = timed_batch(rows, np.random.default_rng(0))
        return self

    def _given(
        self,
        shape: Shape,
        lessons: dict[str, Lesson],
        M: Float64Array,
        spread: Float64Array,
        held_out: Float64Array,
        score: Any,
        rng: np.random.Generator,
        engine: Engine,
    ) -> Candidate:
        trial = Trial(M, spread, held_out, score, int(rng.integers(2**32)), engine)
        found = [trial.candidate(lesson, name, shape) for name, lesson in lessons.items()]
        return max(found, key=lambda one: one.score)

    def _lessons(
        self, rows: Float64Array, values: Float64Array, weights: Array, teacher: Teacher
    ) -> dict[str, Lesson]:
        bounds = self._bounds
        lessons = {}
        if self.learn in ("auto", "teacher"):
            taught = teacher(rows)
            if bounds != (None, None):
                taught = np.clip(taught, *bounds)
            lessons["teacher"] = Lesson(rows, taught, weights, teacher, *bounds)
        if self.learn in ("auto", "labels"):
            lessons["labels"] = Lesson(rows, values, weights, None, *bounds)
        return lessons

    @property
    def cost_(self) -> Cost:
        """Operations, bytes and measured nanoseconds a row; measured anew at each call, on one thread."""
        check_is_fitted(self, "predictor_")
        return measure(self.predictor_, self.shape_, self._batch)

    def _values(self, X: Any) -> Float64Array:
        check_is_fitted(self, "predictor_")
        found = self.predictor_(self._dense(X, reset=False), Engine(self.n_jobs))
        return np.asarray(found, np.float64)

    def predict_one(self, x: Any) -> Any:
        """Return the prediction of one row (d,), without the checks of :meth:`predict`.

        Where numba is installed (the extra ``jit``) by compiled loops in the type of the model: some
        microseconds, and the same values but for rounding. The first call in a process imports numba and
        loads or compiles them, which takes a second or two. Elsewhere as a batch of one row.
        """
        if not hasattr(self, "predictor_"):  # a tenth of what check_is_fitted takes
            check_is_fitted(self, "predictor_")
        if available():
            return self._answer(single_row(self.predictor_)(x))
        row = one_row(x, self.n_features_in_, np.dtype(np.float64))
        return self._answers(self.predictor_(row[None]))[0]

    def flat_predictor(self) -> FlatPredictor:
        """Return the fitted model as a few plain arrays: decision values or predictions of a row."""
        check_is_fitted(self, "predictor_")
        return flatten(self.predictor_)

    # What the two kinds of model differ in.
    _bounds: tuple[float | None, float | None]

    def _teacher(self, rows: Float64Array, values: Float64Array, weights: Array) -> Teacher:
        raise NotImplementedError

    def _score(self, found: Float64Array, values: Float64Array, weights: Array) -> float:
        raise NotImplementedError

    def _answers(self, values: Array) -> Array:
        raise NotImplementedError

    def _answer(self, values: Array) -> Any:
        """Return the prediction for the values (outputs,) of one row."""
        raise NotImplementedError


class FastKernelClassifier(ClassifierMixin, FastKernelModel):
    r"""A classifier for a cost that is asked for: f_k(x) = Σ_j a_lkj exp(−s_lj²‖z − c_lj‖²) + b_lkᵀ[z, 1].

    z = Pᵀ(x − o) has few directions, those in which the teacher varies (its average gradient outer product),
    l is the leaf of z in a shallow tree of half-spaces, and the centres c, widths s and weights of each leaf
    are learned (Levenberg–Marquardt) from the teacher's clipped decision values, at the rows and between
    them, or from the labels, whichever does better on held-out rows.

    Parameters
    ----------
    teacher : fitted or unfitted classifier, function, or None
        An unfitted one is fitted first; a function gives decision values of rows. None is
        :class:`gramian.KernelRidgeClassifier` with a Gaussian kernel, gamma and alpha chosen on held-out
        rows.
    cost : str or number, default="20x"
        Budget of a row in a batch on one thread: "20x" (times a linear model X @ w), "100ns", or nanoseconds.
        Shapes are timed on this machine, and the best on held-out rows among those within it is taken; a
        linear model where nothing is better.
    n_levels, n_units, n_directions : int, optional
        Sizes instead of the budget: 2^n_levels leaves, units of each, directions r of z.
    learn : {"auto", "teacher", "labels"}
        What the leaves are fitted to.
    class_weight : None, "balanced" or dict
    dtype : {"float32", "float16", "float64"}
        What the numbers are stored in; float16 is computed in float32.
    random_state, n_jobs : as in scikit-learn.

    Attributes
    ----------
    cost_ : Cost
        Operations, bytes, and measured nanoseconds a row.
    shape_, learned_, validation_score_ : sizes, what was learned from, and accuracy on held-out rows.
    classes_, predictor_, n_features_in_

    Time: the teacher's, 2d of its evaluations at up to 1,000 rows, and the fits of some ten shapes. Memory
    O(n (d + outputs)) and a leaf's O(rows · units · r). Raises ``InputError`` for unusable input or teachers,
    ``BudgetError`` for a cost below a linear model's. The budget holds on the machine of the fit; with
    ``cost`` two machines may choose different shapes.

    Source: DC-Pred++ (Hsieh, Si and Dhillon 2014) for local models on few landmarks; learned units are ours.

    Examples
    --------
    >>> import gramian as gm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> m = gm.FastKernelClassifier(n_levels=0, n_units=20, n_directions=12, random_state=0)
    >>> bool(m.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.9), m.shape_.n_units
    (True, 20)
    """

    def __init__(
        self,
        teacher: Any = None,
        *,
        cost: Any = "20x",
        n_levels: int | None = None,
        n_units: int | None = None,
        n_directions: int | None = None,
        learn: str = "auto",
        class_weight: Any = None,
        dtype: str = "float32",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.teacher = teacher
        self.cost = cost
        self.n_levels = n_levels
        self.n_units = n_units
        self.n_directions = n_directions
        self.learn = learn
        self.class_weight = class_weight
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    _bounds = (-CLIP, CLIP)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,)."""
        required_target(self, y)
        rows = self._dense(X, reset=True)
        targets = ClassTargets(y, len(rows))
        self.classes_ = targets.classes
        weights = targets.weights(self.class_weight, sample_weight)
        return self._learn(rows, targets[slice(0, len(rows))], weights)

    def decision_function(self, X: Any) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        values = self._values(X)
        return values.ravel() if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> Array:
        """Return the class of each row."""
        return self._answers(self._values(X))

    def _answers(self, values: Array) -> Array:
        binary = len(self.classes_) == 2
        found = (values[:, 0] > 0).astype(np.intp) if binary else values.argmax(axis=1)
        return np.asarray(self.classes_[found])

    def _answer(self, values: Array) -> Any:
        return self.classes_[int(values[0] > 0) if len(values) == 1 else values.argmax()]

    def _teacher(self, rows: Float64Array, values: Float64Array, weights: Array) -> Teacher:
        if self.teacher is not None and not _unfitted(self.teacher):
            return class_teacher(self.teacher, self.classes_, Engine(self.n_jobs))
        labels = self._answers(values)
        if self.teacher is None:
            model = _default_teacher(KernelRidgeClassifier, rows, labels, weights, self.random_state)
        else:
            model = clone(self.teacher).fit(rows, labels)
        return class_teacher(model, self.classes_, Engine(self.n_jobs))

    def _score(self, found: Float64Array, values: Float64Array, weights: Array) -> float:
        return float(np.average(self._answers(found) == self._answers(values), weights=weights))


class FastKernelRegressor(MultiOutputMixin, RegressorMixin, FastKernelModel):
    """A regressor for a cost that is asked for: as :class:`FastKernelClassifier`, for numbers.

    Parameters and attributes are those of the classifier, without classes; the teacher's predictions are not
    clipped, and ``validation_score_`` is R². The default teacher is :class:`gramian.KernelRidge`.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1])
    >>> m = gm.FastKernelRegressor(n_levels=1, n_units=8, n_directions=2, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.99)
    True
    """

    def __init__(
        self,
        teacher: Any = None,
        *,
        cost: Any = "20x",
        n_levels: int | None = None,
        n_units: int | None = None,
        n_directions: int | None = None,
        learn: str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.teacher = teacher
        self.cost = cost
        self.n_levels = n_levels
        self.n_units = n_units
        self.n_directions = n_directions
        self.learn = learn
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    _bounds = (None, None)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs)."""
        required_target(self, y)
        rows = self._dense(X, reset=True)
        targets = NumberTargets(y, len(rows))
        self._flat = targets.flat
        values = targets[slice(0, len(rows))]
        # Learned in units of the targets' spread: penalties of the units then mean the same for all.
        self._center, spread = values.mean(axis=0), values.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        scaled = (values - self._center) / self._spread
        return self._learn(rows, scaled, checked_weights(sample_weight, len(rows)))

    def predict(self, X: Any) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs)."""
        return self._answers(self._values(X))

    def _answers(self, values: Array) -> Array:
        out = np.asarray(values, np.float64) * self._spread + self._center
        return out.ravel() if self._flat else out

    def flat_predictor(self) -> FlatPredictor:
        check_is_fitted(self, "predictor_")
        return flatten(self.predictor_, self._spread, self._center)

    def _answer(self, values: Array) -> Any:
        if self._flat:
            return float(values[0]) * self._spread[0] + self._center[0]
        return values.astype(np.float64) * self._spread + self._center

    def _teacher(self, rows: Float64Array, values: Float64Array, weights: Array) -> Teacher:
        given = self.teacher
        if given is not None and not _unfitted(given):
            ask = number_teacher(given, values.shape[1], Engine(self.n_jobs))
            return lambda X: (ask(X) - self._center) / self._spread
        wanted = values[:, 0] if values.shape[1] == 1 else values
        if given is None:
            model = _default_teacher(KernelRidge, rows, wanted, weights, self.random_state)
        else:
            model = clone(given).fit(rows, wanted)
        return number_teacher(model, values.shape[1], Engine(self.n_jobs))

    def _score(self, found: Float64Array, values: Float64Array, weights: Array) -> float:
        left = weights @ np.square(values - found).sum(axis=1)
        mean = np.average(values, axis=0, weights=weights)
        total = weights @ np.square(values - mean).sum(axis=1)
        return float(1.0 - left / total) if total > 0 else float(-left)


def _unfitted(teacher: Any) -> bool:
    """Return whether a teacher is an estimator without anything learned."""
    if not isinstance(teacher, BaseEstimator):
        return False
    return not any(name.endswith("_") and not name.startswith("_") for name in vars(teacher))


def _default_teacher(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    rows: Float64Array,
    targets: Array,
    weights: Array,
    random_state: Any,
) -> Any:
    """Return a kernel ridge model on scaled features, gamma and alpha by held-out score."""
    spread = rows.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(rows))[: 2 * TEACHER_ROWS]
    pairs = rng.integers(len(rows), size=(2, 2000))
    squares = np.square((rows[pairs[0]] - rows[pairs[1]]) / scale).sum(axis=1)
    middle = max(float(np.median(squares)), np.finfo(np.float64).tiny)
    lengths = {g: scale * np.sqrt(middle / (2.0 * g)) for g in TEACHER_GAMMAS}
    half = max(1, len(some) // 2)
    first, second = some[:half], some[half:] if len(some) > half else some

    def model(gamma: float, alpha: float) -> Any:
        return kind(alpha=alpha, kernel=Gaussian(lengths[gamma]), random_state=random_state)

    best, choice = -np.inf, (TEACHER_GAMMAS[1], TEACHER_ALPHAS[0])
    for gamma in TEACHER_GAMMAS:
        for alpha in TEACHER_ALPHAS:
            if len(np.unique(targets[first], axis=0)) < 2:
                break
            fitted = model(gamma, alpha).fit(rows[first], targets[first], sample_weight=weights[first])
            score = float(fitted.score(rows[second], targets[second], sample_weight=weights[second]))
            if score > best:
                best, choice = score, (gamma, alpha)
    return model(*choice).fit(rows, targets, sample_weight=weights)
