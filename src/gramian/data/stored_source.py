"""Rows in files, or in a frame, read piece by piece on demand, and their targets."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, IntArray, RowsLike
from gramian.data.arrow import pyarrow_package
from gramian.data.column import StoredColumn
from gramian.data.storage import Piece, Storage, Target, explain_errors, no_rows
from gramian.data.values import overflow, row_bytes, too_large
from gramian.exceptions import InputError, listed, user_level

#: Number of pieces that are always kept after reading, since one piece can hold the end of a block and the
#: start of the next. Chosen by hand.
KEPT_PIECES = 2
#: Bytes of targets that are kept, so that a format that parses rows and targets together need not parse
#: twice. Chosen by hand.
KEPT_TARGET_BYTES = 1 << 24


class StoredSource:
    """A row source over a :class:`~gramian.data.storage.Storage`; ``gm.open_data`` makes them.

    Memory: two pieces of a few megabytes, an index of the pieces, and the requested blocks; or all pieces, if
    they take at most ``keep_bytes``. Reads go in file order, a piece at a time; threads may share a source. A
    row with a missing value, NaN or infinity raises ``InputError`` with file and row, or is left out
    (``drop``): all pieces are then read once here to find these rows.

    The rows of a table with columns of any type (``storage.of_columns``) are Arrow tables: text, dates and
    missing values stay as they are. :func:`gramian.data.tables.as_table` reads them.
    """

    #: ``row_blocks`` reads the next block while the caller works on one.
    reads_ahead = True

    def __init__(self, storage: Storage, *, drop: bool = False, keep_bytes: float = 0.0) -> None:
        self.storage, self.keep_bytes = storage, keep_bytes
        self._dropped: dict[int, IntArray] = {}
        self._count()
        self._reset()
        if drop:
            lacking = {k: self._lacking(k) for k in range(len(storage.pieces))}
            self._dropped = {k: rows for k, rows in lacking.items() if len(rows)}
            self._count()
        if self.n_dropped:
            warnings.warn(
                f"{self.n_dropped} of {self.n_dropped + self.shape[0]} rows have a missing value, NaN or "
                "infinity and are left out (nan='drop').",
                UserWarning,
                stacklevel=user_level(),
            )

    def _count(self) -> None:
        kept = [piece.n_rows - len(self._dropped.get(k, ())) for k, piece in enumerate(self.storage.pieces)]
        #: Number of rows left out.
        self.n_dropped = sum(map(len, self._dropped.values()))
        #: Number of the first row of each piece, and the number of rows.
        self._starts = np.concatenate([[0], np.cumsum(kept)]).astype(np.intp)
        #: Number of rows and features.
        self.shape = int(self._starts[-1]), self.storage.n_features
        if not self.shape[0]:
            raise no_rows(self.storage.names, self.n_dropped)

    def _reset(self) -> None:
        #: Type of the stored numbers.
        self.dtype = self.storage.dtype
        #: Names of the features, if the format has them.
        self.feature_names = self.storage.feature_names
        self._kept: dict[str, OrderedDict[int, Any]] = {"rows": OrderedDict(), "targets": OrderedDict()}
        self._kept_bytes = 0
        self._guard = threading.Lock()
        self._reading = {"rows": threading.Lock(), "targets": threading.Lock()}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.storage, self.keep_bytes, self._dropped

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.storage, self.keep_bytes, self._dropped = state
        self._count()
        self._reset()

    def __repr__(self) -> str:
        shown = listed(list(self.storage.names), 3, show=str)
        return f"<rows of {shown}: shape {self.shape}, {self.dtype}>"

    @property
    def target(self) -> StoredTarget | None:
        """The targets, if a target was named; read on demand."""
        return None if self.storage.target is None else StoredTarget(self)

    @property
    def row_bytes(self) -> int:
        """Bytes to read a row: the caller's block, the next one, and briefly one more."""
        views = self.storage.views and len(self.storage.pieces) == 1 and not self.n_dropped
        return 0 if views else 3 * self.shape[1] * self.dtype.itemsize

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """Values that identify files and chosen rows and columns, for a fingerprint; None for a frame."""
        store = self.storage
        if not store.files:
            return None
        files = [(file.path.name, file.size, file.mtime_ns) for file in store.files]
        choices = sorted(store.settings().items())
        target = store.target and store.target.name
        return files, self.shape, self.dtype.str, self.feature_names, choices, target, self.n_dropped

    @property
    def read_bytes(self) -> int:
        """Bytes of the pieces that are held while reading, including the one being read, and of buffers."""
        return (KEPT_PIECES + 1) * self.storage.piece_bytes + self.storage.buffer_bytes

    def rows(self, where: slice) -> Any:
        """Return consecutive rows: a view of a mapped file, else a new or read-only array."""
        return self.read(where, "rows")

    def take(self, indices: IntArray) -> Any:
        """Return the rows with these indices, in this order, as a new array; read in file order."""
        return self.read(indices, "rows")

    # ---- from row numbers to pieces ------------------------------------------------------------

    def read(self, where: slice | IntArray, what: str) -> Any:
        """Return consecutive rows, or the rows with these indices, in this order; read in file order.

        ``what`` is "rows" or "targets". Arrays of either are checked, columns of any type are not.
        """
        (n, d), store = self.shape, self.storage
        numbers = range(n)[where] if isinstance(where, slice) else where
        order: Any = None
        if not isinstance(numbers, range) or numbers.step != 1:
            numbers = _row_numbers(np.asarray(numbers), n)
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
        spans = list(self._spans(numbers))
        if what == "rows" and (store.sparse or store.of_columns):
            if not spans:
                return self.rows(slice(0, 1))[:0]
            parts = [self._part(k, inner, what) for k, _, inner in spans]
            join: Any = partial(sp.vstack, format="csr") if store.sparse else pyarrow_package().concat_tables
            joined = parts[0] if len(parts) == 1 else join(parts)
            if order is None or (np.diff(order) == 1).all():
                return joined
            return joined.take(np.argsort(order)) if store.of_columns else joined[np.argsort(order)]
        if what == "rows" and order is None and len(spans) == 1:
            return self._part(*spans[0][::2], what)
        info = store.target if what == "targets" else Target("", self.dtype, d)
        assert info is not None, "asked through a StoredTarget only"
        out = np.empty((len(numbers), *(() if info.n_outputs is None else (info.n_outputs,))), info.dtype)
        for k, at, inner in spans:
            out[at if order is None else order[at]] = self._part(k, inner, what)
        return out

    def _spans(self, numbers: range | IntArray) -> Iterator[tuple[int, slice, Any]]:
        """Yield the pieces that hold some of these ascending rows, their places there, and in the piece."""
        if isinstance(numbers, range):
            bounds = np.clip(self._starts - numbers.start, 0, len(numbers))
        else:
            bounds = np.searchsorted(numbers, self._starts)
        for k in np.flatnonzero(np.diff(bounds)).tolist():
            at, first = slice(*bounds[k : k + 2].tolist()), int(self._starts[k])
            own = numbers[at]
            if isinstance(own, range):
                yield k, at, slice(own.start - first, own.stop - first)
            else:
                yield k, at, own - first

    def _part(self, k: int, where: slice | IntArray, what: str) -> Any:
        """Return some rows (or targets) of a piece, checked, numbered without the rows left out."""
        dropped = self._dropped.get(k)
        if dropped is not None:
            # Left-out rows before the i-th kept row: those whose number minus their rank is at most i.
            kept = np.arange(where.start, where.stop) if isinstance(where, slice) else where
            where = kept + np.searchsorted(dropped - np.arange(len(dropped)), kept, "right")
        piece, values = self.storage.pieces[k], self._piece(k, what)
        if what == "rows" and self.storage.of_columns:
            return values[where] if isinstance(where, slice) else values.take(where)
        values = values[where]
        if isinstance(values, np.memmap):
            values = values.view(np.ndarray)
        rows = np.arange(where.start, where.start + values.shape[0]) if isinstance(where, slice) else where
        bad = next(iter(_lacking_rows(values)), None)
        if bad is not None:
            raise self._refusal(piece, int(rows[bad]), values[bad], what)
        cell = too_large(values) if what == "rows" else None
        if cell is not None:
            place = f"row {piece.first + int(rows[cell[0]])} of {self.storage.names[piece.file]} (from 0)"
            raise overflow(float(values[cell]), f"{place}, {self._column(cell[1])}", values.dtype)
        wanted = self.dtype if what == "rows" else self.storage.target and self.storage.target.dtype
        return values if values.dtype == wanted else values.astype(wanted)

    # ---- reading -------------------------------------------------------------------------------

    def _piece(self, k: int, what: str) -> Any:
        """Return the rows or the targets of a piece; it is read at most once while it is kept."""
        kept, piece = self._kept[what], self.storage.pieces[k]
        with self._guard:
            if k in kept:
                kept.move_to_end(k)
                self.storage.check(piece)
                return kept[k]
        # One thread reads at a time, because formats keep their position in a file.
        with self._reading["rows" if self.storage.together else what]:
            with self._guard:
                if k in kept:
                    return kept[k]
            # If one parse gives rows and targets and both are kept, nothing is parsed twice.
            rows = what == "rows" or (self.storage.together and self.keep_bytes > 0)
            targets = what == "targets" or (self.storage.together and self.storage.target is not None)
            with explain_errors(self.storage.names[piece.file], piece.first, piece.n_rows):
                self.storage.check(piece)
                values, labels = self.storage.read(piece, rows=rows, target=targets)
            with self._guard:
                if values is not None:
                    self._keep_rows(k, values)
                if labels is not None:
                    self._keep_targets(k, labels)
            return values if what == "rows" else labels

    def _keep_rows(self, k: int, rows: RowsLike) -> None:
        if isinstance(rows, np.ndarray):
            rows.flags.writeable = False
        kept = self._kept["rows"]
        kept[k] = rows
        self._kept_bytes += row_bytes(rows)
        if len(kept) > KEPT_PIECES and self._kept_bytes > self.keep_bytes:
            # Each pass goes from the first piece to the last: if not all fit, none is kept for the next.
            self.keep_bytes = 0.0
            while len(kept) > KEPT_PIECES:
                kept.popitem(last=False)

    def _keep_targets(self, k: int, targets: Array) -> None:
        kept, most = self._kept["targets"], max(KEPT_TARGET_BYTES, self.keep_bytes)
        kept[k] = targets
        # An object is a pointer to a short text.
        while len(kept) > 1 and sum(y.nbytes * (8 if y.dtype == object else 1) for y in kept.values()) > most:
            kept.popitem(last=False)

    def _lacking(self, k: int) -> IntArray:
        """Return the rows of a piece that have a missing value in X or in the target."""
        bad = list(_lacking_rows(self._piece(k, "rows")))
        if self.storage.target is not None:
            bad += list(_lacking_rows(self._piece(k, "targets")))
        return np.unique(np.array(bad, np.intp))

    def _column(self, j: int) -> str:
        return f"column {self.feature_names[j]!r}" if self.feature_names else f"feature {j}"

    def _refusal(self, piece: Piece, row: int, values: Array | sp.csr_matrix, what: str) -> InputError:
        if what == "rows":
            dense = values.toarray().ravel() if isinstance(values, sp.csr_matrix) else values
            j = int(np.flatnonzero(~np.isfinite(dense))[0])
            column, value = self._column(j), dense[j]
        else:
            assert self.storage.target is not None
            column = f"the target {self.storage.target.name!r}{self.storage.written_cell(piece, row)}"
            value = np.ravel(np.asarray(values, object))[0]
        infinite = isinstance(value, (float, np.floating)) and np.isinf(value)
        return InputError(
            f"Row {piece.first + row} of {self.storage.names[piece.file]} (from 0) has "
            f"{'infinity' if infinite else 'a missing value or NaN'} in {column}. Fill it in, drop the row, "
            "or let gramian.open_data(..., nan='drop') leave out such rows."
        )


