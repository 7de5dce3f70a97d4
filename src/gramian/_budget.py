"""Byte counts as people write them: ``"200MB"`` in, ``"200 MB"`` out."""

from __future__ import annotations

import numbers
import re

from gramian.exceptions import InputError, quoted

_PATTERN = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(?:([kmgt])(i?))?b?\s*", re.IGNORECASE)


def parse_bytes(budget: str | float | int, name: str = "memory_budget") -> int:
    """Return a number of bytes.

    Accepts a positive number of bytes or a string such as ``"200MB"``, ``"1.5 GB"``, ``"64MiB"``; ``name`` is
    the parameter that an error names.

    >>> parse_bytes("200MB"), parse_bytes("1KiB"), parse_bytes(4096)
    (200000000, 1024, 4096)
    """
    if isinstance(budget, str):
        match = _PATTERN.fullmatch(budget)
        if match is None:
            raise InputError(
                f"{name}={quoted(budget)} is not a size. Give bytes as a number or a string "
                "such as '200MB', '1.5GB' or '64MiB'."
            )
        number, unit, binary = match.groups()
        power = 1 + "kmgt".index(unit.lower()) if unit else 0
        size = float(number) * (1024 if binary else 1000) ** power
    elif isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise InputError(
            f"{name}={quoted(budget)} has type {type(budget).__name__}. Give bytes as a number "
            "or a string such as '200MB'."
        )
    else:
        size = float(budget)
    if not 1 <= size < float("inf"):
        raise InputError(f"{name}={quoted(budget)} is not a positive, finite number of bytes (at least 1).")
    return int(size)


def format_bytes(size: float) -> str:
    """Write a byte count with three figures.

    >>> format_bytes(123_456_789), format_bytes(512)
    ('123 MB', '512 B')
    """
    for unit, base in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * base:  # what three figures round up to the next unit
            return f"{size / base:.3g} {unit}"
    return f"{size:.0f} B"
