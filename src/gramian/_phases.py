"""Phases of a fit, and functions that count what is done in them: the interface of progress bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Function that is told how many more rows (or steps) are done.
Progress = Callable[[int], object]


class Counter(Protocol):
    """Function that is told how many more rows are done, and news about them."""

    def __call__(self, done: int, news: str = "") -> object:
        """Count what is done; ``news`` are shown beside it, such as the best score so far."""


class Phases(Protocol):
    """Function that begins a phase of a fit, and returns the one that counts what is done in it."""

    def __call__(self, phase: str, total: int | None = None, *, unit: str = "rows") -> Counter:
        """Begin a phase that has ``total`` rows or other units to do; None if nobody knows."""


def silent(phase: str, total: int | None = None, *, unit: str = "rows") -> Counter:
    """Begin a phase that nobody watches."""
    return uncounted


def uncounted(done: int, news: str = "") -> None:
    """Count nothing."""


def named(phases: Phases, name: str) -> Phases:
    """Return a function that begins the phases of a part of a fit, with the part's name before theirs."""

    def begin(phase: str, total: int | None = None, *, unit: str = "rows") -> Counter:
        return phases(f"{name}, {phase}", total, unit=unit)

    return begin
