"""Work of one process for the tables: fit a method on one split of a set and measure."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from gramian.comparison import measure
from gramian.comparison.contenders import Shape
from suite.peers import require
from suite.table_methods import TABLE_METHODS, Terms
from suite.table_sets import split_of

#: Characters of what a model says of its choices.
LONGEST = 400


@dataclass(frozen=True)
class TableJob:
    """One method on one split; ``seconds`` are those of a search."""

    set: str
    method: str
    split: int
    threads: int
    seconds: float | None = None

    def run(self) -> dict[str, Any]:
        """Return what the JSON line says about it."""
        # Warnings of methods (convergence, conditioning) are their users' to see; the error tells here.
        warnings.simplefilter("ignore")
        method, split = TABLE_METHODS[self.method], split_of(self.set, self.split)
        if method.needs is not None:
            require(method.needs)  # so that its fit is not charged for the import
        problem = split.problem
        shape = Shape.of(problem.task, problem.X, self.split)
        model = method.build(shape, Terms(self.threads, self.seconds))
        one = measure(model, problem.X, problem.y, problem.X_test, problem.y_test, problem.task)
        return {
            "task": problem.task,
            "n_train": len(problem.X),
            "n_test": len(problem.X_test),
            "n_features": problem.X.shape[1],
            "classes_left_out": split.classes_left_out,
            "rows_left_out": split.rows_left_out,
            "error": one.error,
            "fit_seconds": one.fit_seconds,
            "predict_seconds": one.predict_seconds,
            "peak_bytes": one.peak_bytes,
            "model_bytes": one.model_bytes,
            "chosen": _chosen(model),
        }


def _chosen(model: Any) -> str | None:
    """Return the settings of a model that chose them, for who looks into a line; None of the others."""
    if hasattr(model, "found_"):
        return str(model.found_.settings)
    if hasattr(model, "model_"):
        return " ".join(repr(model.model_).split())[:LONGEST]
    return None
