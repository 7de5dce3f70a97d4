"""Making fast models: seconds, quality, whether the budget is met; and settings that other scripts share.

GRAMIAN_DATA=folder python benchmarks/fast_prediction.py [--works letter,letter26,...] [--runs 3] [--splits 3]

First table: ``gm.compress`` of a trained teacher with the rows and labels it learned from, by the default
search on every core. s is the median of the runs, without the teacher's fit; score is accuracy, for cadata (y
in [0, 1]) RMSE; of several splits the worst. x asked is ``cost_``, the time of the public ``predict``, over
the budget. Second table: the same ratio for budgets of single rows, 100 and 10,000 at a time, each the median
and the most over five sets. letter is A-M against N-Z (12,000 and 6,000 rows), letter26 all its classes, usps
its own split, covtype_100k class 2 against the rest (90 and 10 %).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from baselines import LDKLClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.svm import SVC, SVR
from suite.datasets import load_dataset

import gramian as gm
from gramian.exceptions import AccuracyWarning
from gramian.fast.cost import parse_cost
from gramian.fast.dcpred.model import DCPred
from gramian.fast.serving.predictor import FastPredictor

#: Rows beyond which the exact SVM is DC-SVM's, and methods that start from it are left out.
MANY_ROWS = 20_000
#: Most pseudo-landmarks of DC-Pred++: training takes their square, a prediction hardly notices them.
MOST_PSEUDO = 528


@dataclass(frozen=True)
class Setting:
    gamma: float
    C: float
    #: Budget of ours, bar of accuracy (or RMSE).
    cost: str
    bar: float
    regression: bool = False


SETS = {
    "letter": Setting(3.0, 10.0, "100ns", 0.960),
    "usps": Setting(0.008, 10.0, "11x", 0.963),
    "usps ten": Setting(0.008, 10.0, "8x", 0.950),
    "a9a": Setting(0.01, 1.0, "3x", 0.848),
    "covtype_100k": Setting(8.0, 32.0, "350ns", 0.918),
    "cadata": Setting(8.0, 1.0, "80ns", 0.1115, True),
    "cpusmall": Setting(1.0, 100.0, "50ns", 3.4, True),
}


def table(name: str) -> tuple[np.ndarray, np.ndarray, int | None]:
    """Rows in [-1, 1] (usps and a9a as they are), targets, and the number of training rows if given."""
    data = load_dataset(name.split()[0])
    X, y = np.asarray(data.X, np.float64), np.asarray(data.y)
    split = None
    if name == "letter":
        y = np.where(y < 13, 1, -1)
    elif name.startswith("usps"):
        split = 7291
        y = y if name.endswith("ten") else np.where(y < 5, 1, -1)
    elif name == "a9a":
        split = 32_561
    elif name == "covtype_100k":
        y = np.where(y == 2, 1, -1)
    elif name == "cadata":
        y = (y - y.min()) / (y.max() - y.min())
    if split is None:
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0
    return X, y, split


def divide(name: str, n: int, split: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if split is not None:
        return np.arange(split), np.arange(split, n)
    order = np.random.default_rng(seed).permutation(n)
    counts = {"letter": (12_000, 6_000), "covtype_100k": (90_000, 10_000)}
    train, test = counts.get(name, (round(0.8 * n), n - round(0.8 * n)))
    return order[:train], order[train : train + test]


def exact_svm(setting: Setting, n_rows: int) -> Any:
    if setting.regression:
        return SVR(C=setting.C, gamma=setting.gamma, epsilon=0.01)
    if n_rows > MANY_ROWS:
        return gm.DCSVC(C=setting.C, gamma=setting.gamma, memory_budget="2GB")
    return SVC(C=setting.C, gamma=setting.gamma)


@dataclass(frozen=True)
class Tuned:
    """A method whose parameters are chosen on held-out rows, one after the other.

    The first is tried once more at the end, at half and twice its value.
    """

    make: Callable[..., Any]  #: from the parameters to an unfitted model
    grid: dict[str, tuple[float, ...]]  #: values of each parameter; the search starts from the middle ones

    def best(
        self, setting: Setting, X: np.ndarray, y: np.ndarray, seed: int
    ) -> tuple[dict[str, float], float]:
        """Return the parameters with the best score on a fifth of the rows, and that score."""
        order = np.random.default_rng(seed).permutation(len(X))[: MANY_ROWS // 2]
        held_out, rest = np.split(order, [len(order) // 5])
        sign = -1.0 if setting.regression else 1.0
        seen: dict[tuple[float, ...], float] = {}

        def value(parameters: dict[str, float]) -> float:
            key = tuple(parameters.values())
            if key not in seen:
                with warnings.catch_warnings():  # a poor C need not be trained to the end
                    warnings.simplefilter("ignore", AccuracyWarning)
                    model = self.make(**parameters).fit(X[rest], y[rest])
                seen[key] = sign * score(setting, y[held_out], model.predict(X[held_out]))
            return seen[key]

        found = {name: values[len(values) // 2] for name, values in self.grid.items()}
        first = next(iter(self.grid))
        for name, values in [*self.grid.items(), (first, ())]:
            values = values or (found[name], found[name] / 2, found[name] * 2)
            found[name] = max(values, key=lambda v, name=name: value({**found, name: v}))
        return found, sign * value(found)


def kernel_grid(setting: Setting) -> dict[str, tuple[float, ...]]:
    """Return values of gamma, from the exact SVM's downwards, and of C."""
    few_units = tuple(setting.gamma * factor for factor in (1, 1 / 4, 1 / 16, 1 / 64))
    return {"gamma": few_units, "C": (1.0, 10.0, 100.0, 1000.0) if setting.regression else (1.0, 10.0, 100.0)}


