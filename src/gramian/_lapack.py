r"""Dense factorizations and solves by LAPACK that release the interpreter's lock.

SciPy's wrappers of LAPACK hold the lock while they compute, so threads that factor one block each wait for
one another (``benchmarks/lapack.py`` measures it). Here the same routines are called through ctypes, which
releases the lock, by the pointers that SciPy publishes for Cython. Triangular factors may be stored by
columns or by rows, as whole arrays or as slices: to LAPACK, a lower triangle by rows is an upper triangle by
columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
import scipy.linalg as la
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack
from numpy.typing import NDArray

from gramian._typing import IntArray

Real = TypeVar("Real", bound=np.floating[Any])

#: NumPy's letter of a precision → LAPACK's letter and the C type.
_PRECISIONS = {"d": ("d", ctypes.c_double), "f": ("s", ctypes.c_float)}

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


@cache
def _routine(name: str) -> Callable[..., None]:
    """Return a routine of BLAS or LAPACK; every argument is a pointer."""
    module = scipy.linalg.cython_blas if name[1:] == "trsm" else scipy.linalg.cython_lapack
    capsule = module.__pyx_capi__[name]
    signature = _capsule_name(capsule)
    if b" int *" not in signature:
        raise ImportError(
            f"SciPy {scipy.__version__} publishes {name} with other integers than C's int: "
            f"{signature.decode()}. Install a SciPy of LP64 integers, as its wheels are."
        )
    count = signature.count(b"*")
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)  # CFUNCTYPE releases the lock, PYFUNCTYPE not
    return kind(_capsule_pointer(capsule, signature))


def _call(name: str, dtype: np.dtype[Any], *arguments: Any) -> None:
    """Call the routine for this precision; strings, integers and floats are passed by reference."""
    letter, real = _PRECISIONS[dtype.char]
    given: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            given.append(value.ctypes.data)
        elif isinstance(value, str):
            given.append(ctypes.byref(ctypes.c_char(value.encode())))
        elif isinstance(value, float):
            given.append(ctypes.byref(real(value)))
        elif isinstance(value, int):
            given.append(ctypes.byref(ctypes.c_int(value)))
        else:
            given.append(ctypes.byref(value))
    _routine(letter + name)(*given)


def _by_columns(array: NDArray[Real]) -> bool:
    """Return whether LAPACK can read the array as stored by columns."""
    short, long = array.strides
    return short == array.itemsize and long >= max(1, array.shape[0]) * array.itemsize


def _as_columns(array: NDArray[Real]) -> tuple[NDArray[Real], int, bool]:
    """Return an array stored by columns, the distance of its columns, and whether it is the transpose.

    That is the array itself or its transpose, or a copy if neither is stored by columns.
    """
    turned = not _by_columns(array) and _by_columns(array.T)
    columns = array.T if turned else array if _by_columns(array) else np.array(array, order="F")
    # LAPACK refuses a stride of 0, which NumPy may give to empty arrays.
    apart = max(1, len(columns), columns.strides[1] // columns.itemsize)
    return columns, apart, turned


#: The triangle to name to LAPACK for a lower triangle, by whether it is stored by rows.
_TRIANGLE = {False: "L", True: "U"}
_STRIPE = 64
_ABOVE = np.triu(np.ones((_STRIPE, _STRIPE), bool), 1)


def cholesky(matrix: NDArray[Real], *, overwrite: bool = False) -> NDArray[Real]:
    """Return the lower Cholesky factor L of A = L Lᵀ, with zeros above it.

    Reads the lower triangle only. Raises ``LinAlgError`` if A is not positive definite; with ``overwrite`` A
    is then left half-changed. Time m³/3; memory one copy of A, or none with ``overwrite``.
    """
    lower, apart, by_rows = _as_columns(matrix if overwrite else matrix.copy(order="K"))
    info = ctypes.c_int(0)
    _call("potrf", lower.dtype, _TRIANGLE[by_rows], len(lower), lower, apart, info)
    if info.value > 0:
        raise la.LinAlgError(f"The leading minor of order {info.value} is not positive definite.")
    lower = lower.T if by_rows else lower
    _clear_above(lower)
    return lower


def _clear_above(lower: NDArray[Any]) -> None:
    """Set the entries above the diagonal to 0, stripe by stripe, without building an index of them."""
    for start in range(0, len(lower), _STRIPE):
        stripe = lower[start : start + _STRIPE]
        rows = len(stripe)
        stripe[:, start + rows :] = 0.0
        np.copyto(stripe[:, start : start + rows], 0.0, where=_ABOVE[:rows, :rows])


def cho_solve(lower: NDArray[Real], right: NDArray[Real]) -> NDArray[Real]:
    """Solve A x = b given the lower Cholesky factor of A; b is (m,) or (m, outputs)."""
    return solve_triangular(lower, solve_triangular(lower, right), transposed=True, overwrite=True)


def solve_triangular(
    lower: NDArray[Real], right: NDArray[Real], *, transposed: bool = False, overwrite: bool = False
) -> NDArray[Real]:
    """Solve L x = b, or Lᵀ x = b, for b of shape (m,) or (m, outputs); x has b's order in memory.

    ``overwrite`` writes the solution over b if b has the factor's dtype and is stored by rows or by columns.
    """
    dtype = np.result_type(lower, right)
    triangle, apart, by_rows = _as_columns(np.asarray(lower, dtype))
    x = np.asarray(right, dtype) if overwrite else right.astype(dtype, order="K")
    columns, distance, turned = _as_columns(x.reshape(len(x), 1) if x.ndim == 1 else x)
    if columns.size:
        # L x = b is xᵀ Lᵀ = bᵀ, which is solved from the right if bᵀ is stored by columns.
        other = transposed ^ by_rows ^ turned
        _call(
            "trsm",
            dtype,
            "R" if turned else "L",
            _TRIANGLE[by_rows],
            "T" if other else "N",
            "N",
            *columns.shape,
            1.0,
            triangle,
            apart,
            columns,
            distance,
        )
    x = columns.T if turned else columns
    return x[:, 0] if right.ndim == 1 else x


def pivoted_cholesky(gram: NDArray[Real], least: float) -> tuple[NDArray[Real], IntArray]:
    """Return the factor L (m, rank) and the order of the pivots, with A[order][:, order] ≈ L Lᵀ.

    Stops at the first pivot that is not above ``least``. Time m² rank, memory one matrix.
    """
    lower = np.array(gram, order="F")
    m, info, rank = len(lower), ctypes.c_int(0), ctypes.c_int(0)
    order, work = np.zeros(m, np.int32), np.empty(2 * m, lower.dtype)
    _call("pstrf", lower.dtype, "L", m, lower, max(1, m), order, rank, float(least), work, info)
    lower = lower[:, : rank.value]
    _clear_above(lower[: rank.value])
    return lower, order.astype(np.intp) - 1


def inverse_of_triangle(lower: NDArray[Real]) -> NDArray[Real]:
    """Return L⁻¹, lower and stored by columns. Time m³/3."""
    inverse = np.array(lower, order="F")
    info = ctypes.c_int(0)
    _call("trtri", inverse.dtype, "L", "N", len(inverse), inverse, max(1, len(inverse)), info)
    return inverse


def inverse_of_factored(lower: NDArray[Real]) -> NDArray[Real]:
    """Return (L Lᵀ)⁻¹ as a full matrix; a factor stored by rows or by columns is overwritten."""
    columns, apart, by_rows = _as_columns(lower)
    info = ctypes.c_int(0)
    _call("potri", columns.dtype, _TRIANGLE[by_rows], len(columns), columns, apart, info)
    half = np.tril(columns.T if by_rows else columns)  # LAPACK writes one half only
    half += np.tril(half, -1).T
    return half
