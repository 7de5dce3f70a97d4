"""Teacher values that a fast model learns from, taken from any fitted model or function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils.validation import has_fit_parameter

from gramian._typing import Array, Float64Array, RowsLike
from gramian.compression.expansion import PairwisePredictor
from gramian.data.formats.frames import maker_like, opened_frame
from gramian.data.names import names_of, places_of, with_columns
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.estimator.answers import likeliest
from gramian.estimator.base import KernelEstimator
from gramian.estimator.rows import names_known
from gramian.exceptions import AccuracyWarning, GramianError, InputError, quoted, shortened, user_level
from gramian.fast.learning.metric import Teacher
from gramian.kernels.resolve import resolve_kernel

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Bound at which a teacher's decision values are clipped: beyond it the class is decided.
CLIP = 1.0
#: Rows that a teacher is asked about twice, and the difference of its answers, in units of their spread, from
#: which on it warns: far above the rounding of float32. Chosen by hand.
STEADY_ROWS, UNSTEADY = 32, 1e-3
#: Methods that a teacher is asked by.
METHODS = ("predict_proba", "decision_function", "predict")
#: Least probability whose logarithm is taken.
LEAST_CHANCE = 1e-9
#: Rows by whose classes it is chosen what a teacher is asked for, and the share of them that may have another
#: class than ``predict`` gives: votes can be tied. Chosen by hand.
COMPARED_ROWS, TIES = 1_000, 0.005


class Translated:
    """A fitted model that takes rows in another form: its methods are asked about ``form(rows)``."""

    def __init__(self, model: BaseEstimator, form: Callable[[Array], Any]) -> None:
        self.model, self.form = model, form

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("model", "form"):
            raise AttributeError(name)
        found = getattr(self.model, name)
        return (lambda rows: found(self.form(rows))) if name in METHODS else found

    def __call__(self, rows: Array) -> Any:
        return self.model(self.form(rows))


def class_teacher(
    model: BaseEstimator, classes: Array, engine: Engine, rows: Array
) -> Callable[[Array], Float64Array]:
    """Return a function from rows to decision values: (n, 1) for two classes, (n, classes) for more.

    model : a fitted model with ``predict_proba``, ``decision_function`` or, with ``classes_``, ``predict``;
        or a function that returns decision values. It is asked for the first of these whose likeliest class
        is the one that its ``predict`` gives for the rows. Of an SVM with probabilities these are the
        decision values, of a model with a threshold of its own the classes alone.
    classes : the labels, in the order of the columns.
    The probability P of the second of two classes gives the value 2P − 1; those of more classes give decision
    values ln P. Of decision values of more than two classes, each value is the class's own minus the best one
    of the other classes. It is positive only for the winning class, whatever the scale of the model, and even
    if it counts votes. Clipped at ±1, these are learned better than probabilities, which are as far apart
    where nothing is to be decided: on letter with 26 classes a boosted teacher's class is met in 88 % of the
    rows instead of 86 %, with the same error of the probabilities.
    """
    ways = _ways(model, classes, engine)
    if not ways:
        raise _no_teacher(model, "decision_function or predict_proba")
    if len(ways) > 1 and hasattr(model, "predict"):
        ways = [_like_predict(model, ways, classes, rows[:COMPARED_ROWS])]
    ask, order = ways[0]
    outputs = 1 if len(classes) == 2 else len(classes)

    def values(rows: Array) -> Float64Array:
        found = _ask(model, ask, rows)
        found = found[:, None] if found.ndim == 1 else found
        _check(found, len(rows), outputs)
        if outputs == 1:
            return found if order is None else -found
        found = found if order is None else found[:, order]
        best = np.sort(found, axis=1)[:, -2:]
        others = np.where(found == best[:, 1:], best[:, :1], best[:, 1:])
        return found - others

    return values


def with_absent_classes(teacher: Teacher, known: Array) -> Teacher:
    """Return a teacher of the ``known`` classes (a mask of all) with the value −1 for each other class."""

    def all_values(rows: Array) -> Float64Array:
        values = teacher(rows)
        every = np.full((len(rows), len(known)), -1.0)
        every[:, known] = np.hstack([-values, values]) if values.shape[1] < known.sum() else values
        return every[:, 1:] if len(known) == 2 else every

    return all_values


#: A function from rows to decision values, and the column of each class; None where columns are in order.
Way = tuple[Callable[[Array], Any], "Array | None"]


def _ways(teacher: BaseEstimator, classes: Array, engine: Engine) -> list[Way]:
    """Return the ways to ask a teacher for decision values, the most telling one first."""
    order = _class_order(teacher, classes)
    tiled = libsvm_values(teacher, engine)
    if tiled is not None:
        return [(tiled, order)]  # whose likeliest class is the predicted one
    ways: list[Way] = []
    if hasattr(teacher, "predict_proba"):
        ways.append((lambda rows: _odds(teacher.predict_proba(rows), len(classes)), order))
    if hasattr(teacher, "decision_function"):
        ways.append((teacher.decision_function, order))
    if hasattr(teacher, "predict") and hasattr(teacher, "classes_"):
        ways.append((_class_columns(teacher.predict, classes), None))
    return ways or ([(teacher, order)] if callable(teacher) else [])


def _like_predict(teacher: BaseEstimator, ways: list[Way], classes: Array, rows: Array) -> Way:
    """Return the first way whose likeliest class is that of ``predict``; failing that, the nearest one."""
    labels, apart = None, []
    for ask, order in ways:
        found = _ask(teacher, ask, rows)  # first, since its error names the teacher
        if labels is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                labels = np.asarray(teacher.predict(rows)).ravel()
        found = found[:, None] if found.ndim == 1 else found
        if found.shape[1] != (1 if len(classes) == 2 else len(classes)):
            apart.append(1.0)  # such as a value for each pair of classes
            continue
        if order is not None:
            found = -found if found.shape[1] == 1 else found[:, order]
        apart.append(float(np.mean(classes[likeliest(found)] != labels)))
        if apart[-1] <= TIES:
            break
    return ways[int(np.argmin(apart))]


def _odds(chances: ArrayLike, n_classes: int) -> Float64Array:
    """Return decision values of probabilities: 2P − 1 of the second of two classes, else ln P of each."""
    found = np.asarray(chances, np.float64)
    return 2.0 * found[:, 1:] - 1.0 if n_classes == 2 else np.log(np.clip(found, LEAST_CHANCE, None))


def class_chances(model: BaseEstimator, classes: Array, rows: Array) -> Float64Array | None:
    """Return a fitted model's probability of each class (n, classes), or None if it gives none."""
    if not hasattr(model, "predict_proba"):
        return None
    found = _ask(model, model.predict_proba, rows)
    _check(found, len(rows), len(classes))
    order = _class_order(model, classes)
    return found if order is None else found[:, order]


