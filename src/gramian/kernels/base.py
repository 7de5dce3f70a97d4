"""Base class of kernels: frozen values that evaluate blocks k(X, Z) by tiles, with sums and products."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._checks import positive_number, refuse_masked
from gramian._numerics import STORED_TOLERANCE
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.data.values import as_array
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.columns import Columns, ColumnsOf, check_block, float_type, tile_type
from gramian.kernels.compiled import part_of_block

#: Rows of one task, which the evaluator cuts into tiles. Chosen by hand.
CHUNK_ROWS = 1024
#: Rows whose kernel values are looked at, where the kernel may be indefinite. Chosen by hand.
LOOK_ROWS = 256
#: Side of the blocks by which the diagonal of a user's function is computed. Chosen by hand.
DIAGONAL_ROWS = 64


class Kernel(ABC):
    """A positive semi-definite function k(x, z), evaluated a block at a time.

    ``k(X, Z)`` is the block of shape (n, m) (``Z=None`` means X), ``k.diagonal(X)`` gives the values k(x_i,
    x_i), and ``k.matvec(X, Z, V)`` the product k(X, Z) @ V without storing the block. ``k.against(Z)`` is the
    evaluator on which these three and every algorithm are built. Kernels can be added, multiplied and scaled:
    ``2.0 * k1 + k1 * k2``.

    Rows are an array of real numbers (float32, float64, integers, a memmap) or a sparse matrix. In float32
    the error of an entry of a stationary kernel is at most 2e-5, however far the data lie from the origin.

    >>> import numpy as np, gramian as gm
    >>> k = 2.0 * gm.Gaussian(lengthscale=1.5) + gm.Linear()
    >>> k(np.eye(3)).shape
    (3, 3)
    """

    #: Makes NumPy call :meth:`__rmul__` for ``np.float64(2) * k``.
    __array_ufunc__ = None

    @property
    def one_bandwidth(self) -> bool:
        """Whether distances have one lengthscale for all features; False without distances or lengthscale."""
        return False

    @property
    def definite(self) -> bool:
        """Whether the kernel is known to be positive semi-definite, as those of a formula are."""
        return True

    @abstractmethod
    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        """Prepare the evaluator of k(·, Z); ``dtype`` is the type of its tiles."""

    @abstractmethod
    def diagonal(self, X: Rows) -> Float64Array:
        """Return k(x_i, x_i) for each row in float64, shape (n,). Time O(n d) at most."""

    def __call__(
        self, X: Rows, Z: Rows | None = None, *, dtype: DTypeLike | None = None, n_jobs: int | None = None
    ) -> FloatArray:
        """Return the block k(X, Z), shape (n, m), in float32 if both inputs are, else float64.

        ``Z=None`` (or X itself) means X, with an exact diagonal. ``dtype`` sets the type of the result,
        ``n_jobs`` the number of threads. Time O(n m d), memory O(n m) for the result and one tile per thread.
        """
        other = None if Z is None or Z is X else as_rows(Z, "Z")
        X = as_rows(X, "X")
        points = X if other is None else other
        _same_width(X, points)
        work = float_type(X, points) if dtype is None else np.dtype(dtype)
        if work not in (np.float32, np.float64):
            raise InputError(f"dtype={dtype!r} is not a tile type. Give 'float32' or 'float64'.")
        columns = self.against(points, work)
        out = np.empty((X.shape[0], points.shape[0]), work)

        def fill(rows: slice) -> None:
            columns.write(X[rows], out[rows])

        tiles = row_slices(X.shape[0], CHUNK_ROWS)
        with part_of_block(*out.shape):
            Engine(n_jobs).run(fill, tiles)
        if other is None:
            np.fill_diagonal(out, self.diagonal(X))
        return out

    def matvec(self, X: Rows, Z: Rows | None, V: Array, *, n_jobs: int | None = None) -> FloatArray:
        """Return k(X, Z) @ V without storing the block; the result has the shape of V with n rows.

        Time O(n m (d + columns of V)), memory O(m d + n) and one tile per thread.
        """
        X = as_rows(X, "X")
        points = X if Z is None else as_rows(Z, "Z")
        _same_width(X, points)
        refuse_masked("V", V)
        V = np.asarray(V)
        if V.dtype.kind not in "fiubc":
            raise InputError(f"V has dtype {V.dtype}; expected numbers. Convert it to float64.")
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

        with part_of_block(len(out), columns.n_columns):
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
            return Scaled(other, self)
        return NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self.__mul__(other)


@dataclass(frozen=True)
class _Pair(Kernel):
    """Base of sum and product."""

    combine: ClassVar[np.ufunc]
    left: Kernel
    right: Kernel

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        left, right = self.left.against(Z, dtype), self.right.against(Z, dtype)
        return ColumnsOf(left.n_columns, left.dtype, partial(_combine, left, right, self.combine))

    def diagonal(self, X: Rows) -> Float64Array:
        return np.asarray(self.combine(self.left.diagonal(X), self.right.diagonal(X)))

    @property
    def one_bandwidth(self) -> bool:
        return self.left.one_bandwidth or self.right.one_bandwidth

    @property
    def definite(self) -> bool:
        return self.left.definite and self.right.definite


def _combine(left: Columns, right: Columns, combine: np.ufunc, X: Rows, out: FloatArray) -> None:
    """Write a sum or product of two kernels, combined in place."""
    for rows in row_slices(X.shape[0], tile_rows(left.n_columns, left.dtype.itemsize)):
        left.write(X[rows], out[rows])
        combine(out[rows], right(X[rows]), out=out[rows])


@dataclass(frozen=True)
class Sum(_Pair):
    """k(x, z) = left(x, z) + right(x, z)."""

    combine: ClassVar[np.ufunc] = np.add


@dataclass(frozen=True)
class Product(_Pair):
    """k(x, z) = left(x, z) · right(x, z)."""

    combine: ClassVar[np.ufunc] = np.multiply


@dataclass(frozen=True)
class Scaled(Kernel):
    """k(x, z) = factor · kernel(x, z), factor > 0."""

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", positive_number("factor", self.factor))

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        inner = self.kernel.against(Z, dtype)
        return ColumnsOf(inner.n_columns, inner.dtype, partial(self._write, inner))

    def _write(self, inner: Columns, X: Rows, out: FloatArray) -> None:
        inner.write(X, out)
        out *= self.factor

    def diagonal(self, X: Rows) -> Float64Array:
        return self.factor * self.kernel.diagonal(X)

    @property
    def one_bandwidth(self) -> bool:
        return self.kernel.one_bandwidth

    @property
    def definite(self) -> bool:
        return self.kernel.definite


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, z) = 1: ``c * Constant()`` in a sum is an intercept whose prior has the variance c.

    >>> import numpy as np, gramian as gm
    >>> (gm.Gaussian() + 2.0 * Constant())(np.array([[0.0]]), np.array([[0.0], [99.0]]))
    array([[3., 2.]])
    """

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return ColumnsOf(Z.shape[0], tile_type(Z, dtype), _write_ones)

    def diagonal(self, X: Rows) -> Float64Array:
        return np.ones(as_rows(X, "X").shape[0])


