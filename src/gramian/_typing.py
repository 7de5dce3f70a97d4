"""Array types used in the signatures of several modules."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Float64Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
#: Rows of a dataset: a dense array (or a memmap), or a CSR matrix.
Rows: TypeAlias = npt.NDArray[Any] | sp.csr_matrix | sp.csr_array


class Shaped(Protocol):
    """What has rows and columns: a sparse matrix, a Dask array, a source of rows in files."""

    @property
    def shape(self) -> tuple[int, ...]: ...


#: Rows as users give them: an array, a list of rows, a frame, a sparse matrix, a Dask array, or open files.
RowsLike: TypeAlias = npt.ArrayLike | Shaped
#: What scikit-learn calls ``random_state``.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
