"""Column of values for the rows of a source, such as targets, read on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gramian._checks import refuse_masked
from gramian._tiles import row_slices
from gramian._typing import Array, IntArray
from gramian.data.distributed import Partitioned, Result
from gramian.data.values import as_array

#: Number of values that are read at a time. Chosen by hand.
BLOCK = 65_536


class StoredColumn(ABC):
    """Values stored in files or on other machines: read by slice or by index, never all at once.

    Estimators take one as ``y``; an array of the same values gives the same fit. ``shape`` is (n,) or
    (n, outputs).
    """

    #: Number of rows, and of outputs if there are several.
    shape: tuple[int, ...]
    #: Type of the values.
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, where: slice | IntArray) -> Array:
        """Return the values of consecutive rows, or of the rows with these indices, as an array."""

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all values, for code that works in memory."""
        return np.asarray(self[slice(0, len(self))], dtype)


def map_values(
    work: Callable[..., Result], values: Array | StoredColumn, *weights: Array | None
) -> Iterator[Result]:
    """Yield ``work(values, *weights)`` over consecutive rows, where the values lie; None stays None."""
    if isinstance(values, Partitioned):
        yield from values.map(work, *weights)
        return
    for where in row_slices(len(values), BLOCK):
        yield work(values[where], *(None if each is None else each[where] for each in weights))


def as_column(y: ArrayLike) -> Array | StoredColumn:
    """Return stored values unchanged, anything else as an array."""
    refuse_masked("y", y)
    return y if isinstance(y, StoredColumn) else as_array("y", y)
