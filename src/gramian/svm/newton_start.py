"""Starting point of Newton's method: the minimum for half the rows, found from a quarter of them first.

Near the minimum few rows have curvature, so no Gram matrix of all rows is ever formed: each doubling of the
rows adds only those new rows that the model gets wrong. Source: Chapelle 2007,
"Training a support vector machine in the primal", algorithm 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import RowSource, as_source
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import SlicedTargets

#: Fewest rows of the smallest sample, and most rows of the largest.
LEAST_ROWS, MOST_ROWS = 500, 32_768


def row_bytes(source: RowSource) -> int:
    """Return the bytes of a row; for sparse rows an average over the first ones."""
    n, d = source.shape
    item = source.dtype.itemsize
    first = source.rows(slice(0, min(1024, n)))
    # An index is as large as a number, or half of it.
    return -(-2 * first.nnz * item // first.shape[0]) if sp.issparse(first) else d * item


def sample_sizes(n_rows: int, room: int, bytes_of_row: int) -> list[int]:
    """Return the sizes of nested samples, each at most half of the next, the largest half of the rows.

    There are fewer samples if ``room`` bytes do not hold them at ``bytes_of_row`` per row, and none if there
    are few rows.
    """
    size = min(n_rows // 2, MOST_ROWS, max(0, room) // max(1, bytes_of_row))
    sizes = []
    while size >= LEAST_ROWS:
        sizes.append(size)
        size //= 2
    return sizes[::-1]


def nested_samples(
    source: RowSource,
    targets: SlicedTargets,
    weights: Array | None,
    sizes: list[int],
    rng: np.random.Generator,
) -> Iterator[LabelledRows[Float64Array]]:
    """Yield samples of these sizes, each a part of the next; rows of weight 0 are left out."""
    usable = np.arange(source.shape[0]) if weights is None else np.flatnonzero(weights > 0)
    drawn = rng.permutation(usable)[: max(sizes, default=0)]
    for size in sizes:
        rows = np.sort(drawn[:size])
        own = None if weights is None else weights[rows]
        yield LabelledRows(as_source(source.take(rows)), _of_rows(targets, rows), own)


def _of_rows(targets: SlicedTargets, rows: IntArray) -> Float64Array:
    """Return the targets of the rows with these ascending numbers, read in blocks."""
    out = np.empty((len(rows), targets.shape[1]))
    block = 65_536
    for start in range(0, targets.shape[0], block):
        a, b = np.searchsorted(rows, [start, start + block])
        if a < b:
            out[a:b] = targets[slice(start, min(start + block, targets.shape[0]))][rows[a:b] - start]
    return out
