"""Parquet files as rows: parts of row groups, read in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramian.data.arrow import pyarrow_package, select, usual_table
from gramian.data.file_options import FileOptions
from gramian.data.formats.columnar import ColumnarStorage, common_type, exact_cast, same_columns, width
from gramian.data.storage import Piece, piece_rows

#: Bytes of a column that are read at a time, and of a usual page and dictionary.
BUFFER, PAGE = 1 << 16, 1 << 20

if TYPE_CHECKING:
    from gramian.data.arrow import FileMetaData, ParquetFile, Schema


class ParquetStorage(ColumnarStorage):
    """Row groups of Parquet files, cut into pieces of a few megabytes.

    A row group is read forward, so that pieces in order cost one pass over it, whatever its size; a piece
    before the last one read starts the group again. Memory besides a piece: the dictionary and a page of each
    column, compressed and not, of the size that the file's writer chose; 1 MB each is planned for.
    """

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        super().__init__(paths)
        pieces: list[Piece] = []
        self.pieces = pieces
        self._places: dict[str, _Place] = {}
        schema: Any = None
        for number, path in enumerate(paths):
            with _open_file(str(path)) as file:
                if schema is None:
                    schema = file.schema_arrow
                    choice = choice.for_columns(schema.names)
                    features = select(str(path), schema, choice.target, choice.columns, choice.drop)
                    used = [*features, *choice.targets]
                elif choice.columns is None and set(file.schema_arrow.names) - set(schema.names):
                    same_columns(file.schema_arrow, schema, file.schema_arrow.names, str(path), self.names[0])
                same_columns(schema, file.schema_arrow, used, self.names[0], str(path))
                schema = _widen_schema(schema, file.schema_arrow, used)
                pieces += _pieces(number, file.metadata, piece_rows(width(schema, used)))
                self.buffer_bytes = max(self.buffer_bytes, _buffer_bytes(file.metadata, used))
        self._kinds = {name: schema.field(name).type for name in used}
        self.plan(schema, choice)

    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Return columns of a piece, continuing after the lane's last piece if possible."""
        group, start = piece.where
        place = self._places.pop(lane, None)
        wanted = (piece.file, group, tuple(names))
        if place is None or place.group != wanted or place.row > start:
            open_file = place.file if place is not None and place.group[0] == piece.file else None
            place = _Place(wanted, open_file or _open_file(self.names[piece.file]))
        table = place.forward(start, piece.n_rows)
        self._places[lane] = place
        for j, name in enumerate(table.column_names):
            stored, kind = table.schema.field(name).type, self._kinds[name]
            if stored != kind and common_type(stored, kind) == kind:  # another file has the wider type
                table = table.set_column(j, name, exact_cast(table.column(name), name, kind))
        return usual_table(table)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "_places": {}}


class _Place:
    """Position within a row group that is being read."""

    def __init__(self, group: tuple[int, int, tuple[str, ...]], file: ParquetFile) -> None:
        self.group, self.file, self.row = group, file, 0
        self._batches: Iterator[Any] | None = None
        self._rest: Any = None

    def forward(self, start: int, n_rows: int) -> Any:
        """Return rows ``start`` to ``start + n_rows`` of the group; ``start`` must not be before ``row``."""
        if self._batches is None:
            self._batches = self.file.iter_batches(
                batch_size=n_rows, row_groups=[self.group[1]], columns=list(self.group[2]), use_threads=False
            )
        parts, need = [], start + n_rows - self.row
        while need > 0:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                break
            skip = max(0, start - self.row)
            part = batch.slice(0, need)
            self._rest = batch.slice(need) if batch.num_rows > need else None
            self.row, need = self.row + part.num_rows, need - part.num_rows
            if part.num_rows > skip:
                parts.append(part.slice(skip))
        pa = pyarrow_package()
        return pa.Table.from_batches(parts) if parts else pa.table({name: [] for name in self.group[2]})


def _open_file(name: str) -> Any:
    # Checksums of pages are verified where there are some. By default Arrow reads whole row groups ahead.
    return pyarrow_package().parquet.ParquetFile(
        name, page_checksum_verification=True, pre_buffer=False, buffer_size=BUFFER
    )


def _buffer_bytes(metadata: FileMetaData, names: Sequence[str]) -> int:
    """Return the bytes of buffers, dictionaries and pages of these columns while a row group is read."""
    most = 0
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        columns = [group.column(j) for j in range(group.num_columns)]
        stored = [c.total_uncompressed_size for c in columns if c.path_in_schema.split(".")[0] in names]
        most = max(most, sum(BUFFER + 3 * min(size, PAGE) for size in stored))
    return most


def _widen_schema(schema: Schema, other: Schema, names: Sequence[str]) -> Any:
    """Return a schema whose columns also hold the numbers of another file's."""
    for name in names:
        field, kind = schema.field(name), other.field(name).type
        wider = common_type(field.type, kind)
        if wider is not None and wider != field.type:
            schema = schema.set(schema.get_field_index(name), field.with_type(wider))
    return schema


def _pieces(number: int, metadata: FileMetaData, step: int) -> Iterator[Piece]:
    first = 0
    for group in range(metadata.num_row_groups):
        n_rows = metadata.row_group(group).num_rows
        for start in range(0, n_rows, step):
            yield Piece(number, first + start, min(step, n_rows - start), (group, start))
        first += n_rows
