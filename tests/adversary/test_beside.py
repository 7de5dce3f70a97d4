"""Checks beside the cases: some of each kind, and their summary."""

from __future__ import annotations

import pytest

from adversary import beside


def test_csv_text_is_what_another_parser_reads():
    pytest.importorskip("pyarrow")
    outcomes = [beside.judged("CSV text", 3, number) for number in range(20)]
    assert not [one.failure for one in outcomes if one.failure]


def test_mutated_model_files_are_refused_or_answer():
    outcomes = [beside.judged("mutated model files", 3, number) for number in range(6)]
    assert not [one.failure for one in outcomes if one.failure]


@pytest.mark.slow
@pytest.mark.parametrize("kind", beside.COVERED)
def test_small_samples_are_covered(kind):
    found = beside.summary([beside.judged(kind, 3, number) for number in range(8)])
    assert not found[kind]["failures"]
    assert found[kind]["covered"] > 0.8


def test_a_failure_and_low_coverage_are_told():
    right = [
        beside.Outcome("sets of tables", number, covered=0.9 + 0.01 * (number % 2)) for number in range(9)
    ]
    low = [beside.Outcome("sets of tables", number, covered=0.5 + 0.01 * (number % 2)) for number in range(9)]
    wrong = [beside.Outcome("CSV text", 4, "Broken: rows")]
    assert beside.summary(right)["sets of tables"]["failures"] == []
    found = beside.summary([*low, *wrong])
    assert found["CSV text"] == {"checks": 1, "failures": ["CSV text 4: Broken: rows"]}
    assert found["sets of tables"]["failures"][0].startswith("sets of tables cover 0.504")
    assert beside.tasks(50).count(("CSV text", 4)) == 1
