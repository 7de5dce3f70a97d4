"""Fits and predictions on a Dask cluster: its collections as rows and targets.

Rows stay where they are: work goes to each partition, and its results (the sums of a fit, whose size does not
grow with the number of rows) are added up in a tree (:mod:`gramian.engine_dask.rows`). If a worker dies,
Dask repeats its part of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import scipy.sparse as sp
from dask.delayed import delayed
from numpy.typing import DTypeLike

from gramian._tiles import row_slices
from gramian._typing import Array, RowsLike
from gramian.data.distributed import Partitioned
from gramian.data.formats.frames import text_names
from gramian.data.source import ArraySource, RowSource
from gramian.engine_dask import part_work
from gramian.engine_dask.rows import ScatteredRows, TaskParts
from gramian.engine_dask.tasks import ClusterTasks
from gramian.exceptions import InputError
from gramian.kernels.precomputed import StoredRows


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """A Dask cluster that runs the work on the rows of a fit: ``KernelRidge(engine=DaskEngine(client))``.

    Parameters
    ----------
    client : distributed.Client, default=None
        Connection to the cluster; None uses the current client, or if there is none Dask's own scheduler.
    shared_files : bool, default=False
        Whether workers open the files of ``gm.open_data`` themselves, at the same paths. If False, and for
        arrays, memmaps and sparse rows, rows are read here and sent.
    part_bytes : int or str, default="64MB"
        Bytes of rows that one task gets, if rows are not partitioned already.
    timeout : float, default=60
        Seconds without any worker after which a fit gives up with ``ClusterError``.

    scikit-learn's ``clone`` shares the engine object; a pickle of it has no client.

    Examples
    --------
    >>> import dask.array as da, gramian as gm
    >>> X = da.random.default_rng(0).random((3000, 2), chunks=(1000, 2))
    >>> y = da.sin(6 * X[:, 0])
    >>> m = gm.KernelRidge(alpha=1e-3, gamma=10.0, random_state=0).fit(X, y)
    >>> m.predict(X)
    dask.array<..., shape=(3000,), dtype=float64, chunksize=(1000,), chunktype=numpy.ndarray>
    """

    client: Any = None
    shared_files: bool = False
    part_bytes: int | str = "64MB"
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.client is None:
            return
        if not isinstance(self.client, distributed.Client):
            raise InputError(
                f"client has type {type(self.client).__name__}; expected a distributed.Client. Pass "
                "Client('tcp://scheduler:8786')."
            )
        if self.client.asynchronous:
            raise InputError("the client is asynchronous; pass one made with Client(asynchronous=False).")

    def __deepcopy__(self, memo: dict[int, object]) -> DaskEngine:
        return self

    def __reduce__(self) -> Any:
        return DaskEngine, (None, self.shared_files, self.part_bytes, self.timeout)

    def rows(self, X: RowsLike | None) -> Any:
        """Return a Dask array or frame as a row source (unknown lengths are computed); others unchanged."""
        if X is None or not dask.is_dask_collection(X):
            return X
        header = self.header(X)
        parts = _parts(X)
        lengths = self._lengths(X, parts)
        if sum(lengths) == 0:
            raise InputError("X has no rows. Check how it was selected.")
        starts = np.cumsum([0, *lengths])
        as_rows = self._tasks.task(part_work.as_rows)
        read = [as_rows(p, int(a)) for p, a in zip(parts, starts)]
        rows = TaskParts(self._tasks, read, lengths, header.shape[1:], header.dtype)
        rows.feature_names = header.feature_names
        return rows

    def column(self, y: Any, *, flat: bool = True) -> Any:
        """Return a Dask array, series or frame of values as a stored column; others unchanged.

        ``flat``: whether values of shape (n, 1) become (n,), as labels and weights require.
        """
        if not dask.is_dask_collection(y):
            return y
        _check_kind("y", y)
        tail = tuple(int(k) for k in y.shape[1:])
        parts = _parts(y)
        lengths = self._lengths(y, parts)
        flat = flat and tail == (1,)
        read = self._tasks.task(part_work.as_flat if flat else part_work.as_values)
        kind = part_work.as_values(y._meta).dtype
        return TaskParts(self._tasks, [read(p) for p in parts], lengths, () if flat else tail, kind)

    def header(self, X: Any) -> ArraySource:
        """Return a source with the collection's columns and no rows; raise if columns are not numbers."""
        _check_kind("X", X)
        if not hasattr(X, "columns"):
            return ArraySource(_array_header(X))
        wrong = [str(name) for name, kind in X._meta.dtypes.items() if not part_work.is_number(kind)]
        if wrong:
            raise InputError(
                f"X has columns that are not numbers: {', '.join(wrong)}. Drop them, or turn them into "
                "numbers (dask.dataframe.get_dummies)."
            )
        header = ArraySource(part_work.as_rows(X._meta, 0))
        header.feature_names = text_names(X.columns)
        return header

    def distribute(self, source: RowSource) -> RowSource:
        """Return the rows of a source of this machine, or of files, for work on the cluster."""
        if isinstance(source, Partitioned):
            return source
        if isinstance(source, StoredRows):
            raise InputError(
                "kernel='precomputed' works on this machine alone: its rows are numbers of a matrix. Give "
                "engine=None."
            )
        if self.current is None:
            raise InputError("there is no Dask client. Pass engine=DaskEngine(client) with a connected one.")
        if not self.shared_files or isinstance(source, ArraySource) or sp.issparse(source.rows(slice(0, 1))):
            return ScatteredRows(self._tasks, source)
        n, d = source.shape
        cuts = list(row_slices(n, self._tasks.part_rows(d * source.dtype.itemsize)))
        opened = delayed(source, pure=False, traverse=False)
        read, lengths = self._tasks.task(part_work.read), [c.stop - c.start for c in cuts]
        rows = TaskParts(self._tasks, [read(opened, c) for c in cuts], lengths, (d,), source.dtype)
        rows.feature_names, rows.opened_there = getattr(source, "feature_names", None), True
        return rows

    def lazily(self, X: Any, work: Callable[[Any], Array], shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return the Dask array of ``work(rows)`` over a collection's parts; nothing is computed.

        If the engine has a client, the data inside ``work`` are broadcast to the workers; otherwise they are
        part of the graph.
        """
        if hasattr(X, "columns"):
            X = X.to_dask_array()
        elif X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        there = delayed(work, pure=False, traverse=False) if self.client is None else self._tasks.sent(work)
        layout = {"chunks": (X.chunks[0], *((k,) for k in shape)), "drop_axis": () if shape else 1}
        empty = np.empty((0, *shape), dtype)
        return X.map_blocks(
            part_work.predict_part, work=there, empty=empty, dtype=dtype, meta=empty, **layout
        )

    @property
    def current(self) -> Any:
        """The client that tasks go to; None if there is none and Dask's own scheduler runs them."""
        if self.client is not None:
            return self.client
        try:
            return distributed.default_client()
        except ValueError:
            return None

    @property
    def _tasks(self) -> ClusterTasks:
        """The tasks of the current client: if that is closed, a fit must not go on elsewhere."""
        return ClusterTasks(self.current, self.part_bytes, self.timeout)

    def _lengths(self, X: RowsLike, parts: Sequence[Any]) -> list[int]:
        """Return the number of rows of each part; frames and unknown chunks need a pass over the data."""
        known = getattr(X, "chunks", None)
        if known is not None and not np.isnan(known[0]).any():
            return [int(k) for k in known[0]]
        length = self._tasks.task(len)
        return [int(k) for k in self._tasks.results([length(p) for p in parts])]


def engine() -> DaskEngine:
    """Return the engine of the current client, for collections passed without an engine."""
    return DaskEngine()


def _check_kind(name: str, X: RowsLike) -> None:
    if not isinstance(X, da.Array) and "dataframe" not in type(X).__module__:
        raise InputError(
            f"{name} is a Dask {type(X).__name__}; expected an array, a series or a frame. Build one, for "
            "example by dask.array.from_delayed or bag.to_dataframe()."
        )


def _array_header(X: Any) -> Array:
    if X.ndim != 2:
        raise InputError(
            f"X has {X.ndim} axes; expected two, one row a sample: (n, d). Pass X.reshape(-1, 1) for a "
            "single feature, series.to_frame() for a series."
        )
    if np.isnan(X.shape[1]):
        raise InputError("X's number of columns is unknown. Call X.compute_chunk_sizes() first.")
    if not isinstance(X._meta, np.ndarray) or X.dtype.kind not in "fiub":
        raise InputError(
            f"X has blocks of type {type(X._meta).__name__} and dtype {X.dtype}; expected NumPy blocks of "
            "real numbers. Convert them with X.map_blocks(...)."
        )
    return part_work.as_rows(X._meta.reshape(0, X.shape[1]), 0)


def _parts(X: Any) -> list[Any]:
    """Return the partitions of a collection as tasks; those of an array have all columns."""
    if isinstance(X, da.Array) and X.ndim > 1 and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))
