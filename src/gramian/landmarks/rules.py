"""Rules that choose landmarks, the points that span a basis, from a sample of a block's rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.data.floats import as_float
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.picking import (
    bless,
    draw,
    leverage_sample,
    pivoted_cholesky,
    pivoted_qr,
    proposed_rows,
    ridge_leverage_scores,
    rpcholesky,
)
from gramian.landmarks.routing import CenterPartition, shift_rows

#: The name of a rule, or the points themselves.
Landmarks: TypeAlias = str | Array

#: Rules that average rows; the other rules pick rows, most of them by kernel values.
AVERAGED = ("kmeans", "weighted-kmeans")
PIVOTED = ("rpcholesky", "cholesky", "pivoted-qr")
LEVERAGED = ("leverage", "bless")
#: Rules that know the remaining part of the trace and can stop at a tolerance.
STOPPING = ("rpcholesky", "cholesky")
PICKED = ("uniform", *LEVERAGED, *PIVOTED)
METHODS = ("uniform", *AVERAGED, *LEVERAGED, *PIVOTED)
#: Sampled rows per landmark, and Lloyd rounds. 20,000 rows and 40 rounds lower the error of k-means Nyström
#: further, at several times the time: item "k-means nystrom" of benchmarks/papers/meka.py.
ROWS_PER_LANDMARK, LLOYD_ROUNDS = 10, 4
#: Sampled rows per pivot. More than for k-means, because outlying rows that are not sampled stay unexplained.
#: Chosen by hand.
ROWS_PER_PIVOT = 20
#: Memory of a rule in float64 numbers: (a, b) means a · count · rows + b · count². Measured by hand.
FACTORS = {
    "rpcholesky": (1.0, 0.0),
    "cholesky": (1.0, 0.1),
    "pivoted-qr": (6.5, 0.0),
    "leverage": (3.0, 3.5),
    "bless": (5.0, 12.0),
    "weighted-kmeans": (3.0, 3.5),
}


def select_landmarks(
    rows: Rows,
    count: int,
    method: Landmarks,
    rng: np.random.Generator,
    engine: Engine | None = None,
    *,
    kernel: Kernel | None = None,
    tol: float = 0.0,
    tol_after: int = 0,
    given: Rows | None = None,
    dtype: DTypeLike | None = None,
) -> Rows:
    """Choose ``count`` landmarks from rows; return all rows if there are not more and no ``tol`` is given.

    rows : (n, d), dense or CSR. Rules other than ``"uniform"`` sample at most ten rows per landmark, or
        twenty if they pick pivots.
    method : points (m, d), which are returned as an array after a check of their width, or the rule.

        - ``"uniform"``: rows drawn without replacement.
        - ``"kmeans"``: centres of four Lloyd rounds, started from drawn rows (Zhang, Tsang and Kwok 2008).
        - ``"weighted-kmeans"``: the same, rows weighted by their ridge leverage scores (:func:`lloyd`
          takes other weights).
        - ``"leverage"``, ``"bless"``: rows drawn by ridge leverage scores, see
          :mod:`gramian.landmarks.picking`.
        - ``"rpcholesky"``, ``"cholesky"``, ``"pivoted-qr"``: pivots, see :mod:`gramian.landmarks.picking`;
          fewer than ``count`` if fewer rows span the others up to rounding.

    kernel : k, needed by every rule except the first two.
    tol : the Cholesky rules stop once their pivots leave at most this part of the trace; with ``tol_after``,
        of the trace that the first ``tol_after`` pivots leave.
    given : (m₀, d), existing landmarks, to which ``"rpcholesky"`` adds others.
    dtype : type of the tiles, to which sampled rows are converted first; None leaves them as they are.

    Returns (count, d): rows of the data in their order and type, or dense centres in the data's float type.
    Repeated rows may give repeated landmarks with ``"uniform"`` and with centres. With m = ``count`` and n ≤
    20 m sampled rows: time O(n m d) per round or O(n m (d + m)) with the kernel, memory O(n d) or O(n m).

    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> select_landmarks(rows, 2, "uniform", np.random.default_rng(0)).shape
    (2, 2)
    """
    if not isinstance(method, str):
        points = np.asarray(method, np.float64)
        if points.ndim != 2 or points.shape[1] != rows.shape[1]:
            raise InputError(
                f"landmarks has shape {points.shape}; expected (m, {rows.shape[1]}), one point a row with "
                f"the data's {rows.shape[1]} features."
            )
        return points
    check_method(method)
    n = rows.shape[0]
    if count < 1:
        raise InputError(f"{count} landmarks were asked for; a basis needs at least 1. Raise the rank.")
    if n <= count and not (tol and method in STOPPING):
        return rows
    if method in AVERAGED and isinstance(kernel, Precomputed):
        raise InputError(
            f"landmarks={method!r} averages points, which a precomputed kernel does not have. Take "
            "'rpcholesky' or 'uniform'."
        )
    count = min(count, n)
    if method == "uniform":
        return rows[np.sort(rng.choice(n, count, replace=False))]
    if n > rows_seen(method, count):
        rows = rows[np.sort(rng.choice(n, rows_seen(method, count), replace=False))]
    if dtype is not None:
        rows = as_float(rows, dtype, kernel)
    if method == "kmeans":
        return lloyd(rows, count, LLOYD_ROUNDS, rng, engine)
    if kernel is None:
        raise InputError(f"landmarks={method!r} needs the kernel. Pass kernel=, or take 'kmeans'.")
    n_jobs = 1 if engine is None else engine.n_threads
    if method == "weighted-kmeans":
        pilot = select_landmarks(rows, count, "uniform", rng)
        weights = ridge_leverage_scores(kernel, rows, pilot, max(1.0, count / 2), n_jobs=n_jobs)
        return lloyd(rows, count, LLOYD_ROUNDS, rng, engine, weights=weights)
    return rows[
        np.sort(
            pick_rows(
                rows, count, method, kernel, rng, n_jobs=n_jobs, tol=tol, tol_after=tol_after, given=given
            )
        )
    ]


def pick_rows(
    rows: Rows,
    count: int,
    method: str,
    kernel: Kernel,
    rng: np.random.Generator,
    *,
    n_jobs: int = 1,
    tol: float = 0.0,
    tol_after: int = 0,
    given: Rows | None = None,
) -> IntArray:
    """Return the row numbers that a rule without averages picks. See :func:`select_landmarks`."""
    match method:
        case "uniform":
            return rng.choice(rows.shape[0], count, replace=False)
        case "leverage":
            return leverage_sample(kernel, rows, count, rng, n_jobs=n_jobs)
        case "bless":
            return bless(kernel, rows, count, rng, n_jobs=n_jobs)
        case "rpcholesky":
            return rpcholesky(
                kernel, rows, count, rng, tol=tol, tol_after=tol_after, given=given, n_jobs=n_jobs
            )
        case "cholesky":
            return pivoted_cholesky(kernel, rows, count, tol=tol, tol_after=tol_after, n_jobs=n_jobs)
        case _:
            return pivoted_qr(kernel, rows, count, rng, n_jobs=n_jobs)


def rows_seen(method: Any, count: int) -> int:
    """Return the largest number of rows that a rule samples."""
    pivoted = isinstance(method, str) and method in PIVOTED
    return (ROWS_PER_PIVOT if pivoted else ROWS_PER_LANDMARK) * count


def selection_bytes(method: Any, count: int, n_rows: int, n_features: int, itemsize: int) -> int:
    """Return the bytes that :func:`select_landmarks` needs: the sampled rows and its factors.

    A rule holds 8 · count · (a · rows + b · count) bytes, with a and b from :data:`FACTORS`.
    """
    looked = min(n_rows, rows_seen(method, count))
    rows = looked * (2 * n_features * itemsize + 16)
    if not isinstance(method, str) or method in ("uniform", "kmeans"):
        return rows
    of_rows, of_landmarks = FACTORS[method]
    columns = 3 * proposed_rows(count) if method == "rpcholesky" else 1
    return rows + round(8 * (count * (of_rows * looked + of_landmarks * count) + columns * looked))


def check_method(method: Any) -> None:
    """Raise for a landmark method that does not exist."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"landmarks={method!r} is unknown. Choose one of {', '.join(METHODS)}, or give an array "
            "of points." + did_you_mean(method, METHODS)
        )


