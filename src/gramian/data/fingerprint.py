"""Fingerprint of a dataset, so that a saved fit is never resumed on other data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, Rows
from gramian.data.column import StoredColumn
from gramian.data.distributed import Partitioned
from gramian.data.mapped import MappedRows
from gramian.data.source import ArraySource, RowSource, as_source

#: Largest number of rows of an array that are hashed, and of their bytes. Chosen by hand.
SAMPLE_ROWS, SAMPLE_BYTES = 10_000, 1 << 26
#: Number of rows hashed at a time. Chosen by hand.
PART_ROWS = 500
#: Bytes of rows in memory that are hashed at a time; blocks of rows elsewhere, and rows of each. By hand.
BLOCK_BYTES, SPREAD, SPREAD_ROWS = 1 << 20, 16, 256


def fingerprint(data: RowSource | StoredColumn | Array) -> str:
    """Return 64 hexadecimal digits that identify the content of rows or targets.

    Files are identified by name (without folder), size and time of change, with the chosen columns and the
    rows left out. Anything else is identified by shape, type and a hash of rows: all rows up to 10,000 rows
    or 64 MB, beyond that evenly spread ones with the first and the last. A change of a few rows of a large
    array may therefore go unnoticed. Time and memory do not grow with n.

    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(X) == fingerprint(X.copy()), fingerprint(X) == fingerprint(X + 1)
    (True, False)
    """
    digest = hashlib.sha256()
    described = getattr(data, "identity", None)
    if described is not None:
        digest.update(repr(described).encode())
        return digest.hexdigest()
    if isinstance(data, np.ndarray) and data.ndim != 2:
        take: Any = data.__getitem__
    else:
        take = data.__getitem__ if isinstance(data, StoredColumn) else as_source(data).take
    shape, dtype = tuple(int(size) for size in data.shape), np.dtype(data.dtype)
    digest.update(repr((shape, dtype.str)).encode())
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    n = min(shape[0], SAMPLE_ROWS, max(2, SAMPLE_BYTES // max(1, row)))
    spread = np.unique(np.linspace(0, max(0, shape[0] - 1), n).astype(np.intp))
    for start in range(0, len(spread), PART_ROWS):
        add_bytes(digest, take(spread[start : start + PART_ROWS]))
    return digest.hexdigest()


def content(data: RowSource | Rows) -> str:
    """Return 64 hexadecimal digits that identify every number of rows in memory, in their order and type.

    Rows of a file, of a cluster, or of somebody's own source are identified by :func:`fingerprint`, and those
    of a file by its size, its time of change and some blocks of rows besides: a change of other rows that
    leaves the time of change as it was goes unnoticed. The container does not count: a frame and an array of
    the same numbers are the same rows. Time O(bytes), about a second for 1 GB, memory of a block of rows.

    >>> X = np.arange(6.0).reshape(3, 2)
    >>> content(X) == content(X.tolist() * np.ones(1)), content(X) == content(X[::-1])
    (True, False)
    """
    source = as_source(data) if isinstance(data, np.ndarray) or sp.issparse(data) else data
    digest = hashlib.sha256()
    if isinstance(source, MappedRows):
        digest.update(repr((source.row_map.identity, content(source.source))).encode())
        return digest.hexdigest()
    array = source.array if isinstance(source, ArraySource) else None
    mapped = isinstance(array, np.memmap)
    if (array is not None and not mapped) or getattr(source, "identity", "") is None:
        read: Any = source.rows if array is None else array.__getitem__
        digest.update(repr((tuple(map(int, source.shape)), source.dtype.str)).encode())
        height = max(1, BLOCK_BYTES // max(1, source.dtype.itemsize * source.shape[1]))
        for where in row_slices(source.shape[0], height):
            add_bytes(digest, read(where))
        return digest.hexdigest()
    digest.update(fingerprint(source).encode())
    if isinstance(array, np.memmap) and array.filename is not None:
        state = os.stat(array.filename)
        digest.update(repr((os.path.basename(array.filename), state.st_size, state.st_mtime_ns)).encode())
    if not isinstance(source, Partitioned):
        for where in spread_blocks(source.shape[0]):
            add_bytes(digest, source.take(np.arange(where.start, where.stop)))
    return digest.hexdigest()


def spread_blocks(n_rows: int) -> Iterator[slice]:
    """Yield some blocks of rows, spread evenly over all, the first and the last among them."""
    for start in np.unique(np.linspace(0, max(0, n_rows - SPREAD_ROWS), SPREAD).astype(np.intp)):
        yield slice(int(start), min(n_rows, int(start) + SPREAD_ROWS))


def add_bytes(digest: Any, rows: Rows) -> None:
    """Add the numbers of an array or CSR rows to a digest; CSR rows count by value, however stored."""
    if isinstance(rows, sp.csr_array | sp.csr_matrix):
        rows = rows.copy()
        rows.sum_duplicates()
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            digest.update(np.ascontiguousarray(part).tobytes())
    elif rows.dtype.kind in "OT":
        digest.update(repr(rows.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(rows).data)
