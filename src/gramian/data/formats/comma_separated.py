"""CSV files as rows: blocks of whole lines, found by one scan at opening."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gramian.data.arrow import check_header, pyarrow_package, select
from gramian.data.choice import Choice
from gramian.data.formats.columnar import ColumnarStorage, same_columns
from gramian.data.formats.text import TextReader, first_line_end, text_blocks
from gramian.data.pieces import Piece, UnreadableRow, explained
from gramian.data.stored_file import StoredFile


class CSVStorage(ColumnarStorage):
    """Comma-separated files with a line of names first, ``.gz`` or not.

    Opening parses each file once: how many rows there are, each column's type over all files, and where
    the blocks of lines are. Reading parses one block's bytes, rows and targets together. Integers are
    int64, all else float64.
    """

    together = True

    def __init__(self, paths: Sequence[Path], choice: Choice) -> None:
        self.names = [str(path) for path in paths]
        self.files = [StoredFile.at(path) for path in paths]
        self.pieces: list[Piece] = []
        self._reader = TextReader()
        self._headers: list[list[str]] = []
        self._types: dict[str, Any] = {}
        used: list[str] | None = None
        for number in range(len(paths)):
            with explained(self.names[number], 0):
                used = self._find_pieces(number, choice, used)
        assert used is not None, "there is at least one file"
        schema = pyarrow_package().schema([(name, self._types[name]) for name in used])
        self.plan(schema, self.choice)

    def _find_pieces(self, number: int, choice: Choice, used: list[str] | None) -> list[str]:
        """Parse a file block by block: its pieces, and what its columns' types are so far."""
        name, first = self.names[number], 0
        # Categories that are known are text, even where all of a file look like numbers.
        known = {column: pyarrow_package().string() for column in choice.categories or ()}
        for start, text in text_blocks(name, quoted=True):
            if start == 0:
                skip = first_line_end(text)
                self._headers.append(header := _header(name, text[:skip]))
                if used is None:
                    pa = pyarrow_package()
                    stored = pa.schema([(column, pa.null()) for column in header])
                    self.choice = choice = choice.for_columns(header)
                    used = [*select(name, stored, choice.target, choice.columns), *choice.targets]
                else:
                    self._same_header(number, used, every=choice.columns is None)
                start, text = skip, text[skip:]
            assert used is not None, "a file has a first block"
            if not text.strip():
                continue
            with explained(name, first):
                table = _parse(text, self._headers[number], used, known)
            for field in table.schema:
                self._types[field.name] = _unified(self._types.get(field.name), field.type)
            self.pieces.append(Piece(number, first, table.num_rows, (start, start + len(text))))
            first += table.num_rows
        assert used is not None, "StoredFile.at has refused an empty file"
        for column in used:
            self._types.setdefault(column, pyarrow_package().null())
        return used

    def _same_header(self, number: int, used: list[str], *, every: bool) -> None:
        pa = pyarrow_package()
        first, other = (pa.schema([(column, pa.null()) for column in self._headers[k]]) for k in (0, number))
        select(self.names[number], other, None, None if every else used)
        same_columns(first, other, used, self.names[0], self.names[number])
        if every:
            same_columns(other, first, other.names, self.names[number], self.names[0])

    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Parse columns of a block of lines."""
        text = self._reader.read(self.names[piece.file], *piece.where)
        kinds = {name: self._types[name] for name in names}
        return _parse(text, self._headers[piece.file], names, kinds)


def _header(name: str, line: bytes) -> list[str]:
    pa = pyarrow_package()
    with explained(name, 0):
        names = list(pa.csv.read_csv(pa.py_buffer(line)).schema.names)
    check_header(name, names)
    return names


def _parse(text: bytes, header: Sequence[str], names: Sequence[str], kinds: dict[str, Any]) -> Any:
    csv = pyarrow_package().csv
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        return csv.read_csv(
            pyarrow_package().py_buffer(text),
            # One thread: what reads ahead is a thread already, and only then are rows numbered.
            csv.ReadOptions(use_threads=False, column_names=list(header), block_size=len(text) + 1),
            csv.ParseOptions(newlines_in_values=b'"' in text, invalid_row_handler=note),
            # An empty cell of a text column is missing too, not a class named "".
            csv.ConvertOptions(include_columns=list(names), column_types=kinds, strings_can_be_null=True),
        )
    except ValueError:
        if not wrong:
            raise
        row = wrong[0]
        raise UnreadableRow(
            (row.number or 1) - 1,
            f"it has {row.actual_columns} columns, but the first line names {row.expected_columns}: "
            f"{row.text[:60]!r}. Mend or remove the line.",
        ) from None


def _unified(known: Any, found: Any) -> Any:
    """Return a type for the values of two blocks of a column; text where nothing else holds both."""
    types = pyarrow_package().types
    if known is None or types.is_null(known) or known == found:
        return found
    if types.is_null(found):
        return known
    pa = pyarrow_package()
    numbers = (pa.int64(), pa.float64())
    return pa.float64() if known in numbers and found in numbers else pa.string()
