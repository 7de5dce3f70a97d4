"""Dialect of a CSV file: the character between columns, the encoding, and where its rows end."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gramian._typing import Array, IntArray
from gramian.data.arrow import pyarrow_package
from gramian.data.formats.text import open_text
from gramian.data.storage import UnreadableRow
from gramian.exceptions import InputError, did_you_mean, quoted

#: Characters that are tried between columns, and what messages call them.
SEPARATORS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
#: Bytes and lines at the start of a file that tell what stands between its columns. Chosen by hand.
SNIFFED_BYTES, SNIFFED_LINES = 1 << 16, 20
#: Largest number of bytes of a row. A quote that is never closed makes the rest of a file one cell.
#: Chosen by hand.
LONGEST_ROW = 1 << 26
UTF8 = "utf-8"
#: Marks at the start of files, longest first: UTF-32 begins as UTF-16 does.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_QUOTE, _LF, _CR = ord('"'), ord("\n"), ord("\r")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the bytes of a file become rows and cells.

    sep : character between columns.
    encoding : of the text; ASCII characters are the same bytes in it.
    skip : bytes of a mark at the start of the file.
    """

    sep: str
    encoding: str
    skip: int = 0

    def row_ends(self, text: bytes) -> IntArray:
        """Return the positions at which rows end: the last byte of each line break outside quotes.

        A quote opens a cell only as its first character, as in Python's ``csv`` and in Arrow; within a quoted
        cell two quotes are one character. Elsewhere a quote is a character like any other.
        """
        codes = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(_line_breaks(codes))
        opened, closed = self._quoted_cells(text, codes)
        return ends[np.searchsorted(opened, ends) == np.searchsorted(closed, ends)]

    def whole_rows(self, text: bytes) -> int:
        """Return the number of bytes that the whole rows at the start of ``text`` take.

        A text that is too long for one row is returned as it is: :meth:`check_quotes` says what is wrong.
        """
        last = text.rfind(b"\n")
        if last >= 0 and b'"' not in text:
            return last + 1
        ends = self.row_ends(text)
        if not len(ends):
            return len(text) if len(text) > LONGEST_ROW else 0
        return int(ends[-1]) + 1

    def first_row(self, text: bytes) -> int:
        """Return the number of bytes of the first row that is not blank, with its end."""
        start = 0
        while text[start : start + 1] in (b"\n", b"\r"):
            start += 1
        ends = self.row_ends(text[start:])
        return start + int(ends[0]) + 1 if len(ends) else len(text)

    def n_rows(self, text: bytes) -> int:
        """Return the number of rows that begin in a text and end in it; blank lines are none."""
        ends = self.row_ends(text)
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        return sum(bool(text[a : b + 1].strip(b"\r\n")) for a, b in zip(starts.tolist(), ends.tolist()))

    def check_quotes(self, text: bytes) -> None:
        """Raise ``UnreadableRow`` if a quote swallows rows.

        That is a quoted cell that does not end, or one that takes several lines and is followed by more
        text, so that its last quote was not meant to end it.
        """
        if b'"' not in text:
            return
        codes = np.frombuffer(text, np.uint8)
        opened, closed = self._quoted_cells(text, codes)
        after = codes[np.minimum(closed + 1, len(codes) - 1)]
        doubtful = ~byte_mask(f'{self.sep}"\r\n')[after] | (closed == len(codes))
        opened, closed = opened[doubtful], closed[doubtful]
        if not len(opened):
            return
        breaks = np.flatnonzero(_line_breaks(codes))
        lines = np.searchsorted(breaks, closed) - np.searchsorted(breaks, opened)
        wrong = np.flatnonzero((closed == len(codes)) | ((lines > 0) & (closed < len(codes) - 1)))
        if len(wrong):
            k = int(wrong[0])
            what = (
                "never ends" if closed[k] == len(codes) else f"ends {lines[k]} lines below, amid other text"
            )
            shown = text[opened[k] :][:60].decode(UTF8, "replace")
            raise UnreadableRow(
                self.n_rows(text[: opened[k]]),
                f"a cell that begins with a quote {what}: {shown!r}. If the quote is part of the value, "
                "double it and put the whole value in quotes.",
            )

    def _quoted_cells(self, text: bytes, codes: Array) -> tuple[IntArray, IntArray]:
        """Return the positions of the quotes that open cells and of those that close them.

        A cell that is not closed ends with the text. One with doubled quotes may be returned in parts.
        """
        quotes = np.flatnonzero(codes == _QUOTE)
        if not len(quotes):
            return quotes, quotes
        # A quote may open a cell at its start.
        starts = byte_mask(f"{self.sep}\r\n")
        opened, closed = quotes[::2], quotes[1::2]
        may_open = starts[codes[opened - 1]]
        may_open[0] |= opened[0] == 0
        # As the second one of a doubled quote, which closes the cell and opens it again, it may open too.
        may_open[1:] |= opened[1:] == closed[: len(opened) - 1] + 1
        if may_open.all():  # no quote is a plain character, and every other one opens
            return opened, closed if len(closed) == len(opened) else np.append(closed, len(text))
        # From a quote that no character of a cell comes before, up to one that is not doubled, or to the end.
        quoted = rb'(?<![^\r\n%s])"[^"]*+(?:""[^"]*+)*+("|\Z)' % re.escape(self.sep.encode())
        places = np.array([(cell.start(), cell.start(1)) for cell in re.finditer(quoted, text)], np.intp)
        return places.reshape(-1, 2)[:, 0], places.reshape(-1, 2)[:, 1]

    def read_options(self, text: bytes, names: Sequence[str] | None = None) -> Any:
        """Return Arrow's options to read a text as one block, whose UTF-8 takes up to three times the bytes.

        ``names`` are those of the columns; None: they are in the first row.
        """
        size = len(text) * (1 if self.encoding == UTF8 else 3) + 1
        # One thread: reading ahead has a thread already, and Arrow numbers the rows only then.
        return pyarrow_package().csv.ReadOptions(
            use_threads=False, column_names=names, encoding=self.encoding, block_size=size
        )

    def check_encoding(self, text: bytes, offset: int) -> None:
        """Raise ``UnreadableRow`` with the place of the first bytes that are not in the encoding."""
        try:
            text.decode(self.encoding)
            return
        except UnicodeDecodeError as error:
            start, stop = error.start, error.end
        wrong = " ".join(f"0x{byte:02x}" for byte in text[start:stop])
        cure = "Pass the encoding in which the file was written"
        if self.encoding == UTF8:
            cell = _cell_around(text, start, self.sep)
            other = _likely(cell)
            cure = f"Pass its encoding, such as {other!r}, in which the cell is {quoted(cell.decode(other))}"
        raise UnreadableRow(
            self.n_rows(text[:start]),
            f"byte {offset + start} of the file ({wrong}) is not {self.encoding.upper()}. {cure} "
            "(encoding=, on the command line --encoding), or store the file as UTF-8.",
        )


