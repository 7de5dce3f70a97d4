"""Kernel families: each is one formula and a few lines of in-place arithmetic."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from gramian._checks import positive_number
from gramian._numerics import exp_in_place, largest_exponent
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, as_rows, lengthscale_array, stored_lengthscale
from gramian.kernels.cityblock import CityblockColumns
from gramian.kernels.columns import Columns, DotColumns, float_type, squared_norms
from gramian.kernels.euclidean import EuclideanColumns

#: Up to this degree repeated multiplication is faster than ``np.power``. Chosen by hand.
MULTIPLIED_DEGREE = 8


@dataclass(frozen=True)
class _Lengthscale(Kernel):
    lengthscale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", stored_lengthscale(self.lengthscale))

    def _scales(self, Z: Rows) -> Float64Array:
        return lengthscale_array(self.lengthscale, Z.shape[1])


class _Stationary(_Lengthscale):
    """k(x, x) = 1."""

    @property
    def one_bandwidth(self) -> bool:
        return not isinstance(self.lengthscale, tuple) or len(self.lengthscale) == 1

    def diagonal(self, X: Rows) -> Float64Array:
        return np.ones(as_rows(X, "X").shape[0])


class EuclideanKernel(_Stationary):
    """Base of kernels of r² = ‖(x − z)/ℓ‖₂², for which a family defines ``map_tile``.

    A family may also set ``distance_factor``, which r² is multiplied by before, and ``slope``. The page
    "Where do I add …" of the documentation has an example.
    """

    #: The map receives a tile of ``distance_factor`` · r².
    distance_factor = 1.0
    #: Largest size of dk/d(r²), by which an error of r² enters k. Every family also has r² times it below 1.
    slope = 1.0

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return EuclideanColumns(
            Z, work, self._scales(Z), self.distance_factor, self.map_tile, slope=self.slope
        )

    @abstractmethod
    def map_tile(self, t: FloatArray) -> None:
        """Turn a tile of ``distance_factor`` · r² into kernel values, in place."""


@dataclass(frozen=True)
class Gaussian(EuclideanKernel):
    """k(x, z) = exp(−‖(x − z)/ℓ‖²/2); scikit-learn's ``rbf`` with gamma = 1/(2ℓ²)."""

    distance_factor = -0.5
    slope = 0.5

    def map_tile(self, t: FloatArray) -> None:
        exp_in_place(t)


@dataclass(frozen=True)
class Exponential(EuclideanKernel):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₂), the Matérn kernel with ν = 1/2 (BBF's "Laplacian")."""

    slope = float("inf")

    def map_tile(self, t: FloatArray) -> None:
        np.sqrt(t, out=t)
        _exp_negative(t)


@dataclass(frozen=True)
class Matern(EuclideanKernel):
    """Matérn kernel of smoothness ν with r = ‖(x − z)/ℓ‖₂.

    ν = 1/2: exp(−r); ν = 3/2: (1 + √3 r) exp(−√3 r); ν = 5/2: (1 + √5 r + 5r²/3) exp(−√5 r).
    Source: Rasmussen and Williams 2006, equation 4.17.
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if positive_number("nu", self.nu) not in (0.5, 1.5, 2.5):
            raise InputError(f"nu={self.nu!r} is not a smoothness offered here. Give 0.5, 1.5 or 2.5.")
        object.__setattr__(self, "nu", float(self.nu))

    @property
    def slope(self) -> float:  # type: ignore[override]
        return {0.5: float("inf"), 1.5: 3.0 / 2.0, 2.5: 5.0 / 6.0}[self.nu]

    def map_tile(self, t: FloatArray) -> None:
        t *= 2.0 * self.nu
        np.sqrt(t, out=t)
        if self.nu == 0.5:
            _exp_negative(t)
            return
        # Beyond this limit exp(−t) is zero, and t² must stay finite.
        np.clip(t, -np.inf, largest_exponent(t.dtype), out=t)
        polynomial = t + 1.0
        if self.nu == 2.5:
            polynomial += t * t * (1.0 / 3.0)
        _exp_negative(t)
        t *= polynomial


@dataclass(frozen=True)
class RationalQuadratic(EuclideanKernel):
    """k(x, z) = (1 + ‖(x − z)/ℓ‖²/(2·shape))^(−shape), a scale mixture of Gaussians."""

    slope = 0.5
    shape: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shape", positive_number("shape", self.shape))

    def map_tile(self, t: FloatArray) -> None:
        t *= 0.5 / self.shape
        np.log1p(t, out=t)
        t *= -self.shape
        exp_in_place(t)


@dataclass(frozen=True)
class Cauchy(EuclideanKernel):
    """k(x, z) = 1/(1 + ‖(x − z)/ℓ‖²)."""

    def map_tile(self, t: FloatArray) -> None:
        t += 1.0
        np.reciprocal(t, out=t)


@dataclass(frozen=True)
class Laplacian(_Stationary):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₁); scikit-learn's ``laplacian`` with gamma = 1/ℓ."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return CityblockColumns(Z, work, self._scales(Z), _exp_negative)


class _Dot(_Lengthscale):
    def map_tile(self, t: FloatArray) -> None:
        """Leave the product as it is, for the linear kernel."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return DotColumns(Z, work, self._scales(Z), self.map_tile)

    def diagonal(self, X: Rows) -> Float64Array:
        X = as_rows(X, "X")
        values = squared_norms(X, self._scales(X) ** -2.0)
        self.map_tile(values)
        return values


@dataclass(frozen=True)
class Linear(_Dot):
    """k(x, z) = x·z/ℓ²."""


@dataclass(frozen=True)
class Polynomial(_Dot):
    """k(x, z) = (x·z/ℓ² + offset)^degree; scikit-learn's ``poly`` with gamma = 1/ℓ²."""

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        degree = positive_number("degree", self.degree)
        if not degree.is_integer():
            raise InputError(f"degree={self.degree!r} is not whole; give an integer of at least 1.")
        object.__setattr__(self, "degree", int(degree))
        offset = self.offset
        if isinstance(offset, bool) or not isinstance(offset, numbers.Real) or not 0 <= offset < float("inf"):
            raise InputError(
                f"offset={offset!r} is not a number of at least 0. Give offset >= 0, else the kernel is "
                "not positive semi-definite."
            )
        object.__setattr__(self, "offset", float(offset))

    def map_tile(self, t: FloatArray) -> None:
        t += self.offset
        if self.degree > MULTIPLIED_DEGREE:
            np.power(t, self.degree, out=t)
            return
        base = t.copy() if self.degree > 1 else t
        for _ in range(self.degree - 1):
            t *= base


@dataclass(frozen=True)
class Cosine(_Lengthscale):
    """k(x, z) = x·z/(‖x‖‖z‖) in units of ℓ; it is 0 if x or z is zero."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return DotColumns(Z, work, self._scales(Z), _leave, normalize=True)

    def diagonal(self, X: Rows) -> Float64Array:
        X = as_rows(X, "X")
        return (squared_norms(X, self._scales(X) ** -2.0) > 0).astype(np.float64)


def _exp_negative(t: FloatArray) -> None:
    np.negative(t, out=t)
    exp_in_place(t)


def _leave(t: FloatArray) -> None:
    """Leave the product of normalised rows as it is: it is the cosine."""
