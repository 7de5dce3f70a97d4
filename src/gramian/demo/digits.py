"""The digits of the demo: rows by the hundred thousand, three models, a picture of the Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gramian._budget import format_bytes
from gramian._typing import Array, IntArray
from gramian.approximations.meka import MEKA
from gramian.data.datasets import make_digits
from gramian.demo.results import Result, measured
from gramian.plotting import GramDisplay
from gramian.ridge.ridge import KernelRidgeClassifier

#: gamma of the kernels exp(-‖x − y‖²/(2ℓ²)); digits with pixels 0..255 are about 600 apart. For each model
#: the best of four lengthscales (150, 200, 300, 450) and of alpha (0.01, 0.1, 1) or C (1, 10) was chosen on a
#: fifth of the training originals, without the held-out digits.
GAMMA, SVC_GAMMA = 1.0 / (2.0 * 300.0**2), 1.0 / (2.0 * 200.0**2)
ALPHA = 0.1
HELD_OUT = 0.2  #: held-out fraction of the originals, and of the rows
NYSTROEM_RANK = 1000
SVC_ROWS = 10_000
PICTURE_ROWS = 4000


def make_rows(out: Path, rows: int) -> tuple[int, int, int]:
    """Write training and held-out rows and labels; return their numbers and the bytes on disk."""
    n_images = len(load_digits().target)
    shuffled = np.random.default_rng(0).permutation(n_images)
    n_held_out = round(HELD_OUT * n_images)
    n_test = round(HELD_OUT * rows)
    parts: tuple[tuple[str, IntArray, int], ...] = (
        ("train", shuffled[n_held_out:], rows - n_test),
        ("test", shuffled[:n_held_out], n_test),
    )
    size = 0
    for seed, (part, originals, count) in enumerate(parts):
        digits = make_digits(out / f"{part}.npy", count, originals=np.sort(originals), random_state=seed)
        np.save(out / f"{part}_labels.npy", digits.y)
        size += digits.X.nbytes
    return rows - n_test, n_test, size


def draw(out: Path) -> tuple[Path, str]:
    """Compress the Gram matrix of some training rows and save its picture; return its path and a summary."""
    X = np.load(out / "train.npy", mmap_mode="r")[:PICTURE_ROWS]
    meka = MEKA(gamma=GAMMA, rank=100, n_blocks=10, random_state=0).fit(X)
    display = GramDisplay.from_estimator(meka, X, n_rows=600, random_state=0)
    where = out / "gram.png"
    display.figure_.savefig(where, dpi=150)
    n = len(X)
    dense, held = format_bytes(8 * n * n), format_bytes(meka.nbytes_)
    return (
        where,
        f"MEKA holds {n:,}² entries ({dense}) in {held}, relative error {display.relative_error:.2g}",
    )


@dataclass(frozen=True)
class Digits:
    """The data given to every model: pixels on disk, labels in memory."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @staticmethod
    def read(out: Path) -> Digits:
        pixels = [np.load(out / f"{part}.npy", mmap_mode="r") for part in ("train", "test")]
        labels = [np.load(out / f"{part}_labels.npy") for part in ("train", "test")]
        return Digits(pixels[0], labels[0], pixels[1], labels[1])

    def first(self, count: int) -> Digits:
        """Return the data with the first ``count`` training rows only; rows are in random order."""
        return Digits(self.X[:count], self.y[:count], self.X_test, self.y_test)


def _gramian(memory: str, data: Digits) -> Result:
    model = KernelRidgeClassifier(
        alpha=ALPHA, gamma=GAMMA, approximation="auto", memory_budget=memory, random_state=0
    )
    result = measured("gramian KernelRidgeClassifier", model, data, _accuracy)
    plan = model.plan_
    note = f"{plan.method}: root rank {plan.root_rank}, {plan.n_blocks} blocks of rank {plan.rank}"
    return replace(result, note=note)


def _nystroem(memory: str, data: Digits) -> Result:
    rank = min(NYSTROEM_RANK, len(data.y))
    model = make_pipeline(
        Nystroem(gamma=GAMMA, n_components=rank, random_state=0), RidgeClassifier(alpha=ALPHA)
    )
    return measured(f"Nystroem({rank}) + RidgeClassifier", model, data, _accuracy)


def _svc(memory: str, data: Digits) -> Result:
    return measured("SVC (exact)", SVC(gamma=SVC_GAMMA, C=10.0), data.first(SVC_ROWS), _accuracy)


WORKERS: dict[str, Callable[[str, Digits], Result]] = {
    "gramian": _gramian,
    "nystroem": _nystroem,
    "svc": _svc,
}


def _accuracy(predicted: Array, y: Array) -> float:
    return float(np.mean(predicted == y))
