"""Numeric tables that are read into memory as a whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Rows
from gramian.data.missing import missing_texts
from gramian.data.opening import checked_options, open_numbers


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows of a file: features, and the target if one was named or stored."""

    X: Rows  #: (n, d), C-contiguous array or CSR; no missing and no infinite values
    y: Array | None  #: (n,) numbers, booleans or (object) strings; None without a target
    feature_names: tuple[str, ...] | None  #: names of the d columns, if the format has them
    target: str | None  #: name of the target column, None without one


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    missing: Sequence[str] | None = None,
    sep: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Read all rows of a numeric table that :func:`gramian.open_data` can open.

    Parameters
    ----------
    path : a file, a folder or a glob; the suffix gives the format: ``.csv`` and ``.tsv`` (column names in
        the first line), each also with ``.gz``, and ``.parquet`` need pyarrow; ``.npz`` holds an array X, and
        optionally y and feature_names; ``.svm``, ``.svmlight`` and ``.libsvm`` are sparse text with the
        target first in every line; ``.npy``, ``.h5``, ``.hdf5`` and ``.zarr`` hold arrays.
    target : column (in a ``.npz``: array) that becomes y; it may hold text or booleans, which stay as they
        are. Without it, y is None for CSV and Parquet, and the array y, if any, for npz.
    columns : names of the features in the wanted order; other columns are not read. By default every column
        but the target, in the file's order, without an index that pandas stored.
    n_features : width of a svmlight file, whose lines leave zeros out: pass the width of the training data
        when reading rows to predict. Other formats must match it if it is given.
    missing, sep, encoding : as in :func:`gramian.open_data`.

    Returns
    -------
    Table : X is float32 if every column fits float32 exactly and one of them is a float, else float64;
        booleans are 0 and 1. Arrays of numbers keep their dtype. svmlight gives float64 CSR.

    Cost: time O(n d). Memory beyond X: about one piece of a few megabytes, and for CSV also the parsed
    columns (8 bytes a number).

    Errors: ``InputError`` for a file that is missing, empty, damaged, ragged or of another format, for
    names that are absent or occur twice, for columns of text or dates, and for missing or infinite values
    (naming row and column); ``MissingPackageError`` without pyarrow.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("rooms,age,price\\n3,40,1.5\\n5,10,2.5\\n")
    >>> table = read_table(path, target="price")
    >>> table.X, table.y, table.feature_names
    (array([[ 3., 40.], [ 5., 10.]]), array([1.5, 2.5]), ('rooms', 'age'))
    """
    choice = replace(
        checked_options(target, columns),
        n_features=n_features,
        floats=True,
        keep_bytes=np.inf,
        missing=missing_texts(missing),
        sep=sep,
        encoding=encoding,
    )
    source = open_numbers(Path(path), choice)
    X = source.rows(slice(0, source.shape[0]))
    # Copy rows that are mapped, or that a cache keeps: the caller must own the array.
    if not sp.issparse(X) and not (X.flags.writeable and X.flags.c_contiguous):
        X = np.array(X, order="C")
    y = source.target
    return Table(X, None if y is None else y[:], source.feature_names, None if y is None else y.name)
