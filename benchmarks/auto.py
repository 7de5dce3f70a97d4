"""``approximation="auto"`` against Nystroem(1000) + Ridge at the same gamma and alpha, on every set.

GRAMIAN_DATA=folder python benchmarks/auto.py [--sets wine,cadata] [--gammas 0.1,1,10] [--alpha 0.1]

Rows are z-scaled by the training part, 80/20; gamma is the given multiple of 1/d. Regression: test
RMSE over the standard deviation of y; classification: test error in ±1 columns. Both run in this process,
in turn; times are of fit and predict together, the smallest of the repeats.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from suite.datasets import load_dataset

import gramian as gm

REGRESSION = ("wine", "cadata", "cpusmall", "abalone", "census_house16H", "ccpp", "airfoil", "concrete")
CLASSES = (
    "pendigits",
    "letter",
    "ijcnn1",
    "satimage",
    "german",
    "usps",
    "mushroom",
    "a9a",
    "ctg",
    "gesture",
    "spambase",
    "covtype_100k",
    "kddcup99_10pct",
    "mnist",
)
MAX_ROWS = 100_000


def kin40k_like(n: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Forward kinematics of an eight-link arm, as the kin family of sets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-np.pi / 2, np.pi / 2, (n, 8))
    reach = np.cumsum(X[:, :6], axis=1)
    y = np.hypot((np.cos(reach)).sum(axis=1) + X[:, 6] * np.sin(X[:, 7]), np.sin(reach).sum(axis=1))
    return X, y + 0.01 * rng.standard_normal(n)


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "kin40k-like":
        return kin40k_like()
    data = load_dataset(name)
    keep = np.random.default_rng(1).permutation(len(data.X))[:MAX_ROWS]
    return data.X[keep].astype(np.float64), data.y[keep]


def run(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    predicted = model.fit(X, y).predict(X_test)
    return predicted, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(("kin40k-like", *REGRESSION, *CLASSES)))
    parser.add_argument("--gammas", default="0.1,1,10")
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    head = ("set", "n", "gamma d", "ours", "peer", "ratio", "s", "peer s", "x", "plan")
    print("{:16} {:>6} {:>7} {:>8} {:>8} {:>6} {:>7} {:>7} {:>5}  {}".format(*head))
    worse = slower = total = 0
    for name in args.sets.split(","):
        X, y = rows_of(name)
        classify = name in CLASSES
        order = np.random.default_rng(0).permutation(len(X))
        cut = int(0.8 * len(X))
        train, test = order[:cut], order[cut:]
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        X = (X - mean) / np.where(scale > 0, scale, 1.0)
        for multiple in map(float, args.gammas.split(",")):
            gamma = multiple / X.shape[1]
            errors, times = {}, {"ours": np.inf, "peer": np.inf}
            for _ in range(args.repeat):
                kind = gm.KernelRidgeClassifier if classify else gm.KernelRidge
                ours = kind(args.alpha, gamma=gamma, random_state=0, fit_intercept=True)
                linear = RidgeClassifier if classify else Ridge
                peer = make_pipeline(
                    Nystroem(n_components=min(1000, cut), gamma=gamma, random_state=0),
                    linear(alpha=args.alpha),
                )
                for label, model in (("ours", ours), ("peer", peer)):
                    predicted, took = run(model, X[train], y[train], X[test])
                    times[label] = min(times[label], took)
                    if classify:
                        errors[label] = float(np.mean(predicted != y[test]))
                    else:
                        rmse = float(np.sqrt(np.mean((predicted - y[test]) ** 2)))
                        errors[label] = rmse / y[train].std()
            ratio = errors["ours"] / max(errors["peer"], 1e-9)
            total += 1
            worse += ratio > 1.0
            slower += times["ours"] > times["peer"]
            plan = ours.plan_
            print(
                f"{name:16} {cut:6d} {multiple:7.1f} {errors['ours']:8.4f} {errors['peer']:8.4f} "
                f"{ratio:6.3f} {times['ours']:7.2f} {times['peer']:7.2f} "
                f"{times['peer'] / times['ours']:5.1f}  {plan.root_rank}+{plan.n_blocks}x{plan.rank} "
                f"{plan.reason}",
                flush=True,
            )
    print(f"{total} runs: worse in error in {worse}, slower in {slower}")


if __name__ == "__main__":
    main()
