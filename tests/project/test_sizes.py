"""Sizes of the source: lines of files, files and floors of folders, parameters of functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file

SRC = Path(__file__).parents[2] / "src"
LINES, FILES, FLOORS, PARAMETERS = 400, 30, 7, 10
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))}
FOLDERS = sorted({path.parent for path in TREES})


def folder_name(folder: Path) -> str:
    return folder.relative_to(SRC).as_posix()


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, and the names that it takes from them."""
    found = set()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}", *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def longest_chain(above: dict[str, set[str]], start: str) -> list[str]:
    return [start, *max((longest_chain(above, name) for name in above[start]), key=len, default=[])]


def test_no_file_is_long():
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in TREES}
    assert {name: count for name, count in lines.items() if count > LINES} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=folder_name)
def test_a_folder_has_few_files_on_few_floors(folder: Path):
    package = folder_name(folder).replace("/", ".")
    files = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    assert len(files) <= FILES
    modules = {f"{package}.{name}": name for name in files}
    above = {
        name: {modules[module] for module in imported(path) & modules.keys()} for name, path in files.items()
    }
    assert max((longest_chain(above, name) for name in files), key=len, default=[])[FLOORS:] == []


def test_no_function_has_many_parameters():
    """Constructors aside: an estimator has as many as scikit-learn's."""
    many = {}
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [each.arg for each in given if each.arg not in ("self", "cls")]
                if len(names) > PARAMETERS:
                    many[f"{path.name}: {node.name}"] = len(names)
    assert many == {}
