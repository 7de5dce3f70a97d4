"""Kernel models alone, boosting alone, and both: the parts of the default for tables, set by set.

GRAMIAN_DATA=folder python benchmarks/parts.py [--sets a,b] [--rows 2000]

The sets, the split and the errors are those of ``tables.py``, with fewer rows. A fit with defaults gives two
columns: the whole model, and the trees in it asked alone (also where the model leaves them out). A fit with
``include=()`` gives the kernel models, and ``HistGradientBoosting*`` has its own defaults. Lines go to
results/parts.jsonl, and a run goes on where it stopped; ``doors.py`` shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

RESULTS = Path(__file__).parent / "results" / "parts.jsonl"


class Parts:
    """The default model of a table, and its trees as a model of their own."""

    def __init__(self, model: Any) -> None:
        self.model, self.trees = model, None

    def fit(self, X: Any, y: Any) -> Parts:
        """Fit the default, and keep the trees whether it takes them or not."""
        from gramian.tables.training import fit

        with_boosting = fit.with_boosting

        def kept(*given: Any) -> Any:
            found = with_boosting(*given)
            self.trees = None if found is None else found[0]
            return found

        with patch.object(fit, "with_boosting", kept):
            self.model.fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Return what the trees alone predict: numbers, back through the map of the target."""
        return self.model.target_.backward(self.trees.predict(self.model.transform_rows(X)))

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the trees alone."""
        from gramian.estimator.answers import probabilities

        return probabilities(self.trees.predict(self.model.transform_rows(X)))


def measured(name: str, rows: int) -> dict[str, Any]:
    """Return the errors of the parts on a set."""
    from suite.table_job import scores
    from suite.table_methods import KERNELS, OURS, TABLE_METHODS, Terms
    from suite.table_sets import split_of

    split = split_of(name, 0, rows)
    terms, began = Terms(split.task, 0, 1), time.perf_counter()
    whole = Parts(TABLE_METHODS[OURS].build(terms)).fit(split.X, split.y)
    seconds = time.perf_counter() - began
    kernels, peer = (TABLE_METHODS[each].build(terms).fit(split.X, split.y) for each in (KERNELS, "histgb"))
    told = whole.model.contributions_
    return {
        "set": name,
        "task": split.measured_by,
        "rows": len(split.y) + len(split.y_test),
        "most_rows": rows,
        "kernels": scores(split, kernels),
        "boosting": scores(split, whole),
        "both": scores(split, whole.model),
        "histgb": scores(split, peer),
        "kept": told.kept,
        "boosting_alone": told.boosting_alone,
        "seconds": seconds,
    }


def main() -> None:
    """Measure the sets that are not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument("--rows", type=int, default=2000, help="of a set at most (default 2000)")
    options = parser.parse_args()
    # Before NumPy is imported, which is when libraries read them.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    from suite.machine import describe
    from suite.results import append
    from suite.table_sets import table_names

    warnings.simplefilter("ignore")  # of methods, as in tables.py
    texts = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    done = {json.loads(text)["set"] for text in texts}
    machine = describe(1)
    for name in options.sets.split(",") if options.sets else table_names():
        if name in done:
            continue
        line = measured(name, options.rows) | {"machine": machine}
        append(RESULTS, line)
        errors = "  ".join(f"{part} {line[part]['error']:.4f}" for part in ("kernels", "boosting", "both"))
        print(f"{name:18} {errors}  {line['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
