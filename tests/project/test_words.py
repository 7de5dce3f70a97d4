"""Wording: modules say what they provide, and pages keep to plain English."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "tools", "docs/_ext")
#: "What the estimators share" names no thing: a reader of file lists learns nothing from it.
RIDDLE = re.compile(r"(?:What|How|Where|Which|Whether|Who|Why|When)\b")


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_say_what_they_provide(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    openings = {
        path.relative_to(ROOT).as_posix(): ast.get_docstring(tree) or "" for path, tree in trees.items()
    }
    if folder == "src":
        assert [name for name, text in openings.items() if not text] == []
    assert {name: text for name, text in openings.items() if RIDDLE.match(text)} == {}


#: Text that scripts make, and fenced blocks: neither is prose.
MADE = re.compile(
    r"<!-- (?:printed|measured|table|frontier): .*?<!-- (?:end|table: end) -->|^(`{3,}|:{3,}).*?^\1$",
    re.DOTALL | re.MULTILINE,
)
#: Riddles of the guide to style, and what to write instead.
BETTER = {
    r"\b[Tt]he (?:former|latter)\b": "repeat the noun",
    r"\b[Tt]heirs\b": "repeat the noun",
    r", of which\b": "begin a new sentence",
    r"\bfeatures of which\b": "begin a new sentence",
    r"\brows? that judges?\b|\bthe judges\b|\ba judge\b": "validation rows, or held-out rows",
    r"\bgaps as\b|\bwords and gaps\b|\b(?:have|dates and|or no and) gaps\b": "missing values",
    r"\byes or no and\b": "boolean columns",
    r"\bbut that (?:of|rounds)\b|\bbut for `": "except",
    r"\bfor nobody\b": "because nobody",
    r"\bnone that is least\b": "no minimum",
    r"^As for :": "say it here",
    r"^What (?!is\b|happens\b|we\b|to\b|not\b|they\b|the\b|growth\b|new\b)[a-z]+ ": "name the thing",
}
#: Pages that a script writes as a whole, and lists of changes.
NOT_PROSE = {"side-by-side.md", "tables-benchmark.md", "tables-full-size.md", "changelog.md"}
PAGES = [
    path
    for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
    if not {"auto_examples", "generated"} & set(path.parts) and path.name not in NOT_PROSE
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_are_in_plain_english(page):
    text = MADE.sub(lambda made: "\n" * made[0].count("\n"), page.read_text(encoding="utf-8"))
    found = [
        f"line {number}: {match[0].strip()!r}: {advice}"
        for number, line in enumerate(text.splitlines(), 1)
        for riddle, advice in BETTER.items()
        if (match := re.search(riddle, line))
    ]
    assert found == []


def test_the_readme_fits_a_screen_or_two():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize(
    ("bad", "fine"),
    [
        ("A table of words and gaps.", "The gap grows with gamma."),
        ("Rows that judge.", "How to judge the result."),
        ("Three blocks, of which two are small.", "The text of which it consists."),
        ("As for :class:`X`.", "It works as for rows."),
    ],
)
def test_riddles_are_found(bad, fine):
    assert any(re.search(riddle, bad, re.IGNORECASE) for riddle in BETTER)
    assert not any(re.search(riddle, fine) for riddle in BETTER)


#: Pages of one table or one picture, indexes, and pages that are to be rewritten.
NO_PROMISE = {
    "index.md",
    "chooser.md",
    "other-words.md",
    "layers.md",
    "how-to.md",
    "security.md",
    "contributing.md",
}
FIRST_OF_ALL = [
    path
    for path in PAGES
    if path.parent in (ROOT / "docs", ROOT / "docs" / "tutorials", ROOT / "docs" / "explanations")
    and (path.name not in NO_PROMISE or path.parent.name in ("tutorials", "explanations"))
]


@pytest.mark.parametrize("page", FIRST_OF_ALL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_begin_with_what_the_reader_can_do(page):
    opening = page.read_text(encoding="utf-8")[:500]
    assert re.search(r"After th(?:is|ese) (?:page|tutorial)s? you|\bYou (?:fit|build|train|have)\b", opening)
