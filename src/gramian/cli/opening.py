"""Opening of the files that a command is given: training rows, or rows for an existing model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.cli.report import say
from gramian.data.cells import CATEGORY
from gramian.data.choice import Choice
from gramian.data.file_formats import file_format
from gramian.data.names import shown_names
from gramian.data.opening import open_numbers, open_table, opened
from gramian.data.stored_source import StoredSource
from gramian.data.stored_table import StoredTable
from gramian.exceptions import InputError
from gramian.tables.serving import TableServer

#: An opened file: rows of numbers, or a table of columns of any type.
Opened = StoredSource | StoredTable
#: Bytes of parsed rows to predict that may stay in memory, so that small CSV files are parsed once.
#: Chosen by hand.
PREDICTED_BYTES = 1 << 28


def training_rows(path: Path, target: str | None, *, as_table: bool, memory: str) -> Opened:
    """Open rows with a target: as numbers, or as a table with columns of any type.

    Rows that take at most ``memory`` stay in memory once they are read; of a larger file only the rows
    in use do.

    Raises
    ------
    InputError : if the file gives no target, or more than one.
    """
    choice = Choice(target, floats=True, keep_bytes=parse_bytes(memory))
    rows: Opened = open_table(path, choice) if as_table else open_numbers(path, choice)
    found = rows.target
    if found is None:
        columns = rows.storage.feature_names
        names = f" (one of its columns: {', '.join(columns[:10])})" if columns else ""
        raise InputError(f"{path} contains no target to learn. Pass --target NAME{names}.")
    if found.ndim != 1:
        raise InputError(f"{path}: the target has shape {found.shape}. Store one number a row, shape (n,).")
    return rows


def all_targets(rows: Opened) -> Array:
    """Return the targets of all rows."""
    found = rows.target
    assert found is not None, "training_rows refuses rows without a target"
    return found[slice(0, len(found))]


def rows_for(path: Path, model: Any, target: str | None) -> Opened:
    """Open a model's columns by name, or by position if the model or the file has no names.

    ``model`` is the estimator, or the pipeline's first step. The target is opened too if the file has it.
    Columns that the model was not trained on are left out, and the command says which.
    """
    rows = _rows_for(path, model, target)
    if hasattr(model, "feature_names_in_"):
        known = set(model.feature_names_in_)
        more = [name for name in rows.storage.left_out if name not in known]
        if more:
            say(f"Left out: the model was not trained on {shown_names(more)} of {path}.")
    return rows


def _rows_for(path: Path, model: Any, target: str | None) -> Opened:
    # The target is optional, because rows to predict need none.
    choice = Choice(target_like=target, floats=True, keep_bytes=PREDICTED_BYTES)
    has_columns = file_format(path).columns
    if isinstance(model, TableServer) and has_columns:
        used = model.columns_
        # Columns that the model does not use may be missing.
        names = tuple(column.name for column in used.columns if column.width) if used.named else None
        text = tuple(c.name for c in used.columns if c.kind == CATEGORY and c.holds == "text")
        return _opened(open_table, path, replace(choice, columns=names, text=text))
    if hasattr(model, "feature_names_in_") and (has_columns or opened(path, Choice()).feature_names):
        return _opened(open_numbers, path, replace(choice, columns=tuple(model.feature_names_in_)))
    return _opened(open_numbers, path, replace(choice, n_features=int(model.n_features_in_)))


def _opened(call: Callable[[Path, Choice], Opened], path: Path, choice: Choice) -> Opened:
    """Open rows with the target, or without it if the column cannot be one, such as a date."""
    try:
        return call(path, choice)
    except InputError as error:
        rows = call(path, replace(choice, target_like=None))  # raises again if the error has another cause
        say(f"Not scored: {error}")
        return rows
