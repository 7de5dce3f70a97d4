"""Gradient boosting on the rows of a table model, with values of rows by models without them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY
from gramian.estimator.answers import log_probabilities
from gramian.estimator.labelled import LabelledRows
from gramian.tables.boosting.boosted import (
    Boosted,
    LevelPairs,
    count_categories,
    group_codes,
    join_groups,
    log_odds,
)
from gramian.tables.boosting.trees import Trees
from gramian.tables.column import Feature
from gramian.tables.importance.unseen import FoldsUnseen
from gramian.tables.level_means import level_means, level_pairs
from gramian.tables.training.gain import Gain
from gramian.tables.training.logistic import FOLDS
from gramian.tables.training.model_factory import ModelFactory

#: Settings of all boosting, in which each split looks at half of the columns. Chosen by hand.
COMMON = {"max_features": 0.5, "l2_regularization": 1.0, "early_stopping": False, "warm_start": True}
#: Rounds are added by STEP until the best number of them is PATIENCE or more below what was tried, to MOST of
#: them, half as many in folds and where little is tried, or MOST_TREES trees of several classes. The rate is
#: RATE, higher where there are fewer rounds than FEW. Chosen by hand.
RATE, STEP, PATIENCE, MOST, MOST_TREES, FEW = 0.12, 60, 25, 330, 2_000, 165
#: Up to so many rows every row is left out once, beyond that only the held-out rows are. All rows calibrate a
#: kernel model up to 7,071 of them. Chosen by hand.
MOST_FOLDED = 7_500
#: Most values of a column that its trees tell apart, scikit-learn's default; and rows that say where the bins
#: of more values lie.
BINS, BIN_ROWS = 255, 200_000
#: Bytes of memory for each number of the rows that boosting learns from, for the models of all folds. By
#: hand.
NUMBER_BYTES = 64
#: Boosting has at most one thread for this many rows: with fewer rows threads mostly wait for each other.
#: Chosen by hand.
THREAD_ROWS = 5_000
#: Share of the remaining time that boosting may take; rounds and columns that are timed under a limit. Chosen
#: by hand.
TIME_SHARE, TIMED_ROUNDS, TIMED_COLUMNS = 0.2, 3, 100


@dataclass(frozen=True)
class TreeSetting:
    """Sizes of the trees, and whether they see numbers of pairs of levels."""

    leaves: int = 16
    leaf_rows: int = 10
    pairs: bool = False


#: Settings that are compared at TRIED_RATE, the usual one first. A rate of 0.1 takes twice as long for no
#: better choice on used_cars_us. Chosen by hand.
SETTINGS = (TreeSetting(), TreeSetting(leaves=8), TreeSetting(leaves=31, leaf_rows=20))
TRIED_RATE = 0.2
#: Boosting of all rows, values (n, outputs) of rows by models without them, and these models.
BoostedFit = tuple[Boosted, Float64Array, FoldsUnseen]


def with_boosting(
    factory: ModelFactory,
    groups: tuple[tuple[int, ...], ...],
    held: IntArray,
    deadline: float,
    rng: np.random.Generator,
) -> BoostedFit | None:
    """Return boosting of all rows, with the values of rows by boosting without their fifth.

    factory : its rows are learned, by its threads and in its memory: if that holds fewer rows, some are
    drawn; groups : places of one-hot groups; held : rows that judge if the rows are many or can't be parted,
    as for times: the values of the others are NaN then. The setting is the usual one unless another has a
    clearly lower loss on the first rows that are left out, with pairs of levels if these lower it clearly
    too; the number of rounds is the one of least loss on all of them. Unless the effort leaves every row out
    once, only ``held`` judges, and nothing but the number of rounds. None if there is too little time until
    ``deadline``, on the clock of ``time.perf_counter``.
    """
    began, counted, resources = time.perf_counter(), factory.rows.counted, factory.resources
    if began >= deadline:
        return None
    rows = LabelledRows(factory.rows.source, np.asarray(factory.rows.targets.values), factory.rows.weights)
    seed = int(rng.integers(2**31))
    every = factory.effort.leaves_out_all(len(counted))
    folded = every and len(counted) <= MOST_FOLDED
    folds = (factory.holdout.folds(counted, FOLDS, rng) if folded else None) or [held]
    most = max(2, resources.memory_bytes // (NUMBER_BYTES * rows.source.shape[1]))
    task = _Task.of(rows, groups, factory.classifies, seed, most)

    def learner(numbers: IntArray, setting: TreeSetting, rate: float) -> _Learner:
        drawn = numbers if len(numbers) <= most else np.sort(rng.choice(numbers, most, replace=False))
        return task.learner(drawn, setting, rate)

    threads = min(resources.engine.n_threads, max(1, len(counted) // THREAD_ROWS))
    with threadpool_limits(threads, user_api="openmp"):
        rest, n_fits = np.setdiff1d(counted, folds[0]), len(folds) + 1
        setting, rounds = SETTINGS[0], max(STEP, MOST_TREES // max(1, task.n_classes))
        rounds = min(MOST if every and len(folds) == 1 else MOST // 2, rounds)
        rate = RATE * min(2.0, max(1.0, FEW / rounds))
        least = n_fits * learner(counted, setting, rate).step_seconds() if deadline < np.inf else 0.0
        if least > TIME_SHARE * (deadline - began):
            return None
        tries = (n_fits + 2 + len(SETTINGS)) * least / n_fits
        if every and tries <= TIME_SHARE * (deadline - began):
            weights = None if rows.weights is None else np.asarray(rows.weights[folds[0]], np.float64)
            most_tried = max(1, int(rounds * rate / TRIED_RATE))

            def loss_of(setting: TreeSetting) -> Float64Array:
                return _loss(learner(rest, setting, TRIED_RATE), folds[0], most_tried)

            losses = [loss_of(each) for each in SETTINGS]
            setting = _choose_setting(SETTINGS, losses, weights)
            if len(groups) > 1:
                both = setting, replace(setting, pairs=True)
                losses = [losses[SETTINGS.index(setting)], loss_of(both[1])]
                setting = _choose_setting(both, losses, weights)
        learners = [learner(np.setdiff1d(counted, fold), setting, rate) for fold in folds]
        grows = time.perf_counter()

        def late(done: int, rounds: int) -> bool:
            expected = (time.perf_counter() - grows) / done * n_fits * rounds
            return grows + expected > began + TIME_SHARE * (deadline - began)

        curve = _grow_rounds(learners, folds, rounds, late)
        if curve is None:
            return None
        best = int(curve.argmin()) + 1
        values: Float64Array | None = None
        models = [each.boosted(best) for each in learners]
        for model, fold in zip(models, folds, strict=True):
            some = model.predict(rows.source, fold)
            values = np.full((rows.n, some.shape[1]), np.nan) if values is None else values
            values[fold] = some
        assert values is not None
        whole = learner(counted, setting, rate)
        whole.grow(best)
    unseen = FoldsUnseen(tuple(folds), tuple(each.predict for each in models))
    return whole.boosted(best), values, unseen


def bin_edges(rows: Array) -> dict[int, Float64Array]:
    """Return, for each column of more than BINS values, the BINS − 1 numbers between which its bins lie.

    scikit-learn would look for them in every fold and every time that trees are added, which with weights
    takes three times as long as the trees do.
    """
    edges = {}
    for column in range(rows.shape[1]):
        values = np.asarray(rows[:, column], np.float64)
        if len(np.unique(values)) > BINS:
            edges[column] = np.unique(
                np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="midpoint")
            )
    return edges


def _grow_rounds(
    learners: Sequence[_Learner], folds: Sequence[IntArray], most: int, late: Callable[[int, int], bool]
) -> Float64Array | None:
    """Add rounds until more of them do not help on the rows left out; return the loss of each number of them.

    The first learner finds out how many rounds it takes, about, and the others grow so far at once. None if
    it becomes late, which is asked after each of the learners, with the rounds of all so far and of each.
    """
    losses, rounds, step, grown = np.zeros(0), 0, STEP, np.zeros(len(learners), int)
    first: Float64Array | None = None
    if len(learners) > 1:
        first = _grow_rounds(learners[:1], folds[:1], most, late)
        if first is None:
            return None
        step = int(first.argmin()) + 1 + PATIENCE
    while rounds < most and (not rounds or losses.argmin() + 1 > rounds - PATIENCE):
        rounds, step = min(most, rounds + step), STEP
        losses = np.zeros(rounds)
        for j, (each, fold) in enumerate(zip(learners, folds, strict=True)):
            each.grow(rounds)
            known = first if first is not None and not j and len(first) >= rounds else each.losses(fold)
            losses += known[:rounds]
            grown[j] = rounds
            if late(int(grown.sum()), rounds):
                return None
    return losses


def _loss(learner: _Learner, fold: IntArray, most: int) -> Float64Array:
    """Return the losses of the rows that are left out, with the number of rounds that is best for them."""
    losses = _grow_rounds([learner], [fold], most, lambda done, rounds: False)
    assert losses is not None
    best = int(losses.argmin()) + 1
    return learner.row_losses(learner.boosted(best).predict(learner.task.rows.source, fold), fold)


def _choose_setting(
    settings: Sequence[TreeSetting], losses: Sequence[Float64Array], weights: Float64Array | None
) -> TreeSetting:
    """Return the setting of least loss if that is clearly below the first setting's, else the first."""
    means = [float(np.average(each, weights=weights)) for each in losses]
    best = int(np.argmin(means))
    return settings[best if Gain.of_rows(losses[0], losses[best], weights).clear else 0]