def _likely(cell: bytes) -> str:
    """Return the likely encoding of Western European text: Latin-1 has no letters from 0x80 to 0x9f."""
    if any(0x80 <= byte < 0xA0 for byte in cell):
        try:
            cell.decode("cp1252")
        except UnicodeDecodeError:
            return "latin-1"
        return "cp1252"
    return "latin-1"


def _cell_around(text: bytes, place: int, sep: str) -> bytes:
    """Return the cell around a byte, or a part of a long one."""
    ends = (sep.encode(), b"\n", b"\r", b'"')
    start = max(place - 30, *(text.rfind(end, 0, place) + 1 for end in ends))
    stop = min(place + 30, *(at for end in ends if (at := text.find(end, place)) >= 0), len(text))
    return text[start:stop]


def byte_mask(characters: str) -> Array:
    """Return for each byte whether it is one of these characters."""
    mask = np.zeros(256, bool)
    mask[[*map(ord, characters)]] = True
    return mask


def _line_breaks(codes: Array) -> Array:
    r"""Return which bytes end lines: \n, and \r without \n; the last byte may be half of \r\n."""
    breaks = codes == _LF
    returns = np.flatnonzero(codes[:-1] == _CR)
    breaks[returns[codes[returns + 1] != _LF]] = True
    return breaks


# ---- detection ---------------------------------------------------------------------------------


