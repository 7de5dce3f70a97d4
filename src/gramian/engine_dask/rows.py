"""Rows on a cluster: those that tasks compute there, and those of this machine, sent part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, Rows
from gramian.data.column import StoredColumn
from gramian.data.distributed import Partitioned, Progress
from gramian.data.source import RowSource
from gramian.engine_dask import part_work
from gramian.engine_dask.tasks import LEAST_ROWS, ClusterTasks, LostDataError
from gramian.exceptions import ClusterError

Result = TypeVar("Result")

#: Number of totals that one task adds up, all of them in the memory of its worker. Chosen by hand.
FAN_IN = 2
#: Smallest number of rows for a task to sum if partitions are smaller, as long as there are enough rows, and
#: the engine's ``part_bytes`` hold them. Chosen by hand.
TASK_ROWS = 65_536
#: Smallest number of tasks per thread in a round, and largest number of rounds in a pass. After each round
#: its sums come to the client. Chosen by hand.
ROUND_TASKS, ROUNDS = 4, 20
#: Number of parts that are sent for each thread, if there are enough rows. Chosen by hand.
PARTS = 4
#: Rows at the start that are kept, because plans read them several times. Chosen by hand.
HEAD_ROWS = 1024
#: Number of attempts at work when all copies of the data sent for it are lost. Chosen by hand.
ATTEMPTS = 3


def once_more(lost: int, error: LostDataError) -> int:
    """Return how often data have been lost so far; raise if that is too often."""
    if lost + 1 == ATTEMPTS:
        raise ClusterError(
            f"workers were lost {ATTEMPTS} times, with all copies of the data that they held ({error}). Read "
            "their logs, start more, and fit again."
        ) from error
    return lost + 1


class _Shown:
    """Progress over several rounds; rows that are computed again after a failure are not counted twice."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._lock = progress, Lock()
        self._rows = self._done = self._most = 0

    def begin(self, rows: int) -> None:
        """Start a round of this many rows, or restart it."""
        with self._lock:
            self._rows, self._done = rows, 0

    def advance(self, rows: int) -> None:
        """Show that this many more rows are done; called on any thread."""
        with self._lock:
            self._done += rows
            self._show(min(self._done, self._rows))

    def finish(self) -> None:
        """Show all rows of the round."""
        with self._lock:
            self._show(self._rows)
            self._rows = self._most = 0

    def _show(self, rows: int) -> None:
        if rows > self._most and self._progress is not None:
            self._progress(rows - self._most)
        self._most = max(self._most, rows)


