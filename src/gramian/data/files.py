"""File formats: read tables (CSV, Parquet, npz, svmlight) and write predictions.

``read_table`` ends with numbers that a kernel can take, or with an error that names the column to mend.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from gramian._tiles import row_slices
from gramian._typing import Array, Rows
from gramian.data.arrow import BATCH_ROWS, listed, read_csv, read_parquet, write_csv, write_parquet
from gramian.exceptions import MESSAGE, GramianError, InputError, did_you_mean, shortened

CSV, PARQUET, NPZ, SVMLIGHT = "CSV", "Parquet", "npz", "svmlight"
#: Suffix of a file's name → its format. Longer suffixes first: ".csv.gz" is not a ".gz".
FORMATS = {
    ".csv.gz": CSV,
    ".csv": CSV,
    ".parquet": PARQUET,
    ".npz": NPZ,
    ".svmlight": SVMLIGHT,
    ".libsvm": SVMLIGHT,
    ".svm": SVMLIGHT,
}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A file's rows: features, and the target where one was named or stored."""

    X: Rows  #: (n, d), C-contiguous array or CSR; no missing and no infinite values
    y: Array | None  #: (n,) numbers, booleans or (object) strings; None without a target
    feature_names: tuple[str, ...] | None  #: names of the d columns, where the format has them
    target: str | None  #: name of the target column, None without one


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
) -> Table:
    """Read a table of numbers from ``path``; the suffix of its name says the format.

    ``.csv`` and ``.csv.gz`` (comma-separated, first line names the columns) and ``.parquet`` need
    pyarrow; ``.npz`` holds an array X, optionally y and feature_names; ``.svm``, ``.svmlight`` and
    ``.libsvm`` are sparse text with the target first in every line.

    Parameters
    ----------
    path : file to read.
    target : column (in a ``.npz``: array) that becomes y; may hold text or booleans, kept as they
        are. Without it, CSV and Parquet give y = None, npz its array y if there is one.
    columns : names of the features, in the order wanted; other columns of the file are not looked at. By
        default every column but the target, in the file's order, less an index that pandas stored.
    n_features : width of a svmlight file, whose lines leave zeros out: pass the width of the training data
        when reading rows to predict. Other formats must match it where it is given.

    Returns
    -------
    Table : X is float32 if every column fits float32 exactly and one of them is float32, else float64;
        booleans are 0 and 1. Arrays of a ``.npz`` keep their dtype. svmlight gives float64 CSR.

    Cost: time O(n d). Memory beyond X: about a row group for Parquet, the parsed columns for CSV (8 bytes a
    number).

    Errors: ``InputError`` for a file that is missing, empty, damaged, ragged or of another format, for
    names that are absent or occur twice, and for columns that hold text, dates, or missing or infinite
    values; ``MissingPackageError`` without pyarrow.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("rooms,age,price\\n3,40,1.5\\n5,10,2.5\\n")
    >>> table = read_table(path, target="price")
    >>> table.X, table.y, table.feature_names
    (array([[ 3., 40.], [ 5., 10.]]), array([1.5, 2.5]), ('rooms', 'age'))
    """
    path = Path(path)
    kind = file_format(path)
    check_exists(path)
    if isinstance(columns, str):
        raise InputError(f"columns={columns!r} is one text. Pass a list of names: [{columns!r}].")
    if columns is not None and target in columns:
        raise InputError(f"The target {target!r} is also among columns. Take it out of the features.")
    with reading(path):
        if kind == NPZ:
            table = _read_npz(path, target, columns)
        elif kind == SVMLIGHT:
            table = _read_svmlight(path, target, columns, n_features)
        else:
            X, y, names = (read_csv if kind == CSV else read_parquet)(path, target, columns)
            table = Table(X, y, names, target)
        _check_table(path, table, n_features)
    return table


def read_arrays(path: str | os.PathLike[str], names: Iterable[str] | None = None) -> dict[str, Array]:
    """Read named arrays (all by default; absent ones are left out) of a ``.npz``, never pickles."""
    path = Path(path)
    check_exists(path)
    # Opened here, because numpy.load leaves a damaged file open.
    with reading(path), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"{path} is not a .npz archive. Write it with numpy.savez.")
        return {name: archive[name] for name in (names or archive.files) if name in archive.files}


