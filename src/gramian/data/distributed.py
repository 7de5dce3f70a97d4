"""Rows and values that are stored in parts elsewhere: work travels to them, small results come back.

Nothing here knows a cluster. ``gramian.engine_dask`` does, and is looked up by name where somebody passes a
Dask collection (:func:`cluster_of`), so that nobody else needs Dask installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar

from gramian._typing import Array
from gramian.data.source import RowSource
from gramian.exceptions import InputError

Result = TypeVar("Result")
#: Called with each number of rows that are done.
Progress = Callable[[int], object]

#: Of each package whose collections are read: the module of gramian that does it, by its function ``engine``.
READERS = {"dask": "gramian.engine_dask", "dask_expr": "gramian.engine_dask"}


#: Times that work is begun again where all copies of what was sent for it are lost.
ATTEMPTS = 3


class LostDataError(Exception):
    """What was sent for the work is gone with the machines that held it; others are there to go on."""


class Partitioned(ABC):
    """Rows, or values of rows, in consecutive parts that work can be sent to.

    ``beside`` are values of the same rows, each an array, another :class:`Partitioned` or None: the work on a
    part gets the part and, of each, the values of its rows (None for None).
    """

    @abstractmethod
    def map(self, work: Callable[..., Result], *beside: Any) -> Iterator[Result]:
        """Yield ``work(part, *values beside it)`` in the order of the parts."""

    @abstractmethod
    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *beside: Any,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on, some parts at a time.

        ``work(total, part, *values beside it)`` returns the total of the part and those before it; ``total``
        is None for the first of a row of parts. ``combine`` takes totals in the order of the parts. Both may
        change the first value that they are given and return it: sums are large, and copies of them larger
        than what they are made of. ``progress`` is called with each number of rows that are done.
        """

    def reduce(
        self, work: Callable[..., Result], combine: Callable[[Sequence[Result]], Result], *beside: Any
    ) -> Result:
        """Return what ``work`` returns for all parts, put together by ``combine``."""
        results = [result for _, result in self.rounds(partial(_onto, work, combine), combine, *beside)]
        return results[0] if len(results) == 1 else combine(results)


def _onto(
    work: Callable[..., Result],
    combine: Callable[[Sequence[Result]], Result],
    total: Result | None,
    *values: Any,
) -> Result:
    """Return what work makes of a part, combined with the total of the parts before it."""
    found = work(*values)
    return found if total is None else combine([total, found])


class Cluster(Protocol):
    """Machines that rows can lie on or be sent to: an estimator's ``engine``."""

    def rows(self, X: Any) -> Any:
        """Return a collection as a row source; anything else as it is."""

    def column(self, y: Any, *, flat: bool = True) -> Any:
        """Return a collection as a stored column, (n, 1) as (n,) if ``flat``; anything else as it is."""

    def header(self, X: Any) -> Any:
        """Return shape (rows 0) and ``feature_names`` of a collection, as a source has them."""

    def over(self, source: RowSource) -> RowSource:
        """Return rows whose sums are made on the machines, wherever the rows lie."""

    def lazily(self, X: Any, work: Callable[[Any], Array], shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the collection of ``work(rows)`` over the parts of one, nothing computed.

        ``shape`` is that of one row's result: () or (outputs,).
        """


def is_elsewhere(X: Any) -> bool:
    """Return whether X is a collection of another package that a reader is known for."""
    return type(X).__module__.partition(".")[0] in READERS


def cluster_of(X: Any, engine: Cluster | None) -> Cluster | None:
    """Return the cluster to read X by: the engine that was given, or that of the package X comes from."""
    if engine is not None and not hasattr(engine, "over"):
        raise InputError(
            f"engine={engine!r} is no cluster. Give None, or gramian.engine_dask.DaskEngine(client) of a "
            "distributed.Client."
        )
    if engine is not None or not is_elsewhere(X):
        return engine
    reader = import_module(READERS[type(X).__module__.partition(".")[0]])
    found: Cluster = reader.engine()
    return found
