"""Rows of this machine, sent part by part to workers elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from gramian._tiles import row_slices
from gramian.data.distributed import Cluster, LostDataError, Partitioned, Progress, once_more
from gramian.data.part_work import result as work_on
from gramian.data.source import RowSource

Result = TypeVar("Result")

#: Smallest number of rows of a part, and number of parts for each thread if there are enough rows.
#: Both chosen by hand.
LEAST_ROWS, PARTS = 1024, 4


class ScatteredRows(Partitioned):
    """A row source of this machine, with at most two parts for each thread in transit at a time.

    Results come back part by part, in the order of the rows.
    """

    def __init__(self, cluster: Cluster, source: RowSource) -> None:
        self.cluster, self.source = cluster, source
        self.shape, self.dtype = source.shape, source.dtype
        self.rows, self.take = source.rows, source.take

    def map(self, work: Callable[..., Result], *beside: object) -> Iterator[Result]:
        """Yield ``work(part, *values beside it)`` in the order of the parts."""
        for _, found in self._each(work, beside, 0):
            yield found

    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *beside: object,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on, part by part."""
        for rows, result in self._each(partial(work, None), beside, start):
            if progress is not None:
                progress(rows)
            yield rows, result

    def _each(
        self, work: Callable[..., Result], beside: Sequence[Any], start: int
    ) -> Iterator[tuple[int, Result]]:
        (n, d), threads = self.shape, self.cluster.n_threads
        size = self.cluster.part_rows(d * self.dtype.itemsize)
        size = max(LEAST_ROWS, min(size, -(-n // (PARTS * threads))))
        there = self.cluster.sent(work)

        def send(where: slice) -> Any:
            around = [[None if values is None else values[where]] for values in beside]
            return self.cluster.submitted(work_on, there, [self.rows(where)], *around)

        pending: deque[tuple[slice, Any]] = deque()
        lost = 0
        todo = iter(row_slices(n - start, size))
        while True:
            while len(pending) < 2 * threads and (cut := next(todo, None)) is not None:
                where = slice(start + cut.start, start + cut.stop)
                pending.append((where, send(where)))
            if not pending:
                return
            where, future = pending[0]
            try:
                found = self.cluster.waited(future)
            except LostDataError as error:
                lost = once_more(lost, error)
                there = self.cluster.sent(work)
                pending = deque((w, send(w)) for w, _ in pending)
                continue
            pending.popleft()
            yield where.stop - where.start, found
