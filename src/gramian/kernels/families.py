"""The kernel families: each is one displayed formula and a few lines of in-place arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, lengthscale_array, positive, stored_lengthscale
from gramian.kernels.columns import (
    CityblockColumns,
    Columns,
    DotColumns,
    EuclideanColumns,
    float_type,
)


@dataclass(frozen=True)
class _Lengthscale(Kernel):
    lengthscale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", stored_lengthscale(self.lengthscale))

    def _scales(self, Z: Rows) -> FloatArray:
        return lengthscale_array(self.lengthscale, Z.shape[1])


class _Stationary(_Lengthscale):
    """k(x, x) = 1."""

    def diagonal(self, X: Rows) -> FloatArray:
        return np.ones(X.shape[0], float_type(X))


class _Euclidean(_Stationary):
    """A function of r² = ‖(x − z)/ℓ‖₂²; ``_map`` receives factor · r² and works in place."""

    _factor = 1.0
    #: False where dk/d(r²) is unbounded at 0, so that float32 distances are not good enough.
    _smooth = True

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return EuclideanColumns(Z, work, self._scales(Z), self._factor, self._map, smooth=self._smooth)

    def _map(self, t: FloatArray) -> None:
        raise AssertionError("each family defines its map")


class Gaussian(_Euclidean):
    """k(x, z) = exp(−‖(x − z)/ℓ‖²/2); scikit-learn's ``rbf`` with gamma = 1/(2ℓ²)."""

    _factor = -0.5

    def _map(self, t: FloatArray) -> None:
        np.exp(t, out=t)


class Exponential(_Euclidean):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₂), the Matérn kernel with ν = 1/2 (BBF's "Laplacian")."""

    _smooth = False

    def _map(self, t: FloatArray) -> None:
        np.sqrt(t, out=t)
        np.negative(t, out=t)
        np.exp(t, out=t)


@dataclass(frozen=True)
class Matern(_Euclidean):
    """Matérn kernel of smoothness ν with r = ‖(x − z)/ℓ‖₂.

    ν = 1/2: exp(−r); ν = 3/2: (1 + √3 r) exp(−√3 r); ν = 5/2: (1 + √5 r + 5r²/3) exp(−√5 r).
    Source: Rasmussen and Williams 2006, equation 4.17.
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise InputError(f"nu={self.nu!r} is not one of 0.5, 1.5, 2.5.")

    @property
    def _smooth(self) -> bool:  # type: ignore[override]
        return self.nu > 0.5

    def _map(self, t: FloatArray) -> None:
        t *= 2.0 * self.nu
        np.sqrt(t, out=t)
        if self.nu == 0.5:
            polynomial: FloatArray | float = 1.0
        elif self.nu == 1.5:
            polynomial = 1.0 + t
        else:
            polynomial = 1.0 + t + t * t * (1.0 / 3.0)
        np.negative(t, out=t)
        np.exp(t, out=t)
        t *= polynomial


@dataclass(frozen=True)
class RationalQuadratic(_Euclidean):
    """k(x, z) = (1 + ‖(x − z)/ℓ‖²/(2·shape))^(−shape), a scale mixture of Gaussians."""

    shape: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("shape", self.shape)

    def _map(self, t: FloatArray) -> None:
        t *= 0.5 / self.shape
        np.log1p(t, out=t)
        t *= -self.shape
        np.exp(t, out=t)


class Cauchy(_Euclidean):
    """k(x, z) = 1/(1 + ‖(x − z)/ℓ‖²)."""

    def _map(self, t: FloatArray) -> None:
        t += 1.0
        np.reciprocal(t, out=t)


class Laplacian(_Stationary):
    """k(x, z) = exp(−‖(x − z)/ℓ‖₁); scikit-learn's ``laplacian`` with gamma = 1/ℓ."""

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return CityblockColumns(Z, work, self._scales(Z), _exp_negative)


class _Dot(_Lengthscale):
    def _map(self, t: FloatArray) -> None:
        """The linear kernel leaves the product as it is."""

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return DotColumns(Z, work, self._scales(Z), self._map)

    def diagonal(self, X: Rows) -> FloatArray:
        values = _squared_norms(X, self._scales(X))
        self._map(values)
        return values.astype(float_type(X), copy=False)


class Linear(_Dot):
    """k(x, z) = x·z/ℓ²."""


@dataclass(frozen=True)
class Polynomial(_Dot):
    """k(x, z) = (x·z/ℓ² + offset)^degree; scikit-learn's ``poly`` with gamma = 1/ℓ²."""

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.degree, bool) or int(self.degree) != self.degree or self.degree < 1:
            raise InputError(f"degree={self.degree!r} must be a whole number of at least 1.")
        if not self.offset >= 0:
            raise InputError(f"offset={self.offset!r} must be at least 0, else the kernel is not positive.")

    def _map(self, t: FloatArray) -> None:
        t += self.offset
        np.power(t, int(self.degree), out=t)


class Cosine(_Lengthscale):
    """k(x, z) = x·z/(‖x‖‖z‖) in units of ℓ; a row of zeros has the value 0 with every other."""

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return DotColumns(Z, work, self._scales(Z), _leave, normalize=True)

    def diagonal(self, X: Rows) -> FloatArray:
        return (_squared_norms(X, self._scales(X)) > 0).astype(float_type(X))


def _exp_negative(t: FloatArray) -> None:
    np.negative(t, out=t)
    np.exp(t, out=t)


def _leave(t: FloatArray) -> None:
    """The cosine is the product of the normalised rows."""


def _squared_norms(X: Rows, lengthscale: FloatArray) -> FloatArray:
    if sp.issparse(X):
        scaled = X.astype(np.float64).multiply(1.0 / lengthscale).tocsr()
        return np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
    weights = np.broadcast_to(1.0 / lengthscale**2, (X.shape[1],))
    return np.einsum("ij,ij,j->i", X, X, weights, dtype=np.float64)
