"""CSV and Parquet through Arrow: the only file that imports pyarrow.

The type of each column is checked before anything is converted, so that an error names the column to fix.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from gramian._typing import Array
from gramian.exceptions import InputError, MissingPackageError, did_you_mean, listed

if TYPE_CHECKING:
    from pyarrow import Array as Chunk
    from pyarrow import ChunkedArray, DataType, Schema
    from pyarrow import Table as Table
    from pyarrow.csv import InvalidRow as InvalidRow
    from pyarrow.parquet import FileMetaData as FileMetaData
    from pyarrow.parquet import ParquetFile as ParquetFile

    #: A column of a table, in one piece or in several.
    Column: TypeAlias = Chunk | ChunkedArray

TEXT = {"string", "large_string", "string_view"}


def pyarrow_package() -> Any:
    """Import pyarrow with its readers; nothing else imports it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(
            "CSV and Parquet files need the package pyarrow, which is not installed. "
            "Run: pip install 'gramian[files]'"
        ) from error
    return pyarrow


@contextmanager
def column_writer(file: BinaryIO, path: Path) -> Iterator[Callable[[Mapping[str, Array | Column]], None]]:
    """Yield a function that writes named columns block by block, as Parquet or CSV depending on ``path``."""
    pa = pyarrow_package()
    packed, parquet = path.name.lower().endswith(".gz"), path.name.lower().endswith(".parquet")
    writer: Any = None
    # Unlike Arrow's own stream, this one leaves the file open at the end.
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) if packed else nullcontext(file) as stream:

        def write(columns: Mapping[str, Array | Column]) -> None:
            nonlocal writer
            # Arrow's CSV has "true", which most files that labels are read from do not: pandas writes "True".
            arrays = {
                name: pa.array(values.astype(str) if values.dtype.kind == "b" and not parquet else values)
                if isinstance(values, np.ndarray)
                else values
                for name, values in columns.items()
            }
            table = pa.table(arrays)
            if writer is None:
                tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
                options = pa.csv.WriteOptions(delimiter="\t" if tabs else ",")
                writer = (
                    pa.parquet.ParquetWriter(stream, table.schema)
                    if parquet
                    else pa.csv.CSVWriter(stream, table.schema, write_options=options)
                )
            writer.write_table(table)

        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


def select(
    path: Path | str,
    schema: Schema,
    target: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    drop: Sequence[str] = (),
) -> list[str]:
    """Return the names of the features; check that each, and each of ``drop``, occurs in the file once."""
    targets = [] if target is None else [target] if isinstance(target, str) else list(target)
    stored = list(schema.names)
    twice = sorted({name for name in stored if stored.count(name) > 1})
    if twice:
        raise InputError(
            f"{path} names the column {twice[0]!r} more than once. Give every column its own name; "
            "a CSV file without a header line needs one."
        )
    wanted = list(columns) if columns is not None else []
    if len(set(wanted)) < len(wanted):
        raise InputError(f"columns={wanted} names a feature more than once. Name each feature once.")
    absent = [name for name in [*wanted, *targets, *drop] if name not in stored]
    if absent:
        kinds = {"target column": targets, "feature column": wanted, "column": drop}
        role = next(kind for kind, names in kinds.items() if absent[0] in names)
        what = f"{role} {absent[0]!r}" if len(absent) == 1 else f"columns {listed(absent)}"
        raise InputError(
            f"{path} has no {what}.{did_you_mean(absent[0], stored)} Its columns are: {listed(stored)}."
        )
    if columns is not None:
        return wanted
    index = pandas_index(schema)
    names = [name for name in stored if name not in {*targets, *drop, *index}]
    if "" in names:
        raise InputError(
            f"Column {stored.index('') + 1} of {path} has no name. Name it, or drop it if it is an index: "
            "pandas writes none with to_csv(index=False)."
        )
    return names


def pandas_index(schema: Schema) -> set[str]:
    """Return the names of the columns that hold pandas row labels, which are not features."""
    metadata = schema.pandas_metadata or {}
    return {name for name in metadata.get("index_columns", []) if isinstance(name, str)}


def unusual(kind: DataType) -> bool:
    """Return whether a type has a layout that Arrow itself cannot take rows of: views, run-end encoding."""
    return any(word in str(kind) for word in ("string_view", "binary_view", "run_end_encoded"))


