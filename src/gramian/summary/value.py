"""Summary as a plain value: its texts are made once, then written as HTML or shown in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from gramian.exceptions import printable

#: Largest number of characters of a text in a table; longer ones are cut with an ellipsis. Chosen by hand.
WIDTH = 160
#: A number with more than five decimals.
_LONG = re.compile(r"(?<![\w.])\d+\.\d{6,}(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Grid:
    """Table with a title, column names, rows of texts and a note.

    Raises ``ValueError`` if a row does not have one text per column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(
                f"A row of {self.title!r} has {len(wrong)} texts, but there are {len(self.columns)} columns."
            )


@dataclass(frozen=True)
class Summary:
    """Summary of an object: facts first, then warnings and tables.

    title : what the object is.
    facts : pairs of a name and a text.
    grids : tables, shown folded if the display supports it.
    warnings : facts that a user should know before trusting the object.
    note : a closing sentence.

    >>> print(Summary("MEKA", (("rank", "32"),), (Grid("phases", ("phase", "bytes"), (("sums", "1 MB"),)),)))
    MEKA
    rank  32
    <BLANKLINE>
    phases
    phase  bytes
    sums   1 MB
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    grids: tuple[Grid, ...] = ()
    warnings: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        parts = ["\n".join([self.title, *aligned(self.facts)])]
        parts += [f"Warning: {text}" for text in self.warnings]
        for grid in self.grids:
            tail = [grid.note] if grid.note else []
            parts.append("\n".join([grid.title, *aligned([grid.columns, *grid.rows]), *tail]))
        return printable("\n\n".join([*parts, self.note] if self.note else parts))


def spread_grid(title: str, first: str, sizes: Iterable[tuple[str, Sequence[int]]]) -> Grid:
    """Return a table of size statistics: per name the count, minimum, median, maximum and sum.

    >>> spread_grid("Ranks", "level", [("leaves", [8, 8, 2])]).rows
    (('leaves', '3', '2', '8', '8', '18'),)
    """
    rows = []
    for name, each in sizes:
        spread = (min(each), median(each), max(each)) if len(each) else (0, 0, 0)
        texts = [f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in spread]
        rows.append((name, f"{len(each):,}", *texts, f"{sum(each):,}"))
    return Grid(title, (first, "blocks", "least", "median", "largest", "together"), tuple(rows))


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a line for each row of texts, with the columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths)).rstrip() for row in rows]


def round_decimals(text: str) -> str:
    """Return a text with its long decimals rounded to five digits.

    >>> round_decimals("Gaussian(lengthscale=1.2247448713915892, p=2.5)")
    'Gaussian(lengthscale=1.2247, p=2.5)'
    """
    return _LONG.sub(lambda found: f"{float(found[0]):.5g}", text)


def short(text: object, width: int = WIDTH) -> str:
    """Return a text on one line, cut if it is longer than ``width``.

    >>> short("a  kernel with a long name", 15)
    'a kernel with…'
    """
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
