"""Outputs of scripts that pages show: stored with their origin, and shown as they were printed."""

from __future__ import annotations

from pathlib import Path

import printed
import pytest

FIELDS = {"name", "command", "text", "seconds", "threads", "commit", "versions", "machine", "date"}


def test_every_stored_output_says_what_ran_where() -> None:
    for name, line in printed.read().items():
        assert set(line) == FIELDS
        assert all(line[field] for field in FIELDS)
        assert line["command"] == f"python benchmarks/{printed.SCRIPTS[name]}"
        assert (Path(printed.__file__).parent / printed.SCRIPTS[name].split()[0]).exists()


@pytest.mark.parametrize("page", printed.pages(), ids=lambda page: page.name)
def test_pages_show_what_is_stored(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert printed.filled(text, printed.read()) == text


def test_a_page_is_filled() -> None:
    page = "before\n<!-- printed: tiles -->\nold\n<!-- end -->\nafter\n"
    line = {
        "text": "a 1\nb 2",
        "command": "python benchmarks/tiles.py",
        "date": "2026-01-01",
        "commit": "abc",
        "machine": "M",
    }
    new = printed.filled(page, {"tiles": line})
    assert "```text\na 1\nb 2\n```" in new
    assert "Stored run: 2026-01-01, commit abc, M." in new
    assert new.startswith("before\n<!-- printed: tiles -->\n")
    assert new.endswith("<!-- end -->\nafter\n")
    assert printed.filled(new, {"tiles": line}) == new
    with pytest.raises(KeyError):
        printed.filled(page, {})
