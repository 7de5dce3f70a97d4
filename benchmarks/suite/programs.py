"""Programs that train on a thousand rows or more of a stored set, and return an error on 500 others."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@cache
def numbers(name: str, learn: int) -> tuple[np.ndarray, ...]:
    """Return rows and targets to learn from, and 500 to judge with, of a set of numbers."""
    with np.load(Path(os.environ["GRAMIAN_DATA"]) / f"{name}.npz", allow_pickle=False) as file:
        X, y = np.asarray(file["X"], np.float64), np.asarray(file["y"])
    chosen = np.random.default_rng(0).permutation(len(X))[: learn + 500]
    X = (X[chosen] - X[chosen].mean(axis=0)) / np.maximum(X[chosen].std(axis=0), 1e-12)
    y = y[chosen]
    if y.dtype.kind == "f" and len(np.unique(y)) > 50:
        y = (y - y.mean()) / y.std()
    return X[:learn], y[:learn], X[learn:], y[learn:]


def missed(model: Any, learn: int = 1500, name: str = "letter") -> float:
    """Return the share of rows of other classes, or the RMSE, of a model that is fitted here."""
    X, y, new, target = numbers(name, learn)
    found = model.fit(X, y).predict(new)
    return (
        float(np.mean(found != target))
        if name == "letter"
        else float(np.sqrt(np.mean((found - target) ** 2)))
    )


def two_sides(model: Any, learn: int = 1500) -> float:
    """Return the mean hinge loss between rows above and below the median target."""
    X, y, new, target = numbers("cadata", learn)
    found = model.fit(X, np.where(y > 0, 1, -1)).decision_function(new)
    return float(np.maximum(0, 1 - np.where(target > 0, 1, -1) * found).mean())


def table(name: str, effort: str, rows: int = 1500) -> float:
    """Return log-loss or RMSE of a model for tables."""
    from sklearn.metrics import log_loss

    import gramian as gm
    from suite.table_sets import split_of

    split = split_of(name, 0, rows)
    if split.task == "regression":
        model = gm.TabularRegressor(effort=effort, random_state=0, n_jobs=1).fit(split.X, split.y)
        return float(
            np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)) / np.std(split.y_test)
        )
    classifier = gm.TabularClassifier(effort=effort, random_state=0, n_jobs=1).fit(split.X, split.y)
    return float(log_loss(split.y_test, classifier.predict_proba(split.X_test), labels=classifier.classes_))


def density(**options: Any) -> float:
    """Return e to the mean negative log density of a process."""
    import gramian as gm

    X, y, new, target = numbers("cadata", 1200)
    model = gm.GaussianProcessRegressor(random_state=0, n_jobs=1, **options).fit(X, y)
    mean, std = model.predict(new, return_std=True, include_noise=True)
    return float(np.exp(np.mean(np.log(std) + 0.5 * ((target - mean) / std) ** 2)))


def streamed() -> float:
    """Return the RMSE of a model that took its rows in six parts, and forgot."""
    import gramian as gm

    X, y, new, target = numbers("cadata", 3000)
    model = gm.KernelRidge(alpha=0.1, gamma=0.1, random_state=0, n_jobs=1)
    for part in np.array_split(np.arange(len(X)), 6):
        model.partial_fit(X[part], y[part])
        model.forget(0.9)
    return float(np.sqrt(np.mean((model.predict(new) - target) ** 2)))


def compressed(cost: str) -> float:
    """Return the error of a fast model of a random forest."""
    from sklearn.ensemble import RandomForestRegressor

    import gramian as gm

    X, y, new, target = numbers("cadata", 1500)
    forest = RandomForestRegressor(50, random_state=0, n_jobs=1).fit(X, y)
    fast = gm.compress(forest, X, y, cost=cost, random_state=0, n_jobs=1)
    return float(np.sqrt(np.mean((fast.predict(new) - target) ** 2)))


def spectrum() -> float:
    """Return the relative error of log det(K + I) and of ten eigenvalues, summed."""
    import gramian as gm
    from gramian.operators import KernelOperator
    from gramian.spectra import log_determinant, top_eigenpairs

    X = numbers("cadata", 1500)[0]
    kernel = gm.Gaussian(2.2)
    true = np.linalg.eigvalsh(kernel(X))[::-1]
    operator = KernelOperator(kernel, X)
    values = top_eigenpairs(operator, 10, random_state=0).values
    found = float(log_determinant(operator, 1.0, method="stochastic", random_state=0))
    return float(abs(found / np.log1p(true).sum() - 1) + np.abs(values / true[:10] - 1).sum())


def programs() -> dict[str, Callable[[], float]]:
    """Return the programs by name."""
    import gramian as gm

    def ridge(approximation: Any = "auto", learn: int = 1500, **options: Any) -> Callable[[], float]:
        settings = {"alpha": 0.1, "gamma": 0.1, "random_state": 0, "n_jobs": 1} | options
        return lambda: missed(gm.KernelRidge(approximation=approximation, **settings), learn, "cadata")

    same = {"gamma": 0.1, "random_state": 0, "n_jobs": 1}
    found: dict[str, Callable[[], float]] = {
        f"ridge, {maps.__name__}": ridge(maps())
        for maps in (gm.MEKA, gm.BlockBasis, gm.KALS, gm.Nystrom, gm.RandomFourier, gm.Fastfood)
    }
    found |= {
        f"ridge, {maps.__name__}": ridge(maps())
        for maps in (gm.EnsembleNystrom, gm.TruncatedEigen, gm.BlockDiagonal)
    }
    found |= {
        "ridge, exact": ridge("exact"),
        "ridge, exact, iterated": ridge("exact", 3000, memory_budget="30MB"),
        "ridge, 20 MB": ridge("auto", 3000, memory_budget="20MB"),
        "ridge, multi-resolution": ridge(gm.MultiResolution(), 3000),
        "ridge, leverage scores": ridge(gm.Nystrom(landmarks="leverage")),
        "ridge, tensor sketch": ridge(gm.TensorSketch(), kernel=gm.Polynomial(2), gamma=None),
        "ridge, Maclaurin": ridge(gm.RandomMaclaurin(), kernel=gm.Polynomial(2), gamma=None),
        "ridge, learned metric": ridge(metric="diagonal"),
        "ridge, chosen": ridge(gamma="auto", alpha="auto"),
        "ridge, classes": lambda: missed(gm.KernelRidgeClassifier(alpha=0.1, **same)),
        "ridge, cross-validated": lambda: missed(gm.KernelRidgeCV(random_state=0, n_jobs=1), 1000, "cadata"),
        "ridge, stream": streamed,
        "SVC": lambda: missed(gm.KernelSVC(**same)),
        "SVC, hinge": lambda: two_sides(gm.KernelSVC(loss="hinge", **same)),
        "SVC, exact hinge": lambda: two_sides(gm.KernelSVC(loss="hinge", approximation="exact", **same)),
        "SVC, chosen": lambda: two_sides(gm.KernelSVC(gamma="auto", C="auto", random_state=0, n_jobs=1), 800),
        "SVC, probabilities": lambda: two_sides(gm.KernelSVC(probability=True, **same), 800),
        "SVR": lambda: missed(gm.KernelSVR(**same), 1500, "cadata"),
        "SVR, exact": lambda: missed(gm.KernelSVR(approximation="exact", **same), 1500, "cadata"),
        "divided SVC": lambda: two_sides(gm.DCSVC(gamma=0.1, random_state=0, n_jobs=1), 2000),
        "divided SVC, early": lambda: two_sides(
            gm.DCSVC(gamma=0.1, early=True, random_state=0, n_jobs=1), 2000
        ),
        "logistic": lambda: missed(gm.KernelLogisticRegression(**same), 1000),
        "process": density,
        "process, neighbours": lambda: density(approximation="neighbours"),
        "process, blocks": lambda: density(approximation="multiresolution"),
        "table of numbers": lambda: table("cadata", "default"),
        "table, two classes": lambda: table("adult", "default"),
        "table, prices": lambda: table("used_cars_us", "default"),
        "table, quick": lambda: table("adult", "fast"),
        "compressed forest, 40x": lambda: compressed("40x"),
        "compressed forest, 1us": lambda: compressed("1us"),
        "fast classes": lambda: missed(gm.FastKernelClassifier(random_state=0, n_jobs=1), 1000),
        "DC-Pred++": lambda: missed(gm.DCPredRegressor(random_state=0), 1500, "cadata"),
        "DC-Pred++, classes": lambda: missed(gm.DCPredClassifier(random_state=0), 1000),
        "spectrum": spectrum,
    }
    return found
