"""Work of one process for the tables: fit a method on one split of a set and measure."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from comparison.measuring import model_bytes
from comparison.peak_memory import PeakMemory
from sklearn.metrics import log_loss, roc_auc_score

from suite.table_methods import TABLE_METHODS, Terms
from suite.table_sets import BINARY, MULTICLASS, Split, split_of

#: Characters of what a model says of its choices, and seconds of predictions after which none is timed again.
LONGEST, PREDICTING = 400, 0.5


@dataclass(frozen=True)
class TableJob:
    """One method on one split of at most ``most_rows`` rows, on its first ``train_rows`` rows."""

    set: str
    method: str
    split: int
    threads: int
    most_rows: int | None = None
    train_rows: int | None = None

    def run(self) -> dict[str, Any]:
        """Return what the JSON line says about it."""
        # Warnings of methods (convergence, conditioning) are their users' to see; the error tells here.
        warnings.simplefilter("ignore")
        method, split = TABLE_METHODS[self.method], split_of(self.set, self.split, self.most_rows)
        for needed in method.needs:
            __import__(needed)  # so that its fit is not charged for the import
        X, y = split.X[: self.train_rows], split.y[: self.train_rows]
        model = method.build(Terms(split.task, self.split, self.threads))
        with PeakMemory() as peak:
            began = time.perf_counter()
            model.fit(X, y)
            fit_seconds = time.perf_counter() - began
        found = scores(split, model)
        spent: list[float] = []
        while sum(spent) < PREDICTING:
            began = time.perf_counter()
            model.predict(split.X_test)
            spent.append(time.perf_counter() - began)
        return {
            "task": split.measured_by,
            "kind": split.kind,
            "n_rows": split.n_rows,
            "n_train": len(X),
            "n_test": len(split.X_test),
            "n_features": X.shape[1],
            "classes_left_out": split.classes_left_out,
            "rows_left_out": split.rows_left_out,
            **found,
            "fit_seconds": fit_seconds,
            "predict_seconds": float(np.median(spent)),
            "peak_bytes": peak.growth,
            "model_bytes": model_bytes(model),
            "chosen": _chosen(model),
        }


def scores(split: Split, model: Any) -> dict[str, float]:
    """Return ``error``, what the field judges a task by, and of classes log-loss and share of wrong ones.

    error : RMSE over the standard deviation of the test targets, 1 − AUC for two classes, log-loss for more.
    """
    y = split.y_test
    if split.measured_by not in (BINARY, MULTICLASS):
        left = np.asarray(model.predict(split.X_test), np.float64).ravel() - y
        return {"error": float(np.sqrt(np.mean(left**2)) / y.std())}
    chances = np.asarray(model.predict_proba(split.X_test), np.float64)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = float(log_loss(y, chances, labels=np.arange(chances.shape[1])))
    wrong = float(np.mean(chances.argmax(axis=1) != y))
    error = 1.0 - float(roc_auc_score(y, chances[:, 1])) if split.measured_by == BINARY else loss
    return {"error": error, "log_loss": loss, "wrong": wrong}


def _chosen(model: Any) -> str | None:
    """Return the settings of a model that chose them, for who looks into a line; None of the others."""
    if hasattr(model, "found_"):
        return str(model.found_)
    if hasattr(model, "search_"):
        return " ".join(repr(model.search_).split())[:LONGEST]
    return None
