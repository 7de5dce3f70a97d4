"""Axes in seconds, bytes and plain numbers, with ticks that fit the range."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Literal

from gramian._budget import format_bytes
from gramian.exceptions import InputError, did_you_mean
from gramian.plotting.canvas import NOTE_SIZE, ticker

if TYPE_CHECKING:
    from gramian.plotting.canvas import Axes

#: Units of an axis: seconds, bytes, fractions as per cent, or plain numbers.
UNITS = ("s", "B", "%", "")
#: Outside this range of plain numbers all ticks are powers of ten.
PLAIN = 1e-3, 1e5
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    ax: Axes, which: Literal["x", "y"], limits: tuple[float, float], *, unit: str = "", log: bool
) -> None:
    """Set limits, scale, ticks and their text of axis ``which`` ("x" or "y")."""
    axis = getattr(ax, f"{which}axis")
    getattr(ax, f"set_{which}scale")("log" if log else "linear")
    getattr(ax, f"set_{which}lim")(limits)
    kinds = ticker()
    decades = math.log10(limits[1] / limits[0]) if log else 0.0
    if not log:
        axis.set_major_locator(kinds.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    elif decades < 0.75:
        axis.set_major_locator(kinds.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
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
