"""Reading one block ahead in a thread, so that reading overlaps with computing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from gramian._typing import Rows

#: Bytes between the bytes that are looked at to bring a mapped file's pages in.
PAGE = 4096


def read_ahead(read: Callable[[slice], Rows], slices: Iterable[slice]) -> Iterator[tuple[slice, Rows]]:
    """Yield ``(where, read(where))`` in order, the next block being read while the caller has this one.

    What ``read`` raises is raised here, at its block. The thread ends with the iterator, also where the
    caller stops early: closing waits for the block in flight.
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
        # A view of a mapped file has not been read yet; a sum over a byte of each page reads it.
        rows.reshape(-1).view(np.uint8)[::PAGE].sum()
    return rows
