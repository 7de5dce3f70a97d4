"""Features of a date: days since 1970, season, day of the week, time of day."""

from __future__ import annotations

import numpy as np

from gramian._typing import Float64Array
from gramian.data.cells import days

SEASON, WEEKDAY, HOUR = "season", "weekday", "time of day"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Number of encoded columns of each part.
WIDTHS = {SEASON: 2, WEEKDAY: 7, HOUR: 2}
#: Days that dates must span for each part to be used: a year, four weeks, two days. Chosen by hand.
LEAST_SPAN = {SEASON: 365.0, WEEKDAY: 28.0, HOUR: 2.0}
YEAR = 365.2425


def parts_of(sample: Float64Array) -> tuple[str, ...]:
    """Return the parts of a date that are worth encoding besides the date itself (days since 1970).

    A part is used if the dates span enough time (:data:`LEAST_SPAN`) and differ in it: dates that are all at
    midnight have no time of day, dates that are all Mondays no day of the week.

    >>> parts_of(np.arange(0.0, 800.0))
    ('season', 'weekday')
    """
    if not len(sample):
        return ()
    span = float(sample.max() - sample.min())
    differ = {
        SEASON: True,
        WEEKDAY: len(np.unique(weekday(sample))) > 1,
        HOUR: bool(np.any(sample % 1.0 != sample[0] % 1.0)),
    }
    return tuple(part for part in WIDTHS if span >= LEAST_SPAN[part] and differ[part])


def part_values(part: str, when: Float64Array) -> Float64Array:
    """Return one part of dates in days since 1970, shape (n, columns); a missing date (NaN) gives zeros.

    Season: (sin, cos) of 2π·(day of the year)/365.2425. Weekday: one column of 0 and 1 for each day, Monday
    first. Time of day: (sin, cos) of 2π·(fraction of the day). Zeros are the centre of the circle, equally
    far from all its points. Time O(n).
    """
    gone = np.isnan(when)
    known = np.where(gone, 0.0, when)
    if part == WEEKDAY:
        out = (weekday(known)[:, None] == np.arange(7)).astype(np.float64)
    else:
        turn = known % 1.0 if part == HOUR else (_day_of_year(known) + known % 1.0) / YEAR
        out = np.column_stack([np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)])
    out[gone] = 0.0
    return out


def weekday(when: Float64Array) -> Float64Array:
    """Return 0 for Monday to 6 for Sunday: day 0, the first of January 1970, was a Thursday."""
    return (np.floor(when) + 3.0) % 7.0


def _day_of_year(when: Float64Array) -> Float64Array:
    whole = days(when)
    return (whole - whole.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
