"""CSV files as rows: blocks of whole lines, found by one scan at opening."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramian.data.arrow import is_number, pyarrow_package, select
from gramian.data.file_options import FileOptions
from gramian.data.formats.columnar import ColumnarStorage, same_columns
from gramian.data.formats.csv_dialect import SEPARATORS, Dialect, detect
from gramian.data.formats.csv_parser import CSVParser, comma_advice, decimal_comma
from gramian.data.formats.text import TextReader, text_blocks
from gramian.data.storage import Piece, UnreadableRow, explain_errors, no_rows
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean, listed, user_level

if TYPE_CHECKING:
    from gramian.data.arrow import DataType, Table

#: Threads that parse a file at opening; each holds one or two blocks of lines and their numbers.
#: Chosen by hand.
PARSERS = 4


class CSVStorage(ColumnarStorage):
    """Files of separated columns whose first line holds the column names, ``.gz`` or not.

    Opening parses each file once, on a few threads, to find the number of rows, each column's type over all
    files, and the positions of the blocks of lines. Reading parses one block, rows and targets together. If
    the blocks parsed at opening take at most ``choice.keep_bytes``, they are kept and each is returned once
    without parsing. Integers are int64, all other numbers float64; codes with leading zeros are text.
    """

    together = True

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        super().__init__(paths)
        self.pieces: list[Piece] = []
        self._reader = TextReader()
        self._parsers: list[CSVParser] = []
        self._types: dict[str, Any] = {}
        self._parsed: dict[Piece, Any] = {}
        #: Of each column: a number with a decimal comma, "" if there is none, None if other cells are there.
        self._commas: dict[str, str | None] = {}
        self._keep_bytes = choice.keep_bytes
        used: list[str] | None = None
        for number in range(len(paths)):
            with explain_errors(self.names[number], 0):
                used = self._find_pieces(number, choice, used)
        assert used is not None, "there is at least one file"
        sep = self._parsers[0].dialect.sep
        self.read_as = "" if sep == "," else f"columns separated by {SEPARATORS.get(sep, repr(sep))}"
        self._tell_decimal_commas(choice)
        # A block of lines, its copy in UTF-8, and Arrow's cells and columns of it.
        self.buffer_bytes = 4 * max((end - start for start, end in (p.where for p in self.pieces)), default=0)
        schema = pyarrow_package().schema([(name, self._types[name]) for name in used])
        self.plan(schema, replace(self.choice, drop=()))  # the schema has none of them
        self.find_left_out(self._parsers[0].header)

    def _find_pieces(self, number: int, choice: FileOptions, used: list[str] | None) -> list[str]:
        """Parse a file block by block to find its pieces and the types of its columns so far."""
        name, first = self.names[number], 0
        dialect = detect(name, choice.sep, choice.encoding)
        blocks = text_blocks(name, dialect.whole_rows, skip=dialect.skip)
        start, text = next(blocks, (dialect.skip, b""))
        skip = dialect.first_row(text)
        header = _header(name, text[:skip], dialect)
        self._parsers.append(parser := CSVParser(header, dialect, choice.missing))
        pa = pyarrow_package()
        if used is None:
            stored = pa.schema([(column, pa.null()) for column in header])
            self.choice = choice = choice.for_columns(header)
            features = select(name, stored, choice.target, choice.columns, choice.drop)
            used = [*features, *choice.targets]
        else:
            self._same_header(number, used, every=choice.columns is None)
        absent = next((column for column in choice.text if column not in (*header, choice.target_like)), None)
        if absent is not None:
            raise InputError(
                f"{name} has no column {absent!r} to read as text.{did_you_mean(absent, header)} Its columns"
                f" are: {listed(header)}."
            )
        # Columns with known categories are text, even if all values in a file look like numbers.
        known = dict.fromkeys((*(choice.categories or ()), *choice.text), pa.string())
        infer = partial(parser.infer, names=used, kinds=known, numeric=choice.numeric)
        engine = Engine(min(PARSERS, Engine().n_threads))
        with engine.results(infer, chain([(start + skip, text[skip:])], blocks)) as tables:
            while True:
                with explain_errors(name, first):
                    block = next(tables, None)
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

    def _learn(self, piece: Piece, table: Table) -> None:
        """Widen the columns' types to hold those of a block; keep the block if there is room for all."""
        for field in table.schema:
            known = self._types.get(field.name)
            self._types[field.name] = kind = _unify_types(known, field.type)
            if (comma := self._commas.get(field.name, "")) is not None:
                decimal = decimal_comma(table.column(field.name))
                self._commas[field.name] = None if decimal is None else comma or decimal
            # A column that turns out to be text must be read again, since numbers lose their spelling.
            if pyarrow_package().types.is_string(kind) and not _is_text(known, field.type):
                self._keep_bytes = 0.0
        self._keep_bytes -= table.nbytes
        if self._keep_bytes >= 0:
            self._parsed[piece] = table
        else:
            self._parsed.clear()

    def _tell_decimal_commas(self, choice: FileOptions) -> None:
        """Warn about columns of numbers with a decimal comma, which are text; raise if one is the target."""
        for column, example in self._commas.items():
            if not example or column in choice.text:
                continue
            said = (
                f"Column {column!r} of {self.names[0]} holds numbers with a comma, such as {example!r}, read "
                f"as text. {comma_advice(example)}"
            )
            if column in self.choice.targets:
                raise InputError(f"{said}.")
            warnings.warn(
                f"{said}, or name the column as text (on the command line --text).",
                UserWarning,
                stacklevel=user_level(),
            )

    def settings(self) -> dict[str, Any]:
        """Return the columns, the categories, the text that is missing, and the columns of text."""
        return {**super().settings(), "text": self.choice.text}

    def _same_header(self, number: int, used: list[str], *, every: bool) -> None:
        pa = pyarrow_package()
        first, other = (
            pa.schema([(column, pa.null()) for column in self._parsers[k].header]) for k in (0, number)
        )
        select(self.names[number], other, None, None if every else used, self.choice.drop)
        same_columns(first, other, used, self.names[0], self.names[number])
        if every:
            same_columns(other, first, other.names, self.names[number], self.names[0])

    def table(self, piece: Piece, names: Sequence[str], lane: str) -> Any:
        """Parse columns of a block of lines, or return what opening has parsed."""
        parsed = self._parsed.pop(piece, None)
        if parsed is not None:
            schema = pyarrow_package().schema([(name, self._types[name]) for name in names])
            columns = parsed.select(list(names))
            return columns if columns.schema.equals(schema) else columns.cast(schema, safe=False)
        text = self._reader.read(self.names[piece.file], *piece.where)
        kinds = {name: self._types[name] for name in names}
        return self._parsers[piece.file].parse(text, piece.where[0], names, kinds)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "_parsed": {}}


