"""The one file that imports matplotlib, and only to draw: figures, axes, colours and marks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.exceptions import InputError, MissingPackageError

#: Colours that readers with deuteranopia, protanopia or tritanopia tell apart, all of them dark enough on
#: white for text (tests/test_plotting_canvas.py measures both). With ten marks there are a hundred pairs.
COLOURS = (
    "#0067a7",  # blue
    "#c8500a",  # vermilion
    "#00806b",  # green
    "#a63d84",  # purple
    "#2b2b2b",  # ink
    "#8a6d00",  # ochre
    "#2e8fc0",  # sky
    "#8f1d2c",  # wine
    "#5b4bb0",  # indigo
    "#7a7a7a",  # grey
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
INK, QUIET, FAINT = "#2b2b2b", "#666666", "#e4e4e4"
#: Points of text: a panel's title, its labels, and notes.
TITLE_SIZE, LABEL_SIZE, NOTE_SIZE = 11.0, 10.0, 9.0


def pyplot(display: str) -> Any:
    """Return ``matplotlib.pyplot``, or say for which display it is missing and how to get it."""
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


def panel(display: str, ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """Return a figure and its axes: new ones of ``size`` inches, or the caller's."""
    plt = pyplot(display)
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")
    if not hasattr(ax, "get_subplotspec") and np.ndim(ax) == 0:
        raise InputError(
            f"ax has type {type(ax).__name__}; expected matplotlib axes. Pass one of plt.subplots(), or None "
            "for a new figure."
        )
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != 1:
        raise InputError(f"ax has {len(axes)} axes, but {display} draws on one. Pass one of them.")
    return axes[0].figure, axes[0]


def tidy(ax: Any) -> None:
    """Leave of the frame what is read: two spines, quiet ticks, a faint grid under everything."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#9a9a9a")
    ax.tick_params(which="both", color="#9a9a9a", labelcolor=INK, labelsize=NOTE_SIZE)
    ax.grid(True, which="major", color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)


def caption(ax: Any, title: str, note: str = "", *, lift: float = 0.0) -> None:
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


def name_axes(ax: Any, x: str, y: str) -> None:
    """Label both axes."""
    ax.set_xlabel(x, fontsize=LABEL_SIZE, color=INK)
    ax.set_ylabel(y, fontsize=LABEL_SIZE, color=INK)


def colour_and_mark(k: int) -> tuple[str, str]:
    """Return the colour and the mark of curve k; the first hundred differ.

    >>> len({colour_and_mark(k) for k in range(100)})
    100
    """
    return COLOURS[k % len(COLOURS)], MARKS[(k + k // len(COLOURS)) % len(MARKS)]


def padded(values: Array, *, log: bool, share: float = 0.06) -> tuple[float, float]:
    """Return limits around the values, with a margin of a share of their span on both sides.

    >>> padded(np.array([1.0, 2.0]), log=False, share=0.5)
    (0.5, 2.5)
    """
    low, high = float(np.min(values)), float(np.max(values))
    if log:
        low, high = np.log10(low), np.log10(high)
    # One value alone gets a margin too: a factor of two about it, or a tenth of it.
    span = high - low or (0.6 if log else 0.2 * abs(low) or 1.0)
    low, high = low - share * span, high + share * span
    return (10.0**low, 10.0**high) if log else (low, high)
