"""Reader of stored rows by number: reads pieces, checks their values, and keeps the last ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, IntArray, RowsLike
from gramian.data.column import StoredColumn
from gramian.data.storage import Piece, Storage, explain_errors, no_rows
from gramian.data.values import overflow, row_bytes, too_large
from gramian.exceptions import InputError

#: Number of pieces that are always kept after reading, since one piece can hold the end of a block and the
#: start of the next. Chosen by hand.
KEPT_PIECES = 2
#: Bytes of targets that are kept, so that a format that parses rows and targets together need not parse
#: twice. Chosen by hand.
KEPT_TARGET_BYTES = 1 << 24


class PieceReader:
    """Rows and targets of a :class:`~gramian.data.storage.Storage`, numbered over all files.

    Memory: two pieces of a few megabytes, or all of them if they take at most ``keep_bytes``. Reads go in
    file order, a piece at a time; threads may share a reader. Numbers are checked when they are read: a
    missing value, NaN or infinity raises ``InputError`` with file and row.
    """

    def __init__(self, storage: Storage, keep_bytes: float = 0.0) -> None:
        self.storage, self.keep_bytes = storage, keep_bytes
        self._dropped: dict[int, IntArray] = {}
        self._count([piece.n_rows for piece in storage.pieces])
        self._reset()

    def drop_incomplete(self) -> int:
        """Leave out rows with a missing value in X or the target, return their number; reads all pieces."""
        found = {k: self._lacking(k) for k in range(len(self.storage.pieces))}
        self._dropped = {k: rows for k, rows in found.items() if len(rows)}
        n_dropped = sum(map(len, self._dropped.values()))
        left = [piece.n_rows - len(self._dropped.get(k, ())) for k, piece in enumerate(self.storage.pieces)]
        self._count(left, n_dropped)
        return n_dropped

    def _count(self, counts: Sequence[int], n_dropped: int = 0) -> None:
        #: Number of the first row of each piece, and the number of rows.
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        if not self.n_rows:
            raise no_rows(self.storage.names, n_dropped)

    def _reset(self) -> None:
        self._kept: dict[str, OrderedDict[int, Any]] = {"rows": OrderedDict(), "targets": OrderedDict()}
        self._kept_bytes = 0
        self._guard = threading.Lock()
        self._reading = {"rows": threading.Lock(), "targets": threading.Lock()}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.storage, self.keep_bytes, self._dropped, self._starts

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.storage, self.keep_bytes, self._dropped, self._starts = state
        self._reset()

    @property
    def n_rows(self) -> int:
        """Number of rows of all files, without those left out."""
        return int(self._starts[-1])

    # ---- from row numbers to pieces ------------------------------------------------------------

    def numbers(self, indices: IntArray) -> IntArray:
        """Return row numbers, or a mask, as numbers from 0."""
        found = np.asarray(indices)
        if found.dtype == bool:
            found = np.flatnonzero(found)
        n = self.n_rows
        if len(found) and not (-n <= found.min() and found.max() < n):
            raise IndexError(f"Row numbers from {found.min()} to {found.max()} of a source with {n} rows.")
        return np.where(found < 0, found + n, found).astype(np.intp)

    def consecutive(self, numbers: range, what: str) -> Iterator[Any]:
        """Yield the part of each piece that holds some of the rows.

        ``what`` is "rows" or "targets" for checked arrays, or "columns" for the storage's own form.
        """
        if not numbers:
            return
        first = int(np.searchsorted(self._starts, numbers.start, "right")) - 1
        last = int(np.searchsorted(self._starts, numbers.stop, "left"))
        for k in range(first, last):
            start, stop = int(self._starts[k]), int(self._starts[k + 1])
            local = slice(max(numbers.start, start) - start, min(numbers.stop, stop) - start)
            yield self._part(k, local, what)

    def ascending(self, numbers: IntArray, what: str) -> Iterator[tuple[slice, Any]]:
        """Yield, for each piece with some of the rows, their places in ``numbers`` and the part."""
        owner = np.searchsorted(self._starts, numbers, "right") - 1
        edges = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        for a, b in pairwise(edges):
            k = int(owner[a])
            yield slice(int(a), int(b)), self._part(k, numbers[a:b] - self._starts[k], what)

    def targets(self, where: slice | IntArray) -> Array:
        """Return the targets of consecutive rows, or of the rows with these indices."""
        info = self.storage.target
        assert info is not None, "asked through a StoredTarget only"
        shape = () if info.n_outputs is None else (info.n_outputs,)
        if isinstance(where, slice) and where.step in (None, 1):
            found = list(self.consecutive(range(self.n_rows)[where], "targets"))
            return np.concatenate(found) if found else np.empty((0, *shape), info.dtype)
        indices = self.numbers(np.arange(self.n_rows)[where] if isinstance(where, slice) else where)
        return self.gathered(indices, "targets", np.empty((len(indices), *shape), info.dtype))

    def gathered(self, numbers: IntArray, what: str, out: Array) -> Array:
        """Write the values of rows in any order into ``out`` and return it; read in file order."""
        order = np.argsort(numbers, kind="stable")
        for at, part in self.ascending(numbers[order], what):
            out[order[at]] = part
        return out

    def _part(self, k: int, where: slice | IntArray, what: str) -> Any:
        """Return some rows (or targets) of a piece, checked, numbered without the rows left out."""
        dropped = self._dropped.get(k)
        if dropped is not None:
            # Left-out rows before the i-th kept row: those whose number minus their rank is at most i.
            kept = np.arange(where.start, where.stop) if isinstance(where, slice) else where
            where = kept + np.searchsorted(dropped - np.arange(len(dropped)), kept, "right")
        piece = self.storage.pieces[k]
        if what == "columns":
            table = self._piece(k, "rows")
            return table[where] if isinstance(where, slice) else table.take(where)
        values = self._piece(k, what)[where]
        if isinstance(values, np.memmap):
            values = values.view(np.ndarray)
        rows = np.arange(where.start, where.start + values.shape[0]) if isinstance(where, slice) else where
        bad = next(iter(_lacking_rows(values)), None)
        if bad is not None:
            raise self._refusal(piece, int(rows[bad]), values[bad], what)
        found = too_large(values) if what == "rows" else None
        if found is not None:
            place = f"row {piece.first + int(rows[found[0]])} of {self.storage.names[piece.file]} (from 0)"
            raise overflow(float(values[found]), f"{place}, {self._column(found[1])}", values.dtype)
        wanted = self.storage.dtype if what == "rows" else self.storage.target and self.storage.target.dtype
        return values if values.dtype == wanted else values.astype(wanted)

    # ---- reading -------------------------------------------------------------------------------

    def _piece(self, k: int, what: str) -> Any:
        """Return the rows or the targets of a piece; it is read at most once while it is kept."""
        kept = self._kept[what]
        with self._guard:
            if k in kept:
                kept.move_to_end(k)
                self.storage.check(self.storage.pieces[k])
                return kept[k]
        # One thread reads at a time, because formats keep their position in a file.
        with self._reading["rows" if self.storage.together else what]:
            with self._guard:
                if k in kept:
                    return kept[k]
            piece = self.storage.pieces[k]
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
        while len(kept) > 1 and sum(map(_bytes, kept.values())) > most:
            kept.popitem(last=False)

    def _lacking(self, k: int) -> IntArray:
        """Return the rows of a piece that have a missing value in X or in the target."""
        bad = list(_lacking_rows(self._piece(k, "rows")))
        if self.storage.target is not None:
            bad += list(_lacking_rows(self._piece(k, "targets")))
        return np.unique(np.array(bad, np.intp))

    def _column(self, j: int) -> str:
        names = self.storage.feature_names
        return f"column {names[j]!r}" if names else f"feature {j}"

    def _refusal(self, piece: Piece, row: int, values: Array | sp.csr_matrix, what: str) -> InputError:
        if what == "rows":
            dense = values.toarray().ravel() if isinstance(values, sp.csr_matrix) else values
            j = int(np.flatnonzero(~np.isfinite(dense))[0])
            column, value = self._column(j), dense[j]
        else:
            assert self.storage.target is not None
            column = f"the target {self.storage.target.name!r}"
            value = np.ravel(np.asarray(values, object))[0]
            column += self.storage.written_cell(piece, row)
        infinite = isinstance(value, (float, np.floating)) and np.isinf(value)
        return InputError(
            f"Row {piece.first + row} of {self.storage.names[piece.file]} (from 0) has "
            f"{'infinity' if infinite else 'a missing value or NaN'} in {column}. Fill it in, drop the row, "
            "or let gramian.open_data(..., nan='drop') leave out such rows."
        )


class StoredTarget(StoredColumn):
    """The targets of stored rows."""

    def __init__(self, reader: PieceReader, identity: tuple[Any, ...] | None = None) -> None:
        info = reader.storage.target
        assert info is not None
        self._reader, self._info = reader, info
        #: Identifies the rows and says that these are their targets; None for a frame.
        self.identity = None if identity is None else (*identity, "targets")

    @property
    def name(self) -> str:
        """Name of the column or array."""
        return self._info.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of outputs if there are several."""
        n, outputs = self._reader.n_rows, self._info.n_outputs
        return (n,) if outputs is None else (n, outputs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self._info.dtype

    def __getitem__(self, where: slice | IntArray) -> Array:
        """Return the values of consecutive rows, or of the rows with these indices."""
        return self._reader.targets(where)


def _bytes(values: Array) -> int:
    return values.nbytes * (8 if values.dtype.kind == "O" else 1)  # an object is a pointer to a short text


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
