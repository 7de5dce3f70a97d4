"""Kernels of x − z: each family is one formula and a few lines of in-place arithmetic."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.special as special
from numpy.typing import DTypeLike

from gramian._checks import positive_number
from gramian._numerics import largest_exponent
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, as_rows, lengthscale_array, stored_lengthscale
from gramian.kernels.cityblock import CityblockColumns
from gramian.kernels.columns import Columns
from gramian.kernels.compiled import exp_in_place, map_by_loop
from gramian.kernels.euclidean import EuclideanColumns

Map = Callable[[Float64Array], Array]


@dataclass(frozen=True)
class Family(Kernel):
    """Base of kernels with a lengthscale, and what a family tells the rest of the library about itself.

    Override only what is known. Lengthscales of a family without a slope cannot be learned; a family without
    a measure has no random Fourier features. :data:`gramian.kernels.resolve.FAMILIES` lists the families.
    """

    #: Names in ``kernel=`` of estimators.
    names: ClassVar[tuple[str, ...]] = ()
    #: (c, p) if gamma stands for 1/(c·ℓ^p); None if gamma is ignored.
    gamma_rule: ClassVar[tuple[float, float] | None] = (1.0, 1.0)
    #: Whether k decreases with ‖(x − z)/ℓ‖₂, or with a larger norm.
    decreasing: ClassVar[bool] = False
    #: dk/d(r²) as a function of r² = ‖(x − z)/ℓ‖₂², 0 where it is infinite at r = 0; None if unknown.
    radial_slope: ClassVar[Any] = None
    #: dk/dp as a function of p = x·z/ℓ²; None if unknown.
    product_slope: ClassVar[Any] = None
    #: p of a kernel exp(−‖(x − z)/ℓ‖_p^q) with p other than 2; None for other kernels.
    norm_power: ClassVar[float | None] = None

    lengthscale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", stored_lengthscale(self.lengthscale))

    def _scales(self, Z: Rows) -> Float64Array:
        return lengthscale_array(self.lengthscale, Z.shape[1])

    @classmethod
    def by_name(cls, name: str, gamma: float) -> Self:
        """Return the kernel that one of the names stands for, with this gamma."""
        if cls.gamma_rule is None:
            return cls()
        factor, power = cls.gamma_rule
        return cls((factor * gamma) ** (-1.0 / power))

    @property
    def gamma(self) -> float | None:
        """The gamma that stands for the kernel's one lengthscale; None for families without one."""
        if self.gamma_rule is None or isinstance(self.lengthscale, tuple):
            return None
        factor, power = self.gamma_rule
        return float(1.0 / (factor * self.lengthscale**power))

    @property
    def has_gradient(self) -> bool:
        """Whether derivatives by the lengthscales are known."""
        known = (self.radial_slope, self.product_slope, self.norm_power)
        return any(one is not None for one in known)


class Stationary(Family):
    """k(x, x) = 1."""

    #: Whether the spectral measure is known: w = √s·g/ℓ with g standard normal and s from ``mixing``.
    has_measure: ClassVar[bool] = False
    #: Quantile function of s in w = √s·g/ℓ; None if s is always 1.
    mixing: ClassVar[Any] = None

    @property
    def one_bandwidth(self) -> bool:
        return not isinstance(self.lengthscale, tuple) or len(self.lengthscale) == 1

    def diagonal(self, X: Rows) -> Float64Array:
        return np.ones(as_rows(X, "X").shape[0])


class EuclideanKernel(Stationary):
    """Base of kernels of r² = ‖(x − z)/ℓ‖₂², for which a family defines ``map_tile``.

    A family may also set ``distance_factor``, which r² is multiplied by before, and ``slope``. The page
    "Where do I add …" of the documentation has an example.
    """

    #: The map receives a tile of ``distance_factor`` · r².
    distance_factor = 1.0
    #: Largest size of dk/d(r²), by which an error of r² enters k. Every family also has r² times it below 1.
    slope = 1.0

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return EuclideanColumns(
            Z, dtype, self._scales(Z), self.distance_factor, self.map_tile, slope=self.slope
        )

    @abstractmethod
    def map_tile(self, t: FloatArray) -> None:
        """Turn a tile of ``distance_factor`` · r² into kernel values, in place."""


@dataclass(frozen=True)
class Gaussian(EuclideanKernel):
    """k(x, z) = exp(−‖(x − z)/ℓ‖²/2); scikit-learn's ``rbf`` with gamma = 1/(2ℓ²)."""

    names = ("rbf", "gaussian")
    gamma_rule = (2.0, 2.0)
    decreasing = has_measure = True
    distance_factor = -0.5
    slope = 0.5

    def map_tile(self, t: FloatArray) -> None:
        exp_in_place(t)

    def radial_slope(self, t: Float64Array) -> Array:
        return -0.5 * np.exp(-0.5 * t)


