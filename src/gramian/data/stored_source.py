"""Row source of numbers in files, read piece by piece on demand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import IntArray, Rows
from gramian.data.piece_reader import KEPT_PIECES, PieceReader, StoredTarget
from gramian.data.storage import Storage
from gramian.exceptions import listed, user_level


class StoredSource:
    """A row source over a :class:`~gramian.data.storage.Storage`; ``gm.open_data`` makes them.

    Memory: two pieces of a few megabytes, an index of the pieces, and the requested blocks; or all pieces, if
    they take at most ``keep_bytes``. A row with a missing value, NaN or infinity raises ``InputError`` with
    file and row, or is left out (``drop``): all pieces are then read once here to find these rows.
    """

    #: ``row_blocks`` reads the next block while the caller works on one.
    reads_ahead = True

    def __init__(self, storage: Storage, *, drop: bool = False, keep_bytes: float = 0.0) -> None:
        self.storage = storage
        self.drop = drop
        self._reader = PieceReader(storage, keep_bytes)
        self.n_dropped = self._reader.drop_incomplete() if drop else 0
        if self.n_dropped:
            warnings.warn(
                f"{self.n_dropped} of {self.n_dropped + self.shape[0]} rows have a missing value, NaN or "
                "infinity and are left out (nan='drop').",
                UserWarning,
                stacklevel=user_level(),
            )

    def __repr__(self) -> str:
        shown = listed(list(self.storage.names), 3, show=str)
        return f"<rows of {shown}: shape {self.shape}, {self.dtype}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and features."""
        return self._reader.n_rows, self.storage.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return self.storage.dtype

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if the format has them."""
        return self.storage.feature_names

    @property
    def target(self) -> StoredTarget | None:
        """The targets, if a target was named; read on demand."""
        return None if self.storage.target is None else StoredTarget(self._reader, self.identity)

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

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows: a view of a mapped file, else a new or read-only array."""
        numbers = range(self.shape[0])[where]
        if numbers.step != 1:
            return self.take(np.asarray(numbers, np.intp))
        parts = self._reader.consecutive(numbers, "rows")
        first = next(parts, None)
        if first is not None and first.shape[0] == len(numbers):
            return first
        if self.storage.sparse:
            return self._stacked([] if first is None else [first, *parts])
        out = np.empty((len(numbers), self.shape[1]), self.dtype)
        at = 0
        while first is not None:
            out[at : at + len(first)] = first
            at, first = at + len(first), next(parts, None)
        return out

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array; read in file order."""
        indices = self._reader.numbers(indices)
        if self.storage.sparse:
            order = np.argsort(indices, kind="stable")
            parts = [part for _, part in self._reader.ascending(indices[order], "rows")]
            return self._stacked(parts)[np.argsort(order)]
        return self._reader.gathered(indices, "rows", np.empty((len(indices), self.shape[1]), self.dtype))

    def _stacked(self, parts: list[Any]) -> Rows:
        if not parts:
            return sp.csr_matrix((0, self.shape[1]), dtype=self.dtype)
        return sp.vstack(parts, format="csr")
