"""Training of kernel ridge for ``gramian fit`` on numeric data: scaling, choice of gamma and alpha, score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from scipy.spatial.distance import pdist
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramian._budget import parse_bytes
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.cli.opening import all_targets
from gramian.cli.outcome import Clock, Outcome
from gramian.cli.settings import TrainingOptions
from gramian.cli.task import find_task, prepared_target, split_order
from gramian.compression.plan import Plan
from gramian.compression.predictor import Predictor
from gramian.data.mapped import map_rows
from gramian.data.scaled import Moments, Scaler, moments
from gramian.data.source import RowSource, as_source
from gramian.data.stored_source import StoredSource
from gramian.estimator.answers import class_labels
from gramian.estimator.fitting import remove
from gramian.estimator.labels import relative_weights
from gramian.estimator.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError
from gramian.kernels import Kernel, Polynomial
from gramian.kernels.columns import dense
from gramian.kernels.resolve import BY_NAME, WITHOUT_GAMMA, resolve_kernel
from gramian.reporting.judging import CLASSIFICATION, REGRESSION, named_columns, number, score_of
from gramian.reporting.rows import by_blocks, take_rows
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.search import Split, search

#: Rows of the search: a Gram matrix of 2,000² numbers takes 32 MB and a tenth of a second to factorise.
#: Gamma is the median heuristic times one of the factors. All chosen by hand.
SEARCH_TRAIN, SEARCH_TEST = 2_000, 1_000
GAMMA_FACTORS, ALPHAS = (0.25, 1.0, 4.0, 16.0), (0.01, 0.1, 1.0)
#: Alpha for a plan, which makes no search. Chosen by hand.
PLAN_ALPHA = 0.1


# ---- the search for gamma and alpha ------------------------------------------------------------


@dataclass(frozen=True)
class ChosenParameters:
    """Chosen parameters and the extent of the search; ``score`` is the best one of the search."""

    gamma: float | None
    alpha: float
    tried: int = 0
    rows: int = 0
    score: float = float("nan")


def usual_gamma(kernel: str, X: RowSource, rng: np.random.Generator) -> float | None:
    """Return gamma by the median heuristic: k(x, y) is about exp(-1/2) or exp(-1) at the median distance.

    Uses at most 1,000 rows. None for kernels without gamma, or if all rows are equal.
    """
    if kernel in WITHOUT_GAMMA:
        return None
    n, d = X.shape
    family = BY_NAME[kernel]
    if issubclass(family, Polynomial):
        return 1.0 / d
    rows = X.take(np.sort(rng.choice(n, min(n, 1000), replace=False)))
    points = dense(rows, np.float64)
    distances = pdist(points, "cityblock" if kernel == "laplacian" else "euclidean")
    typical = float(np.median(distances)) if distances.size else 0.0
    if not typical > 0:
        return None
    factor, power = family.gamma_rule or (1.0, 1.0)
    return 1.0 / (factor * typical**power)


def choose(
    settings: TrainingOptions, rows: Rows | RowSource, y: Array, task: str, weights: Array | None = None
) -> ChosenParameters:
    """Choose the parameters that were not given, by exact kernel ridge regression on at most 2,000 rows.

    They are scored on at most 1,000 other rows; of equal scores the smoothest model wins. Time
    O(gammas · alphas · 2000³/3); memory: four Gram matrices of the search's rows, whose number the
    budget limits.
    """
    kernel, gamma, alpha = settings.kernel, settings.gamma, settings.alpha
    rng, source = np.random.default_rng(settings.seed), as_source(rows)
    usual = usual_gamma(kernel, source, rng) if gamma is None else None
    gammas: list[float | None] = [gamma] if usual is None else [usual * factor for factor in GAMMA_FACTORS]
    alphas = sorted(ALPHAS, reverse=True) if alpha is None else [alpha]
    if len(gammas) * len(alphas) == 1:
        return ChosenParameters(gammas[0], alphas[0])
    most = int((parse_bytes(settings.memory) / 32) ** 0.5)
    n = min(source.shape[0], SEARCH_TRAIN + SEARCH_TEST, most)
    n_test = min(SEARCH_TEST, n // 3)
    drawn = rng.choice(source.shape[0], n, replace=False)
    X, y, weights = source.take(drawn), y[drawn], np.ones(n) if weights is None else weights[drawn]
    split = Split(np.arange(n_test, n), np.arange(n_test))
    if n_test < 2 or (task == CLASSIFICATION and len(np.unique(y[split.train])) < 2):
        # With too few rows, or only one class, a search would tell nothing.
        return ChosenParameters(gammas[0] if usual is None else usual, PLAN_ALPHA if alpha is None else alpha)

    def judge(split: Split, gamma: float | None) -> tuple[float, float]:
        return _best_alpha(
            resolve_kernel(kernel, n_features=X.shape[1], gamma=gamma), X, y, weights, task, split, alphas
        )

    found = search(split, [gammas], judge)
    if found.best is None:
        raise InputError(
            f"no gamma and alpha of the search gave a solvable system with kernel={kernel!r}. Pass --gamma "
            "and a larger --alpha."
        )
    best = found.best
    return ChosenParameters(best.candidate, best.evidence, len(gammas) * len(alphas), len(drawn), -best.error)


def _best_alpha(
    k: Kernel, X: Rows, y: Array, weights: Array, task: str, split: Split, alphas: list[float]
) -> tuple[float, float]:
    """Return the smallest error of exact kernel ridge regression on held-out rows, and its alpha.

    The error is minus the score; it is infinite if no alpha gives a solvable system.
    """
    train, held, n = split.train, split.held_out, len(split.train)
    targets: Targets = (ClassTargets if task == CLASSIFICATION else NumberTargets)(y[train], n)
    shift = targets.mean(weights[train])
    right = targets[slice(0, n)] - shift
    across = k(X[held], X[train], dtype=np.float64)

    def judge(gram: FloatArray, alpha: float) -> tuple[float, None]:
        shifted = gram + np.diag(alpha / weights[train])
        try:
            coefficients = la.solve(shifted, right, assume_a="pos", overwrite_a=True, check_finite=False)
        except la.LinAlgError:
            return np.inf, None
        values: Float64Array = across @ coefficients + shift
        predicted: Array = values[:, 0]
        if isinstance(targets, ClassTargets):
            predicted = class_labels(values, targets.classes)
        return -score_of(task, y[held], predicted, weights[held]), None

    best = search(k(X[train], dtype=np.float64), [alphas], judge).best
    return (np.inf, np.nan) if best is None else (best.error, best.candidate)


# ---- training and planning -------------------------------------------------------------------


def estimator(
    task: str, settings: TrainingOptions, choice: ChosenParameters
) -> KernelRidge | KernelRidgeClassifier:
    """Return the unfitted estimator for the task."""
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


def train(rows: StoredSource, settings: TrainingOptions, weights: Array | None = None) -> Outcome:
    """Scale, choose parameters, score on held-out rows, and fit on all rows.

    Mean, deviation and parameters come from the rows that are not held out, so that nothing has seen the rows
    of the score.
    """
    clock = Clock()
    found = all_targets(rows)
    task, reason = find_task(found, settings.task)
    y, weights = prepared_target(found, task), relative_weights(weights)
    used = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    held = used[:0]
    if settings.holdout > 0:
        used, held = map(np.sort, split_order(y, task, settings.holdout, settings.seed, weights))
    own = None if weights is None else weights[used]
    seen = (
        moments(take_rows(rows, used) if len(used) < len(y) else rows, own) if settings.standardize else None
    )
    source: RowSource = rows if seen is None else map_rows(rows, Scaler.of(seen))
    first = take_rows(source, used) if len(used) < len(y) else source
    clock.lap("prepare")
    choice = choose(settings, first, y[used], task, own)
    clock.lap("search")
    model = estimator(task, settings, choice)
    outcome = Outcome(model, task, reason, *rows.shape, seconds=clock.seconds)
    if len(held):
        model.fit(first, y[used], own)
        with named_columns():
            predicted = by_blocks(model.predict, take_rows(source, held))
        outcome.judge(y, predicted, used, held, weights)
        clock.lap("held-out score")
    model.fit(source, y, weights)
    clock.lap("fit on all rows")
    outcome.facts, outcome.plan = _facts(model, choice), model.plan_
    if seen is not None:
        outcome.model = Pipeline([("scaler", _scaler(seen, rows.feature_names)), ("model", model)])
        # The pipeline's first step has the column names; it passes none to the model.
        remove(model, "feature_names_in_")
    return outcome


def _scaler(seen: Moments, names: tuple[str, ...] | None) -> StandardScaler:
    """Return scikit-learn's scaler with moments that were computed outside it."""
    found = StandardScaler(with_mean=not seen.sparse)
    found.mean_, found.scale_ = seen.mean, Scaler.of(seen).scale
    found.var_, found.n_samples_seen_ = seen.squares / seen.mass, int(seen.mass)
    found.n_features_in_ = len(seen.mean)
    if names is not None:
        found.feature_names_in_ = np.asarray(names, object)
    return found


