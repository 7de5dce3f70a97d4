"""What ``gramian fit`` does with a table: task, scaling, choice of parameters, held-out score."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramian._budget import parse_bytes
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, Rows
from gramian.data.files import Table
from gramian.estimators.base import positive_number
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError
from gramian.kernels.columns import dense
from gramian.kernels.lookup import resolve_kernel

REGRESSION, CLASSIFICATION = "regression", "classification"
#: Whole numbers with at most this many distinct values are taken for classes.
MOST_CLASSES = 20
#: Rows of the search: a Gram matrix of 2,000² numbers takes 32 MB and a tenth of a second to factorise.
SEARCH_TRAIN, SEARCH_TEST = 2_000, 1_000
GAMMA_FACTORS, ALPHAS = (0.25, 1.0, 4.0, 16.0), (0.01, 0.1, 1.0)
#: Alpha of a plan, where no search is made.
PLAN_ALPHA = 0.1
#: Kernels without gamma, and the power of the distance that gamma multiplies in the others.
_NO_GAMMA = ("linear", "cosine")
_SQUARED = ("rbf", "gaussian", "rational_quadratic", "cauchy")
_POLYNOMIAL = ("poly", "polynomial")
#: Rows of one step of scaling and prediction.
_STEP = 65_536


@dataclass(frozen=True)
class Settings:
    """What the command line asks for."""

    task: str
    kernel: str
    gamma: float | None
    alpha: float | None
    approximation: str
    memory: str
    standardize: bool
    holdout: float
    seed: int
    threads: int | None
    verbose: bool


def find_task(y: Array, asked: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    if asked != "auto":
        if asked == REGRESSION and y.dtype.kind not in "biuf":
            raise InputError(
                "the target holds text, which regression cannot predict. Pass --task classification."
            )
        return asked, "as asked"
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION, "the target holds " + ("booleans" if y.dtype.kind == "b" else "text")
    distinct = len(np.unique(y))
    if distinct <= MOST_CLASSES and bool((y == np.rint(y)).all()):
        return CLASSIFICATION, f"the target holds {distinct} distinct whole numbers"
    return REGRESSION, f"the target holds numbers, {distinct:,} distinct ones"


def prepared_target(y: Array, task: str) -> Array:
    """Return the target as the estimator takes it: whole-numbered classes as integers."""
    whole = task == CLASSIFICATION and y.dtype.kind == "f" and bool((y == np.rint(y)).all())
    return y.astype(np.int64) if whole else y


def as_float(X: Rows) -> Rows:
    """Return rows as floats; float32 holds integers of up to 16 bits exactly in half the memory."""
    if X.dtype.kind == "f":
        return X
    return X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)


def fit_scaler(X: Rows) -> StandardScaler:
    """Fit mean and standard deviation; of sparse rows the deviation only, so that zeros stay zeros."""
    return StandardScaler(with_mean=not sp.issparse(X)).fit(X)


def scale_in_place(scaler: StandardScaler, X: Rows) -> Rows:
    """Return scaled rows in the memory of X (a table that this program has read itself)."""
    if sp.issparse(X):
        return scaler.transform(X)
    for rows in row_slices(X.shape[0], _STEP):
        X[rows] = scaler.transform(X[rows])
    return X


def predict_rows(model: Any, X: Rows) -> Array:
    """Predict by steps, so that the scaled copy stays small."""
    return np.concatenate([model.predict(as_float(X[rows])) for rows in row_slices(X.shape[0], _STEP)])


def split(X: Rows, y: Array, task: str, share: float, seed: int) -> tuple[Rows, Array, int]:
    """Return rows and targets in random order and how many come before the held-out ones.

    Classes keep their shares where the held-out part has room for each of them.
    """
    n = X.shape[0]
    if n < 10:
        raise InputError(f"{n} rows are too few to hold some out. Pass --holdout 0.")
    strata = None
    if task == CLASSIFICATION:
        counts = np.unique(y, return_counts=True)[1]
        room = min(int(n * share), n - int(np.ceil(n * share)))
        strata = y if counts.min() >= 2 and len(counts) <= room else None
    train, test = train_test_split(np.arange(n), test_size=share, random_state=seed, stratify=strata)
    order = np.concatenate([train, test])
    return X[order], y[order], len(train)


# ---- the search for gamma and alpha ------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Parameters and where they come from; ``score`` is that of the search."""

    gamma: float | None
    alpha: float
    tried: int = 0
    rows: int = 0
    score: float = float("nan")


