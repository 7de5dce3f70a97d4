"""Tile sizes: row slices whose working set stays in a thread's cache; and the number of BLAS threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import threadpoolctl

#: Bytes of one tile, about the size of a core's second-level cache: the matrix product writes the tile and
#: the elementwise map reads it back before it leaves the cache. ``benchmarks/tiles.py`` measures tiles of
#: this size.
TILE_BYTES = 1 << 20
#: Rows of a tile: fewer make the matrix product slow, more only delay the first result. Chosen by hand.
MIN_ROWS, MAX_ROWS = 64, 4096

#: Systems smaller than this are solved with one BLAS thread. Chosen by hand.
SMALL_SYSTEM = 500

_lock = threading.Lock()
_holders = 0
_held: list[tuple[Any, threading.Thread]] = []  #: the limit that holds, and the thread that set it


def tile_rows(n_columns: int, itemsize: int, tile_bytes: int = TILE_BYTES) -> int:
    """Return the number of rows of a tile with ``n_columns`` columns."""
    rows = tile_bytes // max(1, n_columns * itemsize)
    return int(min(MAX_ROWS, max(MIN_ROWS, rows)))


def row_slices(n_rows: int, rows: int) -> Iterator[slice]:
    """Cut ``range(n_rows)`` into consecutive slices of at most ``rows`` rows."""
    for start in range(0, n_rows, rows):
        yield slice(start, min(n_rows, start + rows))


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that the engine's threads do not compete with BLAS's for cores.

    The number of threads belongs to the process: of contexts that overlap, in one thread or in several, the
    first sets the limit and the last to end restores what was before.
    """
    global _holders
    with _lock:
        if not _holders:
            _held.append((_controller().limit(limits=1), threading.current_thread()))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _restore(*_held.pop())


def _restore(limit: threadpoolctl.threadpool_limits, setter: threading.Thread) -> None:
    """Restore the number of BLAS threads before a limit, which another thread may have set."""
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if setter is not threading.current_thread() and hasattr(openblas, "clear_controlling_thread"):
        # From threadpoolctl 3.8 on only one thread may set limits, until it gives that up or ends.
        openblas.clear_controlling_thread(force=True)
    with limit:
        pass  # its end restores


def blas_for(size: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread for a small matrix, because waking a second one costs more than it saves.

    On busy cores an eigendecomposition of 12 × 12 took 5 ms with two threads and 0.1 ms with one (measured by
    hand).
    """
    return one_blas_thread() if size < SMALL_SYSTEM else nullcontext()
