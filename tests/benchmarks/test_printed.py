"""Outputs of scripts that pages show: stored with their origin, and shown as they were printed."""

from __future__ import annotations

import re
from pathlib import Path

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
