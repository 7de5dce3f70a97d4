"""Ten sets, each as one float32 matrix for trees and one for everything else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split
from suite.sets import BUNDLED, folder, whole

from gramian.exceptions import InputError, did_you_mean

#: A category of more values than this becomes one number, the rank of its mean target, instead of a column a
#: value: one-hot columns of 50 occupations would make every product slower than the model.
MOST_ONE_HOT = 12
TEST_SHARE, MOST_TEST = 0.2, 5_000
TARGET = "__target__"

#: What a set is about, by name, in the order of the page.
SETS = {
    "letter_halves": "letters A to M against N to Z, 16 columns",
    "covtype_100k": "spruce against other forests, 54 columns",
    "ijcnn1": "misfires of an engine, 22 columns",
    "letter": "26 letters, 16 columns",
    "usps": "ten digits, 256 pixels",
    "cadata": "prices of Californian blocks, 8 columns",
    "cpusmall": "load of a computer, 12 columns",
    "adult": "table: income above 50,000 dollars, 8 of 14 columns are categories",
    "diamonds": "table: prices of diamonds, 3 of 9 columns are categories",
    "student_dropout": "table: dropout, enrolled or graduate, 9 of 36 columns are categories",
}
#: For tests and a first look: what scikit-learn brings.
QUICK = tuple(BUNDLED)
TABLES = ("adult", "diamonds", "student_dropout")


@dataclass(frozen=True)
class Rows:
    """The same rows twice: ``trees`` has columns as numbers, ``dense`` is scaled and one-hot."""

    trees: np.ndarray
    dense: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Problem:
    """A set: classes are 0, 1, …; numbers have mean 0 and deviation 1, so that RMSE is over the deviation."""

    name: str
    n_classes: int  #: 0 for regression
    train: Rows
    test: Rows

    @property
    def regression(self) -> bool:
        return self.n_classes == 0

    def error(self, answers: np.ndarray) -> float:
        """Share of wrong classes, or RMSE over the deviation."""
        return error_of(self.regression, self.test.y, answers)


def error_of(regression: bool, y: np.ndarray, answers: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - answers) ** 2)) if regression else np.mean(y != answers))


def load(name: str, n_rows: int) -> Problem:
    """Read a set, of at most ``n_rows`` training rows."""
    if name not in SETS and name not in BUNDLED:
        known = [*SETS, *BUNDLED]
        raise InputError(
            f"set {name!r} is unknown.{did_you_mean(name, known)} There are: {', '.join(known)}."
        )
    columns, y, n_train = _table(name) if name in TABLES else _numbers(name)
    regression = y.dtype.kind == "f"
    if n_train is None:
        numbers = train_test_split(
            np.arange(len(y)), test_size=TEST_SHARE, random_state=0, stratify=None if regression else y
        )
    else:
        numbers = [np.random.default_rng(0).permutation(n_train), np.arange(n_train, len(y))]
    train, test = numbers[0][:n_rows], numbers[1][:MOST_TEST]
    scaled = (y - y[train].mean()) / y[train].std() if regression else None
    y = np.unique(y, return_inverse=True)[1] if scaled is None else scaled
    trees, dense = _encoded(columns, y, train)
    rows = [Rows(*(np.ascontiguousarray(a[part]) for a in (trees, dense)), y[part]) for part in (train, test)]
    return Problem(name, 0 if regression else int(y.max()) + 1, *rows)


def _numbers(name: str) -> tuple[list[np.ndarray], np.ndarray, int | None]:
    found = whole("letter" if name == "letter_halves" else name)
    X, y = np.asarray(found.X, np.float64), found.y
    if name == "letter_halves":
        y = (y >= 13).astype(int)
    elif name == "covtype_100k":
        y = (y == 2).astype(int)
    kept = X.min(axis=0) < X.max(axis=0)
    # A stored split may put other writers into the test rows, so it stays where it is usual.
    return list(X[:, kept].T), np.asarray(y), found.n_train if name == "usps" else None


def _table(name: str) -> tuple[list[np.ndarray], np.ndarray, None]:
    """Read a Parquet table: a folder ``tables`` beside the data folder has it."""
    import pandas as pd

    place = folder()
    path = None if place is None else place.parent / "tables" / f"{name}.parquet"
    if path is None or not path.exists():
        raise InputError(
            f"set {name!r} is a table, and there is no file {path or 'tables/' + name + '.parquet'}. Put it "
            "into a folder named tables beside the one that GRAMIAN_DATA names, or name other --sets."
        )
    frame = pd.read_parquet(path)
    y = frame.pop(TARGET)
    columns = [
        column.astype(object).where(column.notna(), "missing").astype(str).to_numpy(object)
        if column.dtype.kind not in "iufb"
        else column.to_numpy(np.float64)
        for _, column in frame.items()
    ]
    return columns, y.to_numpy(np.float64) if y.dtype.kind in "iuf" else y.astype(str).to_numpy(), None


def _encoded(columns: list[np.ndarray], y: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows for trees (n, columns) and dense rows (n, more), learned from the training rows alone."""
    trees, dense = [], []
    for column in columns:
        if column.dtype.kind == "O":
            values, code = np.unique(column, return_inverse=True)
            counts = np.bincount(code[train], minlength=len(values))
            means = np.bincount(code[train], y[train], len(values)) / np.maximum(counts, 1)
            rank = np.argsort(np.argsort(np.where(counts > 0, means, y[train].mean())))
            trees.append(rank[code])
            if len(values) <= MOST_ONE_HOT:
                dense += [(code == one).astype(float) for one in range(len(values))]
                continue
            column = trees[-1].astype(float)
        else:
            trees.append(column)
            column = np.where(np.isnan(column), np.nanmedian(column[train]), column)
        spread = column[train].std()
        dense.append((column - column[train].mean()) / (spread if spread > 0 else 1.0))
    return np.column_stack(trees).astype(np.float32), np.column_stack(dense).astype(np.float32)
