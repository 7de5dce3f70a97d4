"""Byte counts as people write them: ``"200MB"`` in, ``"200 MB"`` out."""

from __future__ import annotations

import ctypes
import numbers
import os
import re
import sys
from functools import cache

from gramian.exceptions import InputError, quoted

#: From this size on, a freed array goes back to the system at once. NumPy asks for huge pages for such
#: arrays, so that allocating a new one costs little. Chosen by hand.
LARGE_BYTES = 1 << 22
#: Bytes per thread that belong to no array: the buffers of BLAS, and freed tiles that malloc keeps. A guess,
#: not measured on its own; tests/promises/test_memory.py measures whole fits.
UNSEEN_BYTES = 4_000_000
#: Names of options of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

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


@cache
def give_back_early() -> None:
    """Tell the C library to give freed arrays of over 4 MB back to the system at once, from now on.

    By default glibc keeps up to 64 MB of freed memory for each thread, so that a fit within its budget could
    take twice as much of the machine. Smaller arrays, such as tiles, are still kept and used again. Nothing
    changes on systems without glibc, or where environment variables configure malloc.
    """
    set_already = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or set_already:
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(_TRIM_THRESHOLD, 2 * LARGE_BYTES)


def give_back() -> None:
    """Give memory that is freed already, but that the C library keeps, back to the system. Takes under 1 ms.

    Useful after work in pieces of under ``LARGE_BYTES``, which :func:`give_back_early` does not concern. Does
    nothing on systems without glibc.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def format_bytes(size: float) -> str:
    """Write a byte count with three figures.

    >>> format_bytes(123_456_789), format_bytes(512)
    ('123 MB', '512 B')
    """
    for unit, base in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * base:  # three figures would round it up to the next unit
            return f"{size / base:.3g} {unit}"
    return f"{size:.0f} B"
