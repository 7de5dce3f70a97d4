"""Groups of rows between which a decaying kernel is negligible, solved independently."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.optimize import bisect
from scipy.sparse.csgraph import connected_components

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel, lengthscale_array
from gramian.kernels.families import Family

#: Rows compared with each other at once, and most pieces of rows. Both keep memory to about 30 MB. Chosen by
#: hand, as are the next constants.
SQUARE_ROWS, MOST_PIECES = 1000, 1000
#: A kernel not yet negligible at this distance, in units of ℓ, counts as long-range: its rows stay together.
FARTHEST = 1e4
#: Allowance for rounding of distances and projections, as a fraction of the reach.
ROUNDING = 1e-6


def separate(rows: Rows, kernel: Kernel, edges: IntArray, least: float) -> IntArray:
    """Return the component (n,) of each row; k(x, z) ≤ ``least`` for rows x, z of different components.

    Clusters are consecutive rows between ``edges``. Rows of a cluster closer than the kernel's reach (the
    distance at which it falls to ``least``) form a piece. Two pieces are separate if a slab between them,
    perpendicular to the line of their centres, is wider than the reach; otherwise their rows are compared
    until a close pair is found. Separation is always proved: whatever cannot be separated cheaply (sparse
    rows, a kernel that does not fall with the distance, more than ``MOST_PIECES`` pieces) shares a component.

    Time O(n d (cluster + pieces)) and the comparisons, memory O(cluster² + pieces² + n).
    """
    n, n_features = (int(size) for size in rows.shape)
    if not n or sp.issparse(rows) or not isinstance(kernel, Family) or not kernel.decreasing:
        return np.zeros(n, np.intp)
    reach = _reach(kernel, n_features, least)
    if not np.isfinite(reach):
        return np.zeros(n, np.intp)
    points = np.asarray(rows, np.float64) / lengthscale_array(kernel.lengthscale, n_features)
    points -= points.mean(axis=0)
    places = [
        slice(int(a) + part.start, int(a) + part.stop)
        for a, b in pairwise(edges)
        for part in row_slices(int(b - a), SQUARE_ROWS)
    ]
    piece, count = np.empty(n, np.intp), 0
    for place in places:
        near = sp.csr_array(_near(points[place], points[place], reach))
        found = connected_components(near, directed=False)[1]
        # Merge the smallest pieces of a cluster, so that there are not too many.
        rank = np.argsort(np.argsort(-np.bincount(found), kind="stable"))
        local = np.minimum(rank[found], max(1, MOST_PIECES // len(places)) - 1)
        piece[place] = count + local
        count += int(local.max()) + 1
    return np.asarray(_joined(points, piece, count, reach)[piece], np.intp)


def _reach(kernel: Family, n_features: int, least: float) -> float:
    """Return the distance, in units of ℓ, beyond which the kernel is at most ``least``; else infinity."""
    unit = np.zeros((1, n_features))
    unit[0, 0] = lengthscale_array(kernel.lengthscale, n_features)[0]

    def excess(distance: float) -> float:
        return float(kernel(np.zeros_like(unit), distance * unit)[0, 0]) - least

    if excess(FARTHEST) > 0.0:
        return float("inf")
    if excess(0.0) <= 0.0:
        return 0.0
    return float(bisect(excess, 0.0, FARTHEST, rtol=ROUNDING)) * (1.0 + 2.0 * ROUNDING)


def _near(first: Float64Array, second: Float64Array, reach: float) -> Array:
    """Return a mask of the pairs of rows closer than the reach, including pairs within rounding of it."""
    left, right = np.einsum("ij,ij->i", first, first), np.einsum("ij,ij->i", second, second)
    square = first @ second.T
    square *= -2.0
    square += left[:, None]
    square += right
    slack = ROUNDING * max(reach**2, float(left.max()), float(right.max()))
    return np.asarray(square < reach**2 + slack)


def _joined(points: Float64Array, piece: IntArray, count: int, reach: float) -> IntArray:
    """Return the component of each piece."""
    order = np.argsort(piece, kind="stable")
    ends = np.searchsorted(piece[order], np.arange(count + 1))
    members = [order[a:b] for a, b in pairwise(ends)]
    centres = np.array([points[index].mean(axis=0) for index in members])
    # highest[p, q]: the farthest extent of piece p along the direction from its centre to that of q.
    highest = np.full((count, count), np.inf)
    distance = np.zeros((count, count))
    for p, index in enumerate(members):
        towards = centres - centres[p]
        distance[p] = np.sqrt(np.einsum("ij,ij->i", towards, towards))
        apart = distance[p] > 0
        towards[apart] /= distance[p, apart, None]
        highest[p, apart] = (points[index] @ towards[apart].T).max(axis=0)
    slack = ROUNDING * (reach + float(np.abs(points).max(initial=0.0)))
    # Width of the slab between p and q along direction v: min over q of v·x minus max over p of v·x.
    first, second = np.nonzero(np.triu(-highest.T - highest <= reach + slack, 1))
    label = np.arange(count)
    for i in np.argsort(distance[first, second], kind="stable"):
        p, q = label[first[i]], label[second[i]]
        if p == q:
            continue
        one, other = points[members[first[i]]], points[members[second[i]]]
        if any(_near(one[part], other, reach).any() for part in row_slices(len(one), 256)):
            label[label == q] = p
    return np.asarray(np.unique(label, return_inverse=True)[1].ravel(), np.intp)
