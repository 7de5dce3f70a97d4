"""Fitted fast models of tables with every kind of column, scale and target, for the tests of exports."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from fast_models import sizes

import gramian as gm
from gramian.tables import EncodedRows, Scaling, TableColumns, TargetTransform
from gramian.tables.column import LevelLookup
from gramian.tables.compression import FastTabularClassifier, FastTabularRegressor
from gramian.tables.level_means import level_groups, level_means

N, HELD_OUT = 600, 200
#: The columns of :func:`cells`, in this order.
NAMES = ("size", "income", "town", "new", "sold", "rooms", "same", "side", "away", "label", "seen", "note")
TOWNS = ("Bath", 'b"\\??/', "Kölln", "York")


def cells(n: int, seed: int) -> Any:
    """Return n raw rows: numbers, text, booleans, dates, durations and missing values, as objects."""
    rng = np.random.default_rng(seed)
    days = rng.integers(-2000, 21_000, n)  # 1964 to 2027, with leap days
    hours = rng.integers(0, 24, n)
    start = datetime.datetime(1970, 1, 1)
    columns = [
        rng.normal(size=n).tolist(),
        np.exp(2.0 * rng.normal(size=n)).tolist(),
        rng.choice(TOWNS, n).tolist(),
        (rng.random(n) < 0.4).tolist(),
        [start + datetime.timedelta(days=int(day), hours=int(hour)) for day, hour in zip(days, hours)],
        rng.choice([1, 2.5, 4, 1000000], n).tolist(),
        ["same"] * n,
        rng.choice([3, 7], n).tolist(),
        [datetime.timedelta(hours=float(hour)) for hour in rng.exponential(40.0, n)],
        rng.choice(["left", "right", "up", ""], n).tolist(),
        rng.integers(0, 9, n).tolist(),
        ["rare" if k % 150 == 0 else None for k in range(n)],  # whether there is a note is all that is known
    ]
    rows = np.empty((n, len(columns)), object)
    for j, column in enumerate(columns):
        rows[:, j] = column
    for j, every in ((0, 9), (2, 11), (3, 7), (4, 8), (5, 10)):
        rows[j::every, j] = None if j else np.nan
    return rows


TRAIN, NEW = cells(N, 0), cells(HELD_OUT, 1)
TRAIN[:2, 2] = "Rare", "Rarer"  # infrequent categories
# What the training had not: towns, a third side, missing values, far numbers, a leap day.
NEW[:8, 2] = "Ulm"
NEW[8:12, 9] = "down"
NEW[12:16, 9] = None
NEW[16:20, 7] = 5
NEW[20:24, 7] = np.nan
NEW[24:30, 1] = 1e9, -1e9, 1e305, 0.0, np.nan, 2
NEW[30:34, 5] = 3, 2.50001, 0, 4.0
NEW[34, 4] = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
NEW[35, 4] = datetime.datetime(1900, 3, 1)
NEW[36, 4] = datetime.datetime(2000, 12, 31, 12)
NEW[37:40, 8] = None


def table(
    rows: Any, how: str, categorical: Any = (5,), means: bool = False
) -> tuple[TableColumns, Scaling, Any]:
    columns = TableColumns.learn(rows, categorical=categorical)
    source = EncodedRows(columns, rows)
    if means:
        every = np.arange(len(rows))
        lengths = np.array([[len(str(row[2])), len(str(row[9]))] for row in rows], float)
        groups = level_groups(columns.features, source.take, every)
        made = level_means(groups, source.take, every, lengths, None)
        many = [(*columns.columns[2].categories, "Rare", "Rarer"), (*columns.columns[5].categories, "3")]
        lookups = [
            LevelLookup(name, levels, np.linspace(-1.0, 2.0, len(levels)).astype(np.float32).astype(float))
            for name, levels in zip((columns.columns[2].name, columns.columns[5].name), many, strict=True)
        ]
        columns = replace(columns, means=made, lookups=tuple(lookups))
        source = EncodedRows(columns, rows)
    scaling = Scaling.learn(source, columns, how)
    return columns, scaling, np.asarray(scaling.apply(columns.encode(rows)), np.float64)


def wave(rows: Any) -> Any:
    return np.sin(2.0 * rows[:, 0]) + 0.5 * rows[:, 2] * rows[:, 3] + 0.3 * rows[:, 5:].sum(axis=1) - 0.5


def classifier(
    how: str, labels: Any, rows: Any = TRAIN, categorical: Any = (5,), means: bool = False, **shape: Any
) -> Any:
    columns, scaling, encoded = table(rows, how, categorical if rows is TRAIN else None, means)
    value = wave(encoded) - np.median(wave(encoded))
    n_classes = len(labels)
    edges = np.quantile(value, np.linspace(0, 1, n_classes + 1)[1:-1])
    y = np.asarray(labels)[np.searchsorted(edges, value)]
    fast = gm.FastKernelClassifier(
        **{**sizes(1, 4, 3), "teacher": gm.KernelRidgeClassifier(gamma=0.02), "learn": "labels"} | shape
    ).fit(encoded, y)
    made = FastTabularClassifier.of(columns, scaling, fast)
    made.classes_ = fast.classes_
    return made


def regressor(
    how: str,
    targets: Any,
    transform: str | None,
    rows: Any = TRAIN,
    means: bool = False,
    noise: float = 0.0,
    **shape: Any,
) -> Any:
    columns, scaling, encoded = table(rows, how, (5,) if rows is TRAIN else None, means)
    y = targets(wave(encoded))
    own = None if transform is None else TargetTransform.learn(y, transform)
    if own is not None and noise:
        own = own.smeared(own.forward(y), noise * np.random.default_rng(0).normal(size=y.shape))
    z = y if own is None else own.forward(y)
    fast = gm.FastKernelRegressor(**{**sizes(1, 4, 3), "learn": "labels"} | shape).fit(encoded, z)
    made = FastTabularRegressor.of(columns, scaling, fast)
    made._flat = y.ndim == 1
    if own is not None:
        made.target_ = own
    return made


#: Numbers alone, in float32, with missing values, of an array that has no names.
PLAIN = np.random.default_rng(3).normal(size=(400, 8)).astype(np.float32)
PLAIN[::7, 1] = np.nan
PLAIN[:, 4] = PLAIN[:, 4] > 0
PLAIN_NEW = (3.0 * np.random.default_rng(4).normal(size=(60, 8))).astype(np.float32)
PLAIN_NEW[::5, :] = np.nan
PLAIN_NEW[:, 4] = 1.0

MAKERS = {
    "two classes": lambda: classifier("auto", ["no", "yes"]),
    "three classes": lambda: classifier("robust", ["a", "bé", "c"]),
    "numbers as labels": lambda: classifier("quantile", [7, -2, 3]),
    "coded booleans": lambda: classifier("standard", ["no", "yes"], categorical=[3, 5, 7]),
    "plain": lambda: regressor("standard", lambda t: 1e5 + t, None),
    "logarithm": lambda: regressor("quantile", np.exp, "log"),
    "means": lambda: regressor("standard", lambda t: np.column_stack([np.exp(t), t**3]), "auto", noise=0.3),
    "power": lambda: regressor("robust", np.sinh, "yeo-johnson"),
    "scores": lambda: regressor("auto", np.exp, "quantile"),
    "two targets": lambda: regressor("auto", lambda t: np.column_stack([np.exp(t), t]), "auto"),
    "float64": lambda: regressor("auto", np.exp, "log", dtype="float64", n_levels=0, n_units=0),
    "equal targets": lambda: regressor("auto", lambda t: np.full(len(t), 3.5), "auto"),
    "level means": lambda: classifier("auto", ["no", "yes"], means=True),
    "level means of codes": lambda: regressor("quantile", np.exp, "log", means=True),
    "narrow": lambda: classifier("auto", [False, True], rows=PLAIN),
}


@cache
def model(name: str) -> Any:
    return MAKERS[name]()


def rows_of(name: str) -> Any:
    return PLAIN_NEW if name == "narrow" else NEW
