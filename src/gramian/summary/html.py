"""Summary as HTML: self-contained, with all text escaped; base of objects that show theirs in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from gramian.summary.value import Grid, Summary

#: Text has the page's colour and lines are translucent, so that the page may be light or dark.
STYLE = """
.gramian-summary{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;color:inherit;\
margin:.5em 0;max-width:64em}
.gramian-summary .gm-title{font-weight:600;font-size:1.1em;margin:0 0 .3em}
.gramian-summary table{border-collapse:collapse;margin:0 0 .4em;color:inherit;background:none;\
font-size:inherit}
.gramian-summary th,.gramian-summary td{text-align:left;vertical-align:top;padding:.15em .9em .15em 0;\
border:0;border-bottom:1px solid rgba(128,128,128,.28);background:none;color:inherit;\
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.gramian-summary th{font-weight:500;opacity:.72;white-space:nowrap}
.gramian-summary details{margin:.15em 0}
.gramian-summary summary{cursor:pointer;padding:.15em 0}
.gramian-summary details table{margin-left:1.1em}
.gramian-summary .gm-warning{border-left:3px solid #d9822b;background:rgba(217,130,43,.14);\
padding:.25em .7em;margin:.35em 0}
.gramian-summary .gm-note{margin:.3em 0;opacity:.85}
"""


def fragment(summary: Summary) -> str:
    """Return a ``<div>`` with its own style, for a notebook cell."""
    return f'<div class="gramian-summary"><style>{STYLE}</style>{body(summary)}</div>'


def body(summary: Summary) -> str:
    """Return title, facts, warnings, foldable tables and note as HTML."""
    note = f'<div class="gm-note">{escape(summary.note)}</div>' if summary.note else ""
    title = f'<div class="gm-title">{escape(summary.title)}</div>'
    return title + facts_html(summary) + tables_html(summary.grids) + note


def facts_html(summary: Summary) -> str:
    """Return facts and warnings as HTML."""
    warnings = (f'<div class="gm-warning">{escape(text)}</div>' for text in summary.warnings)
    return facts_table(summary.facts) + "".join(warnings)


def tables_html(grids: Sequence[Grid], *, opened: int = 0) -> str:
    """Return foldable tables, of which the first ``opened`` are unfolded."""
    parts = []
    for k, grid in enumerate(grids):
        state = " open" if k < opened else ""
        parts.append(f"<details{state}><summary>{escape(grid.title)}</summary>{grid_table(grid)}</details>")
    return "".join(parts)


def facts_table(facts: Sequence[tuple[str, str]]) -> str:
    """Return pairs as a table whose first column holds row headings."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in facts
    )
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""


def grid_table(grid: Grid) -> str:
    """Return a grid as a table with a heading row, followed by its note."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in grid.rows
    )
    note = f'<div class="gm-note">{escape(grid.note)}</div>' if grid.note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


class Shown:
    """Base of objects that display their :meth:`summary`: as HTML in a notebook, as a table in rich.

    ``print`` and ``repr`` are left to the object. rich calls ``__rich__``, so only then is it imported.
    """

    def summary(self) -> Summary:
        """Return a summary of the object."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return fragment(self.summary())

    def __rich__(self) -> Any:
        # Imported here: rich is an optional package, and only rich calls this method.
        from gramian.summary.terminal import renderable

        return renderable(self.summary())