def _header(name: str, line: bytes, dialect: Dialect) -> tuple[str, ...]:
    """Return the names in the first row of a file."""
    pa = pyarrow_package()
    try:
        dialect.check_quotes(line)
        dialect.check_encoding(line, dialect.skip)
    except UnreadableRow as error:
        raise InputError(f"The first line of {name}: {error.reason}") from None
    if not line.strip(b"\r\n"):
        raise no_rows([name])
    parse = pa.csv.ParseOptions(delimiter=dialect.sep, newlines_in_values=True)
    with explain_errors(name, 0):
        names = list(pa.csv.read_csv(pa.py_buffer(line), dialect.read_options(line), parse).schema.names)
    # Plain integers are names that pandas gives.
    if all(map(is_number, names)) and not all(each.strip().isdigit() for each in names):
        raise InputError(
            f"The first line of {name} holds numbers ({listed(names)}) where the names of the columns were "
            "expected. Put a line of names first."
        )
    return tuple(names)


def _unify_types(known: DataType | None, new: DataType) -> Any:
    """Return a type for the values of two blocks of a column; text if no other type holds both."""
    pa = pyarrow_package()
    if known is None or pa.types.is_null(known) or known == new:
        return new
    if pa.types.is_null(new):
        return known
    for wider in ((pa.int64(), pa.float64()), (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))):
        if known in wider and new in wider:
            return max(known, new, key=wider.index)
    return pa.string()


def _is_text(*kinds: DataType | None) -> bool:
    types = pyarrow_package().types
    return all(kind is None or types.is_null(kind) or types.is_string(kind) for kind in kinds)
