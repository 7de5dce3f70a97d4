"""The search of the library's own contender: a kernel chosen on samples, alpha by leave-one-out errors.

It is what ``KernelRidge("auto", kernel="auto")`` does in a fit, within a number of seconds.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from comparison.contenders import CLASSIFICATION, Hyperparameters
from gramian._random import as_generator
from gramian._typing import Array
from gramian.data.source import as_source
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.kernels import Kernel
from gramian.kernels.resolve import kernel_to_spec
from gramian.ridge.choosing import fit_by_alpha
from gramian.ridge.planning import ridge_setup
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.selection.automatic import FAMILIES
from gramian.selection.kernel_choice import choose_kernel

#: Fraction of the seconds for the kernel. Chosen by hand.
KERNEL_SHARE = 0.5
#: Rows that alpha is chosen on, one number after the other while there is time. A round begins if what is
#: left is this many times what the last one took for each row. Chosen by hand.
ALPHA_ROWS, AMPLE = (3_000, 12_000), 1.2


def choose_ridge(
    X: Array, y: Array, task: str, *, seconds: float, seed: int
) -> tuple[Hyperparameters, float, int, int] | None:
    """Return settings of a kernel ridge model, their error, tried kernels, and rows that alpha was chosen on.

    The error is the root mean square on held-out rows over the deviation of the targets, ±1 for classes. None
    for too few rows to choose a kernel by. Features and targets are scaled as for every contender. The last
    step may exceed the seconds.
    """
    began = time.perf_counter()
    rows = _label_rows(X, y, task)
    kind = KernelRidgeClassifier if task == CLASSIFICATION else KernelRidge
    setup = ridge_setup(kind(random_state=seed))
    choice = choose_kernel(
        rows,
        FAMILIES,
        each_feature=True,
        intercept=setup.intercept,
        rng=as_generator(seed),
        memory_bytes=setup.run.memory_bytes,
        seconds=KERNEL_SHARE * seconds,
    )
    if choice is None:
        return None
    order = as_generator(seed).permutation(rows.n)
    going, used, took = list(choice.finalists), choice.n_rows, 0.0
    kernel, alpha = going[0]
    for some in sorted({min(count, rows.n) for count in ALPHA_ROWS}):
        part = rows if some == rows.n else rows.read(np.sort(order[:some]))
        judged: list[tuple[float, float, Kernel]] = []
        for one, start in going:
            left = seconds - (time.perf_counter() - began)
            if left < AMPLE * took * some / used:
                break
            started = time.perf_counter()
            with warnings.catch_warnings():
                # Settings that are ill-conditioned are judged by their error, as those of other contenders.
                warnings.simplefilter("ignore", RuntimeWarning)
                loss, found, _ = fit_by_alpha(setup.with_kernel(one), part, start)
            judged.append((loss, found, one))
            used, took = some, time.perf_counter() - started
        if judged:
            _, alpha, kernel = min(judged, key=lambda each: each[0])
            going = [(kernel, choice.alpha)]
    settings = {"kernel": kernel_to_spec(kernel), "alpha": float(alpha)}
    return settings, math.sqrt(float(choice.errors.min())), len(choice.tried), used


def _label_rows(X: Array, y: Array, task: str) -> LabelledRows[Any]:
    source = as_source(StandardScaler().fit_transform(X))
    if task == CLASSIFICATION:
        return labelled_classes(source, y)
    values = np.asarray(y, np.float64)
    return labelled_numbers(source, (values - values.mean()) / (values.std() or 1.0))
