"""Fast models of the library's own teacher on every set: seconds, and error beside the teacher's.

GRAMIAN_DATA=folder python benchmarks/fast_all_sets.py [--sets letter cadata ...] [--cost 30x]

The teacher is the one that ``FastKernelClassifier`` and ``FastKernelRegressor`` train where none is given
("fit": its seconds); "made" are the seconds of ``gm.compress(teacher, X, y, cost="30x")``. "error" is the
share of wrong classes on the rows held out, for numbers the RMSE over the targets' deviation, of teacher and
fast model, and "by" how much the second is above the first in percent, with its standard error over the rows.
"x asked" is the measured cost over the budget. One run of each set.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from comparison import CLASSIFICATION
from suite.sets import load, names

import gramian as gm
from gramian.exceptions import AccuracyWarning
from gramian.fast.default_teacher import default_teacher


def losses(y: np.ndarray, found: np.ndarray, *, classes: bool) -> np.ndarray:
    """Return each row's loss: 0 or 1, or the squared error over the targets' variance."""
    return (y != found).astype(float) if classes else np.square(y - found) / y.var()


def above(teacher: np.ndarray, fast: np.ndarray, *, classes: bool) -> tuple[float, float, float, float]:
    """Return both errors, and by how many percent the second is above the first, with its standard error."""
    power = 1.0 if classes else 0.5
    first, second = teacher.mean(), fast.mean()
    errors = first**power, second**power
    if not first:
        return *errors, np.nan, np.nan
    # The ratio's deviation by the rows' own, to first order.
    spread = np.std(fast / first - teacher * second / first**2) / np.sqrt(len(fast))
    ratio = second / first
    return *errors, 100.0 * (ratio**power - 1.0), 100.0 * power * ratio ** (power - 1.0) * spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--cost", default="30x")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", AccuracyWarning)  # the table shows what the warning says
    columns = ("fit", "made", "teacher", "fast", "by %", "+-", "x asked")
    print(f"{'set':16}{'rows':>8}" + "".join(f"{name:>9}" for name in columns))
    for name in asked.sets or names():
        set_ = load(name)
        classes = set_.task == CLASSIFICATION
        X, y, Xt = (
            np.asarray(a, np.float64) if a.dtype.kind == "f" else a for a in (set_.X, set_.y, set_.X_test)
        )
        began = time.perf_counter()
        kind = gm.KernelRidgeClassifier if classes else gm.KernelRidge
        teacher = default_teacher(kind, X, y, np.ones(len(X)), 0)
        fitted = time.perf_counter()
        fast = gm.compress(teacher, X, y, cost=asked.cost, random_state=0)
        made = time.perf_counter()
        each = [losses(set_.y_test, model.predict(Xt), classes=classes) for model in (teacher, fast)]
        numbers = above(*each, classes=classes)
        ratio = fast.cost_.ratio / float(asked.cost.removesuffix("x"))
        print(
            f"{name:16}{len(X):8,}{fitted - began:9.1f}{made - fitted:9.1f}{numbers[0]:9.4f}{numbers[1]:9.4f}"
            f"{numbers[2]:9.1f}{numbers[3]:9.1f}{ratio:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
