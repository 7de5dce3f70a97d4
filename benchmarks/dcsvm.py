"""The exact SVM by divide and conquer beside scikit-learn's SVC: same model, and whose time.

GRAMIAN_DATA=folder python benchmarks/dcsvm.py [--data letter usps covtype_100k] [--rows 90000] [--tol 1e-3]

letter (26 classes, the canonical split), usps (ten classes), covtype_100k (class 2 against the rest, 90/10,
features in [0, 1]). Both solvers to the same tolerance, in turn, SVC with its kernel cache as it comes; SVC
has one thread, ours --threads, and the processor's seconds of both are given beside those of the clock.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.svm import SVC
from suite.datasets import load_dataset

from gramian._typing import Array
from gramian.svm.dcsvc import DCSVC

PARAMETERS = {
    "letter": {"gamma": 10.0, "C": 10.0},
    "usps": {"gamma": 0.01, "C": 10.0},
    "covtype_100k": {"gamma": 32.0, "C": 32.0},
}


def table(name: str, n_rows: int | None) -> tuple[Array, Array, Array, Array]:
    """Return training rows and labels, then those of the test."""
    data = load_dataset(name)
    X, y = np.asarray(data.X, np.float64), data.y
    order, n = np.arange(len(X)), data.n_train
    if name != "usps":
        X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12)
    if name == "covtype_100k":
        y, order, n = (y == 2).astype(int), np.random.default_rng(0).permutation(len(X)), 9 * len(X) // 10
    train, test = order[:n][:n_rows], order[n:]
    return X[train], y[train], X[test], y[test]


def fitted(model: Any, X: Array, y: Array) -> tuple[float, float]:
    """Fit, and return the seconds of the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(PARAMETERS), choices=list(PARAMETERS))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--cache", type=float, default=200.0, help="SVC's kernel cache, MB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without-svc", action="store_true")
    args = parser.parse_args()
    print(f"{'set':14} {'model':22} {'clock s':>9} {'processor s':>12} {'error':>8} {'vectors':>8}")
    for name in args.data:
        X, y, X_test, y_test = table(name, args.rows)
        shape = {"decision_function_shape": "ovo", "tol": args.tol, **PARAMETERS[name]}
        ours_only = {"memory_budget": args.memory, "n_jobs": args.threads, "random_state": 0}
        models = {
            "DCSVC": DCSVC(**shape, **ours_only),
            "DCSVC, early": DCSVC(**shape, **ours_only, early=True),
        }
        if not args.without_svc:
            models["SVC"] = SVC(**shape, cache_size=args.cache)
        for label, model in models.items():
            clock, processor = fitted(model, X, y)
            error = 1.0 - model.score(X_test, y_test)
            print(
                f"{name:14} {label:22} {clock:9.1f} {processor:12.1f} {error:8.4f} {len(model.support_):8d}",
                flush=True,
            )
        if not args.without_svc:
            ours, theirs = models["DCSVC"], models["SVC"]
            gap = np.abs(ours.decision_function(X_test) - theirs.decision_function(X_test)).max()
            apart = np.setxor1d(ours.support_, theirs.support_)
            print(
                f"{name:14} decision values differ by {gap:.1e} at most, {len(apart)} support vectors are in "
                f"one only; violation {ours.violation_.max():.1e}, {ours.kernel_entries_:.2e} kernel values"
            )


if __name__ == "__main__":
    main()
