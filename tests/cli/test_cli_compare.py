"""``gramian compare``: the same rows and time for all, what came out, and what is said of failures."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_page import told
from sklearn.datasets import dump_svmlight_file

import gramian as gm
from gramian.comparison import Measured, SearchResult

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from click.testing import Result
from typer.testing import CliRunner

from gramian.cli import compare
from gramian.cli.app import app
from gramian.summary.terminal import renderable

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
TEXT = FRAME.assign(y=np.where(Y > 0, "[red]yes", "no"))
RULES = compare.Rules("regression", 0.2, "200MB", 0, 1)
HELD = compare.TrainAndTest(X[:120], Y[:120], X[120:], Y[120:])


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def bad(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.stderr.split())


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the seconds that a process takes to begin."""
    monkeypatch.setattr(compare, "in_fresh_process", lambda work, *arguments: work(*arguments))


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("frame", "task"), [(FRAME, "regression"), (TEXT, "classification")])
def test_every_method_is_in_table_and_file(frame: pd.DataFrame, task: str, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "y", "--seconds", "0.2", "--threads", "1", "--json", tmp_path / "out.json"]
    result = run("compare", tmp_path / "t.csv", *options)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    for text in (task, "120 to learn from, 30 held out", "peak", "gamma", "root rank 120"):
        assert text in said
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (found["rows"], found["held_out"], found["features"], found["task"]) == (120, 30, 3, task)
    assert found["versions"]["gramian"] == gm.__version__
    assert [entry["method"] for entry in found["methods"]] == [
        "gramian",
        "Nystroem + ridge",
        "HistGradientBoosting",
    ]
    for entry in found["methods"]:
        assert entry["method"] in said
        assert entry["failure"] is None
        assert entry["tried"] >= 1
        assert 0 <= entry["error"] < found["trivial_error"]
        assert min(entry["search_seconds"], entry["fit_seconds"], entry["predict_seconds"]) > 0
        assert entry["model_bytes"] > 100


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_tables_of_words_and_gaps_are_compared_too(tmp_path: Path) -> None:
    town = RNG.choice(["Bath", "Hull", "York"], 150)
    gaps = FRAME.assign(a=FRAME.a.where(FRAME.index % 7 > 0), town=town, y=Y + 2 * (town == "Hull"))
    gaps.to_parquet(tmp_path / "t.parquet", index=False)
    options = ["--target", "y", "--seconds", "0.2", "--threads", "1", "--json", tmp_path / "out.json"]
    result = run("compare", tmp_path / "t.parquet", *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["features"] == 4
    assert [entry["failure"] for entry in found["methods"]] == [None] * 3
    assert all(entry["error"] < found["trivial_error"] for entry in found["methods"])


def test_peers_get_columns_learned_from_their_own_rows() -> None:
    tables = pytest.importorskip("pyarrow")
    X = tables.table({"a": [1.0, None, 3.0, 5.0], "b": ["x", "y", "x", "y"]})
    X_test = tables.table({"a": [None], "b": ["z"]})
    encoded = compare.TrainAndTest(X, np.zeros(4), X_test, np.zeros(1)).encoded()
    np.testing.assert_array_equal(encoded.X, [[1, 0, 1, 0], [3, 1, 0, 1], [3, 0, 1, 0], [5, 0, 0, 1]])
    np.testing.assert_array_equal(encoded.X_test, [[3, 1, 0, 0]])
    assert HELD.encoded() is HELD


def test_a_fresh_process_is_another_one() -> None:
    assert compare.in_fresh_process(os.getpid) != os.getpid()


@pytest.mark.usefixtures("in_this_process")
def test_gramian_keeps_to_memory_threads_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def measure(model: Any, *_: Any) -> Measured:
        made.append(model.get_params())
        raise gm.InputError("enough")

    with monkeypatch.context() as patched:
        patched.setattr(compare, "measure", measure)
        assert compare.contend("gramian", HELD, RULES).failure == "InputError: enough"
    (params,) = made
    assert (params["memory_budget"], params["n_jobs"], params["time_limit"]) == ("200MB", 1, 0.2)
    entry = compare.contend("gramian", HELD, replace(RULES, memory="1kB"))
    assert entry.failure is not None
    assert "at least" in entry.failure


@pytest.mark.usefixtures("in_this_process")
def test_the_search_gets_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def search(*_: Any, seconds: float, **__: Any) -> SearchResult:
        given.append(seconds)
        return SearchResult({"kernel": "rbf", "gamma": 0.3, "alpha": 0.1}, 0.5, 3, 1, 96, 2.0)

    monkeypatch.setattr(compare, "search", search)
    entry = compare.contend("nystroem", HELD, replace(RULES, seconds=10.0))
    assert given == [compare.SEARCH_SHARE * 10.0]
    assert (entry.tried, entry.failed, entry.search_error, entry.search_seconds) == (3, 1, 0.5, 2.0)
    assert entry.seconds == 2.0 + entry.fit_seconds


@pytest.mark.usefixtures("in_this_process")
def test_what_a_fit_warns_of_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: Any) -> Measured:
        gm.KernelSVC(max_iter=1, gamma=0.3).fit(X, Y > 0)
        return Measured(0.5, 1.0, 0.1, math.nan, 1000)

    monkeypatch.setattr(compare, "measure", measure)
    entry = compare.contend("boosting", HELD, RULES)
    assert any("max_iter" in text for text in entry.warnings)
    shown = told(renderable(compare.summary([entry], HELD, RULES)))
    assert "Warning: HistGradientBoosting: the objective" in shown
    assert "unknown" in shown  # the peak, where the system does not tell
    assert "took" in shown  # more than its time
    assert compare.record([entry], HELD, RULES, "t.csv")["methods"][0]["peak_bytes"] is None


