"""Powered exponential kernel, the family between Laplacian, exponential and Gaussian kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from gramian._checks import positive_number
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.cityblock import CityblockColumns, minkowski
from gramian.kernels.columns import Columns, ColumnsOf, ElementMap, dense, leave, tile_type
from gramian.kernels.euclidean import EuclideanColumns
from gramian.kernels.families import Map, Stationary, exp_of_power


@dataclass(frozen=True)
class PoweredExponential(Stationary):
    r"""k(x, z) = exp(−‖(x − z)/ℓ‖_p^q) with 0 < q ≤ p ≤ 2, where it is positive semi-definite.

    p = q = 2 is a Gaussian of lengthscale ℓ/√2, p = 2 and q = 1 is :class:`Exponential`, and p = q = 1 is
    :class:`Laplacian`. p = 2 treats all directions alike, p = 1 treats features separately. A smaller q gives
    a sharper peak at x = z, which suits targets with jumps. With q = p the kernel is a product over the
    features.

    Parameters
    ----------
    lengthscale : float or sequence, default=1.0
        ℓ, one number or one per feature.
    p : float, default=2.0
        Power of the norm: 0 < p ≤ 2.
    q : float, default=1.0
        Power of the distance: 0 < q ≤ p.

    The cost of a tile is that of :class:`Gaussian` for p = 2 and of :class:`Laplacian` for p = 1. Other p
    take a power per feature, which is ten to thirty times slower. Raises ``InputError`` outside the range,
    because eigenvalues of the Gram matrix could be negative there.

    Source: Schoenberg 1938 (the range); Beaglehole et al. 2025, xRFM (these kernels for tables).

    >>> import numpy as np
    >>> PoweredExponential(2.0, p=1.0, q=0.5)(np.array([[0.0, 1.0]]), np.array([[4.0, 5.0]])).round(4)
    array([[0.1353]])
    """

    names = ("powered_exponential",)
    decreasing = True

    p: float = 2.0
    q: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        p, q = positive_number("p", self.p), positive_number("q", self.q)
        if not q <= p <= 2.0:
            raise InputError(
                f"p={self.p!r} and q={self.q!r} are out of range: exp(−‖x − z‖_p^q) is positive "
                "semi-definite only for 0 < q <= p <= 2. Give for example p=1.0, q=0.7."
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return _norms(Z, dtype, self._scales(Z), self.p, self.q, self.map_tile)

    @property
    def radial_slope(self) -> Map | None:
        return self._slope if self.p == 2.0 else None

    @property
    def norm_power(self) -> float | None:  # type: ignore[override]
        return None if self.p == 2.0 else self.p

    def _slope(self, t: Float64Array) -> Float64Array:
        """Return d exp(−t^h)/dt = −h t^(h − 1) exp(−t^h), h = q/2; 0 at t = 0 if infinite."""
        half = 0.5 * self.q
        if half == 1.0:
            return -np.exp(-t)
        safe = np.where(t > 0, t, 1.0)
        return np.where(t > 0, -half * safe ** (half - 1.0) * np.exp(-(safe**half)), 0.0)

    def of_distances(self, distances: FloatArray, out: FloatArray) -> None:
        """Write k into ``out`` from :func:`powered_distances`, where ℓ is one number."""
        power = 2.0 if self.p == 2.0 else 1.0
        np.multiply(distances, float(self._scales(distances).item()) ** -power, out=out)
        self.map_tile(out)

    def map_tile(self, t: FloatArray) -> None:
        exp_of_power(t, 0.5 * self.q if self.p == 2.0 else self.q)


def powered_distances(X: Rows, Z: Rows, p: float, out: FloatArray) -> None:
    """Write ‖x − z‖_p of all pairs into ``out`` (n, m), squared for p = 2, to share among many ℓ and q."""
    # The sharpest of these kernels has an infinite slope and needs the most digits near 0.
    _norms(Z, out.dtype, np.ones(1), p, 1.0, leave).write(X, out)


def _norms(
    Z: Rows, dtype: DTypeLike | None, scales: Float64Array, p: float, q: float, elementwise: ElementMap
) -> Columns:
    """Return columns of ‖(x − z)/ℓ‖_p, squared for p = 2, as accurate as exp(−‖·‖_p^q) needs them."""
    if p == 2.0:
        slope = 1.0 if q == 2.0 else float("inf")
        return EuclideanColumns(Z, dtype, scales, 1.0, elementwise, slope=slope, order=q)
    if p == 1.0:
        return CityblockColumns(Z, dtype, scales, elementwise, exact=q < 1.0)
    points = np.array(dense(Z), np.float64)
    write = partial(_write_minkowski, points, 1.0 / scales, p, elementwise)
    return ColumnsOf(len(points), tile_type(Z, dtype), write)


def _write_minkowski(
    points: Float64Array, inverse: Float64Array, p: float, elementwise: ElementMap, X: Rows, out: FloatArray
) -> None:
    """Write a kernel of ‖(x − z)/ℓ‖_p, by SciPy's distances (float64) per tile."""
    for rows in row_slices(X.shape[0], tile_rows(max(points.shape), 8)):
        part, tile = dense(X[rows], np.float64), out[rows]
        with np.errstate(over="ignore"):  # an infinite distance, whose exponential is zero
            tile[...] = minkowski(part, points, inverse, p)
        elementwise(tile)
