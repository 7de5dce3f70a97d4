"""HTML page of the demo: its three parts with their tables, seconds and pictures, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gramian._files import complete_file
from gramian.demo.results import Result, table
from gramian.plotting.canvas import COLOURS, name_axes, named_bars
from gramian.reporting.document import Section, code, document, paragraph
from gramian.reporting.drawing import Picture, axes, draw_svg


@dataclass
class Part:
    """A part of the demo as it is printed: what it shows, the results of models, lines, and seconds."""

    title: str
    told: str
    score: str = ""
    results: list[Result] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    pictures: Sequence[Picture] = ()
    seconds: float = 0.0


def write(where: Path, parts: Sequence[Part]) -> Path:
    """Write the page and return its path. ``MissingPackageError`` without matplotlib."""
    sections = []
    for part in parts:
        printed = table(part.results, part.score) if part.results else "\n".join(part.lines)
        notes = "".join(paragraph(f"{each.model}: {each.note}") for each in part.results if each.note)
        html = paragraph(f"{part.told} ({part.seconds:.0f} s)") + code(printed) + notes
        pictures = _bars_of(part) if part.results else part.pictures
        sections.append(Section(part.title, html, pictures))
    tiles = [(part.title, f"{part.seconds:.0f} s") for part in parts]
    text = document(
        "gramian demo",
        "gramian: kernel machines on a memory budget",
        "what the demo did on this machine",
        tiles,
        sections,
        "Written by <code>gramian demo</code>.",
    )
    with complete_file(where) as file:
        file.write(text.encode("utf-8"))
    return where


def _bars_of(part: Part) -> list[Picture]:
    names = [each.model for each in part.results]
    seconds = [each.fit_seconds + each.predict_seconds for each in part.results]
    best = min(part.results, key=lambda each: each.score if part.score == "error" else -each.score)
    scores = _bars(names, [each.score for each in part.results], part.score, f"{best.model} is the best.")
    return [scores, _bars(names, seconds, "seconds", "Fit and prediction together, on this machine.")]


def _bars(names: Sequence[str], values: Sequence[float], what: str, caption: str) -> Picture:
    figure, ax = axes((6.4, 1.1 + 0.4 * len(names)))
    colours = [COLOURS[0], *["#9fb8cc"] * (len(names) - 1)]
    named_bars(ax, names, values, (f"{value:.4g}" for value in values), colours=colours)
    ax.set_xlim(0, 1.15 * max(*values, 1e-9))
    name_axes(ax, what, "")
    return draw_svg(figure, what.capitalize(), caption)
