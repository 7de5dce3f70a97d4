"""Pairs of values for tests: the quick suite meets every value once, the slow one every pair."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest


def pairs(first: Collection[Any], second: Collection[Any]) -> list[Any]:
    """Return every pair as a parameter; those that the quick suite does not need are marked slow."""
    once = {(k % len(first), k % len(second)) for k in range(max(len(first), len(second)))}
    return [
        pytest.param(a, b, marks=() if (i, j) in once else pytest.mark.slow)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    ]
