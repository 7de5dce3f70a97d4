"""Figures, axes, colours and marks. The only file that imports matplotlib, and only to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from gramian._typing import Array, Float64Array
from gramian.exceptions import InputError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure


#: Colours that readers with deuteranopia, protanopia or tritanopia tell apart, each with a contrast of 3 or
#: more on white: chosen for the greatest least distance, which
#: tests/plotting/test_plotting_canvas.py measures. With ten marks there are a hundred pairs.
COLOURS = (
    "#0070b8",  # blue
    "#c23d0a",  # vermilion
    "#3da38f",  # teal
    "#850066",  # plum
    "#cc8500",  # ochre
    "#0a0a33",  # midnight
    "#9985eb",  # lavender
    "#472900",  # brown
    "#3d1fad",  # indigo
    "#7a6670",  # grey
)
#: Smallest contrast of readable text on white, and the weights of red, green and blue in a luminance.
READABLE, LUMINANCE = 4.5, np.array([0.2126, 0.7152, 0.0722])
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
#: Width of each mark in points, chosen by hand so that all marks look equally large.
MARK_SIZES = (6.2, 5.8, 7.0, 5.6, 7.0, 7.8, 7.6, 7.0, 7.0, 10.0)
INK, QUIET, FAINT = "#2b2b2b", "#666666", "#e4e4e4"
#: Text sizes in points: titles, labels and notes.
TITLE_SIZE, LABEL_SIZE, NOTE_SIZE = 11.0, 10.0, 9.0
#: Longest name of a bar in letters; longer names end in an ellipsis.
LETTERS = 32


def pyplot(display: str) -> Any:
    """Return ``matplotlib.pyplot``; if it is missing, raise an error that names the display and the cure."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError(
            f"{display} draws with matplotlib, which is not installed. Run: pip install 'gramian[plot]'"
        ) from error
    return pyplot


def ticker() -> Any:
    """Return ``matplotlib.ticker``."""
    from matplotlib import ticker

    return ticker


def panel(display: str, ax: Axes | Array | None, size: tuple[float, float]) -> tuple[Any, Any]:
    """Return a figure and its axes: new ones of ``size`` inches, or the caller's."""
    plt = pyplot(display)
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")
    if not hasattr(ax, "get_subplotspec") and np.ndim(cast("ArrayLike", ax)) == 0:
        raise InputError(
            f"ax has type {type(ax).__name__}; expected matplotlib axes. Pass one of plt.subplots(), or None "
            "for a new figure."
        )
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != 1:
        raise InputError(f"ax has {len(axes)} axes, but {display} draws on one. Pass one of them.")
    return axes[0].figure, axes[0]


def tidy(ax: Axes) -> None:
    """Reduce the frame to two spines, quiet ticks and a faint grid below everything."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#9a9a9a")
    ax.tick_params(which="both", color="#9a9a9a", labelcolor=INK, labelsize=NOTE_SIZE)
    ax.grid(True, which="major", color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)


def caption(ax: Axes, title: str, note: str = "", *, lift: float = 0.0) -> None:
    """Write a title at the left, and a quieter note under it; ``lift`` points higher, over a second axis."""
    ax.set_title(
        title, loc="left", fontsize=TITLE_SIZE, fontweight="bold", color=INK, pad=lift + (22 if note else 8)
    )
    if note:
        ax.annotate(
            note,
            (0.0, 1.0),
            (0.0, lift + 7.0),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=NOTE_SIZE,
            color=QUIET,
            ha="left",
            va="bottom",
            annotation_clip=False,
        )


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Label both axes."""
    ax.set_xlabel(x, fontsize=LABEL_SIZE, color=INK)
    ax.set_ylabel(y, fontsize=LABEL_SIZE, color=INK)


def cut(name: str, width: int = 14) -> str:
    """Return a name of at most ``width`` letters; a longer one ends in an ellipsis."""
    return name if len(name) <= width else name[: width - 1] + "…"


def named_bars(
    ax: Axes,
    names: Sequence[str],
    values: Sequence[float] | Array,
    texts: Iterable[str],
    *,
    colours: str | list[str] = COLOURS[0],
    ends: Array | None = None,
) -> Any:
    """Draw bars, the first on top, with a name before and a text behind each; return the bars.

    ``ends`` are where the texts stand, by default the ends of the bars.
    """
    levels, ends = np.arange(len(names)), np.asarray(values if ends is None else ends)
    tidy(ax)
    bars = ax.barh(levels, values, height=0.72, color=colours, zorder=2)
    for level, end, text in zip(levels, ends, texts, strict=True):
        ax.annotate(
            text,
            (end, level),
            (4.0 if end >= 0 else -4.0, 0.0),
            textcoords="offset points",
            ha="left" if end >= 0 else "right",
            va="center",
            fontsize=NOTE_SIZE,
            color=INK,
        )
    ax.set_yticks(levels, [cut(name, LETTERS) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    return bars


def colour_and_mark(k: int) -> tuple[str, str]:
    """Return the colour and the mark of curve k; the first hundred differ.

    >>> len({colour_and_mark(k) for k in range(100)})
    100
    """
    return COLOURS[k % len(COLOURS)], MARKS[(k + k // len(COLOURS)) % len(MARKS)]


def text_colour(colour: str) -> str:
    """Return a colour, darkened if text in it would be hard to read on white.

    >>> text_colour("#0070b8"), text_colour("#cc8500")
    ('#0070b8', '#a46a00')
    """
    wanted = 1.05 / READABLE - 0.05
    luminance = float(_linear(colour) @ LUMINANCE)
    if luminance <= wanted:
        return colour
    linear = _linear(colour) * (wanted / luminance)
    values = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{int(255.0 * v):02x}" for v in values)


def _linear(colour: str) -> Float64Array:
    """Return the linear red, green and blue of "#rrggbb"."""
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def padded(values: Array, *, log: bool, share: float = 0.06) -> tuple[float, float]:
    """Return limits around the values, with a margin of the fraction ``share`` of their span on both sides.

    >>> padded(np.array([1.0, 2.0]), log=False, share=0.5)
    (0.5, 2.5)
    """
    low, high = float(np.min(values)), float(np.max(values))
    if log:
        low, high = np.log10(low), np.log10(high)
    # A single value gets a margin too: a factor of two about it, or a tenth of it.
    span = high - low or (0.6 if log else 0.2 * abs(low) or 1.0)
    low, high = low - share * span, high + share * span
    return (10.0**low, 10.0**high) if log else (low, high)
