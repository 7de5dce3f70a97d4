"""Sizes of the package, and what its calls enter: figures that may only fall."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter

import house
import pytest

#: Whoever makes a figure smaller writes the new one here. A step that makes one larger says why in its
#: commit, and pays it back.
MOST = {
    "classes": 483,
    "dataclasses": 324,
    "files": 363,
    "files with clock": 68,
    "files with engine": 130,
    "files with generator": 105,
    "files with progress": 73,
    "functions": 3_778,
    "functions of many parameters": 60,
    "nodes": 510_886,
    "protocols": 8,
    "statements": 40_252,
    "tokens": 473_807,
}
#: Functions and files that a call enters, and how deep it goes. Other versions of scikit-learn and NumPy may
#: take other ways, so that some more are let through.
WALKS = {
    "KernelRidge.fit": (276, 57, 16),
    "KernelRidge.predict": (68, 23, 17),
    "MEKA.fit": (220, 42, 16),
    "MEKA.operator_ @ v": (22, 7, 7),
    "KernelSVC.fit": (325, 56, 21),
    "GaussianProcessRegressor.fit": (336, 60, 23),
    "GaussianProcessRegressor.predict": (96, 28, 18),
    "compress": (237, 40, 24),
    "TabularClassifier.fit": (555, 95, 32),
    "TabularClassifier.predict": (142, 39, 25),
}
MORE = {"functions": 10, "files": 2, "depth": 2}


@pytest.mark.whole
@pytest.mark.parametrize("figure", MOST)
def test_the_package_does_not_grow(figure: str) -> None:
    count = house.inventory()[figure]
    assert count <= MOST[figure], f"{figure}: {count:,}. If an addition needs them, raise MOST and say why."


@pytest.mark.slow
def test_calls_enter_no_more_than_they_did() -> None:
    for package in ("numba", "pandas"):
        pytest.importorskip(package)
    done = subprocess.run([sys.executable, house.__file__], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)["walks"]
    most = {
        name: {each: count + MORE[each] for each, count in zip(MORE, counts, strict=True)}
        for name, counts in WALKS.items()
    }
    assert found.keys() == most.keys()
    over = {
        (name, each): count
        for name, counts in found.items()
        for each, count in counts.items()
        if count > most[name][each]
    }
    assert over == {}


def test_kinds_of_things_are_seen() -> None:
    tree = ast.parse(
        "@dataclass(frozen=True)\nclass A(Protocol):\n    def f(self, a, b, c, d, e, g, h): return a\n"
        "class B:\n    def __init__(self, a, b, c, d, e, g, h): pass\n"
    )
    seen = Counter(kind for node in ast.walk(tree) for kind in house.kinds(node))
    assert seen == {
        "statements": 6,
        "classes": 2,
        "dataclasses": 1,
        "protocols": 1,
        "functions": 2,
        "functions of many parameters": 1,
    }


def test_a_call_enters_its_functions_in_order() -> None:
    from gramian._budget import format_bytes, parse_bytes

    way = house.entered(lambda: (format_bytes(1), parse_bytes("1MB")))
    names = [function for _, _, function in way]
    assert names.index("format_bytes") < names.index("parse_bytes")
    assert {file for _, file, _ in way} >= {"_budget.py"}
    assert way[0][0] == 0
