"""The benchmark's own book-keeping: lines, ranks, limits, the page."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from comparison import CONTENDERS

from gramian.exceptions import InputError

pytest.importorskip("matplotlib", reason="needs the extra plot")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
from suite import methods, peers, results, runner, sets, summary
from suite.job import Job
from suite.report import line_text, text_of, write_report

MACHINE = {
    "day": "2026-01-01",
    "processor": "a processor",
    "threads": 1,
    "python": "3.11",
    "commit": None,
    "versions": {"numpy": "2"},
    "limit_seconds": 60.0,
    "limit_bytes": 1e9,
}


def line(name, method, error, *, size=None, fit=1.0):
    one = {
        "set": name,
        "method": method,
        "size": methods.METHODS[method].usual_size if size is None else size,
        "search_seconds": 1.0,
        "machine": MACHINE,
    }
    if error is None:
        return one | {"failure": "not done in 60 s"}
    return one | {
        "task": "regression" if name == "numbers" else "classification",
        "n_train": 100,
        "n_test": 10,
        "n_features": 3,
        "runs": 3,
        "error": error,
        "errors": [error],
        "fit_seconds": fit,
        "predict_seconds": 0.1,
        "peak_bytes": 2e6,
        "model_bytes": 1000,
    }


LINES = [
    line("numbers", "gramian", 0.5, fit=1.0),
    line("numbers", "gramian", 0.6, size=100, fit=0.1),
    line("numbers", "nystroem", 0.6, fit=4.0),
    line("numbers", "boosting", 0.4, fit=2.0),
    line("classes", "gramian", 0.1, fit=1.0),
    line("classes", "nystroem", 0.2, fit=1.0),
    line("classes", "boosting", None),
]


def test_standings_by_hand():
    found = {one.method: one for one in summary.standings(LINES)}
    ours, nystroem, boosting = found["gramian"], found["nystroem"], found["boosting"]
    assert next(one.method for one in summary.standings(LINES)) == "gramian"
    assert (ours.n_sets, ours.failures, ours.wins, ours.rank) == (2, 0, 1, 1.5)
    assert (nystroem.wins, nystroem.rank) == (0, 2.5)
    # A failure is the last of three.
    assert (boosting.failures, boosting.wins, boosting.rank) == (1, 1, 2.0)
    assert ours.over_best == pytest.approx(np.sqrt(0.5005 / 0.4005))
    assert nystroem.costs["fit_seconds"] == pytest.approx(2.0)
    assert boosting.costs["fit_seconds"] == pytest.approx(2.0)


def test_a_lost_set_is_named():
    assert summary.lost(LINES) == [("numbers", 0.5, [("boosting", 0.4)])]
    assert summary.lost([one for one in LINES if one["method"] != "boosting"]) == []


@pytest.mark.slow
def test_the_page_says_who_wins_and_what_failed(tmp_path):
    page = text_of(LINES)
    assert "| numbers | 0.5000 | HistGradientBoosting 0.4000 |" in page
    assert "| HistGradientBoosting | 100 | classes | not done in 60 s |" in page
    assert "| numbers | 0.5000 |" in page
    assert "**0.4000**" in page
    written = list(write_report(LINES, tmp_path))
    assert {path.name for path in written} == {
        "overview.png",
        "frontier_numbers.png",
        "frontier_classes.png",
        "side-by-side.md",
    }
    assert all(path.stat().st_size > 0 for path in written)
    with pytest.raises(InputError, match="there are no results yet"):
        list(write_report([LINES[-1]], tmp_path))


def test_lines_are_kept_and_later_ones_replace(tmp_path):
    path = tmp_path / "deep" / "lines.jsonl"
    assert results.read(path) == []
    for one in (*LINES, line("numbers", "gramian", 0.3)):
        results.append(path, one)
    found = {results.key(one): one for one in results.read(path)}
    assert len(found) == len(LINES)
    assert found[results.key(LINES[0])]["error"] == 0.3
    with path.open("a", encoding="utf-8") as file:
        file.write('{"set": "cut off')
    with pytest.raises(InputError, match=r"line 9 is not a result .* Delete that line"):
        results.read(path)


def test_sets_absent_say_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAMIAN_DATA", raising=False)
    assert sets.names(quick=True) == list(sets.QUICK)
    with pytest.raises(
        InputError, match=r"Put files NAME.npz with X .* GRAMIAN_DATA=folder, or pass --quick"
    ):
        sets.names()
    with pytest.raises(InputError, match=r"set 'digitz' is not bundled .* Did you mean 'digits'"):
        sets.load("digitz")
    monkeypatch.setenv("GRAMIAN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"has no \.npz files"):
        sets.names()


def test_bundled_sets_are_split_once():
    first, second = sets.load("diabetes"), sets.load("diabetes")
    np.testing.assert_array_equal(first.X, second.X)
    assert (first.task, len(first.X) + len(first.X_test)) == ("regression", 442)
    assert first.X.dtype == np.float32


def test_methods_unknown_or_not_installed(monkeypatch):
    assert methods.check(["gramian", "boosting"]) == ["gramian", "boosting"]
    with pytest.raises(InputError, match=r"'gramiam' is unknown. Did you mean 'gramian'"):
        methods.check(["gramiam"])
    monkeypatch.setattr(methods, "installed", lambda: dict.fromkeys(peers.PEERS))
    assert methods.available() == list(CONTENDERS)
    with pytest.raises(
        InputError, match=r"needs xRFM, which is not installed\. Install it with: pip install"
    ):
        methods.check(["xrfm"])
    assert set(methods.absent()) == set(peers.PEERS)


def test_a_job_measures_what_it_says():
    found = Job("diabetes", "random_features", seconds=0.01).run()
    assert found["tried"] >= 1
    measured = Job("diabetes", "random_features", 300, found["settings"], runs=2).run()
    assert (measured["runs"], len(measured["errors"]), measured["n_test"]) == (2, 2, 89)
    assert 0 < measured["error"] < 1


class Stuck:
    """A job that does not end, or ends badly."""

    def __init__(self, how):
        self.how = how

    def run(self):
        if self.how == "loop":
            while True:
                pass
        if self.how == "die":
            import os

            os._exit(7)
        if self.how == "memory":
            return {"bytes": len(bytearray(40 * 10**9))}
        raise ValueError("no")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "limit", "failure"),
    [
        ("loop", 6.0, "not done in 6 s"),
        ("die", 60.0, "ended with exit status 7"),
        ("memory", 60.0, "MemoryError"),
        ("raise", 60.0, "ValueError: no"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="limits of address space are POSIX's")
def test_processes_that_fail_say_how(how, limit, failure):
    assert failure in runner.in_fresh_process(Stuck(how), limit=limit, memory=20e9)["failure"]


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path):
    out = tmp_path / "lines.jsonl"
    options = {
        "seconds": 0.01,
        "runs": 1,
        "limit": 60.0,
        "memory": 20e9,
        "threads": 1,
        "out": out,
        "all_sizes": False,
    }
    made = list(runner.run(["diabetes"], ["random_features", "kernel_ridge"], **options))
    assert [one["size"] for one in made] == ["search", 1000, "search", 3000]
    assert all("failure" not in one for one in made), made
    assert all(line_text(one).startswith("diabetes") for one in made)
    assert list(runner.run(["diabetes"], ["random_features", "kernel_ridge"], **options)) == []
    kept = [json.loads(text) for text in out.read_text().splitlines()]
    assert kept == json.loads(json.dumps(made))


def test_lines_of_a_method_are_forgotten(tmp_path):
    out = tmp_path / "lines.jsonl"
    for name in ("one", "two"):
        for method in ("svm", "gramian"):
            results.append(out, {"set": name, "method": method, "size": 1, "search_seconds": 6.0})
    assert results.forget(out, ["one"], ["gramian", "boosting"]) == 1
    assert [(line["set"], line["method"]) for line in results.read(out)] == [
        ("one", "svm"),
        ("two", "svm"),
        ("two", "gramian"),
    ]
    assert results.forget(tmp_path / "none.jsonl", ["one"], ["svm"]) == 0


def test_the_script_reports_errors_in_a_line(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("GRAMIAN_DATA", raising=False)
    # The script sets the threads of its process.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    script = runpy.run_path(str(BENCHMARKS / "side_by_side.py"))
    assert script["main"](["--out", str(tmp_path / "x.jsonl")]) == 2
    assert "GRAMIAN_DATA names no folder" in capsys.readouterr().err
    assert script["main"](["--quick", "--methods", "nothing"]) == 2
    assert "method 'nothing' is unknown" in capsys.readouterr().err
    assert script["main"](["--report", str(tmp_path), "--out", str(tmp_path / "none.jsonl")]) == 2
    assert "there are no results yet" in capsys.readouterr().err
