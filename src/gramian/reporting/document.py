"""An HTML document without external resources: tiles, sections, tables and pictures, light and dark."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gramian.plotting.canvas import Figure, pyplot, tidy
from gramian.summary.html import STYLE

PAGE_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1f2328;--card:#f6f8fa;--line:#d8dee4}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--ink:#e6e8eb;--card:#1d2127;--line:#343a43}\
figure div{filter:invert(.9) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1.5rem 1.25rem 3rem}
header{border-bottom:1px solid var(--line);margin-bottom:1.25rem;padding-bottom:.75rem}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:1.75rem 0 .6rem}
header p{margin:.2rem 0 0;opacity:.75}
.gramian-summary{font-size:14px;max-width:none;overflow-x:auto}
.tiles{display:flex;flex-wrap:wrap;gap:.75rem;margin:.5rem 0 1rem}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:9rem}
.tile b{display:block;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{font-size:.85rem;opacity:.75}
.sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(27rem,100%),1fr));gap:0 2rem}
.sides>div{min-width:0;overflow-x:auto}
.sides details td{overflow-wrap:break-word}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(25rem,100%),1fr));gap:1rem;\
align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;overflow:hidden}
figure div{background:#fff;padding:.6rem;text-align:center}
figure img{max-width:100%;height:auto;display:inline-block}
figcaption{padding:.6rem .9rem;font-size:.9rem;border-top:1px solid var(--line)}
figcaption b{display:block}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem;overflow-x:auto}
footer{margin-top:2rem;font-size:.85rem;opacity:.7}
"""


@dataclass(frozen=True)
class Picture:
    """An image as a ``data:`` address, with its caption, and a text for readers who cannot see it."""

    title: str
    caption: str
    address: str


@dataclass(frozen=True)
class Section:
    """A part of a document: a heading, HTML that is already escaped, pictures below it."""

    title: str
    html: str = ""
    pictures: Sequence[Picture] = ()


def document(
    name: str,
    title: str,
    subtitle: str,
    tiles: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    footer: str,
) -> str:
    """Return the document; ``name`` is that of the browser's tab, ``footer`` is HTML, all else text."""
    boxes = (
        f'<div class="tile"><b>{escape(text)}</b><span>{escape(label)}</span></div>' for label, text in tiles
    )
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}{PAGE_STYLE}</style></head><body><main>",
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>",
        f'<div class="tiles">{"".join(boxes)}</div>',
    ]
    for section in sections:
        if not (section.html or section.pictures):
            continue
        parts.append(f"<h2>{escape(section.title)}</h2>{section.html}")
        figures = (
            f'<figure><div><img src="{each.address}" alt="{escape(f"{each.title}. {each.caption}")}"></div>'
            f"<figcaption><b>{escape(each.title)}</b>{escape(each.caption)}</figcaption></figure>"
            for each in section.pictures
        )
        if section.pictures:
            parts.append(f'<div class="pictures">{"".join(figures)}</div>')
    parts.append(f"<footer>{footer}</footer></main></body></html>")
    return "\n".join(parts)


def wrapped(html: str, *classes: str) -> str:
    """Return HTML in the style of summaries."""
    return f'<div class="{" ".join(("gramian-summary", *classes))}">{html}</div>'


def paragraph(text: str) -> str:
    """Return plain text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """Return plain text as a block of code."""
    return f"<pre>{escape(text)}</pre>"


def axes(size: tuple[float, float] = (5.2, 3.2)) -> tuple[Any, Any]:
    """Return a new figure, unknown to windows and global state, and its axes."""
    figure = pyplot("gramian report").Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    tidy(ax)
    return figure, ax


def draw_svg(figure: Figure, title: str, caption: str) -> Picture:
    """Return the figure as SVG in a ``data:`` address."""
    out = io.BytesIO()
    plt = pyplot("gramian report")
    # A $ in names from the data must not start mathematics.
    with plt.rc_context({"svg.hashsalt": "gramian", "text.parse_math": False}):
        figure.savefig(out, format="svg", dpi=150, metadata={"Date": None}, facecolor="white")
    address = "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode("ascii")
    return Picture(title, caption, address)