def _write_ones(X: Rows, out: FloatArray) -> None:
    out[...] = 1.0


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """Kernel of a user's function f(X, Z) → array of shape (n, m).

    The function must be symmetric, which :meth:`diagonal` checks on blocks of 64 rows, and positive
    semi-definite: landmarks warn of negative eigenvalues. It is called with blocks of rows of X, from several
    threads. A model with it can be pickled if the function can, but not saved to a model file.
    """

    function: Callable[[Rows, Rows], Array]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(
                f"function={self.function!r} is not callable. Give f(X, Z) that returns the block of "
                "shape (n, m)."
            )

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        return ColumnsOf(Z.shape[0], tile_type(Z, dtype), partial(self._write, Z))

    def _write(self, Z: Rows, X: Rows, out: FloatArray) -> None:
        out[...] = check_block(self.function(X, Z), *out.shape)

    def diagonal(self, X: Rows) -> Float64Array:
        # The function returns blocks only: small square blocks compute few unused values in few calls.
        X = as_rows(X, "X")
        values = np.empty(X.shape[0])
        for rows in row_slices(X.shape[0], DIAGONAL_ROWS):
            part = X[rows]
            size = part.shape[0]
            block = check_block(self.function(part, part), size, size)
            _check_symmetric(block)
            values[rows] = block.diagonal()
        return values

    @property
    def definite(self) -> bool:
        return False


