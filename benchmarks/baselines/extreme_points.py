r"""Approximate extreme points: a few rows whose convex hull in feature space is close to all rows.

Source: Nandan, Khargonekar and Talathi 2014 (DeriveRS).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from gramian._numerics import STORED_TOLERANCE, unit_roundoff
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.columns import dense, squared_norms

#: Most exchanges of weight between two representatives before a row counts as not represented. Chosen by
#: hand.
MOST_EXCHANGES = 300


@dataclass(frozen=True, eq=False)
class Representatives:
    """Representatives: row numbers, ascending, and β, the total weight of the rows that each represents."""

    rows: IntArray
    weights: Float64Array


def derive_representatives(
    rows: Rows,
    weights: Array | None,
    labels: IntArray,
    gamma: float,
    *,
    epsilon: float,
    P: int,
    V: int,
    rng: np.random.Generator,
    engine: Engine,
) -> Representatives:
    r"""Choose representatives of the rows of each label: every row lies within ε of their convex hull.

    For each row i there are μ_it ≥ 0 with Σ_t μ_it = 1 and ‖φ(x_i) − Σ_t μ_it φ(x_t)‖² ≤ ε over the
    representatives t of its own subset; β_t = Σ_i weight_i μ_it. The rows of a label are halved, by distance
    from a random row, until no part has more than ``P`` rows. Each part is divided into subsets of at most
    ``V`` rows, each the nearest to a random row. In a subset the row farthest from the hull joins the
    representatives until none is farther than ε.

    rows : (n, d), dense or CSR; weights : (n,) or None.

    Time O(n (log(n/P) + P/V) d + n V m) with m representatives a subset, at most O(n V²); memory O(V²) a
    thread.
    """
    subsets = [
        subset
        for own in (np.flatnonzero(labels == label) for label in np.unique(labels))
        for part in _halve(rows, own, P, rng)
        for subset in _nearest(rows, part, V, rng)
    ]

    def derive(subset: IntArray) -> tuple[IntArray, Float64Array]:
        points = np.asarray(dense(rows[subset]), np.float64)
        mass = np.ones(len(subset)) if weights is None else np.asarray(weights[subset], np.float64)
        # Merge repeated rows and add their weights. Sorting makes the answer independent of the rows' order.
        _, first, which = np.unique(points, axis=0, return_index=True, return_inverse=True)
        merged = np.asarray(np.bincount(which.ravel(), mass), np.float64)
        chosen, share = extreme_points(points[first], merged, gamma, epsilon)
        return subset[first[chosen]], share

    found = engine.map(derive, subsets)
    chosen = np.concatenate([part for part, _ in found])
    order = np.argsort(chosen)
    return Representatives(chosen[order], np.concatenate([share for _, share in found])[order])


def extreme_points(
    points: Float64Array, mass: Float64Array, gamma: float, epsilon: float
) -> tuple[IntArray, Float64Array]:
    """Return the numbers of the points' representatives, ascending, and the mass that each represents."""
    hull = _Hull(np.exp(-gamma * cdist(points, points, "sqeuclidean")), epsilon)
    while hull.improve():
        hull.add(hull.worst())
    return hull.result(mass)


