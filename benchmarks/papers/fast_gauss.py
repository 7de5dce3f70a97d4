"""The improved fast Gauss transform: sums of Gaussians by Taylor expansions about cluster centres.

Source: Yang, Duraiswami and Davis, "Efficient kernel machines using the improved fast Gauss transform",
NIPS 2005 (clustering, total degree); Raykar, Yang, Duraiswami and Gumerov, "Fast computation of sums of
Gaussians in high dimensions", 2005 (the bound, and the choice of degree and clusters by it).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array
from gramian.exceptions import InputError
from gramian.landmarks.partition import farthest_first
from gramian.landmarks.routing import CenterPartition

#: Clusters and terms of an expansion at most.
MOST_CLUSTERS, MOST_TERMS = 1_000, 20_000


@dataclass(frozen=True)
class _Setting:
    """Clusters and their radius, p, and how near to a target clusters count; lengths are over h."""

    clusters: int
    radius: float
    degree: int
    reach: float
    bound: float


class ImprovedFastGauss:
    r"""y ↦ Σ_i q_i exp(−‖y − x_i‖²/h²), h² = 2·lengthscale², to within epsilon · Σ|q_i| at every y.

    About the centre c of the cluster of x, with u = (x − c)/h and v = (y − c)/h,

        exp(−‖y − x‖²/h²) = e^(−‖u‖²) e^(−‖v‖²) Σ_α (2^|α|/α!) u^α v^α,

    cut to total degree |α| < p: binom(p − 1 + d, d) terms a cluster. With radius a = max‖u‖ a term of
    the sum is wrong by at most

        max_b (2^p/p!) (a b)^p e^(−(a − b)²),    at b = (a + √(a² + 2p))/2,

    and clusters farther than a + √(ln 1/epsilon) from y are left out, whose terms are under epsilon. Clusters
    are farthest-first; their number is the one with the least work, and p the least degree whose bound
    is under epsilon.

    Parameters
    ----------
    sources : ndarray (n, d)
    lengthscale : float
        ℓ of :class:`gramian.Gaussian`.
    epsilon : float
        Error bound, in (0, 1).
    n_clusters : int, optional
        Instead of the choice by work among at most 1,000.
    max_terms : int
        Refuse expansions of more terms: they grow as p^d/d!.
    random_state : int
        Seed of the first centre.

    Attributes
    ----------
    n_clusters, degree, n_terms : K, p and the terms a cluster.
    bound : the error bound for these, at most ``epsilon``.
    nbytes : bytes of sources, centres and the coefficients of one product.

    Cost: construction O(n d K); a product O(n T + m (K d + K_near T)) for T terms and m targets, memory
    O(K T). Fails in high dimension, where T exceeds ``max_terms`` for any K: a method for d up to 5 or so.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import Gaussian
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> transform = ImprovedFastGauss(X, 0.3, epsilon=1e-4)
    >>> sums = transform.matvec(np.ones(500))
    >>> bool(abs(sums - Gaussian(0.3)(X, X) @ np.ones(500)).max() < 1e-4 * 500)
    True
    """

    def __init__(
        self,
        sources: Array,
        lengthscale: float,
        *,
        epsilon: float = 1e-6,
        n_clusters: int | None = None,
        max_terms: int = MOST_TERMS,
        random_state: int = 0,
    ) -> None:
        points = _checked(sources, None)
        if not (0 < epsilon < 1 and 0 < lengthscale < math.inf):
            raise InputError(
                f"lengthscale={lengthscale!r} and epsilon={epsilon!r} make no transform. Give a positive, "
                "finite lengthscale and an epsilon between 0 and 1."
            )
        self.n_features = points.shape[1]
        self._scale = math.sqrt(2.0) * lengthscale
        self._epsilon, self._max_terms = epsilon, max_terms
        points = points / self._scale
        most = MOST_CLUSTERS if n_clusters is None else n_clusters
        if most < 1:
            raise InputError(f"n_clusters={n_clusters!r} is not a number of clusters. Give at least 1.")
        # One centre more: its distance is the radius of the clusters before it.
        chosen, squares = farthest_first(
            points, min(most + 1, len(points)), np.random.default_rng(random_state)
        )
        radii = np.sqrt([*squares[1:], 0.0])[:most]
        self._setting = self._choose(points[chosen[:most]], radii, n_clusters)
        self._centers = points[chosen[: self._setting.clusters]]
        labels = CenterPartition(self._centers).route(points)
        # Distances by differences, where farthest-first had rounded products.
        radius = float(np.sqrt(np.square(points - self._centers[labels]).sum(axis=1).max()))
        self._setting = self._for_radius(self._setting.clusters, radius)
        order = np.argsort(labels, kind="stable")
        self._sources, self._order = points[order], order
        self._starts = np.searchsorted(labels[order], np.arange(self.n_clusters + 1))
        self._weights = _weights(self._setting.degree, self.n_features)

    @property
    def n_clusters(self) -> int:
        """K."""
        return self._setting.clusters

    @property
    def degree(self) -> int:
        """p: terms have a total degree under it."""
        return self._setting.degree

    @property
    def n_terms(self) -> int:
        """binom(p − 1 + d, d)."""
        return len(self._weights)

    @property
    def bound(self) -> float:
        """Largest error of a value k(y, x)."""
        return self._setting.bound

    @property
    def nbytes(self) -> int:
        """Bytes of sources, order, centres and of the coefficients of one product."""
        coefficients = 8 * self.n_clusters * self.n_terms
        return self._sources.nbytes + self._order.nbytes + self._centers.nbytes + coefficients

    def matvec(self, weights: Array, targets: Array | None = None) -> Float64Array:
        """Return K(Y, X) q for q of shape (n,) or (n, p) and targets Y (m, d), by default the sources."""
        q = np.asarray(weights, np.float64)
        if q.ndim not in (1, 2) or q.shape[0] != len(self._sources):
            raise InputError(
                f"weights has shape {q.shape}, but there are {len(self._sources)} sources. Pass one number, "
                "or one row of numbers, a source."
            )
        columns = q.reshape(len(q), -1)
        coefficients = np.stack([self._collected(k, columns) for k in range(self.n_clusters)])
        if targets is None:
            points = np.empty_like(self._sources)
            points[self._order] = self._sources
        else:
            points = _checked(targets, self.n_features) / self._scale
        out = np.zeros((len(points), columns.shape[1]))
        for rows in row_slices(len(points), tile_rows(self.n_terms, 8)):
            self._add(points[rows], coefficients, out[rows])
        return out.reshape(len(points), *q.shape[1:])

    def _collected(self, k: int, q: Float64Array) -> Float64Array:
        """Return C_α = (2^|α|/α!) Σ_i q_i e^(−‖u_i‖²) u_i^α over cluster k, shape (terms, p)."""
        total = np.zeros((self.n_terms, q.shape[1]))
        mine = slice(self._starts[k], self._starts[k + 1])
        sources, values = self._sources[mine] - self._centers[k], q[self._order[mine]]
        for rows in row_slices(len(sources), tile_rows(self.n_terms, 8)):
            u = sources[rows]
            total += _monomials(u, self.degree).T @ (
                np.exp(-np.square(u).sum(axis=1))[:, None] * values[rows]
            )
        return self._weights[:, None] * total

    def _add(self, points: Float64Array, coefficients: Float64Array, out: Float64Array) -> None:
        """Add Σ_k e^(−‖v‖²) Σ_α C_α v^α over the clusters in reach."""
        squares = _square_distances(points, self._centers)
        near = squares <= self._setting.reach**2
        for k in np.flatnonzero(near.any(axis=0)):
            rows = np.flatnonzero(near[:, k])
            v = points[rows] - self._centers[k]
            damped = np.exp(-np.square(v).sum(axis=1))[:, None]
            out[rows] += damped * (_monomials(v, self.degree) @ coefficients[k])

    def _choose(self, centers: Float64Array, radii: Float64Array, fixed: int | None) -> _Setting:
        """Return the number of clusters with the least work for a source and a target."""
        most = len(centers)
        counts = {round(2 ** (i / 2)) for i in range(2 * most.bit_length())} if fixed is None else set()
        settings = []
        for k in sorted({k for k in counts if k < most} | {most}):
            with suppress(InputError):  # smaller clusters may do
                settings.append(self._for_radius(k, float(radii[k - 1])))
        if not settings:
            self._for_radius(most, float(radii[-1]))  # says what is missing
        gaps = _square_distances(centers, centers)

        def work(setting: _Setting) -> float:
            k, terms = setting.clusters, math.comb(setting.degree - 1 + self.n_features, self.n_features)
            near = np.count_nonzero(gaps[:k, :k] <= setting.reach**2) / k
            return terms * (1.0 + near) + k * self.n_features

        return min(settings, key=work)

    def _for_radius(self, clusters: int, radius: float) -> _Setting:
        """Return the least degree whose bound is under epsilon; raises where its terms are too many."""
        reach = radius + math.sqrt(-math.log(self._epsilon))
        for degree, bound in enumerate(_bounds(radius, reach), start=1):
            terms = math.comb(degree - 1 + self.n_features, self.n_features)
            if terms > self._max_terms:
                break
            if bound <= self._epsilon:
                return _Setting(clusters, radius, degree, reach, bound)
        raise InputError(
            f"With {clusters} clusters, an expansion of total degree {degree - 1} in {self.n_features} "
            f"features has {terms:.3g} terms a cluster and errs by up to {bound:.2g}: epsilon="
            f"{self._epsilon:g} is out of reach of max_terms={self._max_terms}. The transform is for few "
            "features: use gramian.BlockBasis or MEKA, or raise epsilon, lengthscale or max_terms."
        )


def _bounds(radius: float, reach: float) -> Iterator[float]:
    """Yield max_b (2^p/p!) (a b)^p e^(−(a − b)²) over b ≤ reach for p = 1, 2, …, while reach^p is finite."""
    for p in range(1, 1 + int(math.log(np.finfo(np.float64).max) / max(math.log(reach), 1.0))):
        b = min((radius + math.sqrt(radius**2 + 2.0 * p)) / 2.0, reach)
        power = p * math.log(2.0 * radius * b) if radius else -math.inf
        # No remainder exceeds e^(2ab) e^(−a² − b²) ≤ 1.
        yield math.exp(min(power - float(gammaln(p + 1)) - (radius - b) ** 2, 0.0))


def _monomials(points: Float64Array, degree: int) -> Float64Array:
    """Return x^α for |α| < degree, by total degree, shape (rows, binom(degree − 1 + d, d))."""
    rows, d = points.shape
    out = np.empty((rows, math.comb(degree - 1 + d, d)))
    out[:, 0] = 1.0
    end, heads = 1, [0] * d
    for _ in range(1, degree):
        # Feature i times the monomials of the degree below in the features i, …, d alone: each once.
        below = end
        for i, first in enumerate(heads):
            grown = out[:, end : end + below - first]
            np.multiply(out[:, first:below], points[:, i : i + 1], out=grown)
            heads[i], end = end, end + grown.shape[1]
    return out


def _weights(degree: int, d: int) -> Float64Array:
    """Return 2^|α|/α! in the order of :func:`_monomials`."""
    # At x = (1, …, 2, …, 1) a monomial is 2^α_i.
    exponents = np.log2(_monomials(1.0 + np.eye(d), degree))
    return np.asarray(
        np.exp2(exponents.sum(axis=0)) / np.exp(gammaln(exponents + 1.0).sum(axis=0)), np.float64
    )


def _square_distances(points: Float64Array, centers: Float64Array) -> Float64Array:
    norms = np.square(points).sum(axis=1)[:, None] + np.square(centers).sum(axis=1)
    return np.asarray(norms - 2.0 * points @ centers.T, np.float64)


def _checked(points: Array, n_features: int | None) -> Float64Array:
    rows = np.asarray(points, np.float64)
    wanted = "d" if n_features is None else str(n_features)
    if rows.ndim != 2 or 0 in rows.shape or (n_features is not None and rows.shape[1] != n_features):
        raise InputError(f"points have shape {rows.shape}; expected (n, {wanted}), one point a row.")
    if not np.isfinite(rows).all():
        raise InputError("points contain NaN or infinity. Drop such rows or fill them in first.")
    return rows
