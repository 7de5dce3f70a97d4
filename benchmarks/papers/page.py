"""Tables and pictures of stored lines, written into pages where a marker asks for them.

A page has a table between ``<!-- measured: PAPER, ITEM -->`` and ``<!-- end -->``; what stands between is
replaced. A page may have tables of several papers, and an item may stand on several pages. Dates and commits
of all its tables stand once, at ``<!-- measured: runs -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from suite.results import Line

from papers.items import Item, Paper
from papers.lines import of_item

MARKED = re.compile(r"(<!-- measured: (\w+), ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
RUNS = re.compile(r"(<!-- measured: runs -->\n).*?(<!-- end -->)", re.DOTALL)


def marked(text: str) -> list[tuple[str, str]]:
    """Return (paper, item) of every marker of a page."""
    return [(found[2], found[3]) for found in MARKED.finditer(text)]


def filled(text: str, papers: Iterable[Paper], lines: list[Line], pictures: str) -> str:
    """Return a page with every table made anew; ``pictures`` is the way from the page to their folder."""
    known = {(paper.key, item.name): (paper, item) for paper in papers for item in paper.items}

    def made(found: re.Match[str]) -> str:
        paper, item = known[found[2], found[3]]
        return found[1] + "\n".join(section(paper, item, lines, pictures)) + "\n" + found[4]

    def runs(found: re.Match[str]) -> str:
        return found[1] + "\n".join(runs_of(text, lines)) + "\n" + found[2]

    return RUNS.sub(runs, MARKED.sub(made, text))


def section(paper: Paper, item: Item, lines: list[Line], pictures: str = "figures") -> list[str]:
    """Return the Markdown of an item: its picture, its table, and what it says."""
    found = of_item(lines, paper.key, item.name)
    if not found:
        return ["", "*Not measured yet.*", ""]
    parts = [""]
    if item.across is not None or item.against is not None:
        parts += [f"![{paper.key}, {item.name}]({pictures}/{picture_name(paper, item)})", ""]
    if item.across is not None:
        parts += [*_curves(found, item.across), ""]
    else:
        parts += [*(_table(found) if item.against is None else _points(found)), ""]
    if item.verdict is not None:
        parts += [item.verdict(found), ""]
    return parts


def number(value: float | None) -> str:
    """Return a number with four digits, and nothing where there is none."""
    return "" if value is None else f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.3e}"


def _ratio(line: Line) -> str:
    published = line["published"]
    return "" if not published else f"{line['value'] / published:.2f}"


def _setting(setting: dict[str, Any], without: str | None = None) -> str:
    return ", ".join(
        f"{name} {number(value) if isinstance(value, float) else value}"
        for name, value in setting.items()
        if name != without
    )


def _table(lines: list[Line]) -> list[str]:
    """Return a row for each set, method and setting; of each measure the paper's number, ours, the ratio."""
    measures = list(dict.fromkeys(line["measure"] for line in lines))
    found: dict[tuple[str, ...], dict[str, Line]] = {}
    for line in lines:
        name = (line["set"], line["method"], _setting(line["setting"]))
        found.setdefault(name, {})[line["measure"]] = line
    head = ["set", "method", "setting"]
    for measure in measures:
        head += [f"{measure}, paper", f"{measure}, ours", "ours / paper"]
    rows = ["| " + " | ".join([*head, "s"]) + " |", "|---" * (len(head) + 1) + "|"]
    for name, by_measure in found.items():
        cells = list(name)
        for measure in measures:
            line = by_measure.get(measure, {"published": None, "value": None})
            cells += [number(line["published"]), number(line["value"]), _ratio(line)]
        seconds = next((line["seconds"] for line in by_measure.values() if line["seconds"] is not None), None)
        rows.append("| " + " | ".join([*cells, number(seconds)]) + " |")
    return _without_empty(rows)


