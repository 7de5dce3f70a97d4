"""Access to the rows of sources and tables: in blocks, a selection, or all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, Rows, RowsLike
from gramian.data.source import RowSource, SubsetRows, as_source, row_blocks
from gramian.data.stored_source import StoredSource
from gramian.data.tables import TableSource

#: Rows of one step of a prediction. Chosen by hand.
STEP = 65_536


def blocks(rows: RowsLike) -> Iterator[tuple[slice, Any]]:
    """Yield consecutive blocks of a source, an array or a table, each with its row slice."""
    if isinstance(rows, TableSource) or (isinstance(rows, StoredSource) and rows.storage.of_columns):
        for where in row_slices(rows.shape[0], STEP):
            yield where, take_rows(rows, np.arange(where.start, where.stop))
    else:
        yield from row_blocks(as_source(cast("Rows | RowSource", rows)), STEP)


def by_blocks(call: Callable[[Any], Any], rows: RowsLike) -> Array:
    """Return the joined results of ``call`` on blocks of rows, so that intermediate results stay small."""
    return np.concatenate([np.asarray(call(block)) for _, block in blocks(rows)])


def take_rows(rows: Rows | RowSource | TableSource, numbers: IntArray) -> Any:
    """Return some rows of a source or of a table, read on demand."""
    return rows.subset(numbers) if isinstance(rows, TableSource) else SubsetRows(as_source(rows), numbers)


def all_rows(rows: Rows | RowSource) -> Any:
    """Return all rows of a source or an array as an array of floats, or as a CSR matrix."""
    source = as_source(rows)
    found = source.rows(slice(0, source.shape[0]))
    return found if sp.issparse(found) or found.dtype.kind == "f" else np.asarray(found, np.float64)
