"""Kernel columns for city-block distances: differences, or a product for features of few values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist

from gramian._numerics import entry_tolerance, unit_roundoff
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.kernels.columns import Columns, ElementMap, dense, tile_type
from gramian.kernels.compiled import compiles, run

#: A feature with at most this many values among the points is computed by a product, which is then faster
#: (``benchmarks/cityblock.py`` measures it).
FEW_VALUES = 5
#: Smallest number of points for which such features are looked for. Chosen by hand.
LEAST_POINTS = 32
#: Rows of Z that are examined first: most features with more values show it there. Chosen by hand.
FIRST_LOOK = 64
#: Largest size of the logarithm of an inverse lengthscale by which float32 numbers are multiplied.
_NARROW = 69.0


#: Features from which a bundle is faster than one feature after the other. Chosen by hand.
LEAST_FEATURES = 4


@dataclass(frozen=True)
class Bundles:
    """Bundles of features, whose part in a city-block distance costs as much as two features.

    Where x is not 0 in one feature f of a bundle at most, and z in one feature g, the part of Σ |x − z| w
    along the bundle is |x_f − z_f| w_f for f = g, else |x_f| w_f + |z_g| w_g.
    Source: Ke et al. 2017 (LightGBM's bundles of exclusive features).

    alone : the features of no bundle; bundled : those of the first bundle, then of the second, …; ends :
    (bundles,), where each one ends in ``bundled``. In a feature of a bundle all points that are not 0 have
    the same number, ``heights`` (d,). places : (bundles, m), the feature of each point that is not 0, −1 if
    there is none; sizes : (bundles, m), its |z| w.
    """

    alone: IntArray
    bundled: IntArray
    ends: IntArray
    heights: FloatArray
    places: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, Z: FloatArray, weights: FloatArray) -> Self:
        """Find the bundles among neighbouring features of points Z (d, m). Time and memory O(d m)."""
        bundles, heights = [list[int]()], np.zeros(len(Z), Z.dtype)
        taken, points = np.zeros(Z.shape[1], bool), list[IntArray]()
        for feature, (z, filled) in enumerate(zip(Z, Z != 0, strict=True)):
            own = np.flatnonzero(filled)
            points.append(own)
            heights[feature] = z[own[0]] if own.size else 0
            alone = (z[own] != heights[feature]).any()
            if alone or taken[own].any():
                bundles.append([])
                taken[:] = False
            if not alone:
                bundles[-1].append(feature)
                taken[own] = True
        bundles = [each for each in bundles if len(each) >= LEAST_FEATURES]
        places = np.full((len(bundles), Z.shape[1]), -1, Z.dtype)
        sizes = np.zeros_like(places)
        for bundle, features in enumerate(bundles):
            for feature in features:
                places[bundle, points[feature]] = feature
                sizes[bundle, points[feature]] = abs(heights[feature]) * weights[feature]
        bundled = np.array([feature for each in bundles for feature in each], np.intp)
        ends = np.cumsum([len(each) for each in bundles]).astype(np.intp)
        return cls(np.setdiff1d(np.arange(len(Z)), bundled), bundled, ends, heights, places, sizes)


class CityblockColumns(Columns):
    r"""Columns of a kernel of ‖(x − z)/ℓ‖₁, by compiled loops or by SciPy and NumPy.

    Compiled loops (:mod:`gramian.kernels.compiled`) take the differences in float32 if rows, points and tile
    are, else in float64. All their terms are positive: the relative error of r is that of a sum.

    Without them distances are computed in float64 and rounded to the tile's dtype at the end. If a feature
    takes few values v_0, v_1, … among the points (one-hot columns, booleans, small counts), then
    |x − z| = |x − v_0| + Σ_l [z = v_l] (|x − v_l| − |x − v_0|) for any x. This is a number per row plus a
    product with zeros and ones, at a third of SciPy's cost for two values.

    exact : use no products. For kernels with an infinite slope at r = 0, for which rounding of r near 0
        matters.

    Products have a rounding error of u·Σ_f (max_f − min_f)/ℓ_f in r. They are not used if that could matter
    in an entry.
    """

    normalized = True

    def __init__(
        self,
        Z: Rows,
        dtype: DTypeLike | None,
        lengthscale: FloatArray,
        elementwise: ElementMap,
        *,
        exact: bool = False,
    ) -> None:
        super().__init__(Z.shape[0], tile_type(Z, dtype))
        self._elementwise = elementwise
        points = self._points = np.array(dense(Z), np.float64)
        inverse = np.broadcast_to(1.0 / lengthscale, (points.shape[1],)).astype(np.float64)
        self._few = None if exact else _few_values(points, inverse)
        several = np.setdiff1d(np.arange(points.shape[1]), [] if self._few is None else self._few.features)
        self._several = several if len(several) < points.shape[1] else None
        self._apart = None if self._several is None else np.ascontiguousarray(points[:, several])
        # float32 numbers stay what they are, if the inverse lengthscales leave room for products.
        self._narrow = self.dtype == Z.dtype == np.float32 and bool((np.abs(np.log(inverse)) < _NARROW).all())
        # A single number for all features is cheaper than a weight for each.
        self._inverse = 1.0 / lengthscale if lengthscale.size == 1 else inverse

    @cached_property
    def _by_feature(self) -> FloatArray:
        """The points (d, m) as compiled loops read them, made where the first tile is computed by these."""
        return np.array(self._points.T, self.dtype if self._narrow else np.float64, order="C")

    @cached_property
    def _bundles(self) -> Bundles:
        """The bundles of the points' features, with the weights of their distances."""
        return Bundles.of(self._by_feature, np.full(len(self._by_feature), self._inverse))

    def write(self, X: Rows, out: FloatArray) -> None:
        width = max(X.shape[1], self.n_columns)
        for rows in row_slices(X.shape[0], tile_rows(width, 8)):
            tile, part = out[rows], dense(X[rows])
            with np.errstate(over="ignore"):  # an infinite distance, whose exponential is zero
                if compiles():
                    distances_by_loop(part, self._by_feature, self._inverse, self._bundles, tile)
                else:
                    tile[...] = self._distances(part.astype(np.float64, copy=False))
            self._elementwise(tile)

    def _distances(self, X: Float64Array) -> Float64Array:
        few, several, apart = self._few, self._several, self._apart
        if few is None or several is None or apart is None:
            return minkowski(X, self._points, self._inverse)
        total = few.distances(X)
        if several.size:
            inverse = self._inverse if self._inverse.size == 1 else self._inverse[several]
            total += minkowski(X[:, several], apart, inverse)
        return total


def distances_by_loop(
    X: Array, Z: FloatArray, inverse: FloatArray, bundles: Bundles, out: FloatArray
) -> None:
    """Write Σ_f |x_if − z_fj| inverse_f into ``out`` (n, m) by a compiled loop; X is (n, d), Z (d, m).

    In float32 if both are (or X has small integers), else in float64. ``inverse`` has one number or d;
    ``bundles`` are those of Z with these weights.
    """
    work = np.float32 if np.result_type(X, Z) == np.float32 else np.float64
    features = bundles.alone, bundles.bundled, bundles.ends
    given = X, Z, np.full(len(Z), inverse), bundles.heights, bundles.places, bundles.sizes
    rows, columns, weights, *numbers = (np.ascontiguousarray(part, work) for part in given)
    run("cityblock", rows, columns, weights, *features, *numbers, out)


def minkowski(X: Float64Array, Z: Float64Array, inverse: FloatArray, p: float = 1.0) -> Float64Array:
    """Return ‖(x_i − z_j) · inverse‖_p of rows X (n, d) and Z (m, d).

    Scaling after the differences keeps the digits of data far from the origin.
    """
    metric: dict[str, Any] = {"metric": "cityblock"} if p == 1.0 else {"metric": "minkowski", "p": p}
    if inverse.size > 1:
        return cdist(X, Z, **metric, w=inverse**p)
    distances = cdist(X, Z, **metric)
    distances *= inverse
    return distances


@dataclass(frozen=True, slots=True)
class _FewValues:
    """Features that take few values among the points.

    features : (f,), their column numbers
    common, inverse : (f,), their most frequent value v_0, and 1/ℓ
    which, level : (t,), for each further value the place of its feature in ``features``, and the value
    indicator : (t, m), whether a point has the value
    """

    features: IntArray
    common: Float64Array
    inverse: Float64Array
    which: IntArray
    level: Float64Array
    indicator: Float64Array

    def distances(self, X: Float64Array) -> Float64Array:
        """Return the city-block distance along these features, at least 0, shape (n, m)."""
        part = X[:, self.features]
        base = np.abs(part - self.common) * self.inverse
        steps = np.abs(part[:, self.which] - self.level) * self.inverse[self.which]
        steps -= base[:, self.which]
        sums = steps @ self.indicator
        sums += base.sum(axis=1)[:, None]
        return np.clip(sums, 0.0, np.inf, out=sums)


def _few_values(points: Float64Array, inverse: Float64Array) -> _FewValues | None:
    """Find the features with few values, if products are accurate enough for them. Time O(m d log m)."""
    m = len(points)
    if m < LEAST_POINTS:
        return None
    first = np.sort(points[:FIRST_LOOK].T, axis=1)
    features = np.flatnonzero(_new_values(first).sum(axis=1) <= FEW_VALUES)
    ordered = np.sort(points[:, features].T, axis=1)
    few = _new_values(ordered).sum(axis=1) <= FEW_VALUES
    features, ordered = features[few], ordered[few]
    width = float((ordered[:, -1] - ordered[:, 0]) @ inverse[features])
    if not features.size or not width <= entry_tolerance(np.float64) / (32.0 * unit_roundoff(np.float64)):
        return None
    # Where each value begins, feature by feature, and how often it occurs.
    begins = np.flatnonzero(_new_values(ordered))
    which, level = begins // m, ordered.ravel()[begins]
    times = np.diff(begins, append=ordered.size)
    by_times = np.lexsort((-times, which))
    commonest = by_times[np.searchsorted(which, np.arange(len(features)))]
    others = np.setdiff1d(np.arange(len(which)), commonest)
    indicator = points[:, features[which[others]]] == level[others]
    return _FewValues(
        features,
        level[commonest],
        inverse[features],
        which[others],
        level[others],
        np.ascontiguousarray(indicator.T, np.float64),
    )


def _new_values(ordered: Float64Array) -> Array:
    """Return a mask of the places in each sorted row at which a new value begins."""
    return np.concatenate([np.ones((len(ordered), 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