def _check_symmetric(block: Array) -> None:
    """Raise for a block f(X, X) of a user's function that is not symmetric, or has a negative diagonal."""
    values = np.asarray(block, np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(values - values.T)
        bad = gaps > STORED_TOLERANCE * np.abs(values).max(initial=0.0)
    if bad.any():
        i, j = np.unravel_index(int(np.where(bad, gaps, 0.0).argmax()), gaps.shape)
        raise InputError(
            f"the kernel function is not symmetric: k(x, z) is {values[i, j]:.6g} and k(z, x) is "
            f"{values[j, i]:.6g} for two rows of X. Return (f(X, Z) + f(Z, X).T)/2 if you mean that."
        )
    size, diagonal = float(np.abs(values).max(initial=0.0)), values.diagonal()
    low = STORED_TOLERANCE * size
    if len(diagonal) and (diagonal.min() < -low or diagonal.max() <= low < size):
        raise InputError(
            f"the kernel function gives {diagonal.min():.6g} for k(x, x), beside values of size {size:.6g} "
            "for other pairs: it is no kernel, as distances are none. Return for example "
            "np.exp(-gamma * distances**2)."
        )


def stored_lengthscale(
    value: float | Sequence[float] | Array, name: str = "lengthscale"
) -> float | tuple[float, ...]:
    """Return a lengthscale as a hashable value: a float, or a tuple with one float per feature."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return positive_number(name, value)
    if not value:
        raise InputError(f"{name} is empty; give a positive number, or one per feature.")
    return tuple(positive_number(f"{name}[{i}]", v) for i, v in enumerate(value))


def lengthscale_array(
    value: float | tuple[float, ...], n_features: int, name: str = "lengthscale"
) -> Float64Array:
    """Return the lengthscales as an array, one or one per feature, checked against the number of features."""
    array = np.atleast_1d(np.asarray(value, np.float64))
    if array.size not in (1, n_features):
        raise InputError(
            f"{name} has {array.size} values, but the rows have {n_features} features. Give one "
            "number, or one per feature."
        )
    return array


def as_rows(X: Rows, name: str) -> Rows:
    """Return rows as an array or a CSR array, without a copy; raise for anything else."""
    refuse_masked(name, X)
    sparse = sp.issparse(X)
    array: Any = X if sparse else as_array(name, X)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected a two-dimensional "
            f"array of real numbers (rows, features). Use {name}.reshape(-1, 1) for one feature."
        )
    return sp.csr_array(array) if sparse else array


def _same_width(X: Rows, Z: Rows) -> None:
    if X.shape[1] != Z.shape[1]:
        raise InputError(
            f"X has {X.shape[1]} features, but Z has {Z.shape[1]}. Pass rows with the same features."
        )


def refuse_large_values(kernel: Kernel, largest: float, dtype: np.dtype[Any]) -> None:
    """Raise if the largest k(x, x), which no |k(x, z)| exceeds, is NaN or beyond the range of the tiles."""
    if not largest <= float(np.finfo(dtype).max):
        raise InputError(
            f"k(x, x) of {kernel!r} is {largest:.3g} on some of the rows, beyond the "
            f"range of {dtype}. Scale the features (standardize=True, or a StandardScaler)"
            + (", or pass tile_dtype='float64'." if dtype == np.float32 else ".")
        )


def finite_diagonal(kernel: Kernel, rows: Rows, dtype: DTypeLike = np.float64) -> Float64Array:
    """Return k(x, x) of all rows; raise if one is NaN or beyond the range of tiles of this type."""
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = kernel.diagonal(rows)
    refuse_large_values(kernel, float(np.abs(diagonal).max(initial=0.0)), np.dtype(dtype))
    return diagonal


def negative_part(kernel: Kernel, rows: Rows) -> tuple[float, float, int]:
    """Return the size of the negative eigenvalues of k on some rows, that of all of them, and how many rows.

    Sizes are sums of magnitudes. The rows are :data:`LOOK_ROWS` at most, spread evenly over all. If their
    matrix has negative eigenvalues, K has too.
    """
    some = rows[np.unique(np.linspace(0, rows.shape[0] - 1, LOOK_ROWS).astype(np.intp))]
    values = np.linalg.eigvalsh(kernel(some, dtype=np.float64))
    return float(-values[values < 0.0].sum()), float(np.abs(values).sum()), len(values)
