"""Work of one process: search a method's settings on a set, or fit one of its sizes and measure."""

from __future__ import annotations

import statistics
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from comparison import measure, search
from comparison.contenders import ProblemFacts

from suite.methods import METHODS, load_library
from suite.sets import load

#: A fit that takes longer is not repeated.
LONG_SECONDS = 3.0


@dataclass(frozen=True)
class Job:
    """One search (``settings`` is None) or one size of a method."""

    set: str
    method: str
    size: Any = None
    settings: dict[str, Any] | None = None
    seconds: float = 0.0
    runs: int = 1

    def run(self) -> dict[str, Any]:
        """Return what the JSON line says about it."""
        # Warnings of peers (convergence, conditioning) are their users' to see; the error tells here.
        warnings.simplefilter("ignore")
        load_library(self.method)
        contender, problem = METHODS[self.method], load(self.set)
        if self.settings is None:
            found = search(contender, problem.X, problem.y, problem.task, seconds=self.seconds)
            return asdict(found)
        measured = []
        for seed in range(self.runs):
            shape = ProblemFacts.of(problem.task, problem.X, seed)
            model = contender.make(self.settings, shape, self.size)
            one = measure(model, problem.X, problem.y, problem.X_test, problem.y_test, problem.task)
            measured.append(one)
            if one.fit_seconds > LONG_SECONDS:
                break
        return {
            "task": problem.task,
            "n_train": len(problem.X),
            "n_test": len(problem.X_test),
            "n_features": problem.X.shape[1],
            "runs": len(measured),
            "error": statistics.median(one.error for one in measured),
            "errors": [one.error for one in measured],
            "fit_seconds": statistics.median(one.fit_seconds for one in measured),
            "predict_seconds": statistics.median(one.predict_seconds for one in measured),
            # Of the first: what a fit leaves behind makes the growth of the next look small.
            "peak_bytes": measured[0].peak_bytes,
            "model_bytes": int(np.median([one.model_bytes for one in measured])),
        }
