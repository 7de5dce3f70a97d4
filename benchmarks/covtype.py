"""Covertype (100,000 rows): multi-resolution against scikit-learn's Nystroem, side by side.

GRAMIAN_DATA=folder python benchmarks/covtype.py [--repeat 3]

Class 2 against the rest, z-scaled by the training part, 80/20, gamma = 0.3, alpha = 0.1; every
method in the same process, in turn; medians over the repeats (each with its own seed).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from suite.datasets import load_dataset

import gramian as gm

GAMMA, ALPHA = 0.3, 0.1


def rows() -> tuple[np.ndarray, ...]:
    data = load_dataset("covtype_100k")
    X, y = data.X.astype(np.float64), np.where(data.y == 2, 1, -1)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:80_000], order[80_000:]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    scale[scale == 0] = 1.0
    X = ((X - mean) / scale).astype(np.float32)
    return X[train], y[train], X[test], y[test]


def ours(**sizes: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        return gm.KernelRidgeClassifier(
            ALPHA,
            gamma=GAMMA,
            approximation=gm.MultiResolution(**sizes),
            memory_budget="1.5GB",
            random_state=seed,
        )

    return make


METHODS: dict[str, Callable[[int], Any]] = {
    "multi-resolution, fast (300 + 300 x 100)": ours(
        root_rank=300, n_blocks=300, rank=100, oversampling=1.0, landmarks="uniform"
    ),
    "multi-resolution, accurate (400 + 150 x 400)": ours(
        root_rank=400, n_blocks=150, rank=400, oversampling=1.0
    ),
    "multi-resolution, auto": lambda seed: gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA, random_state=seed),
    "MEKA, 40 x 128": lambda seed: gm.KernelRidgeClassifier(
        ALPHA, gamma=GAMMA, approximation=gm.MEKA(rank=128, n_blocks=40), random_state=seed
    ),
    "Nystroem(2000) + RidgeClassifier": lambda seed: make_pipeline(
        Nystroem(n_components=2000, gamma=GAMMA, random_state=seed), RidgeClassifier(alpha=ALPHA)
    ),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    X, y, X_test, y_test = rows()
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for seed in range(args.repeat):
        for name, make in METHODS.items():
            model = make(seed)
            start = time.perf_counter()
            model.fit(X, y)
            fitted = time.perf_counter()
            wrong = float(np.mean(model.predict(X_test) != y_test))
            results[name].append((wrong, fitted - start, time.perf_counter() - fitted))
    peer = [statistics.median(v) for v in zip(*results["Nystroem(2000) + RidgeClassifier"])]
    print(f"covtype_100k, gamma={GAMMA}, alpha={ALPHA}; medians of {args.repeat}; worst error in brackets")
    print(f"{'method':46} {'error':>15} {'fit s':>7} {'predict s':>10} {'fit x':>6} {'predict x':>10}")
    for name, runs in results.items():
        error, fit, predict = (statistics.median(v) for v in zip(*runs))
        worst = max(r[0] for r in runs)
        print(
            f"{name:46} {error:7.4f} ({worst:.4f}) {fit:7.2f} {predict:10.3f} "
            f"{peer[1] / fit:6.1f} {peer[2] / predict:10.1f}"
        )


if __name__ == "__main__":
    main()