def fitted_teacher(teacher: BaseEstimator, rows: Array, targets: Array, weights: Array) -> Any:
    """Fit a teacher to rows of these weights; warn if they differ and it takes none."""
    if (weights == weights[0]).all():
        return teacher.fit(rows, targets)
    if has_fit_parameter(teacher, "sample_weight"):
        return teacher.fit(rows, targets, sample_weight=weights)
    warnings.warn(
        f"The teacher {type(teacher).__name__} takes no sample_weight, so that it learns from the rows as if "
        "all weighed the same. Choose one that takes it, or pass a fitted teacher.",
        UserWarning,
        stacklevel=user_level(),
    )
    return teacher.fit(rows, targets)


def number_teacher(model: BaseEstimator, outputs: int, engine: Engine) -> Callable[[Array], Float64Array]:
    """Return a function from rows to the predictions (n, outputs) of a fitted model or a function."""
    ask = libsvm_values(model, engine) or (model.predict if hasattr(model, "predict") else model)
    if not callable(ask):
        raise _no_teacher(model, "predict")

    def values(rows: Array) -> Float64Array:
        found = _ask(model, ask, rows)
        found = found[:, None] if found.ndim == 1 else found
        _check(found, len(rows), outputs)
        return found

    return values


def known_classes(model: BaseEstimator, y: ArrayLike) -> Array | None:
    """Return a fitted teacher's classes if it knows all labels y and more, with a warning; else None."""
    theirs = getattr(model, "classes_", None)
    if theirs is None or isinstance(theirs, list):
        return None
    own, wider = set(np.asarray(y).ravel().tolist()), np.unique(np.asarray(theirs))
    absent = [label for label in wider.tolist() if label not in own]
    if not absent or not own <= set(wider.tolist()):
        return None
    warnings.warn(
        f"The rows hold none of the teacher's class{'es' if len(absent) > 1 else ''} {quoted(absent)}. The "
        "fast model has every class, but learns those only from the teacher's values elsewhere. Add rows of "
        "them; their labels are not needed.",
        UserWarning,
        stacklevel=user_level(),
    )
    return wider


