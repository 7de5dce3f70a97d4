"""Every approximation with the same numbers stored: error of the matrix, of predictions, and time.

GRAMIAN_DATA=folder python benchmarks/which.py [--rows 8000] [--numbers 100] [--sets ...] [--figure F]

Features are standardised; gamma is 0.1, 1 and 10 over the median squared distance ("wide", "middle",
"narrow"). Each method stores ``numbers`` · n numbers (Nyström and random features: that rank). "matrix":
relative Frobenius error on the training rows; "test": RMSE over the deviation of y, or the share of wrong
classes, of kernel ridge regression with alpha = 0.1 on a fifth of the rows; "s": seconds of the fit of the
matrix. What is within 2 % of the best of its column is starred; "exact" is K itself.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from suite.datasets import load_dataset

import gramian as gm
from gramian.approximations import LowRankPlusBlocks

SETS = {"cadata": 8, "pendigits": 16, "covtype_100k": 54, "mnist": 784}
BANDWIDTHS = {"wide": 0.1, "middle": 1.0, "narrow": 10.0}
ALPHA = 0.1


def methods(n: int, numbers: int) -> dict[str, object]:
    half = numbers // 2
    coupled = (np.sqrt(n**2 + 4 * 100 * numbers * n) - n) / 200  # n·r + (10·r)² = numbers·n
    return {
        "BlockBasis": gm.BlockBasis(rank=numbers),
        "Nystrom": gm.Nystrom(rank=numbers),
        "Nystrom, k-means": gm.Nystrom(rank=numbers, landmarks="kmeans", oversampling=1.0),
        "KALS": gm.KALS(rank=numbers),
        "MEKA": gm.MEKA(rank=max(1, int(coupled)), n_blocks=10),
        "MultiResolution": gm.MultiResolution(root_rank=half, rank=half, n_blocks=max(2, n // 300)),
        "LowRankPlusBlocks": LowRankPlusBlocks(root_rank=half, n_blocks=max(1, n // half)),
        "BlockDiagonal": gm.BlockDiagonal(n_blocks=max(1, n // numbers)),
        "RandomFourier": gm.RandomFourier(rank=numbers),
        "Fastfood": gm.Fastfood(rank=numbers),
    }


def table(name: str, rows: int) -> tuple[np.ndarray, np.ndarray, bool]:
    data = load_dataset(name)
    picked = np.random.default_rng(0).choice(len(data.X), min(rows * 5 // 4, len(data.X)), replace=False)
    X, y = data.X[picked].astype(np.float64), np.asarray(data.y)[picked]
    spread = X.std(axis=0)
    classes = y.dtype.kind in "iuOSU" or len(np.unique(y)) < 30
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y, classes


def median_square(X: np.ndarray) -> float:
    some = X[:1000]
    squares = np.square(some).sum(axis=1)
    return float(np.median(squares[:, None] + squares - 2.0 * some @ some.T))


def score(model: object, X: np.ndarray, y: np.ndarray, classes: bool) -> float:
    found = model.predict(X)
    return float((found != y).mean()) if classes else float(np.sqrt(np.square(found - y).mean()) / y.std())


def ridge(approximation: object, gamma: float, classes: bool) -> object:
    kind = gm.KernelRidgeClassifier if classes else gm.KernelRidge
    intercept = {} if classes else {"fit_intercept": True}
    return kind(
        ALPHA, gamma=gamma, approximation=approximation, memory_budget="8GB", random_state=0, **intercept
    )


def run(name: str, rows: int, numbers: int) -> dict[str, list[float]]:
    X, y, classes = table(name, rows)
    test = len(X) // 5
    train, y_train, new, y_new = X[test:], y[test:], X[:test], y[:test]
    scale = median_square(train)
    matrix: dict[str, list[float]] = {}
    for width, factor in BANDWIDTHS.items():
        gamma = factor / scale
        found: dict[str, tuple[float, float, float]] = {}
        for method, a in methods(len(train), numbers).items():
            start = time.perf_counter()
            a.set_params(gamma=gamma, random_state=0).fit(train)
            seconds = time.perf_counter() - start
            wrong = score(ridge(a, gamma, classes).fit(train, y_train), new, y_new, classes)
            error = float(a.relative_error(train, n_rows=1000, random_state=0))
            found[method] = error, wrong, seconds
            matrix.setdefault(method, []).append(error)
        exact = score(ridge("exact", gamma, classes).fit(train, y_train), new, y_new, classes)
        best = np.min(list(found.values()), axis=0)
        for method, values in found.items():
            stars = ["*" if v <= 1.02 * b else " " for v, b in zip(values, best, strict=True)]
            print(
                f"{name:13} {X.shape[1]:4d} {width:7} {method:18} {values[0]:9.2g}{stars[0]} "
                f"{values[1]:8.4f}{stars[1]} {values[2]:7.2f}{stars[2]}",
                flush=True,
            )
        print(f"{name:13} {X.shape[1]:4d} {width:7} {'exact':18} {'':10} {exact:8.4f}", flush=True)
    return matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--numbers", type=int, default=100)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--figure")
    args = parser.parse_args()
    print(f"{'set':13} {'d':>4} {'kernel':7} {'method':18} {'matrix':>9}  {'test':>8}  {'s':>7}")
    found = {name: run(name, args.rows, args.numbers) for name in args.sets.split(",")}
    if args.figure:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 4), sharey=True, layout="constrained")
        for ax, (name, lines) in zip(np.atleast_1d(axes), found.items(), strict=True):
            for method, errors in lines.items():
                ax.semilogy(list(BANDWIDTHS), errors, marker="o", label=method)
            ax.set(title=name)
        np.atleast_1d(axes)[0].set(ylabel="relative Frobenius error")
        np.atleast_1d(axes)[-1].legend(fontsize=7)
        plt.savefig(args.figure)


if __name__ == "__main__":
    main()