def test_a_method_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(call: Any, name: str, *arguments: Any) -> Any:
        if name == "boosting":
            raise BrokenProcessPool
        if name == "nystroem":
            raise ValueError("no [bold] rows")
        return call(name, *arguments)

    monkeypatch.setattr(compare, "in_fresh_process", work)
    found = list(compare.entries(HELD, RULES))
    summary = compare.summary(found, HELD, RULES)
    assert [row[0] for row in summary.grids[0].rows] == ["gramian"]
    assert "HistGradientBoosting failed: its process was ended by the system" in " ".join(summary.warnings)
    assert "Nystroem + ridge failed: ValueError: no [bold] rows" in told(renderable(summary))


def test_where_all_fail_the_command_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def work(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(compare, "in_fresh_process", work)
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    assert "no method could be fitted" in bad("compare", tmp_path / "t.csv", "--target", "y")


def test_the_best_comes_first() -> None:
    entries = [
        compare.Entry("b", error=0.2, tried=10, fit_seconds=0.05, search_seconds=0.1),
        compare.Entry("broken", failure="X"),
        compare.Entry("a", error=0.1, tried=99, fit_seconds=0.05, search_seconds=0.1),
    ]
    summary = compare.summary(entries, HELD, RULES)
    assert [row[0] for row in summary.grids[0].rows] == ["a", "b"]
    assert summary.note == "The smallest error is that of a."


def test_few_settings_give_no_verdict() -> None:
    entries = [
        compare.Entry("gramian", error=0.1, tried=1_200, fit_seconds=0.05, search_seconds=0.1),
        compare.Entry("boosting", error=0.2, tried=1, fit_seconds=0.05, search_seconds=0.1),
    ]
    note = compare.summary(entries, HELD, RULES).note
    assert note.startswith("No verdict: the time was too short. Settings tried: gramian 1,200, boosting 1.")
    assert note.endswith("Give all of them more --seconds.")


def test_measured_processes_have_sleeping_openmp_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert compare.in_fresh_process(os.getenv, "OMP_WAIT_POLICY") == "passive"
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert compare.in_fresh_process(os.getenv, "OMP_WAIT_POLICY") == "active"


def test_slips_are_told_before_the_work(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    here = ["compare", tmp_path / "t.csv"]
    assert "Pass --target NAME" in bad(*here)
    assert "'lots' is not a size" in bad(*here, "--target", "y", "--memory", "lots")
    assert "the folder" in bad(*here, "--target", "y", "--json", tmp_path / "no" / "out.json")
    FRAME.assign(y=1).to_csv(tmp_path / "one.csv", index=False)
    assert "one class only" in bad("compare", tmp_path / "one.csv", "--target", "y")
    dump_svmlight_file(X, Y, str(tmp_path / "t.svmlight"))
    assert "the rows are sparse" in bad("compare", tmp_path / "t.svmlight")
