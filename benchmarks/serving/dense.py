"""The methods for dense rows: a teacher, gm.compress of it, a distilled MLP, and small kernel models."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from fast_prediction import Setting, dcpred, fast_call, ldkl
from fast_prediction import model_bytes as numbers_bytes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR

import gramian as gm
from serving.boosting import HELD_OUT, hist_model
from serving.clock import Served, one_of
from serving.problems import Problem, error_of

#: Rows on which teachers are compared; gamma is in units of 1 / columns.
TEACHER_ROWS = 6_000
GAMMAS, PENALTIES = (0.3, 1.0, 3.0, 10.0), (3.0, 30.0)
TEACHER_ROUNDS, ROUNDS_MANY, QUICK_ROUNDS = 300, 60, 5
#: Budgets of gm.compress, hidden units in each of the two layers of an MLP, its epochs.
COSTS, QUICK_COSTS = ("1us", "300ns", "100ns"), ("1us",)
WIDTHS, EPOCHS = (16, 64), 60
#: Rows of a tile of the networks' evaluator.
TILE_ROWS = 1_024
#: Leaves and landmarks of DC-Pred++, depth of LDKL.
DCPRED_SIZES, LDKL_DEPTHS = ((4, 16), (8, 32)), (3, 6)


@dataclass(frozen=True)
class Teacher:
    """The best of some models, fitted to the dense training rows."""

    model: Any
    name: str
    setting: Setting
    seconds: float


def teach(problem: Problem, quick: bool) -> Teacher:
    """Choose an SVM's gamma and C on held-out rows, or boosting where that is better, and fit it."""
    start = time.perf_counter()
    X, y = problem.train.dense, problem.train.y
    some = np.random.default_rng(0).permutation(len(y))[: 400 if quick else TEACHER_ROWS]
    held, rest = np.split(some, [round(HELD_OUT * len(some))])
    many, gammas = problem.n_classes > 2, GAMMAS[1:2] if quick else GAMMAS
    candidates: dict[str, tuple[Any, float, float]] = {}
    for gamma in gammas:
        for C in PENALTIES[:1] if quick else PENALTIES:
            width = gamma / X.shape[1]
            kind = SVR(C=C, gamma=width, epsilon=0.05) if problem.regression else SVC(C=C, gamma=width)
            candidates[f"SVM, gamma {width:.3g}, C {C:g}"] = kind, width, C
    rounds = QUICK_ROUNDS if quick else ROUNDS_MANY if many else TEACHER_ROUNDS
    candidates[f"boosting, {rounds} rounds at most"] = (
        hist_model(problem, 0.1, 31, rounds, early=True),
        0.0,
        0.0,
    )
    errors = {
        name: error_of(problem.regression, y[held], model.fit(X[rest], y[rest]).predict(X[held]))
        for name, (model, _, _) in candidates.items()
    }
    name = min(errors, key=lambda one: errors[one])
    # DC-Pred++ and LDKL search around the best SVM, whatever the teacher is.
    _, gamma, C = candidates[min((n for n in errors if n[:3] == "SVM"), key=lambda one: errors[one])]
    model = candidates[name][0].fit(X, y)
    setting = Setting(gamma, C, "20x", 0.0, problem.regression)
    return Teacher(model, name, setting, time.perf_counter() - start)