class _Hull:
    r"""Weights μ of all points on the representatives Ψ, for their distances to the convex hull of Ψ.

    G = K_ΨΨ μ − K_Ψx is half the gradient of the squared distance f = ‖φ(x) − Σ μ_t φ(x_t)‖². Since f exceeds
    its minimum by at most 2 (μ·G − min G), a point that cannot be represented is told from one whose weights
    can still improve.
    """

    def __init__(self, gram: Float64Array, epsilon: float) -> None:
        self._gram, self._epsilon = gram, epsilon
        n = len(gram)
        self._members: IntArray = np.empty(n, np.intp)
        self._count = 0
        self._pairs = np.empty((n, n))  #: K_ΨΨ in the order of the members
        self._mu, self._slope = np.zeros((n, n)), np.zeros((n, n))
        self._distance = np.zeros(n)
        self._level, self._low = np.zeros(n), np.full(n, np.inf)  #: μ·G and min G
        self._open = np.ones(n, bool)  #: points not yet known to lie within ε of the hull
        sure = np.flatnonzero(_residuals(gram) > epsilon)
        if not sure.size:
            sure = gram.mean(axis=1).argmin(keepdims=True)
        for point in sure.tolist():
            self.add(point)
        rest = np.flatnonzero(self._open)
        nearest = gram[np.ix_(rest, sure)].argmax(axis=1)
        self._mu[rest, nearest] = 1.0
        slope = gram[np.ix_(sure[nearest], sure)] - gram[np.ix_(rest, sure)]
        self._slope[rest, : len(sure)] = slope
        self._level[rest], self._low[rest] = slope[np.arange(len(rest)), nearest], slope.min(axis=1)
        # ‖φ(x) − φ(x_t)‖² is twice gram[t, t] − gram[x, t], since the diagonal is 1.
        self._distance[rest] = 2.0 * self._level[rest]

    def worst(self) -> int:
        """Return the open point that is farthest from the hull."""
        return int(np.where(self._open, self._distance, -1.0).argmax())

    def add(self, point: int) -> None:
        """Make a point a representative."""
        count = self._count
        near = self._gram[self._members[:count], point]
        slope = self._mu[:, :count] @ near - self._gram[:, point]
        self._slope[:, count] = slope
        np.minimum(self._low, slope, out=self._low)
        self._pairs[count, :count] = self._pairs[:count, count] = near
        self._pairs[count, count] = self._gram[point, point]
        self._members[count] = point
        self._open[point] = False
        self._count += 1

    def improve(self) -> bool:
        """Exchange weights until each open point is within ε or cannot be; return whether any stays open."""
        count = self._count
        gram = self._pairs[:count, :count]
        gap = 2.0 * (self._level - self._low)
        rest = np.flatnonzero(self._open & (self._distance - gap <= self._epsilon))
        mu, slope, distance = self._mu[rest, :count], self._slope[rest, :count], self._distance[rest]
        for _ in range(MOST_EXCHANGES):
            if not rest.size:
                break
            at = np.arange(len(rest))
            to = slope.argmin(axis=1)
            away = np.where(mu > 0, slope, -np.inf).argmax(axis=1)
            gain = slope[at, away] - slope[at, to]
            curve = gram[to, to] + gram[away, away] - 2.0 * gram[to, away]
            step = np.minimum(mu[at, away], gain / np.maximum(curve, unit_roundoff(np.float64)))
            mu[at, away] -= step
            mu[at, to] += step
            slope += step[:, None] * (gram[to] - gram[away])
            distance -= step * (2.0 * gain - step * curve)
            level, low = np.einsum("ij,ij->i", mu, slope), slope.min(axis=1)
            done = (distance <= self._epsilon) | (distance - 2.0 * (level - low) > self._epsilon)
            if done.any():
                self._keep(rest[done], mu[done], slope[done], distance[done])
                rest, mu, slope, distance = (a[~done] for a in (rest, mu, slope, distance))
        self._keep(rest, mu, slope, distance)
        self._open &= self._distance > self._epsilon
        return bool(self._open.any())

    def result(self, mass: Float64Array) -> tuple[IntArray, Float64Array]:
        """Return the representatives, ascending, and their β."""
        members = self._members[: self._count]
        others = np.ones(len(self._mu), bool)
        others[members] = False
        share = mass[members] + mass[others] @ self._mu[others, : self._count]
        order = np.argsort(members)
        return members[order], share[order]

    def _keep(self, rest: IntArray, mu: Float64Array, slope: Float64Array, distance: Float64Array) -> None:
        count = self._count
        self._mu[rest, :count], self._slope[rest, :count], self._distance[rest] = mu, slope, distance
        self._level[rest], self._low[rest] = np.einsum("ij,ij->i", mu, slope), slope.min(axis=1)


def _residuals(gram: Float64Array) -> Float64Array:
    """Return a lower bound 1/(K + δI)⁻¹_ii − 2δ on each point's squared distance to the hull of all others.

    It is the distance to their span, which is smaller; δ bounds the inverse if points nearly repeat.
    """
    jitter = STORED_TOLERANCE**2
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += jitter
    inverse, _ = la.lapack.dpotri(la.cholesky(shifted, lower=True, check_finite=False), lower=1)
    return 1.0 / inverse.diagonal() - 2.0 * jitter


def _halve(rows: Rows, own: IntArray, most: int, rng: np.random.Generator) -> list[IntArray]:
    """Halve rows at the median distance from a random row until no part has more than ``most`` rows."""
    parts, todo = [], [own]
    while todo:
        part = todo.pop()
        if len(part) <= most:
            parts.append(part)
            continue
        away = _squares_from(rows, part, int(rng.integers(len(part))))
        order = np.argpartition(away, len(part) // 2)
        # Keep the original order, so that rows are read forwards.
        todo += [np.sort(part[order[len(part) // 2 :]]), np.sort(part[order[: len(part) // 2]])]
    return parts


def _nearest(rows: Rows, part: IntArray, most: int, rng: np.random.Generator) -> list[IntArray]:
    """Divide rows into subsets: repeatedly take the ``most`` remaining rows nearest to a random one."""
    subsets = []
    while len(part) > most:
        away = _squares_from(rows, part, int(rng.integers(len(part))))
        order = np.argpartition(away, most - 1)
        subsets.append(np.sort(part[order[:most]]))
        part = np.sort(part[order[most:]])
    return [*subsets, part]


def _squares_from(rows: Rows, part: IntArray, anchor: int) -> Float64Array:
    """Return ‖x − a‖² for the rows x of a part, where a is its row number ``anchor``."""
    point = np.asarray(dense(rows[part[anchor : anchor + 1]]), np.float64)[0]
    out = np.empty(len(part))
    for where in row_slices(len(part), tile_rows(len(point), 8)):
        block = rows[part[where]]
        if sp.issparse(block):
            out[where] = squared_norms(block) - 2.0 * (block @ point)
        else:
            out[where] = squared_norms(block - point)
    return out