def write_predictions(path: str | os.PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write named columns of equal length to a ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz`` file.

    ``columns`` maps a name to a one-dimensional array of numbers, booleans or text. An existing file is
    replaced. CSV and Parquet need pyarrow. Time and memory O(n · columns).
    """
    path = Path(path)
    kind = file_format(path)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    shapes = {name: values.shape for name, values in arrays.items()}
    if kind == SVMLIGHT:
        raise InputError(f"Predictions cannot be written as {path.name}. Use .csv, .parquet or .npz.")
    if not arrays or len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise InputError(f"Predictions must be 1-D arrays of one length, one or more; got shapes {shapes}.")
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    writers = {NPZ: _write_npz, CSV: write_csv, PARQUET: write_parquet}
    writers[kind](path, arrays)


def file_format(path: Path, formats: Mapping[str, str] = FORMATS) -> str:
    """Return the format that a file's suffix names: of tables CSV, Parquet, npz or svmlight."""
    for suffix, kind in formats.items():
        if path.name.lower().endswith(suffix):
            return kind
    got = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    known = ", ".join(sorted(formats))
    raise InputError(f"{path} has {got}, which names no format. Supported: {known}.")


def check_exists(path: Path) -> None:
    """Raise for a path that is no file, with names like it."""
    if path.is_file():
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder. Pass the path of one file.")
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    raise InputError(f"There is no file {path}.{did_you_mean(path.name, siblings)} Check the path.")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a parser's error into one that names the file, with the parser's own words in it."""
    try:
        yield
    except GramianError:
        raise
    # The errors that pyarrow, NumPy, zipfile and scikit-learn raise for files that they cannot read.
    except (ValueError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = shortened(str(error).strip().split("\n")[0], MESSAGE) or type(error).__name__
        raise InputError(
            f"{path} could not be read as {file_format(path)}: {reason.rstrip('.')}. "
            "Check that the file is complete and that its suffix names its format."
        ) from error


# ---- npz and svmlight --------------------------------------------------------------------------


def _read_npz(path: Path, target: str | None, columns: Sequence[str] | None) -> Table:
    y_name = "y" if target is None else target
    arrays = read_arrays(path, ("X", y_name, "feature_names"))
    if "X" not in arrays or (target is not None and target not in arrays):
        lacking = "X" if "X" not in arrays else target
        stored = list(read_arrays(path))
        raise InputError(
            f"{path} has no array {lacking!r}.{did_you_mean(lacking, stored)} "
            f"Its arrays are: {listed(stored)}."
        )
    X, y = arrays["X"], arrays.get(y_name)
    for label, array, kinds in (("X", X, "biuf"), (y_name, y, "biufU")):
        if array is not None and array.dtype.kind not in kinds:
            raise InputError(
                f"{path}: the array {label!r} holds values of type {array.dtype}. Store numbers"
                f"{' or text' if 'U' in kinds else ''}."
            )
    if X.ndim != 2:
        raise InputError(f"{path}: X has shape {X.shape}. Store one row a sample, shape (n, d).")
    if y is not None and y.shape[:1] != X.shape[:1]:
        raise InputError(f"{path}: {y_name} has shape {y.shape} and X {X.shape}. Store one target a row.")
    names = tuple(map(str, arrays["feature_names"])) if "feature_names" in arrays else None
    if columns is not None:
        X, names = _pick(path, X, names, columns), tuple(columns)
    return Table(np.ascontiguousarray(X), y, names, y_name if y is not None else None)


def _pick(path: Path, X: Array, names: tuple[str, ...] | None, columns: Sequence[str]) -> Array:
    if names is None:
        raise InputError(f"{path} does not name its columns, so {listed(columns)} cannot be picked. Use CSV.")
    absent = [name for name in columns if name not in names]
    if absent:
        raise InputError(f"{path} has no columns {listed(absent)}. Its columns are: {listed(names)}.")
    return X[:, [names.index(name) for name in columns]]


def _read_svmlight(
    path: Path, target: str | None, columns: Sequence[str] | None, n_features: int | None
) -> Table:
    if target is not None or columns is not None:
        raise InputError(
            f"{path}: svmlight files name no columns; the target is the first number of each line. "
            "Leave target and columns out."
        )
    X, y = load_svmlight_file(str(path), n_features=n_features)
    return Table(X, y, None, "y")


def _write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    # numpy.savez takes the names as keywords, where "file" would clash with its own parameter.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            plain = values.astype(str) if values.dtype.kind == "O" else values
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)


# ---- values ------------------------------------------------------------------------------------


def _check_table(path: Path, table: Table, n_features: int | None) -> None:
    n, d = table.X.shape
    if n == 0:
        raise InputError(f"{path} has no rows. Pass a file with at least one row of data.")
    if d == 0:
        raise InputError(f"{path} has no feature columns besides the target. Pass at least one feature.")
    if n_features is not None and d != n_features:
        raise InputError(f"{path} has {d} features, but {n_features} were expected. Pass rows of that width.")
    check_values(path, table)


def check_values(path: Path, table: Table) -> None:
    """Refuse missing and infinite values, by the names of their columns."""
    X, y, names, n = table.X, table.y, table.feature_names, table.X.shape[0]
    for what, count in (("missing", np.isnan), ("infinite", np.isinf)):
        bad = _count(X, count)
        labels = [f"column {names[j]!r}" if names else f"column {j} of X" for j in np.flatnonzero(bad)]
        found = [*zip(labels, bad[bad > 0])]
        if y is not None and (bad_y := int(_count(y.reshape(n, -1), count).sum())):
            found.append((f"target column {table.target!r}", bad_y))
        if found:
            said = [f"{label} has {k} {what} value{'s' if k > 1 else ''}" for label, k in found[:5]]
            more = f" and {len(found) - 5} more columns" if len(found) > 5 else ""
            raise InputError(
                f"{path}: {', '.join(said)}{more}, of {n} rows. Fill them in, or drop these rows or columns."
            )


def _count(values: Rows, test: Callable[[Array], Array]) -> Array:
    """How many entries of each column pass ``test``; None counts as NaN. O(n d), by tiles."""
    n, d = values.shape
    if sp.issparse(values):
        return np.bincount(values.indices[test(values.data)], minlength=d)
    dense = np.asarray(values)
    if dense.dtype.kind == "O":
        # A text column, the only one of objects: its nulls are None.
        return np.array([sum(value is None for value in dense.flat) if test is np.isnan else 0])
    if dense.dtype.kind != "f":
        return np.zeros(d, np.intp)
    return sum((test(dense[rows]).sum(axis=0) for rows in row_slices(n, BATCH_ROWS)), np.zeros(d, np.intp))
