"""Kernels of mapped rows: on a subset of the features, to combine into sums and products over groups."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, as_rows
from gramian.kernels.columns import Columns, float_type
from gramian.kernels.precomputed import Precomputed


@dataclass(frozen=True)
class Mapped(Kernel):
    """Base of kernels k(x, z) = kernel(T(x), T(z)), for which a class defines T as ``part``."""

    kernel: Kernel

    @abstractmethod
    def part(self, X: Rows) -> Any:
        """Return T of each row, shape (n, columns of T)."""

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        work = float_type(Z) if dtype is None else dtype
        return MappedColumns(self.kernel.against(self.part(Z), work), self)

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


class MappedColumns(Columns):
    """Columns of a kernel of mapped rows, which are mapped tile by tile."""

    def __init__(self, inner: Columns, mapped: Mapped) -> None:
        super().__init__(inner.n_columns, inner.dtype)
        self._inner, self._mapped = inner, mapped

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the evaluator holds."""
        return self._inner.nbytes

    def into(self, X: Rows, out: FloatArray) -> None:
        for rows in row_slices(X.shape[0], tile_rows(self.n_columns, self.dtype.itemsize)):
            self._inner.into(self._mapped.part(X[rows]), out[rows])


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
