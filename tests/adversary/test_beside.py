"""Checks beside the cases: some of each kind, and their summary."""

from __future__ import annotations

import pytest

import gramian as gm
from adversary import beside, processes, tables
from gramian.gp.calibration import BandCheck
from gramian.tables import classifier, holdout, regressor


def test_csv_text_is_what_another_parser_reads():
    pytest.importorskip("pyarrow")
    outcomes = [beside.judged("CSV text", 3, number) for number in range(20)]
    assert not [one.failure for one in outcomes if one.failure]


def test_mutated_model_files_are_refused_or_answer():
    outcomes = [beside.judged("mutated model files", 3, number) for number in range(6)]
    assert not [one.failure for one in outcomes if one.failure]


@pytest.mark.parametrize("kind", [*tables.CHECKS, *processes.CHECKS])
def test_a_law_of_data_holds(kind):
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    assert not beside.judged(kind, 3, 0).failure


@pytest.mark.slow
@pytest.mark.parametrize("kind", beside.COVERED)
def test_small_samples_are_covered(kind):
    found = beside.summary([beside.judged(kind, 3, number) for number in range(8)])
    assert not found[kind]["failures"]
    assert found[kind]["mean"] > 0.8


def test_a_failure_and_low_coverage_are_told():
    right = [beside.Outcome("sets of tables", number, value=0.9 + 0.01 * (number % 2)) for number in range(9)]
    low = [beside.Outcome("sets of tables", number, value=0.5 + 0.01 * (number % 2)) for number in range(9)]
    wrong = [beside.Outcome("CSV text", 4, "Broken: rows")]
    assert beside.summary(right)["sets of tables"]["failures"] == []
    found = beside.summary([*low, *wrong])
    assert found["CSV text"] == {"checks": 1, "failures": ["CSV text 4: Broken: rows"]}
    assert found["sets of tables"]["failures"][0].startswith("sets of tables: 0.504")
    assert beside.tasks(50).count(("CSV text", 4)) == 1


def _broken(law, numbers=range(6)):
    """Return whether one of some draws breaks a law."""
    return any("Broken" in beside.judged(law, 3, number).failure for number in numbers)


@pytest.mark.slow
def test_what_repeats_weighs_or_is_off_is_noticed(monkeypatch):
    pytest.importorskip("pandas")
    with monkeypatch.context() as patch:
        patch.setattr(holdout, "find_repeats", lambda rows, y, columns: None)
        assert _broken("repeated rows")
    with monkeypatch.context() as patch:
        for module in (regressor, classifier):
            right = module.held_out_quantile
            patch.setattr(module, "held_out_quantile", lambda e, w, *rest, f=right: f(e, None, *rest))
        assert _broken("bands of light rows")
    right = BandCheck.quantile
    monkeypatch.setattr(BandCheck, "quantile", lambda self, q, n: right(self, q, n) + (q == 0.5))
    assert _broken("mirrored quantiles of processes")


def test_a_band_that_is_too_narrow_in_a_gap_is_noticed(monkeypatch):
    right = gm.GaussianProcessRegressor.predict

    def predict(self, X, return_std=False):
        mean, deviation = right(self, X, return_std=True)
        return (mean, 0.1 * deviation) if return_std else mean

    monkeypatch.setattr(gm.GaussianProcessRegressor, "predict", predict)
    assert _broken("gaps of processes")
