"""Figures of the tables: errors over CatBoost's, ranks, and fit times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gramian.plotting.canvas import (
    COLOURS,
    FAINT,
    INK,
    NOTE_SIZE,
    QUIET,
    caption,
    name_axes,
    scale_axis,
    tidy,
)
from suite.pictures import save
from suite.summary import ratio
from suite.table_methods import BEST, FAST, INSTANT, OURS, REFERENCE, TABLE_METHODS
from suite.table_summary import Place, Tables, places

#: Drawn beside gramian.
BESIDE = "lightgbm"
#: What is one line: gramian at each effort.
OUR_METHODS = (INSTANT, FAST, OURS, BEST)
#: Of gramian, its reference, the other and the rest.
COLOUR = {OURS: COLOURS[0], REFERENCE: COLOURS[1], BESIDE: COLOURS[2]}
#: Times CatBoost's that the median fit was to stay within.
MOST_TIMES = 4.0
PALE = "#a8b0b8"
#: Limits of a ratio of errors: what lies outside is drawn at the edge.
EDGES = (0.4, 2.5)
#: Up and down from a set's line to the mark of LightGBM, so that both are seen.
APART = 0.22


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def overview(tables: Tables, folder: Path) -> Path:
    """Draw, small enough for a first page, the errors of all sets over CatBoost's and the mean ranks."""
    plt = _pyplot()
    # One above the other: on a telephone, 340 pixels wide, letters keep 10 pixels.
    figure, (left, right) = plt.subplots(2, 1, figsize=(4.2, 5.8), layout="constrained")
    tidy(left)
    left.axhline(1.0, color=QUIET, linewidth=1.0)
    for method, mark in ((BESIDE, "D"), (OURS, "o")):
        found = [tables.over(name, method) for name in tables.facts]
        shares = np.sort([share for share in found if np.isfinite(share)])
        at, style = np.linspace(0.0, 1.0, len(shares)), {"color": COLOUR[method], "marker": mark}
        label = TABLE_METHODS[method].name
        left.plot(at, np.clip(shares, *EDGES), markersize=4, linewidth=1.0, label=label, **style)
    scale_axis(left, "y", (EDGES[0] / 1.04, EDGES[1] * 1.04), log=True)
    left.set_xticks([0.0, 0.5, 1.0], ["best set", "median", "worst set"])
    name_axes(left, "", "error over CatBoost's")
    caption(left, f"Errors on {len(tables.facts)} sets", "RMSE, 1 − AUC or log-loss, all with defaults")
    left.legend(loc="upper left", frameon=False, fontsize=NOTE_SIZE)
    _draw_ranks(right, [place for place in places(tables) if np.isfinite(place.rank)])
    return save(figure, folder / "tables_overview.png", dpi=160)


def costs(tables: Tables, folder: Path) -> Path:
    """Draw each method's error over CatBoost's against its time to fit over CatBoost's: means of all sets."""
    plt = _pyplot()
    figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    tidy(ax)
    ax.axhline(1.0, color=QUIET, linewidth=1.0)
    ax.axvline(1.0, color=QUIET, linewidth=1.0)
    found = [place for place in places(tables, list(tables.facts)) if place.n_sets == len(tables.facts)]
    points = [(place.method, place.costs["fit_seconds"], place.error) for place in found]
    points = [each for each in points if np.isfinite(each[1:]).all()]
    ours = np.array(sorted(point for method, *point in points if method in OUR_METHODS)).reshape(-1, 2)
    ax.plot(ours[:, 0], ours[:, 1], color=COLOUR[OURS], linewidth=1.0)
    for place, (method, time, error) in enumerate(sorted(points, key=lambda each: each[1])):
        colour = COLOUR[OURS] if method in OUR_METHODS else COLOUR.get(method, PALE)
        ax.scatter([time], [error], s=38 if method in OUR_METHODS else 24, color=colour, zorder=3)
        # Names of neighbours go above and below, so that they do not cover each other.
        style = {"textcoords": "offset points", "fontsize": NOTE_SIZE, "color": INK}
        ax.annotate(TABLE_METHODS[method].name, (time, error), (5, -11 if place % 2 else 5), **style)
    times, errors = [1.0, *(time for _, time, _ in points)], [1.0, *(error for _, _, error in points)]
    scale_axis(ax, "x", (0.6 * min(times), 2.6 * max(times)), log=True)
    scale_axis(ax, "y", (0.94 * min(errors), 1.06 * max(errors)), log=True)
    name_axes(ax, "time to fit over CatBoost's", "error over CatBoost's")
    caption(ax, "What an error costs", f"geometric means of {len(tables.facts)} sets; lower left is better")
    ax.grid(True, which="major", color=FAINT)
    return save(figure, folder / "tables_cost.png")


