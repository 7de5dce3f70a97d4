"""Powered exponential kernel, the family between Laplacian, exponential and Gaussian kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist

from gramian._checks import positive_number
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.cityblock import CityblockColumns
from gramian.kernels.columns import Columns, ElementMap, dense, float_type
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
        work = float_type(Z) if dtype is None else dtype
        scales = self._scales(Z)
        if self.p == 2.0:
            smooth = self.q == 2.0
            slope = 1.0 if smooth else float("inf")
            return EuclideanColumns(Z, work, scales, 1.0, self._of_squares, slope=slope, order=self.q)
        if self.p == 1.0:
            return CityblockColumns(Z, work, scales, self._of_norms, exact=self.q < 1.0)
        return MinkowskiColumns(Z, work, scales, self._of_norms, self.p)

    @property
    def radial_slope(self) -> Map | None:
        return self._slope if self.p == 2.0 else None

    @property
    def norm_power(self) -> float | None:
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
        (self._of_squares if self.p == 2.0 else self._of_norms)(out)

    def _of_squares(self, t: FloatArray) -> None:
        exp_of_power(t, 0.5 * self.q)

    def _of_norms(self, t: FloatArray) -> None:
        exp_of_power(t, self.q)


def powered_distances(X: Rows, Z: Rows, p: float, out: FloatArray) -> None:
    """Write ‖x − z‖_p of all pairs into ``out`` (n, m), squared for p = 2, to share among many ℓ and q."""
    columns: Columns
    one, dtype = np.ones(1), out.dtype
    if p == 2.0:
        # The sharpest of these kernels has an infinite slope and needs the most digits near 0.
        columns = EuclideanColumns(Z, dtype, one, 1.0, _as_they_are, slope=float("inf"))
    elif p == 1.0:
        columns = CityblockColumns(Z, dtype, one, _as_they_are)
    else:
        columns = MinkowskiColumns(Z, dtype, one, _as_they_are, p)
    columns.into(X, out)


def _as_they_are(t: FloatArray) -> None:
    """Leave distances as they are."""


class MinkowskiColumns(Columns):
    """Columns of a kernel of ‖(x − z)/ℓ‖_p, by SciPy's distances (float64) per tile."""

    def __init__(
        self, Z: Rows, dtype: DTypeLike, lengthscale: Float64Array, elementwise: ElementMap, p: float
    ) -> None:
        super().__init__(Z.shape[0], dtype)
        self._elementwise, self._p = elementwise, p
        self._inverse = 1.0 / lengthscale
        self._points = np.array(dense(Z), np.float64)

    def into(self, X: Rows, out: FloatArray) -> None:
        for rows in row_slices(X.shape[0], tile_rows(max(self._points.shape), 8)):
            part, tile = dense(X[rows], np.float64), out[rows]
            with np.errstate(over="ignore"):  # an infinite distance, whose exponential is zero
                tile[...] = minkowski(part, self._points, self._inverse, self._p)
            self._elementwise(tile)


def minkowski(X: Float64Array, Z: Float64Array, inverse: Float64Array, p: float) -> Float64Array:
    """Return ‖(x_i − z_j) · inverse‖_p; scaling after the differences keeps digits far from the origin."""
    if inverse.size == 1:
        found = cdist(X, Z, "minkowski", p=p)
        found *= inverse
        return found
    return cdist(X, Z, "minkowski", p=p, w=inverse**p)
