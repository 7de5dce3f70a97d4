"""The exact system by every preconditioner: iterations and seconds to a relative residual of 1e-6.

GRAMIAN_DATA=folder python benchmarks/exact.py [--sets pendigits,cadata,...] [--rows 10000]
    [--alphas 1,1e-2,1e-5] [--limit 120] [--large 80000] [--peer] [--objective] [--crossover]

Rows are standardised, targets have mean 0 and variance 1 (classes: the first against the rest). Large, middle
and small bandwidth are gamma = 0.1, 1 and 10 (pendigits: 0.01, 0.1, 1). Columns: none, Nyström (RPCholesky,
rank 500), block Jacobi (1,000 rows), PITC (both), a Cholesky factor, and "auto". A cell is iterations,
seconds; ">" where the time limit ended it. The last column is auto's seconds over the least of the others'.

``--large n``: covtype on n rows, auto only. ``--peer``: beside scikit-learn's dense KernelRidge on 8,000
rows. ``--objective``: exact against the M-point objective of Falkon (subset of regressors) with 1,000 and
3,000 uniform centres, test RMSE and seconds. ``--crossover``: exact, "auto" and Nyström as the rows grow.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.linalg as la
from sklearn.kernel_ridge import KernelRidge
from suite.datasets import load_dataset

import gramian as gm

GAMMAS = {
    "pendigits": (0.01, 0.1, 1.0),
    "cadata": (0.1, 1.0, 10.0),
    "ijcnn1": (0.1, 1.0, 10.0),
    "covtype_100k": (0.1, 1.0, 10.0),
}
COLUMNS = {
    "none": {"solver": "cg", "preconditioner": "none"},
    "nystrom": {"solver": "cg", "preconditioner": "nystrom", "rank": 500},
    "jacobi": {"solver": "cg", "preconditioner": "jacobi", "block": 1000},
    "pitc": {"solver": "cg", "preconditioner": "pitc", "rank": 500, "block": 1000},
    "cholesky": {"solver": "cholesky"},
    "auto": {},
}


def table(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised rows and targets, in a random order."""
    data = load_dataset(name)
    X = np.asarray(data.X, np.float64)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    numbers = data.y.dtype.kind == "f"
    y = data.y.astype(np.float64) if numbers else np.where(data.y == np.unique(data.y)[0], 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(X))[:n_rows]
    y = y[order]
    return X[order], (y - y.mean()) / y.std()


def fitted(
    X: np.ndarray, y: np.ndarray, gamma: float, alpha: float, limit: float, **options: object
) -> tuple:
    """Return the model and its seconds."""
    exact = gm.Exact(time_limit=limit, max_iter=10_000, **options)
    model = gm.KernelRidge(alpha, gamma=gamma, approximation=exact, memory_budget="4GB", random_state=0)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, time.perf_counter() - begin


def steps(model: gm.KernelRidge) -> str:
    return "+".join(
        f"{stage.name}" + (f"({stage.rank},{stage.block})" if stage.rank or stage.block else "")
        for stage in model.stages_
    )


def cells(sets: list[str], n_rows: int, alphas: list[float], limit: float) -> None:
    heads = [f"{name:>14}" for name in COLUMNS]
    print(f"{'set':13}{'n':>7}{'gamma':>7}{'alpha':>8}" + "".join(heads) + f"{'auto/best':>11}  auto")
    for name in sets:
        X, y = table(name, n_rows)
        for gamma in GAMMAS[name]:
            for alpha in alphas:
                line, seconds = "", {}
                for column, options in COLUMNS.items():
                    model, took = fitted(X, y, gamma, alpha, limit, **options)
                    solved = model.solution_.residual <= 1e-6
                    seconds[column] = took if solved else np.inf
                    line += f"{'' if solved else '>'}{model.solution_.iterations}, {took:.1f}".rjust(14)
                best = min(value for column, value in seconds.items() if column != "auto")
                ratio = seconds["auto"] / best
                print(
                    f"{name:13}{len(X):7}{gamma:7g}{alpha:8g}{line}{ratio:11.2f}  {steps(model)}", flush=True
                )


def large(n_rows: int) -> None:
    X, y = table("covtype_100k", n_rows + 10_000)
    train, test = slice(0, n_rows), slice(n_rows, None)
    X = X.astype(np.float32)
    for gamma, alpha in ((0.1, 1.0), (1.0, 0.1), (10.0, 0.1)):
        model, took = fitted(X[train], y[train], gamma, alpha, 3600.0)
        error = float(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)))
        found = model.solution_
        print(
            f"covtype {n_rows} rows, gamma {gamma:g}, alpha {alpha:g}: {took:.0f} s, {found.iterations} "
            f"steps, residual {found.residual:.1e}, test RMSE {error:.4f}, {found.bytes / 1e9:.2f} GB, "
            f"{steps(model)}",
            flush=True,
        )


