"""The pages that map papers to code: every file, function, class and script that they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
PAPERS = [page for page in PAGES if page.name != "index.md"]

CODE = re.compile(r"`([^`\n]+)`")
#: "src/gramian/landmarks/rules.py: lloyd" or "src/gramian/landmarks/routing.py: Partition.route".
NAMED = re.compile(r"((?:src|benchmarks)/[\w/]+\.py): ([\w.]+)")
#: What begins like one: a file that is named with a slip must not pass as prose.
BEGUN = re.compile(r"(?:src|tests|benchmarks)/")

papers = pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.name)


@cache
def definitions(path: Path) -> set[str]:
    """Return the functions and classes of a file, and the methods as Class.method."""
    kinds = ast.FunctionDef | ast.ClassDef
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, kinds):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, kinds)}
    return found


def codes(page: Path) -> list[str]:
    return [code for code in CODE.findall(page.read_text(encoding="utf-8")) if BEGUN.match(code)]


@papers
def test_named_functions_exist(page):
    named = [NAMED.fullmatch(code) for code in codes(page) if ":" in code]
    assert len(named) >= 5
    for match in named:
        assert match is not None, f"{page.name}: not 'file: name'"
        path, name = match.groups()
        assert (ROOT / path).is_file(), f"{page.name} names {path}"
        assert name in definitions(ROOT / path), f"{page.name} names {path}: {name}"


@papers
def test_named_files_and_options_exist(page):
    for code in codes(page):
        path, *options = code.split(":")[0].split()
        assert (ROOT / path).exists(), f"{page.name} names {path}"
        for option in options:
            assert f'"{option}"' in (ROOT / path).read_text(encoding="utf-8"), f"{page.name}: {code}"


def test_index_lists_every_paper():
    index = (ROOT / "docs" / "papers" / "index.md").read_text(encoding="utf-8")
    for page in PAPERS:
        assert f"({page.name})" in index
        assert f"\n{page.stem}\n" in index
