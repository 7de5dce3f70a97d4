"""Resources of a fit, and a map over independent tasks with the same result on any number of threads.

Algorithms cut their work into tasks, whose number does not depend on the number of threads, and add up the
results in the order of the tasks. The engine only decides which thread computes what. In each thread BLAS is
limited to one thread.
"""

from __future__ import annotations

import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import joblib
import numpy as np

from gramian._budget import parse_bytes
from gramian._phases import Phases, silent
from gramian._random import as_generator
from gramian._tiles import one_blas_thread
from gramian.exceptions import InputError, quoted

Task = TypeVar("Task")
Result = TypeVar("Result")

_inside = threading.local()


@dataclass(frozen=True, slots=True)
class Engine:
    """Threads for independent tasks: :meth:`results` one by one, or all of them by :meth:`map`.

    ``n_jobs`` is the number of threads. ``None`` means ``OMP_NUM_THREADS`` if it is set, else every core that
    the process may use; ``-1`` means every core; ``1`` runs everything in the calling thread.
    """

    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.n_jobs is None:
            return
        whole = isinstance(self.n_jobs, numbers.Integral) and not isinstance(self.n_jobs, bool)
        if not whole or self.n_jobs == 0:
            raise InputError(
                f"n_jobs={quoted(self.n_jobs)} is not a number of threads. Give None, a positive integer, or "
                "-1 for every core (-2 for all but one)."
            )

    @property
    def n_threads(self) -> int:
        """Threads that :meth:`map` will use."""
        if self.n_jobs is None:
            limit = os.environ.get("OMP_NUM_THREADS", "")
            return int(limit) if limit.isdigit() and int(limit) > 0 else joblib.cpu_count()
        if self.n_jobs < 0:
            return max(1, joblib.cpu_count() + 1 + self.n_jobs)
        return int(self.n_jobs)

    @contextmanager
    def results(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[Iterator[Result]]:
        """Give an iterator of ``function(task)``, in the order of the tasks, to the body of a ``with``.

        At most two tasks per thread are started ahead, so that results do not pile up. A call from inside a
        task runs serially, because the outer call has all threads. The threads take over the caller's
        ``np.errstate`` and context variables. However the body ends, no task runs after it, and BLAS has its
        threads back.

        >>> with Engine(2).results(abs, [-1, -2]) as results:
        ...     print(sum(results))
        3
        """
        if getattr(_inside, "running", False):
            yield map(function, tasks)
            return
        threads = self.n_threads
        alone = threads == 1
        if not alone:  # a pool costs more than small tasks
            tasks = iter(tasks)
            first = list(islice(tasks, 2))
            alone, tasks = len(first) < 2, chain(first, tasks)
        with one_blas_thread():
            if alone:
                yield _serially(function, tasks)
                return
            pending: deque[Future[Result]] = deque()
            with ThreadPoolExecutor(threads, initializer=partial(setattr, _inside, "running", True)) as pool:
                work = partial(_under, np.geterr(), function)

                def submit(task: Task) -> Future[Result]:
                    return pool.submit(copy_context().run, work, task)

                try:
                    yield _ahead(submit, tasks, pending, 2 * threads)
                finally:
                    for future in pending:
                        future.cancel()

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``function(task)`` of all tasks, in their order."""
        with self.results(function, tasks) as results:
            return list(results)

    def run(self, function: Callable[[Task], object], tasks: Iterable[Task]) -> None:
        """Run tasks for their side effects; no two of them may write to the same memory."""
        with self.results(function, tasks) as results:
            deque(results, maxlen=0)


@dataclass(frozen=True)
class Run:
    """What a fit may use, and whom it tells: passed from its estimator down to every phase.

    memory_bytes : of working memory; engine : threads; tile_dtype : precision of the kernel tiles, "auto"
    until the rows have decided; random_state : as scikit-learn takes it; phases : is told of the phases.
    """

    memory_bytes: int
    engine: Engine
    tile_dtype: str = "auto"
    random_state: Any = None
    phases: Phases = silent

    @classmethod
    def of(cls, estimator: Any, phases: Phases = silent) -> Run:
        """Return what an estimator's parameters allow."""
        threads, seed = Engine(estimator.n_jobs), estimator.random_state
        return cls(parse_bytes(estimator.memory_budget), threads, estimator.tile_dtype, seed, phases)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the kernel tiles, once it is decided."""
        return np.dtype(self.tile_dtype)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the random state; a seed gives a new one each time."""
        return as_generator(self.random_state)


def _serially(function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``function(task)``, computed in the calling thread."""
    for task in tasks:
        _inside.running = True
        try:
            result = function(task)
        finally:
            _inside.running = False
        yield result


def _ahead(
    submit: Callable[[Task], Future[Result]], tasks: Iterable[Task], pending: deque[Future[Result]], most: int
) -> Iterator[Result]:
    """Yield the results of submitted tasks; at most so many are in ``pending``."""
    for task in tasks:
        pending.append(submit(task))
        if len(pending) >= most:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _under(state: Mapping[str, Any], function: Callable[[Task], Result], task: Task) -> Result:
    """Return ``function(task)``, computed under the caller's floating-point error state."""
    with np.errstate(**state):
        return function(task)
