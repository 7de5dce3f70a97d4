"""Gradient boosting on the rows of a table model, with values of rows by models without them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian._budget import parse_bytes
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY
from gramian.engine import Engine
from gramian.estimator.answers import log_probabilities
from gramian.estimator.labelled import LabelledRows
from gramian.tables.boosting.boosted import Boosted, joined, log_odds
from gramian.tables.boosting.trees import Trees
from gramian.tables.column import Feature
from gramian.tables.holdout import HoldOut
from gramian.tables.level_means import level_means
from gramian.tables.training.logistic import FOLDS

#: Settings of boosting, in which each split looks at half of the columns. Chosen by hand.
SETTINGS = {
    "learning_rate": 0.06,
    "max_features": 0.5,
    "max_leaf_nodes": 16,
    "min_samples_leaf": 10,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "warm_start": True,
}
#: Rounds are added by STEP until the best number of them is PATIENCE or more below what was tried, to MOST of
#: them, or MOST_TREES trees of several classes. Chosen by hand.
STEP, PATIENCE, MOST, MOST_TREES = 100, 20, 400, 2_000
#: With fewer rows there is no boosting; up to MOST_FOLDED every row is left out once, beyond that only the
#: held-out rows are. All rows calibrate a kernel model up to 7,071 of them. Chosen by hand.
LEAST_ROWS, MOST_FOLDED = 200, 7_500
#: Bytes of memory for each number of the rows that boosting learns from, for the models of all folds. By
#: hand.
NUMBER_BYTES = 64
#: Share of the remaining time that boosting may take; rounds and columns that are timed under a limit. Chosen
#: by hand.
TIME_SHARE, TIMED_ROUNDS, TIMED_COLUMNS = 0.2, 3, 100


def with_boosting(
    rows: LabelledRows[Array],
    groups: tuple[tuple[int, ...], ...],
    classes: bool,
    held: IntArray,
    holdout: HoldOut,
    options: Mapping[str, Any],
    until: float,
    rng: np.random.Generator,
) -> tuple[Boosted, Float64Array] | None:
    """Return boosting of all rows, and values (n, outputs) of rows by boosting without their fifth.

    rows : (n, d) encoded and scaled rows with targets (n,) or (n, outputs), or labels where ``classes``;
    groups : places of one-hot groups; held : rows that judge if the rows are many or can't be parted, as for
    times: the values of the others are NaN then; options : the estimator's threads ``n_jobs``, and its
    ``memory_budget``: of more rows than that holds some are drawn. The number of rounds is the one of least
    error on the rows that are left out. None if there is too little time until ``until``, on the clock of
    ``time.perf_counter``.
    """
    began, counted = time.perf_counter(), rows.counted
    seed = int(rng.integers(2**31))
    folds = (holdout.folds(counted, FOLDS, rng) if len(counted) <= MOST_FOLDED else None) or [held]
    most = max(2, parse_bytes(options["memory_budget"]) // (NUMBER_BYTES * rows.source.shape[1]))
    task = _Task.of(rows, groups, classes, seed)

    def learner(numbers: IntArray) -> _Learner:
        drawn = numbers if len(numbers) <= most else np.sort(rng.choice(numbers, most, replace=False))
        return task.learner(drawn)

    def late(done: float, of_all: float) -> bool:
        return (time.perf_counter() - began) / done * of_all > TIME_SHARE * (until - began)

    with threadpool_limits(Engine(options["n_jobs"]).n_threads, user_api="openmp"):
        least = (len(folds) + 1) * learner(counted).step_seconds() if until < np.inf else 0.0
        if least > TIME_SHARE * (until - began):
            return None
        learners, rounds = [learner(np.setdiff1d(counted, fold)) for fold in folds], 0
        limit = min(MOST, max(STEP, MOST_TREES // max(1, task.n_classes)))
        best = rounds
        while rounds < limit and best > rounds - PATIENCE:
            losses, rounds = np.zeros(min(limit, rounds + STEP)), min(limit, rounds + STEP)
            for done, (each, fold) in enumerate(zip(learners, folds, strict=True), 1):
                each.grow(rounds)
                losses += each.losses(fold)
                if late(done, len(folds) + 1):
                    return None
            best = int(losses.argmin()) + 1
        values: Float64Array | None = None
        for each, fold in zip(learners, folds, strict=True):
            some = each.boosted(best).of(rows.source, fold)
            values = np.full((rows.n, some.shape[1]), np.nan) if values is None else values
            values[fold] = some
        assert values is not None
        whole = learner(counted)
        whole.grow(best)
    return whole.boosted(best), values


@dataclass(frozen=True)
class _Task:
    """What boosting learns: rows with numbers (n, outputs) or codes of classes (n,)."""

    rows: LabelledRows[Array]
    groups: tuple[tuple[int, ...], ...]
    n_classes: int
    seed: int

    @classmethod
    def of(cls, rows: LabelledRows[Array], groups: Any, classes: bool, seed: int) -> _Task:
        if not classes:
            columns = np.asarray(rows.targets, np.float64).reshape(rows.n, -1)
            return cls(replace(rows, targets=columns), groups, 0, seed)
        labels, codes = np.unique(rows.targets, return_inverse=True)
        return cls(replace(rows, targets=codes), groups, len(labels), seed)

    def take(self, numbers: IntArray) -> Array:
        """Return encoded and scaled rows by their numbers."""
        return np.asarray(self.rows.source.take(numbers))

    def learner(self, numbers: IntArray) -> _Learner:
        """Return boosting of the rows with these numbers, which has not begun."""
        targets = np.asarray(self.rows.targets)[numbers]
        weights = None if self.rows.weights is None else np.asarray(self.rows.weights[numbers], np.float64)
        features = [Feature("", CATEGORY, "", slice(each[0], each[-1] + 1)) for each in self.groups]
        wanted = np.eye(self.n_classes)[targets] if self.n_classes else targets
        means = level_means(features, self.take, numbers, wanted, weights)
        codes = np.array([value for each in means for value in each.values])
        kind = HistGradientBoostingClassifier if self.n_classes else HistGradientBoostingRegressor
        outputs = targets.reshape(len(numbers), -1).T
        seen = tuple(np.unique(targets).tolist()) if self.n_classes else ()
        models = [kind(**SETTINGS, random_state=self.seed) for _ in outputs] if len(seen) != 1 else []
        return _Learner(
            self, joined(self.take(numbers), self.groups, codes), outputs, weights, codes, seen, models
        )


@dataclass(frozen=True)
class _Learner:
    """Boosting of some rows that can go on: a model for each output, or one for classes.

    There is no model where all rows are of one class.
    """

    task: _Task
    X: Float64Array
    outputs: Array
    weights: Float64Array | None
    codes: Float64Array
    classes: tuple[int, ...]
    models: list[Any]

    def grow(self, rounds: int) -> None:
        """Add trees until there have been so many rounds."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")
            for model, y in zip(self.models, self.outputs, strict=bool(self.models)):
                model.set_params(max_iter=rounds).fit(self.X, y, self.weights)

    def step_seconds(self) -> float:
        """Return the seconds that STEP rounds will take, from a few rounds on part of the columns."""
        some = replace(self, X=self.X[:, :TIMED_COLUMNS])
        began = time.perf_counter()
        some.grow(1)
        first = time.perf_counter() - began  # the columns are binned in it
        some.grow(1 + TIMED_ROUNDS)
        each = (time.perf_counter() - began - first) / TIMED_ROUNDS
        return (first + STEP * each) * self.X.shape[1] / some.X.shape[1]

    def losses(self, numbers: IntArray) -> Float64Array:
        """Return the sum of the rows' losses after each round: of squares, or of -ln P."""
        if not self.models:
            return np.zeros(1)
        rows, targets = self.task.rows, np.asarray(self.task.rows.targets)[numbers]
        weights = np.ones(len(numbers)) if rows.weights is None else rows.weights[numbers]
        X, n_classes = joined(self.task.take(numbers), self.task.groups, self.codes), self.task.n_classes
        if not n_classes:
            stages = zip(*(model.staged_predict(X) for model in self.models), strict=True)
            return np.array([weights @ ((np.column_stack(z) - targets) ** 2).sum(axis=1) for z in stages])
        found = []
        for values in self.models[0].staged_decision_function(X):
            values = log_odds(np.reshape(values, (len(numbers), -1)), self.classes, n_classes)
            found.append(-weights @ log_probabilities(values)[np.arange(len(numbers)), targets])
        return np.array(found)

    def boosted(self, rounds: int) -> Boosted:
        """Return the trees of the first rounds."""
        trees = Trees.of_boosting(self.models, rounds) if self.models else Trees.none()
        return Boosted(trees, self.task.groups, self.codes, self.task.n_classes, self.classes)
