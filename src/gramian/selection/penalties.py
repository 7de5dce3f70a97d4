"""Penalties that are tried for parameters that say "auto", and the folds of rows that judge them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator.labelled import LabelledRows
from gramian.kernels.base import Kernel

#: Penalties that are tried, over that of the kernel's choice: more rows call for larger ones. By hand.
BESIDE = np.logspace(-1, 3, 5)
#: Penalties that are tried for a kernel that was given, over the mean of k(x, x). By hand.
WIDE = np.logspace(-6, 2, 9)
#: Least penalty from which others are tried, over the mean of k(x, x). By hand.
LEAST = 1e-5
#: Factors of the best of these penalties that are tried after them, to both sides.
CLOSE = 10.0 ** np.array([-0.5, 0.5])
#: Penalties that cross-validation compares for a kernel that was given, over the mean of k(x, x).
USUAL_ALPHAS = np.logspace(-3, 1, 5)
#: Rows whose mean of k(x, x) is taken, at most.
LEVEL_ROWS = 1_000


def mean_diagonal(kernel: Kernel, rows: LabelledRows[Any]) -> float:
    """Return the mean of k(x, x) over some of the rows, 1 where it is 0."""
    some = rows.source.take(rows.counted[:LEVEL_ROWS])
    return float(np.mean(kernel.diagonal(some))) or 1.0


def penalty_grid(level: float, start: float | None) -> Float64Array:
    """Return ridge penalties a decade apart, ascending.

    ``level`` is the mean of k(x, x), ``start`` the penalty of the kernel's choice, None for a kernel that was
    given.
    """
    return np.asarray(level * WIDE if start is None else max(start, LEAST * level) * BESIDE, np.float64)


def fold_numbers(
    numbers: IntArray, codes: Array | None, n_folds: int, rng: np.random.Generator, n: int
) -> IntArray:
    """Return the fold of each of n rows: −1 for those that are not among ``numbers``.

    ``codes`` (n,) are class codes; each fold then has its share of every class.

    >>> fold_numbers(np.array([0, 2, 3]), None, 3, np.random.default_rng(0), 4).tolist()
    [1, -1, 2, 0]
    """
    order = rng.permutation(numbers)
    if codes is not None:
        order = order[np.argsort(codes[order], kind="stable")]
    fold = np.full(n, -1, np.intp)
    fold[order] = np.arange(len(order)) % n_folds
    return fold
