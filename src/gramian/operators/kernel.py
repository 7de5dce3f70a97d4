"""Operator of the exact kernel matrix, whose products are computed tile by tile without storing it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, as_rows
from gramian.kernels.columns import Columns, float_type
from gramian.kernels.compiled import part_of_block
from gramian.operators.base import Operator

#: Columns of a tile, enough for the matrix product in k(rows, part) to run at full speed. Chosen by hand.
COLUMNS = 1024
#: Largest number of parts (of COLUMNS rows) in a task. A task prepares the evaluator of a part once. Chosen
#: by hand.
TASK_PARTS = 8
#: Intended number of tasks along one side, for any number of threads. Chosen by hand.
TASKS_A_SIDE = 12
#: Largest number of bytes of prepared parts to keep from one product to the next. Chosen by hand.
KEPT_BYTES = 1 << 26
#: Up to this many columns of V, a matrix-vector product for each is faster than one matrix product. Chosen by
#: hand.
FEW = 3


class KernelOperator(Operator):
    r"""K = k(X, X), or the rectangular k(X, Z), as an operator V ↦ K V.

    A tile is computed, multiplied by its part of V while it is in the cache, and dropped. Only the lower half
    of the symmetric K is computed: a tile K_ij gives both K_ij V_j and K_ijᵀ V_i. Tiles and their products
    have type ``dtype``. Sums over tiles are float64, in an order that does not depend on the number of
    threads.

    Parameters
    ----------
    kernel : Kernel
    rows : ndarray or CSR (n, d)
        X; kept without a copy.
    columns : ndarray or CSR (m, d), optional
        Z; leave it out for the symmetric K = k(X, X), whose diagonal is then exact.
    dtype : {"float32", "float64"}, optional
        Type of the tiles; by default float32 if all rows are, else float64. The error of an entry is at most
        2e-5 in float32 and 1e-8 in float64.
    n_jobs : int, optional
        Threads, as in :class:`gramian.engine.Engine`.
    keep_bytes : int, default=0
        Memory for tiles of the symmetric K. If it is enough for the lower half (:func:`triangle_bytes`), the
        first product keeps the tiles and later ones read them; otherwise no tile is kept.
    prepared : dict, optional
        Prepared parts of the same columns, kernel and dtype, shared with other operators; filled as needed.

    Attributes
    ----------
    evaluations : int
        Kernel values computed so far.

    Time O(n m (d + p)) for p columns of V; the symmetric K takes half the kernel values. Memory per thread:
    one tile and 3·8192·p numbers. Apart from tiles that are kept, nothing grows with n m.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 4))
    >>> K = KernelOperator(gm.Gaussian(0.5), X)
    >>> K.shape, bool(np.allclose(K @ np.ones(300), gm.Gaussian(0.5)(X).sum(axis=1)))
    ((300, 300), True)
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        columns: Rows | None = None,
        *,
        dtype: DTypeLike | None = None,
        n_jobs: int | None = None,
        keep_bytes: int = 0,
        prepared: dict[int, Columns] | None = None,
    ) -> None:
        self.kernel = kernel
        self.rows = as_rows(rows, "rows")
        self.columns = None if columns is None else as_rows(columns, "columns")
        points = self.rows if self.columns is None else self.columns
        if points.shape[1] != self.rows.shape[1]:
            raise InputError(
                f"rows has {self.rows.shape[1]} features, columns has {points.shape[1]}. Pass points of the "
                "same features."
            )
        self.tile_dtype = np.dtype(float_type(self.rows, points) if dtype is None else dtype)
        if self.tile_dtype not in (np.float32, np.float64):
            raise InputError(f"dtype={dtype!r} is not a tile type. Give 'float32' or 'float64'.")
        self.n_jobs = n_jobs
        self._engine = Engine(n_jobs)
        self._kept = {} if prepared is None else prepared
        # Runs of tiles below each other, by their first column and row; None if no tiles are kept.
        keep = columns is None and triangle_bytes(self.rows.shape[0], self.tile_dtype) <= keep_bytes
        self._tiles_kept: dict[tuple[int, int], FloatArray] | None = {} if keep else None
        self.evaluations = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return int(self.rows.shape[0]), int(self._points.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles that are kept; nothing else is stored beside the caller's rows."""
        return sum(run.nbytes for run in (self._tiles_kept or {}).values())

    @property
    def T(self) -> KernelOperator:
        """The transpose k(Z, X); the operator itself if it is symmetric."""
        if self.columns is None:
            return self
        return KernelOperator(self.kernel, self.columns, self.rows, dtype=self.tile_dtype, n_jobs=self.n_jobs)

    def with_dtype(self, dtype: DTypeLike) -> KernelOperator:
        """Return the same matrix with tiles of another type."""
        return KernelOperator(self.kernel, self.rows, self.columns, dtype=dtype, n_jobs=self.n_jobs)

    def diagonal(self) -> Float64Array:
        """Return k(x_i, x_i) of the symmetric K, shape (n,)."""
        if self.columns is not None:
            raise InputError("k(X, Z) between two sets of rows has no diagonal. Leave columns out.")
        return self.kernel.diagonal(self.rows)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<KernelOperator {n} × {m}: {self.kernel!r}, {self.tile_dtype} tiles>"

    @property
    def _points(self) -> Rows:
        return self.rows if self.columns is None else self.columns

    def _entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        block = self.kernel(self.rows[rows], self._points[cols], dtype=np.float64, n_jobs=self.n_jobs)
        if self.columns is None:
            i, j = np.nonzero(rows[:, None] == cols)
            block[i, j] = self.kernel.diagonal(self.rows[rows])[i]
        self.evaluations += block.size
        return np.asarray(block, np.float64)

    def _product(self, values: Float64Array) -> Float64Array:
        columns = values if values.ndim == 2 else values[:, None]
        if not columns.size:
            return np.zeros((self.shape[0], *values.shape[1:]))
        # Dividing a column by its largest entry makes it fit into float32.
        unit = np.abs(columns).max(axis=0, initial=0.0)
        unit[~(unit > 0)] = 1.0
        short = (columns / unit).astype(self.tile_dtype)
        with part_of_block(*self.shape):
            out = self._symmetric(short) if self.columns is None else self._rectangular(short)
        return np.asarray((out * unit).reshape((self.shape[0], *values.shape[1:])))

    def _rectangular(self, short: FloatArray) -> Float64Array:
        out = np.zeros((self.shape[0], short.shape[1]))

        def task(where: slice) -> None:
            rows, sums = self.rows[where], out[where]
            for part in row_slices(short.shape[0], COLUMNS):
                for place, tile in self._computed(part, rows):
                    sums[place] += _times(tile, short[part])

        # Small tasks share work evenly, but each of them prepares the parts again unless these are kept.
        size = 1 if _kept_bytes(*self._points.shape) <= KEPT_BYTES else TASK_PARTS
        self._engine.run(task, row_slices(self.shape[0], size * COLUMNS))
        self.evaluations += self.shape[0] * self.shape[1]
        return out

    def _symmetric(self, short: FloatArray) -> Float64Array:
        n, width = short.shape
        out = np.zeros((n, width))
        slabs = list(row_slices(n, COLUMNS * _parts(n)))
        pairs = [(rows, cols) for i, rows in enumerate(slabs) for cols in slabs[: i + 1]]

        def task(pair: tuple[slice, slice]) -> tuple[Float64Array, Float64Array, int]:
            return self._square(*pair, short)

        with self._engine.results(task, pairs) as products:
            for (rows, cols), product in zip(pairs, products, strict=True):
                down, along, entries = product
                out[rows] += down
                out[cols] += along
                self.evaluations += entries
        return out

    def _square(self, rows: slice, cols: slice, short: FloatArray) -> tuple[Float64Array, Float64Array, int]:
        """Return K[rows, cols] V[cols], K[rows, cols]ᵀ V[rows] and the number of kernel values computed.

        Of a square on the diagonal only the parts on and below the diagonal are computed.
        """
        down = np.zeros((rows.stop - rows.start, short.shape[1]))
        along = np.zeros((cols.stop - cols.start, short.shape[1]))
        entries = 0
        for start in range(cols.start, cols.stop, COLUMNS):
            part = slice(start, min(start + COLUMNS, cols.stop))
            into = along[start - cols.start : part.stop - cols.start]
            first = rows.start
            if rows == cols:
                first = part.stop
                entries += self._is_new(part, start) * (part.stop - start) ** 2
                into += self._own(part, short[part])
            if first == rows.stop:
                continue
            entries += self._is_new(part, first) * (part.stop - start) * (rows.stop - first)
            for place, tile in self._tiles(part, slice(first, rows.stop)):
                left = short[first + place.start : first + place.stop]
                down[first - rows.start + place.start : first - rows.start + place.stop] += _times(
                    tile, short[part]
                )
                into += _transposed_times(tile, left)
        return down, along, entries

    def _own(self, part: slice, values: FloatArray) -> Float64Array:
        """Return K V for the rows and columns of one part, with the exact diagonal."""
        diagonal = self.kernel.diagonal(self.rows[part])
        out = np.zeros(values.shape)
        for place, tile in self._tiles(part, part):
            np.fill_diagonal(tile[:, place], diagonal[place])
            out[place] = _times(tile, values)
        return out

    def _is_new(self, part: slice, first: int) -> bool:
        """Return whether the tiles of a part's columns, from a given row on, still have to be computed."""
        return self._tiles_kept is None or (part.start, first) not in self._tiles_kept

    def _tiles(self, part: slice, rows: slice) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the rows with the tiles k(X[rows][slice], X[part]), kept or computed."""
        if self._tiles_kept is None:
            yield from self._computed(part, self.rows[rows])
            return
        run = self._tiles_kept.get((part.start, rows.start))
        if run is None:
            run = np.empty((rows.stop - rows.start, part.stop - part.start), self.tile_dtype)
            yield from self._computed(part, self.rows[rows], run)
            self._tiles_kept[part.start, rows.start] = run
            return
        for place in row_slices(run.shape[0], tile_rows(run.shape[1], run.itemsize)):
            yield place, run[place]

    def _computed(
        self, part: slice, rows: Rows, into: FloatArray | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of rows with the tiles k(rows[slice], Z[part]), in ``into`` or in shared memory."""
        evaluator = self._kept.get(part.start)
        if evaluator is None:
            evaluator = self.kernel.against(self._points[part], self.tile_dtype)
            if into is None and _kept_bytes(*self._points.shape) <= KEPT_BYTES:
                self._kept[part.start] = evaluator
        size = part.stop - part.start
        height = tile_rows(size, self.tile_dtype.itemsize)
        memory = np.empty((min(height, rows.shape[0]), size), self.tile_dtype) if into is None else into
        for place in row_slices(rows.shape[0], height):
            tile = memory[: place.stop - place.start] if into is None else memory[place]
            evaluator.write(rows[place], tile)
            yield place, tile


def working_bytes(n_columns: int, n_features: int, n_outputs: int, itemsize: int, threads: int) -> int:
    """Return the bytes of a product beside V and the result: tiles, partial sums, prepared parts."""
    kept = _kept_bytes(n_columns, n_features)
    part = min(COLUMNS, n_columns)
    tile = tile_rows(part, itemsize) * (part + n_features + 2) * itemsize + 12 * part * (n_features + 2)
    flight = 2 * 8 * TASK_PARTS * COLUMNS * n_outputs
    return threads * (2 * tile + 3 * flight) + (kept if kept <= KEPT_BYTES else 0)


def triangle_bytes(n_rows: int, dtype: DTypeLike) -> int:
    """Return the bytes of the tiles of the lower half of K; tiles on the diagonal count in full."""
    whole, rest = divmod(int(n_rows), COLUMNS)
    own = whole * COLUMNS**2 + rest**2
    return int((own + n_rows**2) // 2 * np.dtype(dtype).itemsize)


def _kept_bytes(n_columns: int, n_features: int) -> int:
    """Return the bytes of all prepared parts: points in float64, and the factor of the product."""
    return n_columns * (n_features + 2) * 16


def _parts(n: int) -> int:
    """Return the parts of a slab: few enough for every thread to have work, and enough to be worth a task."""
    return int(np.clip(-(-n // (TASKS_A_SIDE * COLUMNS)), 1, TASK_PARTS))


def _times(tile: FloatArray, values: FloatArray) -> FloatArray:
    """Return tile @ values, column by column if there are few, for which BLAS's matrix product is slow."""
    if values.shape[1] > FEW:
        return tile @ values
    return np.stack([tile @ column for column in values.T], axis=1)


def _transposed_times(tile: FloatArray, values: FloatArray) -> FloatArray:
    """Return tileᵀ @ values."""
    if values.shape[1] > FEW:
        return np.asarray((values.T @ tile).T)
    return np.stack([tile.T @ column for column in values.T], axis=1)
