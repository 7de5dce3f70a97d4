"""``open_data``: files and frames as a row source."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from gramian._checks import is_iterable, one_of
from gramian.data.file_formats import CSV, HDF5, NPZ, ZARR, file_format
from gramian.data.file_options import AS_STORED, DROP, ONEHOT, REFUSE, FileOptions
from gramian.data.formats.frames import FrameStorage, frame_kind, opened_frame
from gramian.data.formats.records import Records
from gramian.data.missing import MISSING, missing_texts, text_list
from gramian.data.storage import Storage, explain_errors
from gramian.data.stored_file import find_files, is_path
from gramian.data.stored_source import StoredSource
from gramian.exceptions import InputError, quoted


def open_data(
    data: Any,
    *,
    target: str | os.PathLike[str] | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    categorical: str | Sequence[str] = REFUSE,
    nan: str = REFUSE,
    key: str | None = None,
    like: StoredSource | None = None,
    missing: Sequence[str] | None = None,
    sep: str | None = None,
    encoding: str | None = None,
) -> StoredSource:
    """Open rows in files, or in a frame, without reading them all into memory.

    The returned source has ``shape``, ``dtype``, ``feature_names``, ``target`` (None if none was named) and
    ``n_dropped``, and reads ``rows(slice)`` and ``take(indices)``. Estimators take it as X, and its target
    as y: ``fit(source)`` is ``fit(source, source.target)``.

    Parameters
    ----------
    data : a path, a list of paths (read in the list's order), a folder or a glob (read in the order of the
        names). All files have one format, given by the suffix: ``.csv``, ``.csv.gz`` and ``.parquet``
        (pyarrow), ``.npy`` (mapped), ``.npz``, ``.h5`` and ``.hdf5`` (h5py), ``.zarr`` (zarr), ``.svm``,
        ``.svmlight`` and ``.libsvm`` (sparse). Or an Arrow table, a frame of pandas or polars, or a
        list of dicts (pyarrow).
    target : column, or columns for several outputs; for ``.npz``, HDF5 and Zarr the name of an array; for
        ``.npy`` the path of a ``.npy`` file with the targets of the rows. A classifier's target may hold text
        or booleans. By default ``.npz`` gives its y, svmlight the first number of each line.
    columns : names of a table's features in the wanted order; by default all but the target.
    categorical : ``"refuse"`` text columns with an error, or ``"onehot"``: a feature of 0 and 1 for each
        value, named ``column=value``. The values are those of all files, in sorted order. Or a list of
        columns of CSV files: they are text although their cells look like numbers, and text is one-hot. A
        column with codes such as 007 is text by itself.
    nan : ``"refuse"`` a row with a missing value, NaN or infinity with an error that names file and row, when
        it is read; or ``"drop"`` these rows. All rows are then read once at opening; ``n_dropped`` and a
        warning give the number of dropped rows.
    key : name of the array of rows in ``.npz``, HDF5 and Zarr; by default X.
    like : an open source whose columns, categories and width also apply here. Pass the source of the training
        rows when opening rows to predict. A category that it lacks is refused when it is read. Its target
        applies too, if the new rows have that column (or array) with values; for ``.npy`` pass ``target=``
        again.
    missing : text that is a missing value in any column, such as ``["?", "-999"]``, in place of the default:
        NA, N/A, NaN, null and the like (:data:`gramian.data.missing.MISSING`). ``()`` keeps these as values,
        as in the columns that ``categorical`` names. Blank text is always missing.
    sep : character between the columns of CSV files. By default a tab for ``.tsv``; for ``.csv`` the one of
        comma, semicolon, tab and ``|`` that gives the first 20 lines the same number of columns.
    encoding : of CSV files, such as ``"latin-1"``; by default UTF-8.

    Returns
    -------
    StoredSource : its dtype is the smallest one that holds all columns (CSV: int64 or float64).

    Cost: opening Parquet, HDF5, Zarr and NumPy files reads their headers; CSV and svmlight are parsed
    once. Memory: two pieces of 4 MB (more if a stored chunk, or a page of each column, is larger), an
    index of the pieces, and the requested blocks.

    Errors: ``InputError`` for files that are missing, empty, damaged, ragged or of mixed formats or columns,
    or that have changed since they were opened (checked at each read); ``MissingPackageError`` with the extra
    to install.

    Examples
    --------
    >>> import tempfile, gramian as gm
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("rooms,kind,price\\n3,flat,1.5\\n5,house,2.5\\n")
    >>> source = gm.open_data(path, target="price", categorical="onehot")
    >>> source.shape, source.feature_names
    ((2, 3), ('rooms', 'kind=flat', 'kind=house'))
    >>> source.rows(slice(1, 2)), source.target[:]
    (array([[5, 0, 1]]), array([1.5, 2.5]))
    """
    text: tuple[str, ...] = ()
    if not isinstance(categorical, str):
        text, categorical = text_list("categorical", categorical), ONEHOT
    one_of("categorical", categorical, (REFUSE, ONEHOT))
    one_of("nan", nan, (REFUSE, DROP))
    choice = checked_options(target, columns, categorical, key, like)
    if missing is None and like is not None:
        missing = like.storage.settings().get("missing")
    given = replace(choice, text=text, missing=missing_texts(missing), sep=sep, encoding=encoding)
    storage = open_storage(data, given, like)
    if like is not None and storage.n_features != like.shape[1]:
        raise InputError(
            f"{storage.names[0]} has {storage.n_features} features, but the data that like= names has "
            f"{like.shape[1]}. Pass rows of that width."
        )
    return StoredSource(storage, drop=nan == DROP)


def open_numbers(data: Any, choice: FileOptions) -> StoredSource:
    """Open numeric rows by a complete choice; check their width if the choice gives one."""
    storage = open_storage(data, choice)
    if choice.n_features is not None and storage.n_features != choice.n_features:
        raise InputError(
            f"{storage.names[0]} has {storage.n_features} features, but {choice.n_features} were expected. "
            "Pass rows of that width."
        )
    return StoredSource(storage, keep_bytes=choice.keep_bytes)


def open_table(data: Any, choice: FileOptions) -> StoredSource:
    """Open CSV or Parquet files as a table with columns of any type; its rows are Arrow tables.

    Errors: ``InputError`` for files that are missing, empty, damaged, ragged or of another format, for names
    that are absent or occur twice, and for a target of dates; ``MissingPackageError`` without pyarrow.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("rooms,town,price\\n3,Bath,1.5\\n,Hull,2.5\\n")
    >>> table = open_table(path, FileOptions(target="price"))
    >>> table.rows(slice(0, 2)).to_pydict(), table.target[:]
    ({'rooms': [3, None], 'town': ['Bath', 'Hull']}, array([1.5, 2.5]))
    """
    # Formats that name no columns refuse it.
    storage = open_storage(data, replace(choice, categorical=AS_STORED))
    return StoredSource(storage, keep_bytes=choice.keep_bytes)


def checked_options(
    target: Any,
    columns: Sequence[str] | None,
    categorical: str = REFUSE,
    key: str | None = None,
    like: StoredSource | None = None,
) -> FileOptions:
    """Return a user's choice of target and columns; raise if they contradict each other."""
    if isinstance(columns, str):
        raise InputError(f"columns={columns!r} is a single string. Pass a list of names: [{columns!r}].")
    if columns is not None and (isinstance(columns, Set) or not is_iterable(columns)):
        raise InputError(f"columns={quoted(columns)} is no list of names, in the wanted order. Pass a list.")
    if like is not None and not isinstance(like, StoredSource):
        raise InputError(f"like has type {type(like).__name__}. Pass what gramian.open_data returned.")
    if target is not None and not is_path(target):
        raise InputError(f"target has type {type(target).__name__}. Pass a name, or a list of names.")
    one = isinstance(target, (str, os.PathLike))
    named = (str(target),) if one else tuple(map(str, target or ()))
    if target is not None and not named:
        raise InputError("target=[] names no column. Name at least one, or leave target out.")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"target={list(named)} names {twice!r} more than once. Name each once.")
    settings = like.storage.settings() if like is not None else {}
    chosen = tuple(columns) if columns is not None else settings.get("columns")
    both = next((name for name in named if name in (chosen or ())), None)
    if both is not None:
        raise InputError(f"The target {both!r} is also among columns. Take it out of the features.")
    learned = settings.get("categories")
    before = like.storage.target_columns if like is not None else None
    before_names = (before,) if isinstance(before, str) else before or ()
    return FileOptions(
        target=None if target is None else named[0] if one else named,
        target_like=None if set(before_names) & set(chosen or ()) else before,
        columns=chosen,
        categorical=ONEHOT if learned else categorical,
        key=key,
        categories=learned or None,
        n_features=settings.get("n_features"),
        zero_based=settings.get("zero_based"),
    )


