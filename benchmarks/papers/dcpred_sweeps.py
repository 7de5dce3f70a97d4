"""DC-Pred++: Table 1 and Figures 2 and 3, accuracy or error against the cost of a prediction, every method.

Each method runs at several sizes. At each size gamma and C (LDKL: its penalty and step) are chosen on
held-out training rows; the size with the best score there carries the paper's number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from baselines import (
    AESVMClassifier,
    FastfoodLinearClassifier,
    FastfoodLinearRegressor,
    NystromLinearClassifier,
    NystromLinearRegressor,
    ReducedSetClassifier,
)
from baselines.expansion import gaussian
from baselines.fastfood_linear import FeatureWeights
from fast_prediction import (
    MANY_ROWS,
    SETS,
    Setting,
    Tuned,
    dcpred,
    divide,
    exact_svm,
    fast_call,
    kernel_grid,
    ldkl,
    on_features,
    score,
    table,
)
from suite.results import Line

import gramian as gm
from gramian.approximations.random_fourier import RandomFourierBuilder
from gramian.fast.cost import linear_nanoseconds, seconds_per_row
from papers.items import Run, Value
from papers.page import markdown_table, number

#: Accuracy and times of a linear model's prediction in the paper's Table 1.
TABLE_1 = {
    "letter": {
        "DC-Pred++": (0.9590, 12.8),
        "LDKL": (0.9578, 29.0),
        "k-means Nyström": (0.8758, 140.0),
        "AESVM": (0.8097, 1542.0),
        "reduced set": (0.859, 50.0),
        "Fastfood": (0.899, 50.0),
    },
    "usps": {
        "DC-Pred++": (0.9556, 14.4),
        "LDKL": (0.9596, 12.01),
        "k-means Nyström": (0.9253, 200.0),
        "AESVM": (0.8597, 5787.0),
        "reduced set": (0.936, 50.0),
        "Fastfood": (0.9439, 80.0),
    },
    "a9a": {
        "DC-Pred++": (0.839, 12.5),
        "LDKL": (0.8195, 32.0),
        "k-means Nyström": (0.839, 50.0),
        "AESVM": (0.819, 4859.0),
        "reduced set": (0.8232, 50.0),
        "Fastfood": (0.619, 80.0),
    },
}
CLASSES = tuple(TABLE_1)
NUMBERS = ("cadata", "cpusmall")
#: (leaves, landmarks) of DC-Pred++.
SIZES = ((1, 16), (4, 16), (32, 16), (4, 32), (8, 32), (8, 48))
#: Rows timed of a model that is too slow for the whole test set.
SLOW_ROWS = 500


class _RandomFeatures:
    """Random Fourier features in place of Fastfood's."""

    def _map(self: Any, rows: Any, rng: np.random.Generator) -> FeatureWeights:
        d = rows.rows.shape[1]
        kernel = gaussian(self._checked_gamma(rows.rows))
        columns: Any = RandomFourierBuilder(rank=self.rank).columns(kernel, d, dtype=np.float32, rng=rng)
        centre = rows.rows.mean(axis=0).astype(np.float32)
        return FeatureWeights(columns, np.zeros((self.rank, 0), np.float32), np.zeros(0, np.float32), centre)


class RandomFeaturesClassifier(_RandomFeatures, FastfoodLinearClassifier):
    """Linear SVM on random Fourier features."""


class RandomFeaturesRegressor(_RandomFeatures, FastfoodLinearRegressor):
    """Ridge regression on random Fourier features."""


@dataclass(frozen=True)
class Candidate:
    """A method at one size: a model, or one whose parameters are still to be chosen."""

    method: str
    sizes: dict[str, Any]
    model: Any = field(repr=False)


def candidates(setting: Setting, n_rows: int, seed: int) -> Iterator[Candidate]:
    """Yield every method at its sizes; those that start from the exact SVM only on few rows."""
    few = n_rows <= MANY_ROWS
    for leaves, landmarks in SIZES:
        sizes = {"leaves": leaves, "landmarks": landmarks}
        yield Candidate("DC-Pred++", sizes, dcpred(setting, leaves, landmarks, seed))
        if not setting.regression and (leaves, landmarks) in ((32, 16), (8, 32)):
            literal = dcpred(setting, leaves, landmarks, seed, loss="hinge", exact_rows=5000)
            yield Candidate("DC-Pred++, hinge", sizes, literal)
    if setting.regression:
        nystrom, random, fastfood = NystromLinearRegressor, RandomFeaturesRegressor, FastfoodLinearRegressor
    else:
        nystrom, random, fastfood = (
            NystromLinearClassifier,
            RandomFeaturesClassifier,
            FastfoodLinearClassifier,
        )
        for depth in (1, 3, 5, 7):
            yield Candidate("LDKL", {"depth": depth}, ldkl(depth, seed))
    for size in (20, 50, 200):
        model = on_features(setting, nystrom, size, seed)
        yield Candidate("k-means Nyström", {"landmarks": size}, model)
    for size in (64, 256, 1024):
        yield Candidate("random features", {"features": size}, on_features(setting, random, size, seed))
        yield Candidate("Fastfood", {"features": size}, on_features(setting, fastfood, size, seed))
    if few and not setting.regression:
        for epsilon in (1e-3, 1e-2, 1e-1):
            model = AESVMClassifier(epsilon, gamma=setting.gamma, C=setting.C, random_state=seed, n_jobs=1)
            yield Candidate("AESVM", {"epsilon": epsilon}, model)
        for units in (20, 50):
            yield Candidate("reduced set", {"units": units}, _reduced(setting, units))


