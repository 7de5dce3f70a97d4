"""Figures are closed after each test of this folder."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
