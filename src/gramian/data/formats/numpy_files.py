"""``.npy`` files, mapped, and the arrays of ``.npz`` archives, mapped if they are not compressed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from gramian._typing import Array
from gramian.data.file_options import FileOptions
from gramian.data.formats.arrays import ArrayStorage, lookup
from gramian.data.storage import Piece, Storage, explain_errors
from gramian.data.stored_file import StoredFile, find_files
from gramian.exceptions import InputError


class NpyStorage(ArrayStorage):
    """``.npy`` files of rows; ``target`` names a ``.npy`` file of targets for each."""

    views = True

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        Storage.__init__(self, paths)
        self.targets = find_files(choice.target) if choice.target is not None else []
        if choice.target is not None and len(self.targets) != len(paths):
            raise InputError(
                f"target= names {len(self.targets)} files, but there are {len(paths)} files of rows. Pass a "
                ".npy file of targets for each .npy file of rows, in the same order."
            )
        self.files += map(StoredFile.at, self.targets)
        self.plan(choice)

    @contextmanager
    def arrays(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Map a file and the file of its targets."""
        yield _map_file(self.names[number]), _map_file(self.targets[number]) if self.targets else None

    def check(self, piece: Piece) -> None:
        """Raise if the file of the rows or of the targets has changed."""
        self.files[piece.file].check()
        if self.targets:
            self.files[len(self.names) + piece.file].check()


def _map_file(path: Path | str) -> Array:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is not a .npy array. Write it with numpy.save.")
    return array


class NpzStorage(ArrayStorage):
    """Arrays of ``.npz`` archives: X (or ``key``), and y or the named target if there is one.

    Arrays stored by ``numpy.savez`` are mapped. Those of ``savez_compressed`` are unpacked forward, so that
    reading a piece before the last one starts again at the archive's beginning.
    """

    views = True

    def plan(self, choice: FileOptions) -> None:
        """Check every archive's arrays; find the names of the columns, if there are some."""
        self._streams: dict[str, tuple[_Packed, IO[bytes]]] = {}
        with explain_errors(self.names[0], 0):
            stored = read_arrays(self.names[0], ["feature_names"])
        if "feature_names" in stored:
            self.feature_names = tuple(map(str, stored["feature_names"]))
        super().plan(choice)
        # Mapped numbers are read only once, so their checksums are verified here if all rows will be read.
        for name in self.names if choice.keep_bytes else ():
            with explain_errors(name, 0), zipfile.ZipFile(name) as archive:
                damaged = archive.testzip()
                if damaged is not None:
                    raise zipfile.BadZipFile(f"Bad CRC-32 for file {damaged!r}")

    @contextmanager
    def arrays(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Find the arrays in an archive."""
        name = self.names[number]
        with zipfile.ZipFile(name) as archive:
            stored = [member[:-4] for member in archive.namelist() if member.endswith(".npy")]
            lookup(name, stored, self.key, "X")
            if self.y_key is not None:
                lookup(name, stored, self.y_key, "y")
            y = self.y_name(stored.__contains__) or ("y" if "y" in stored else None)
            yield _member(name, archive, self.key), _member(name, archive, y) if y else None

    def part(self, array: Array | _Packed, part: slice, lane: str) -> Array:
        """Return a slice; a packed array continues where the lane's last slice ended, if it can."""
        if not isinstance(array, _Packed):
            return super().part(array, part, lane)
        known = self._streams.get(lane)
        if known is None or known[0] != array:
            # The stream and its file stay open: the next piece continues from here.
            with zipfile.ZipFile(array.path) as archive:
                self._streams[lane] = known = (array, archive.open(array.member))
        stream, width = known[1], int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
        try:
            stream.seek(array.start + part.start * width)
            data = stream.read((part.stop - part.start) * width)
        except BaseException:
            self._streams.pop(lane)[1].close()
            raise
        if len(data) < (part.stop - part.start) * width:
            raise EOFError(f"the array {array.member} ends early")
        return np.frombuffer(data, array.dtype).reshape(-1, *array.shape[1:]).copy()

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "_streams": {}}


def read_arrays(path: str | os.PathLike[str], names: Iterable[str] | None = None) -> dict[str, Array]:
    """Read named arrays (all by default; absent ones are left out) of a ``.npz``; never reads pickles."""
    # Opened here because numpy.load leaves a damaged file open.
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"{path} is not a .npz archive. Write it with numpy.savez.")
        return {name: archive[name] for name in (names or archive.files) if name in archive.files}


@dataclass(frozen=True)
class _Packed:
    """A compressed array in an archive."""

    path: str
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int  #: number of header bytes before the numbers


def _member(path: str, archive: zipfile.ZipFile, name: str) -> Any:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
        start = stream.tell()
    if dtype.hasobject:
        raise InputError(f"{path}: the array {name!r} holds Python objects. Store numbers or text.")
    if info.compress_type != zipfile.ZIP_STORED:
        if fortran and len(shape) > 1:
            raise InputError(
                f"{path}: {name!r} is stored column by column and compressed. Save "
                "numpy.ascontiguousarray of it."
            )
        return _Packed(path, f"{name}.npy", shape, dtype, start)
    with open(path, "rb") as file:
        # Only the local header's own lengths are right here: its extra field differs from the directory's.
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
    offset = info.header_offset + 30 + int(lengths.sum()) + start
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
