"""Table of the demo: flats with numeric, text and boolean columns, missing values, and known true prices."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from gramian._typing import Array, Float64Array
from gramian.comparison.peak_memory import PeakMemory
from gramian.demo.results import Result
from gramian.tables.regressor import TabularRegressor

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Most flats to make, and the fraction that is held out.
MOST_ROWS, HELD_OUT = 10_000, 0.2
#: Standard deviation of the random part of a price.
NOISE = 12.0
COLUMNS = ("area", "age", "floor", "centre", "noise", "tax", "town", "heating", "lift", "agent")
#: Positions of the text and boolean columns, and of the numeric columns, which have missing values.
WORDS, NUMBERS = (6, 7, 8, 9), (0, 1, 2, 3, 4, 5)
TOWNS = ("Bath", "Derby", "Dover", "Exeter", "Hull", "Leeds", "Luton", "Poole", "Truro", "Wells", "York")
HEATINGS, AGENTS = ("gas", "district", "pump"), tuple(f"agent {k}" for k in range(30))


@dataclass(frozen=True)
class Flats:
    """Rows of objects, as a CSV file of text and numbers gives them, and prices."""

    X: Array
    y: Float64Array
    X_test: Array
    y_test: Float64Array

    @staticmethod
    def made(rows: int) -> Flats:
        """Make at most ``rows`` flats, always the same ones."""
        n = min(rows, MOST_ROWS)
        X, y = make_flats(n)
        n_train = n - round(HELD_OUT * n)
        return Flats(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def make_flats(n: int, seed: int = 0) -> tuple[Array, Float64Array]:
    """Return n flats, (n, 10) objects with None for missing values, and their prices.

    The price per area falls with the distance to the centre, at a rate that depends on the town; houses of
    fifty years are worth less than new and old ones; upper floors are worth more with a lift. The noise
    outside, the tax and the agent have no effect. A tenth of the ages and of the heatings is missing.
    """
    rng = np.random.default_rng(seed)
    area, age = rng.lognormal(4.3, 0.4, n), rng.uniform(0, 120, n)
    floor, centre = rng.integers(0, 9, n), rng.gamma(2.0, 3.0, n)
    lift, town, heating = rng.random(n) < 0.5, rng.integers(0, len(TOWNS), n), rng.integers(0, 3, n)
    level, reach = 1.4 + 1.2 * rng.random(len(TOWNS)), 4.0 + 10.0 * rng.random(len(TOWNS))
    price = level[town] * area * np.exp(-centre / reach[town]) + 35.0 * np.cos(age / 19.0)
    price += np.where(lift, 5.0, -4.0) * floor + 20.0 * (heating == 2) + NOISE * rng.standard_normal(n)
    X = np.empty((n, len(COLUMNS)), object)
    X[:, 0], X[:, 1], X[:, 2], X[:, 3] = area.round(1), age.round(1), floor, centre.round(2)
    X[:, 4], X[:, 5] = rng.normal(55.0, 9.0, n).round(1), rng.lognormal(5.0, 1.0, n).round(2)
    X[:, 6], X[:, 7] = np.asarray(TOWNS, object)[town], np.asarray(HEATINGS, object)[heating]
    X[:, 8], X[:, 9] = lift.astype(object), np.asarray(AGENTS, object)[rng.integers(0, len(AGENTS), n)]
    X[rng.random(n) < 0.1, 1] = None
    X[rng.random(n) < 0.1, 7] = None
    return X, price.round(1)


def write_csv(path: Path, rows: int) -> None:
    """Write the flats as a CSV file that ``gramian fit`` accepts."""
    X, y = make_flats(min(rows, MOST_ROWS))
    cells = np.column_stack([X, y])
    cells[cells == None] = ""  # noqa: E711 (by elements)
    np.savetxt(path, cells, "%s", ",", header=",".join((*COLUMNS, "price")), comments="", encoding="utf-8")


def measure_fit(
    label: str, model: BaseEstimator, data: Flats, score: Callable[[Array, Array], float]
) -> Result:
    """Fit a model, predict, and return times, memory and score of predictions against targets."""
    with PeakMemory() as memory:
        start = time.perf_counter()
        model.fit(data.X, data.y)
        fitted = time.perf_counter()
        predicted = model.predict(data.X_test)
        done = time.perf_counter()
    return Result(
        label, len(data.y), score(predicted, data.y_test), fitted - start, done - fitted, memory.growth
    )


def _gramian(memory: str, data: Flats) -> Result:
    # Kernel models alone: by default boosting may join their mean.
    model = TabularRegressor(include=(), memory_budget=memory, random_state=0)
    result = measure_fit("gramian TabularRegressor", model, data, _rmse)
    shares = model.feature_importances_
    first = ", ".join(f"{COLUMNS[j]} {shares[j]:.0%}" for j in np.argsort(-shares)[:6])
    found = model.search_
    low, high = model.predict_interval(data.X_test, 0.9).T
    held = float(np.mean((low <= data.y_test) & (data.y_test <= high)))
    note = f"the best of {found.n_judged} small models: {found.setting.kernel} kernel; it looks at {first}; "
    note += f"90 % intervals hold {held:.1%} of the held-out prices"
    return replace(result, note=note)


def _boosting(memory: str, data: Flats) -> Result:
    words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    model = make_pipeline(
        make_column_transformer((words, list(WORDS)), (FunctionTransformer(_floats), list(NUMBERS))),
        HistGradientBoostingRegressor(categorical_features=list(range(len(WORDS))), random_state=0),
    )
    return measure_fit("HistGradientBoostingRegressor", model, data, _rmse)


WORKERS: dict[str, Callable[[str, Flats], Result]] = {"table": _gramian, "table boosting": _boosting}


def _floats(X: Array) -> Float64Array:
    return X.astype(np.float64)  # None becomes NaN


def _rmse(predicted: Array, y: Array) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))
