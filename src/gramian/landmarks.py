"""Landmarks: the points that span a basis, chosen from a sample of a block's rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.exceptions import InputError, did_you_mean

#: The name of a rule, or the points themselves.
Landmarks: TypeAlias = "str | Array"

METHODS = ("kmeans", "uniform")
#: Sampled rows per landmark and Lloyd rounds: more of either changed the error by under 1 %.
ROWS_PER_LANDMARK, LLOYD_ROUNDS = 10, 4


def select_landmarks(rows: Rows, count: int, method: str, rng: np.random.Generator) -> Rows:
    """Choose ``count`` landmarks from rows; all rows where there are not more.

    ``"uniform"``: rows drawn without replacement. ``"kmeans"``: centres of four Lloyd rounds on at
    most ten rows per landmark, started from drawn rows (Zhang, Tsang and Kwok 2008). Time
    O(10 · count² · d) per round.
    """
    check_method(method)
    n = rows.shape[0]
    if n <= count:
        return rows
    if method == "uniform":
        return rows[np.sort(rng.choice(n, count, replace=False))]
    if n > ROWS_PER_LANDMARK * count:
        rows = rows[np.sort(rng.choice(n, ROWS_PER_LANDMARK * count, replace=False))]
    return lloyd(rows, count, LLOYD_ROUNDS, rng)


def check_method(method: Any) -> None:
    """Raise for a landmark method that does not exist."""
    if method not in METHODS:
        raise InputError(
            f"landmarks={method!r} is unknown. Choose one of {', '.join(METHODS)}, or give an array "
            "of points." + did_you_mean(method, METHODS)
        )


def lloyd(rows: Rows, count: int, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Run Lloyd rounds from drawn rows; a centre that loses all its rows stays where it is.

    Returns centres of shape (count, d) in the rows' float type (integers give float32 for bytes,
    else float64).
    """
    dtype = np.result_type(rows.dtype, np.float32)
    points = rows.astype(dtype) if rows.dtype != dtype else rows
    n = points.shape[0]
    start = points[np.sort(rng.choice(n, count, replace=False))]
    centers = start.toarray() if sp.issparse(start) else np.array(start)
    # Distances about the mean keep their digits; only the assignment needs it.
    offset = centers.mean(axis=0)
    moved = points if sp.issparse(points) else points - offset
    for _ in range(rounds):
        labels = _nearest(moved, centers if sp.issparse(points) else centers - offset)
        counts = np.bincount(labels, minlength=count)
        sums = _group_sums(points, labels, counts)
        full = counts > 0
        centers[full] = sums[full] / counts[full, None]
    return centers


def _nearest(points: Rows, centers: FloatArray) -> IntArray:
    labels = np.empty(points.shape[0], np.intp)
    factor, half = centers.T, 0.5 * np.einsum("ij,ij->i", centers, centers)
    for rows in row_slices(points.shape[0], tile_rows(len(centers), centers.itemsize)):
        scores = np.asarray(points[rows] @ factor)
        scores -= half
        labels[rows] = scores.argmax(axis=1)
    return labels


def _group_sums(points: Rows, labels: IntArray, counts: Array) -> FloatArray:
    """Sum of the rows of each label, as one sparse product."""
    order = np.argsort(labels, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    select = sp.csr_array((np.ones(len(order), points.dtype), order, indptr), shape=(len(counts), len(order)))
    sums = select @ points
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums)
