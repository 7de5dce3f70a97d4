"""Search that gives every contender the same rows and the same number of seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from comparison.contenders import CLASSIFICATION, Contender, Hyperparameters, ProblemFacts
from comparison.own_search import choose_ridge
from gramian._checks import positive_number
from gramian._random import as_generator
from gramian._typing import Array
from gramian.exceptions import GramianError, InputError
from gramian.search import Limits, Split, Trials
from gramian.search import search as search_candidates

#: Most training rows of the first and second round of a search, and most held-out rows. Chosen by hand.
FIRST_ROWS, SECOND_ROWS, JUDGING_ROWS = 3000, 12_000, 4000
#: Fraction of the rows that is held out.
HELD_OUT = 0.2
#: With few rows a fifth of them says little, so cross-validation with this many folds is used instead.
FOLDS = 3
#: A search ends after this many candidates even if time is left.
MOST_CANDIDATES = 500


@dataclass(frozen=True)
class SearchResult:
    """The best hyperparameters that a search found, and what the search took.

    Attributes
    ----------
    settings : hyperparameters of the best candidate.
    error : its error on the held-out rows, or the mean over the folds.
    tried : candidates fitted in all rounds; failed : candidates that raised a numerical error.
    n_rows : training rows of the last round.
    seconds : time that the search took; the last fit may exceed the time given.
    """

    settings: Hyperparameters
    error: float
    tried: int
    failed: int
    n_rows: int
    seconds: float


def error_of(task: str, y: Array, predicted: Array) -> float:
    """Return the fraction of wrong classes, or the RMSE divided by the standard deviation of y."""
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
    size: object = None,
    random_state: int = 0,
) -> SearchResult:
    """Search the settings of a contender by random candidates within a time limit.

    A fifth of the rows, at most 4,000, is held out. For half of the time candidates are fitted to 3,000 of
    the other rows, beginning with the method's usual settings. Then the best of them are fitted to 12,000
    rows, best first, until the time is over. With at most 3,000 other rows there is a single round with
    three-fold cross-validation over all rows. At least one candidate is tried, and no fit is interrupted, so
    the last one may exceed the time. A contender with a search of its own has the same seconds for it, and
    its error is that of :func:`~comparison.own_search.choose_ridge`.

    Parameters
    ----------
    contender : the contender whose settings are searched.
    X : (n, d) rows.
    y : (n,) targets.
    task : ``"regression"`` or ``"classification"``.
    seconds : time for the search; > 0.
    size : size of the model; None for the contender's usual one.
    random_state : seed for drawing rows and candidates.

    Returns
    -------
    SearchResult

    Errors: ``InputError`` for a task that the contender can't do, for seconds ≤ 0, for too few rows or
    classes, and if every candidate failed.
    """
    positive_number("seconds", seconds)
    if task not in contender.tasks:
        raise InputError(f"{contender.name} can't do task={task!r}; it can do {', '.join(contender.tasks)}.")
    began = time.perf_counter()
    rounds = _rounds(X.shape[0], random_state)
    if contender.own_search:
        own = choose_ridge(X, np.asarray(y), task, seconds=seconds, seed=random_state)
        if own is not None:
            settings, error, tried, n_rows = own
            return SearchResult(settings, error, tried, 0, n_rows, time.perf_counter() - began)
    race = _Race(contender, X, np.asarray(y), task, size, random_state)
    fresh = contender.candidates(ProblemFacts.of(task, X, random_state), random_state)
    found = race.run(rounds[0], fresh, until=began + seconds / len(rounds))
    n_rows = len(rounds[0][0].train)
    if len(rounds) == 2 and found.best is not None and time.perf_counter() - began < seconds:
        ranked = (trial.candidate for trial in found.ranked)
        again = race.run(rounds[1], ranked, until=began + seconds)
        if again.best is not None:
            found, n_rows = again, len(rounds[1][0].train)
    if found.best is None:
        raise InputError(
            f"{contender.name}: all of the {race.tried} candidates failed, the last with "
            f"{race.last_failure}. Check the rows, or give the search more seconds."
        )
    return SearchResult(
        found.best.candidate, found.best.error, race.tried, race.failed, n_rows, time.perf_counter() - began
    )


@dataclass
class _Race:
    """Fits and scores candidates of one contender, and counts failures."""

    contender: Contender
    X: Array
    y: Array
    task: str
    size: Any
    seed: int
    tried: int = 0
    failed: int = 0
    last_failure: str = ""

    def run(
        self, splits: list[Split], candidates: Iterable[Hyperparameters], *, until: float
    ) -> Trials[Hyperparameters, None]:
        """Fit candidates until the time is over, at least one."""
        for split in splits:
            if self.task == CLASSIFICATION and len(np.unique(self.y[split.train])) < 2:
                raise InputError(
                    f"the {len(split.train)} rows of the search are of one class. Pass rows of two classes "
                    "or more."
                )
        limits = Limits(deadline=until, at_least=1, most=MOST_CANDIDATES)
        found = search_candidates(splits, ([one] for one in candidates), self._judged, limits)
        self.tried += len(found.made)
        self.failed += sum(not np.isfinite(trial.error) for trial in found.made)
        return found

    def _judged(self, splits: list[Split], candidate: Hyperparameters) -> tuple[float, None]:
        # With a mean, a single failed fold makes the candidate fail.
        return float(np.mean([self._error(candidate, split) for split in splits])), None

    def _error(self, candidate: Hyperparameters, split: Split) -> float:
        try:
            with warnings.catch_warnings():
                # A candidate that is ill-conditioned or stops early is scored by its error like any other.
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                warnings.simplefilter("ignore", UserWarning)
                X = self.X[split.train]
                model = self.contender.make(candidate, ProblemFacts.of(self.task, X, self.seed), self.size)
                model.fit(X, self.y[split.train])
                error = error_of(self.task, self.y[split.held_out], model.predict(self.X[split.held_out]))
        except (GramianError, np.linalg.LinAlgError, FloatingPointError) as failure:
            self.last_failure = f"{type(failure).__name__}: {failure}"
            return float("inf")
        return error if np.isfinite(error) else float("inf")


def _rounds(n: int, seed: int) -> list[list[Split]]:
    """Return the splits of each round."""
    held = min(JUDGING_ROWS, int(HELD_OUT * n))
    if held < 2:
        raise InputError(f"{n} rows are too few for a search: it needs at least {int(2 / HELD_OUT)}.")
    order = as_generator(seed).permutation(n)
    if n - held <= FIRST_ROWS:
        folds = np.array_split(order, FOLDS)
        return [[Split(np.setdiff1d(order, fold), fold) for fold in folds]]
    held_out, train = order[:held], order[held:]
    return [[Split(train[:rows], held_out)] for rows in (FIRST_ROWS, SECOND_ROWS)]
