"""Outputs of scripts that pages show: stored with their origin, and shown as they were printed."""

from __future__ import annotations

import re
from pathlib import Path

import doors
import printed
import pytest
from printed_tables import TABLES

pytestmark = pytest.mark.whole  # each configuration is about another page or file

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


def test_an_output_may_be_shown_as_tables() -> None:
    text = "\n".join(
        [
            "set              d kernel  method                matrix      test        s",
            "cadata           8 wide    Nystrom, k-means     0.00062    0.5109*    0.02",
            "pendigits       16 narrow  exact                           0.0030",
        ]
    )
    tables = TABLES["which"](text)
    assert "| Nystrom, k-means | 0.00062 |  |" in tables
    assert "| exact |  | 0.0030 |" in tables
    assert tables.count("| method | cadata, wide | pendigits, narrow |") == 3
    with pytest.raises(ValueError, match="prints no such row"):
        TABLES["which"]("head\nx")
    line = "cadata 2500 rows, gamma 1:   exact 0.5 0.7 s 6 us   auto 0.6 0.3 s 5 us"
    assert "| cadata 2500 rows, gamma 1 | 0.5, 0.7 s, 6 us | 0.6, 0.3 s, 5 us |" in TABLES["crossover"](line)


#: Seconds in prose: a time that was measured belongs into a block made of a stored run.
SECONDS = re.compile(
    r"(?<![\w.`=\"-])\d[\d,.]*\s?(?:s|ms|ns|µs|seconds?|minutes?|(?:milli|micro|nano)seconds)(?![\w`])"
)
MADE = re.compile(
    r"<!-- (?:printed|measured|table|frontier): .*?<!-- (?:end|table: end) -->|^```.*?^```",
    re.DOTALL | re.MULTILINE,
)
#: Pages that scripts write as a whole, with tests of their own.
WRITTEN = {"side-by-side.md", "tables-benchmark.md", "tables-full-size.md"}
#: Times that nobody measured: limits and promises, a paper's own, a worked example of a formula.
SAID = (
    "1.2 times the limit plus two seconds",
    "`timeout` (60 s)",
    "c = 9 µs",
    "10⁹ · 9 µs / 128",
    "32 · 1 GB/s) = 7.5 s",
    "reads every two milliseconds",
    "in 550 s and 500 MB",
    "at most 1.2 · s + 2 seconds",
    "takes more than 60 seconds of processor",
)


@pytest.mark.parametrize("page", printed.pages(), ids=lambda page: page.name)
def test_prose_has_no_measured_seconds(page: Path) -> None:
    if page.name in WRITTEN:
        assert "do not edit" in page.read_text(encoding="utf-8")
        return
    prose = MADE.sub("", page.read_text(encoding="utf-8"))
    found = [line for line in prose.splitlines() if SECONDS.search(line)]
    assert not [line for line in found if not any(said in line for said in SAID)]


def test_the_readme_copies_no_measurements() -> None:
    readme = MADE.sub("", (printed.REPOSITORY / "README.md").read_text(encoding="utf-8"))
    rows = [row for row in readme.splitlines() if row.startswith("|")]
    assert rows
    assert not [row for row in rows if re.search(r"\|\s*[\d.]+\s*\|", row)]


# ---- the numbers of the four doors ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", doors.pages(), ids=lambda page: page.name)
def test_pages_of_doors_show_what_is_stored(page: Path) -> None:
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


# ---- stored lines of bands say what ran where -------------------------------------------------------


@pytest.mark.parametrize("name", ["row_scale.jsonl", "spatial.jsonl"])
def test_stored_lines_say_what_ran_where(name: str) -> None:
    for line in doors.stored(name):
        assert "failed" in line or (line["commit"] and line["machine"] and line["versions"]["gramian"])


def test_stored_bands_are_of_thirds() -> None:
    for line in doors.stored("row_scale.jsonl"):
        assert len(line["factors of rows"]["thirds"]) == 3
