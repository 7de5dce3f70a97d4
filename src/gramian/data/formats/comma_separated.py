"""CSV files as rows: blocks of whole lines, found by one scan at opening."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from gramian.data.arrow import check_header, pyarrow_package, select
from gramian.data.choice import Choice
from gramian.data.formats.columnar import ColumnarStorage, same_columns
from gramian.data.formats.text import TextReader, first_line_end, text_blocks
from gramian.data.pieces import Piece, UnreadableRow, explained
from gramian.data.stored_file import StoredFile
from gramian.engine import Engine

#: Threads that parse a file at opening; each holds one or two blocks of lines and their numbers.
#: Chosen by hand.
PARSERS = 4


class CSVStorage(ColumnarStorage):
    """Comma-separated files whose first line holds the column names, ``.gz`` or not.

    Opening parses each file once, on a few threads, to find the number of rows, each column's type over all
    files, and the positions of the blocks of lines. Reading parses one block, rows and targets together. If
    the blocks parsed at opening take at most ``choice.keep_bytes``, they are kept and each is returned once
    without parsing. Integers are int64, all other numbers float64.
    """

    together = True

    def __init__(self, paths: Sequence[Path], choice: Choice) -> None:
        self.names = [str(path) for path in paths]
        self.files = [StoredFile.at(path) for path in paths]
        self.pieces: list[Piece] = []
        self._reader = TextReader()
        self._headers: list[list[str]] = []
        self._types: dict[str, Any] = {}
        self._parsed: dict[Piece, Any] = {}
        self._keep_bytes = choice.keep_bytes
        used: list[str] | None = None
        for number in range(len(paths)):
            with explained(self.names[number], 0):
                used = self._find_pieces(number, choice, used)
        assert used is not None, "there is at least one file"
        schema = pyarrow_package().schema([(name, self._types[name]) for name in used])
        self.plan(schema, self.choice)
        self.find_left_out(self._headers[0])

    def _find_pieces(self, number: int, choice: Choice, used: list[str] | None) -> list[str]:
        """Parse a file block by block to find its pieces and the types of its columns so far."""
        name, first = self.names[number], 0
        blocks = text_blocks(name, quoted=True)
        start, text = next(blocks)
        skip = first_line_end(text)
        self._headers.append(header := _header(name, text[:skip]))
        pa = pyarrow_package()
        if used is None:
            stored = pa.schema([(column, pa.null()) for column in header])
            self.choice = choice = choice.for_columns(header)
            used = [*select(name, stored, choice.target, choice.columns), *choice.targets]
        else:
            self._same_header(number, used, every=choice.columns is None)
        # Columns with known categories are text, even if all values in a file look like numbers.
        known = dict.fromkeys((*(choice.categories or ()), *choice.text), pa.string())
        parse = partial(_parsed, header=header, names=used, kinds=known)
        engine = Engine(min(PARSERS, Engine().n_threads))
        with engine.results(parse, chain([(start + skip, text[skip:])], blocks)) as found:
            while True:
                with explained(name, first):
                    block = next(found, None)
                if block is None:
                    break
                where, table = block
                if table is not None:
                    piece = Piece(number, first, table.num_rows, where)
                    self.pieces.append(piece)
                    first += table.num_rows
                    self._learn(piece, table)
        for column in used:
            self._types.setdefault(column, pa.null())
        return used

    def _learn(self, piece: Piece, table: Any) -> None:
        """Widen the columns' types to hold those of a block; keep the block if there is room for all."""
        for field in table.schema:
            known = self._types.get(field.name)
            self._types[field.name] = kind = _unified(known, field.type)
            # A column that turns out to be text must be read again, since numbers lose their spelling.
            if pyarrow_package().types.is_string(kind) and not _is_text(known, field.type):
                self._keep_bytes = 0.0
        self._keep_bytes -= table.nbytes
        if self._keep_bytes >= 0:
            self._parsed[piece] = table
        else:
            self._parsed.clear()

    def _same_header(self, number: int, used: list[str], *, every: bool) -> None:
        pa = pyarrow_package()
        first, other = (pa.schema([(column, pa.null()) for column in self._headers[k]]) for k in (0, number))
        select(self.names[number], other, None, None if every else used)
        same_columns(first, other, used, self.names[0], self.names[number])
        if every:
            same_columns(other, first, other.names, self.names[number], self.names[0])

    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Parse columns of a block of lines, or return what opening has parsed."""
        parsed = self._parsed.pop(piece, None)
        if parsed is not None:
            schema = pyarrow_package().schema([(name, self._types[name]) for name in names])
            found = parsed.select(list(names))
            return found if found.schema.equals(schema) else found.cast(schema, safe=False)
        text = self._reader.read(self.names[piece.file], *piece.where)
        kinds = {name: self._types[name] for name in names}
        return _parse(text, self._headers[piece.file], names, kinds)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parsed": {}}


def _parsed(
    block: tuple[int, bytes], header: Sequence[str], names: Sequence[str], kinds: dict[str, Any]
) -> tuple[tuple[int, int], Any]:
    """Parse a block of lines; return its piece and its columns (None if it has no rows)."""
    start, text = block
    where = (start, start + len(text))
    return where, _parse(text, header, names, kinds) if text.strip() else None


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
            # One thread: reading ahead has a thread already, and Arrow numbers the rows only then.
            csv.ReadOptions(use_threads=False, column_names=list(header), block_size=len(text) + 1),
            csv.ParseOptions(newlines_in_values=b'"' in text, invalid_row_handler=note),
            # An empty cell of a text column is a missing value, not a class named "".
            csv.ConvertOptions(include_columns=list(names), column_types=kinds, strings_can_be_null=True),
        )
    except ValueError:
        if not wrong:
            raise
        row = wrong[0]
        raise UnreadableRow(
            (row.number or 1) - 1,
            f"it has {row.actual_columns} columns, but the first line names {row.expected_columns}: "
            f"{row.text[:60]!r}. Correct or remove the line.",
        ) from None


def _unified(known: Any, found: Any) -> Any:
    """Return a type for the values of two blocks of a column; text if no other type holds both."""
    pa = pyarrow_package()
    if known is None or pa.types.is_null(known) or known == found:
        return found
    if pa.types.is_null(found):
        return known
    for wider in ((pa.int64(), pa.float64()), (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))):
        if known in wider and found in wider:
            return max(known, found, key=wider.index)
    return pa.string()


def _is_text(*kinds: Any) -> bool:
    types = pyarrow_package().types
    return all(kind is None or types.is_null(kind) or types.is_string(kind) for kind in kinds)
