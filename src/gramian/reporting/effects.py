"""Pictures of what single columns do: partial dependence, and errors by segments of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.plotting.canvas import COLOURS, NOTE_SIZE, cut, name_axes
from gramian.reporting.drawing import Picture, axes, draw_svg
from gramian.reporting.inspected import Inspected, InspectedColumn
from gramian.summary import Grid, short

#: Points of a curve, most categories and most curves that are drawn, and columns that are shown. By hand.
POINTS, MOST_CATEGORIES, MOST_CURVES, MOST_COLUMNS = 12, 10, 5, 6
#: Segments of a numeric column, and fewest rows of a segment. Chosen by hand.
PARTS, LEAST_ROWS = 4, 10


def of_effects(found: Inspected) -> Iterator[Picture]:
    """Yield the partial dependence of the most important columns: mean predictions, column set to a value."""
    for j in found.order[:MOST_COLUMNS]:
        column = found.columns[j]
        values, names = _grid(column)
        if len(values) < 2:
            continue
        curves = found.effect(column, values)
        figure, ax = axes()
        shown = range(min(MOST_CURVES, curves.shape[1]))
        if names:
            width = 0.8 / len(shown)
            for c in shown:
                ax.bar(np.arange(len(names)) + c * width, curves[:, c], width, color=COLOURS[c])
            ax.set_xticks(np.arange(len(names)) + 0.4 - width / 2, [cut(name) for name in names])
            ax.tick_params(axis="x", labelrotation=30 if max(map(len, names)) > 6 else 0)
        else:
            for c in shown:
                ax.plot(values, curves[:, c], color=COLOURS[c], linewidth=1.8)
        if len(found.curves) > 1:
            ax.legend([cut(found.curves[c]) for c in shown], fontsize=NOTE_SIZE, frameon=False)
        name_axes(
            ax, cut(column.name, 40), "mean prediction" if len(found.curves) == 1 else "mean of each class"
        )
        low, high = float(curves.min()), float(curves.max())
        caption = (
            f"Mean prediction with {cut(column.name)} set to each value in all rows: {low:.3g} to {high:.3g}."
        )
        yield draw_svg(figure, f"Effect of {cut(column.name, 30)}", caption)


def _grid(column: InspectedColumn) -> tuple[Array, list[str]]:
    """Return the values to set, and for categories their names."""
    if column.categories:
        codes, counts = np.unique(column.values[column.values >= 0].astype(np.intp), return_counts=True)
        kept = codes[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
        return kept, [column.categories[code] for code in kept]
    distinct = np.unique(column.values)
    if len(distinct) <= POINTS:
        return distinct, []
    return np.unique(np.quantile(column.values, np.linspace(0.02, 0.98, POINTS))), []


def segments(found: Inspected, errors: Float64Array, what: str) -> tuple[Grid, ...]:
    """Return for the most important columns the errors of segments of the rows, the worst first.

    errors : (n,) squared errors, or 1 for a wrong class; ``what`` names the error of a segment, the root of
    its mean, or its mean.
    """
    root = what == "RMSE"
    rows: list[tuple[float, tuple[str, ...]]] = []
    whole = _size(errors, root)
    for j in found.order[:MOST_COLUMNS]:
        column = found.columns[j]
        for name, members in _segments(column):
            if members.sum() < LEAST_ROWS or members.all():
                continue
            own = _size(errors[members], root)
            times = own / whole if whole > 0 else 1.0
            texts = (short(column.name, 40), name, f"{int(members.sum()):,}", f"{own:.4g}", f"{times:.2f} ×")
            rows.append((own, texts))
    rows.sort(key=lambda each: -each[0])
    if not rows:
        return ()
    note = f"Of all rows the {what} is {whole:.4g}. Small segments differ by chance."
    head = ("column", "segment", "rows", what, "of all rows'")
    return (Grid("Errors by segment, the worst first", head, tuple(texts for _, texts in rows[:20]), note),)


def _size(errors: Float64Array, root: bool) -> float:
    mean = float(errors.mean())
    return float(np.sqrt(mean)) if root else mean


def _segments(column: InspectedColumn) -> Iterator[tuple[str, Array]]:
    if column.categories:
        for code in np.unique(column.values):
            name = short(column.categories[int(code)], 40) if code >= 0 else "(not known in training)"
            yield name, column.values == code
        return
    edges = np.unique(np.quantile(column.values, np.linspace(0.0, 1.0, PARTS + 1)))
    if len(edges) < 3:
        for value in edges:
            yield f"{value:.4g}", column.values == value
        return
    place = np.clip(np.searchsorted(edges, column.values, "right") - 1, 0, len(edges) - 2)
    for part in range(len(edges) - 1):
        yield f"{edges[part]:.4g} to {edges[part + 1]:.4g}", place == part
