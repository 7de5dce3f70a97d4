"""The MEKA paper's abstract: kernel ridge regression on two million digits within 500 MB.

Two million rows are made of MNIST's 3 and 8 by shifts, rotations and elastic fields, in a file on disk;
targets are 0 and 1, errors those of MNIST's own test images. The paper's mnist2m has other deformations, and
the paper does not say which digits are 0. Some ten minutes on two cores, half of it to make the rows: this
is the size of the paper's claim. Each method runs in a process of its own; "peak MB" is what that process's
own memory grew by, and the page cache of the file is not in it.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from comparison import PeakMemory
from deformed_digits import make
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from papers.items import Item, Run, Value

PAIR, ROWS, MEMORY = (3, 8), 2_000_000, "500MB"
#: gamma of pixels in [0, 1], and alpha.
GAMMA, ALPHA = 0.01, 0.02
METHODS: dict[str, Any] = {
    "MEKA, projection": gm.MEKA(rank=80, n_blocks=40),
    "MEKA, literal": gm.MEKA(rank=80, n_blocks=40, core="literal", landmarks="uniform", oversampling=2.0),
    "multi-resolution": gm.MultiResolution(
        root_rank=500, rank=350, n_blocks=28, n_levels=3, oversampling=1.0
    ),
    "Nyström": gm.Nystrom(rank=1_000, landmarks="uniform", oversampling=1.0, recompress=False),
}
#: RMSE, seconds and MB of the abstract.
PUBLISHED = {"MEKA, literal": (0.2313, 550.0, 500.0), "Nyström": (0.2318, 2700.0, 2000.0)}
MEASURES = ("test rmse", "fit seconds", "peak MB")


def two_million_rows(name: str, run: Run) -> Iterator[Value]:
    rows = 20_000 if run.quick else ROWS
    folder = Path(tempfile.gettempdir()) / "gramian-mnist2m"
    files = [str(file) for file in make(folder, rows, PAIR)]
    for method in METHODS:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            found, rank = process.submit(trained, method, files).result()
        setting = {"rows": rows, "rank": rank, "gamma": GAMMA, "alpha": ALPHA, "budget": MEMORY}
        published = PUBLISHED.get(method, (None,) * 3)
        for measure, value, printed in zip(MEASURES, found, published, strict=True):
            yield Value(method, measure, value, setting, printed)


def trained(method: str, files: list[str]) -> tuple[tuple[float, float, float], int]:
    """Return test RMSE, seconds and peak MB of a fit, and the model's rank."""
    warnings.simplefilter("ignore")
    X, y = np.load(files[0], mmap_mode="r"), (np.load(files[1]) == PAIR[1]).astype(float)
    data = load_dataset("mnist")
    test, digits = data.X[data.n_train :], data.y[data.n_train :]
    test, truth = test[np.isin(digits, PAIR)], (digits[np.isin(digits, PAIR)] == PAIR[1]).astype(float)
    model = gm.KernelRidge(
        ALPHA, gamma=GAMMA / 255.0**2, approximation=METHODS[method], memory_budget=MEMORY, random_state=0
    )
    with PeakMemory() as peak:
        began = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - began
    error = float(np.sqrt(np.mean((model.predict(test) - truth) ** 2)))
    return (error, took, peak.growth / 1e6), int(model.rank_)


def digits_verdict(lines: list[Line]) -> str:
    """Name the two methods of the least error."""
    rmse = {line["method"]: line["value"] for line in lines if line["measure"] == MEASURES[0]}
    first, second = sorted(rmse, key=rmse.__getitem__)[:2]
    return f"The least error is that of {first}, then {second}."


DIGITS = (Item("two million rows", ("deformed 3 and 8",), two_million_rows, verdict=digits_verdict),)