def usual_gamma(kernel: str, X: Rows, rng: np.random.Generator) -> float | None:
    """Return the median heuristic: k(x, y) of a pair at the median distance is exp(-1/2) or so.

    Of at most 1,000 rows. None for kernels without gamma, or where all rows are the same.
    """
    if kernel in _NO_GAMMA:
        return None
    n, d = X.shape
    if kernel in _POLYNOMIAL:
        return 1.0 / d
    rows = X[np.sort(rng.choice(n, min(n, 1000), replace=False))]
    points = dense(rows, np.float64)
    distances = pdist(points, "cityblock" if kernel == "laplacian" else "euclidean")
    typical = float(np.median(distances)) if distances.size else 0.0
    if not typical > 0:
        return None
    return 0.5 / typical**2 if kernel in _SQUARED else 1.0 / typical


def choose(settings: Settings, X: Rows, y: Array, task: str) -> Choice:
    """Choose what was not given by exact kernel ridge regression on at most 2,000 rows.

    Scored on at most 1,000 others; of equals the smoothest is taken. Time O(gammas · alphas · 2000³/3),
    memory four Gram matrices of the search's rows, which are as many as the budget allows.
    """
    kernel, gamma, alpha = settings.kernel, settings.gamma, settings.alpha
    rng = np.random.default_rng(settings.seed)
    usual = usual_gamma(kernel, X, rng) if gamma is None else None
    gammas: list[float | None] = [gamma] if usual is None else [usual * factor for factor in GAMMA_FACTORS]
    alphas = sorted(ALPHAS, reverse=True) if alpha is None else [alpha]
    if len(gammas) * len(alphas) == 1:
        return Choice(gammas[0], alphas[0])
    most = int((parse_bytes(settings.memory) / 32) ** 0.5)
    n = min(X.shape[0], SEARCH_TRAIN + SEARCH_TEST, most)
    n_test = min(SEARCH_TEST, n // 3)
    drawn = rng.choice(X.shape[0], n, replace=False)
    held, used = drawn[:n_test], drawn[n_test:]
    if n_test < 2 or (task == CLASSIFICATION and len(np.unique(y[used])) < 2):
        # Too few rows, or all of one class: a search would tell nothing.
        return Choice(gammas[0] if usual is None else usual, PLAN_ALPHA if alpha is None else alpha)
    best: Choice | None = None
    for g, a, predicted in _candidates(kernel, X, y, task, used, held, gammas, alphas):
        score = score_of(task, y[held], predicted)
        if best is None or score > best.score:
            best = Choice(g, a, len(gammas) * len(alphas), len(drawn), score)
    if best is None:
        raise InputError(
            f"no gamma and alpha of the search gave a solvable system with kernel={kernel!r}. Pass --gamma "
            "and a larger --alpha."
        )
    return best


def _candidates(
    kernel: str,
    X: Rows,
    y: Array,
    task: str,
    used: Array,
    held: Array,
    gammas: list[float | None],
    alphas: list[float],
) -> Iterator[tuple[float | None, float, Array]]:
    classes = np.unique(y[used])
    kind = ClassTargets if task == CLASSIFICATION else NumberTargets
    targets: Targets = kind(y[used], len(used))
    shift = targets.mean(None)
    right = targets[slice(0, len(used))] - shift
    for gamma in gammas:
        k = resolve_kernel(kernel, n_features=X.shape[1], gamma=gamma)
        gram, across = k(X[used], dtype=np.float64), k(X[held], X[used], dtype=np.float64)
        for alpha in alphas:
            shifted = gram + alpha * np.eye(len(used))
            try:
                weights = la.solve(shifted, right, assume_a="pos", overwrite_a=True, check_finite=False)
            except la.LinAlgError:
                continue
            values: Float64Array = across @ weights + shift
            if task == REGRESSION:
                yield gamma, alpha, values[:, 0]
            elif len(classes) == 2:
                yield gamma, alpha, classes[(values[:, 0] > 0).astype(np.intp)]
            else:
                yield gamma, alpha, classes[values.argmax(axis=1)]


# ---- scores ------------------------------------------------------------------------------------


def score_of(task: str, y: Array, predicted: Array) -> float:
    """Return accuracy, or R² (0 is the mean of the held-out targets)."""
    if task == CLASSIFICATION:
        return float(np.mean(y == predicted))
    return float(r2_score(y, predicted)) if len(y) > 1 else float("nan")


def scores(task: str, y: Array, predicted: Array) -> dict[str, float]:
    """Return the scores of the task by name."""
    if task == CLASSIFICATION:
        return {"accuracy": score_of(task, y, predicted)}
    rmse = float(root_mean_squared_error(y, predicted))
    return {"R²": score_of(task, y, predicted), "RMSE": rmse}


def trivial(task: str, y: Array, count: int) -> Array:
    """Return what a model without features predicts: the mean, or the commonest class."""
    if task == REGRESSION:
        return np.full(count, float(np.mean(y, dtype=np.float64)))
    classes, counts = np.unique(y, return_counts=True)
    return np.repeat(classes[[counts.argmax()]], count)


# ---- the whole -------------------------------------------------------------------------------


@dataclass
class Outcome:
    """A trained model and what there is to say about it."""

    model: Any
    fitted: Any
    task: str
    reason: str
    choice: Choice
    n_rows: int
    n_features: int
    n_held: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def check(settings: Settings) -> None:
    """Raise for a slip in the settings before a large file is read."""
    parse_bytes(settings.memory)
    resolve_kernel(settings.kernel, n_features=1, gamma=settings.gamma)
    if settings.alpha is not None:
        positive_number("alpha", settings.alpha)
    if settings.approximation not in ("auto", "exact"):
        KernelRidge(approximation=settings.approximation)._method()


def estimator(task: str, settings: Settings, choice: Choice) -> KernelRidge | KernelRidgeClassifier:
    """Return the unfitted estimator of the task."""
    kind = KernelRidge if task == REGRESSION else KernelRidgeClassifier
    return kind(
        choice.alpha,
        kernel=settings.kernel,
        gamma=choice.gamma,
        approximation=settings.approximation,
        fit_intercept=True,
        memory_budget=settings.memory,
        random_state=settings.seed,
        n_jobs=settings.threads,
        verbose=int(settings.verbose),
    )


def train(table: Table, settings: Settings) -> Outcome:
    """Scale, choose, score on held-out rows, and fit on all rows.

    The table's array is scaled in place. Mean, deviation and parameters come from the rows that are not
    held out, so that the score is that of rows which nothing has seen.
    """
    assert table.y is not None
    clock = Clock()
    task, reason = find_task(table.y, settings.task)
    X, y = as_float(table.X), prepared_target(table.y, task)
    n_train = X.shape[0]
    if settings.holdout > 0:
        X, y, n_train = split(X, y, task, settings.holdout, settings.seed)
    scaler = None
    if settings.standardize:
        scaler = fit_scaler(X[:n_train])
        X = scale_in_place(scaler, X)
    clock.lap("prepare")
    choice = choose(settings, X[:n_train], y[:n_train], task)
    clock.lap("search")
    model = estimator(task, settings, choice)
    n_rows, n_features = X.shape
    outcome = Outcome(model, model, task, reason, choice, n_rows, n_features, seconds=clock.seconds)
    if n_train < X.shape[0]:
        model.fit(X[:n_train], y[:n_train])
        held = y[n_train:]
        outcome.n_held = len(held)
        outcome.scores = scores(task, held, predict_rows(model, X[n_train:]))
        outcome.baseline = scores(task, held, trivial(task, y[:n_train], len(held)))
        clock.lap("held-out score")
    model.fit(X, y)
    clock.lap("fit on all rows")
    first: Any = model if scaler is None else scaler
    if table.feature_names is not None:
        first.feature_names_in_ = np.asarray(table.feature_names, object)
    if scaler is not None:
        outcome.model = Pipeline([("scaler", scaler), ("model", model)])
    return outcome


class Clock:
    """Seconds per phase."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """Book the time since the last lap on ``phase``."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now
