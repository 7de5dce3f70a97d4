"""HDF5 files as rows: the only file that imports h5py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gramian.data.file_options import FileOptions
from gramian.data.formats.arrays import ArrayStorage
from gramian.data.stored_file import StoredFile
from gramian.exceptions import MissingPackageError


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingPackageError(
            "HDF5 files need the package h5py, which is not installed. Run: pip install 'gramian[files]'"
        ) from error
    return h5py


class HDF5Storage(ArrayStorage):
    """HDF5 datasets of rows (``key``, by default "X") and of targets; each file is opened when it is read.

    Pieces are whole chunks of rows, so that memory is at least one chunk.
    """

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        _h5py()
        self.names = [str(path) for path in paths]
        self.files = [StoredFile.at(path) for path in paths]
        self.name_arrays(choice)
        self.plan(choice)

    @contextmanager
    def arrays(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Open a file's datasets."""
        h5py = _h5py()
        with h5py.File(self.names[number], "r") as file:
            X, y = self.found(self.names[number], file, h5py.Dataset, lambda: _datasets(file, h5py))
            if y is not None and h5py.check_string_dtype(y.dtype) is not None:
                y = y.asstr()
            yield X, y


def _datasets(file: Any, h5py: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found
