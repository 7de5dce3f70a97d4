"""Kernels of mapped rows: of some of the features, and of points on circles."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, as_rows, lengthscale_array, stored_lengthscale
from gramian.kernels.columns import Columns, ColumnsOf, dense, tile_type
from gramian.kernels.families import EuclideanKernel, Gaussian
from gramian.kernels.precomputed import Precomputed


@dataclass(frozen=True)
class Mapped(Kernel):
    """Base of kernels k(x, z) = kernel(T(x), T(z)), for which a class defines T as ``part``."""

    kernel: Kernel

    @abstractmethod
    def part(self, X: Rows) -> Any:
        """Return T of each row, shape (n, columns of T)."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return self.columns(self.kernel.against(self.part(Z), tile_type(Z, dtype)))

    def columns(self, inner: Columns) -> Columns:
        """Return columns of mapped rows, which are mapped tile by tile."""
        return ColumnsOf(inner.n_columns, inner.dtype, partial(self._write, inner))

    def _write(self, inner: Columns, X: Rows, out: FloatArray) -> None:
        for rows in row_slices(X.shape[0], tile_rows(inner.n_columns, inner.dtype.itemsize)):
            inner.write(self.part(X[rows]), out[rows])

    def diagonal(self, X: Rows) -> Float64Array:
        return self.kernel.diagonal(self.part(as_rows(X, "X")))

    @property
    def definite(self) -> bool:
        return self.kernel.definite


@dataclass(frozen=True)
class OnFeatures(Mapped):
    """k(x, z) = kernel(x_S, z_S), a kernel of the features S only.

    A product of such kernels gives each group of features its own kernel. A sum gives an additive model: a
    sum of functions of the groups.

    Parameters
    ----------
    kernel : any kernel of rows; its lengthscale has one number, or one for each feature of the group
    features : column numbers, without repeats

    The cost is that of the kernel on the narrower rows, and a copy of them tile by tile. Raises
    ``InputError`` for numbers that are not columns of the rows.

    >>> import numpy as np, gramian as gm
    >>> from gramian.kernels import OnFeatures
    >>> k = OnFeatures(gm.Gaussian(), (0,)) * OnFeatures(gm.Laplacian((1.0, 2.0)), (1, 2))
    >>> k(np.zeros((1, 3)), np.array([[1.0, 0.5, 1.0]])).round(4)  # exp(−1/2 − 1/2 − 1/2)
    array([[0.2231]])
    """

    features: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or isinstance(self.kernel, Precomputed):
            raise InputError(
                f"kernel={self.kernel!r} is not a kernel of rows. Give one such as "
                "gm.Gaussian(lengthscale=2.0)."
            )
        object.__setattr__(self, "features", _columns(self.features))

    def part(self, X: Rows) -> Any:
        """Return the columns of the group."""
        if max(self.features) >= X.shape[1]:
            raise InputError(
                f"features={self.features!r} names column {max(self.features)}, but the rows have "
                f"{X.shape[1]} features, numbered from 0. Give columns that they have."
            )
        return X[:, list(self.features)]


@dataclass(frozen=True)
class Periodic(Mapped):
    r"""k(x, z) = kernel(T(x), T(z)), T(x) = [cos 2πx_f/p_f, sin 2πx_f/p_f] for each feature f.

    With a Gaussian this is exp(−2 Σ_f sin²(π(x_f − z_f)/p_f)/ℓ²), scikit-learn's ``ExpSineSquared`` in one
    dimension. It repeats itself exactly; times a kernel of x − z it repeats itself nearly. It is positive
    semi-definite for any number of features, unlike exp(−2 sin²(π‖x − z‖/p)/ℓ²).

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        A kernel of ‖(x − z)/ℓ‖₂ with one lengthscale ℓ, in units of the circle's radius.
    period : float or sequence, default=1.0
        p, one number or one for each feature.

    The cost is that of the kernel on twice the features. Raises ``InputError`` for other kernels, and for
    periods that are not positive. For a lengthscale per feature multiply kernels of single features
    (:class:`OnFeatures`).

    Source: MacKay 1998, section 5 (warping of the inputs).

    >>> import numpy as np, gramian as gm
    >>> k = Periodic(gm.Gaussian(1.0), period=24.0)
    >>> k(np.array([[1.0]]), np.array([[25.0], [13.0]])).round(4)  # exp(−2) half a period away
    array([[1.    , 0.1353]])
    """

    kernel: Kernel = field(default_factory=Gaussian)
    period: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, EuclideanKernel) or not self.kernel.one_bandwidth:
            raise InputError(
                f"kernel={self.kernel!r} is no kernel of a Euclidean distance with one lengthscale. Give for "
                "example gm.Gaussian(lengthscale=1.0)."
            )
        object.__setattr__(self, "period", stored_lengthscale(self.period, "period"))

    def part(self, X: Rows) -> Float64Array:
        angles = self.angles(dense(X, np.float64))
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    def angles(self, X: Array) -> Float64Array:
        """Return 2πx_f/p_f, shape (n, features)."""
        scale = 2.0 * np.pi / lengthscale_array(self.period, X.shape[1], "period")
        return np.asarray(X * scale, np.float64)

    def by_period(self, X: Array, gradient: Float64Array) -> Float64Array:
        """Return Σ_i g_i · ∂T(x_i)/∂ln p of each period, for gradients g by T(x_i), shape (n, 2 features)."""
        angles, (by_cosine, by_sine) = self.angles(X), np.split(gradient, 2, axis=1)
        turned = np.sin(angles) * by_cosine - np.cos(angles) * by_sine
        each = np.asarray(np.einsum("if,if->f", angles, turned), np.float64)
        return each if isinstance(self.period, tuple) else each.sum(keepdims=True)

    def by_row(self, X: Array, gradient: Array) -> Float64Array:
        """Return the gradients by x from those by T(x): (n, 2 features, …) to (n, features, …)."""
        angles, (by_cosine, by_sine) = self.angles(X)[:, :, None], np.split(gradient, 2, axis=1)
        turned = np.cos(angles) * by_sine - np.sin(angles) * by_cosine
        return np.asarray(turned * (2.0 * np.pi / lengthscale_array(self.period, X.shape[1]))[:, None])


def _columns(features: Sequence[int] | Array) -> tuple[int, ...]:
    values = features.tolist() if isinstance(features, np.ndarray) else features
    good = isinstance(values, list | tuple | range) and len(values) > 0
    if good:
        good = all(
            isinstance(f, numbers.Integral) and not isinstance(f, bool) and int(f) >= 0 for f in values
        )
    if not good or len(set(values)) < len(values):
        raise InputError(
            f"features={features!r} must name columns by whole numbers from 0, each once, at least one. Give "
            "for example features=(0, 3)."
        )
    return tuple(int(f) for f in values)
