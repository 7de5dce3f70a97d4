"""Accuracy against the cost of a row: fast models beside DC-Pred++ and its competitors.

GRAMIAN_DATA=folder python benchmarks/fast_prediction.py [--sets letter,usps,...] [--methods ours,LDKL,...]
    [--budgets 0.5,1] [--splits 3]

The whole test set is one batch, float32, one thread; ns is the median of runs, x the same over X @ w with as
many outputs; fit s is the training of the model alone, for ours with its teacher. gamma and C (LDKL: its
penalty and step) of every competitor are chosen on held-out training rows; benchmarks/papers/dcpred_sweeps.py
sweeps their sizes. Classification: accuracy; cadata (y in [0, 1]) and cpusmall: RMSE. letter is A-M against
N-Z (12,000 and 6,000 rows), usps its own split, covtype_100k class 2 against the rest (90 and 10 %). "ours"
has the budget of the bar, "ours 0.5" half of it. Methods that take hours on more than 20,000 rows are left
out there, and said to be.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.svm import SVC, SVR

import gramian as gm
from gramian.baselines import (
    AESVMClassifier,
    FastfoodLinearClassifier,
    FastfoodLinearRegressor,
    LDKLClassifier,
    NystromLinearClassifier,
    NystromLinearRegressor,
    ReducedSetClassifier,
)
from gramian.data import load_dataset
from gramian.exceptions import AccuracyWarning
from gramian.fast.cost import linear_nanoseconds, parse_cost, seconds_per_row
from gramian.fast.dcpred.training import DCPred
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


def methods(setting: Setting, budgets: list[float], n_rows: int, seed: int) -> dict[str, Any]:
    """Name → an unfitted model, or None where it would take hours; sizes are near those of the papers."""
    gamma, few = setting.gamma, n_rows <= MANY_ROWS
    number, unit = parse_cost(setting.cost)
    fast = gm.FastKernelRegressor if setting.regression else gm.FastKernelClassifier
    found: dict[str, Any] = {"exact SVM": exact_svm(setting, n_rows)}
    for part in budgets:
        name = "ours" if part == 1 else f"ours {part:g}"
        found[name] = fast(exact_svm(setting, n_rows), cost=f"{part * number:g}{unit}", random_state=seed)
    if setting.regression:
        found["DC-Pred++"] = dcpred(setting, 8, 32, seed)
        found["k-means Nyström 50"] = on_features(setting, NystromLinearRegressor, 50, seed)
        found["Fastfood 512"] = on_features(setting, FastfoodLinearRegressor, 512, seed)
        found["boosting"] = HistGradientBoostingRegressor(random_state=seed)
        return found
    found["DC-Pred++"] = dcpred(setting, 8, 32, seed)
    found["LDKL"] = ldkl(5, seed)
    found["AESVM"] = AESVMClassifier(gamma=gamma, C=setting.C, random_state=seed) if few else None
    found["reduced set 50"] = ReducedSetClassifier(50, gamma=gamma, C=setting.C) if few else None
    found["k-means Nyström 50"] = on_features(setting, NystromLinearClassifier, 50, seed)
    found["Fastfood 512"] = on_features(setting, FastfoodLinearClassifier, 512, seed)
    found["boosting"] = HistGradientBoostingClassifier(random_state=seed)
    return found


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
class Run:
    score: float
    nanoseconds: float
    seconds: float
    nbytes: int


def one_run(
    setting: Setting, model: Any, X: np.ndarray, y: np.ndarray, Xt: np.ndarray, yt: np.ndarray
) -> Run:
    start = time.perf_counter()
    model.fit(X, y)
    took = time.perf_counter() - start
    batch = np.ascontiguousarray(Xt, np.float32)
    # Models without a bare predictor are slow enough for some rows to tell.
    call = fast_call(model)
    timed = batch[:500] if call == model.predict else batch
    return Run(
        score(setting, yt, model.predict(Xt)), 1e9 * seconds_per_row(call, timed), took, model_bytes(model)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default="")
    parser.add_argument("--budgets", default="0.5,1")
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    wanted = [m for m in args.methods.split(",") if m]
    budgets = [float(part) for part in args.budgets.split(",")]
    print(
        f"{'set':13} {'method':20} {'score':>8} {'worst':>8} {'ns':>9} {'x':>8} {'fit s':>7} {'kB':>8}  bar"
    )
    for name in args.sets.split(","):
        setting = SETS[name]
        X, y, split = table(name)
        outputs = 1 if setting.regression or len(np.unique(y)) == 2 else len(np.unique(y))
        results: dict[str, list[Run]] = {}
        linear = []
        for seed in range(1 if split is not None else args.splits):
            train, test = divide(name, len(X), split, seed)
            linear.append(linear_nanoseconds(np.ascontiguousarray(X[test], np.float32), outputs))
            for method, model in methods(setting, budgets, len(train), seed).items():
                if wanted and method.split()[0] not in wanted and method not in wanted:
                    continue
                if model is None:
                    print(f"{name:13} {method:20} left out: {len(train):,} rows")
                    continue
                if isinstance(model, Tuned):
                    model = model.make(**model.best(setting, X[train], y[train], seed)[0])
                run = one_run(setting, model, X[train], y[train], X[test], y[test])
                results.setdefault(method, []).append(run)
        for method, runs in results.items():
            scores = [run.score for run in runs]
            ns, took, size = (
                np.median([getattr(run, field) for run in runs])
                for field in ("nanoseconds", "seconds", "nbytes")
            )
            worst = max(scores) if setting.regression else min(scores)
            bar = f"{setting.bar} at {setting.cost}" if method == "ours" else ""
            print(
                f"{name:13} {method:20} {np.median(scores):8.4f} {worst:8.4f} {ns:9.0f} "
                f"{ns / np.median(linear):8.1f} {took:7.1f} {size / 1e3:8.1f}  {bar}",
                flush=True,
            )


if __name__ == "__main__":
    main()