@dataclass(frozen=True)
class Exponential(EuclideanKernel):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₂), the Matérn kernel with ν = 1/2 (BBF's "Laplacian")."""

    names = ("exponential", "matern12")
    decreasing = has_measure = True
    slope = float("inf")

    def map_tile(self, t: FloatArray) -> None:
        exp_of_power(t, 0.5)

    def radial_slope(self, t: Float64Array) -> Array:
        return _halved_exponential(np.sqrt(t))

    def mixing(self, u: Float64Array) -> Array:
        return _half_gamma(u)  # w is Student's t with one degree of freedom, the Cauchy distribution


@dataclass(frozen=True)
class Matern(EuclideanKernel):
    """Matérn kernel of smoothness ν with r = ‖(x − z)/ℓ‖₂.

    ν = 1/2: exp(−r); ν = 3/2: (1 + √3 r) exp(−√3 r); ν = 5/2: (1 + √5 r + 5r²/3) exp(−√5 r).
    Source: Rasmussen and Williams 2006, equation 4.17.
    """

    names = ("matern32", "matern52")
    decreasing = has_measure = True

    nu: float = 1.5

    @classmethod
    def by_name(cls, name: str, gamma: float) -> Self:
        return cls(1.0 / gamma, nu=1.5 if name == "matern32" else 2.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if positive_number("nu", self.nu) not in (0.5, 1.5, 2.5):
            raise InputError(f"nu={self.nu!r} is not a smoothness offered here. Give 0.5, 1.5 or 2.5.")
        object.__setattr__(self, "nu", float(self.nu))

    @property
    def slope(self) -> float:  # type: ignore[override]
        return {0.5: float("inf"), 1.5: 3.0 / 2.0, 2.5: 5.0 / 6.0}[self.nu]

    def map_tile(self, t: FloatArray) -> None:
        if self.nu == 0.5:
            exp_of_power(t, 0.5)
            return
        square = 1.0 / 3.0 if self.nu == 2.5 else 0.0
        if map_by_loop("matern", t, 2.0 * self.nu, square):
            return
        t *= 2.0 * self.nu
        np.sqrt(t, out=t)
        # Beyond this limit exp(−t) is zero, and t² must stay finite.
        np.clip(t, -np.inf, largest_exponent(t.dtype), out=t)
        polynomial = t + 1.0
        if square:
            polynomial += t * t * square
        _exp_negative(t)
        t *= polynomial

    def radial_slope(self, t: Float64Array) -> Array:
        s = np.sqrt(2.0 * self.nu * t)
        if self.nu == 0.5:
            return _halved_exponential(s)
        return np.exp(-s) * (-1.5 if self.nu == 1.5 else -(5.0 / 6.0) * (1.0 + s))

    def mixing(self, u: Float64Array) -> Array:
        # s = ν/Gamma(ν), which makes w Student's t with 2ν degrees of freedom.
        return np.asarray(self.nu / special.gammaincinv(self.nu, u))


@dataclass(frozen=True)
class RationalQuadratic(EuclideanKernel):
    """k(x, z) = (1 + ‖(x − z)/ℓ‖²/(2·shape))^(−shape), a scale mixture of Gaussians."""

    names = ("rational_quadratic",)
    gamma_rule = (2.0, 2.0)
    decreasing = has_measure = True
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

    def radial_slope(self, t: Float64Array) -> Array:
        return -0.5 * (1.0 + t / (2.0 * self.shape)) ** (-self.shape - 1.0)

    def mixing(self, u: Float64Array) -> Array:
        return np.asarray(special.gammaincinv(self.shape, u) / self.shape)


@dataclass(frozen=True)
class Cauchy(EuclideanKernel):
    """k(x, z) = 1/(1 + ‖(x − z)/ℓ‖²)."""

    names = ("cauchy",)
    gamma_rule = (1.0, 2.0)
    decreasing = has_measure = True

    def map_tile(self, t: FloatArray) -> None:
        t += 1.0
        np.reciprocal(t, out=t)

    def radial_slope(self, t: Float64Array) -> Array:
        return -((1.0 + t) ** -2.0)

    def mixing(self, u: Float64Array) -> Array:
        return np.asarray(2.0 * special.gammaincinv(1.0, u))


@dataclass(frozen=True)
class Laplacian(Stationary):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₁); scikit-learn's ``laplacian`` with gamma = 1/ℓ."""

    names = ("laplacian",)
    decreasing = has_measure = True
    norm_power = 1.0

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return CityblockColumns(Z, dtype, self._scales(Z), _exp_negative)

    def mixing(self, u: Float64Array) -> Array:
        return _half_gamma(u)  # for each feature by itself


def exp_of_power(t: FloatArray, power: float) -> None:
    """Replace t by exp(−t^power)."""
    if power == 0.5:
        np.sqrt(t, out=t)
    elif power != 1.0:
        if map_by_loop("powered", t, power):
            return
        np.power(t, power, out=t)
    _exp_negative(t)


def _exp_negative(t: FloatArray) -> None:
    np.negative(t, out=t)
    exp_in_place(t)


def _halved_exponential(r: Float64Array) -> Float64Array:
    """Return d exp(−r)/d(r²) = −exp(−r)/(2 r); 0 at r = 0."""
    safe = np.where(r > 0, r, 1.0)
    return np.where(r > 0, -0.5 * np.exp(-r) / safe, 0.0)


def _half_gamma(u: Float64Array) -> Float64Array:
    """Return the quantiles of 1/(2·Gamma(1/2)), the mixture of a Cauchy distribution."""
    return np.asarray(0.5 / special.gammaincinv(0.5, u))
