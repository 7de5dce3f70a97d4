"""MNIST (60,000 + 10,000 rows, ten classes): multi-resolution beside scikit-learn's Nystroem.

GRAMIAN_DATA=folder python benchmarks/mnist.py [--repeat 1]

Pixels in [0, 1], gamma = 0.02, alpha = 0.1, the canonical split; each method in turn, medians of the repeats
(each with its own seed).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from suite.datasets import load_dataset

import gramian as gm

GAMMA, ALPHA = 0.02, 0.1


def ours(**sizes: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        return gm.KernelRidgeClassifier(
            ALPHA,
            gamma=GAMMA,
            approximation=gm.MultiResolution(oversampling=1.0, **sizes),
            memory_budget="4GB",
            random_state=seed,
        )

    return make


METHODS: dict[str, Callable[[int], Any]] = {
    "multi-resolution, auto": lambda seed: gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA, random_state=seed),
    "multi-resolution (1000 + 20 x 600)": ours(root_rank=1000, n_blocks=20, rank=600),
    "multi-resolution (1500 + 12 x 700)": ours(root_rank=1500, n_blocks=12, rank=700),
    "multi-resolution (2000 + 12 x 700)": ours(root_rank=2000, n_blocks=12, rank=700),
    "Nystroem(2000) + RidgeClassifier": lambda seed: make_pipeline(
        Nystroem(n_components=2000, gamma=GAMMA, random_state=seed), RidgeClassifier(alpha=ALPHA)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    data = load_dataset("mnist")
    X, y, n = data.X.astype(np.float32) / 255, data.y, data.n_train
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for seed in range(args.repeat):
        for name, make in METHODS.items():
            model = make(seed)
            start = time.perf_counter()
            model.fit(X[:n], y[:n])
            fitted = time.perf_counter()
            wrong = float(np.mean(model.predict(X[n:]) != y[n:]))
            results[name].append((wrong, fitted - start, time.perf_counter() - fitted))
    print(f"mnist, gamma={GAMMA}, alpha={ALPHA}; medians of {args.repeat}")
    print(f"{'method':46} {'error':>8} {'fit s':>7} {'predict s':>10}")
    for name, runs in results.items():
        error, fit, predict = (statistics.median(v) for v in zip(*runs))
        print(f"{name:46} {error:8.4f} {fit:7.2f} {predict:10.3f}")


if __name__ == "__main__":
    main()