def usual(column: Column, name: str) -> Any:
    """Return a column of an unusual layout in the usual one, with the same values.

    >>> pa = pyarrow_package()
    >>> usual(pa.compute.run_end_encode(pa.array(["a", "a", "b"])), "c").to_pylist()
    ['a', 'a', 'b']
    """
    pa = pyarrow_package()
    kind = column.type
    if not unusual(kind):
        return column
    if isinstance(column, pa.ChunkedArray):
        parts = [usual(part, name) for part in column.chunks] or [usual(pa.array([], kind), name)]
        return pa.chunked_array(parts)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(column.offset, column.offset + len(column))
        runs = np.searchsorted(np.asarray(column.run_ends), rows, side="right")
        return usual(column.values, name).take(pa.array(runs))
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, usual(column.dictionary, name))
    if pa.types.is_nested(kind):
        raise InputError(
            f"Column {name!r} holds values of type {kind}. Numbers, booleans, text, categories and dates are "
            "expected: convert the column or drop it."
        )
    return column.cast(pa.large_string() if "string" in str(kind) else pa.large_binary())


def usual_table(table: Table) -> Any:
    """Return an Arrow table or batch whose columns of an unusual layout have the usual one."""
    for j, field in enumerate(table.schema):
        if unusual(field.type):
            table = table.set_column(j, field.name, usual(table.column(j), field.name))
    return table


def without_texts(table: Table, texts: Collection[str], kept: Collection[str] = ()) -> Any:
    """Return a table whose columns of text have a null where a cell is blank, or one of the texts.

    In the columns ``kept``, and where there are no texts, only empty cells become nulls.
    """
    pa = pyarrow_package()
    for j, field in enumerate(table.schema):
        if str(value_type(field.type)) not in TEXT:
            continue
        column, own = decode(table.column(j).combine_chunks()), () if field.name in kept else texts
        cells = pa.compute.utf8_trim_whitespace(column) if own else column
        lost = pa.compute.is_in(cells, value_set=pa.array(["", *own], column.type))
        if pa.compute.any(lost).as_py():
            column = pa.compute.if_else(lost, pa.scalar(None, column.type), column)
            table = table.set_column(j, field.name, column)
    return table


def value_type(kind: DataType) -> Any:
    """Return the type of a column's values: that of its dictionary if pandas stored a categorical."""
    return getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind


def check_type(path: Path | str, name: str, kind: DataType, *, target: bool) -> None:
    """Raise for a type that is not numeric; a target may also be text."""
    types = pyarrow_package().types
    role = "target column" if target else "column"
    if types.is_temporal(kind):
        raise InputError(
            f"{path}: {role} {name!r} holds dates or times ({kind}). Turn it into numbers "
            "(days since a date, hour, month) or drop it."
        )
    if target and str(kind) in TEXT:
        return
    if not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        hint = " (text that is not UTF-8?)" if types.is_binary(kind) else ""
        raise InputError(
            f"{path}: {role} {name!r} holds values of type {kind}{hint}. Numbers or booleans are expected: "
            "convert the column or drop it."
        )


def is_number(text: str) -> bool:
    """Return whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def decode(column: Column) -> Any:
    """Decode an Arrow column to a type that NumPy has."""
    types = pyarrow_package().types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type) or types.is_null(column.type):
        column = column.cast("float64")
    return column


def numbers(column: Column) -> Array:
    """Convert an Arrow column to numbers, a null to NaN."""
    column = decode(column)
    if pyarrow_package().types.is_boolean(column.type):
        column = column.cast("uint8")
    return column.to_numpy(zero_copy_only=False)


def is_whole(kind: DataType) -> bool:
    """Return whether a type holds whole numbers only: integers, or decimals without a fraction."""
    types = pyarrow_package().types
    return types.is_integer(kind) or (types.is_decimal(kind) and kind.scale <= 0)


def labels(column: Column) -> Array:
    """Convert an Arrow column to target values: strings and booleans stay, a null becomes NaN or None.

    Whole numbers stay whole, since labels of 16 digits and more would be rounded as floats.
    """
    types = pyarrow_package().types
    if types.is_decimal(column.type) and is_whole(column.type):
        column = column.cast("int64")
    if types.is_integer(column.type) and column.null_count:
        return np.array(column.to_pylist(), object)
    return decode(column).to_numpy(zero_copy_only=False)
