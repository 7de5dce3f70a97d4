"""HDF5 files as rows: the only file that imports h5py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gramian.data.formats.arrays import ArrayStorage
from gramian.exceptions import MissingPackageError


class HDF5Storage(ArrayStorage):
    """HDF5 datasets of rows (``key``, by default "X") and of targets; each file is opened when it is read.

    Pieces are whole chunks of rows, so that memory is at least one chunk.
    """

    @contextmanager
    def arrays(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Open a file's datasets."""
        try:
            import h5py
        except ImportError as error:
            raise MissingPackageError(
                "HDF5 files need the package h5py, which is not installed. Run: pip install 'gramian[files]'"
            ) from error
        with h5py.File(self.names[number], "r") as file:
            X, y = self.pick(self.names[number], file, h5py.Dataset, lambda: _datasets(file, h5py))
            if y is not None and h5py.check_string_dtype(y.dtype) is not None:
                y = y.asstr()
            yield X, y


def _datasets(file: Any, h5py: Any) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names
