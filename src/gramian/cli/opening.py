"""Opening of the files a command is given: training rows, and rows with the columns of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gramian.cli.report import say
from gramian.data.cells import CATEGORY
from gramian.data.files import NPZ, SVMLIGHT, Table, file_format, read_arrays, read_table
from gramian.data.frame_files import Frame, holds_frame, read_frame
from gramian.exceptions import InputError
from gramian.tables.serving import TableServer


def training_rows(path: Path, target: str | None, *, as_frame: bool) -> Any:
    """Read rows with a target: as a Table of numbers, or as a Frame of whatever columns there are.

    Raises
    ------
    InputError : where the file gives no target, or more than one.
    """
    table: Table | Frame
    table = read_frame(path, target=target) if as_frame else read_table(path, target=target)
    if table.y is None:
        names = f" (one of its columns: {', '.join(table.feature_names[:10])})" if table.feature_names else ""
        raise InputError(f"{path} gives no target to learn. Pass --target NAME{names}.")
    if table.y.ndim != 1:
        raise InputError(f"{path}: the target has shape {table.y.shape}. Store one number a row, shape (n,).")
    return table


def rows_for(path: Path, model: Any, target: str | None) -> Table | Frame:
    """Read a model's columns by name, or by position where the model or the file has no names.

    ``model`` is the estimator, or the pipeline's first step. The target is read too, where the file has it.
    """
    if isinstance(model, TableServer) and holds_frame(path):
        used = model.columns_
        # Columns that the model does not use may be absent.
        names = [column.name for column in used.columns if column.width] if used.named else None
        text = [c.name for c in used.columns if c.kind == CATEGORY and c.holds == "text"]
        return _with_target(path, target, lambda at: read_frame(path, target=at, columns=names, text=text))
    names = list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
    kind, width = file_format(path), int(model.n_features_in_)
    if kind == SVMLIGHT:
        return read_table(path, n_features=width)
    if kind == NPZ and "feature_names" not in read_arrays(path, ["feature_names"]):
        names = None
    expected = width if names is None else None
    return _with_target(
        path, target, lambda at: read_table(path, target=at, columns=names, n_features=expected)
    )


def _with_target(
    path: Path, target: str | None, read: Callable[[str | None], Table | Frame]
) -> Table | Frame:
    """Read with the target; without it where the file has none, or not for all rows."""
    if target is not None:
        try:
            return read(target)
        except InputError as error:
            # Rows to predict need no target, or have it for some rows only; other errors come again.
            table = read(None)
            absent = (f"has no target column {target!r}", f"has no array {target!r}")
            if not any(text in str(error) for text in absent):
                say(f"Not scored: {error}")
            return table
    return read(None)
