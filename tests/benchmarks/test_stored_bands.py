"""Stored lines of bands say what ran where; tests/benchmarks/test_doors.py compares them with the pages."""

from __future__ import annotations

import doors
import pytest


@pytest.mark.parametrize("name", ["row_scale.jsonl", "spatial.jsonl"])
def test_stored_lines_say_what_ran_where(name: str) -> None:
    for line in doors.stored(name):
        assert "failed" in line or (line["commit"] and line["machine"] and line["versions"]["gramian"])


def test_stored_bands_are_of_thirds() -> None:
    for line in doors.stored("row_scale.jsonl"):
        assert len(line["factors of rows"]["thirds"]) == 3