def teacher(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """The teacher itself, as slow as it is."""
    ask, nbytes = taught.model.predict, len(pickle.dumps(taught.model))
    yield Served("teacher", taught.name, ask, one_of(ask), taught.seconds, nbytes)


def compressed(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """gm.compress at falling budgets, timed through the public ``predict`` and ``predict_one``."""
    X, y = problem.train.dense, problem.train.y
    for cost in QUICK_COSTS if quick else COSTS:
        start = time.perf_counter()
        model = gm.compress(taught.model, X, y, cost=cost, random_state=0)
        seconds = taught.seconds + time.perf_counter() - start
        yield Served("gm.compress", cost, model.predict, model.predict_one, seconds, model.cost_.bytes)


def linear(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """Logistic regression, or ridge regression."""
    start = time.perf_counter()
    model = Ridge(1.0) if problem.regression else LogisticRegression(max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.train.dense, problem.train.y)
    seconds = time.perf_counter() - start
    layers = [(np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))]
    yield _network("linear model", "", layers, problem, seconds)


def distilled(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """Two hidden layers fitted to the teacher's values, or to its labels where held-out rows say so."""
    X, y = problem.train.dense, problem.train.y
    held, rest = np.split(np.random.default_rng(0).permutation(len(y)), [round(HELD_OUT * len(y))])
    told, epochs = taught.model.predict(X), 5 if quick else EPOCHS
    if not problem.regression:
        values = taught.model.decision_function(X)
        # Beyond ±1 the side is decided; values of many classes are votes, which have a scale of their own.
        values = np.clip(values, -1.0, 1.0) if values.ndim == 1 else values / values.std()
    for width in WIDTHS[:1] if quick else WIDTHS:
        start = time.perf_counter()
        options = {"hidden_layer_sizes": (width, width), "max_iter": epochs, "random_state": 0}
        lessons: list[tuple[Any, np.ndarray]] = [(MLPRegressor(**options), told)]
        if not problem.regression:
            lessons = [(MLPRegressor(**options), values), (MLPClassifier(**options), told)]
        tried = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for model, lesson in lessons:
                model.fit(X[rest], lesson[rest])
                served = _network("distilled MLP", f"2 x {width}", _layers(model), problem, 0.0)
                tried.append(error_of(problem.regression, y[held], served.batch(X[held])))
            model, lesson = lessons[int(np.argmin(tried))]
            model.fit(X, lesson)
        seconds = taught.seconds + time.perf_counter() - start
        yield _network("distilled MLP", f"2 x {width}", _layers(model), problem, seconds)


def _layers(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(model.coefs_, model.intercepts_, strict=True))


def _network(method: str, size: str, layers: Any, problem: Problem, seconds: float) -> Served:
    """Return layers with max(0, ·) between them, evaluated by NumPy in float32 in tiles for the cache."""
    layers = [(np.ascontiguousarray(W, np.float32), np.asarray(b, np.float32)) for W, b in layers]

    def tile(X: np.ndarray) -> np.ndarray:
        for at, (W, b) in enumerate(layers):
            X = X @ W
            X += b
            if at < len(layers) - 1:
                np.maximum(X, 0.0, out=X)
        return X

    def values(X: np.ndarray) -> np.ndarray:
        if len(X) <= TILE_ROWS:
            return tile(X)
        return np.concatenate([tile(X[at : at + TILE_ROWS]) for at in range(0, len(X), TILE_ROWS)])

    answers = answers_of(problem, values)
    nbytes = sum(W.nbytes + b.nbytes for W, b in layers)
    return Served(method, size, answers, one_of(answers), seconds, nbytes)


def answers_of(problem: Problem, values: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a function from rows to predictions or class numbers, from values (n, outputs) or (n,)."""
    if problem.regression:
        return lambda X: values(X).reshape(len(X))
    if problem.n_classes == 2:
        return lambda X: (values(X).reshape(len(X)) > 0).astype(np.int64)
    return lambda X: values(X).argmax(axis=1)


def dc_pred(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """DC-Pred++ in two sizes."""
    tuned = [
        (f"leaves {leaves}, landmarks {marks}", dcpred(taught.setting, leaves, marks, 0))
        for leaves, marks in DCPRED_SIZES[: 1 if quick else None]
    ]
    yield from _tuned("DC-Pred++", tuned, problem, quick, taught)


def local_deep(problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    """LDKL in two depths; it is for classes."""
    depths = () if problem.regression else LDKL_DEPTHS[: 1 if quick else None]
    yield from _tuned("LDKL", [(f"depth {d}", ldkl(d, 0)) for d in depths], problem, quick, taught)


def _tuned(method: str, tuned: Any, problem: Problem, quick: bool, taught: Teacher) -> Iterator[Served]:
    X, y = problem.train.dense.astype(np.float64), problem.train.y
    for size, one in tuned:
        start = time.perf_counter()
        if quick:
            best = {name: values[len(values) // 2] for name, values in one.grid.items()}
        else:
            best = one.best(taught.setting, X, y, 0)[0]
        model = one.make(**best).fit(X, y)
        seconds = time.perf_counter() - start
        # The bare predictor, without the checks of scikit-learn, where it gives the values of a classifier.
        call = model.predict if problem.regression else answers_of(problem, fast_call(model))
        yield Served(method, size, call, one_of(call), seconds, numbers_bytes(model))
