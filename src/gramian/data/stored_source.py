"""Row source over files: rows and targets are read piece by piece on demand."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, IntArray, Rows
from gramian.data.column import StoredColumn
from gramian.data.pieces import Piece, Storage, explained, no_rows
from gramian.data.values import overflow, too_large
from gramian.exceptions import InputError

#: Pieces of rows that are kept after reading: a block's end and the next block's start lie in one.
KEPT_PIECES = 2
#: Bytes of targets that are kept: formats whose rows and targets come out of one parse need not parse twice.
KEPT_TARGET_BYTES = 1 << 24


class StoredSource:
    """A row source over a :class:`~gramian.data.pieces.Storage`; ``gm.open_data`` makes them.

    Memory: two pieces of a few megabytes, an index of the pieces, and the blocks that are asked for. Reads
    are in file order, a piece at a time, by ``take`` too; threads may share a source. Rows with missing
    values, NaN or infinities raise ``InputError`` with file and row, or are left out (``drop``): all pieces
    are then read once here to find them.
    """

    #: ``row_blocks`` reads the next block while the caller works on one.
    reads_ahead = True

    def __init__(self, storage: Storage, *, drop: bool = False) -> None:
        self.storage = storage
        self.drop = drop
        self._dropped: dict[int, IntArray] = {}
        counts = np.array([piece.n_rows for piece in storage.pieces], np.intp)
        self._reset()
        if drop:
            for k in range(len(counts)):
                self._dropped[k] = self._lacking(k)
            self._dropped = {k: rows for k, rows in self._dropped.items() if len(rows)}
            counts -= [len(self._dropped.get(k, ())) for k in range(len(counts))]
        self.n_dropped = sum(map(len, self._dropped.values()))
        #: Number of the first row of each piece, and the number of rows.
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        if not self._starts[-1]:
            raise no_rows(storage.names, self.n_dropped)
        if self.n_dropped:
            warnings.warn(
                f"{self.n_dropped} of {self.n_dropped + self.shape[0]} rows have a missing value, NaN or "
                "infinity and are left out (nan='drop').",
                UserWarning,
                stacklevel=3,
            )

    def _reset(self) -> None:
        self._rows_kept: OrderedDict[int, Rows] = OrderedDict()
        self._targets_kept: OrderedDict[int, Array] = OrderedDict()
        self._guard = threading.Lock()
        self._reading = {"rows": threading.Lock(), "targets": threading.Lock()}

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_rows_kept", "_targets_kept", "_guard", "_reading")
        return {name: value for name, value in self.__dict__.items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        names = list(self.storage.names)
        shown = ", ".join(map(str, names[:3])) + (f", … ({len(names)} files)" if len(names) > 3 else "")
        return f"<rows of {shown}: shape {self.shape}, {self.dtype}>"

    # ---- what a source is ----------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self._starts[-1]), self.storage.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return self.storage.dtype

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where the format has them."""
        return self.storage.feature_names

    @property
    def target(self) -> StoredColumn | None:
        """The targets, where a target was named; read as they are asked for."""
        return None if self.storage.target is None else StoredTarget(self)

    @property
    def row_bytes(self) -> int:
        """Bytes that reading a row takes: the caller's block, the next one, and for a moment one more."""
        views = self.storage.views and len(self.storage.pieces) == 1 and not self.n_dropped
        return 0 if views else 3 * self.shape[1] * self.dtype.itemsize

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """What the files and the choices among their rows are, for a fingerprint; None for a frame."""
        store = self.storage
        if not store.files:
            return None
        files = [(file.path.name, file.size, file.mtime_ns) for file in store.files]
        choices = sorted(store.settings().items())
        target = store.target and store.target.name
        return files, self.shape, self.dtype.str, self.feature_names, choices, target, self.n_dropped

    @property
    def read_bytes(self) -> int:
        """Bytes of the pieces that are held while reading, the one that is being read among them."""
        return (KEPT_PIECES + 1) * self.storage.piece_bytes

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows: of a mapped file a view, else new or read-only."""
        numbers = range(self.shape[0])[where]
        if numbers.step != 1:
            return self.take(np.asarray(numbers, np.intp))
        first, last = self._span(numbers)
        parts = ((k, self._part(k, self._local(k, numbers), "rows")) for k in range(first, last))
        if last == first + 1:
            return next(parts)[1]
        if self.storage.sparse:
            found = [part for _, part in parts]
            return sp.vstack(found, format="csr") if found else self._nothing()
        out = np.empty((len(numbers), self.shape[1]), self.dtype)
        for k, part in parts:
            at = max(0, int(self._starts[k]) - numbers.start)
            out[at : at + len(part)] = part
        return out

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array; read in file order."""
        indices = self._numbers(indices)
        order = np.argsort(indices, kind="stable")
        if self.storage.sparse:
            found = [part for _, part in self._taken(indices[order], "rows")]
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            return sp.vstack(found, format="csr")[back] if found else self._nothing()
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for at, part in self._taken(indices[order], "rows"):
            out[order[at]] = part
        return out

    def targets(self, where: slice | IntArray) -> Array:
        """Return the targets of consecutive rows, or of the rows with these indices."""
        info = self.storage.target
        assert info is not None, "asked through a StoredTarget only"
        if isinstance(where, slice) and where.step in (None, 1):
            numbers = range(self.shape[0])[where]
            first, last = self._span(numbers)
            found = [self._part(k, self._local(k, numbers), "targets") for k in range(first, last)]
            return np.concatenate(found) if found else np.empty(self._target_shape(0), info.dtype)
        asked = np.arange(self.shape[0])[where] if isinstance(where, slice) else where
        indices = self._numbers(asked)
        order = np.argsort(indices, kind="stable")
        out = np.empty(self._target_shape(len(indices)), info.dtype)
        for at, part in self._taken(indices[order], "targets"):
            out[order[at]] = part
        return out

    def _target_shape(self, n: int) -> tuple[int, ...]:
        info = self.storage.target
        assert info is not None
        return (n,) if info.n_outputs is None else (n, info.n_outputs)

    def _nothing(self) -> Rows:
        return sp.csr_matrix((0, self.shape[1]), dtype=self.dtype)

    # ---- from row numbers to pieces ------------------------------------------------------------

    def _numbers(self, indices: IntArray) -> IntArray:
        found = np.asarray(indices)
        if found.dtype == bool:
            found = np.flatnonzero(found)
        n = self.shape[0]
        if len(found) and not (-n <= found.min() and found.max() < n):
            raise IndexError(f"Row numbers from {found.min()} to {found.max()} of a source with {n} rows.")
        return np.where(found < 0, found + n, found).astype(np.intp)

    def _span(self, numbers: range) -> tuple[int, int]:
        """Return the first piece that holds some of the rows, and the one after the last."""
        if not numbers:
            return 0, 0
        first = int(np.searchsorted(self._starts, numbers.start, "right")) - 1
        return first, int(np.searchsorted(self._starts, numbers.stop, "left"))

    def _local(self, k: int, numbers: range) -> slice:
        start, stop = int(self._starts[k]), int(self._starts[k + 1])
        return slice(max(numbers.start, start) - start, min(numbers.stop, stop) - start)

    def _taken(self, ascending: IntArray, what: str) -> Iterator[tuple[slice, Any]]:
        """Yield, for each piece that holds some of the rows, which of them and what was asked of them."""
        owner = np.searchsorted(self._starts, ascending, "right") - 1
        edges = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        for a, b in pairwise(edges):
            k = int(owner[a])
            yield slice(int(a), int(b)), self._part(k, ascending[a:b] - self._starts[k], what)

    def _part(self, k: int, where: slice | IntArray, what: str) -> Any:
        """Return some rows (or targets) of a piece, counted without those left out, checked."""
        dropped = self._dropped.get(k)
        if dropped is not None:
            # Rows left out before the i-th kept one: those whose number less their rank is at most i.
            kept = np.arange(where.start, where.stop) if isinstance(where, slice) else where
            where = kept + np.searchsorted(dropped - np.arange(len(dropped)), kept, "right")
        piece = self.storage.pieces[k]
        values = self._piece(k, what)[where]
        if isinstance(values, np.memmap):
            values = values.view(np.ndarray)
        rows = np.arange(where.start, where.start + values.shape[0]) if isinstance(where, slice) else where
        bad = next(iter(_lacking_rows(values)), None)
        if bad is not None:
            raise self._refusal(piece, int(rows[bad]), values[bad], what)
        found = too_large(values) if what == "rows" else None
        if found is not None:
            names, j = self.feature_names, found[1]
            column = f"column {names[j]!r}" if names else f"feature {j}"
            place = f"row {piece.first + int(rows[found[0]])} of {self.storage.names[piece.file]} (from 0)"
            raise overflow(float(values[found]), f"{place}, {column}")
        wanted = self.dtype if what == "rows" else self.storage.target and self.storage.target.dtype
        return values if values.dtype == wanted else values.astype(wanted)

    # ---- reading -------------------------------------------------------------------------------

    def _piece(self, k: int, what: str) -> Any:
        """Return the rows or the targets of a piece, read at most once while it is kept."""
        kept: OrderedDict[int, Any] = self._rows_kept if what == "rows" else self._targets_kept
        with self._guard:
            if k in kept:
                kept.move_to_end(k)
                self.storage.check(self.storage.pieces[k])
                return kept[k]
        # One reader at a time for each parse: formats keep their place in a file.
        with self._reading["rows" if self.storage.together else what]:
            with self._guard:
                if k in kept:
                    return kept[k]
            piece = self.storage.pieces[k]
            both = self.storage.together and what == "rows" and self.storage.target is not None
            with explained(self.storage.names[piece.file], piece.first, piece.n_rows):
                self.storage.check(piece)
                rows, targets = self.storage.read(piece, rows=what == "rows", target=both or what != "rows")
            with self._guard:
                if rows is not None:
                    self._keep_rows(k, rows)
                if targets is not None:
                    self._keep_targets(k, targets)
            return rows if what == "rows" else targets

    def _keep_rows(self, k: int, rows: Rows) -> None:
        if isinstance(rows, np.ndarray):
            rows.flags.writeable = False
        self._rows_kept[k] = rows
        while len(self._rows_kept) > KEPT_PIECES:
            self._rows_kept.popitem(last=False)

    def _keep_targets(self, k: int, targets: Array) -> None:
        self._targets_kept[k] = targets
        while (
            len(self._targets_kept) > 1 and sum(map(_bytes, self._targets_kept.values())) > KEPT_TARGET_BYTES
        ):
            self._targets_kept.popitem(last=False)

    def _lacking(self, k: int) -> IntArray:
        """Return the rows of a piece that lack a value, in X or in the target."""
        bad = list(_lacking_rows(self._piece(k, "rows")))
        if self.storage.target is not None:
            bad += list(_lacking_rows(self._piece(k, "targets")))
        return np.unique(np.array(bad, np.intp))

    def _refusal(self, piece: Piece, row: int, values: Any, what: str) -> InputError:
        if what == "rows":
            dense = values.toarray().ravel() if isinstance(values, sp.csr_matrix) else values
            j = int(np.flatnonzero(~np.isfinite(dense))[0])
            names = self.feature_names
            column, value = f"column {names[j]!r}" if names else f"feature {j}", dense[j]
        else:
            assert self.storage.target is not None
            column = f"the target {self.storage.target.name!r}"
            value = np.ravel(np.asarray(values, object))[0]
        infinite = isinstance(value, (float, np.floating)) and np.isinf(value)
        return InputError(
            f"Row {piece.first + row} of {self.storage.names[piece.file]} (from 0) has "
            f"{'infinity' if infinite else 'a missing value or NaN'} in {column}. Fill it in, drop the row, "
            "or open the data with nan='drop'."
        )