def by_name(teacher: BaseEstimator, X: RowsLike, engine: Engine) -> Any:
    """Return a fitted teacher of the rows X that is asked about arrays with the columns of X.

    If X is a frame, the teacher gets frames. If both have names, it gets the columns in its own order.
    """
    X = opened_frame(X)
    names, known = names_of(X), names_known(teacher)
    places = None
    if names is not None and known is not None:
        places = places_of(names, known, type(teacher).__name__)
    if places is None and libsvm_values(teacher, engine) is not None:
        return teacher
    # scikit-learn's models say whether they learned from rows without names.
    nameless = hasattr(teacher, "n_features_in_") and not hasattr(teacher, "feature_names_in_")
    form = None if nameless else maker_like(X)
    if form is not None:
        made = form
        form = made if places is None else lambda rows: with_columns(made(rows), places)
    elif names is not None and known is not None:
        form = partial(_order_columns, places, known if isinstance(teacher, KernelEstimator) else None)
    return teacher if form is None else Translated(teacher, form)


def _order_columns(places: Sequence[int] | None, names: tuple[str, ...] | None, rows: Array) -> Any:
    """Return rows with the columns at these places; with ``names``, as a row source that has them."""
    found = rows if places is None else rows[:, list(places)]
    if names is None:
        return found
    source = ArraySource(found)
    source.feature_names = names
    return source


def check_steady(teacher: Callable[[Array], Float64Array], rows: Array) -> None:
    """Warn if a teacher answers differently when it is asked about the same rows again."""
    some = rows[:STEADY_ROWS]
    first, second = teacher(some), teacher(some)
    spread = float(np.std(first, axis=0).max())
    apart = float(np.abs(first - second).max())
    if apart > UNSTEADY * spread and apart > 0:
        warnings.warn(
            f"The teacher changes its answers: asked twice about the same {len(some)} rows, they differ by "
            f"up to {apart:.3g}, where their spread is {spread:.3g}. Fix its random state, or turn off what "
            "is random in its predictions; else the fast model learns the mean of its answers.",
            AccuracyWarning,
            stacklevel=user_level(),
        )


def _ask(model: BaseEstimator, ask: Callable[[Array], Any], rows: Array) -> Float64Array:
    """Return a teacher's answers; raise an error that names the teacher if it fails."""
    try:
        return np.asarray(ask(rows), np.float64)
    except (GramianError, MemoryError):
        raise
    except Exception as error:
        plain = model.model if isinstance(model, Translated) else model
        inner = getattr(plain, "function", plain)
        name = getattr(inner, "__qualname__", type(inner).__name__).rpartition("<locals>.")[2]
        raise InputError(
            f"The teacher {name} failed on {len(rows)} rows with {type(error).__name__}: "
            f"{shortened(str(error))}. It must answer for every row of X, for unlabelled rows and for rows "
            "between and near them. Drop rows outside its domain, or pass a function that moves rows into it "
            "before it asks the model."
        ) from error


