"""Conversion of figures to images that are embedded in an HTML page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gramian.plotting.canvas import pyplot, tidy

if TYPE_CHECKING:
    from gramian.plotting.canvas import Figure

SIZE = (5.2, 3.2)


@dataclass(frozen=True)
class Picture:
    """An image as a ``data:`` address, with its caption, and a text for readers who cannot see it."""

    title: str
    caption: str
    address: str


def check_drawing() -> None:
    """Raise ``MissingPackageError`` with the install command if matplotlib is missing."""
    pyplot("gramian report")


def axes(size: tuple[float, float] = SIZE) -> tuple[Any, Any]:
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
