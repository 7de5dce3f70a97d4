"""Random search that gives every contender the same rows and the same number of seconds."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gramian._checks import positive_number
from gramian._random import as_generator
from gramian._typing import Array, IntArray
from gramian.comparison.contenders import CLASSIFICATION, Contender, Settings, Shape
from gramian.exceptions import GramianError, InputError

#: Rows that the first and the second round of a search train on, and rows held out to judge them, at most.
FIRST_ROWS, SECOND_ROWS, JUDGING_ROWS = 3000, 12_000, 4000
HELD_OUT = 0.2
#: Of few rows a fifth says little: then every row judges once, by as many folds.
FOLDS = 3
#: A search ends after so many candidates even where time is left.
MOST_CANDIDATES = 500


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    settings : of the best candidate.
    error : of it on the held-out rows; the mean of the folds where there are some.
    tried : candidates fitted in both rounds; failed : those of them that raised a numerical error.
    n_rows : rows of the last round's fits.
    seconds : that it took; one fit may exceed what was given.
    """

    settings: Settings
    error: float
    tried: int
    failed: int
    n_rows: int
    seconds: float


def error_of(task: str, y: Array, predicted: Array) -> float:
    """Return the share of wrong classes, or the RMSE over the standard deviation of y."""
    if task == CLASSIFICATION:
        return float(np.mean(np.asarray(y) != np.asarray(predicted)))
    y = np.asarray(y, np.float64)
    spread = float(np.std(y))
    rmse = float(np.sqrt(np.mean((y - np.asarray(predicted, np.float64)) ** 2)))
    return rmse / spread if spread > 0 else rmse


def search(
    contender: Contender,
    X: Array,
    y: Array,
    task: str,
    *,
    seconds: float,
    size: Any = None,
    random_state: int = 0,
) -> Found:
    """Search the settings of a contender by random candidates within some seconds.

    A fifth of the rows, 4,000 at most, is held out. Candidates are fitted to 3,000 of the others for half of
    the time, the first of them with the method's usual settings; then, the best first, to 12,000 until the
    time is over. Where the others are at most 3,000 there is one round, in which candidates are judged by
    three folds of all rows. No fit is interrupted, so the last one may run over; one candidate is tried at
    least.

    Parameters
    ----------
    contender : what to search.
    X : (n, d) rows.
    y : (n,) targets.
    task : ``"regression"`` or ``"classification"``.
    seconds : given to the search; > 0.
    size : of the model; None for the contender's usual one.
    random_state : draws rows and candidates.

    Returns
    -------
    Found

    Errors: ``InputError`` for a task that the contender can't do, for no seconds, for too few rows or
    classes, and where every candidate failed.
    """
    positive_number("seconds", seconds)
    if task not in contender.tasks:
        raise InputError(f"{contender.name} can't do task={task!r}; it can do {', '.join(contender.tasks)}.")
    began = time.perf_counter()
    rounds = _rounds(X.shape[0], random_state)
    race = _Race(contender, X, np.asarray(y), task, size, random_state)
    fresh = islice(contender.candidates(Shape.of(task, X, random_state), random_state), MOST_CANDIDATES)
    ranking = race.run(fresh, rounds[0], until=began + seconds / len(rounds))
    n_rows = len(rounds[0][0].train)
    if len(rounds) == 2 and np.isfinite(ranking[0].error) and time.perf_counter() - began < seconds:
        again = race.run((one.settings for one in ranking), rounds[1], until=began + seconds)
        if np.isfinite(again[0].error):
            ranking, n_rows = again, len(rounds[1][0].train)
    if not np.isfinite(ranking[0].error):
        raise InputError(
            f"{contender.name}: all of the {race.tried} candidates failed, the last with "
            f"{race.last_failure}. Check the rows, or give the search more seconds."
        )
    return Found(
        ranking[0].settings,
        ranking[0].error,
        race.tried,
        race.failed,
        n_rows,
        time.perf_counter() - began,
    )


@dataclass(frozen=True)
class _Judged:
    settings: Settings
    error: float


@dataclass(frozen=True)
class _Split:
    train: IntArray
    judge: IntArray


@dataclass
class _Race:
    """Candidates of one contender, fitted and judged."""

    contender: Contender
    X: Array
    y: Array
    task: str
    size: Any
    seed: int
    tried: int = 0
    failed: int = 0
    last_failure: str = ""

    def run(self, settings: Any, splits: list[_Split], *, until: float) -> list[_Judged]:
        """Fit candidates until the time is over, at least one; return them, the best first."""
        for split in splits:
            if self.task == CLASSIFICATION and len(np.unique(self.y[split.train])) < 2:
                raise InputError(
                    f"the {len(split.train)} rows of the search are of one class. Pass rows of two classes "
                    "or more."
                )
        judged = []
        for candidate in settings:
            self.tried += 1
            # A mean, so that one fold that failed makes the candidate fail.
            judged.append(_Judged(candidate, float(np.mean([self._error(candidate, one) for one in splits]))))
            self.failed += not np.isfinite(judged[-1].error)
            if time.perf_counter() >= until:
                break
        return sorted(judged, key=lambda one: one.error)

    def _error(self, candidate: Settings, split: _Split) -> float:
        try:
            with warnings.catch_warnings():
                # A candidate that is ill-conditioned or stops early is judged by its error like any other.
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                warnings.simplefilter("ignore", UserWarning)
                X = self.X[split.train]
                model = self.contender.make(candidate, Shape.of(self.task, X, self.seed), self.size)
                model.fit(X, self.y[split.train])
                error = error_of(self.task, self.y[split.judge], model.predict(self.X[split.judge]))
        except (GramianError, np.linalg.LinAlgError, FloatingPointError) as failure:
            self.last_failure = f"{type(failure).__name__}: {failure}"
            return float("inf")
        return error if np.isfinite(error) else float("inf")


def _rounds(n: int, seed: int) -> list[list[_Split]]:
    """Return the splits of each round."""
    held = min(JUDGING_ROWS, int(HELD_OUT * n))
    if held < 2:
        raise InputError(f"{n} rows are too few for a search: it needs at least {int(2 / HELD_OUT)}.")
    order = as_generator(seed).permutation(n)
    if n - held <= FIRST_ROWS:
        folds = np.array_split(order, FOLDS)
        return [[_Split(np.setdiff1d(order, fold), fold) for fold in folds]]
    judge, train = order[:held], order[held:]
    return [[_Split(train[:rows], judge)] for rows in (FIRST_ROWS, SECOND_ROWS)]