def _class_columns(predict: Callable[[Array], Any], classes: Array) -> Callable[[Array], Float64Array]:
    """Return a function from rows to 1 for the predicted class and −1 for others, as decision values."""

    def values(rows: Array) -> Float64Array:
        labels = np.asarray(predict(rows)).reshape(len(rows), 1)
        found = np.where(labels == classes, 1.0, -1.0)
        return found[:, 1:] if len(classes) == 2 else found

    return values


def _class_order(model: BaseEstimator, classes: Array) -> Array | None:
    """Return the model's column for each of our classes, or None if the order is equal or unknown."""
    theirs = getattr(model, "classes_", None)
    if theirs is None or np.array_equal(theirs, classes):
        return None
    theirs = np.asarray(theirs)
    if len(theirs) != len(classes) or set(theirs.tolist()) != set(classes.tolist()):
        raise InputError(
            f"The teacher knows the classes {quoted(theirs.tolist())}, but y holds "
            f"{quoted(classes.tolist())}. Fit both on the same classes."
        )
    return np.asarray([theirs.tolist().index(label) for label in classes.tolist()])


def _check(found: Float64Array, n_rows: int, outputs: int) -> None:
    if found.shape != (n_rows, outputs):
        raise InputError(
            f"The teacher gave values of shape {found.shape} for {n_rows} rows; expected ({n_rows},) or "
            f"({n_rows}, {outputs}). A teacher gives one decision value for two classes, and one for each "
            "of more classes or outputs."
        )
    bad = ~np.isfinite(found).all(axis=1)
    if bad.any():
        raise InputError(
            f"The teacher gave NaN or infinity for {int(bad.sum())} of {n_rows} rows. Check that it is "
            "fitted, and on the same features."
        )


def _no_teacher(model: BaseEstimator, wanted: str) -> InputError:
    return InputError(
        f"teacher has type {type(model).__name__}, which has no {wanted} and cannot be called. Pass a fitted "
        "model, or a function from rows to values."
    )


def libsvm_values(model: BaseEstimator, engine: Engine) -> Callable[[Array], Float64Array] | None:
    """Return a function from rows to the decision values of an SVM, or None if the model is of another kind.

    For two classes and for regression these are the model's own values up to rounding. For more classes, with
    f_kj the decision value of class k against class j, the value of class k is v_k = ½ min_j f_kj. This is
    continuous in the row. A class that wins all its pairs has the largest value, and v_k − v_j = f_kj for the
    closest rival j. scikit-learn counts votes instead; these jump by 1 and hide how narrowly a class won.

    The model must be a fitted SVC, NuSVC, SVR or NuSVR with ``kernel="rbf"`` on dense rows. Time O(n m d) for
    m support vectors, by matrix products: about a tenth of libsvm's time.
    """
    known = type(model) in (SVC, NuSVC, SVR, NuSVR) and model.kernel == "rbf"
    if not known or not hasattr(model, "support_vectors_") or issparse(model.support_vectors_):
        return None
    classifies = isinstance(model, SVC | NuSVC)
    n_classes = len(model.classes_) if classifies else 2
    counts = model.n_support_ if classifies else [len(model.support_vectors_), 0]
    # For two classes scikit-learn flips libsvm's signs; PairwisePredictor follows libsvm.
    sign = 1.0 if n_classes > 2 else -1.0
    predictor = PairwisePredictor(
        np.asarray(model.support_vectors_),
        np.repeat(np.arange(n_classes), counts),
        np.zeros(len(model.support_vectors_), np.intp),
        sign * np.asarray(model.dual_coef_),
        sign * np.asarray(model.intercept_)[None],
        resolve_kernel("rbf", n_features=model.n_features_in_, gamma=model._gamma),
        None,
        None,
    )

    def values(rows: Array) -> Float64Array:
        found = predictor(np.asarray(rows, np.float64), engine)
        if n_classes == 2:
            return -found.ravel()
        worst = np.full((len(found), n_classes), np.inf)
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            np.minimum(worst[:, i], found[:, pair], out=worst[:, i])
            np.minimum(worst[:, j], -found[:, pair], out=worst[:, j])
        return 0.5 * worst

    return values
