"""Tile sizes: row slices whose working set stays in a thread's cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Bytes of one tile. About the size of a core's second-level cache: the GEMM writes the tile and
#: the elementwise map reads it back before it is evicted.
TILE_BYTES = 1 << 20
#: Fewer rows than this make the GEMM slow; more than MAX_ROWS only add latency.
MIN_ROWS, MAX_ROWS = 64, 4096


def tile_rows(n_columns: int, itemsize: int, tile_bytes: int = TILE_BYTES) -> int:
    """Return how many rows of ``n_columns`` numbers make one tile."""
    rows = tile_bytes // max(1, n_columns * itemsize)
    return int(min(MAX_ROWS, max(MIN_ROWS, rows)))


def row_slices(n_rows: int, rows: int) -> Iterator[slice]:
    """Cut ``range(n_rows)`` into consecutive slices of at most ``rows`` rows."""
    for start in range(0, n_rows, rows):
        yield slice(start, min(n_rows, start + rows))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread: threads that share nothing must not fight over cores."""
    return _controller().limit(limits=1, user_api="blas")
