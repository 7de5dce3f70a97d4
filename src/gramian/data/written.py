"""Text that a person reads as numbers or times of day, such as "$1,234.50", "12.5 %" and "08:30"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gramian.data.missing import MARKERS
from gramian.exceptions import quoted

_BEFORE = r"[-+−(]?\s?([A-Za-z]{0,3}[^\w\s.,()+−-]\s?|[A-Z]{3}\s)?[-+−]?\s?"  #: sign and currency
_DIGITS = r"(?!0\d)(\d{1,3}([.,'’_\s]\d{2,3})+|\d+)?([.,]\d+)?"  #: grouped or not, with any decimal mark
_AFTER = r"(\s?[^\w\s.,()]{1,2}[CF]?|[kKM]|[a-zµ]{2,3}|\s[^\W\d]{1,8}\.?)?"  #: currency, per cent, a unit
_NUMBER = re.compile(rf"(?=.*\d){_BEFORE}{_DIGITS}(?P<unit>{_AFTER}),?-?\)?")
_CLOCK = re.compile(r"\d{1,2}:[0-5]\d(:[0-5]\d([.,]\d+)?)?(\s?[AaPp]\.?[Mm]\.?)?")
#: Most different units, none counted as one. Texts such as street addresses end in more words.
_MOST_UNITS = 3
_ADVICE = {
    "numbers": "Store plain numbers, such as 1234.5: a decimal point, no currency, per cent sign or grouped "
    "digits",
    "times of day": "Store numbers, such as the hours since midnight: 8.5 for 08:30",
}


def written_kind(texts: Iterable[str]) -> str:
    """Return what all texts are but marks of missing values: "numbers", "times of day" or "" (others).

    >>> [written_kind(each) for each in (["$1,234.50", "-"], ["10 000", "9"], ["8:30"], ["A12"], ["007"])]
    ['numbers', 'numbers', 'times of day', '', '']
    """
    present = _present(texts)
    if present and all(map(_CLOCK.fullmatch, present)):
        return "times of day"
    matches = [_NUMBER.fullmatch(text) for text in present]
    units = {match and match["unit"].strip() for match in matches}
    return "numbers" if matches and None not in units and len(units) <= _MOST_UNITS else ""


def written_advice(texts: Iterable[str]) -> str:
    """Return what texts look like and how to store them, as the end of an error; "" for other texts."""
    kind = written_kind(present := _present(texts))
    return f"They look like {kind}, such as {quoted(present[0])}. {_ADVICE[kind]}." if kind else ""


def _present(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip().lower() not in MARKERS]
