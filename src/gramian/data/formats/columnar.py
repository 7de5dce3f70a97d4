"""Base of the formats with named columns: choice of the features and their conversion to numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gramian._typing import Array, FloatArray
from gramian.data.arrow import (
    TEXT,
    check_type,
    is_number,
    is_whole,
    labels,
    numbers,
    pandas_index,
    pyarrow_package,
    select,
    value_type,
    without_texts,
)
from gramian.data.cells import unique_names
from gramian.data.file_options import AS_STORED, ONEHOT, FileOptions
from gramian.data.missing import MARKERS
from gramian.data.storage import Piece, Storage, Target, UnreadableRow, kept_dtype, no_rows
from gramian.exceptions import InputError, quoted

if TYPE_CHECKING:
    from gramian.data.arrow import Column, DataType, Schema, Table

#: One-hot encoding refuses a text column with more values than this, which probably holds names or
#: identifiers. Chosen by hand.
MOST_CATEGORIES = 1000


class ColumnarStorage(Storage):
    """Base of CSV, Parquet and frames: a subclass sets ``names`` and ``pieces`` and returns columns.

    Numbers get the smallest type that holds all columns; booleans become 0 and 1; a text column is refused,
    or with ``categorical="onehot"`` becomes one column of 0 and 1 for each of its values, in sorted order.
    """

    @abstractmethod
    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Return these columns of a piece as an Arrow table.

        ``lane`` is "rows" or "targets"; a format that reads forward keeps a position in the file for each.
        """

    def plan(self, schema: Schema, choice: FileOptions) -> None:
        """Choose the features, their types and categories; call when the pieces are known."""
        if not any(piece.n_rows for piece in self.pieces):
            raise no_rows(self.names)
        known = [name for name in choice.targets if name in schema.names]
        lacking = [name for name in known if pyarrow_package().types.is_null(schema.field(name).type)]
        if lacking and choice.target == choice.target_like:
            choice = replace(choice, target=None)
        self.choice, self.target_columns = choice, choice.target
        name = str(self.names[0])
        self.columns = select(name, schema, choice.target, choice.columns, choice.drop)
        if not self.columns:
            raise InputError(f"{name} has no feature columns besides the target. Pass at least one feature.")
        self.find_left_out(schema.names, pandas_index(schema))
        self.target = self._target(schema, name)
        self.categories: dict[str, tuple[str, ...]] = {}
        if choice.categorical == AS_STORED:
            self.of_columns, self.dtype, self.n_features = True, np.dtype(object), len(self.columns)
            self.feature_names = tuple(self.columns)
            return
        self._plan_numbers(schema, name)

    def find_left_out(self, stored: Sequence[str], index: Collection[str] = ()) -> None:
        """Keep the names of the stored columns that are neither features nor targets."""
        like = self.choice.target_like or ()
        kept = {*self.columns, *self.choice.targets, *((like,) if isinstance(like, str) else like), *index}
        self.left_out = tuple(name for name in stored if name not in kept)

    def _plan_numbers(self, schema: Schema, name: str) -> None:
        kinds = {column: value_type(schema.field(column).type) for column in self.columns}
        text = [column for column, kind in kinds.items() if str(kind) in TEXT]
        for column in self.columns:
            if column not in text:
                check_type(name, column, kinds[column], target=False)
        types = pyarrow_package().types
        stored = {column: schema.field(column).type for column in self.columns}
        #: Columns that NumPy can hold unchanged.
        self._plain = {name for name, k in stored.items() if types.is_integer(k) or types.is_floating(k)}
        self.categories = self._categories(text)
        parts = [np.dtype(np.uint8)] if self.categories else []
        parts += [_dtype(kind, name, column) for column, kind in kinds.items() if column not in text]
        self.dtype = np.dtype(np.result_type(*parts))
        if self.choice.floats and self.dtype.kind != "f":
            self.dtype = np.dtype(np.float64)
        named = (
            (column, feature)
            for column in self.columns
            for feature in ([f"{column}={value}" for value in self.categories.get(column, ())] or [column])
        )
        self.feature_names = unique_names(named, self.columns)
        self.n_features = len(self.feature_names)

    def read(self, piece: Piece, *, rows: bool, target: bool) -> tuple[Any, Array | None]:
        """Return numbers and targets of a piece; if there are nulls, in float64 with NaN.

        Columns that are kept as stored are returned as an Arrow table.
        """
        wanted = [*(self.columns if rows else ()), *(self.choice.targets if target else ())]
        table = self._present(self.table(piece, wanted, "rows" if rows else "targets"))
        if table.num_rows != piece.n_rows:
            raise ValueError(f"{piece.n_rows} rows were expected and {table.num_rows} found")
        return self._features(table) if rows else None, self._targets(table) if target else None

    def written_cell(self, piece: Piece, row: int) -> str:
        """Return words about a target's text that says missing; "" if it is none."""
        name = self.choice.targets[0]
        cell = self.table(piece, [name], "targets").column(name)[row].as_py()
        if not isinstance(cell, str):
            return ""
        return (
            f" (the cell holds {quoted(cell)}, which counts as missing: if it is a class, pass missing=(), "
            f"or for CSV files categorical=[{name!r}]; on the command line --missing '' or --text "
            f"{name})"
        )

    def settings(self) -> dict[str, Any]:
        """Return the columns, their categories, and the text that is a missing value."""
        choice = self.choice
        return {"columns": tuple(self.columns), "categories": self.categories, "missing": choice.missing}

    # ---- features ------------------------------------------------------------------------------

    def _features(self, table: Table) -> Any:
        if self.of_columns:
            return table.select(self.columns)
        parts = [_flat(table.column(name)) for name in self.columns]
        lacking = any(part.null_count for part in parts)
        X = np.empty((table.num_rows, self.n_features), np.float64 if lacking else self.dtype)
        j = 0
        for name, part in zip(self.columns, parts):
            values = self.categories.get(name)
            if values is None:
                X[:, j] = part.to_numpy(zero_copy_only=False) if name in self._plain else numbers(part)
                j += 1
            else:
                X[:, j : j + len(values)] = _one_hot(part, name, values)
                j += len(values)
        return X

    def _categories(self, text: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the values of each text column: those of an earlier source, or all that occur."""
        if self.choice.categorical != ONEHOT:
            if text:
                self._refuse_text(text[0])
            return {}
        if self.choice.categories is not None:
            known = self.choice.categories
            changed = [column for column in self.columns if (column in text) != (column in known)]
            if changed:
                kinds = ("text", "numbers") if changed[0] in text else ("numbers", "text")
                raise InputError(
                    f"{self.names[0]}: column {changed[0]!r} holds {kinds[0]}, but {kinds[1]} in the data "
                    "that like= names. Pass columns of the same kind."
                )
            return {column: known[column] for column in text}
        categories: dict[str, set[str]] = {column: set() for column in text}
        for _, table in self._scan(text):
            for column, values in categories.items():
                values.update(_flat(table.column(column)).unique().drop_null().to_pylist())
                if len(values) > MOST_CATEGORIES:
                    raise InputError(
                        f"{self.names[0]}: text column {column!r} has more than {MOST_CATEGORIES} different "
                        "values, each of which would become a feature. Drop it, or group its values."
                    )
        empty = next((column for column, values in categories.items() if not values), None)
        if empty is not None:
            raise _no_values(str(self.names[0]), empty)
        return {column: tuple(sorted(values)) for column, values in categories.items()}

    def _refuse_text(self, column: str) -> None:
        cure = (
            "leave it out (columns=), or pass categorical='onehot' to gramian.open_data for a feature of 0 "
            "and 1 for each of its values."
        )
        for piece, table in self._scan([column]):
            cells = table.column(column).to_pylist()
            texts = [
                (row, cell) for row, cell in enumerate(cells) if cell is not None and not is_number(cell)
            ]
            if texts:
                row, cell = texts[0]
                if cell.strip().lower() in MARKERS:
                    cure = f"or, if it is a missing value, pass missing=[{quoted(cell)}]."
                raise InputError(
                    f"{self.names[piece.file]}: column {column!r} holds text (such as {quoted(cell)}), first "
                    f"in row {piece.first + row} (from 0). Encode it as numbers, {cure}"
                )
        raise InputError(
            f"{self.names[0]}: column {column!r} holds numbers stored as text, or codes with leading "
            f"zeros. Store numbers as numbers; of codes {cure}"
        )

    def _scan(self, columns: Sequence[str]) -> Iterator[tuple[Piece, Any]]:
        for piece in self.pieces if columns else ():
            yield piece, self._present(self.table(piece, columns, "rows"))

    def _present(self, table: Table) -> Any:
        """Return a table with nulls for text that says missing; features kept as stored keep it."""
        stored = self.columns if self.of_columns else ()
        return without_texts(table, self.choice.missing, (*self.choice.text, *stored))

    # ---- target --------------------------------------------------------------------------------

    def _target(self, schema: Schema, name: str) -> Target | None:
        if not self.choice.targets:
            return None
        kinds = [value_type(schema.field(column).type) for column in self.choice.targets]
        for column, kind in zip(self.choice.targets, kinds):
            check_type(name, column, kind, target=True)
        several = not isinstance(self.choice.target, str)
        text = [column for column, kind in zip(self.choice.targets, kinds) if str(kind) in TEXT]
        if several and text:
            raise InputError(
                f"{name}: the target {text[0]!r} holds text. Several targets must all be numeric."
            )
        if text:
            return Target(text[0], np.dtype(object))
        types = pyarrow_package().types
        if not several and (types.is_boolean(kinds[0]) or is_whole(kinds[0])):
            whole = types.is_decimal(kinds[0])
            return Target(self.choice.targets[0], np.dtype(np.int64 if whole else kinds[0].to_pandas_dtype()))
        parts = [_dtype(kind, name, column) for kind, column in zip(kinds, self.choice.targets)]
        dtype = np.dtype(np.result_type(*parts))
        return Target(", ".join(self.choice.targets), dtype, len(kinds) if several else None)

    def _targets(self, table: Table) -> Array:
        parts = [_labels(table.column(name), name) for name in self.choice.targets]
        return np.column_stack(parts) if not isinstance(self.choice.target, str) else parts[0]


def width(schema: Schema, names: Sequence[str]) -> int:
    """Return the bytes that a row of these columns takes when decoded; approximate for text.

    Parquet has no integers under 32 bits.
    """
    types = pyarrow_package().types
    kinds = [value_type(schema.field(name).type) for name in names]
    return sum(max(4, kind.bit_width // 8) if types.is_primitive(kind) else 16 for kind in kinds)


def same_columns(
    first: Schema, other: Schema, names: Sequence[str], first_name: str, other_name: str
) -> None:
    """Raise if two files' columns (restricted to ``names``) differ in name, or have no type in common."""
    lacking = [name for name in names if name not in other.names]
    if lacking:
        raise InputError(
            f"{other_name} has no column {lacking[0]!r}, which {first_name} has. All files of a source have "
            "the same columns: open them apart, or choose common ones (columns=)."
        )
    for name in names:
        a, b = value_type(first.field(name).type), value_type(other.field(name).type)
        if common_type(a, b) is None:
            raise InputError(
                f"Column {name!r} is {a} in {first_name} and {b} in {other_name}. Write all files with the "
                "same types."
            )


def common_type(a: DataType, b: DataType) -> Any:
    """Return the type in which a column is read that two files store as ``a`` and ``b``; None: refuse them.

    Integers beside floats become double, as far as double holds them: :func:`exact_cast`.
    """
    types, pa = pyarrow_package().types, pyarrow_package()
    if a == b or types.is_null(b):  # null: a file in which all values are missing
        return a
    if types.is_null(a):
        return b
    if not all(types.is_integer(kind) or types.is_floating(kind) for kind in (a, b)):
        return None
    if types.is_floating(a) or types.is_floating(b):
        return pa.float64()
    return None if pa.uint64() in (a, b) else pa.int64()


def exact_cast(column: Column, name: str, kind: DataType) -> Any:
    """Return a column in a wider type; raise for the first integer that the type cannot hold exactly."""
    pa = pyarrow_package()
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:  # beyond 2^53, where double holds some integers only
        pass
    for row, value in enumerate(column.to_pylist()):
        if value is not None and int(float(value)) != value:
            raise UnreadableRow(
                row,
                f"column {name!r} holds the integer {value} here and floats in another file, and {kind} "
                "cannot hold it exactly. Write all files with the same types.",
            )
    return column.cast(kind, safe=False)


def _dtype(kind: DataType, name: str, column: str) -> np.dtype[Any]:
    types = pyarrow_package().types
    if types.is_null(kind):
        raise _no_values(name, column)
    dtype = np.dtype(np.float64) if types.is_decimal(kind) else np.dtype(kind.to_pandas_dtype())
    kept = kept_dtype(dtype)
    assert kept is not None, "check_type has refused all but numbers"
    return kept


def _no_values(name: str, column: str) -> InputError:
    return InputError(f"{name}: column {column!r} has no values at all. Leave it out (columns=).")


def _flat(column: Column) -> Any:
    """Return a column as one contiguous array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _labels(column: Column, name: str) -> Array:
    """Return a column of labels; raise for the first decimal that 64 bits cannot hold."""
    try:
        return labels(_flat(column))
    except pyarrow_package().ArrowInvalid:
        values = column.to_pylist()
        row = next((k for k, v in enumerate(values) if v is not None and not -(1 << 63) <= v < 1 << 63), None)
        if row is None:
            raise
        raise UnreadableRow(
            row,
            f"column {name!r} holds {quoted(values[row])}, beyond the 64 bits of whole labels. Store "
            "it as text, or as double if it is the target of a regression.",
        ) from None


def _one_hot(column: Column, name: str, values: tuple[str, ...]) -> FloatArray:
    pa = pyarrow_package()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    codes = pa.compute.index_in(column, value_set=pa.array(values, column.type))
    unseen = np.flatnonzero(codes.is_null().to_numpy(False) & column.is_valid().to_numpy(False))
    if len(unseen):
        row = int(unseen[0])
        raise UnreadableRow(
            row,
            f"column {name!r} holds {quoted(column[row].as_py())}, which is not one of its {len(values)} "
            "categories. Open these rows together with the training rows, or drop the row.",
        )
    places = codes.to_numpy(zero_copy_only=False)
    hot = (places[:, None] == np.arange(len(values))).astype(np.float64 if column.null_count else np.uint8)
    if column.null_count:
        hot[np.isnan(places)] = np.nan
    return hot
