"""Many classes by Newton's method: starts from halves of the rows against starts from f = 0, and libsvm.

GRAMIAN_DATA=folder python benchmarks/newton_classes.py [--rows 12000] [--losses squared_hinge,hinge,logistic]

letter (26 classes), z-scaled, gamma = 1/16, C = 10, one thread. Each loss is fitted with and without the
nested samples, in turn, in this process; "x" is the time from f = 0 over the time from halves, "differ" the
largest difference of their decision values on 4,000 test rows, "svc" scikit-learn's one-against-one ``SVC``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.svm import SVC
from suite.datasets import load_dataset

import gramian as gm
from gramian.svm import newton_training

GAMMA, C, TEST = 1 / 16, 10.0, 4_000


def model(loss: str) -> Any:
    if loss == "logistic":
        return gm.KernelLogisticRegression(C, gamma=GAMMA, random_state=0, n_jobs=1)
    return gm.KernelSVC(C, gamma=GAMMA, loss=loss, random_state=0, n_jobs=1)


def fitted(estimator: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    start = time.perf_counter()
    estimator.fit(X, y)
    return estimator, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--losses", default="squared_hinge,hinge")
    args = parser.parse_args()
    data = load_dataset("letter")
    X = np.asarray(data.X, np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[TEST : TEST + args.rows], order[:TEST]
    peer, peer_seconds = fitted(SVC(C=C, gamma=GAMMA), X[train], data.y[train])
    print(f"svc: {peer_seconds:.1f} s, accuracy {peer.score(X[test], data.y[test]):.4f}")
    print("{:14} {:>8} {:>8} {:>6} {:>8} {:>9} {:>8}".format(*HEAD))
    for loss in args.losses.split(","):
        ours, seconds = fitted(model(loss), X[train], data.y[train])
        with patch.object(newton_training, "sample_sizes", lambda *sizes: []):
            whole, whole_seconds = fitted(model(loss), X[train], data.y[train])
        values = ours.decision_function(X[test])
        differ = np.abs(values - whole.decision_function(X[test])).max()
        accuracy = ours.score(X[test], data.y[test])
        row = (loss, whole_seconds, seconds, whole_seconds / seconds, accuracy, differ)
        print("{:14} {:8.1f} {:8.1f} {:6.1f} {:8.4f} {:9.2g} {:8.1f}".format(*row, seconds / peer_seconds))


HEAD = ("loss", "from 0 s", "halves s", "x", "accuracy", "differ", "/ svc")

if __name__ == "__main__":
    main()
