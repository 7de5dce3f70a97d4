"""Training of kernel ridge for ``gramian fit`` on numeric data: scaling, choice of gamma and alpha, score."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramian._typing import Array
from gramian.cli.files import all_targets
from gramian.cli.options import AUTO, TrainingOptions
from gramian.cli.task import Clock, Outcome, find_task, prepared_target, split_order
from gramian.compression.plan import Plan
from gramian.compression.predictor import Predictor
from gramian.data.mapped import map_rows
from gramian.data.scaled import Moments, Scaler, moments
from gramian.data.source import RowSource
from gramian.data.stored_source import StoredSource
from gramian.estimator.fitting import remove
from gramian.estimator.labels import relative_weights
from gramian.kernels import Polynomial
from gramian.kernels.columns import dense
from gramian.kernels.resolve import BY_NAME
from gramian.reporting.judging import REGRESSION, named_columns
from gramian.reporting.rows import by_blocks, take_rows
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

#: Alpha for a plan, which makes no search. Chosen by hand.
PLAN_ALPHA = 0.1


def estimator(
    task: str, settings: TrainingOptions, gamma: float | str | None, alpha: float | str
) -> KernelRidge | KernelRidgeClassifier:
    """Return the unfitted estimator for the task."""
    kind = KernelRidge if task == REGRESSION else KernelRidgeClassifier
    return kind(
        alpha,
        kernel=settings.kernel,
        gamma=gamma,
        approximation=settings.approximation,
        fit_intercept=True,
        memory_budget=settings.memory,
        random_state=settings.seed,
        n_jobs=settings.threads,
        verbose=int(settings.verbose),
    )


def train(rows: StoredSource, settings: TrainingOptions, weights: Array | None, clock: Clock) -> Outcome:
    """Scale, choose parameters, score on held-out rows, and fit on all rows.

    Mean, deviation and parameters come from the rows that are not held out, so that nothing has seen the rows
    of the score.
    """
    target = all_targets(rows)
    task, reason = find_task(target, settings.task)
    y, weights = prepared_target(target, task), relative_weights(weights)
    used = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    held = used[:0]
    if settings.holdout > 0:
        used, held = map(np.sort, split_order(y, task, settings.holdout, settings.seed, weights))
    own = None if weights is None else weights[used]
    seen = (
        moments(take_rows(rows, used) if len(used) < len(y) else rows, own) if settings.standardize else None
    )
    source: RowSource = rows if seen is None else map_rows(rows, Scaler.of(seen))
    clock.lap("prepare")
    gamma: float | str | None = settings.gamma
    if gamma is None and _has_width(settings.kernel):
        gamma = AUTO
    model = estimator(task, settings, gamma, AUTO if settings.alpha is None else settings.alpha)
    outcome = Outcome(model, task, reason, *rows.shape)
    auto_names = [name for name, value in (("gamma", gamma), ("alpha", model.alpha)) if value == AUTO]
    if len(held):
        model.fit(take_rows(source, used), y[used], own)
        with named_columns():
            predicted = by_blocks(model.predict, take_rows(source, held))
        outcome.judge(y, predicted, used, held, weights)
        model.set_params(**{name: _parameter(model, name) for name in auto_names})
        clock.lap("search and held-out score" if auto_names else "held-out score")
    model.fit(source, y, weights)
    clock.lap("fit on all rows")
    outcome.facts, outcome.plan = _facts(model, auto_names, len(used)), model.plan_
    if seen is not None:
        outcome.model = Pipeline([("scaler", _scaler(seen, rows.feature_names)), ("model", model)])
        # The pipeline's first step has the column names; it passes none to the model.
        remove(model, "feature_names_in_")
    return outcome


def _has_width(kernel: str) -> bool:
    """Return whether a kernel has a gamma that is worth a search."""
    return kernel in BY_NAME and BY_NAME[kernel].gamma_rule is not None and kernel not in Polynomial.names


def _parameter(model: KernelRidge | KernelRidgeClassifier, name: str) -> float | None:
    """Return the gamma or the alpha that a fitted model has, given or chosen."""
    return (
        model.kernel_.gamma if name == "gamma" else float(np.asarray(getattr(model, "alpha_", model.alpha)))
    )


def _scaler(seen: Moments, names: tuple[str, ...] | None) -> StandardScaler:
    """Return scikit-learn's scaler with moments that were computed outside it."""
    scaler = StandardScaler(with_mean=not seen.sparse)
    scaler.mean_, scaler.scale_ = seen.mean, Scaler.of(seen).scale
    scaler.var_, scaler.n_samples_seen_ = seen.squares / seen.mass, int(seen.mass)
    scaler.n_features_in_ = len(seen.mean)
    if names is not None:
        scaler.feature_names_in_ = np.asarray(names, object)
    return scaler


def usual_gamma(kernel: str, X: RowSource, rng: np.random.Generator) -> float | None:
    """Return gamma by the median heuristic: k(x, y) is about exp(-1/2) or exp(-1) at the median distance.

    Uses at most 1,000 rows. None for kernels without gamma, or if all rows are equal.
    """
    if not _has_width(kernel):
        return 1.0 / X.shape[1] if kernel in Polynomial.names else None
    rows = X.take(np.sort(rng.choice(X.shape[0], min(X.shape[0], 1000), replace=False)))
    distances = pdist(dense(rows, np.float64), "cityblock" if kernel == "laplacian" else "euclidean")
    typical = float(np.median(distances)) if distances.size else 0.0
    return BY_NAME[kernel](typical).gamma if typical > 0 else None


def plan(
    rows: StoredSource, y: Array, task: str, settings: TrainingOptions
) -> tuple[float | None, float, Plan]:
    """Return gamma, alpha and the plan of a fit on scaled rows, with usual values for what is not given."""
    source: RowSource = map_rows(rows, Scaler.of(moments(rows))) if settings.standardize else rows
    gamma, alpha = settings.gamma, PLAN_ALPHA if settings.alpha is None else settings.alpha
    if gamma is None:
        gamma = usual_gamma(settings.kernel, source, np.random.default_rng(settings.seed))
    return gamma, alpha, estimator(task, settings, gamma, alpha).plan(source, y)


def _facts(
    model: KernelRidge | KernelRidgeClassifier, auto_names: list[str], n_rows: int
) -> list[tuple[str, str]]:
    gamma, alpha = _parameter(model, "gamma"), _parameter(model, "alpha")
    facts = [
        ("kernel", f"{model.kernel}, {'' if gamma is None else f'gamma {gamma:.4g}, '}alpha {alpha:.4g}")
    ]
    if auto_names:
        facts.append(("", f"{' and '.join(auto_names)} by leave-one-out errors on {n_rows:,} rows"))
    facts.append(("method", model.plan_.title))
    if isinstance(model.predictor_, Predictor):
        facts.append(("blocks, rank", f"{len(model.predictor_.weights[-1])}, {model.rank_:,}"))
    return facts