def open_storage(data: Any, choice: FileOptions, like: StoredSource | None = None) -> Storage:
    """Return the storage of files or of a frame, opened by the reader of their format.

    CSV files are read with the text columns of ``like`` unless the choice has its own.
    """
    data = opened_frame(data)
    if isinstance(data, Records):
        data = data.as_arrow()
    if frame_kind(data) is not None:
        choice.refuse_csv_options("A frame has types of its own")
        if choice.key is not None:
            raise InputError("A frame has no arrays to name with key=. Leave it out.")
        return FrameStorage(data, choice)
    if not is_path(data):
        raise InputError(
            f"Data of type {type(data).__name__} cannot be opened. Pass a path, a list of paths, a folder, a "
            "glob, an Arrow table, a pandas or polars frame or a list of dicts; arrays and CSR matrices go "
            "to fit as they are."
        )
    paths = find_files(data)
    kinds = {path: file_format(path) for path in paths}
    first = kinds[paths[0]]
    other = next((path for path, kind in kinds.items() if kind != first), None)
    if other is not None:
        raise InputError(
            f"{paths[0]} is {first.name} and {other} is {kinds[other].name}. All files of a source have "
            "one format."
        )
    if choice.key is not None and first not in (NPZ, HDF5, ZARR):
        raise InputError(f"{paths[0]} is {first.name}, which has no arrays to name with key=. Leave it out.")
    if first is not CSV:
        choice.refuse_csv_options(f"{paths[0]} is {first.name}")
    elif like is not None:
        choice = replace(choice, text=choice.text or like.storage.settings().get("text", ()))
    if choice.missing != MISSING and not first.columns:
        raise InputError(f"{paths[0]} is {first.name}, without text. Leave out missing=.")
    with explain_errors(str(paths[0]) if len(paths) == 1 else f"{paths[0]} and the other files", 0):
        return first.storage(paths, choice)