class TaskParts(Partitioned, StoredColumn):
    """Partitions of known lengths that another package computes, one task each; empty ones are left out.

    They hold rows, or values of rows such as targets and weights.
    """

    #: Whether tasks read the files of rows, and those of targets, themselves.
    opened_there = False
    #: Names of the columns, if they are known.
    feature_names: tuple[str, ...] | None = None

    def __init__(
        self,
        cluster: ClusterTasks,
        parts: Sequence[Any],
        lengths: Sequence[int],
        tail: tuple[int, ...],
        kind: DTypeLike,
    ) -> None:
        self.cluster = cluster
        self.parts = [p for p, k in zip(parts, lengths) if k]
        self.lengths = [k for k in lengths if k]
        self.starts = [0, *np.cumsum(self.lengths).tolist()]
        #: Number of rows, then of features or outputs.
        self.shape: Any = (self.starts[-1], *tail)
        self.dtype = np.dtype(kind)

    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *arrays: object,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) for one round of parts at a time.

        Each thread of the workers has one total, to which it adds part after part. At the end of a round the
        totals are added up in a tree, and the sum comes to this machine.
        """
        own, threads = self.from_row(start), self.cluster.n_threads
        columns = [own.parts, *(self._parts_of(values, own) for values in arrays)]
        # Depends on the number of all rows, so that a resumed pass continues with the same rounds.
        few = self.cluster.part_rows(self.dtype.itemsize * int(np.prod(self.shape[1:])))
        least = min(TASK_ROWS, few, -(-self.starts[-1] // (ROUND_TASKS * threads)))
        size = max(ROUND_TASKS * threads, -(-len(part_work.group_parts(self.lengths, least)) // ROUNDS))
        groups = part_work.group_parts(own.lengths, least)
        there, shown = self.cluster.sent(work), _Shown(progress)
        with self.cluster.telling(shown.advance) as tell:
            for some in row_slices(len(groups), size):
                lost, rows = 0, sum(own.lengths[i] for group in groups[some] for i in group)
                while True:
                    shown.begin(rows)
                    try:
                        result = self._total(groups[some], columns, there, combine, tell, threads)
                        break
                    except LostDataError as error:
                        lost = once_more(lost, error)
                        there = self.cluster.sent(work)
                shown.finish()
                yield rows, result

    def _total(
        self,
        groups: Sequence[range],
        columns: Sequence[Sequence[Any]],
        there: Any,
        combine: Callable[..., Any],
        tell: Progress | None,
        threads: int,
    ) -> Any:
        """Return the work's total over these groups of parts: a chain of tasks for each thread, then a tree.

        Each task holds the only reference to the total that it adds to. If a worker dies with it, Dask
        repeats the chain from its first part.
        """
        call, join = self.cluster.task(part_work.onto), self.cluster.task(combine)
        level = []
        for chain in row_slices(len(groups), -(-len(groups) // threads)):
            total = None
            for group in groups[chain]:
                total = call(there, tell, total, *([values[i] for i in group] for values in columns))
            level.append(total)
        while len(level) > 1:
            level = [join(level[few]) for few in row_slices(len(level), FAN_IN)]
        return next(self.cluster.results(level))

    def _parts_of(self, values: Any, own: TaskParts) -> list[Any]:
        """Return the values of the remaining parts, one list entry for each part."""
        first = self.starts[-1] - own.starts[-1]
        if values is None:
            return [None] * len(own.parts)
        if isinstance(values, TaskParts):
            rest = values.from_row(first)
            same = rest.lengths == own.lengths
            return rest.parts if same else _recut(rest, own.lengths)
        cuts = [slice(first + a, first + b) for a, b in pairwise(own.starts)]
        if own.opened_there and isinstance(values, StoredColumn):
            return [self.cluster.task(part_work.some)(values, cut) for cut in cuts]
        return [values[cut] for cut in cuts]

    def from_row(self, start: int) -> TaskParts:
        """Return the parts from a row number on."""
        if not start:
            return self
        some = self.cluster.task(part_work.some)
        parts, lengths = [], []
        for first, k, part in zip(self.starts, self.lengths, self.parts):
            skipped = max(0, start - first)
            if skipped < k:
                parts.append(some(part, slice(skipped, k)) if skipped else part)
                lengths.append(k - skipped)
        rest = TaskParts(self.cluster, parts, lengths, self.shape[1:], self.dtype)
        rest.opened_there = self.opened_there
        return rest

    @cached_property
    def _head(self) -> Array:
        return self._slice(slice(0, HEAD_ROWS))

    def rows(self, where: slice) -> Rows:
        """Compute and return consecutive rows; the parts that hold them are loaded."""
        start, stop, _ = where.indices(self.shape[0])
        return self._head[start:stop] if stop <= HEAD_ROWS else self._slice(where)

    def __getitem__(self, where: slice | IntArray) -> Array:
        return self._slice(where) if isinstance(where, slice) else self.take(where)

    def _slice(self, where: slice) -> Array:
        """Compute and return consecutive values."""
        start, stop, _ = where.indices(self.starts[-1])
        some, tasks = self.cluster.task(part_work.some), []
        for first, k, part in zip(self.starts, self.lengths, self.parts):
            inner = slice(max(0, start - first), min(k, stop - first))
            if inner.start < inner.stop:
                tasks.append(some(part, inner))
        return self._joined(tasks)

    def take(self, indices: IntArray) -> Array:
        """Return values by index, in this order; only these values are transferred here."""
        order = np.argsort(indices, kind="stable")
        ranked = np.asarray(indices, np.intp)[order]
        some, tasks = self.cluster.task(part_work.some), []
        bounds = pairwise(np.searchsorted(ranked, self.starts).tolist())
        for first, part, (a, b) in zip(self.starts, self.parts, bounds):
            if a < b:
                tasks.append(some(part, ranked[a:b] - first))
        values = self._joined(tasks)
        out = np.empty_like(values)
        out[order] = values
        return out

    def _joined(self, tasks: Sequence[Any]) -> Array:
        if not tasks:
            return np.empty((0, *self.shape[1:]), self.dtype)
        lost = 0
        while True:
            try:
                return np.concatenate(list(self.cluster.results(tasks)))
            except LostDataError as error:
                lost = once_more(lost, error)


def _recut(values: TaskParts, lengths: Sequence[int]) -> list[Any]:
    """Return the values in parts of these lengths."""
    tail, kind = values.shape[1:], values.dtype
    blocks = [da.from_delayed(part, (k, *tail), dtype=kind) for part, k in zip(values.parts, values.lengths)]
    chunks = (tuple(lengths), *((k,) for k in tail))
    return list(da.concatenate(blocks).rechunk(chunks).to_delayed().ravel())


class ScatteredRows(Partitioned):
    """A row source of this machine, with at most two parts for each thread in transit at a time.

    Results come back part by part, in the order of the rows.
    """

    def __init__(self, cluster: ClusterTasks, source: RowSource) -> None:
        self.cluster, self.source = cluster, source
        self.shape, self.dtype = source.shape, source.dtype
        self.rows, self.take = source.rows, source.take

    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *arrays: object,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on, part by part."""
        columns: tuple[Any, ...] = arrays
        (n, d), threads = self.shape, self.cluster.n_threads
        size = self.cluster.part_rows(d * self.dtype.itemsize)
        size = max(LEAST_ROWS, min(size, -(-n // (PARTS * threads))))
        begin = partial(work, None)
        there = self.cluster.sent(begin)

        def send(where: slice) -> Any:
            around = [[None if values is None else values[where]] for values in columns]
            return self.cluster.submitted(part_work.result, there, [self.rows(where)], *around)

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
                result = self.cluster.waited(future)
            except LostDataError as error:
                lost = once_more(lost, error)
                there = self.cluster.sent(begin)
                pending = deque((w, send(w)) for w, _ in pending)
                continue
            pending.popleft()
            if progress is not None:
                progress(where.stop - where.start)
            yield where.stop - where.start, result