def _reduced(setting: Setting, units: int) -> Tuned:
    def make(gamma: float) -> ReducedSetClassifier:
        return ReducedSetClassifier(units, gamma=gamma, C=setting.C, n_jobs=1)

    return Tuned(make, {"gamma": kernel_grid(setting)["gamma"]})


def _ours(setting: Setting, n_rows: int, seed: int) -> Candidate:
    kind = gm.FastKernelRegressor if setting.regression else gm.FastKernelClassifier
    model = kind(exact_svm(setting, n_rows), cost=setting.cost, random_state=seed, n_jobs=1)
    return Candidate("gm.compress", {"cost": setting.cost}, model)


@dataclass(frozen=True)
class Measured:
    """A fitted candidate: its chosen parameters, and its scores on held-out and on test rows."""

    method: str
    setting: dict[str, Any]
    held_out: float
    score: float
    nanoseconds: float
    seconds: float


def measured(
    candidate: Candidate, setting: Setting, train: tuple[np.ndarray, np.ndarray], test: Any, batch: np.ndarray
) -> Measured:
    """Choose a candidate's parameters, fit it, and time the whole test set as one batch on one thread."""
    parameters: dict[str, float] = {}
    held_out, model = np.nan, candidate.model
    if isinstance(model, Tuned):
        parameters, held_out = model.best(setting, *train, seed=0)
        model = model.make(**parameters)
    start = time.perf_counter()
    model.fit(*train)
    took = time.perf_counter() - start
    call: Callable[[np.ndarray], object] = fast_call(model)
    timed = batch[:SLOW_ROWS] if call == model.predict else batch
    cost = 1e9 * seconds_per_row(call, timed)
    value = score(setting, test[1], model.predict(test[0]))
    return Measured(candidate.method, {**candidate.sizes, **parameters}, held_out, value, cost, took)


def sweep(name: str, run: Run) -> Iterator[Value]:
    """Yield score, cost and training seconds of every method on one set."""
    setting = SETS[name]
    X, y, split = table(name)
    train, test = divide(name, len(X), split, 0)
    train, test = train[: run.rows(len(train))], test[: run.rows(len(test))]
    batch = np.ascontiguousarray(X[test], np.float32)
    todo = list(candidates(setting, len(train), 0))
    todo = todo[::5] if run.quick else [*todo, _ours(setting, len(train), 0)]
    found, linear = [], linear_nanoseconds(batch, 1)
    for candidate in todo:
        found.append(measured(candidate, setting, (X[train], y[train]), (X[test], y[test]), batch))
        linear = min(linear, linear_nanoseconds(batch, 1))
    sign = -1.0 if setting.regression else 1.0
    for method in dict.fromkeys(one.method for one in found):
        own = [one for one in found if one.method == method]
        chosen = max(own, key=lambda one: sign * np.nan_to_num(one.held_out))
        for one in own:
            printed = TABLE_1.get(name, {}).get(method) if one is chosen else None
            theirs, their_cost = printed or (None, None)
            what = "rmse" if setting.regression else "accuracy"
            yield Value(method, what, one.score, one.setting, theirs, one.seconds)
            yield Value(method, "x linear", one.nanoseconds / linear, one.setting, their_cost)
            yield Value(method, "ns a row", one.nanoseconds, one.setting)


def table_1_verdict(lines: list[Line]) -> str:
    """Compare DC-Pred++ with the paper's number and with the other methods within its cost."""
    return _standing(lines, "accuracy", {name: TABLE_1[name]["DC-Pred++"] for name in TABLE_1})


def figure_3_verdict(lines: list[Line]) -> str:
    """Compare DC-Pred++ with the other methods within its cost."""
    return _standing(lines, "rmse", {})


def _standing(lines: list[Line], measure: str, printed: dict[str, tuple[float, float]]) -> str:
    """Return a table with the best of DC-Pred++ beside the paper's other methods."""
    sign = 1.0 if measure == "accuracy" else -1.0

    def value(point: tuple[str, float, float]) -> float:
        return sign * point[1]

    def at(score: float, times: float) -> str:
        return f"{number(score)} at {number(times)}"

    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        points = _points(lines, name, measure)
        best = max((p for p in points if p[0] == "DC-Pred++"), key=value)
        others = [p for p in points if not p[0].startswith(("DC-Pred++", "gm.compress"))]
        within = max((p for p in others if p[2] <= best[2]), key=value, default=None)
        beyond = max(others, key=value)
        cells = ["", ""]
        if within is not None:
            how = "better" if value(within) > value(best) else "worse"
            cells[0] = f"{within[0]}: {at(*within[1:])}, {how}"
        if value(beyond) > value(best) and beyond[2] > best[2]:
            cells[1] = f"{beyond[0]}: {at(*beyond[1:])}"
        paper = [at(*printed[name][:2])] if printed else []
        rows.append([name, at(*best[1:]), *paper, *cells])
    head = [f"{measure} at times a linear model", "DC-Pred++", *["paper"] * bool(printed)]
    return markdown_table((*head, "best other method within its cost", "better at a higher cost"), rows)


def _points(lines: list[Line], name: str, measure: str) -> list[tuple[str, float, float]]:
    """Return (method, score, times a linear model) of every point of a set."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for line in lines:
        if line["set"] == name:
            values.setdefault((line["method"], str(line["setting"])), {})[line["measure"]] = line["value"]
    return [(method, point[measure], point["x linear"]) for (method, _), point in values.items()]
