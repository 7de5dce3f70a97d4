"""Landmarks: the points that span a basis, chosen from a sample of a block's rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean
from gramian.routing import CenterPartition, moved

#: The name of a rule, or the points themselves.
Landmarks: TypeAlias = "str | Array"

METHODS = ("kmeans", "uniform")
#: Sampled rows per landmark and Lloyd rounds: more of either changed the error by under 1 %.
ROWS_PER_LANDMARK, LLOYD_ROUNDS = 10, 4


def select_landmarks(
    rows: Rows, count: int, method: str, rng: np.random.Generator, engine: Engine | None = None
) -> Rows:
    """Choose ``count`` landmarks from rows; all rows, as they are, where there are not more.

    rows : (n, d), dense or CSR.
    method : ``"uniform"``, rows drawn without replacement; ``"kmeans"``, centres of four Lloyd rounds on
        at most ten rows per landmark, started from drawn rows (Zhang, Tsang and Kwok 2008).

    Returns (count, d): rows of the data in their order and type, or dense centres in the data's float
    type. Repeated rows may give repeated landmarks. Time O(10 · count² · d) per round,
    memory O(10 · count · d).

    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> select_landmarks(rows, 2, "uniform", np.random.default_rng(0)).shape
    (2, 2)
    """
    check_method(method)
    n = rows.shape[0]
    if count < 1:
        raise InputError(f"{count} landmarks were asked for; a basis needs at least 1. Raise the rank.")
    if n <= count:
        return rows
    if method == "uniform":
        return rows[np.sort(rng.choice(n, count, replace=False))]
    if n > ROWS_PER_LANDMARK * count:
        rows = rows[np.sort(rng.choice(n, ROWS_PER_LANDMARK * count, replace=False))]
    return lloyd(rows, count, LLOYD_ROUNDS, rng, engine)


def check_method(method: Any) -> None:
    """Raise for a landmark method that does not exist."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"landmarks={method!r} is unknown. Choose one of {', '.join(METHODS)}, or give an array "
            "of points." + did_you_mean(method, METHODS)
        )


def lloyd(
    rows: Rows, count: int, rounds: int, rng: np.random.Generator, engine: Engine | None = None
) -> FloatArray:
    """Run Lloyd rounds from drawn rows; a centre that loses all its rows stays where it is.

    rows : (n, d) with n of at least ``count``, dense or CSR.

    Returns centres of shape (count, d) in the rows' float type (integers give float32 for bytes,
    else float64). Time O(n · count · d) per round, memory one copy of the rows.
    """
    dtype = np.result_type(rows.dtype, np.float32)
    n = rows.shape[0]
    drawn = np.sort(rng.choice(n, count, replace=False))
    offset = np.zeros(rows.shape[1], dtype)
    points: Rows
    if sp.issparse(rows):
        points = rows.astype(dtype, copy=False)
        centers = rows[drawn].toarray().astype(dtype, copy=False)
    else:
        # Sums and distances about a mean of the rows keep their digits.
        offset = np.asarray(rows[drawn].mean(axis=0, dtype=np.float64), dtype)
        points = moved(rows, offset)
        centers = points[drawn]
    for _ in range(rounds):
        labels = CenterPartition(centers).route(points, engine)
        counts = np.bincount(labels, minlength=count)
        sums = _group_sums(points, labels, counts)
        full = counts > 0
        # A new array: the partition holds on to the old one.
        centers = centers.copy()
        centers[full] = sums[full] / counts[full, None]
    return centers + offset


def _group_sums(points: Rows, labels: IntArray, counts: Array) -> FloatArray:
    """Sum of the rows of each label, as one sparse product."""
    order = np.argsort(labels, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    select = sp.csr_array((np.ones(len(order), points.dtype), order, indptr), shape=(len(counts), len(order)))
    sums = select @ points
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums)
