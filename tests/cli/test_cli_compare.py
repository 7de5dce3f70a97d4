"""``gramian compare``: errors of the same folds, what is printed and stored, failures and the verdict."""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_page import told
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import KFold

import gramian as gm

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from command_line import bad, run

from gramian.cli import compare
from gramian.data.tables import as_table
from gramian.summary.terminal import renderable

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
NAMES = ["gramian", "Nystroem + ridge", "HistGradientBoosting"]


def rules(task: Any = "regression", **changes: Any) -> compare.Rules:
    given = {"seconds": 0.2, "memory": "200MB", "folds": 3, "threads": 1}
    return compare.Rules(task=task, **(given | changes))


class Numbers(RegressorMixin, BaseEstimator):
    """Predicts 2 y[i] from the number i of a row; ``fails`` names what happens instead."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def fit(self, numbers: Any, y: Any) -> Numbers:
        if self.fails == "one fold" and 0 in numbers:
            raise ValueError("no [bold] rows")
        if self.fails == "memory":
            raise MemoryError
        if self.fails == "warns":
            warnings.warn(f"time_limit=3 s was too short for {numbers[0, 0]} settings", stacklevel=1)
            warnings.warn(f"column 'c{len(numbers) % 2}' is not used", stacklevel=1)
        return self

    def predict(self, numbers: Any) -> Any:
        return 2.0 * Y[numbers[:, 0]] * (1e200 if self.fails == "overflow" else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_method_is_in_table_and_file(task: str, tmp_path: Path) -> None:
    """Text, numbers and missing values; the target's own text may look like markup."""
    town = RNG.choice(["Bath", "Hull", "York"], 150)
    y = Y + 2 * (town == "Hull")
    frame = FRAME.assign(a=FRAME.a.where(FRAME.index % 7 > 0), town=town, y=y)
    if task == "classification":
        frame["y"] = np.where(y > 0.5, "[red]yes", "no")
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    options = ["--target", "y", "--seconds", 60, "--threads", 1, "--folds", 2]
    result = run("compare", tmp_path / "t.parquet", *options, "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    for text in (f"{task} (the target holds", "150, 4 columns; 2 folds", "a fit of gramian may take 60 s"):
        assert text in said
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (found["data"], found["rows"], found["features"], found["folds"]) == ("t.parquet", 150, 4, 2)
    assert (found["task"], found["seconds"], found["memory"]) == (task, 60.0, "1GB")
    assert found["versions"]["gramian"] == gm.__version__
    *methods, trivial = found["methods"]
    assert [entry["method"] for entry in methods] == NAMES
    assert trivial["error"] == found["trivial_error"] == pytest.approx(np.mean(trivial["errors"]))
    for entry in methods:
        assert f"{entry['method']} {entry['error']:.4g} {np.std(entry['errors'], ddof=1):.4g} " in said
        assert entry["failure"] is None
        assert 0 <= entry["error"] < found["trivial_error"]
        assert min(*entry["fit_seconds"], *entry["predict_seconds"]) > 0
    assert found["verdict"] in said


@pytest.mark.parametrize(
    ("task", "ours"), [("regression", gm.TabularRegressor), ("classification", gm.TabularClassifier)]
)
def test_gramian_gets_the_options_and_all_read_the_rows_of_the_table(task: str, ours: type) -> None:
    made = compare.models(as_table(X[:7]), rules(task, seed=4, seconds=2.5))
    assert list(made)[:3] == NAMES
    assert isinstance(made["gramian"][-1], ours)
    given = {"memory_budget": "200MB", "n_jobs": 1, "time_limit": 2.5, "random_state": 4}
    assert given.items() <= made["gramian"][-1].get_params().items()
    assert made["Nystroem + ridge"][-2].n_components == 4  # the rows of the smallest training part
    for name in NAMES:
        assert name == "gramian" or isinstance(made[name][1], compare.Encoder)  # learned in each fold
        taken = made[name][0].fit_transform(np.array([[5], [2]]))
        np.testing.assert_array_equal(taken.block(slice(0, 2)).matrix, X[[5, 2]])


def test_errors_are_those_of_the_folds() -> None:
    entry = compare.measure("trivial", compare.DummyRegressor(), Y, rules(folds=4, seed=1))
    folds = KFold(4, shuffle=True, random_state=1).split(X)
    by_hand = [math.sqrt(np.mean((Y[train].mean() - Y[test]) ** 2)) for train, test in folds]
    assert entry.errors == pytest.approx(by_hand)
    assert entry.error == pytest.approx(np.mean(by_hand))
    assert len(entry.fit_seconds) == len(entry.predict_seconds) == 4


def test_classes_keep_their_shares_where_each_has_enough_rows() -> None:
    for rare, errors in ((6, [0.2, 0.2, 0.2]), (1, [0.0, 0.0, 0.1])):
        y = np.where(np.arange(30) < rare, "b", "a")
        model = compare.models(as_table(X[:30]), rules("classification"))["the most frequent class"]
        entry = compare.measure("trivial", model, y, rules("classification"))
        assert sorted(entry.errors) == pytest.approx(errors)


def test_a_method_that_fails_is_recorded() -> None:
    for fails, failure in (
        ("one fold", "ValueError: no [bold] rows"),
        ("memory", "MemoryError: "),
        ("overflow", "its errors are not finite"),
    ):
        entry = compare.measure("a", Numbers(fails), Y, rules())
        assert (entry.errors, entry.error, entry.failure) == ((), math.inf, failure)


def test_a_method_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = {name: Numbers("one fold" if name == NAMES[1] else "") for name in NAMES}
    monkeypatch.setattr(compare, "models", lambda *_: made | {"the mean": compare.DummyRegressor()})
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    result = run("compare", tmp_path / "t.csv", "--target", "y", "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Warning: Nystroem + ridge failed: ValueError: no [bold] rows Results method error" in said
    assert "Can't be told apart: gramian and HistGradientBoosting. Their errors differ by 0, " in said
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [entry["error"] is None for entry in found["methods"]] == [False, True, False, False]


def test_where_all_fail_the_command_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = {"gramian": Numbers("memory"), "the mean": compare.DummyRegressor()}
    monkeypatch.setattr(compare, "models", lambda *_: made)
    np.savez(tmp_path / "t.npz", X=X, y=Y)
    assert "no method could be fitted" in bad("compare", tmp_path / "t.npz")


def test_the_best_comes_first_and_warnings_of_fits_are_shown_once() -> None:
    entries = [compare.measure(name, Numbers("warns"), Y, rules()) for name in ("a", "b")]
    entries += [
        compare.Entry("c", (0.5, 0.5, 0.8), (0.1, 0.1, 0.1), (0.25, 0.25, 0.5)),
        compare.Entry("broken", failure="time_limit=2"),
    ]
    summary = compare.summary(entries, X.shape, rules())
    assert [row[0] for row in summary.grids[0].rows] == ["c", "a", "b"]
    assert summary.grids[0].rows[0] == ("c", "0.6", "0.1732", "0.1 s", "0.333 s")
    text = (
        r"a: --seconds was too short for \d+ settings a: column 'c0' is not used broken failed: --seconds 2"
    )
    assert re.fullmatch(text, " ".join(summary.warnings))
    assert "Warning: a: column" in told(renderable(summary))


def test_the_verdict_is_about_differences_fold_by_fold() -> None:
    for other, said in (
        ((0.4, 0.5, 0.9), "Best is a: the error of b is larger by 0.3, standard error 0.1 over 3 folds."),
        ((0.1, 0.3, 0.8), "Can't be told apart: a and b. Their errors differ by 0.1, standard error 0.1528 "),
        ((0.2, 0.3, 0.4), "Can't be told apart: a and b. Their errors differ by 0, standard error 0 over"),
    ):
        entries = [compare.Entry("a", (0.2, 0.3, 0.4)), compare.Entry("b", other)]
        assert compare.verdict(entries).startswith(said)
        worse = compare.Entry("the mean", (5.0, 6.0, 9.0))
        assert compare.verdict([worse, *entries]) == compare.verdict(entries)
    assert compare.verdict([entries[0], compare.Entry("b", failure="X")]) == ""


def test_slips_are_told_before_the_work(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    here = ["compare", tmp_path / "t.csv"]
    assert "Pass --target NAME" in bad(*here)
    assert "'lots' is not a size" in bad(*here, "--target", "y", "--memory", "lots")
    assert "the folder" in bad(*here, "--target", "y", "--json", tmp_path / "no" / "out.json")
    assert "150 rows are too few for 76 folds. Pass fewer" in bad(*here, "--target", "y", "--folds", 76)
    FRAME.assign(y=1).to_csv(tmp_path / "one.csv", index=False)
    assert "one class only" in bad("compare", tmp_path / "one.csv", "--target", "y")
    dump_svmlight_file(X, Y, str(tmp_path / "t.svmlight"))
    assert "the rows are sparse" in bad("compare", tmp_path / "t.svmlight")
    for option in (("--folds", 1), ("--holdout", 0.2)):
        result = run(*here, "--target", "y", *option)
        assert (result.exit_code, option[0] in result.stderr) == (2, True)


def test_the_page_shows_the_stored_run() -> None:
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "compare_flats.json").read_text(encoding="utf-8"))
    kinds = {name: stored[name] for name in ("task", "seconds", "memory", "folds", "seed", "threads")}
    entries = [
        compare.Entry(
            each["method"], *(tuple(each[name]) for name in ("errors", "fit_seconds", "predict_seconds"))
        )
        for each in stored["methods"]
    ]
    shape = stored["rows"], stored["features"]
    text = " ".join(str(compare.summary(entries, shape, rules(**kinds))).split())
    page = (root / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert text in " ".join(page.partition("## compare")[2].split())
    assert compare.verdict(entries) == stored["verdict"]
