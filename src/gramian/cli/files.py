"""Files that commands read and write: rows, standard input and output, checks of outputs."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from gramian._budget import parse_bytes
from gramian._files import check_replaceable
from gramian._typing import Array
from gramian.cli.options import CellOptions, TrainingOptions
from gramian.cli.report import STANDARD_INPUT, say
from gramian.data.arrow import labels, listed
from gramian.data.cells import CATEGORY, NUMERIC
from gramian.data.file_formats import CSV, file_format
from gramian.data.file_options import FileOptions
from gramian.data.missing import MISSING
from gramian.data.names import is_counted, shown_names
from gramian.data.opening import open_numbers, open_storage, open_table
from gramian.data.stored_file import find_files
from gramian.data.stored_source import StoredSource
from gramian.estimator.labels import checked_weights
from gramian.exceptions import InputError
from gramian.tables.serving import TableServer


def is_pipe(path: Path | None) -> bool:
    """Return whether a path stands for the standard input or output."""
    return str(path) == "-"


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Yield the path of rows; of the standard input that of a copy, because rows are read more than once."""
    if not is_pipe(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / STANDARD_INPUT
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


@contextmanager
def data_output(out: Path) -> Iterator[BinaryIO | None]:
    """Yield the standard output if data go there, and print all notes on the standard error output then."""
    if not is_pipe(out):
        yield None
        return
    stream = sys.stdout.buffer
    with redirect_stdout(sys.stderr):
        yield stream


def refuse_output_over_input(option: str, out: Path | None, *read: Path | str | None) -> None:
    """Raise, before any work, if an output cannot be written or would damage what the command reads.

    ``option`` is the name of the output's option; without an output nothing is checked. ``read`` are the
    files, folders and patterns that the command reads. The output must be none of their files, by whatever
    name or link, and must not lie inside a folder that is read.
    """
    if out is None:
        return
    if is_pipe(out):
        raise InputError(f"{option} - is the standard output, which only predict writes to. Pass a path.")
    check_replaceable(out)
    for path in read:
        if path is None:
            continue
        folder = next((each for each in _folders(path) if _is_inside(out, each)), None)
        if folder is not None:
            raise InputError(
                f"{option} {out} lies inside {folder}, whose files this command reads as rows. Pass a path "
                "outside it."
            )
        files = _files(path) if out.exists() else []
        file = next((each for each in files if each.exists() and os.path.samefile(out, each)), None)
        if file is not None:
            which = "is" if str(out) == str(file) else f"leads to {file}, which is"
            raise InputError(
                f"{option} {out} {which} a file that this command reads, and would be written over. Pass "
                "another path."
            )


def files_of(rows: Path | None, target: str | None) -> tuple[Path | str | None, ...]:
    """Return the paths that are read for rows: the target of ``.npy`` rows is a file of its own."""
    return (rows, target) if rows is not None and rows.name.lower().endswith(".npy") else (rows,)


def _folders(path: Path | str) -> Iterator[Path]:
    """Yield the folders that a path, or a pattern, names."""
    named = [path, *(glob.glob(str(path), recursive=True) if glob.has_magic(str(path)) else ())]
    yield from (Path(each) for each in named if os.path.isdir(each))


def _files(path: Path | str) -> list[Path]:
    """Return the files behind a path; none if it names nothing, which its reader will say."""
    try:
        return find_files(path)
    except InputError:
        return []


def _is_inside(out: Path, folder: Path) -> bool:
    parents = Path(os.path.realpath(out)).parents
    return any(parent.exists() and os.path.samefile(parent, folder) for parent in parents)


#: Bytes of parsed rows to predict that may stay in memory, so that small CSV files are parsed once.
#: Chosen by hand.
PREDICTED_BYTES = 1 << 28


def training_rows(
    path: Path,
    target: str | None,
    *,
    as_table: bool,
    memory: str,
    cells: CellOptions,
    excluded: Collection[str] = (),
) -> StoredSource:
    """Open rows with a target: as numbers, or as a table with columns of any type.

    Rows that take at most ``memory`` stay in memory once they are read; of a larger file only the rows
    in use do. The columns ``excluded`` are no features.

    Raises ``InputError`` if the file gives no target, or more than one.
    """
    drop = tuple(dict.fromkeys(excluded))
    choice = cells.applied(FileOptions(target, drop=drop, floats=True, keep_bytes=parse_bytes(memory)))
    if choice.drop and not file_format(path).columns:
        raise InputError(
            f"{path} names no columns, so that --drop, --groups, --time and --weight cannot be used. Leave "
            "them out, or store the rows as CSV or Parquet."
        )
    if target in choice.drop:
        raise InputError(
            f"{target!r} is named by --target and by --drop, --groups, --time or --weight. Name it once."
        )
    rows = open_table(path, choice) if as_table else open_numbers(path, choice)
    y = rows.target
    if y is None:
        columns = rows.storage.feature_names
        names = f" (one of its columns: {listed(columns)})" if columns else ""
        raise InputError(f"{path} contains no target to learn. Pass --target NAME{names}.")
    if y.ndim != 1:
        raise InputError(f"{path}: the target has shape {y.shape}. Store one number a row, shape (n,).")
    return _print_findings(path, rows)


def rows_to_train(
    path: Path, target: str | None, settings: TrainingOptions, *, as_table: bool
) -> StoredSource:
    """Open rows with a target as the options of training say."""
    excluded = settings.fit_columns.values()
    return training_rows(
        path, target, as_table=as_table, memory=settings.memory, cells=settings, excluded=excluded
    )


def read_fit_arguments(path: Path, settings: TrainingOptions) -> dict[str, Array]:
    """Return the columns given beside the rows as arguments of ``fit``: groups, time, sample_weight."""
    named = settings.fit_columns
    if not named:
        return {}
    cells = replace(settings, drop=None)
    table = open_table(path, cells.applied(FileOptions(columns=tuple(dict.fromkeys(named.values())))))
    n = table.shape[0]
    columns = table.rows(slice(0, n))
    per_row = {parameter: labels(columns.column(name)) for parameter, name in named.items()}
    weights = checked_weights(per_row.get("sample_weight"), n)
    return per_row if weights is None else per_row | {"sample_weight": weights}


def kept_columns(path: Path, keep: Collection[str], cells: CellOptions, out: Path) -> StoredSource | None:
    """Open the columns that are written beside predictions; from CSV to CSV their cells stay as they are."""
    if not keep:
        return None
    if not file_format(path).columns:
        raise InputError(f"{path} names no columns to --keep. Leave it out, or pass rows as CSV or Parquet.")
    names = tuple(dict.fromkeys(keep))
    as_text = file_format(path) is CSV and (is_pipe(out) or file_format(out) is CSV)
    choice = FileOptions(columns=names, text=names if as_text else (), keep_bytes=PREDICTED_BYTES)
    return open_table(path, cells.applied(choice))


def _print_findings(path: Path, rows: StoredSource) -> StoredSource:
    """Print what was detected in a file and may surprise; return its rows."""
    if rows.storage.read_as:
        say(f"Reading {path}: {rows.storage.read_as}")
    return rows


def all_targets(rows: StoredSource) -> Array:
    """Return the targets of all rows."""
    y = rows.target
    assert y is not None, "training_rows refuses rows without a target"
    return y[slice(0, len(y))]


def rows_for(
    path: Path, model: BaseEstimator, notes: dict[str, str], cells: CellOptions, target: str | None
) -> StoredSource:
    """Open a model's columns by name, or by position if the model or the file has no names.

    ``model`` is an estimator or a pipeline, ``notes`` those of its file: the cells that were missing values
    in training, and the name of the target. The target (``target``, if it is given) is opened too if the file
    has it. A column of a CSV file is text or numbers as in training, whatever its cells look like.
    Columns that the model was not trained on are left out, and the command says which.
    """
    first = model[0] if isinstance(model, Pipeline) else model
    if target is not None and target in getattr(first, "feature_names_in_", ()):
        raise InputError(
            f"--target {target} is a column that the model predicts from. Pass the column of the true values."
        )
    rows = _rows_for(path, model, notes, cells, target)
    if hasattr(first, "feature_names_in_"):
        known = set(first.feature_names_in_)
        more = [name for name in rows.storage.left_out if name not in known]
        if more:
            say(f"Left out: the model was not trained on {shown_names(more)} of {path}.")
    return rows


def _rows_for(
    path: Path, model: BaseEstimator, notes: dict[str, str], cells: CellOptions, target: str | None
) -> StoredSource:
    first, last = (model[0], model[-1]) if isinstance(model, Pipeline) else (model, model)
    target = target or notes.get("target") or None
    # The target is optional, because rows to predict need none.
    choice = FileOptions(target_like=target, floats=True, keep_bytes=PREDICTED_BYTES)
    kind = file_format(path)
    if kind is CSV:
        text_labels = np.asarray(getattr(last, "classes_", ())).dtype.kind in "OUS"
        targets = () if target is None else (target,)
        choice = replace(
            choice,
            text=targets if text_labels else (),
            numeric=() if text_labels else targets,
            missing=(*MISSING, *notes.get("missing", "").splitlines()),
        )
    if isinstance(first, TableServer):
        choice = replace(choice, missing=first.columns_.missing)
    choice = cells.applied(choice)
    if isinstance(first, TableServer) and kind.columns:
        used = first.columns_
        # Columns that the model does not use may be missing.
        named = used.named and not is_counted(used.column_names)
        taken = [column for column in used.columns if column.width] if named else []
        if kind is CSV:
            text = [c.name for c in taken if c.kind == CATEGORY and c.holds == "text"]
            numeric = [c.name for c in taken if c.kind == NUMERIC]
            choice = replace(choice, text=(*choice.text, *text), numeric=(*choice.numeric, *numeric))
        names = tuple(column.name for column in taken) if named else None
        return _open(open_table, path, replace(choice, columns=names))
    names = tuple(getattr(first, "feature_names_in_", ()))
    if not is_counted(names) and (
        kind.columns or open_storage(path, cells.applied(FileOptions())).feature_names
    ):
        return _open(open_numbers, path, replace(choice, columns=names, numeric=(*choice.numeric, *names)))
    return _open(open_numbers, path, replace(choice, n_features=int(first.n_features_in_)))


def _open(call: Callable[[Path, FileOptions], StoredSource], path: Path, choice: FileOptions) -> StoredSource:
    """Open rows with the target, or without it if the column cannot be one, such as a date."""
    try:
        return _print_findings(path, call(path, choice))
    except InputError as error:
        # Raises again if the error has another cause.
        text = tuple(column for column in choice.text if column != choice.target_like)
        rows = call(path, replace(choice, target_like=None, text=text))
        say(f"Not scored: {error}")
        return rows