def _without_empty(rows: list[str]) -> list[str]:
    """Return the table without the columns that no row has anything in."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    kept = [i for i in range(len(cells[0])) if any(row[i] for row in cells[2:])]
    return ["| " + " | ".join(row[i] for i in kept) + " |" for row in cells]


def _curves(lines: list[Line], across: str) -> list[str]:
    """Return a row for each curve, with a column for each point of the horizontal axis."""
    points = sorted({line["setting"][across] for line in lines})
    curves: dict[tuple[Any, ...], dict[Any, Line]] = {}
    for line in lines:
        name = (line["set"], line["method"], _setting(line["setting"], across), line["measure"])
        curves.setdefault(name, {})[line["setting"][across]] = line
    head = ["set", "method", "setting", "measure", *(f"{across} {_setting({'': p}).strip()}" for p in points)]
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, curve in curves.items():
        cells = [_point(curve[p]) if p in curve else "" for p in points]
        rows.append("| " + " | ".join([*name, *cells]) + " |")
    return _without_empty(rows)


def _points(lines: list[Line]) -> list[str]:
    """Return a row for each method and setting, with a column for each measure."""
    measures = list(dict.fromkeys(line["measure"] for line in lines))
    rows = ["| " + " | ".join(["set", "method", "setting", *measures, "s"]) + " |"]
    rows.append("|---" * (len(measures) + 4) + "|")
    points: dict[tuple[Any, ...], dict[str, Line]] = {}
    for line in lines:
        points.setdefault(_point_key(line), {})[line["measure"]] = line
    for (name, method, setting), point in points.items():
        cells = [_point(point[measure]) if measure in point else "" for measure in measures]
        seconds = next((line["seconds"] for line in point.values() if line["seconds"] is not None), None)
        rows.append("| " + " | ".join([name, method, setting, *cells, number(seconds)]) + " |")
    return _without_empty(rows)


def _point_key(line: Line) -> tuple[str, str, str]:
    return line["set"], line["method"], _setting(line["setting"])


def _positions(item: Item, lines: list[Line]) -> Callable[[Line, str], Any]:
    """Return where a line lies on the horizontal axis: by our "value", or by the "published" one."""
    if item.against is None:
        return lambda line, _: line["setting"][item.across]
    costs = {_point_key(line): line for line in lines if line["measure"] == item.against}
    return lambda line, which: costs[_point_key(line)][which]


def _point(line: Line) -> str:
    published = line["published"]
    return number(line["value"]) + ("" if published is None else f" (paper {number(published)})")


def runs_of(page: str, lines: list[Line]) -> list[str]:
    """Return the Markdown that says when the items of a page were measured, a row for each run."""
    names = marked(page)
    found: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        if (line["paper"], line["item"]) in names:
            items = found.setdefault((line["date"], line["commit"], line["machine"]), [])
            if line["item"] not in items:
                items.append(line["item"])
    paper, item = names[0]
    again = f'`python benchmarks/reproduce.py --only {paper} --items "{item}"` measures one of them again.'
    rows = [(day, commit, machine, "; ".join(found[day, commit, machine])) for day, commit, machine in found]
    return ["", again, "", markdown_table(("date", "commit", "processor", "tables and figures"), rows), ""]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def picture_name(paper: Paper, item: Item) -> str:
    """Return the file name of an item's picture."""
    return f"{paper.key}-{item.name.replace(' ', '-')}.svg"


def draw(paper: Paper, item: Item, lines: list[Line], folder: Path) -> Path | None:
    """Draw the curves of an item, a panel for each set and measure, the paper's points beside ours.

    Of a trade-off only the first measure is drawn. A method has the same colour in every panel, and its name
    in the first that shows it.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = of_item(lines, paper.key, item.name)
    if (item.across is None and item.against is None) or not found:
        return None
    at = _positions(item, found)
    if item.against is not None:
        found = [line for line in found if line["measure"] == found[0]["measure"]]
    panels = list(dict.fromkeys((line["set"], line["measure"]) for line in found))
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    # The same drawing is the same file, and text stays text.
    plt.rcParams.update({"svg.hashsalt": "gramian", "svg.fonttype": "none"})
    figure, axes = plt.subplots(down, across, figsize=(4.4 * across, 3.4 * down), squeeze=False)
    colours: dict[str, str] = {}
    for axis, (name, measure) in zip(axes.flat, panels, strict=False):
        known = len(colours)
        curves: dict[str, list[Line]] = {}
        for line in found:
            if (line["set"], line["measure"]) == (name, measure):
                setting = _setting(line["setting"], item.across) if item.against is None else ""
                label = " ".join([line["method"], setting]).strip()
                curves.setdefault(label, []).append(line)
        for label, curve in curves.items():
            curve = sorted(curve, key=lambda line: at(line, "value"))
            colour = colours.setdefault(label, f"C{len(colours)}")
            axis.plot(
                [at(line, "value") for line in curve],
                [line["value"] for line in curve],
                marker="o",
                markersize=3,
                color=colour,
                label=label,
            )
            printed = [line for line in curve if None not in (line["published"], at(line, "published"))]
            axis.plot(
                [at(line, "published") for line in printed],
                [line["published"] for line in printed],
                "x",
                color=colour,
            )
        axis.set(title=name, xlabel=item.across or item.against, ylabel=measure)
        if "x" in item.logarithmic:
            axis.set_xscale("log")
        if "y" in item.logarithmic and all(line["value"] > 0 for line in found if line["measure"] == measure):
            axis.set_yscale("log")
        if len(colours) > known:
            axis.legend(fontsize=7)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / picture_name(paper, item)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
