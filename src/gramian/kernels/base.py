"""What a kernel is: a frozen value that evaluates blocks k(X, Z) by tiles, and its algebra."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, FloatArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.columns import (
    CallableColumns,
    Columns,
    PairColumns,
    ScaledColumns,
    float_type,
)

#: Rows that one task prepares at once; the evaluator cuts them into tiles.
CHUNK_ROWS = 1024


class Kernel(ABC):
    """A positive semi-definite function k(x, z), evaluated a block at a time.

    ``k(X, Z)`` is the block of shape (n, m) (``Z=None`` means X), ``k.diagonal(X)`` the values
    k(x_i, x_i), ``k.matvec(X, Z, V)`` the product k(X, Z) @ V without storing the block, and
    ``k.against(Z)`` the evaluator that all three and every algorithm share. Kernels add, multiply
    and scale: ``2.0 * k1 + k1 * k2``.

    >>> import numpy as np, gramian as gm
    >>> k = 2.0 * gm.Gaussian(lengthscale=1.5) + gm.Linear()
    >>> k(np.eye(3)).shape
    (3, 3)
    """

    @abstractmethod
    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        """Prepare the evaluator of k(·, Z); ``dtype`` is that of its tiles."""

    @abstractmethod
    def diagonal(self, X: Rows) -> FloatArray:
        """Return k(x_i, x_i) for each row, shape (n,). Time O(n d) at most."""

    def __call__(
        self, X: Rows, Z: Rows | None = None, *, dtype: Any = None, n_jobs: int | None = None
    ) -> FloatArray:
        """Return the block k(X, Z), shape (n, m), in float32 if both inputs are, else float64.

        Time O(n m d), memory O(n m) for the answer and one tile per thread beside it.
        """
        X, other = _rows(X, "X"), None if Z is None else _rows(Z, "Z")
        points = X if other is None else other
        _same_width(X, points)
        work = float_type(X, points) if dtype is None else np.dtype(dtype)
        columns = self.against(points, work)
        out = np.empty((X.shape[0], points.shape[0]), work)

        def fill(rows: slice) -> None:
            columns.into(X[rows], out[rows])

        tiles = row_slices(X.shape[0], CHUNK_ROWS)
        Engine(n_jobs).run(fill, tiles)
        if other is None:
            np.fill_diagonal(out, self.diagonal(X))
        return out

    def matvec(self, X: Rows, Z: Rows | None, V: Array, *, n_jobs: int | None = None) -> FloatArray:
        """Return k(X, Z) @ V, shape of V with n rows, never storing the block.

        Time O(n m (d + columns of V)), memory O(m d + n) and one tile per thread.
        """
        X = _rows(X, "X")
        points = X if Z is None else _rows(Z, "Z")
        _same_width(X, points)
        V = np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != points.shape[0]:
            raise InputError(
                f"V has shape {V.shape}, but k(X, Z) has {points.shape[0]} columns. Pass V with "
                f"shape ({points.shape[0]},) or ({points.shape[0]}, columns)."
            )
        work = float_type(X, points)
        columns = self.against(points, work)
        out = np.empty((X.shape[0], *V.shape[1:]), np.result_type(work, V.dtype))

        def fill(rows: slice) -> None:
            out[rows] = columns(X[rows]) @ V

        Engine(n_jobs).run(fill, row_slices(len(out), tile_rows(points.shape[0], work.itemsize)))
        return out

    def __add__(self, other: Kernel) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(self, other)

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, numbers.Real):
            return Scaled(float(other), self)
        return NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self.__mul__(other)


@dataclass(frozen=True)
class Sum(Kernel):
    """k(x, z) = left(x, z) + right(x, z)."""

    left: Kernel
    right: Kernel

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        return PairColumns(self.left.against(Z, dtype), self.right.against(Z, dtype), np.add)

    def diagonal(self, X: Rows) -> FloatArray:
        return self.left.diagonal(X) + self.right.diagonal(X)


@dataclass(frozen=True)
class Product(Kernel):
    """k(x, z) = left(x, z) · right(x, z)."""

    left: Kernel
    right: Kernel

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        return PairColumns(self.left.against(Z, dtype), self.right.against(Z, dtype), np.multiply)

    def diagonal(self, X: Rows) -> FloatArray:
        return self.left.diagonal(X) * self.right.diagonal(X)


@dataclass(frozen=True)
class Scaled(Kernel):
    """k(x, z) = factor · kernel(x, z), factor > 0."""

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        positive("factor", self.factor)

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        return ScaledColumns(self.kernel.against(Z, dtype), self.factor)

    def diagonal(self, X: Rows) -> FloatArray:
        return self.factor * self.kernel.diagonal(X)


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A user's function f(X, Z) → array of shape (n, m), as a kernel.

    It must be symmetric and positive semi-definite; it is called with row blocks of X from several
    threads. Models with it can be pickled if the function can, but not saved to a file.
    """

    function: Callable[[Rows, Rows], Array]

    def against(self, Z: Rows, dtype: Any = None) -> Columns:
        return CallableColumns(Z, dtype or np.float64, self.function)

    def diagonal(self, X: Rows) -> FloatArray:
        # One row at a time is the only thing the signature allows without an n × n block.
        values = [
            float(np.asarray(self.function(X[i : i + 1], X[i : i + 1]))[0, 0]) for i in range(X.shape[0])
        ]
        return np.asarray(values)


def positive(name: str, value: object) -> float:
    """Return a positive finite number or raise with its name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name}={value!r} must be a positive number, got {type(value).__name__}.")
    if not 0 < float(value) < float("inf"):
        raise InputError(f"{name}={value!r} must be a positive, finite number.")
    return float(value)


def stored_lengthscale(value: float | Sequence[float] | Array) -> float | tuple[float, ...]:
    """Return a lengthscale as a hashable value: a float, or a tuple with one per feature."""
    if isinstance(value, numbers.Real) or np.ndim(value) == 0:
        return positive("lengthscale", value if not hasattr(value, "item") else value.item())
    return tuple(positive("lengthscale", float(v)) for v in np.asarray(value).ravel())


def lengthscale_array(value: float | tuple[float, ...], n_features: int) -> FloatArray:
    """Return one lengthscale per feature (or a single one), checked against the data's width."""
    array = np.atleast_1d(np.asarray(value, np.float64))
    if array.size not in (1, n_features):
        raise InputError(
            f"lengthscale has {array.size} values, but the rows have {n_features} features. Give one "
            "number, or one per feature."
        )
    return array


def _rows(X: Any, name: str) -> Rows:
    if sp.issparse(X):
        return sp.csr_array(X)
    array = np.asanyarray(X)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected a two-dimensional "
            f"array of real numbers (rows, features). Use {name}.reshape(-1, 1) for one feature."
        )
    return array


def _same_width(X: Rows, Z: Rows) -> None:
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X has {X.shape[1]} features, but Z has {Z.shape[1]}. They must agree.")
