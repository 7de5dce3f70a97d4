"""Fast kernel models: learned kernel units in the leaves of a shallow tree, within a requested cost."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, Float64Array, RowsLike
from gramian.engine import Engine
from gramian.estimator.answers import (
    class_labels,
    decision_values,
    likeliest,
    log_probabilities,
    predicted_numbers,
)
from gramian.estimator.base import all_or_nothing, required_target
from gramian.estimator.fitting import shown_bar
from gramian.estimator.labels import checked_weights, relative_weights
from gramian.estimator.mixins import Classifier, Regressor
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.fast.base import FastKernelModel
from gramian.fast.default_teacher import default_teacher
from gramian.fast.learning.metric import Teacher, center_and_spread
from gramian.fast.learning.training_set import TrainingSet
from gramian.fast.probabilities import Calibration, smooth_labels
from gramian.fast.serving.flat import FlatPredictor, flatten
from gramian.fast.teachers import (
    CLIP,
    class_chances,
    class_teacher,
    fitted_teacher,
    known_classes,
    number_teacher,
    with_absent_classes,
)
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def _has_probabilities(model: BaseEstimator) -> bool:
    """Return whether a model has a calibration, or may get one; else raise and say why it has none."""
    if not hasattr(model, "predictor_") or hasattr(model, "calibration_"):
        return True
    raise AttributeError(
        "This fast model has no probabilities: its teacher has no predict_proba, and there were no labels to "
        "calibrate decision values with. Pass y, or a teacher with predict_proba."
    )


@dataclass(eq=False, repr=False)
class FastKernelClassifier(Classifier, FastKernelModel):
    r"""A classifier that predicts within a given time a row, by a few kernel units in each leaf of a tree.

    The value of class k is f_k(x) = Σ_j a_lkj/(1 + ‖s_lj (z − c_lj)‖²) + b_lkᵀ[z, 1]. Here z = Pᵀ(x − o) is
    the row projected to the few directions in which the teacher varies most (leading eigenvectors of its
    average gradient outer product), o is the mean row, and l is the leaf of z in a shallow tree of
    half-spaces. The centres c, scales s (one for each direction) and weights a, b of all leaves are learned
    together with P: from the teacher's clipped decision values, at the rows and between them, or from the
    labels if these do better on held-out rows.

    Parameters
    ----------
    teacher : fitted or unfitted classifier, function, or None
        An unfitted classifier is fitted first, with the weights of the rows; a function must return decision
        values. None means :class:`gramian.KernelRidgeClassifier` with a Gaussian or (up to 64 features)
        Laplacian kernel; kernel, gamma and alpha are chosen on held-out rows. A fitted teacher that knows
        more classes than y gives the model all of its classes. If X is a frame, a fitted teacher is asked
        with frames.
    cost : str or number, default="20x"
        Time budget for a row in a batch of ``batch_rows`` on one thread: "20x" (times a product X @ w),
        "100ns", or a number of nanoseconds. It is the time of ``predict`` on an array of floats, with its
        checks and labels. Shapes are timed on this machine; the one within the budget that is best on
        held-out rows is used. A linear model is used if nothing is better; it fits any budget from "1x".
    n_levels, n_units, n_directions : int, optional
        Sizes to use instead of a budget: 2^n_levels leaves, units in each leaf, directions of z.
    learn : {"auto", "teacher", "labels"}
        Targets of the leaves: the teacher's values, the labels, or first the teacher's values and then the
        labels too if that is better on held-out rows.
    class_weight : None, "balanced" or dict
    dtype : {"float32", "float16", "float64"}
        Type of the stored numbers; float16 is computed in float32.
    random_state, n_jobs : as in scikit-learn.
    time_limit : float or None, default=None
        Seconds for a fit. It ends the search and the training early; the default teacher takes about a
        quarter of it at most, on fewer rows if need be. The fit of your own teacher and its answers are never
        cut short. None means that all end by themselves.
    batch_rows : int or None, default=None
        Rows that ``predict`` will get at a time, for which the budget holds: the fewer, the more a row takes.
        None means as many as are two megabytes in float32, from 2,048 to 8,192.
    verbose : int, default=0
        1 shows a bar of the predictors that are fitted and compared.

    Attributes
    ----------
    cost_ : Cost
        Operations, bytes, and measured nanoseconds a row.
    shape_, learned_, validation_score_ : sizes, "teacher" or "labels", and accuracy on held-out rows.
    fidelity_ : Fidelity
        Fraction of held-out rows with the teacher's class, with its standard error and the number of rows.
    calibration_ : Calibration
        Map from decision values to log odds, fitted on the held-out rows (see :meth:`predict_proba`).
    classes_, predictor_, n_features_in_

    Time: training the teacher, evaluating it 2d times on up to 1,000 rows (d features), and fitting about ten
    shapes. Memory: O(n (d + outputs)), and O(rows · units · directions) for a leaf in training; the default
    teacher takes up to 1 GB. Raises ``InputError`` for unusable input or teachers, ``BudgetError`` for a
    budget below a linear model's cost. The budget holds on the machine of the fit, so two machines may choose
    different shapes. There is no ``standardize``: the fit divides features by their weighted deviation
    itself, in the directions P and in the default teacher; a teacher of yours has a ``standardize`` of its
    own.

    Source: DC-Pred++ (Hsieh, Si and Dhillon 2014) for local models on few landmarks; learning the units is
    new here.

    Examples
    --------
    >>> import gramian as gm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> m = gm.FastKernelClassifier(n_levels=0, n_units=10, n_directions=8, random_state=0)
    >>> bool(m.fit(X[:600], y[:600] % 2).score(X[600:], y[600:] % 2) > 0.9), m.shape_.n_units
    (True, 10)
    """

    _learns = ("calibration_",)

    teacher: Any = None
    _: KW_ONLY
    cost: Any = "20x"
    n_levels: int | None = None
    n_units: int | None = None
    n_directions: int | None = None
    learn: str = "auto"
    class_weight: Any = None
    dtype: str = "float32"
    random_state: Any = None
    n_jobs: int | None = None
    time_limit: float | None = None
    batch_rows: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        unlabelled: RowsLike | None = None,
    ) -> Self:
        """Fit to rows X (n, d) and class labels y (n,); a row source X may hold the labels.

        unlabelled : further rows (m, d), without labels. The teacher's values of them are learned too.
        """
        with all_or_nothing(self), shown_bar(self.verbose, unit="fits", desc="shapes") as bar:
            y = required_target(self, X, y)
            rows = self._dense(X, reset=True)
            given = self._given_teacher(X)
            targets = ClassTargets(y, len(rows), known_classes(given, y))
            self.classes_ = targets.classes
            weights = relative_weights(targets.weights(self.class_weight, sample_weight))
            values = targets[slice(0, len(rows))]
            labelled = TrainingSet.of(rows, values, weights, (-CLIP, CLIP))
            fit = self._learn(labelled, unlabelled, partial(self._teach, given), bar.update)
            held_out = fit.held_out
            chances = None if given is None else class_chances(given, self.classes_, held_out.rows)
            if chances is None:
                codes = likeliest(held_out.values)
                chances = smooth_labels(codes, len(self.classes_), held_out.weights)
            self.calibration_ = Calibration.fit(fit.outputs, chances, held_out.weights)
            return self

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        return decision_values(self._values(X))

    def predict(self, X: RowsLike) -> Array:
        """Return the class of each row."""
        return class_labels(self._answers(X), self.classes_)

    def predict_one(self, x: object) -> Any:
        """Return the class of one row (d,), without the checks of :meth:`predict`.

        If numba is installed (the extra ``jit``), compiled loops in the model's type take a few microseconds
        and agree with :meth:`predict` up to rounding. The first call in a process imports numba and loads or
        compiles the loops, which takes a second or two. Without numba a row takes a few short calls of NumPy.
        A row that overflows the model's type has NaN for its values, where :meth:`predict` raises.
        """
        values = self._values_of_one(x)
        return self.classes_[(1 if values.item() > 0 else 0) if len(values) == 1 else values.argmax()]

    @available_if(_has_probabilities)
    def predict_proba(self, X: RowsLike) -> Float64Array:
        """Return the probability of each class, shape (n, classes); rows sum to 1.

        Decision values are mapped to log odds by two coefficients fitted on held-out rows
        (:class:`gramian.fast.probabilities.Calibration`): to the probabilities of a fitted teacher that gives
        them, else to the labels. A model without either
        (:func:`gramian.compress` without y, of a teacher without ``predict_proba``) has no ``predict_proba``.
        """
        return np.exp(self.predict_log_proba(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: RowsLike) -> Float64Array:
        """Return the logarithm of :meth:`predict_proba`."""
        values = self._values(X)
        return log_probabilities(self.calibration_.log_odds(values))

    def _teach(self, given: BaseEstimator | None, training: TrainingSet, deadline: float) -> Teacher:
        """Return the ``given`` teacher, or one trained on the rows, as decision values."""
        rows, weights, engine = training.rows, training.weights, Engine(self.n_jobs)
        if given is not None:
            return class_teacher(given, self.classes_, engine, rows)
        labels = class_labels(training.values, self.classes_)
        known = np.isin(self.classes_, labels)  # the rows of a class may all have weight 0
        if known.sum() == 1:
            return with_absent_classes(lambda X: np.ones((len(X), 1)), known)
        if self.teacher is None:
            model = default_teacher(KernelRidgeClassifier, rows, labels, weights, self.random_state, deadline)
        else:
            model = fitted_teacher(clone(self.teacher), rows, labels, weights)
        ask = class_teacher(model, self.classes_[known], engine, rows)
        return ask if known.all() else with_absent_classes(ask, known)


@dataclass(eq=False, repr=False)
class FastKernelRegressor(Regressor, FastKernelModel):
    """A regressor that predicts within a given time a row, built like :class:`FastKernelClassifier`.

    Parameters and attributes are those of the classifier, except those about classes. The teacher's
    predictions are not clipped, ``validation_score_`` is R², and so is ``fidelity_``, with the
    teacher's predictions as targets. The default teacher is :class:`gramian.KernelRidge`. The model
    learns targets less ``y_mean_`` and divided by ``y_std_``, both (outputs,).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1])
    >>> m = gm.FastKernelRegressor(n_levels=1, n_units=8, n_directions=2, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.99)
    True
    """

    _learns = ("y_mean_", "y_std_")

    teacher: Any = None
    _: KW_ONLY
    cost: Any = "20x"
    n_levels: int | None = None
    n_units: int | None = None
    n_directions: int | None = None
    learn: str = "auto"
    dtype: str = "float32"
    random_state: Any = None
    n_jobs: int | None = None
    time_limit: float | None = None
    batch_rows: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        unlabelled: RowsLike | None = None,
    ) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs); a row source X may hold the targets.

        unlabelled : further rows (m, d), without targets. The teacher's values of them are learned too.
        """
        with all_or_nothing(self), shown_bar(self.verbose, unit="fits", desc="shapes") as bar:
            y = required_target(self, X, y)
            rows = self._dense(X, reset=True)
            targets = NumberTargets(y, len(rows), classifier="FastKernelClassifier")
            targets.refuse_tiny()
            self._flat = targets.flat
            values = targets[slice(0, len(rows))]
            # Targets are scaled to unit spread, so that a unit's penalty means the same for every output.
            weights = relative_weights(checked_weights(sample_weight, len(rows)))
            self.y_mean_, spread = center_and_spread(values, weights)
            self.y_std_ = np.where(spread > 0, spread, 1.0)
            labelled = TrainingSet.of(rows, (values - self.y_mean_) / self.y_std_, weights)
            self._learn(labelled, unlabelled, partial(self._teach, self._given_teacher(X)), bar.update)
            return self

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs)."""
        out = self._values(X) * self.y_std_ + self.y_mean_
        return predicted_numbers(out, flat=self._flat)

    def predict_one(self, x: object) -> Any:
        """Return the prediction of one row (d,), without the checks of :meth:`predict`.

        Speed and limits are those of :meth:`FastKernelClassifier.predict_one`.
        """
        values = self._values_of_one(x)
        if self._flat:
            return values.item() * self.y_std_[0] + self.y_mean_[0]
        return values.astype(np.float64) * self.y_std_ + self.y_mean_

    def flat_predictor(self) -> FlatPredictor:
        check_is_fitted(self, "predictor_")
        return flatten(self.predictor_, self.y_std_, self.y_mean_)

    def _teach(self, given: BaseEstimator | None, training: TrainingSet, deadline: float) -> Teacher:
        """Return the ``given`` teacher in units of the targets, or one trained on the rows."""
        values, weights, engine = training.values, training.weights, Engine(self.n_jobs)
        if given is not None:
            ask = number_teacher(given, values.shape[1], engine)
            return lambda X: (ask(X) - self.y_mean_) / self.y_std_
        targets = values[:, 0] if values.shape[1] == 1 else values
        if self.teacher is None:
            model = default_teacher(KernelRidge, training.rows, targets, weights, self.random_state, deadline)
        else:
            model = fitted_teacher(clone(self.teacher), training.rows, targets, weights)
        return number_teacher(model, values.shape[1], engine)
