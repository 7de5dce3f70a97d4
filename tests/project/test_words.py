"""Wording of the source: every module opens with a sentence that says what the file provides."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