def lloyd(
    rows: Rows,
    count: int,
    rounds: int,
    rng: np.random.Generator,
    engine: Engine | None = None,
    *,
    weights: Float64Array | None = None,
) -> FloatArray:
    """Run Lloyd rounds that start from drawn rows; a centre that loses all its rows stays where it is.

    rows : (n, d) with n of at least ``count``, dense or CSR.
    weights : (n,), at least 0: rows are drawn and averaged in proportion to them. With fewer than ``count``
        positive weights there are only as many centres.

    Returns centres of shape (count, d) in the rows' float type (integers give float32 for bytes,
    else float64). Time O(n · count · d) per round, memory one copy of the rows.
    """
    dtype = np.result_type(rows.dtype, np.float32)
    n = rows.shape[0]
    if weights is None:
        drawn = np.sort(rng.choice(n, count, replace=False))
    else:
        drawn = draw(weights, count, rng)
        count = len(drawn)
    offset = np.zeros(rows.shape[1], dtype)
    points: Rows
    if sp.issparse(rows):
        points = rows.astype(dtype, copy=False)
        centers = rows[drawn].toarray().astype(dtype, copy=False)
    else:
        # Sums and distances relative to a mean of the rows keep their digits.
        offset = np.asarray(rows[drawn].mean(axis=0, dtype=np.float64), dtype)
        points = shift_rows(rows, offset)
        centers = points[drawn]
    for _ in range(rounds):
        labels = CenterPartition(centers).route(points, engine)
        sums = _group_sums(points, labels, count, weights)
        total = np.bincount(labels, weights, minlength=count)
        full = total > 0
        # A new array, because the partition keeps the old one.
        centers = centers.copy()
        centers[full] = sums[full] / total[full, None]
    return centers + offset


def _group_sums(points: Rows, labels: IntArray, count: int, weights: Float64Array | None) -> FloatArray:
    """Return the weighted sum of the rows of each label, by one sparse product."""
    order = np.argsort(labels, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=count))])
    shares = np.ones(len(order), points.dtype) if weights is None else weights[order].astype(points.dtype)
    select = sp.csr_array((shares, order, indptr), shape=(count, len(order)))
    sums = select @ points
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums)
