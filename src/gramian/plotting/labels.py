"""Placement of labels beside their curves, instead of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gramian._typing import Float64Array
from gramian.plotting.canvas import NOTE_SIZE, text_colour

if TYPE_CHECKING:
    from gramian.plotting.canvas import Axes


#: Tried distances of a label from its point, in typographic points; far ones get a thin line back to it.
#: These constants and the costs below are chosen by hand.
RINGS = (7.0, 15.0, 27.0, 42.0)
#: Cost of the fraction of a label outside the axes or under another label, and of each mark and each dot of a
#: curve that it covers.
OUTSIDE, ON_LABEL, ON_MARK, ON_CURVE = 40.0, 12.0, 5.0, 0.55
#: Cost of each dot of another curve within NEARBY points, since the name might be taken for that curve's.
BY_OTHER, NEARBY = 0.09, 8.0
#: Distance between the dots that represent a curve, and margin inside the frame, in typographic points.
SPACING, MARGIN = 5.0, 2.0
#: Cost of each ring farther out, and of each point farther from the curve's last one.
FAR, NOT_LAST = 0.35, 0.12
#: Rounds in which every label looks for a better place after the first, and points tried on a curve.
ROUNDS, ANCHORS = 3, 5
_DIRECTIONS = [(1, 0), (1, 1), (1, -1), (0, 1), (0, -1), (-1, 1), (-1, -1), (-1, 0)]
_SIDES = {1: "left", 0: "center", -1: "right"}
_RISES = {1: "bottom", 0: "center", -1: "top"}

#: The x and y coordinates of a curve's points.
Curve = tuple[Float64Array, Float64Array]


def label_curves(
    ax: Axes,
    names: Sequence[str],
    curves: Sequence[Curve],
    colours: Sequence[str],
    *,
    beside: Sequence[Curve] = (),
    size: float = NOTE_SIZE,
) -> list[Any]:
    """Write each name in its colour near a point of its curve (x, y); return the annotations.

    Candidate places lie in eight directions and at four distances from points of the curve. The cost of a
    place depends on what it would cover, including what is drawn ``beside`` the curves. Labels take their
    cheapest place one after the other, then look for a better one in a few more rounds. Limits of the axes
    must be final. The text sizes are computed without drawing the figure. Time O(curves² · points).
    """
    figure: Any = ax.figure.figure  # that of a subfigure's axes, which cannot draw by itself, is the whole
    figure.draw_without_rendering()
    # Work in typographic points, so that places do not depend on the figure's resolution.
    point = figure.dpi / 72.0
    paths = [ax.transData.transform(np.column_stack(curve)) / point for curve in curves]
    more = [ax.transData.transform(np.column_stack(curve)) / point for curve in beside]
    dotted = [_dotted(path) for path in [*paths, *more]]
    frame = np.array([ax.bbox.x0, ax.bbox.y0, ax.bbox.x1, ax.bbox.y1]) / point
    frame += np.array([1.0, 1.0, -1.0, -1.0]) * MARGIN
    sizes = [_extent(ax, name, size, point) for name in names]
    places = [_places(path, extent) for path, extent in zip(paths, sizes, strict=True)]
    still = []
    for k, candidates in enumerate(places):
        others = np.concatenate([np.zeros((0, 2)), *(dots for j, dots in enumerate(dotted) if j != k)])
        seen = _Seen(np.concatenate(paths), np.concatenate(dotted), others, frame)
        still.append([cost + seen.cost(box) for box, cost, _ in candidates])
    chosen: list[int | None] = [None] * len(names)
    for _ in range(ROUNDS):
        for k, candidates in enumerate(places):
            taken = [places[j][c][0] for j, c in enumerate(chosen) if c is not None and j != k]
            costs = [
                fixed + ON_LABEL * sum(_overlap(box, other) for other in taken)
                for fixed, (box, _, _) in zip(still[k], candidates, strict=True)
            ]
            chosen[k] = int(np.argmin(costs))
    return [
        _written(ax, names[k], curves[k], colours[k], places[k][c][2], size)
        for k, c in enumerate(chosen)
        if c is not None
    ]


#: A candidate place: its box (x0, y0, x1, y1), its own cost, and (point, direction, distance).
_Place = tuple[Float64Array, float, tuple[int, tuple[int, int], float]]


def _places(path: Float64Array, extent: tuple[float, float]) -> list[_Place]:
    last = len(path) - 1
    anchors = sorted({round(t) for t in np.linspace(0, last, min(len(path), ANCHORS))}, reverse=True)
    found = []
    for rank, i in enumerate(anchors):
        for ring, gap in enumerate(RINGS):
            for direction in _DIRECTIONS:
                corner = path[i] + _offset(direction, gap) - 0.5 * (1.0 - np.array(direction)) * extent
                box = np.concatenate([corner, corner + extent])
                found.append((box, FAR * ring + NOT_LAST * rank, (i, direction, gap)))
    return found


def _offset(direction: tuple[int, int], gap: float) -> Float64Array:
    # Offsets lie on a circle, so that a diagonal label is no farther away than a horizontal one.
    return np.array(direction) * gap / np.hypot(*direction)


@dataclass(frozen=True)
class _Seen:
    """Objects that a label should not cover, other than labels: marks, dots of its curve and of others."""

    marks: Float64Array
    dots: Float64Array
    others: Float64Array
    frame: Float64Array

    def cost(self, box: Float64Array) -> float:
        """Return the cost of a label in this box."""
        return float(
            OUTSIDE * (1.0 - _overlap(box, self.frame))
            + ON_MARK * _count(box, self.marks, 4.0)
            + ON_CURVE * _count(box, self.dots, 1.0)
            + BY_OTHER * _count(box, self.others, NEARBY)
        )


def _overlap(box: Float64Array, other: Float64Array) -> float:
    """Return the fraction of the first box that the other covers."""
    wide = min(box[2], other[2]) - max(box[0], other[0])
    high = min(box[3], other[3]) - max(box[1], other[1])
    if wide <= 0.0 or high <= 0.0:
        return 0.0
    return float(wide * high / ((box[2] - box[0]) * (box[3] - box[1])))


def _count(box: Float64Array, points: Float64Array, margin: float) -> int:
    low, high = box[:2] - margin, box[2:] + margin
    return int(((points > low) & (points < high)).all(axis=1).sum())


def _dotted(path: Float64Array) -> Float64Array:
    """Return points along the lines of a path, ``SPACING`` apart."""
    parts = [path[:1]]
    for start, end in pairwise(path):
        steps = max(1, int(np.hypot(*(end - start)) / SPACING))
        parts.append(start + np.linspace(0.0, 1.0, steps + 1)[1:, None] * (end - start))
    return np.concatenate(parts)


def _extent(ax: Axes, name: str, size: float, point: float) -> tuple[float, float]:
    """Return the width and height of a text in points."""
    text = ax.text(0.0, 0.0, name, fontsize=size)
    box = text.get_window_extent()
    text.remove()
    return box.width / point, box.height / point


def _written(
    ax: Axes, name: str, curve: Curve, colour: str, place: tuple[int, tuple[int, int], float], size: float
) -> Any:
    i, direction, gap = place
    far = gap > RINGS[1]
    return ax.annotate(
        name,
        (curve[0][i], curve[1][i]),
        tuple(_offset(direction, gap)),
        textcoords="offset points",
        ha=_SIDES[direction[0]],
        va=_RISES[direction[1]],
        fontsize=size,
        color=text_colour(colour),
        zorder=5,
        # Draw a line behind the text back to the point if the two are far apart.
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4}
        if far
        else None,
    )