@dataclass(frozen=True)
class _Task:
    """What boosting learns: rows with numbers (n, outputs) or codes of classes (n,)."""

    rows: LabelledRows[Array]
    groups: tuple[tuple[int, ...], ...]
    n_classes: int
    seed: int
    edges: dict[int, Float64Array]

    @classmethod
    def of(cls, rows: LabelledRows[Array], groups: Any, classes: bool, seed: int, most: int) -> _Task:
        """Return what boosting learns; at most ``most`` rows are read to find the bins, as memory holds."""
        some, most = rows.counted, min(most, BIN_ROWS)
        if len(some) > most:
            some = np.sort(np.random.default_rng(seed).choice(some, most, replace=False))
        edges = bin_edges(np.asarray(rows.source.take(some)))
        if not classes:
            columns = np.asarray(rows.targets, np.float64).reshape(rows.n, -1)
            return cls(replace(rows, targets=columns), groups, 0, seed, edges)
        labels, codes = np.unique(rows.targets, return_inverse=True)
        return cls(replace(rows, targets=codes), groups, len(labels), seed, edges)

    def take(self, numbers: IntArray) -> Array:
        """Return encoded and scaled rows by their numbers, columns of many values as their bins' numbers."""
        rows = np.array(self.rows.source.take(numbers), np.float64)
        for column, edges in self.edges.items():
            rows[:, column] = np.searchsorted(edges, rows[:, column])
        return rows

    @property
    def joined_edges(self) -> dict[int, Float64Array]:
        """The edges of bins by the columns of :func:`join_groups`."""
        alone = np.setdiff1d(np.arange(self.rows.source.shape[1]), np.array(sum(self.groups, ()), np.intp))
        first = count_categories(self.groups)
        return {first + int(np.searchsorted(alone, column)): own for column, own in self.edges.items()}

    def learner(self, numbers: IntArray, setting: TreeSetting, rate: float) -> _Learner:
        """Return boosting of the rows with these numbers, which has not begun."""
        targets = np.asarray(self.rows.targets)[numbers]
        weights = None if self.rows.weights is None else np.asarray(self.rows.weights[numbers], np.float64)
        features = [Feature("", CATEGORY, "", slice(each[0], each[-1] + 1)) for each in self.groups]
        wanted = np.eye(self.n_classes)[targets] if self.n_classes else targets
        level_numbers = level_means(features, self.take, numbers, wanted, weights)
        means = np.array([value for each in level_numbers for value in each.values])
        X, pairs = join_groups(self.take(numbers), self.groups, means), tuple[LevelPairs, ...]()
        if setting.pairs:
            codes, sizes = group_codes(self.take(numbers), self.groups), tuple(map(len, self.groups))
            pairs, own = level_pairs(codes, sizes, wanted, weights, np.random.default_rng(self.seed))
            X = np.hstack([X, own])
        categories = count_categories(self.groups)
        common = {
            "learning_rate": rate,
            "max_leaf_nodes": setting.leaves,
            "min_samples_leaf": setting.leaf_rows,
            "categorical_features": range(categories) if categories else None,
            "random_state": self.seed,
        }
        kind = HistGradientBoostingClassifier if self.n_classes else HistGradientBoostingRegressor
        outputs = targets.reshape(len(numbers), -1).T
        seen = tuple(np.unique(targets).tolist()) if self.n_classes else ()
        models = [kind(**COMMON, **common) for _ in outputs] if len(seen) != 1 else []
        return _Learner(self, X, outputs, weights, means, pairs, seen, models)