def errors_and_ranks(tables: Tables, folder: Path) -> Path:
    """Draw each set's errors over those of CatBoost with defaults, and the mean ranks of all methods."""
    shares = {name: tables.over(name, OURS) for name in tables.facts}
    names = sorted((name for name in shares if np.isfinite(shares[name])), key=lambda name: -shares[name])
    found = [place for place in places(tables) if np.isfinite(place.rank)]
    height = 1.6 + 0.24 * max(len(names), 2 * len(found))
    plt = _pyplot()
    widths = {"width_ratios": (2.2, 1.0)}
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, height), layout="constrained", gridspec_kw=widths)
    _draw_errors(left, tables, names)
    _draw_ranks(right, found)
    return save(figure, folder / "tables_errors.png")


def _draw_errors(ax: Any, tables: Tables, names: list[str]) -> None:
    tidy(ax)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.axvline(1.0, color=QUIET, linewidth=1.0)
    drawn: list[float] = []
    for method, mark, shift in ((OURS, "o", 0.0), (BESIDE, "D", -APART)):
        colour, labelled = COLOUR[method], False
        for height, name in enumerate(names):
            pairs = list(tables.pairs(name, method))
            if not pairs:
                continue
            shares = [ratio(mine["error"], theirs["error"]) for mine, theirs in pairs]
            level = height + shift
            if method == OURS:
                at = np.clip(shares, *EDGES)
                ax.scatter(at, [level] * len(shares), s=12, color=colour, alpha=0.35, linewidths=0)
                drawn += list(at)
            mean = float(np.clip(np.mean(shares), *EDGES))
            name_of = None if labelled else TABLE_METHODS[method].name
            size = 38 if method == OURS else 16
            drawn.append(mean)
            ax.scatter([mean], [level], s=size, color=colour, marker=mark, label=name_of, zorder=3)
            labelled = True
    low, high = min([*drawn, 0.9]), max([*drawn, 1.1])
    scale_axis(ax, "x", (low / 1.04, high * 1.04), log=True)
    name_axes(ax, "error over that of CatBoost with defaults", "")
    caption(
        ax, "Error of each set", "left of 1: lower than CatBoost's; small dots: splits; at the edge: beyond"
    )
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="best", frameon=False, fontsize=NOTE_SIZE)


def _draw_ranks(ax: Any, found: list[Place]) -> None:
    tidy(ax)
    levels = range(len(found))
    ax.barh(
        levels,
        [place.rank for place in found],
        height=0.6,
        color=[COLOUR.get(place.method, PALE) for place in found],
        zorder=2,
    )
    for level, place in zip(levels, found, strict=True):
        ax.annotate(
            f"{place.rank:.2f}",
            (place.rank, level),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=NOTE_SIZE,
            color=INK,
        )
    ax.set_yticks(levels, [TABLE_METHODS[place.method].name for place in found])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.15 * max(place.rank for place in found))
    name_axes(ax, "mean rank", "")
    caption(ax, "Rank", "1 is the lowest error of a set")


def fit_times(tables: Tables, folder: Path) -> Path:
    """Draw each method's fit time over that of CatBoost with defaults against the rows of the sets."""
    plt = _pyplot()
    figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
    tidy(ax)
    ax.axhline(1.0, color=QUIET, linewidth=1.0)
    ax.axhline(MOST_TIMES, color=QUIET, linewidth=1.0, linestyle="--")
    drawn: list[float] = [1.0, MOST_TIMES]
    rows: list[float] = []
    for place, method in enumerate(name for name in tables.methods if name != REFERENCE):
        times = {name: tables.times(name, method) for name in tables.facts}
        points = [
            (facts["n_train"], times[name])
            for name, facts in tables.facts.items()
            if np.isfinite(times[name])
        ]
        if not points:
            continue
        x, y = zip(*points, strict=True)
        colour = COLOUR.get(method, COLOURS[place % len(COLOURS)])
        ax.scatter(
            x,
            y,
            s=34 if method == OURS else 16,
            color=colour,
            label=TABLE_METHODS[method].name,
            zorder=3 if method == OURS else 2,
        )
        drawn += y
        rows += x
    if rows:
        scale_axis(ax, "x", (0.8 * min(rows), 1.25 * max(rows)), log=True)
    scale_axis(ax, "y", (0.6 * min(drawn), 1.6 * max(drawn)), log=True)
    name_axes(ax, "rows to learn from", "fit time over CatBoost's")
    caption(ax, "Time to fit", f"medians of the splits; dashed: {MOST_TIMES:g} times CatBoost's")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=NOTE_SIZE)
    ax.grid(True, which="major", color=FAINT)
    return save(figure, folder / "tables_time.png")
