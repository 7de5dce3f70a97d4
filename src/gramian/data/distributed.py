"""Rows and values stored in parts elsewhere: work is sent to the parts, and small results come back.

This file knows no cluster. ``gramian.engine_dask`` does; it is imported by name when somebody passes a Dask
collection (:func:`cluster_of`), so that nobody else needs Dask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, Protocol, TypeVar

from numpy.typing import ArrayLike, DTypeLike

from gramian._phases import Progress
from gramian._typing import Array, RowsLike
from gramian.data.source import RowSource
from gramian.exceptions import InputError

Result = TypeVar("Result")

#: For each package whose collections are read: the module of gramian whose function ``engine`` reads them.
READERS = {"dask": "gramian.engine_dask", "dask_expr": "gramian.engine_dask"}


class Partitioned(ABC):
    """Rows, or values of rows, in consecutive parts to which work can be sent.

    ``arrays`` are values of the same rows, each an array, another :class:`Partitioned` or None. The work on a
    part gets the part and, from each of them, the values of the same rows (None for None).
    """

    @abstractmethod
    def rounds(
        self,
        work: Callable[..., Result],
        combine: Callable[[Sequence[Result]], Result],
        *arrays: object,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield (rows, result) over consecutive rows from ``start`` on, some parts at a time.

        ``work(total, part, *parts of the arrays)`` adds a part to ``total``, the result of earlier parts
        (None for a chain's first part), and returns the new total. ``combine`` merges totals in the order of
        the parts. Both may change their first argument and return it, because sums are large and copies of
        them can exceed the parts. ``progress`` is called with each number of rows that are done.
        """

    def map(self, work: Callable[..., Result], *arrays: object) -> Iterator[Result]:
        """Yield ``work(rows, *values of the same rows)`` over consecutive rows, at least a part at a time."""
        for _, results in self.rounds(partial(_append, work), _join, *arrays):
            yield from results


def _append(work: Callable[..., Result], results: list[Result] | None, *values: object) -> list[Result]:
    """Return the results of the parts before, and that of this part."""
    return [*(results or ()), work(*values)]


def _join(results: Iterable[list[Result]]) -> list[Result]:
    """Return the results of several chains of parts."""
    return list(chain.from_iterable(results))


class Cluster(Protocol):
    """Machines that hold rows or receive them and run tasks on these: the ``engine`` of an estimator."""

    def rows(self, X: RowsLike | None) -> Any:
        """Return a collection as a row source; anything else unchanged."""

    def column(self, y: ArrayLike | None, *, flat: bool = True) -> Any:
        """Return a collection as a stored column, (n, 1) as (n,) if ``flat``; anything else unchanged."""

    def header(self, X: RowsLike) -> Any:
        """Return a source with the columns and ``feature_names`` of a collection, but no rows."""

    def distribute(self, source: RowSource) -> RowSource:
        """Return rows whose sums are computed on the machines, wherever the rows are stored."""

    def lazily(
        self, X: RowsLike, work: Callable[[Any], Array], shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        """Return a lazy collection of ``work(rows)`` over the parts of another; nothing is computed.

        ``shape`` is the shape of one row's result: () or (outputs,).
        """


def is_elsewhere(X: object) -> bool:
    """Return whether X is a collection of a package in ``READERS``."""
    return type(X).__module__.partition(".")[0] in READERS


def refuse_elsewhere(X: object, model: str) -> None:
    """Raise for a collection given to a model that works on this machine."""
    if is_elsewhere(X):
        raise InputError(
            f"X is a {type(X).__name__} of Dask, which {model} would have to read as a whole. Pass "
            "X.compute(), or use a model that works on the cluster: gramian.KernelRidge or "
            "gramian.KernelRidgeClassifier."
        )


def cluster_of(X: RowsLike | None, engine: Cluster | None) -> Cluster:
    """Return the given engine or, without one, that of the package whose collection X is."""
    if engine is None:
        cluster: Cluster = import_module(READERS[type(X).__module__.partition(".")[0]]).engine()
        return cluster
    if not hasattr(engine, "distribute"):
        raise InputError(
            f"engine={engine!r} is not a cluster. Give None, or gramian.engine_dask.DaskEngine(client) of a "
            "distributed.Client."
        )
    return engine


def distributed(source: RowSource, engine: Cluster | None) -> RowSource:
    """Return rows whose work is done by the engine's machines; without one, the rows themselves."""
    return source if engine is None else cluster_of(source, engine).distribute(source)
