"""Choosing alpha, gamma and lengthscales beside one dense fit of scikit-learn's KernelRidge.

GRAMIAN_DATA=folder python benchmarks/model_selection.py [--set cadata] [--dense-rows 8000] [--n-jobs 1]

Rows are z-scaled by the training part, 80/20; y by its training mean and deviation, so that errors are test
RMSE over the deviation of y. The dense fit is of the alpha and gamma that were chosen; with fewer rows than
the training part its time is scaled to them: kernel and products by n², factor by n³ (``seconds at n``).
Set OPENBLAS_NUM_THREADS to --n-jobs, so that both sides have as many threads.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy.linalg as la
from sklearn.kernel_ridge import KernelRidge as Dense
from sklearn.metrics.pairwise import rbf_kernel
from suite.datasets import load_dataset

import gramian as gm

ALPHAS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
#: Gammas as multiples of 1/d.
MULTIPLES = (0.1, 0.3, 1.0, 3.0, 10.0)


def table(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and targets, test rows and targets, all scaled."""
    data = load_dataset(name)
    keep = np.random.default_rng(1).permutation(len(data.X))
    X, y = np.asarray(data.X, np.float64)[keep], np.asarray(data.y, np.float64)[keep]
    n = int(0.8 * len(X))
    spread = X[:n].std(axis=0)
    X = (X - X[:n].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[:n].mean()) / y[:n].std()
    return X[:n], y[:n], X[n:], y[n:]


def rmse(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def dense_seconds(X: np.ndarray, y: np.ndarray, alpha: float, gamma: float, rows: int) -> dict[str, Any]:
    """Fit the dense model to some rows; its seconds there, and scaled to all of them."""
    model = Dense(alpha=alpha, kernel="rbf", gamma=gamma)
    began = time.perf_counter()
    model.fit(X[:rows], y[:rows])
    took = time.perf_counter() - began
    began = time.perf_counter()
    gram = rbf_kernel(X[:rows], gamma=gamma)
    squares = time.perf_counter() - began
    gram.flat[:: rows + 1] += alpha
    began = time.perf_counter()
    la.cho_factor(gram, overwrite_a=True, check_finite=False)
    cubes = min(time.perf_counter() - began, took)
    growth = len(X) / rows
    scaled = (took - cubes) * growth**2 + cubes * growth**3
    return {"model": model, "took": took, "kernel": squares, "factor": cubes, "scaled": scaled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--set", default="cadata")
    parser.add_argument("--dense-rows", type=int, default=8000)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--no-refine", action="store_true", help="only the grid")
    args = parser.parse_args()
    X, y, X_test, y_test = table(args.set)
    gammas = tuple(multiple / X.shape[1] for multiple in MULTIPLES)
    common = {"gammas": gammas, "random_state": 0, "n_jobs": args.n_jobs}
    print(f"{args.set}: {len(X)} training rows, {len(X_test)} test rows, {X.shape[1]} features")

    began = time.perf_counter()
    grid = gm.KernelRidgeCV(ALPHAS, **common).fit(X, y)
    seconds = time.perf_counter() - began
    assert grid.gamma_ is not None
    print("\nleave-one-out RMSE (rows compared on): alphas down, gammas along")
    found = grid.cv_results_
    print(f"{'':>8}" + "".join(f"{g:>12.4g}" for g in gammas))
    print(f"{'rows':>8}" + "".join(f"{n:>12}" for n in found["n_rows"]))
    for alpha, row in zip(found["alphas"], found["scores"], strict=True):
        print(f"{alpha:>8.3g}" + "".join(f"{np.sqrt(-s):>12.4f}" for s in row))

    rows = min(args.dense_rows, len(X))
    peer = dense_seconds(X, y, grid.alpha_, grid.gamma_, rows)
    print(f"\n{'':34}{'seconds':>9}{'at n':>9}{'held out':>10}{'test':>9}")

    def line(name: str, took: float, at_n: float, held_out: float | None, test: float) -> None:
        middle = "" if held_out is None else f"{held_out:.4f}"
        print(f"{name:34}{took:>9.1f}{at_n:>9.1f}{middle:>10}{test:>9.4f}", flush=True)

    line(
        "5 alphas x 5 gammas, leave-one-out",
        seconds,
        seconds,
        np.sqrt(-grid.best_score_),
        rmse(grid, X_test, y_test),
    )
    line(
        f"scikit-learn, one fit, {rows} rows",
        peer["took"],
        peer["scaled"],
        None,
        rmse(peer["model"], X_test, y_test),
    )
    print(f"grid over one dense fit at n: {seconds / peer['scaled']:.2f}")
    if args.no_refine:
        return
    for how in ("lengthscale", "lengthscales"):
        began = time.perf_counter()
        model = gm.KernelRidgeCV(ALPHAS, refine=how, **common).fit(X, y)
        seconds = time.perf_counter() - began
        told = model.refinement_
        line(
            f"and refine={how!r}", seconds, seconds, np.sqrt(-model.best_score_), rmse(model, X_test, y_test)
        )
        print(
            f"    {told.evaluations} evaluations on {told.n_rows} rows: RMSE {np.sqrt(told.before):.4f} to "
            f"{np.sqrt(told.after):.4f}; {'kept' if told.kept else 'not kept'}; lengthscale "
            f"{np.round(told.kernel.lengthscale, 2).tolist()}, alpha {model.alpha_:.3g}"
        )


if __name__ == "__main__":
    main()
