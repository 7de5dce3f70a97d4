"""The forest of the demo: a slow model of the digits, made fast."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from gramian._typing import Array
from gramian.demo.digits import Digits
from gramian.fast.cost import seconds_per_row
from gramian.tables.compress import compress

TREES, ROWS, TEST_ROWS = 300, 5_000, 2_000
COST, SECONDS = "2us", 10.0


def made_fast(out: Path) -> list[str]:
    """Train a forest on some digits, compress it, and return a line about each."""
    data = Digits.read(out).first(ROWS)
    rows, test = np.asarray(data.X, np.float32), np.asarray(data.X_test[:TEST_ROWS], np.float32)
    labels = data.y_test[:TEST_ROWS]
    began = time.perf_counter()
    forest = RandomForestClassifier(TREES, random_state=0).fit(rows, data.y)
    trained = time.perf_counter()
    fast = compress(forest, rows, data.y, cost=COST, time_limit=SECONDS, random_state=0)
    done = time.perf_counter()
    return [
        _line(f"forest of {TREES} trees", forest, trained - began, test, labels),
        _line(f"gm.compress(forest, cost={COST!r})", fast, done - trained, test, labels),
    ]


def _line(label: str, model: Any, seconds: float, rows: Array, labels: Array) -> str:
    accuracy = float(np.mean(model.predict(rows) == labels))
    microseconds = 1e6 * seconds_per_row(model.predict, rows)
    return f"{label:32}  accuracy {accuracy:.4f}  {microseconds:8.2f} µs a row  made in {seconds:.1f} s"
