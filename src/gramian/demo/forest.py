"""The forest of the demo: a slow model of digits, made fast."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from gramian._typing import Array, IntArray
from gramian.data.datasets import make_digits
from gramian.fast.cost import seconds_per_row
from gramian.tables.compress import compress

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


TREES, ROWS, TEST_ROWS = 300, 4_000, 2_000
#: Fraction of scikit-learn's 1,797 images from which only held-out digits are made.
HELD_OUT = 0.2
#: Sizes of the fast copy. Given, so that no clock decides how good it is; the best of six tried by hand.
SIZES = {"n_levels": 0, "n_units": 96, "n_directions": 24}


@dataclass(frozen=True)
class Speed:
    """A model's accuracy on held-out digits, its time for a row on one thread, and that of its training."""

    model: str
    accuracy: float
    nanoseconds: float
    made_seconds: float

    @property
    def line(self) -> str:
        """The report as a line of text."""
        return (
            f"{self.model:34}  accuracy {self.accuracy:.4f}  {self.nanoseconds:10,.0f} ns a row  "
            f"made in {self.made_seconds:.1f} s"
        )


def make_rows(out: Path) -> tuple[tuple[Array, IntArray], tuple[Array, IntArray]]:
    """Return training and held-out digits with their labels; no original image is on both sides."""
    images = len(load_digits().target)
    shuffled = np.random.default_rng(0).permutation(images)
    cut = round(HELD_OUT * images)
    parts = []
    for seed, (count, originals) in enumerate(((ROWS, shuffled[cut:]), (TEST_ROWS, shuffled[:cut]))):
        made = make_digits(out / "digits.npy", count, originals=np.sort(originals), random_state=seed)
        parts.append((np.array(made.X, np.float32), made.y))
    (out / "digits.npy").unlink()
    return parts[0], parts[1]


def made_fast(out: Path) -> list[Speed]:
    """Train a forest on some digits, compress it, and return what both achieve."""
    (rows, labels), test = make_rows(out)
    began = time.perf_counter()
    forest = RandomForestClassifier(TREES, random_state=0).fit(rows, labels)
    trained = time.perf_counter()
    fast = compress(forest, rows, labels, **SIZES, random_state=0)
    done = time.perf_counter()
    return [
        _speed(f"forest of {TREES} trees", forest, trained - began, *test),
        _speed(f"gm.compress(forest, n_units={SIZES['n_units']}, …)", fast, done - trained, *test),
    ]


def _speed(label: str, model: BaseEstimator, seconds: float, rows: Array, labels: IntArray) -> Speed:
    accuracy = float(np.mean(model.predict(rows) == labels))
    return Speed(label, accuracy, 1e9 * seconds_per_row(model.predict, rows), seconds)
