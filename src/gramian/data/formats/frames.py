"""Arrow tables, pandas and polars frames: their kinds and labels, and slices as rows on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from gramian._typing import Array, RowsLike
from gramian.data.arrow import pyarrow_package, unusual, usual, usual_table
from gramian.data.file_options import FileOptions
from gramian.data.formats.columnar import ColumnarStorage, width
from gramian.data.formats.records import Records
from gramian.data.storage import Piece, cut, piece_rows
from gramian.exceptions import InputError, shortened


class FrameStorage(ColumnarStorage):
    """Slices of a table in memory; the table is the caller's and is never copied whole."""

    def __init__(self, frame: Any, choice: FileOptions) -> None:
        self._kind, self._frame = frame_kind(frame), frame
        super().__init__(())
        self.names = [f"the {self._kind} {'table' if self._kind == 'Arrow' else 'frame'}"]
        #: Column names of a pandas frame may be numbers.
        self._columns = list(map(str, column_labels(frame)))
        refuse_twice(self.names[0], self._columns)
        self._schema = schema = _schema(frame, self._kind)
        self.pieces = cut(0, int(frame.shape[0]), piece_rows(width(schema, schema.names)))
        self.plan(schema.remove_metadata(), choice.for_columns(schema.names))

    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Return columns of a slice."""
        pa = pyarrow_package()
        if self._kind == "Arrow":
            part = self._frame.select(list(names)).slice(piece.first, piece.n_rows)
            return part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
        if self._kind == "polars":
            return self._frame.select(list(names)).slice(piece.first, piece.n_rows).to_arrow()
        places = [self._columns.index(name) for name in names]
        part = self._frame.iloc[piece.first : piece.first + piece.n_rows, places].set_axis(
            list(names), axis=1
        )
        schema = pa.schema([self._schema.field(name) for name in names])
        return pa.Table.from_pandas(part, schema=schema, preserve_index=False)


def frame_kind(data: object) -> str | None:
    """Return "Arrow", "pandas" or "polars" for such tables, None for anything else; imports no package."""
    for base in type(data).__mro__:
        package = base.__module__.partition(".")[0]
        if (package, base.__name__) in (("pandas", "DataFrame"), ("polars", "DataFrame")):
            return package
        if package == "pyarrow" and base.__name__ in ("Table", "RecordBatch"):
            return "Arrow"
    return None


def opened_frame(X: RowsLike | None) -> Any:
    """Return a LazyFrame as a frame, a list of dicts or a structured array as records; others unchanged.

    Integers of 128 bits, which neither NumPy nor Arrow has, become those of 64, or are refused. Arrow's views
    and run-end encoded columns, of which Arrow cannot take rows, are copied to the usual layout.
    """
    frame = cast("Any", X)
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        return Records(frame)
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        return Records.of_fields(X)
    lazy = any(b.__name__ == "LazyFrame" and b.__module__.startswith("polars") for b in type(X).__mro__)
    frame = frame.collect() if lazy else frame
    kind = frame_kind(frame)
    kinds = [getattr(each, "pyarrow_dtype", None) for each in frame.dtypes] if kind == "pandas" else []
    given = frame
    for j in (j for j, stored in enumerate(kinds) if stored is not None and unusual(stored)):
        frame = frame.copy(deep=False) if frame is given else frame
        values = frame.iloc[:, j].array
        frame.isetitem(j, type(values)(usual(pyarrow_package().array(values), str(frame.columns[j]))))
    return _within_64_bits(frame) if kind == "polars" else usual_table(frame) if kind == "Arrow" else frame


def _within_64_bits(frame: Any) -> Any:
    """Return a polars frame whose 128-bit integers are cast; the frame itself if it has none."""
    for name, kind in frame.schema.items():
        if str(kind) in ("Int128", "UInt128"):
            column = frame.get_column(name)
            if column.len() > column.null_count() and not -(2**63) <= column.min() <= column.max() < 2**63:
                raise InputError(
                    f"Column {name!r} of X holds integers beyond 64 bits ({kind}). Cast it to Float64, which "
                    "rounds them, or to text if they are codes."
                )
            frame = frame.with_columns(column.cast(int))
    return frame


def column_labels(frame: Any) -> Sequence[Any]:
    """Return the labels of a frame's columns; those of pandas may be anything."""
    return list(frame.schema.names if frame_kind(frame) == "Arrow" else frame.columns)


def maker_like(frame: Any) -> Callable[[Array], Any] | None:
    """Return a function from an array (n, d) to a frame like this one; None for what is no frame."""
    kind, make = frame_kind(frame), cast("Any", type(frame))
    if kind == "pandas":
        return partial(make, columns=frame.columns)
    if kind == "polars":
        return partial(make, schema=frame.columns, orient="row")
    labels = column_labels(frame) if kind else None
    return (lambda rows: make.from_arrays(list(rows.T.copy()), names=labels)) if kind else None


def refuse_twice(table: str, labels: Iterable[Any]) -> None:
    """Raise if two columns of a table have the same label."""
    twice = next((label for label, times in Counter(labels).items() if times > 1), None)
    if twice is not None:
        raise InputError(f"{table} names the column {twice!r} more than once. Give each column its own name.")


def text_names(labels: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the labels of a table's columns as names; None if there are none.

    Labels that are no text (numbers, dates, tuples) are named by their text. Raises ``InputError`` if only
    some of the labels are text, or a name occurs twice.
    """
    names = tuple(labels)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        other = names[texts.index(False)]
        raise InputError(
            f"X names some columns by text, and one by {other!r} of type {type(other).__name__}. Make all "
            "names text, such as X.columns.astype(str), or none."
        )
    columns = tuple(map(str, names))
    refuse_twice("X", columns)
    return columns or None


def _schema(frame: Any, kind: str | None) -> Any:
    pa = pyarrow_package()
    if kind == "Arrow":
        return frame.schema
    if kind == "polars":
        return frame.slice(0, 0).to_arrow().schema
    try:
        schema = pa.Schema.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"The pandas frame has a column of mixed values: {shortened(str(error).splitlines()[0])}. Give "
            "each column one type."
        ) from None
    except (TypeError, NotImplementedError) as error:  # sparse columns, complex numbers
        why = shortened(str(error)).rstrip(".")
        raise InputError(
            f"The pandas frame has a column of a type that cannot be read: {why}. Convert the column to "
            "numbers, booleans or text, or drop it."
        ) from None
    # Arrow's own names of labels that are no text differ from ours.
    fields = [field.with_name(str(label)) for field, label in zip(schema, frame.columns, strict=True)]
    return pa.schema(fields)