def detect(path: str, sep: str | None, encoding: str | None) -> Dialect:
    """Return the dialect of a file from its first lines; ``sep`` and ``encoding`` are the user's, or None.

    Raises ``InputError`` if the first lines fit two separators, or are UTF-16.
    """
    sep = checked_separator(sep)
    encoding = checked_encoding(encoding)
    with open_text(path) as file:
        sample = file.read(SNIFFED_BYTES)
    wide = next((name for mark, name in _MARKS.items() if sample.startswith(mark)), None)
    if wide is None and 0 in sample[:2]:
        wide = "utf-16"
    if wide is not None:
        raise InputError(
            f"{path} is {wide.upper()}, whose blocks of lines cannot be told apart. Store it as UTF-8, for "
            f"example by Path(new).write_text(Path(old).read_text({wide!r}), 'utf-8')."
        )
    skip = len(codecs.BOM_UTF8) if sample.startswith(codecs.BOM_UTF8) else 0
    codec = encoding or UTF8
    if sep is None:
        whole = len(sample) < SNIFFED_BYTES
        tabs = Path(path).name.lower().removesuffix(".gz").endswith(".tsv")
        sep = "\t" if tabs else _separator(path, sample[skip:].decode(codec, "replace"), whole=whole)
    return Dialect(sep, codec, skip)


def checked_separator(sep: str | None) -> str | None:
    r"""Return the character between columns; ``\t`` may be written as two characters.

    >>> checked_separator("\\t")
    '\t'
    """
    if sep is None:
        return None
    char = {"\\t": "\t"}.get(sep, sep) if isinstance(sep, str) else sep
    if not isinstance(char, str) or len(char) != 1 or not char.isascii() or char in '"\r\n\0':
        raise InputError(
            f"sep={quoted(sep)} does not separate columns. Pass one ASCII character, such as ';' or '\\t'."
        )
    return char


def checked_encoding(encoding: str | None) -> str | None:
    """Return the name of an encoding in which ASCII characters are single bytes, as in Python.

    >>> checked_encoding("Latin-1"), checked_encoding("UTF-8")
    ('iso8859-1', 'utf-8')
    """
    if encoding is None:
        return None
    known = ("utf-8", "latin-1", "cp1252", "iso8859-15", "cp1250", "cp1251", "gbk", "shift_jis", "big5")
    try:
        name = codecs.lookup(encoding).name
        ascii_only = "".join(map(chr, range(128)))
        plain = ascii_only.encode(name) == ascii_only.encode("ascii") and not name.startswith("iso2022")
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"encoding={quoted(encoding)} is unknown.{did_you_mean(encoding, known)} Pass a name that Python "
            "knows, such as 'latin-1' or 'cp1252'."
        ) from None
    if not plain:
        raise InputError(
            f"encoding={encoding!r} does not store ASCII characters as single bytes. Store the file as UTF-8."
        )
    return UTF8 if name in ("utf-8-sig", "ascii") else name


def _separator(path: str, sample: str, *, whole: bool) -> str:
    """Return the separator that gives the first lines one number of columns; a comma if none does."""
    counts = {sep: _columns(sample, sep, whole=whole) for sep in SEPARATORS}
    even = {sep: n[0] for sep, n in counts.items() if n and n[0] > 1 and len(set(n)) == 1}
    if len(even) > 1:
        seps = " or ".join(f"{SEPARATORS[sep]} ({n} columns)" for sep, n in even.items())
        raise InputError(
            f"The columns of {path} may be separated by {seps}. Say which (sep=, on the command line --sep)."
        )
    if even:
        return next(iter(even))
    # Ragged rows are reported later, by their numbers; the first line tells most about the separator.
    heads = {sep: n[0] for sep, n in counts.items() if n and n[0] > 1}
    return "," if "," in heads or not heads else max(heads, key=lambda sep: heads[sep])


def _columns(sample: str, sep: str, *, whole: bool) -> list[int]:
    """Return the number of columns of the first rows; the last one may be cut off unless all is there."""
    try:
        lines = csv.reader(io.StringIO(sample, newline=""), delimiter=sep)
        counts = [len(row) for row in islice(lines, SNIFFED_LINES + 1) if row]
    except csv.Error:  # a cell of more than 128 kB
        return []
    return counts if whole or len(counts) == 1 else counts[:-1]
