"""Features of which each point has at most one that is not 0, such as the one-hot columns of a category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramian._typing import FloatArray, IntArray

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
        found, heights = [list[int]()], np.zeros(len(Z), Z.dtype)
        taken, points = np.zeros(Z.shape[1], bool), list[IntArray]()
        for feature, (z, filled) in enumerate(zip(Z, Z != 0, strict=True)):
            own = np.flatnonzero(filled)
            points.append(own)
            heights[feature] = z[own[0]] if own.size else 0
            alone = (z[own] != heights[feature]).any()
            if alone or taken[own].any():
                found.append([])
                taken[:] = False
            if not alone:
                found[-1].append(feature)
                taken[own] = True
        found = [each for each in found if len(each) >= LEAST_FEATURES]
        places = np.full((len(found), Z.shape[1]), -1, Z.dtype)
        sizes = np.zeros_like(places)
        for bundle, features in enumerate(found):
            for feature in features:
                places[bundle, points[feature]] = feature
                sizes[bundle, points[feature]] = abs(heights[feature]) * weights[feature]
        bundled = np.array([feature for each in found for feature in each], np.intp)
        ends = np.cumsum([len(each) for each in found]).astype(np.intp)
        return cls(np.setdiff1d(np.arange(len(Z)), bundled), bundled, ends, heights, places, sizes)
