"""Dates: read from text in one order of year, month and day; season, day of the week, time of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time
from functools import lru_cache

import numpy as np

from gramian._typing import Float64Array
from gramian.data.cells import DAY, days
from gramian.exceptions import InputError, quoted

YEAR_FIRST, DAY_FIRST, MONTH_FIRST = "year first", "day first", "month first"
#: Formats of a date in each order; a year has four digits, so that it is never mistaken for a day.
FORMATS = {
    YEAR_FIRST: ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d"),
    DAY_FIRST: ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y"),
    MONTH_FIRST: ("%m/%d/%Y", "%m.%d.%Y", "%m-%d-%Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y"),
}
#: Formats of a time of day after the date, in addition to the 24-hour times of ISO 8601.
TIMES = ("%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p")
_DATE_AND_TIME = re.compile(r"(.*?\d.*?)(?:(?:[Tt]|,?\s+)(\d\d?:\d\d.*))?")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_SHORT_YEAR = re.compile(r"(0?[1-9]|[12]\d|3[01])([./ -])(0?[1-9]|[12]\d|3[01]|[A-Za-z]{3,9})\2\d\d")
_EPOCH = datetime(1970, 1, 1)


def days_of_text(texts: Sequence[str], order: str) -> Float64Array:
    """Return days since 1970, in UTC if a text names a time zone; NaN if it is blank or no date.

    >>> days_of_text(["02/01/1970", "3 Jan 1970 12:00", "1970-01-02", ""], DAY_FIRST)
    array([1. , 2.5, nan, nan])
    """
    return _days([_moment(text, order) for text in texts])


def days_of_all(texts: Sequence[str], order: str) -> Float64Array | None:
    """Return the result of :func:`days_of_text`; None if a text is neither blank nor a date."""
    moments = []
    for text in texts:
        when = _moment(text, order)
        if when is None and not is_blank(text):
            return None
        moments.append(when)
    return _days(moments)


def days_in_one_order(name: str, texts: Sequence[str]) -> Float64Array:
    """Return days since 1970 of texts that are all dates in exactly one order; raise if they are not.

    >>> days_in_one_order("time", ["1970-01-02T12:00Z", "1970-01-03"])
    array([1.5, 2. ])
    """
    readings = [days for days in (days_of_all(texts, order) for order in FORMATS) if days is not None]
    if len(readings) != 1:
        why = why_no_dates(texts, ambiguous=len(readings) > 1)
        raise InputError(
            f"{name} holds text ({quoted(texts[0])}), which cannot be read as dates"
            + (f": {why}. " if why else ". ")
            + "Pass numbers or dates, or dates as text with the year first, such as 2020-01-31."
        )
    return readings[0]


def _days(moments: Sequence[datetime | None]) -> Float64Array:
    gone = np.array([when is None for when in moments], bool)
    micros = np.array([_EPOCH if when is None else when for when in moments], "datetime64[us]")
    return np.where(gone, np.nan, micros.astype(np.int64) / DAY)


def _moment(text: str, order: str) -> datetime | None:
    """Return the date and time of a text; None if it is no date in this order."""
    text = text.strip()
    if order == YEAR_FIRST and text[4:5] == text[7:8] == "-":
        try:
            return _in_utc(datetime.fromisoformat(text.removesuffix(" UTC")))
        except ValueError:
            pass  # not ISO 8601, for example one digit for the month or the hour
    parts = _DATE_AND_TIME.fullmatch(text) if _YEAR.search(text) else None
    if parts is None:
        return None
    date, clock = parts.groups()
    day = _date(date, order)
    if day is None or clock is None:
        return day
    at = _time(clock.removesuffix(" UTC"))
    return None if at is None else _in_utc(datetime.combine(day, at))


def _in_utc(when: datetime) -> datetime | None:
    """Return a time in UTC, without its zone; one without a zone as it is; None beyond the year 9999."""
    try:
        return when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return None


# Rows repeat dates and times of day, so that the last results are kept. Both sizes are chosen by hand.
@lru_cache(maxsize=1 << 14)
def _date(text: str, order: str) -> datetime | None:
    return _first_format(text, FORMATS[order])


@lru_cache(maxsize=1 << 17)
def _time(text: str) -> time | None:
    try:
        return time.fromisoformat(text if text[2:3] == ":" else f"0{text}")
    except ValueError:
        moment = _first_format(text, TIMES)
        return None if moment is None else moment.time()


def is_blank(text: str) -> bool:
    """Return whether a text is empty or only spaces: a missing value among dates."""
    return not text or text.isspace()


def why_no_dates(texts: Sequence[str], ambiguous: bool) -> str:
    """Return why a column of text is not read as dates; "" if less than half of it looks like dates.

    ``ambiguous``: every text is a date both with the day first and with the month first.
    """
    if ambiguous:
        return f"its dates, such as {quoted(texts[0])}, may have the day or the month first"
    if all(_SHORT_YEAR.fullmatch(text.strip()) for text in texts):
        return f"its dates, such as {quoted(texts[0])}, have a year of two digits"
    for order in FORMATS:
        read = ~np.isnan(days_of_text(texts, order))
        good = [text for text, date in zip(texts, read) if date]
        bad = [text for text, date in zip(texts, read) if not date]
        if bad and len(good) >= max(2, len(bad)):
            return f"{quoted(good[0])} is a date with the {order}, {quoted(bad[0])} is none"
    return ""


def _first_format(text: str, formats: Sequence[str]) -> datetime | None:
    for each in formats:
        try:
            return datetime.strptime(text, each)
        except ValueError:
            continue
    return None


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
