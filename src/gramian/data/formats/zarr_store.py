"""Zarr stores as rows: the only file that imports zarr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gramian.data.file_options import FileOptions
from gramian.data.formats.arrays import ArrayStorage
from gramian.data.storage import Piece
from gramian.data.stored_file import StoredFile
from gramian.exceptions import InputError, MissingPackageError

#: Files of a store that describe its other files.
DESCRIPTIONS = {"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}


class ZarrStorage(ArrayStorage):
    """An array of rows (the store itself, or its array ``key``, by default "X") and one of targets.

    Pieces are whole chunks of rows, so that memory is at least one chunk. A store is a folder: all its files
    are recorded at opening, and before a piece is read, the files of its chunks are checked for changes.
    """

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        self._found = [
            {file: StoredFile.at(file) for file in sorted(path.rglob("*")) if file.is_file()}
            for path in paths
        ]
        files = [file for stamps in self._found for file in stamps.values()]
        super().__init__(paths, choice)
        self.files = files

    @contextmanager
    def arrays(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Open a store's arrays."""
        try:
            import zarr
        except ImportError as error:
            raise MissingPackageError(
                "Zarr stores need the package zarr, which is not installed. Run: pip install 'gramian[files]'"
            ) from error
        root = zarr.open(self.names[number], mode="r")
        if isinstance(root, zarr.Array):
            if self.y_key is not None:
                raise InputError(
                    f"{self.names[number]} is one array, so it has no target {self.y_key!r}. Store X and the "
                    "target as two arrays of a group."
                )
            yield root, None
            return
        X, y = self.pick(self.names[number], root, zarr.Array, lambda: [name for name, _ in root.arrays()])
        yield X, y

    def check(self, piece: Piece) -> None:
        """Raise if a chunk of the piece's rows, or a description of the store, has changed."""
        known = self._found[piece.file]
        for file, seen in known.items():
            if file.name in DESCRIPTIONS:
                seen.check()
        with self.arrays(piece.file) as arrays:
            for array in arrays:
                for file in () if array is None else _files(Path(self.names[piece.file]), array, piece):
                    if file in known:
                        known[file].check()
                    elif file.exists():
                        raise InputError(
                            f"{file} has been written since {self.names[piece.file]} was opened. A fit "
                            "would mix old and new rows: open it again and repeat the fit."
                        )


def _files(store: Path, array: Any, piece: Piece) -> Iterator[Path]:
    """Yield the files that hold a piece's rows of an array; a chunk of zeros may have no file."""
    grid = array.metadata.chunk_grid.chunk_shape  # of shards, if the store has some
    first, last = piece.first // grid[0], (piece.first + max(1, piece.n_rows) - 1) // grid[0]
    for row in range(first, last + 1):
        for column in range(-(-array.shape[1] // grid[1]) if array.ndim > 1 else 1):
            place = (row, column) if array.ndim > 1 else (row,)
            yield store / array.path / array.metadata.encode_chunk_key(place)