def peer() -> None:
    X, y = table("cadata", 9000)
    for gamma, alpha in ((0.1, 1e-2), (1.0, 1e-2), (10.0, 1.0)):
        model, took = fitted(X[:8000], y[:8000], gamma, alpha, 3600.0, solver="cg", tol=1e-7)
        begin = time.perf_counter()
        dense = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(X[:8000], y[:8000])
        other = time.perf_counter() - begin
        truth = dense.predict(X[8000:])
        gap = np.linalg.norm(model.predict(X[8000:]) - truth) / np.linalg.norm(truth)
        print(
            f"cadata 8000 rows, gamma {gamma:g}, alpha {alpha:g}: predictions differ by {gap:.1e}, "
            f"{took:.1f} s, scikit-learn {other:.1f} s",
            flush=True,
        )


def subset_of_regressors(
    X: np.ndarray, y: np.ndarray, gamma: float, alpha: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Falkon's objective solved directly: f = k(·, Z) c, min ‖y − K c‖² + alpha cᵀ K_ZZ c."""
    kernel = gm.Gaussian((2.0 * gamma) ** -0.5)
    Z = X[np.random.default_rng(0).choice(len(X), count, replace=False)]
    left, right = alpha * kernel(Z), np.zeros(count)
    for start in range(0, len(X), 10_000):
        block = kernel(X[start : start + 10_000], Z)
        left += block.T @ block
        right += block.T @ y[start : start + 10_000]
    left.flat[:: count + 1] += 1e-10 * np.trace(left) / count
    return Z, la.solve(left, right, assume_a="pos")


def objective() -> None:
    for name, n_rows, gamma, alpha in (
        ("pendigits", 9000, 1.0, 1e-2),
        ("cadata", 18_000, 1.0, 1e-1),
        ("ijcnn1", 30_000, 10.0, 1e-2),
        ("covtype_100k", 30_000, 10.0, 1.0),
    ):
        X, y = table(name, n_rows + 5000)
        n = len(X) * n_rows // (n_rows + 5000)
        model, took = fitted(X[:n], y[:n], gamma, alpha, 3600.0)
        line = f"{np.sqrt(np.mean((model.predict(X[n:]) - y[n:]) ** 2)):.4f} ({took:.1f} s)"
        for count in (1000, 3000):
            begin = time.perf_counter()
            Z, c = subset_of_regressors(X[:n], y[:n], gamma, alpha, count)
            took = time.perf_counter() - begin
            predicted = gm.Gaussian((2.0 * gamma) ** -0.5).matvec(X[n:], Z, c)
            line += f"   M={count} {np.sqrt(np.mean((predicted - y[n:]) ** 2)):.4f} ({took:.1f} s)"
        print(f"{name} {n} rows, gamma {gamma:g}, alpha {alpha:g}: exact {line}", flush=True)


def crossover() -> None:
    """Exact and approximate at the same gamma and alpha, as the rows grow: test RMSE and seconds."""
    lone = gm.MultiResolution(root_rank=1000, n_levels=1)
    for name, gamma, alpha in (("cadata", 1.0, 0.1), ("covtype_100k", 3.0, 0.1)):
        X, y = table(name, 50_000)
        X = X.astype(np.float32)
        test = slice(len(X) - len(X) // 10, None)
        for n in (2500, 5000, 10_000, 20_000, 40_000):
            if n > test.start:
                break
            line = ""
            for how in ("exact", "auto", lone):
                options = {"gamma": gamma, "memory_budget": "2GB", "random_state": 0}
                model = gm.KernelRidge(alpha, approximation=how, **options)
                begin = time.perf_counter()
                model.fit(X[:n], y[:n])
                took = time.perf_counter() - begin
                begin = time.perf_counter()
                error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
                answer = 1e6 * (time.perf_counter() - begin) / (len(X) - test.start)
                called = how if isinstance(how, str) else "Nyström(1000)"
                line += f"   {called} {error:.4f} {took:.2f} s {answer:.0f} us"
            print(f"{name} {n} rows, gamma {gamma:g}, alpha {alpha:g}:{line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(GAMMAS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--alphas", default="1,1e-2,1e-5")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--objective", action="store_true")
    parser.add_argument("--crossover", action="store_true")
    args = parser.parse_args()
    if args.large:
        large(args.large)
    if args.peer:
        peer()
    if args.objective:
        objective()
    if args.crossover:
        crossover()
    if not (args.large or args.peer or args.objective or args.crossover):
        cells(args.sets.split(","), args.rows, [float(a) for a in args.alphas.split(",")], args.limit)


if __name__ == "__main__":
    main()
