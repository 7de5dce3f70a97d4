"""Files of predictions: CSV, Parquet and npz, written block by block."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np

from gramian._files import complete_file
from gramian._typing import Array
from gramian.data.arrow import column_writer
from gramian.data.file_formats import CSV, NPZ, PARQUET, file_format
from gramian.exceptions import InputError

if TYPE_CHECKING:
    from gramian.data.arrow import Column

#: Function that writes named columns of the next rows.
Write: TypeAlias = "Callable[[Mapping[str, Array | Column]], None]"


def write_predictions(path: str | os.PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write named columns of equal length to a ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz`` file.

    ``columns`` maps a name to a one-dimensional array of numbers, booleans or text. An existing file is
    replaced. CSV and Parquet need pyarrow. Time and memory O(n · columns).
    """
    with prediction_file(path) as write:
        write(columns)


@contextmanager
def prediction_file(path: str | os.PathLike[str]) -> Iterator[Write]:
    """Yield a function that writes named columns of equal length, block by block.

    The file appears once all is written; until then an existing file stays. CSV and Parquet blocks are
    written as they come; the arrays of a ``.npz`` are written at the end.

    Errors: ``InputError``, before anything is written, for a suffix that is not a format of predictions and
    for a folder that does not exist.
    """
    path = Path(path)
    check_writable(path)
    arrow = file_format(path) is not NPZ  # which keeps the types of Arrow's columns
    with complete_file(path) as file, column_writer(file, path) if arrow else _npz_writer(file) as send:

        def write(columns: Mapping[str, Array | Column]) -> None:
            arrays = {
                name: values if arrow and hasattr(values, "combine_chunks") else np.asarray(values)
                for name, values in columns.items()
            }
            shapes = {name: np.shape(values) for name, values in arrays.items()}
            if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
                raise InputError(
                    f"Predictions must be 1-D arrays of one length, one or more; got shapes {shapes}."
                )
            send(arrays)

        yield write


def check_writable(path: Path) -> None:
    """Raise if predictions cannot be written to a path; called before the long work."""
    if file_format(path) not in (CSV, PARQUET, NPZ):
        raise InputError(f"Predictions cannot be written as {path.name}. Use .csv, .parquet or .npz.")
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")


@contextmanager
def _npz_writer(file: BinaryIO) -> Iterator[Write]:
    blocks: list[Mapping[str, Array]] = []
    yield blocks.append
    # numpy.savez takes the names as keywords, where "file" would clash with its own parameter.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in blocks[0] if blocks else ():
            values = np.concatenate([block[name] for block in blocks])
            plain = values.astype(str) if values.dtype.kind == "O" else values
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)
