"""Random splits of tables: the same rows for every method."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from comparison import CLASSIFICATION, REGRESSION
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder

from suite.sets import BUNDLED, TEST_SHARE, folder, whole
from suite.sets import names as numeric_names

#: Classes with fewer rows are left out: a split leaves some of them without a row to learn from or to judge.
LEAST_OF_CLASS = 5
#: Sets of more columns are images here, which no table model is for.
MOST_COLUMNS = 200
#: Column of a file's targets.
TARGET = "__target__"
#: What a set's columns hold.
NUMBERS, MIXED = "numbers", "numbers and categories"
#: The tasks by what judges them.
BINARY, MULTICLASS = "binary", "multiclass"


@dataclass(frozen=True)
class Split:
    """Rows to learn from and to be judged on. Classes are numbers from 0; columns keep their types."""

    name: str
    task: str
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    n_rows: int  #: of the set before a part of it was drawn
    kind: str  #: NUMBERS or MIXED
    classes_left_out: int
    rows_left_out: int

    @property
    def measured_by(self) -> str:
        """The task as its judge knows it: regression, binary or multiclass."""
        if self.task == REGRESSION:
            return REGRESSION
        return BINARY if max(self.y.max(), self.y_test.max()) == 1 else MULTICLASS


def tables_folder() -> Path | None:
    """Return the folder of tables in Parquet beside the data folder, or None."""
    place = folder()
    tables = None if place is None else place.parent / "tables"
    return tables if tables is not None and tables.is_dir() else None


def table_names() -> list[str]:
    """Name the sets by their number of bytes: tables first, then those of numbers."""
    place = tables_folder()
    found = [] if place is None else sorted(place.glob("*.parquet"), key=lambda path: path.stat().st_size)
    narrow = [name for name in numeric_names() if whole(name).X.shape[1] <= MOST_COLUMNS]
    return [*(path.stem for path in found), *narrow]


def _read(name: str) -> tuple[str, pd.DataFrame, np.ndarray]:
    """Return task, columns and targets of a set."""
    place = tables_folder()
    path = None if place is None else place / f"{name}.parquet"
    if name not in BUNDLED and path is not None and path.exists():
        frame = pd.read_parquet(path)
        y, X = frame[TARGET], frame.drop(columns=TARGET)
        return (
            (REGRESSION if y.dtype.kind == "f" or y.dtype.kind in "iu" else CLASSIFICATION),
            X,
            np.asarray(y),
        )
    found = whole(name)
    columns = [f"x{j}" for j in range(found.X.shape[1])]
    return found.task, pd.DataFrame(np.asarray(found.X), columns=columns), found.y


def split_of(name: str, number: int, most_rows: int | None = None) -> Split:
    """Split a set into 80 % of its rows to learn from and 20 % to be judged on, by the seed ``number``.

    most_rows : of larger sets so many rows are drawn first. Columns keep the values and types of the file.
    Classes are shared out alike; those with fewer than ``LEAST_OF_CLASS`` rows are left out.
    """
    task, X, y = _read(name)
    n_rows, kind = len(y), NUMBERS if all(t.kind in "fiub" for t in map(np.dtype, _plain(X))) else MIXED
    drawn = np.arange(n_rows)
    if most_rows is not None and n_rows > most_rows:
        # Every set is drawn from by a seed of its own.
        rng = np.random.default_rng([number, zlib.crc32(name.encode())])
        drawn = np.sort(rng.choice(n_rows, most_rows, replace=False))
    X, y, stratify, gone = X.iloc[drawn], y[drawn], None, 0
    if task == CLASSIFICATION:
        code = LabelEncoder().fit_transform(y)
        counts = np.bincount(code)
        kept = counts[code] >= LEAST_OF_CLASS
        gone = len(counts) - int((counts >= LEAST_OF_CLASS).sum())
        X = X[kept]
        stratify = y = LabelEncoder().fit_transform(code[kept])
    else:
        y = np.asarray(y, np.float64)
    left_out = len(drawn) - len(y)
    X, y = X.reset_index(drop=True), np.asarray(y)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=number, stratify=stratify
    )
    return Split(name, task, X_train, y_train, X_test, y_test, n_rows, kind, gone, left_out)


def _plain(X: pd.DataFrame) -> list[Any]:
    """Return a NumPy type for each column: object for categories, text and dates."""
    return [t if isinstance(t, np.dtype) and t.kind != "M" else np.dtype(object) for t in X.dtypes]
