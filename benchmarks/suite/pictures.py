"""Frontiers, a figure a set, and the figure of all sets together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from gramian.plotting import FrontierDisplay
from suite.methods import METHODS
from suite.results import Line, of_sizes
from suite.summary import Standing

COSTS = ("fit_seconds", "peak_bytes", "predict_seconds")
NAMES = {
    "fit_seconds": "fit time over gramian's",
    "peak_bytes": "peak memory over gramian's",
    "predict_seconds": "prediction time over gramian's",
}
ERROR = {"classification": "wrong predictions", "regression": "RMSE over the deviation of y"}
#: What a process that hardly grew is drawn with: the page size would stretch the axis.
LEAST_BYTES = 1e6


def panels() -> tuple[Any, Any]:
    """Return a figure of three axes."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")


def save(figure: Any, path: Path, dpi: int = 90) -> Path:
    """Write a figure as PNG and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the version of matplotlib, so that equal numbers give equal files.
    figure.savefig(path, dpi=dpi, metadata={"Software": None})
    plt.close(figure)
    return path


def frontier(name: str, lines: list[Line], folder: Path) -> Path:
    """Draw a set: error against fit time, memory and prediction time, a curve a method."""
    shown = [line for line in of_sizes(lines) if line["set"] == name]
    shown = [
        line | {"method": METHODS[line["method"]].name, "peak_bytes": max(line["peak_bytes"], LEAST_BYTES)}
        for line in shown
    ]
    figure, axes = panels()
    for ax, cost in zip(axes, COSTS, strict=True):
        title = f"{name}, {shown[0]['n_train']:,} rows" if ax is axes[0] else ""
        FrontierDisplay.from_results(shown, cost=cost, error_name=ERROR[shown[0]["task"]], title=title, ax=ax)
    return save(figure, folder / f"frontier_{name}.png")


def overview(found: list[Standing], folder: Path) -> Path:
    """Draw all sets together: error over the lowest of the set against cost over gramian's."""
    # Means over other sets can't be compared: only methods that do both tasks.
    found = [one for one in found if one.over_best == one.over_best and len(METHODS[one.method].tasks) == 2]
    figure, axes = panels()
    for ax, cost in zip(axes, COSTS, strict=True):
        FrontierDisplay(
            [METHODS[one.method].name for one in found],
            [one.costs[cost] for one in found],
            [one.over_best for one in found],
            cost_name=NAMES[cost],
            error_name="error over the lowest",
            title="Geometric means over the sets" if ax is axes[0] else "",
        ).plot(ax)
    return save(figure, folder / "overview.png")
