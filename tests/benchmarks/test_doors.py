"""The numbers of the four doors: shown as the stored results say, and each with a page of its own."""

from __future__ import annotations

import re
from pathlib import Path

import doors
import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file


@pytest.mark.slow
@pytest.mark.parametrize("page", doors.pages(), ids=lambda page: page.name)
def test_pages_show_what_is_stored(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert doors.filled(text, doors.way(page)) == text, "run python benchmarks/doors.py"


@pytest.mark.slow
def test_every_door_has_a_page_that_opens_with_what_it_calls() -> None:
    for door in doors.doors():
        page = (doors.ROOT / "docs" / f"{door.page}.md").read_text(encoding="utf-8")
        code = page.partition("```python")[2].partition("```")[0]
        assert any(f"{name}(" in code for name in re.findall(r"`(\w+)`", door.calls))
        assert page.index("```python") < page.index("\n## ")
        assert re.search(r"^## (?:Limits|When not)", page, re.MULTILINE)
        assert re.search(r"\d", door.measured)


def test_every_block_stands_on_a_page() -> None:
    shown = {found[2] for page in doors.pages() for found in doors.MARKED.finditer(page.read_text("utf-8"))}
    assert shown >= set(doors.BLOCKS)


def test_blocks_of_other_scripts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "BLOCKS", {"mine": lambda docs: [f"{docs}new"]})
    page = (
        "<!-- measured: mine -->\nold\n<!-- end -->\n<!-- measured: kals, table 2 -->\nkept\n<!-- end -->\n"
    )
    text = doors.filled(page, "docs/")
    assert "\n\ndocs/new\n\n<!-- end -->" in text
    assert "old" not in text
    assert "kept" in text
    assert doors.filled(text, "docs/") == text


def test_links_lead_to_the_pages() -> None:
    docs = doors.ROOT / "docs"
    ways = [
        doors.way(page) for page in (doors.ROOT / "README.md", docs / "index.md", docs / "papers" / "kals.md")
    ]
    assert ways == ["docs/", "", "../"]
