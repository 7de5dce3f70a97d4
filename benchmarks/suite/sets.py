"""The sets: those of the data folder, and three small ones that scikit-learn brings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from comparison import CLASSIFICATION, REGRESSION
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from gramian.exceptions import InputError, did_you_mean
from suite.datasets import FOLDER_VARIABLE, load_dataset

BUNDLED = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes, "digits": load_digits}
#: For a look in minutes.
QUICK = ("breast_cancer", "diabetes", "digits")
QUICK_IN_FOLDER = ("airfoil", "pendigits")
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Problem:
    """Rows to learn from and rows to be judged on, the same for every method."""

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def folder() -> Path | None:
    """The data folder, or None where none is named."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else None


def names(*, quick: bool = False) -> list[str]:
    """Name the sets, those of the data folder by their number of bytes."""
    place = folder()
    if quick:
        return [*QUICK, *(QUICK_IN_FOLDER if place else ())]
    if place is None:
        raise InputError(
            f"the benchmark's data is absent: {FOLDER_VARIABLE} names no folder. Put files NAME.npz with "
            f"X (n, d) and y (n,) into a folder and set {FOLDER_VARIABLE}=folder, or pass --quick for "
            "the sets that scikit-learn brings."
        )
    found = sorted(place.glob("*.npz"), key=lambda path: path.stat().st_size)
    if not found:
        raise InputError(
            f"{FOLDER_VARIABLE}={place} has no .npz files. Put files NAME.npz with X and y there."
        )
    return [path.stem for path in found]


@dataclass(frozen=True)
class Whole:
    """All rows of a set as its file has them, and how many of the first are its training part, if it says."""

    task: str
    X: np.ndarray
    y: np.ndarray
    n_train: int | None = None


def whole(name: str) -> Whole:
    """Read a set."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return Whole(REGRESSION if name == "diabetes" else CLASSIFICATION, X, y)
    if folder() is None:
        raise InputError(
            f"set {name!r} is not bundled and {FOLDER_VARIABLE} names no folder with {name}.npz."
            f"{did_you_mean(name, BUNDLED)} Bundled: {', '.join(BUNDLED)}."
        )
    data = load_dataset(name)
    task = REGRESSION if data.y.dtype.kind == "f" else CLASSIFICATION
    return Whole(task, data.X, data.y, data.n_train)


def load(name: str) -> Problem:
    """Load a set: the first ``n_train`` rows train where the set says so, else a random 80 %."""
    found = whole(name)
    X, y, n_train = np.ascontiguousarray(found.X, np.float32), found.y, found.n_train
    if n_train is None:
        X, X_test, y, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=0)
    else:
        # The order of a file is not random; the rows that a search takes first must be.
        order = np.random.default_rng(0).permutation(n_train)
        X, X_test, y, y_test = X[order], X[n_train:], y[order], y[n_train:]
    return Problem(name, found.task, X, y, X_test, y_test)