class StoredTarget(StoredColumn):
    """The targets of a stored source."""

    def __init__(self, source: StoredSource) -> None:
        self.source = source
        info = source.storage.target
        assert info is not None
        self._info = info

    @property
    def name(self) -> str:
        """Name of the column or array."""
        return self._info.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and outputs where there are several."""
        return self.source._target_shape(self.source.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self._info.dtype

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """What identifies the source, and that these are its targets."""
        found = self.source.identity
        return None if found is None else (*found, "targets")

    def __getitem__(self, where: slice | IntArray) -> Array:
        """Return the values of consecutive rows, or of the rows with these indices."""
        return self.source.targets(where)


def _bytes(values: Array) -> int:
    return values.nbytes * (8 if values.dtype.kind == "O" else 1)  # a short text beside its pointer


def _lacking_rows(values: Any) -> Iterator[int]:
    """Yield the rows that hold a NaN, an infinity or None, ascending."""
    if isinstance(values, sp.csr_matrix):
        if not np.isfinite(values.data).all():
            broken = np.flatnonzero(~np.isfinite(values.data))
            yield from np.unique(np.searchsorted(values.indptr, broken, "right") - 1).tolist()
    elif values.dtype.kind == "f":
        flat = values if values.ndim == 2 else values[:, None]
        # By tiles, so that a mapped file's block is not met by a mask of its size.
        for where in row_slices(len(flat), tile_rows(flat.shape[1], 1)):
            finite = np.isfinite(flat[where]).all(axis=1)
            if not finite.all():
                yield from (where.start + np.flatnonzero(~finite)).tolist()
    elif values.dtype.kind == "O":
        yield from (i for i, value in enumerate(values) if value is None or value != value)
