"""The script that tries constants: which it finds, what it tries, and that a module gets the other number."""

from __future__ import annotations

import ast

import pytest
from constants import Changed, Constant, bound, constants, read_by


@pytest.mark.parametrize(
    ("value", "others"),
    [(0.8, {"half": 0.4, "twice": 0.9}), (0.1, {"half": 0.05, "twice": 0.2}), (1, {"twice": 2})],
)
def test_half_and_twice(value, others):
    assert Constant("a.py", "A", value).others() == pytest.approx(others)


def test_names_of_a_tuple_are_found_and_others_are_not():
    found = dict(bound(ast.parse("A, B = 1, 2.5\nC: int = 3\nd = 4\nE.F = 5")))
    assert {name: ast.unparse(node) for name, node in found.items()} == {"A": "1", "B": "2.5", "C": "3"}


def test_a_module_gets_the_other_number():
    rate = next(one for one in constants() if one.key == "tables/training/boosting.py PATIENCE")
    code = Changed(rate, 7).get_code(rate.module)
    lines = {line for constant in code.co_consts if isinstance(constant, tuple) for line in constant}
    assert 7 in lines
    assert rate.value not in lines


def test_readers_are_found_in_bodies_and_defaults():
    ran = [("tables/training/boosting.py", ("PATIENCE", "STEP"))]
    assert {"PATIENCE", "STEP"} <= {one.name for one in read_by(ran)}
