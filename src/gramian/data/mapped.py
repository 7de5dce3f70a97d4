"""Row source that transforms the features as rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from gramian._typing import IntArray, Rows
from gramian.data.distributed import Partitioned, Progress, Result
from gramian.data.source import RowSource


class RowMap(Protocol):
    """Row by row transformation x ↦ T(x), a value that can be sent to where the rows are stored."""

    @property
    def n_columns(self) -> int:
        """Number of features of the transformed rows."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """Values that distinguish this transformation from others of the same source."""

    def apply(self, rows: Rows) -> Rows:
        """Return transformed rows as a new array of :func:`mapped_type`."""


def mapped_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of transformed rows: float32 for float32 and integers up to 16 bits, else float64."""
    narrow = dtype == np.float32 or (dtype.kind in "iub" and dtype.itemsize <= 2)
    return np.dtype(np.float32 if narrow else np.float64)


class MappedRows:
    """The rows of ``source``, transformed block by block as they are read; nothing is stored."""

    def __init__(self, source: RowSource, row_map: RowMap) -> None:
        self.source, self.row_map = source, row_map
        self.reads_ahead: bool = getattr(source, "reads_ahead", False)
        self.read_bytes: int = getattr(source, "read_bytes", 0)
        self.target: Any = getattr(source, "target", None)
        identity = getattr(source, "identity", None)
        if identity is not None:  # a frame has none: the fingerprint hashes its rows
            self.identity = (*row_map.identity, identity)
        (n, width), out = source.shape, row_map.n_columns
        #: Number of rows and transformed features.
        self.shape: tuple[int, int] = n, out
        #: Type of the transformed numbers.
        self.dtype: np.dtype[Any] = mapped_type(source.dtype)
        held = 2 * (width * source.dtype.itemsize + out * self.dtype.itemsize)
        # The transformed block, and the float64 block that it is made from.
        self.row_bytes = getattr(source, "row_bytes", 0) + held + 8 * max(width, out)

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows as a new array."""
        return self.row_map.apply(self.source.rows(where))

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""
        return self.row_map.apply(self.source.take(indices))


class MappedParts(MappedRows, Partitioned):
    """Transformed rows of a source in parts elsewhere, transformed where they are stored."""

    source: Any

    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *arrays: object,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on."""
        onto = partial(_mapped, self.row_map, work)
        return self.source.rounds(onto, combine, *arrays, start=start, progress=progress)


def _mapped(
    row_map: RowMap, work: Callable[..., Result], total: Result | None, rows: Rows, *values: object
) -> Result:
    """Return the total after adding a part of the rows, which is transformed first."""
    return work(total, row_map.apply(rows), *values)


def map_rows(source: RowSource, row_map: RowMap) -> RowSource:
    """Return the transformed rows of a source; transformations nest: ``map_rows(map_rows(source, a), b)``.

    >>> from gramian.data.scaled import Scaler
    >>> from gramian.data.source import ArraySource
    >>> rows = map_rows(ArraySource(np.array([[1.0], [3.0]])), Scaler(np.array([2.0]), np.array([0.5])))
    >>> rows.rows(slice(0, 2)).tolist()
    [[-2.0], [2.0]]
    """
    return (MappedParts if isinstance(source, Partitioned) else MappedRows)(source, row_map)
