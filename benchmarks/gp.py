"""Gaussian processes: calibration, predictive density and seconds, beside scikit-learn's on 2,000 rows.

GRAMIAN_DATA=folder python benchmarks/gp.py [--sets airfoil ccpp cadata] [--kernels rbf matern32] [--ard]
    [--splits 3] [--dense-rows 2000]

A fifth of the rows (4,000 at most) is held out; features are standardised. "gramian" learns its parameters
on the compressed likelihood and takes all other rows; "scikit-learn" is its dense GP on ``--dense-rows`` of
them, with the same kernel and the same start. "cover": share of held-out targets in the 90 % interval of a
new observation (87 to 93 % is calibrated); "nlpd": mean negative log predictive density, "rmse": both of
targets over their deviation; "fit", "predict": seconds. Medians over the splits.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as DenseGP
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import gramian as gm
from gramian.data import load_dataset

#: 5 % and 95 % points of the normal distribution.
POINTS = 1.6448536
DENSE = {"rbf": RBF, "matern32": lambda ell: Matern(ell, nu=1.5), "matern52": lambda ell: Matern(ell, nu=2.5)}


def table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = load_dataset(name)
    X, y = np.asarray(data.X, np.float64), np.asarray(data.y, np.float64)
    order = np.random.default_rng(seed).permutation(len(X))
    held_out = min(len(X) // 5, 4_000)
    new, rows = order[:held_out], order[held_out:]
    spread = X[rows].std(axis=0)
    X = (X - X[rows].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X[rows], y[rows], X[new], y[new]


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray, scale: float) -> list[float]:
    z, std = (y - mean) / std, std / scale
    density = 0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi)
    rmse = np.sqrt(np.square(y - mean).mean()) / scale
    return [100.0 * float((np.abs(z) < POINTS).mean()), float(density.mean()), float(rmse)]


def compressed(kernel: str, ard: bool, seed: int, learning_rows: int | None) -> object:
    return gm.GaussianProcessRegressor(kernel, ard=ard, random_state=seed, learning_rows=learning_rows)


def dense(kernel: str, ard: bool, X: np.ndarray) -> object:
    d = X.shape[1]
    start = np.full(d, np.sqrt(d)) if ard else np.sqrt(d)
    whole = ConstantKernel(1.0) * DENSE[kernel](start) + WhiteKernel(0.1)
    return DenseGP(whole, alpha=1e-10, normalize_y=True)


def timed(model: object, X: np.ndarray, y: np.ndarray, new: np.ndarray, **asked: bool) -> tuple:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    fitted = time.perf_counter()
    mean, std = model.predict(new, return_std=True, **asked)
    return mean, std, fitted - began, time.perf_counter() - fitted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "ccpp", "cadata"])
    parser.add_argument("--kernels", nargs="+", default=["rbf", "matern32"], choices=DENSE)
    parser.add_argument("--ard", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--dense-rows", type=int, default=2_000)
    parser.add_argument("--learning-rows", type=int, default=10_000)
    asked = parser.parse_args()
    print("set        kernel    model           rows  cover     nlpd    rmse     fit predict")
    for name in asked.sets:
        for kernel in asked.kernels:
            found: dict[str, list[list[float]]] = {}
            for seed in range(asked.splits):
                X, y, new, target = table(name, seed)
                scale = float(y.std())
                model = compressed(kernel, asked.ard, seed, asked.learning_rows)
                mean, std, *took = timed(model, X, y, new, include_noise=True)
                found.setdefault("gramian", []).append([len(X), *scores(target, mean, std, scale), *took])
                if asked.dense_rows:
                    few = slice(0, asked.dense_rows)
                    mean, std, *took = timed(dense(kernel, asked.ard, X), X[few], y[few], new)
                    row = [len(X[few]), *scores(target, mean, std, scale), *took]
                    found.setdefault("scikit-learn", []).append(row)
            for who, rows in found.items():
                n, cover, density, rmse, fit, predict = np.median(rows, axis=0)
                print(
                    f"{name:10} {kernel:9} {who:13} {int(n):6} {cover:6.1f} {density:8.4f} {rmse:7.4f} "
                    f"{fit:7.1f} {predict:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
