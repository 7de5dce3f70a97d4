"""Supported file formats: their suffixes, and the class that opens their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gramian.data.file_options import FileOptions
from gramian.data.formats.comma_separated import CSVStorage
from gramian.data.formats.hdf5 import HDF5Storage
from gramian.data.formats.numpy_files import NpyStorage, NpzStorage
from gramian.data.formats.parquet import ParquetStorage
from gramian.data.formats.svmlight import SvmlightStorage
from gramian.data.formats.zarr_store import ZarrStorage
from gramian.data.storage import Storage
from gramian.exceptions import InputError


@dataclass(frozen=True)
class Format:
    """A file format.

    name : name in error messages.
    suffixes : endings of its files' names.
    storage : opens its files as pieces of rows.
    columns : whether columns have names and types of their own: text, dates, missing values.
    """

    name: str
    suffixes: tuple[str, ...]
    storage: Callable[[Sequence[Path], FileOptions], Storage]
    columns: bool = False


CSV = Format("CSV", (".csv", ".csv.gz", ".tsv", ".tsv.gz"), CSVStorage, columns=True)
PARQUET = Format("Parquet", (".parquet",), ParquetStorage, columns=True)
NPZ = Format("npz", (".npz",), NpzStorage)
SVMLIGHT = Format("svmlight", (".svmlight", ".libsvm", ".svm"), SvmlightStorage)
NPY = Format("npy", (".npy",), NpyStorage)
HDF5 = Format("HDF5", (".h5", ".hdf5"), HDF5Storage)
ZARR = Format("Zarr", (".zarr",), ZarrStorage)
FORMATS = (CSV, PARQUET, NPZ, SVMLIGHT, NPY, HDF5, ZARR)


def file_format(path: Path) -> Format:
    """Return the file format that belongs to a file name's suffix.

    >>> file_format(Path("train.csv.gz")).name
    'CSV'
    """
    for each in FORMATS:
        if path.name.lower().endswith(each.suffixes):
            return each
    got = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    known = ", ".join(sorted(suffix for each in FORMATS for suffix in each.suffixes))
    raise InputError(f"{path} has {got}, which is not a known format. Supported: {known}.")
