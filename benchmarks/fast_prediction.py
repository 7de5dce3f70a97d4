"""Accuracy against the cost of a row: fast models beside DC-Pred++ and its competitors.

GRAMIAN_DATA=folder python benchmarks/fast_prediction.py [--sets letter,usps,...] [--methods ours,...]
    [--splits 3] [--figure fast_prediction.png]

The whole test set is one batch, float32, one thread; ns is the median of runs, x the same over X @ w with as
many outputs. Classification: accuracy; cadata (y in [0, 1]) and cpusmall: RMSE. letter is A-M against N-Z
(12,000 and 6,000 rows), usps its own split, covtype_100k class 2 against the rest (90 and 10 %). The last
column is the bar.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.svm import SVC, SVR

import gramian as gm
from gramian.baselines import LDKLClassifier, NystromLinearClassifier, NystromLinearRegressor
from gramian.data import load_dataset
from gramian.fast.cost import linear_nanoseconds, seconds_per_row


@dataclass(frozen=True)
class Setting:
    gamma: float
    C: float
    #: Budget of ours, bar of accuracy (or RMSE), bar of cost in words.
    cost: str
    bar: float
    regression: bool = False


SETS = {
    "letter": Setting(3.0, 10.0, "100ns", 0.960),
    "usps": Setting(0.008, 10.0, "11x", 0.963),
    "usps ten": Setting(0.008, 10.0, "8x", 0.950),
    "a9a": Setting(0.01, 1.0, "3x", 0.848),
    "covtype_100k": Setting(32.0, 10.0, "350ns", 0.918),
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


def teacher(setting: Setting) -> Any:
    if setting.regression:
        return SVR(C=setting.C, gamma=setting.gamma, epsilon=0.01)
    return SVC(C=setting.C, gamma=setting.gamma)


def methods(setting: Setting, taught: Any, seed: int) -> dict[str, Callable[[], Any]]:
    """Name → an unfitted model; a ``cost`` is met by ours, sizes of the others are near the paper's."""
    fast = gm.FastKernelRegressor if setting.regression else gm.FastKernelClassifier
    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: fast(taught, cost=setting.cost, random_state=seed),
        "boosting": HistGradientBoostingRegressor if setting.regression else HistGradientBoostingClassifier,
    }
    nystrom = NystromLinearRegressor if setting.regression else NystromLinearClassifier
    found["k-means Nyström 50"] = lambda: nystrom(50, gamma=setting.gamma, random_state=seed)
    if setting.regression:
        found["DC-Pred++"] = lambda: gm.DCPredRegressor(n_leaves=32, n_landmarks=12, random_state=seed)
    else:
        found["DC-Pred++"] = lambda: gm.DCPredClassifier(n_leaves=32, n_landmarks=12, random_state=seed)
        found["LDKL"] = lambda: LDKLClassifier(random_state=seed)
    return found


def score(setting: Setting, y: np.ndarray, found: np.ndarray) -> float:
    if setting.regression:
        return float(np.sqrt(np.mean(np.square(y - found))))
    return float(np.mean(y == found))


def fast_call(model: Any) -> Callable[[np.ndarray], object]:
    """What a server would call: arrays without the checks of scikit-learn, where there is such a thing."""
    for name in ("predictor_", "model_"):
        kept = getattr(model, name, None)
        if kept is not None:
            return (
                getattr(kept, "decide", kept) if callable(kept) or hasattr(kept, "decide") else model.predict
            )
    return model.predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default="")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--figure")
    args = parser.parse_args()
    wanted = [m for m in args.methods.split(",") if m]
    print(f"{'set':13} {'method':20} {'score':>8} {'worst':>8} {'ns':>9} {'x':>8} {'fit s':>7}  bar")
    points: dict[str, list[tuple[str, float, float]]] = {}
    for name in args.sets.split(","):
        setting = SETS[name]
        X, y, split = table(name)
        results: dict[str, list[tuple[float, float, float]]] = {}
        linear = np.nan
        for seed in range(1 if split is not None else args.splits):
            train, test = divide(name, len(X), split, seed)
            batch = np.ascontiguousarray(X[test], np.float32)
            outputs = 1 if setting.regression or len(np.unique(y)) == 2 else len(np.unique(y))
            linear = linear_nanoseconds(batch, outputs)
            start = time.perf_counter()
            taught = teacher(setting).fit(X[train], y[train])
            took = time.perf_counter() - start
            few = batch[:500]
            results.setdefault("exact SVM", []).append(
                (
                    score(setting, y[test], taught.predict(X[test])),
                    1e9 * seconds_per_row(taught.predict, few),
                    took,
                )
            )
            for method, make in methods(setting, taught, seed).items():
                if wanted and method not in wanted:
                    continue
                start = time.perf_counter()
                model = make().fit(X[train], y[train])
                took = time.perf_counter() - start
                value = score(setting, y[test], model.predict(X[test]))
                nanoseconds = 1e9 * seconds_per_row(fast_call(model), batch)
                results.setdefault(method, []).append((value, nanoseconds, took))
        for method, runs in results.items():
            values, ns, took_all = (np.asarray(column) for column in zip(*runs, strict=True))
            worst = values.max() if setting.regression else values.min()
            bar = f"{setting.bar} at {setting.cost}" if method == "ours" else ""
            print(
                f"{name:13} {method:20} {np.median(values):8.4f} {worst:8.4f} {np.median(ns):9.0f} "
                f"{np.median(ns) / linear:8.1f} {np.median(took_all):7.1f}  {bar}",
                flush=True,
            )
            points.setdefault(name, []).append((method, float(np.median(ns)), float(np.median(values))))
    if args.figure:
        draw(points, args.figure)


def draw(points: dict[str, list[tuple[str, float, float]]], path: str) -> None:
    import matplotlib.pyplot as plt

    _, grid = plt.subplots(
        1, len(points), figsize=(4 * len(points), 3.5), layout="constrained", squeeze=False
    )
    for axes, (name, found) in zip(grid[0], points.items(), strict=True):
        for method, ns, value in found:
            axes.semilogx(ns, value, "o")
            axes.annotate(method, (ns, value), fontsize=7)
        axes.set(title=name, xlabel="ns a row", ylabel="RMSE" if SETS[name].regression else "accuracy")
    plt.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
