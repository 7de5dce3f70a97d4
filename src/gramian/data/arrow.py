"""CSV and Parquet through Arrow: the only file that imports pyarrow.

Types are checked column by column before anything is converted, so that an error names the column to mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gramian._typing import Array, FloatArray
from gramian.exceptions import InputError, MissingPackageError, did_you_mean, quoted

#: Rows converted at a time: a row-major slice of X stays in cache while its columns are filled.
BATCH_ROWS = 8192
#: Column types that float32 holds exactly.
_SINGLE = {"halffloat", "float", "bool", "int8", "uint8", "int16", "uint16"}
TEXT = {"string", "large_string", "string_view"}

#: A table as NumPy has it: X, y and the names of the features.
Parts = tuple[FloatArray, Array | None, tuple[str, ...]]
#: Names → the rows of these columns, batch by batch.
Batches = Callable[[list[str]], Iterable[Any]]


def pyarrow_package() -> Any:
    """Import pyarrow with its readers, the only place that does."""
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


def compression(path: Path) -> str | None:
    """Return how a file is packed, by its name."""
    return "gzip" if path.name.lower().endswith(".gz") else None


def read_parquet(path: Path, target: str | None, columns: Sequence[str] | None) -> Parts:
    """Read a Parquet file batch by batch: memory X, y and about one row group."""
    with pyarrow_package().parquet.ParquetFile(path) as file:

        def batches(names: list[str]) -> Iterable[Any]:
            return file.iter_batches(batch_size=BATCH_ROWS, columns=names)

        return _convert(path, file.schema_arrow, file.metadata.num_rows, batches, target, columns)


def read_csv(path: Path, target: str | None, columns: Sequence[str] | None) -> Parts:
    """Read a CSV file whole (a column's type is known at its end only), then convert it by batches."""
    table = csv_table(path)

    def batches(names: list[str]) -> Iterable[Any]:
        return table.select(names).to_batches(max_chunksize=BATCH_ROWS)

    return _convert(path, table.schema, table.num_rows, batches, target, columns)


def csv_table(path: Path, text: Iterable[str] = ()) -> Any:
    """Return a CSV file as an Arrow table; the columns that ``text`` names are text, numbers in them too."""
    pa = pyarrow_package()
    # An empty cell of a text column is missing too, not a class named "".
    options = pa.csv.ConvertOptions(strings_can_be_null=True, column_types=dict.fromkeys(text, pa.string()))
    with pa.input_stream(str(path), compression=compression(path)) as stream:
        table = pa.csv.read_csv(stream, convert_options=options)
    check_header(path, table.schema.names)
    return table


def parquet_table(path: Path) -> Any:
    """Return a Parquet file as an Arrow table."""
    with pyarrow_package().parquet.ParquetFile(path) as file:
        return file.read()


def write_parquet(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write named columns as Parquet."""
    pyarrow_package().parquet.write_table(_to_arrow(arrays), path)


def write_csv(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write named columns as CSV, compressed where the name ends in ``.gz``."""
    pa = pyarrow_package()
    with pa.output_stream(str(path), compression=compression(path)) as stream:
        pa.csv.write_csv(_to_arrow(arrays), stream)


def _to_arrow(arrays: Mapping[str, Array]) -> Any:
    pa = pyarrow_package()
    return pa.table({name: pa.array(values) for name, values in arrays.items()})


def _convert(
    path: Path, schema: Any, n_rows: int, batches: Batches, target: str | None, columns: Sequence[str] | None
) -> Parts:
    """Fill X and y batch by batch from columns whose types have been checked."""
    names = select(path, schema, target, columns)
    types = [value_type(schema.field(name).type) for name in names]
    for name, kind in zip(names, types):
        check_type(path, name, kind, batches)
    if target is not None:
        check_type(path, target, value_type(schema.field(target).type), None)
    kinds = {str(kind) for kind in types}
    X = np.empty((n_rows, len(names)), np.float32 if "float" in kinds <= _SINGLE else np.float64)
    parts: list[Array] = []
    start = 0
    for batch in batches(names if target is None else [*names, target]):
        rows = slice(start, start + batch.num_rows)
        for j, name in enumerate(names):
            X[rows, j] = numbers(batch.column(name))
        if target is not None:
            parts.append(labels(batch.column(target)))
        start = rows.stop
    y = None if target is None else np.concatenate(parts) if parts else np.empty(0)
    return X, y, tuple(names)


def select(
    path: Path | str, schema: Any, target: str | Sequence[str] | None, columns: Sequence[str] | None
) -> list[str]:
    """Return the names of the features, each checked to occur in the file once."""
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
    absent = [name for name in [*wanted, *targets] if name not in stored]
    if absent:
        role = "target column" if absent[0] in targets else "feature column"
        what = f"{role} {absent[0]!r}" if len(absent) == 1 else f"columns {listed(absent)}"
        raise InputError(
            f"{path} has no {what}.{did_you_mean(absent[0], stored)} Its columns are: {listed(stored)}."
        )
    if columns is not None:
        return wanted
    index = _pandas_index(schema)
    names = [name for name in stored if name not in targets and name not in index]
    if "" in names:
        raise InputError(
            f"Column {stored.index('') + 1} of {path} has no name. Name it, or drop it if it is an index: "
            "pandas writes none with to_csv(index=False)."
        )
    return names


def _pandas_index(schema: Any) -> set[str]:
    """Names of the columns that pandas stored as a table's row labels: not features."""
    metadata = schema.pandas_metadata or {}
    return {name for name in metadata.get("index_columns", []) if isinstance(name, str)}


def check_header(path: Path | str, names: list[str]) -> None:
    """Refuse a first line of data taken as names; plain integers are what pandas calls unnamed columns."""
    if all(is_number(name) for name in names) and not all(name.strip().isdigit() for name in names):
        raise InputError(
            f"The first line of {path} holds numbers ({listed(names)}) where the names of the columns were "
            "expected. Put a line of names first."
        )


def value_type(kind: Any) -> Any:
    """Type of a column's values: of its dictionary where pandas stored a categorical."""
    return getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind


def check_type(path: Path | str, name: str, kind: Any, batches: Batches | None) -> None:
    """Raise for a type that is not numbers; a target (no ``batches``) may also be text."""
    types = pyarrow_package().types
    role = "target column" if batches is None else "column"
    if types.is_temporal(kind):
        raise InputError(
            f"{path}: {role} {name!r} holds dates or times ({kind}). Turn it into numbers "
            "(days since a date, hour, month) or drop it."
        )
    if str(kind) in TEXT:
        if batches is None:
            return
        shown = _first_text(name, batches)
        cure = "Encode it as numbers or drop it."
        if any(mark in name for mark in (";", "\t", "|")):
            cure = "Separate the columns by commas."
        raise InputError(f"{path}: column {name!r} holds text (such as {quoted(shown)}). {cure}")
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


def _first_text(name: str, batches: Batches) -> str:
    """First cell that keeps a text column from being numbers, for the error."""
    cells = (cell for batch in batches([name]) for cell in batch.column(name).to_pylist() if cell is not None)
    first = next(cells, "")
    return first if not is_number(first) else next((c for c in cells if not is_number(c)), first)


def is_number(text: str) -> bool:
    """Return whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def plain(column: Any) -> Any:
    """Decode an Arrow column to what NumPy has a type for."""
    types = pyarrow_package().types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type) or types.is_null(column.type):
        column = column.cast("float64")
    return column


def numbers(column: Any) -> Array:
    """Arrow column → numbers, a null as NaN."""
    column = plain(column)
    if pyarrow_package().types.is_boolean(column.type):
        column = column.cast("uint8")
    return column.to_numpy(zero_copy_only=False)


def labels(column: Any) -> Array:
    """Arrow column → target values: strings and booleans stay, a null is NaN or None."""
    return plain(column).to_numpy(zero_copy_only=False)


def listed(names: Iterable[str]) -> str:
    """Ten names at most, as an error shows them."""
    quoted = [repr(str(name)) for name in names]
    return ", ".join(quoted[:10]) + (f", and {len(quoted) - 10} more" if len(quoted) > 10 else "")