def plan(rows: StoredSource, y: Array, task: str, settings: TrainingOptions) -> tuple[ChosenParameters, Plan]:
    """Return the plan of a fit on scaled rows, with the usual gamma and alpha if they are not given."""
    source: RowSource = map_rows(rows, Scaler.of(moments(rows))) if settings.standardize else rows
    gamma = settings.gamma
    if gamma is None:
        gamma = usual_gamma(settings.kernel, source, np.random.default_rng(settings.seed))
    choice = ChosenParameters(gamma, PLAN_ALPHA if settings.alpha is None else settings.alpha)
    return choice, estimator(task, settings, choice).plan(source, y)


def _facts(model: KernelRidge | KernelRidgeClassifier, choice: ChosenParameters) -> list[tuple[str, str]]:
    gamma = "" if choice.gamma is None else f"gamma {choice.gamma:.4g}, "
    facts = [("kernel", f"{model.kernel}, {gamma}alpha {choice.alpha:.4g}")]
    if choice.tried:
        facts.append(
            ("", f"the best of {choice.tried} pairs on {choice.rows:,} rows ({number(choice.score)})")
        )
    facts.append(("method", model.plan_.title))
    predictor = model.predictor_
    if isinstance(predictor, Predictor):
        facts.append(("blocks, rank", f"{len(predictor.weights[-1])}, {model.rank_:,}"))
    return facts
