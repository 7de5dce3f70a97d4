"""The rule that says when compiled loops take the place of NumPy's and SciPy's, and exponentials by either.

Loops are compiled by numba, if it is installed. Importing it takes half a second and 30 MB, once a process,
and each loop takes a second to compile, once a machine, so small problems are left to NumPy. The rule knows
only the size of a problem, never what was computed before, so that the same input gives the same bits. Only
loops that give NumPy's bits, such as walks through trees, also run where numba is imported already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from gramian._typing import FloatArray

#: Entries of a block, or of a product with one, from which compiled loops are used. They save 1 to 30
#: nanoseconds an entry (``benchmarks/tiles.py``), and must save more than numba's import takes.
LEAST_ENTRIES = 50_000_000
#: Exponents under which an exponential is 0, by the bytes of a number: products of such a value with
#: coefficients would soon be subnormal. :mod:`gramian._loops` repeats them.
_LEAST_EXPONENT = {4: -69.0, 8: -650.0}

_large = ContextVar("large", default=False)


@cache
def available() -> bool:
    """Return whether numba is installed and not switched off by NUMBA_DISABLE_JIT, without importing it."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and find_spec("numba") is not None


@contextmanager
def part_of_block(n_rows: int, n_columns: int) -> Iterator[None]:
    """Use compiled loops in the body for all tiles of a block, in every thread, if it has many entries.

    What is part of something large stays so: a fit of many small blocks says how many entries they have.
    """
    before = _large.set(_large.get() or n_rows * n_columns >= LEAST_ENTRIES)
    try:
        yield
    finally:
        _large.reset(before)


def compiles() -> bool:
    """Return whether the tiles of the block at hand are computed by compiled loops."""
    return _large.get() and compiled_loops() is not None


def at_hand(n_steps: int) -> bool:
    """Return whether a loop of so many steps that NumPy takes to the same bits is compiled.

    As the bits are the same, this may depend on whether numba is imported already.
    """
    return ("gramian._loops" in sys.modules or n_steps >= LEAST_ENTRIES) and compiled_loops() is not None


@cache
def compiled_loops() -> ModuleType | None:
    """Return :mod:`gramian._loops`, which imports numba; None without it."""
    if not available():
        return None
    try:
        from gramian import _loops
    except ImportError:  # a numba that does not fit this NumPy
        return None
    return _loops


def run(name: str, *arguments: object) -> None:
    """Call a loop of :mod:`gramian._loops`."""
    loop: Callable[..., None] = getattr(compiled_loops(), name)
    try:
        loop(*arguments)
    except OSError:
        # The disk is full, say: the loop was compiled and not run, and could not be cached.
        loop(*arguments)


def map_by_loop(name: str, t: FloatArray, *numbers: float) -> bool:
    """Replace the numbers of a tile by a compiled loop; return False, so that NumPy does, if none is used."""
    if not compiles():
        return False
    whole = np.ascontiguousarray(t)
    run(name, whole.reshape(-1), *(t.dtype.type(number) for number in numbers))
    if whole is not t:
        t[...] = whole
    return True


def exp_in_place(t: FloatArray) -> None:
    """Replace t by exp(t), and by 0 where that is under 1e-30 (float32) or 1e-282 (float64).

    On many processors values so small that they lose digits (subnormal ones) take an exponential ten times as
    long, and a matrix product that meets them a hundred times as long. If t has such values, NumPy's others
    become smaller by 1e-30 (1e-282), which changes no digit of a value above 1e-22 (1e-266).
    """
    if map_by_loop("exponential", t):
        return
    least = _LEAST_EXPONENT[t.dtype.itemsize]
    if not t.size or t.min() >= least:
        np.exp(t, out=t)
        return
    # np.clip is three times as fast as np.maximum, which is slow for a single number.
    np.clip(t, least, np.inf, out=t)
    np.exp(t, out=t)
    # Subtracting the floor takes a third of the time of a product with a mask.
    t -= np.exp(np.full(1, least, t.dtype))