class StoredTarget(StoredColumn):
    """The targets of stored rows."""

    def __init__(self, source: StoredSource) -> None:
        info, rows = source.storage.target, source.identity
        assert info is not None
        self._source, self.dtype = source, info.dtype
        self.shape = source.shape[:1] if info.n_outputs is None else (source.shape[0], info.n_outputs)
        #: Name of the column or array.
        self.name = info.name
        #: Identifies the rows and says that these are their targets; None for a frame.
        self.identity = None if rows is None else (*rows, "targets")

    def __getitem__(self, where: slice | IntArray) -> Array:
        """Return the values of consecutive rows, or of the rows with these indices."""
        values: Array = self._source.read(where, "targets")
        return values


def _row_numbers(indices: IntArray, n: int) -> IntArray:
    """Return row numbers, or a mask, as numbers from 0."""
    numbers = np.flatnonzero(indices) if indices.dtype == bool else indices
    if len(numbers) and not (-n <= numbers.min() and numbers.max() < n):
        raise IndexError(f"Row numbers from {numbers.min()} to {numbers.max()} of a source with {n} rows.")
    return np.where(numbers < 0, numbers + n, numbers).astype(np.intp)


def _lacking_rows(values: Array | sp.csr_matrix) -> Iterator[int]:
    """Yield the numbers of rows that hold a NaN, an infinity or None, ascending."""
    if isinstance(values, sp.csr_matrix):
        if not np.isfinite(values.data).all():
            broken = np.flatnonzero(~np.isfinite(values.data))
            yield from np.unique(np.searchsorted(values.indptr, broken, "right") - 1).tolist()
    elif values.dtype.kind == "f":
        flat = values if values.ndim == 2 else values[:, None]
        # In tiles, so that the mask of a mapped file's block stays small.
        for where in row_slices(len(flat), tile_rows(flat.shape[1], 1)):
            finite = np.isfinite(flat[where]).all(axis=1)
            if not finite.all():
                yield from (where.start + np.flatnonzero(~finite)).tolist()
    elif values.dtype.kind == "O":
        yield from (i for i, value in enumerate(values) if value is None or value != value)
