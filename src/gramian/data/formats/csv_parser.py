"""Parser of whole CSV rows with Arrow: cells to columns, and the types that cells tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gramian.data.arrow import TEXT, pyarrow_package, without_texts
from gramian.data.cells import is_code
from gramian.data.formats.csv_dialect import Dialect, byte_mask
from gramian.data.storage import UnreadableRow

if TYPE_CHECKING:
    from gramian.data.arrow import Column, InvalidRow

#: Cells that hold codes: whole numbers with a leading zero, such as 007.
_CODE = r"^\s*[+-]?0[0-9]+\s*$"
#: Numbers from which whole numbers do not fit 64 bits, so that Arrow makes floats of them.
_LARGE = 2.0**63
#: Cells that hold numbers with a decimal comma, or whole numbers.
_COMMA_NUMBER = r"^\s*[+-]?([0-9]+|[0-9]*,[0-9]+)([eE][+-]?[0-9]+)?\s*$"
#: Of these, those whose comma may group digits.
_GROUPED = r"^\s*[+-]?[1-9][0-9]{0,2},[0-9]{3}\s*$"


@dataclass(frozen=True, slots=True)
class CSVParser:
    """Parser of the rows of one file.

    header : names of the file's columns.
    missing : text that is a missing value, besides empty cells; it stays as it is in columns of text.
    """

    header: tuple[str, ...]
    dialect: Dialect
    missing: tuple[str, ...] = ()

    def parse(self, text: bytes, offset: int, names: Sequence[str], kinds: dict[str, Any]) -> Any:
        """Return columns of whole rows that begin at a byte of the file; ``kinds`` are the known types."""
        csv = pyarrow_package().csv
        wrong: list[Any] = []

        def note(row: object) -> str:
            wrong.append(row)
            return "error"

        convert = csv.ConvertOptions(
            include_columns=list(names), column_types=kinds, null_values=["", *self.missing]
        )
        parse = csv.ParseOptions(
            delimiter=self.dialect.sep, newlines_in_values=b'"' in text, invalid_row_handler=note
        )
        read = self.dialect.read_options(text, self.header)
        try:
            table = csv.read_csv(pyarrow_package().py_buffer(text), read, parse, convert)
        except ValueError:
            if not wrong:
                self.dialect.check_encoding(text, offset)
                raise
            raise self._ragged(wrong[0]) from None
        if any(pyarrow_package().types.is_binary(kind) for kind in table.schema.types):
            self.dialect.check_encoding(text, offset)
        # An empty cell of a text column is a missing value, not a class named "".
        return without_texts(table, ())

    def infer(
        self, block: tuple[int, bytes], names: Sequence[str], kinds: dict[str, Any], numeric: Collection[str]
    ) -> tuple[tuple[int, int], Any]:
        """Return the place of a block of rows and its columns in the types that its cells tell.

        A column with a code, such as 007, or of whole numbers too long for float64, is text, unless it is one
        of ``numeric``. None instead of columns if the block has no rows.
        """
        offset, text = block
        where = (offset, offset + len(text))
        if not text.strip(b"\r\n"):
            return where, None
        self.dialect.check_quotes(text)
        table = self.parse(text, offset, names, kinds)
        types = pyarrow_package().types
        suspects = [
            field.name
            for field in table.schema
            if field.name not in numeric and (types.is_integer(field.type) or types.is_floating(field.type))
        ]
        if not self._may_hold_codes(text):
            suspects = [name for name in suspects if _large(table.column(name))]
        if not suspects:
            return where, table
        as_text = self.parse(text, offset, suspects, dict.fromkeys(suspects, pyarrow_package().string()))
        compute = pyarrow_package().compute
        for name in suspects:
            zeros = compute.any(compute.match_substring_regex(as_text.column(name), _CODE)).as_py()
            if zeros or (_large(table.column(name)) and self._long_codes(as_text.column(name).to_pylist())):
                table = table.set_column(table.schema.get_field_index(name), name, as_text.column(name))
        return where, table

    def _long_codes(self, cells: Sequence[str | None]) -> bool:
        """Return whether cells are whole numbers, some of which float64 would round."""
        present = [cell for cell in cells if cell and cell.strip() not in self.missing]
        return all(re.fullmatch(r"\s*[+-]?\d+\s*", cell) for cell in present) and any(map(is_code, present))

    def _may_hold_codes(self, text: bytes) -> bool:
        """Return whether a 0 at the start of a cell, or after a sign or a space, is followed by a digit."""
        codes = np.frombuffer(text, np.uint8)
        zeros = np.flatnonzero(codes[:-1] == ord("0"))
        zeros = zeros[byte_mask(f'{self.dialect.sep}\r\n"+- ')[codes[zeros - 1]] | (zeros == 0)]
        return bool(byte_mask("0123456789")[codes[zeros + 1]].any())

    def _ragged(self, row: InvalidRow) -> UnreadableRow:
        sep = self.dialect.sep
        how = "" if sep == "," else f" (separated by {sep!r}; if that is wrong, pass sep=)"
        return UnreadableRow(
            (row.number or 1) - 1,
            f"it has {row.actual_columns} columns, but the first line names {row.expected_columns}: "
            f"{row.text[:60]!r}{how}. Correct or remove the line.",
        )


def _large(column: Column) -> bool:
    """Return whether a column of numbers holds one that 64-bit integers cannot hold."""
    pa = pyarrow_package()
    if not pa.types.is_floating(column.type):
        return False
    low, high = pa.compute.min_max(column).as_py().values()
    return low is not None and max(-low, high) >= _LARGE


def decimal_comma(column: Column) -> str | None:
    """Return a number with a comma if a text column holds such and whole numbers alone.

    One whose comma cannot group digits, if there is one. "" if it holds whole numbers alone, or nothing; None
    if it holds other cells.
    """
    types = pyarrow_package().types
    if str(column.type) not in TEXT:
        return "" if types.is_integer(column.type) or types.is_null(column.type) else None
    compute = pyarrow_package().compute
    present = column.drop_null()
    for some in (present.slice(0, 100), present):  # most columns of text show it in their first cells
        if compute.all(compute.match_substring_regex(some, _COMMA_NUMBER)).as_py() is False:
            return None
    commas = compute.drop_null(present.filter(compute.match_substring(present, ",")))
    clear = commas.filter(compute.invert(compute.match_substring_regex(commas, _GROUPED)))
    return next((str(some[0].as_py()) for some in (clear, commas) if len(some)), "")


def comma_advice(example: str) -> str:
    """Return how to write numbers such as the example: its comma may group digits, as in 10,896."""
    if re.fullmatch(_GROUPED, example) is None:
        return "Write them with a decimal point (in Python: pandas.read_csv(…, decimal=','))"
    whole = example.strip().replace(",", "")
    return (
        f"If the comma groups digits, write {whole} (in Python: pandas.read_csv(…, thousands=',')); if it is "
        f"a decimal comma, write a decimal point"
    )
