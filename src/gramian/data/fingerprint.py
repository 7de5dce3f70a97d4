"""Fingerprint of a dataset, so that a saved fit is never resumed on other data."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array
from gramian.data.column import StoredColumn
from gramian.data.source import RowSource, as_source

#: Largest number of rows of an array that are hashed, and of their bytes. Chosen by hand.
SAMPLE_ROWS, SAMPLE_BYTES = 10_000, 1 << 26
#: Number of rows hashed at a time. Chosen by hand.
PART_ROWS = 500


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
    found = hashlib.sha256()
    described = getattr(data, "identity", None)
    if described is not None:
        found.update(repr(described).encode())
        return found.hexdigest()
    if isinstance(data, np.ndarray) and data.ndim != 2:
        take: Any = data.__getitem__
    else:
        take = data.__getitem__ if isinstance(data, StoredColumn) else as_source(data).take
    shape, dtype = tuple(int(size) for size in data.shape), np.dtype(data.dtype)
    found.update(repr((shape, dtype.str)).encode())
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    n = min(shape[0], SAMPLE_ROWS, max(2, SAMPLE_BYTES // max(1, row)))
    spread = np.unique(np.linspace(0, max(0, shape[0] - 1), n).astype(np.intp))
    for start in range(0, len(spread), PART_ROWS):
        add_bytes(found, take(spread[start : start + PART_ROWS]))
    return found.hexdigest()


def add_bytes(digest: Any, rows: Any) -> None:
    """Add the numbers of an array or CSR rows to a digest; CSR rows count by value, however stored."""
    if isinstance(rows, sp.csr_array | sp.csr_matrix):
        rows = rows.copy()
        rows.sum_duplicates()
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            digest.update(np.ascontiguousarray(part).tobytes())
    elif rows.dtype.kind == "O":
        digest.update(repr(rows.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(rows).tobytes())
