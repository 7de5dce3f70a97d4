"""Reading one block ahead in a thread, so that reading overlaps with computing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from gramian._typing import Rows

#: One byte in each page of this many bytes is read, which loads a mapped file's pages into memory.
PAGE = 4096


def read_ahead(read: Callable[[slice], Rows], slices: Iterable[slice]) -> Iterator[tuple[slice, Rows]]:
    """Yield ``(where, read(where))`` in order; the next block is read while the caller works on this one.

    An error from ``read`` is raised here, at its block. The thread ends with the iterator, even if the
    caller stops early: closing the iterator waits for the block that is being read.
    """
    todo = iter(slices)
    with ThreadPoolExecutor(1, thread_name_prefix="gramian-read") as thread:
        where = next(todo, None)
        block: Future[Rows] | None = None if where is None else thread.submit(_read, read, where)
        try:
            while where is not None and block is not None:
                rows = block.result()
                here, where = where, next(todo, None)
                block = None if where is None else thread.submit(_read, read, where)
                yield here, rows
        finally:
            if block is not None:
                block.cancel()


def _read(read: Callable[[slice], Rows], where: slice) -> Rows:
    rows = read(where)
    if isinstance(rows, np.ndarray) and isinstance(rows.base, np.memmap) and rows.flags.c_contiguous:
        # A view of a mapped file has not been read yet; a sum over one byte of each page reads it.
        rows.reshape(-1).view(np.uint8)[::PAGE].sum()
    return rows
