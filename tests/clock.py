"""A clock that only counted work moves, for tests of time limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest


class Clock:
    """Seconds that pass by counted work alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._monkeypatch = 1000.0, monkeypatch
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def moved_by(self, where: Any, name: str, seconds: Callable[..., float]) -> None:
        """Let each call of a function take so many seconds, by its arguments."""
        real = getattr(where, name)

        def slow(*given: Any, **options: Any) -> Any:
            self.now += seconds(*given, **options)
            return real(*given, **options)

        self._monkeypatch.setattr(where, name, slow)
