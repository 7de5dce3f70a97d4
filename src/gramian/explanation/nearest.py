"""The training rows nearest to landmarks."""

from __future__ import annotations

import numpy as np

from gramian._typing import IntArray
from gramian.data.source import RowSource, row_blocks
from gramian.exceptions import InputError
from gramian.explanation.machines import Machines
from gramian.kernels.columns import dense
from gramian.kernels.input_gradient import squared_distances
from gramian.kernels.precomputed import StoredRows

#: Rows compared with landmarks at a time. Chosen by hand.
STEP = 4096


def nearest_rows(machines: Machines, points: IntArray, source: RowSource) -> IntArray:
    """Return for each landmark's number the number of the row of the source that is nearest to it.

    Distances are Euclidean, between rows as the kernel takes them. Time O(rows · landmarks named · d).
    """
    if isinstance(source, StoredRows):
        raise InputError(
            "X_train finds the rows nearest to landmarks; with kernel='precomputed' there are no features to "
            "measure distances in. Leave X_train out."
        )
    out, start = np.zeros(points.shape, np.intp), 0
    for each in machines.machines:
        count = each.predictor.n_points
        own = (points >= start) & (points < start + count)
        numbers = np.unique(points[own]) - start
        if len(numbers):
            Z = np.concatenate([dense(each.predictor.point(int(j)), np.float64) for j in numbers])
            center = Z.mean(axis=0)
            least, found = np.full(len(Z), np.inf), np.zeros(len(Z), np.intp)
            for where, rows in row_blocks(each.rows(source), STEP):
                square = squared_distances(dense(rows, np.float64) - center, Z - center)
                best = square.argmin(axis=0)
                size = square[best, np.arange(len(Z))]
                nearer = size < least
                least[nearer], found[nearer] = size[nearer], where.start + best[nearer]
            out[own] = found[np.searchsorted(numbers, points[own] - start)]
        start += count
    return out
