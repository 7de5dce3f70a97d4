"""Summary as a rich table. The only file outside the command line that imports rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gramian.exceptions import printable
from gramian.summary.value import Grid, Summary

#: Tables with at least this many columns have narrow cells. Chosen by hand.
WIDE = 7


def renderable(summary: Summary) -> RenderableType:
    """Return facts, warnings, tables and note, stacked for rich. No text is interpreted as markup."""
    parts: list[RenderableType] = [plain(summary.title, style="bold"), facts_table(summary.facts)]
    parts += [plain(f"Warning: {text}", style="yellow") for text in summary.warnings]
    for grid in summary.grids:
        parts += [Text(), plain(grid.title, style="bold"), table(grid)]
    if summary.note:
        parts += [Text(), plain(summary.note)]
    return Group(*parts)


def plain(text: str, style: str = "") -> Text:
    """Return a text for rich in which nothing is interpreted as markup or steers the terminal."""
    return Text(printable(text), style=style)


def table(grid: Grid) -> RenderableType:
    """Return a grid as a rich table with a heading row, followed by its note."""
    between = 2 if len(grid.columns) < WIDE else 1
    drawn = Table(box=None, padding=(0, between, 0, 0), header_style="dim")
    for k, name in enumerate(grid.columns):
        # The first column names the row and is cut if it does not fit; the others wrap.
        drawn.add_column(plain(name), overflow="fold" if k else "ellipsis", no_wrap=not k)
    for row in grid.rows:
        drawn.add_row(*map(plain, row))
    return Group(drawn, plain(grid.note, style="dim")) if grid.note else drawn


def facts_table(facts: Iterable[tuple[str, str]]) -> RenderableType:
    """Return pairs of a name and a text as a rich table without headings."""
    drawn = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    for name, text in facts:
        drawn.add_row(plain(name), plain(text))
    return drawn
