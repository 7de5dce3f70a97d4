"""The papers' stored lines, the pages made of them, and what a wrong name on the command line says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import reproduce
from papers.catalogue import PAPERS, chosen
from papers.items import Item, Paper, Run, Value
from papers.lines import RESULTS, measure, of_item, read
from papers.page import filled, marked

from gramian.exceptions import InputError

DOCS = Path(__file__).parents[2] / "docs"
FIELDS = {
    "paper": str,
    "item": str,
    "set": str,
    "method": str,
    "setting": dict,
    "measure": str,
    "value": float,
    "published": (float, int, type(None)),
    "seconds": (float, int, type(None)),
    "commit": str,
    "versions": dict,
    "machine": str,
    "date": str,
}


def two_values(name, run):
    for n in (1, 2):
        yield Value("ours", "relative error", n / 8, {"rank": 10 * n}, published=n / 4, seconds=0.5)


TABLE = Item("table 9", ("a", "b"), two_values)
FIGURE = Item("figure 9", ("a",), two_values, across="rank", verdict=lambda lines: f"{len(lines)} points.")
PAPER = Paper("kals", "kals.md", (TABLE, FIGURE))


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "lines.jsonl"
    for item in PAPER.items:
        for name in item.sets:
            assert len(list(measure(PAPER, item, name, Run(), path, 1))) == 2
    return path


def test_lines_say_what_ran_where(stored):
    lines = read(stored)
    assert len(lines) == 6
    for line in lines:
        assert list(line) == list(FIELDS)
        assert all(isinstance(line[name], kind) for name, kind in FIELDS.items())


def test_a_second_run_replaces_the_first(stored):
    list(measure(PAPER, TABLE, "a", Run(), stored, 1))
    assert len(read(stored)) == len(stored.read_text().splitlines()) == 6


def test_an_interrupted_item_leaves_the_earlier_lines(stored):
    def fails(name, run):
        yield from list(two_values(name, run))[:1]
        raise KeyboardInterrupt

    before = stored.read_text()
    with pytest.raises(KeyboardInterrupt):
        list(measure(PAPER, Item("table 9", ("a",), fails), "a", Run(), stored, 1))
    assert stored.read_text() == before


def test_a_page_is_filled_between_its_markers(stored):
    page = "before\n<!-- measured: kals, table 9 -->\nold\n<!-- end -->\nafter\n"
    text = filled(page, [PAPER], read(stored), "figures")
    assert marked(text) == [("kals", "table 9")]
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert filled(text, [PAPER], read(stored), "figures") == text


def test_wrong_names_are_answered_with_the_known_ones():
    assert list(chosen([PAPER], None, None)) == [(PAPER, TABLE), (PAPER, FIGURE)]
    assert list(chosen([PAPER], ["kals"], ["figure 9"])) == [(PAPER, FIGURE)]
    with pytest.raises(InputError, match=r"there is no paper 'kal'.*Did you mean 'kals'"):
        list(chosen([PAPER], ["kal"], None))
    with pytest.raises(InputError, match="there is no item 'table 8'"):
        list(chosen([PAPER], None, ["table 8"]))


# ---- what is stored in the repository -----------------------------------------------------------


def test_stored_lines_are_complete():
    for text in RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else ():
        line = json.loads(text)
        assert list(line) == list(FIELDS)
        assert all(isinstance(line[name], kind) for name, kind in FIELDS.items()), line
        known = next(paper for paper in PAPERS if paper.key == line["paper"]).item(line["item"])
        assert known is not None, f"no script makes {line['paper']}, {line['item']}"


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if marked(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_those_of_the_stored_lines(page):
    text = page.read_text(encoding="utf-8")
    way = reproduce.way_to_pictures(page, DOCS)
    wrong = f"run python benchmarks/reproduce.py --report: {page.name} is not what the stored lines say"
    assert filled(text, PAPERS, read(RESULTS), way) == text, wrong


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_every_item_stands_on_its_papers_page(paper):
    shown = marked((DOCS / "papers" / paper.page).read_text(encoding="utf-8"))
    lines = read(RESULTS)
    for item in paper.items:
        assert (paper.key, item.name) in shown, f"{item.name} does not stand on {paper.page}"
        assert of_item(lines, paper.key, item.name), f"{item.name} has no stored line"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_prose_of_a_papers_page_has_no_measured_numbers(paper):
    """A number with a decimal point outside a made table is one that no stored line holds."""
    text = (DOCS / "papers" / paper.page).read_text(encoding="utf-8")
    text = re.sub(r"<!-- measured:.*?<!-- end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\b[Ss]ections? \d[\d.]*", "", text)
    found = re.findall(r"\b\d+\.\d+\b", text)
    assert not found, f"{paper.page} says {found}; let a marker print them from stored lines"
