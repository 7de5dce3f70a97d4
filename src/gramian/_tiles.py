"""Tile sizes: row slices whose working set stays in a thread's cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Bytes of one tile, about the size of a core's second-level cache: the matrix product writes the tile and
#: the elementwise map reads it back before it leaves the cache. ``benchmarks/tiles.py`` measures tiles of
#: this size.
TILE_BYTES = 1 << 20
#: Rows of a tile: fewer make the matrix product slow, more only delay the first result. Chosen by hand.
MIN_ROWS, MAX_ROWS = 64, 4096


def tile_rows(n_columns: int, itemsize: int, tile_bytes: int = TILE_BYTES) -> int:
    """Return the number of rows of a tile with ``n_columns`` columns."""
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
    """Limit BLAS to one thread, so that the engine's threads do not compete with BLAS's for cores."""
    return _controller().limit(limits=1, user_api="blas")
