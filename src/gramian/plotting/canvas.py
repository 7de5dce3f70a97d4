"""Figures, axes, scales, colours and marks. The only file that imports matplotlib, and only to draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from gramian._budget import format_bytes
from gramian._typing import Array
from gramian.exceptions import InputError, MissingPackageError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any

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
BLUE, ORANGE = COLOURS[:2]
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
#: Width of each mark in points, chosen by hand so that all marks look equally large.
MARK_SIZES = (6.2, 5.8, 7.0, 5.6, 7.0, 7.8, 7.6, 7.0, 7.0, 10.0)
INK, QUIET, FAINT = "#2b2b2b", "#666666", "#e4e4e4"
#: Text sizes in points: titles, labels and notes.
TITLE_SIZE, LABEL_SIZE, NOTE_SIZE = 11.0, 10.0, 9.0
#: Units of an axis: seconds, bytes, fractions as per cent, or plain numbers.
UNITS = ("s", "B", "%", "")
#: Outside this range of plain numbers all ticks are powers of ten.
PLAIN = 1e-3, 1e5
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def pyplot(display: str) -> Any:
    """Return ``matplotlib.pyplot``; if it is missing, raise an error that names the display and the cure."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError(
            f"{display} draws with matplotlib, which is not installed. Run: pip install 'gramian[plot]'"
        ) from error
    return pyplot


class Display:
    """Base of the displays: one stores its numbers, and draws them on axes of its own or of the caller."""

    figure_: Any
    ax_: Any

    def _open(self, ax: Axes | Array | None, size: tuple[float, float]) -> Any:
        """Keep and return tidy axes: new ones of ``size`` inches, or the caller's."""
        plt = pyplot(type(self).__name__)
        if ax is None:
            self.figure_, self.ax_ = plt.subplots(figsize=size, layout="constrained")
        else:
            if not hasattr(ax, "get_subplotspec") and np.ndim(cast("ArrayLike", ax)) == 0:
                raise InputError(
                    f"ax has type {type(ax).__name__}; expected matplotlib axes. Pass one of plt.subplots(), "
                    "or None for a new figure."
                )
            axes = np.ravel(np.asarray(ax, dtype=object))
            if len(axes) != 1:
                raise InputError(
                    f"ax has {len(axes)} axes, but {type(self).__name__} draws on one. Pass one of them."
                )
            self.figure_, self.ax_ = axes[0].figure, axes[0]
        tidy(self.ax_)
        return self.ax_


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


def name_lines(ax: Axes, lines: Sequence[Any], names: Sequence[str], size: float = NOTE_SIZE) -> None:
    """Name lines in a legend to the right of the axes, in the order in which the lines end there."""
    order = sorted(range(len(lines)), key=lambda k: -lines[k].get_ydata()[-1])
    ax.legend(
        [lines[k] for k in order],
        [names[k] for k in order],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=size,
        labelcolor=INK,
    )


def write_cells(ax: Axes, texts: Iterable[str], dark: Array, *, size: float) -> None:
    """Write a text into each cell of an image, row by row; white into the cells that are ``dark``."""
    for ((i, j), white), text in zip(np.ndenumerate(dark), texts, strict=True):
        ax.text(j, i, text, ha="center", va="center", color="white" if white else INK, fontsize=size)


def colour_and_mark(k: int) -> tuple[str, str]:
    """Return the colour and the mark of curve k; the first hundred differ.

    >>> len({colour_and_mark(k) for k in range(100)})
    100
    """
    return COLOURS[k % len(COLOURS)], MARKS[(k + k // len(COLOURS)) % len(MARKS)]


def low_to_high() -> Any:
    """Return the colour map from low to high values, with grey for missing ones."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("low to high", [BLUE, ORANGE]).with_extremes(bad="0.6")


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


def checked_unit(name: str, unit: object) -> str:
    """Check a unit and return it; an error names the parameter."""
    if unit not in UNITS:
        raise InputError(
            f"{name}={unit!r} is unknown. Choose 's' for seconds, 'B' for bytes, '%' for shares, or '' for "
            "plain numbers." + did_you_mean(unit, UNITS)
        )
    return str(unit)


def text_of(value: float, unit: str = "") -> str:
    """Format a value as on a tick.

    >>> [text_of(v, "s") for v in (2e-6, 0.05, 3.0)], text_of(2e7, "B"), text_of(3e-7), text_of(5000.0)
    (['2 µs', '50 ms', '3 s'], '20 MB', '3·10⁻⁷', '5,000')
    """
    if value < 0.0:
        return f"−{text_of(-value, unit)}"
    if unit == "B":
        return format_bytes(value)
    if unit == "%":
        return f"{100.0 * value:.3g} %"
    if unit == "s":
        for name, base in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
            if value >= 0.9995 * base:
                return f"{value / base:,.3g} {name}" if value < 1000.0 else f"{value:,.0f} s"
        return f"{value / 1e-9:.3g} ns" if value else "0"
    if value == 0.0 or 1e-4 <= value < 1e3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 1e3 <= value < 1e6 else power_text(value)


def power_text(value: float) -> str:
    """Format a positive value with a power of ten.

    >>> power_text(0.01), power_text(2000.0), power_text(1.0), power_text(10.0)
    ('10⁻²', '2·10³', '1', '10')
    """
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.3g}"
    if power in (0, 1) and digits == "1":
        return "1" + "0" * power
    raised = f"10{str(power).translate(_POWERS)}"
    return raised if digits == "1" else f"{digits}·{raised}"


def scale_axis(
    ax: Axes,
    which: Literal["x", "y"],
    limits: tuple[float, float],
    name: str = "",
    *,
    unit: str = "",
    log: bool,
) -> None:
    """Set name, limits, scale, ticks and their text of axis ``which`` ("x" or "y")."""
    axis = getattr(ax, f"{which}axis")
    ax.set(**{f"{which}scale": "log" if log else "linear", f"{which}lim": limits})
    axis.set_label_text(name, fontsize=LABEL_SIZE, color=INK)
    kinds = pyplot("gramian")
    decades = math.log10(limits[1] / limits[0]) if log else 0.0
    if decades < 0.75:
        axis.set_major_locator(kinds.MaxNLocator(5 if log else 6, steps=[1, 2, 2.5, 5, 10]))
    else:
        subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
        axis.set_major_locator(kinds.LogLocator(subs=subs, numticks=9))
    wide = log and not unit and decades > 3.0 and (limits[0] < PLAIN[0] or limits[1] > PLAIN[1])
    write = power_text if wide else partial(text_of, unit=unit)
    axis.set_major_formatter(kinds.FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(kinds.NullFormatter())
    if log and decades < 0.75:
        axis.set_minor_locator(kinds.NullLocator())
    ax.tick_params(axis=which, labelsize=NOTE_SIZE)
