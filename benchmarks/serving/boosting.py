"""Boosting at three sizes: learning rate, leaves and number of rounds chosen on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from serving.clock import Served, one_of
from serving.problems import Problem, error_of

#: Most rounds of the three sizes: with one output, and with many classes, where a round is a tree for each.
ROUNDS, ROUNDS_MANY = (20, 100, 400), (10, 30, 100)
QUICK_ROUNDS = (3, 8)
#: Learning rate and leaves: every pair is tried, and every number of rounds of it is judged. Ordinary trees
#: of many classes diverge at a rate of 0.3: LightGBM was wrong on 9 of 10 letters.
CANDIDATES = ((0.3, 15), (0.3, 63), (0.1, 15), (0.1, 63))
CANDIDATES_MANY = ((0.1, 15), (0.1, 63))
HELD_OUT = 0.2


@dataclass(frozen=True)
class Chosen:
    """The best settings within a number of rounds, and the seconds of the search for all sizes."""

    rate: float
    leaves: int
    rounds: int
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.rounds} rounds, {self.leaves} leaves, rate {self.rate:g}"


#: Fits on rows, and returns the errors on further rows after each round.
Staged = Callable[[Problem, float, int, int, tuple[np.ndarray, ...]], list[float]]


def search(problem: Problem, quick: bool, staged: Staged, *, symmetric: bool = False) -> list[Chosen]:
    """Return the settings for each size, by the errors on held-out training rows.

    symmetric : trees are so cheap that many classes may have as many rounds as two, and so weak that the
        larger rate does not diverge.
    """
    start = time.perf_counter()
    X, y = problem.train.trees, problem.train.y
    held, rest = np.split(np.random.default_rng(0).permutation(len(y)), [round(HELD_OUT * len(y))])
    few = problem.n_classes > 2 and not symmetric
    caps = QUICK_ROUNDS if quick else ROUNDS_MANY if few else ROUNDS
    parts = (X[rest], y[rest], X[held], y[held])
    pairs = CANDIDATES_MANY if few else CANDIDATES
    found = {pair: staged(problem, *pair, caps[-1], parts) for pair in pairs[: 1 if quick else None]}
    seconds = time.perf_counter() - start
    chosen = []
    for cap in caps:
        _, at, (rate, leaves) = min(
            (error, at, pair) for pair, errors in found.items() for at, error in enumerate(errors[:cap])
        )
        chosen.append(Chosen(rate, leaves, at + 1, seconds))
    return list(dict.fromkeys(chosen))  # more rounds need not help


def hist(problem: Problem, quick: bool, _: Any = None) -> Iterator[Served]:
    """scikit-learn's HistGradientBoosting; it has no faster way for one row than ``predict``."""
    for chosen in search(problem, quick, _hist_errors):
        start = time.perf_counter()
        model = hist_model(problem, chosen.rate, chosen.leaves, chosen.rounds)
        model.fit(problem.train.trees, problem.train.y)
        seconds = chosen.seconds + time.perf_counter() - start
        nbytes = sum(tree.nodes.nbytes for stage in model._predictors for tree in stage)
        ask = _unchecked(model)
        yield Served("HistGradientBoosting", chosen.text, ask, one_of(ask), seconds, nbytes, trees=True)


def hist_model(problem: Problem, rate: float, leaves: int, rounds: int, *, early: bool = False) -> Any:
    """Return an unfitted model; ``early`` lets it stop at the best round on held-out rows of its own."""
    kind = HistGradientBoostingRegressor if problem.regression else HistGradientBoostingClassifier
    return kind(
        learning_rate=rate, max_leaf_nodes=leaves, max_iter=rounds, early_stopping=early, random_state=0
    )


def _hist_errors(problem: Problem, rate: float, leaves: int, rounds: int, parts: Any) -> list[float]:
    X, y, held, wanted = parts
    model = hist_model(problem, rate, leaves, rounds).fit(X, y)
    return [error_of(problem.regression, wanted, answers) for answers in model.staged_predict(held)]


def _unchecked(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return ``predict`` without the search for NaN and the checks of parameters."""

    def ask(X: np.ndarray) -> np.ndarray:
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return model.predict(X)

    return ask