@dataclass(frozen=True)
class _Learner:
    """Boosting of some rows that can go on: a model for each output, or one for classes.

    There is no model where all rows are of one class.
    """

    task: _Task
    X: Float64Array
    outputs: Array
    weights: Float64Array | None
    means: Float64Array
    pairs: tuple[LevelPairs, ...]
    classes: tuple[int, ...]
    models: list[Any]

    def grow(self, rounds: int) -> None:
        """Add trees until there have been so many rounds, unless there have been more already."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")
            for model, y in zip(self.models, self.outputs, strict=bool(self.models)):
                if getattr(model, "n_iter_", 0) < rounds:
                    model.set_params(max_iter=rounds).fit(self.X, y, self.weights)

    def step_seconds(self) -> float:
        """Return the seconds that STEP rounds will take, from a few rounds on part of the columns."""
        some = replace(self, X=self.X[:, : max(TIMED_COLUMNS, count_categories(self.task.groups))])
        began = time.perf_counter()
        some.grow(1)
        first = time.perf_counter() - began  # the columns are binned in it
        some.grow(1 + TIMED_ROUNDS)
        each = (time.perf_counter() - began - first) / TIMED_ROUNDS
        return (first + STEP * each) * self.X.shape[1] / some.X.shape[1]

    def losses(self, numbers: IntArray) -> Float64Array:
        """Return the sum of the rows' losses after each round."""
        if not self.models:
            return np.zeros(1)
        rows = self.task.rows
        weights = np.ones(len(numbers)) if rows.weights is None else rows.weights[numbers]
        X = join_groups(self.task.take(numbers), self.task.groups, self.means, self.pairs)
        if n_classes := self.task.n_classes:
            odds = (np.reshape(each, (len(X), -1)) for each in self.models[0].staged_decision_function(X))
            stages = (log_odds(each, self.classes, n_classes) for each in odds)
        else:
            outputs = zip(*(model.staged_predict(X) for model in self.models), strict=True)
            stages = (np.column_stack(each) for each in outputs)
        return np.array([weights @ self.row_losses(values, numbers) for values in stages])

    def row_losses(self, values: Float64Array, numbers: IntArray) -> Float64Array:
        """Return the losses of rows, (n,), by their values: squares, of classes -ln P."""
        targets = np.asarray(self.task.rows.targets)[numbers]
        if not self.task.n_classes:
            return np.asarray(((values - targets) ** 2).sum(axis=1))
        return np.asarray(-log_probabilities(values)[np.arange(len(numbers)), targets])

    def boosted(self, rounds: int) -> Boosted:
        """Return the trees of the first rounds."""
        edges = self.task.joined_edges
        trees = Trees.of_boosting(self.models, rounds, edges) if self.models else Trees.none()
        return Boosted(trees, self.task.groups, self.means, self.task.n_classes, self.classes, self.pairs)
