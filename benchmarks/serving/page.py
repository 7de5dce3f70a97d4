"""Pictures and tables of the pages about fast models, from stored lines alone.

The pages have blocks between ``<!-- frontier: NAME -->`` and ``<!-- end -->``; what stands between is
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from suite.results import Line

from serving.problems import SETS
from serving.run import NAMES

PAGE, EVERY_MODEL = "make-any-model-fast.md", "fast-models-benchmark.md"
MARKED = re.compile(r"(<!-- frontier: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
ABSENT = "*Not measured yet.*"
OURS = "gm.compress"
#: The field of each picture's horizontal axis, and what stands below it.
PICTURES = {"batch": ("batch_ns", "ns a row, in a batch"), "single": ("single_ns", "ns for one row alone")}
#: Errors closer than this are called equal.
EQUAL = 0.02


def write_report(lines: list[Line], docs: Path) -> Iterator[Path]:
    """Draw the pictures and fill the pages; yield what was written."""
    for which in PICTURES if measured(lines) else ():
        yield draw(lines, which, docs / "figures")
    for page in (docs / PAGE, docs / EVERY_MODEL):
        page.write_text(filled(page.read_text(encoding="utf-8"), lines), encoding="utf-8")
        yield page


def measured(lines: list[Line]) -> list[Line]:
    """Return the lines without failures, methods in the order of the page."""
    return sorted((one for one in lines if "error" in one), key=lambda one: NAMES.index(one["method"]))


def filled(text: str, lines: list[Line]) -> str:
    """Return a page with every block made anew."""
    blocks = {
        "summary": _summary,
        "batch": _picture,
        "single": _picture,
        "better": _better,
        "table": _tables,
        "origin": _origin,
    }

    def block(found: re.Match[str]) -> str:
        made = blocks[found[2]](lines, found[2]) if measured(lines) else [ABSENT]
        return found[1] + "\n".join(["", *made, ""]) + "\n" + found[3]

    return MARKED.sub(block, text)


def draw(lines: list[Line], which: str, folder: Path) -> Path:
    """Draw a panel for each set: error against nanoseconds, a curve for each method through its sizes."""
    import matplotlib
    from suite.pictures import save

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    field, name = PICTURES[which]
    sets = _sets(lines)
    columns = min(5, len(sets))
    rows = -(-len(sets) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.4 * columns, 3.1 * rows + 0.8), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(sets) :]:
        ax.set_visible(False)
    shown: dict[str, Any] = {}
    for ax, name_of_set in zip(axes.flat, sets, strict=False):
        for at, method in enumerate(NAMES):
            points = [
                (one[field], one["error"])
                for one in measured(lines)
                if one["set"] == name_of_set and one["method"] == method and one[field] is not None
            ]
            if points:
                ours = method == OURS
                (shown[method],) = ax.plot(
                    *zip(*sorted(points), strict=True),
                    color="black" if ours else f"C{at - 1}",
                    marker="o" if ours else "osv^Dx+*Ph<"[at],
                    linewidth=2.5 if ours else 1.0,
                    markersize=7 if ours else 5,
                    zorder=3 if ours else 2,
                )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(MaxNLocator(5))  # powers of ten alone leave most panels without a number
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        ax.set_title(name_of_set, fontsize=10)
        ax.grid(alpha=0.3)
    figure.supxlabel(name)
    figure.supylabel("error")
    figure.legend(
        [shown[m] for m in NAMES if m in shown],
        [m for m in NAMES if m in shown],
        loc="outside upper center",
        ncols=6,
    )
    return save(figure, folder / picture_name(which))


def picture_name(which: str) -> str:
    return f"make-any-model-fast-{which}.png"


def _sets(lines: list[Line]) -> list[str]:
    found = dict.fromkeys(one["set"] for one in measured(lines))
    return [*(name for name in SETS if name in found), *(name for name in found if name not in SETS)]


def _picture(lines: list[Line], which: str) -> list[str]:
    return [
        f"![Error against {PICTURES[which][1]}: a panel a set, a curve a method]"
        f"(figures/{picture_name(which)})"
    ]


def beaten(lines: list[Line], name: str, field: str) -> list[str]:
    """Name the methods with a model that is no slower than gm.compress's best and errs clearly less.

    gm.compress's best is its most accurate model on the set.
    """
    here = [one for one in measured(lines) if one["set"] == name and one[field] is not None]
    ours = min((one for one in here if one["method"] == OURS), key=lambda one: one["error"], default=None)
    if ours is None:
        return []
    better = [
        one
        for one in here
        if one["method"] != OURS
        and one[field] <= ours[field]
        and one["error"] < (1.0 - EQUAL) * ours["error"]
    ]
    return list(dict.fromkeys(one["method"] for one in better))


@dataclass(frozen=True)
class Gain:
    """The most accurate model of gm.compress on each set, beside the slow model that taught it."""

    n_sets: int
    speed: float  #: how many times as fast as the slow model, median over the sets
    error: float  #: its error over the slow model's, median over the sets
    n_beaten: int  #: sets where another method errs less and is no slower


def gain(lines: list[Line]) -> Gain | None:
    """Return what compression brings over all sets, None where nothing was measured."""
    speeds, errors, n_beaten = [], [], 0
    for name in _sets(lines):
        here = [one for one in measured(lines) if one["set"] == name]
        ours = min((one for one in here if one["method"] == OURS), key=lambda one: one["error"], default=None)
        teacher = next((one for one in here if one["method"] == "teacher"), None)
        if ours is not None and teacher is not None:
            speeds.append(teacher["batch_ns"] / ours["batch_ns"])
            errors.append(ours["error"] / teacher["error"])
            n_beaten += bool(beaten(lines, name, "batch_ns"))
    return Gain(len(speeds), median(speeds), median(errors), n_beaten) if speeds else None


def _summary(lines: list[Line], _: str) -> list[str]:
    found = gain(lines)
    if found is None:
        return [ABSENT]
    return [
        f"On {found.n_beaten} of {found.n_sets} sets another library errs less and is no slower "
        "([which](#when-not-to-use-it)).",
        f"The most accurate fast model answers {found.speed:.0f} times as fast as the slow model that taught "
        f"it, with {found.error:.2f} times its error.",
        "Both are medians over the sets, for batches on one thread.",
    ]


def _better(lines: list[Line], _: str) -> list[str]:
    rows = ["| set | in batches | one row at a time | lower error, at any cost |", "|---|---|---|---|"]
    for name in _sets(lines):
        here = [one for one in measured(lines) if one["set"] == name]
        ours = min((one["error"] for one in here if one["method"] == OURS), default=None)
        if ours is None:
            continue
        lower = dict.fromkeys(one["method"] for one in here if one["error"] < (1.0 - EQUAL) * ours)
        cells = [beaten(lines, name, "batch_ns"), beaten(lines, name, "single_ns"), list(lower)]
        rows.append(f"| {name} | " + " | ".join("; ".join(cell) or "none" for cell in cells) + " |")
    return [
        f"Methods with a model that errs less, by more than {EQUAL:.0%}, than the most accurate one of "
        "gm.compress and is no slower. The last column names them at any cost.",
        "",
        *rows,
    ]


def _tables(lines: list[Line], _: str) -> list[str]:
    parts = []
    for name in _sets(lines):
        here = [one for one in measured(lines) if one["set"] == name]
        title = f"**{name}**: {SETS.get(name, 'of scikit-learn')}; {here[0]['n_train']:,} training rows."
        parts += [title, "", "| method | size | error | ns a row, batch | ns, one row | fit s | model kB |"]
        parts.append("|---|---|--:|--:|--:|--:|--:|")
        for one in here:
            single = "" if one["single_ns"] is None else f"{one['single_ns']:,.0f}"
            parts.append(
                f"| {one['method']} | {one['size']} | {one['error']:.4f} | {one['batch_ns']:,.0f} | {single} "
                f"| {one['seconds']:,.1f} | {one['bytes'] / 1e3:,.1f} |"
            )
        parts.append("")
    failed = [one for one in lines if "failure" in one]
    parts += [f"- {one['set']}, {one['method']} failed: {one['failure']}" for one in failed]
    return parts[:-1] if not failed else parts


def _origin(lines: list[Line], _: str) -> list[str]:
    one = measured(lines)[0]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(one["versions"].items()))
    return [
        f"`python benchmarks/frontier.py` measured this. Stored run: {one['date']}, commit {one['commit']}, "
        f"{one['machine']}, batches of {one['batch_rows']:,} rows. Versions: {versions}."
    ]
