"""Counts of habits that hide what a function needs, which may only fall; class names with one owner."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import gramian

SOURCE = Path(gramian.__file__).parent

#: The most that each may occur. These numbers may only fall: whoever removes some writes the new count here.
#: Instead of adding one, pass a value. Constructors of estimators need ``Any`` for what users may pass.
LIMITS = {
    "model: Any": 0,
    "Any in a signature": 123,
    "vars, setattr, __dict__": 11,
    "private names of others": 27,
}

#: Class names that two files may define, with the reason.
TWICE: dict[str, str] = {}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file of the library, by its path in the package."""
    found = sorted(SOURCE.rglob("*.py"))
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in found
    }


def signature(node: ast.AST) -> list[ast.arg]:
    """Return the parameters of a function; none for other nodes."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    given = node.args
    starred = [arg for arg in (given.vararg, given.kwarg) if arg is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]


def private(node: ast.AST) -> bool:
    """Return whether a node reads or writes ``x._name``, with x another object than the one it belongs to."""
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
        return False
    owner = node.value
    own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
    # super()._name is the object's own.
    above = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return not own and not above


def habits(node: ast.AST) -> list[str]:
    """Return the habits that a node shows."""
    found = []
    for arg in signature(node):
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        found += ["Any in a signature"] * (kind == "Any")
        found += ["model: Any"] * (arg.arg == "model" and kind in ("Any", "KernelEstimator"))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("vars", "setattr"):
        found.append("vars, setattr, __dict__")
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        found.append("vars, setattr, __dict__")
    return [*found, *(["private names of others"] * private(node))]


@cache
def counts() -> Counter[tuple[str, str]]:
    """Return how often each file shows each habit."""
    return Counter(
        (habit, file) for file, tree in trees().items() for node in ast.walk(tree) for habit in habits(node)
    )


@pytest.mark.parametrize("habit", LIMITS)
def test_habit_does_not_grow(habit):
    files = {file: count for (kind, file), count in counts().items() if kind == habit}
    most = sorted(files, key=files.__getitem__, reverse=True)[:5]
    assert sum(files.values()) <= LIMITS[habit], f"most are in {', '.join(most)}"


def test_habits_are_seen():
    tree = ast.parse(
        "def f(self, model: Any, other: KernelEstimator, *rest: Any):\n"
        "    setattr(model, 'a', vars(model)); model.__dict__\n"
        "    model._rows; self._own; super()._own; self._a._b"
    )
    seen = Counter(habit for node in ast.walk(tree) for habit in habits(node))
    assert seen == {
        "model: Any": 1,
        "Any in a signature": 2,
        "vars, setattr, __dict__": 3,
        "private names of others": 2,
    }


def test_class_name_has_one_owner():
    owners: dict[str, list[str]] = {}
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(file)
    twice = {name: files for name, files in owners.items() if len(files) > 1 and name not in TWICE}
    assert not twice, "two classes have one name; say in each name whose it is"
