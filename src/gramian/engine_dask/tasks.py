"""Tasks on a Dask cluster, their results, and errors that say what has gone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import dask
import distributed
from dask.delayed import delayed
from dask.system import CPU_COUNT
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from gramian._budget import parse_bytes
from gramian.data.distributed import Progress
from gramian.exceptions import ClusterError

Result = TypeVar("Result")

#: Seconds between checks for whether the cluster is reachable. Chosen by hand.
POLL = 1.0
#: Smallest number of rows of a part. Chosen by hand.
LEAST_ROWS = 1024


class LostDataError(Exception):
    """Raised if the data sent for the work are lost with their machines, but other machines are available."""


class ClusterTasks:
    """The tasks of one client; ``client`` is None for Dask's own scheduler on this machine."""

    def __init__(self, client: distributed.Client | None, part_bytes: int | str, timeout: float) -> None:
        self.client: Any = client
        self.part_bytes, self.timeout = part_bytes, timeout

    def part_rows(self, row_bytes: int) -> int:
        """Return the number of rows of one task if rows are not partitioned."""
        return max(LEAST_ROWS, parse_bytes(self.part_bytes) // max(1, row_bytes))

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers."""
        client = self.client
        if client is None:
            return int(CPU_COUNT)
        return max(1, sum(self._asked(client.nthreads).values()))

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes a task from a call of ``function``."""
        made: Callable[..., Any] = delayed(function, pure=False)
        return made

    def sent(self, value: object) -> Any:
        """Return a reference to a value that every worker now has."""
        client = self.client
        if client is None:
            return delayed(value, pure=False, traverse=False)
        while True:
            self._await_workers(client)
            try:
                return self._asked(
                    lambda: client.scatter(value, broadcast=True, hash=False, timeout=self.timeout)
                )
            except ValueError as error:  # "Can not use replicate to delete data": there is no worker
                if self._asked(client.nthreads):
                    raise _gone_error(f"its workers are closing: {error}") from error

    def _await_workers(self, client: Any) -> None:
        """Wait until there is a worker. Raises ``ClusterError`` after ``timeout``."""
        seen = time.monotonic()
        while not self._asked(client.nthreads):
            if time.monotonic() - seen > self.timeout:
                raise _gone_error(f"no worker for {self.timeout:g} s")
            time.sleep(POLL)

    @contextmanager
    def telling(self, progress: Progress | None) -> Iterator[Progress | None]:
        """Yield a function that tasks call with numbers; ``progress`` is then called with them here.

        Yields None if there is no client. The numbers arrive as scheduler events, on a thread of the client.
        """
        client = self.client
        if client is None or progress is None:
            yield None
            return
        topic = f"gramian-{uuid4().hex}"
        self._asked(lambda: client.subscribe_topic(topic, lambda event: progress(event[1])))
        try:
            yield _Tell(topic)
        finally:
            if client.status == "running":
                self._asked(lambda: client.unsubscribe_topic(topic))

    def submitted(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return the future of a call on a worker, with its arguments sent there."""
        with _large_graphs():
            return self._asked(lambda: self.client.submit(function, *arguments, pure=False))

    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of tasks in order; results not yet asked for stay where they were made."""
        client = self.client
        if client is None:
            yield from dask.compute(*tasks)
            return
        with _large_graphs():
            futures = deque(self._asked(lambda: client.compute(list(tasks))))
        while futures:
            yield self.waited(futures.popleft())

    def waited(self, future: Any) -> Any:
        """Wait for a result. Raises ``ClusterError`` if scheduler or workers have gone."""
        client, seen = future.client, time.monotonic()
        while True:
            try:
                if future.done():
                    # Each call sends the result again; one that gives up early leaves its copy.
                    return future.result(timeout=self.timeout)
                with client.as_current():  # without it, the wait asks the default client
                    distributed.wait(future, timeout=POLL)
                continue
            except FutureCancelledError as error:
                if client.status != "running":
                    raise _gone_error("the connection to the scheduler is lost") from error
                raise LostDataError(str(error)) from error
            except KilledWorker as error:
                raise ClusterError(
                    f"a task has ended several workers ({error}). They may be short of memory: give them "
                    "more, or make partitions smaller."
                ) from error
            except TimeoutError:
                if future.status == "error":  # the task itself failed
                    raise
            if self._asked(client.nthreads):
                seen = time.monotonic()
            elif time.monotonic() - seen > self.timeout:
                raise _gone_error(f"no worker for {self.timeout:g} s")

    def _asked(self, question: Callable[[], Result]) -> Result:
        """Return the cluster's answer; raise ``ClusterError`` if there is none."""
        client = self.client
        if client is None or client.status != "running":  # else the call would wait for a new connection
            raise _gone_error("the client is not connected")
        try:
            return question()
        except (OSError, TimeoutError, FutureCancelledError, RuntimeError) as error:
            raise _gone_error(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class _Tell:
    """Function that sends a number to a client from within a task: see :meth:`DaskEngine.telling`."""

    topic: str

    def __call__(self, number: int) -> None:
        distributed.get_worker().log_event(self.topic, number)


def _gone_error(why: str) -> ClusterError:
    return ClusterError(
        f"the Dask cluster has gone ({why}). The estimator is as it was before; start scheduler and workers, "
        "connect a new client and fit again."
    )


def _large_graphs() -> Any:
    """Return a context without Dask's warning about large graphs: these rows are meant to be sent."""
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