def dcpred(setting: Setting, n_leaves: int, n_landmarks: int, seed: int, **options: Any) -> Tuned:
    """Return DC-Pred++ with products of two kernel values as pseudo-landmarks, all if they are few."""
    given = {
        "n_leaves": n_leaves,
        # To compare a row with up to 64 centres at once takes less time than with 8 and again 8.
        "n_levels": 1 if n_leaves <= 64 else 2,
        "n_landmarks": n_landmarks,
        "n_pseudo": min(n_landmarks * (n_landmarks + 1) // 2, MOST_PSEUDO),
        "random_state": seed,
        "n_jobs": 1,
        **options,
    }
    if setting.regression:
        return Tuned(lambda gamma, C: gm.DCPredRegressor(0.5 / C, gamma=gamma, **given), kernel_grid(setting))
    return Tuned(lambda gamma, C: gm.DCPredClassifier(C, gamma=gamma, **given), kernel_grid(setting))


def ldkl(depth: int, seed: int) -> Tuned:
    """Return LDKL, whose three penalties are equal."""

    def make(penalty: float, step: float) -> LDKLClassifier:
        penalties = dict.fromkeys(("lambda_w", "lambda_theta", "lambda_theta_prime"), penalty)
        return LDKLClassifier(depth, step=step, random_state=seed, n_jobs=1, **penalties)

    return Tuned(make, {"penalty": (1e-5, 1e-4, 1e-3), "step": (0.01, 0.03, 0.1)})


def on_features(setting: Setting, method: Callable[..., Any], size: int, seed: int) -> Tuned:
    """Return a linear model on ``size`` features of a baseline."""

    def make(gamma: float, C: float) -> Any:
        penalty = {"alpha": 0.5 / C} if setting.regression else {"C": C}
        return method(size, gamma=gamma, random_state=seed, n_jobs=1, **penalty)

    return Tuned(make, kernel_grid(setting))


def score(setting: Setting, y: np.ndarray, found: np.ndarray) -> float:
    if setting.regression:
        return float(np.sqrt(np.mean(np.square(y - found))))
    return float(np.mean(y == found))


def fast_call(model: Any) -> Callable[[np.ndarray], object]:
    """What a server would call: arrays without the checks of scikit-learn, where there is such a thing."""
    kept = getattr(model, "predictor_", getattr(model, "model_", None))
    if isinstance(kept, FastPredictor | DCPred):
        return kept
    return getattr(kept, "decide", model.predict)


def model_bytes(model: Any) -> int:
    """Bytes of the numbers that a prediction needs; 0 where the model does not say."""
    for kept in (getattr(model, "predictor_", None), getattr(model, "model_", None)):
        if hasattr(kept, "nbytes"):
            return int(kept.nbytes)
    if hasattr(model, "support_vectors_"):
        return int(model.support_vectors_.nbytes + model.dual_coef_.nbytes)
    return 0


@dataclass(frozen=True)
class Work:
    """A set, the budget, and its teacher if that is not the exact SVM."""

    name: str
    cost: str
    teacher: str = "SVM"


WORKS = {
    "letter": Work("letter", "100ns"),
    "letter26": Work("letter26", "20x"),
    "usps ten": Work("usps ten", "8x"),
    "cadata": Work("cadata", "80ns"),
    "cadata, boosting": Work("cadata", "80ns", "boosting"),
    "a9a": Work("a9a", "3x"),
    "covtype_100k": Work("covtype_100k", "300ns"),
}
#: Budgets of a row by the rows of a batch, and the sets that they are asked of.
BATCHES = {1: "60us", 100: "2us", 10_000: "200ns"}
ASKED = ("letter", "letter26", "usps ten", "cadata", "cpusmall")


def problem(name: str, seed: int) -> tuple[Setting, tuple[np.ndarray, ...]]:
    """Return the setting of a set, and its training rows, targets, test rows and targets."""
    if name == "letter26":
        X, _, _ = table("letter")
        y, setting = np.asarray(load_dataset("letter").y), SETS["letter"]
        train, test = divide("letter", len(X), None, seed)
    else:
        (X, y, split), setting = table(name), SETS[name]
        train, test = divide(name, len(X), split, seed)
    return setting, (X[train], y[train], X[test], y[test])


@lru_cache(maxsize=32)
def taught(name: str, teacher: str, seed: int) -> tuple[Any, float]:
    """Return a trained teacher and the seconds of its fit."""
    setting, (X, y, _, _) = problem(name, seed)
    start = time.perf_counter()
    if teacher == "SVM":
        model = exact_svm(setting, len(X))
    else:
        kind = HistGradientBoostingRegressor if setting.regression else HistGradientBoostingClassifier
        model = kind(random_state=0)
    return model.fit(X, y), time.perf_counter() - start


def made(work: Work, seed: int, runs: int) -> list[float]:
    """Return the teacher's seconds and score, those of the fast model, and its cost over what was asked."""
    setting, (X, y, Xt, yt) = problem(work.name, seed)
    teacher, seconds = taught(work.name, work.teacher, seed)
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        fast = gm.compress(teacher, X, y, cost=work.cost, random_state=seed)
        took.append(time.perf_counter() - start)
    scores = [score(setting, yt, model.predict(Xt)) for model in (teacher, fast)]
    return [seconds, scores[0], float(np.median(took)), scores[1], asked_ratio(fast)]


def asked_ratio(fast: Any) -> float:
    """Return the measured time of a row over the budget."""
    number, unit = parse_cost(fast.cost)
    cost = fast.cost_
    return (cost.ratio if unit == "x" else cost.nanoseconds) / number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", default=";".join(WORKS), help="names, separated by semicolons")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--splits", type=int, default=3, help="of cadata")
    args = parser.parse_args()
    warnings.simplefilter("ignore", AccuracyWarning)  # the table shows what the warning says
    columns = ("teacher s", "its score", "s", "score", "x asked")
    print(f"{'work':18} {'budget':8}" + "".join(f"{name:>11}" for name in columns))
    for name in args.works.split(";"):
        work = WORKS[name]
        splits = args.splits if work.name == "cadata" else 1
        found = np.array([made(work, seed, args.runs) for seed in range(splits)])
        worst = found.max(axis=0) if problem(work.name, 0)[0].regression else found.min(axis=0)
        most = found.max(axis=0)
        cells = f"{most[0]:11.1f}{worst[1]:11.4f}{most[2]:11.1f}{worst[3]:11.4f}{most[4]:11.2f}"
        print(f"{name:18} {work.cost:8}{cells}", flush=True)
    print(f"\n{'rows at a time':18} {'budget':8}{'median':>11}{'most':>11}  x asked, {', '.join(ASKED)}")
    for rows, cost in BATCHES.items():
        ratios = []
        for name in ASKED:
            _, (X, y, _, _) = problem(name, 0)
            teacher, _ = taught(name, "SVM", 0)
            fast = gm.compress(teacher, X, y, cost=cost, batch_rows=rows, time_limit=5.0, random_state=0)
            ratios.append(asked_ratio(fast))
        print(f"{rows:<18,} {cost:8}{np.median(ratios):11.2f}{max(ratios):11.2f}", flush=True)


if __name__ == "__main__":
    main()
