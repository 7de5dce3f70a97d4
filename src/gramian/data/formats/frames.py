"""Arrow tables and pandas and polars frames as rows: slices converted on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gramian.data.arrow import pyarrow_package
from gramian.data.choice import Choice
from gramian.data.formats.columnar import ColumnarStorage, width
from gramian.data.pieces import Piece, cut, piece_rows
from gramian.exceptions import InputError, shortened


class FrameStorage(ColumnarStorage):
    """Slices of a table in memory; the table is the caller's and is never copied whole."""

    def __init__(self, frame: Any, choice: Choice) -> None:
        self._kind, self._frame = frame_kind(frame), frame
        self.names = [f"the {self._kind} {'table' if self._kind == 'Arrow' else 'frame'}"]
        #: Column names of a pandas frame may be numbers.
        self._columns = [
            str(name) for name in (frame.columns if self._kind != "Arrow" else frame.schema.names)
        ]
        twice = [name for name, times in Counter(self._columns).items() if times > 1]
        if twice:
            raise InputError(
                f"{self.names[0]} names the column {twice[0]!r} more than once. Give each its own name."
            )
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


def frame_kind(data: Any) -> str | None:
    """Return "Arrow", "pandas" or "polars" for such tables, None for anything else; imports no package."""
    for base in type(data).__mro__:
        package = base.__module__.partition(".")[0]
        if (package, base.__name__) in (("pandas", "DataFrame"), ("polars", "DataFrame")):
            return package
        if package == "pyarrow" and base.__name__ in ("Table", "RecordBatch"):
            return "Arrow"
    return None


def _schema(frame: Any, kind: str | None) -> Any:
    pa = pyarrow_package()
    if kind == "Arrow":
        return frame.schema
    if kind == "polars":
        return frame.slice(0, 0).to_arrow().schema
    try:
        return pa.Schema.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"The pandas frame has a column of mixed values: {shortened(str(error).splitlines()[0])}. Give "
            "each column one type."
        ) from None
