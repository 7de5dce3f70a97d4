"""Interface between a file format and its rows: pieces of a few megabytes, each read as a whole."""

from __future__ import annotations

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gramian._typing import Array, Rows
from gramian.data.stored_file import StoredFile
from gramian.exceptions import MESSAGE, GramianError, InputError, listed, shortened

#: Errors that pyarrow, NumPy, zipfile, h5py and zarr raise for files that they cannot read.
READ_ERRORS: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, NotImplementedError, RuntimeError)
READ_ERRORS += (KeyError, zipfile.BadZipFile, zlib.error)
#: Bytes of the numbers in a piece, if the format leaves the choice; two pieces are held while reading.
#: Chosen by hand.
PIECE_BYTES = 1 << 22
#: Largest number of rows of a piece, however narrow the rows are. Chosen by hand.
PIECE_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one file."""

    file: int  #: number of the file
    first: int  #: number of its first row in that file
    n_rows: int
    where: Any = None  #: what the format needs to find the rows


@dataclass(frozen=True, slots=True)
class Target:
    """Properties of the targets that are known before they are read."""

    name: str
    dtype: np.dtype[Any]
    n_outputs: int | None = None  #: None: one number for each row, shape (n,)


class UnreadableRow(Exception):
    """Raised for a row that cannot be read, with its number within the piece and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row, self.reason = row, reason


@contextmanager
def explain_errors(name: str, first: int, n_rows: int | None = None) -> Iterator[None]:
    """Turn a parser's error into one that names file and row and quotes the parser."""
    try:
        yield
    except GramianError:
        raise
    except UnreadableRow as error:
        raise InputError(f"Row {first + error.row} of {name} (from 0): {error.reason}") from None
    except READ_ERRORS as error:
        reason = shortened(str(error).strip().split("\n")[0], MESSAGE) or type(error).__name__
        last = f"to {first + n_rows - 1}" if n_rows else "and following"
        raise InputError(
            f"Rows {first} {last} of {name} (from 0) could not be read: {reason.rstrip('.')}. Check that the "
            "file is complete and that its suffix names its format."
        ) from error


class Storage(ABC):
    """Base of the file formats: rows in files (or in a frame), divided into pieces that are read one by one.

    ``names`` are the files' names in error messages. ``files`` is empty for data in memory.
    """

    names: Sequence[str]
    files: list[StoredFile]
    pieces: Sequence[Piece]
    n_features: int
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None
    #: Names of columns that are stored, but are neither features nor targets.
    left_out: tuple[str, ...] = ()
    target: Target | None = None
    #: Column, columns or array of the target, for ``like``; None if it has no name.
    target_columns: str | tuple[str, ...] | None = None
    #: What was detected in the files and may surprise, for the user; "" if nothing.
    read_as: str = ""
    #: Whether one parse gives both the rows of a piece and their targets.
    together = False
    #: Whether pieces are views of a mapped file, which take no memory and are read when they are accessed.
    views = False
    #: Whether rows are CSR matrices, or Arrow tables with columns of any type.
    sparse = False
    of_columns = False
    #: Bytes that the format's reader holds beside the pieces, such as pages of a file.
    buffer_bytes: int = 0

    def __init__(self, paths: Sequence[Path]) -> None:
        self.names = [str(path) for path in paths]
        self.files = [StoredFile.at(path) for path in paths]

    def written_cell(self, piece: Piece, row: int) -> str:
        """Return words about a target's text that says missing; "" if it is none."""
        return ""

    @abstractmethod
    def read(self, piece: Piece, *, rows: bool, target: bool) -> tuple[Rows | None, Array | None]:
        """Return the rows and the targets of a piece, as far as they are asked for.

        A missing value is a NaN (None in a text target); numbers may then be float64 whatever ``dtype`` is.
        Raises ``UnreadableRow`` or the parser's error.
        """

    @property
    def piece_bytes(self) -> int:
        """Bytes of the rows of the longest piece in memory."""
        longest = max((piece.n_rows for piece in self.pieces), default=0)
        return 0 if self.views else longest * self.n_features * self.dtype.itemsize

    def check(self, piece: Piece) -> None:
        """Raise if the piece's file has changed since it was opened."""
        if self.files:
            self.files[piece.file].check()

    def settings(self) -> dict[str, Any]:
        """Return other settings behind the rows, such as categories, for ``like`` and the fingerprint."""
        return {}


def kept_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type that numbers of ``dtype`` are read as (None: not numbers).

    Types that kernels accept stay; others become the smallest accepted type that holds their values.
    """
    if dtype.kind not in "biuf":
        return None
    wider = {"float16": "float32", "bool": "uint8", "uint32": "int64", "uint64": "float64"}
    name = "float64" if dtype.kind == "f" and dtype.itemsize > 8 else dtype.name
    return np.dtype(wider.get(name, name))


def piece_rows(row_bytes: int, chunk_rows: int = 1) -> int:
    """Return the number of rows in a piece of PIECE_BYTES, in whole chunks of ``chunk_rows``."""
    rows = min(PIECE_ROWS, max(1, PIECE_BYTES // max(1, row_bytes)))
    return max(1, rows // chunk_rows) * chunk_rows


def cut(file: int, n_rows: int, step: int) -> list[Piece]:
    """Cut the rows of a file into pieces of ``step`` rows."""
    return [Piece(file, a, min(step, n_rows - a)) for a in range(0, n_rows, step)]


def no_rows(names: Sequence[str], n_dropped: int = 0) -> InputError:
    """Return the error about files without rows, or without rows that may be used."""
    left = (
        f"no rows without missing values, NaN or infinity ({n_dropped} dropped)" if n_dropped else "no rows"
    )
    return InputError(f"{listed(names, 5, show=str)}: {left}. Pass at least one row of data.")


def refuse_columns(name: str, columns: Sequence[str] | None, categorical: str) -> None:
    """Raise if the user names columns in a format that has no column names."""
    if columns is not None or categorical != "refuse":
        what = "columns" if columns is not None else "categorical"
        raise InputError(
            f"{name} does not name its columns, so {what} cannot be used. Leave it out, or write the rows "
            "as Parquet or CSV."
        )
