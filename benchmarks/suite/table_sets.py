"""Random splits of whole sets: the same rows for every method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split

from gramian.comparison import CLASSIFICATION
from suite.sets import TEST_SHARE, Problem, whole

#: Classes with fewer rows are left out: a split leaves some of them without a row to learn from or to judge.
LEAST_OF_CLASS = 5


@dataclass(frozen=True)
class Split:
    """One split of a set, and what was left out of the set before."""

    problem: Problem
    classes_left_out: int
    rows_left_out: int


def split_of(name: str, number: int) -> Split:
    """Split a set into 80 % of its rows to learn from and 20 % to be judged on, by the seed ``number``.

    Columns keep the values and the dtype of the file. Classes are shared out alike; those with fewer than
    ``LEAST_OF_CLASS`` rows are left out.
    """
    found = whole(name)
    X, y, stratify, gone = found.X, found.y, None, 0
    if found.task == CLASSIFICATION:
        classes, code = np.unique(y, return_inverse=True)
        counts = np.bincount(code)
        kept = counts[code] >= LEAST_OF_CLASS
        gone = len(classes) - int((counts >= LEAST_OF_CLASS).sum())
        X, y = X[kept], y[kept]
        stratify = y
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=number, stratify=stratify
    )
    problem = Problem(name, found.task, X_train, y_train, X_test, y_test)
    return Split(problem, gone, len(found.y) - len(y))
