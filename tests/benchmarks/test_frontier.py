"""The frontier of deployed models: a toy run, its lines, the picture, and the page made of the stored run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import frontier
import numpy as np
import pytest
from serving import boosting, dense, peers
from serving.clock import Served, batch_nanoseconds, single_nanoseconds
from serving.page import EVERY_MODEL, MARKED, PAGE, PICTURES, beaten, filled, gain, measured
from serving.problems import SETS, _encoded, load
from serving.run import METHODS, NAMES, read

from gramian.exceptions import InputError

DOCS = Path(__file__).parents[2] / "docs"
FIELDS = {
    "set": str,
    "task": str,
    "n_train": int,
    "n_classes": int,
    "method": str,
    "size": str,
    "error": float,
    "batch_ns": float,
    "batch_rows": int,
    "single_ns": (float, type(None)),
    "seconds": float,
    "bytes": int,
    "commit": str,
    "versions": dict,
    "machine": str,
    "date": str,
}


def check(line: dict) -> None:
    if "failure" in line:
        assert line["failure"]
        return
    assert list(line) == list(FIELDS)
    assert all(isinstance(line[name], kind) for name, kind in FIELDS.items()), line
    assert line["method"] in NAMES
    assert line["batch_ns"] > 0
    assert line["machine"].endswith("1 thread")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "frontier.jsonl"
    options = ["--quick", "--sets", "diabetes,breast_cancer", "--rows", "200", "--out", str(path)]
    assert (
        frontier.main([*options, "--methods", "teacher,linear,mlp,dcpred,boosting", "--seconds", "0.001"])
        == 0
    )
    return path


@pytest.mark.slow
def test_a_toy_run_stores_a_line_for_each_model(stored):
    lines = read(stored)
    for line in lines:
        check(line)
    wanted = {"teacher", "linear model", "distilled MLP", "DC-Pred++", "HistGradientBoosting"}
    assert {(line["set"], line["method"]) for line in lines} == {
        (name, method) for name in ("diabetes", "breast_cancer") for method in wanted
    }


def test_every_method_of_a_line_has_one_maker():
    assert len(set(NAMES)) == len(NAMES)
    assert [name for name, method in METHODS.items() if method.needs is None] == [
        "ours",
        "teacher",
        "linear",
        "mlp",
        "ldkl",
        "dcpred",
        "boosting",
    ]


@pytest.mark.slow
def test_a_failure_is_named_and_not_drawn(stored):
    failure = {"set": "diabetes", "method": "CatBoost", "size": "", "failure": "ValueError: none"}
    lines = [*read(stored), failure]
    assert len(measured(lines)) == len(lines) - 1
    text = filled("<!-- frontier: table -->\n<!-- end -->\n", lines)
    assert "- diabetes, CatBoost failed: ValueError: none" in text


def test_a_better_method_is_one_that_is_no_slower_and_errs_clearly_less():
    def line(method, error, ns):
        return {"set": "a", "method": method, "error": error, "batch_ns": ns}

    ours = [line("gm.compress", 0.10, 100.0), line("gm.compress", 0.20, 20.0)]
    others = [line("CatBoost", 0.05, 90.0), line("LightGBM", 0.05, 110.0), line("LDKL", 0.099, 10.0)]
    assert beaten([*ours, *others], "a", "batch_ns") == ["CatBoost"]
    assert beaten(others, "a", "batch_ns") == []


def test_the_gain_is_that_of_the_most_accurate_fast_model():
    def line(name, method, error, ns):
        return {"set": name, "method": method, "error": error, "batch_ns": ns}

    lines = [
        line("a", "gm.compress", 0.10, 100.0),
        line("a", "gm.compress", 0.20, 20.0),
        line("a", "teacher", 0.05, 1000.0),
        line("b", "gm.compress", 0.10, 50.0),
        line("b", "teacher", 0.10, 2000.0),
        line("b", "CatBoost", 0.05, 40.0),
        line("c", "CatBoost", 0.05, 40.0),
    ]
    found = gain(lines)
    assert (found.n_sets, found.speed, found.error, found.n_beaten) == (2, 25.0, 1.5, 1)
    assert gain(lines[-1:]) is None


@pytest.mark.slow
def test_the_answers_of_bare_predictors_are_those_of_the_models(monkeypatch):
    """What is timed gives the answers of ``predict``: bare predictors, layers in NumPy."""
    problem = load("digits", 300)
    taught = dense.teach(problem, True)
    fitted = {}

    def noted(call):
        fitted["model"] = call
        return kept(call)

    kept = dense.fast_call
    monkeypatch.setattr(dense, "fast_call", noted)
    for make in (dense.dc_pred, dense.local_deep):
        (served,) = make(problem, True, taught)
        X = problem.test.dense
        np.testing.assert_array_equal(served.batch(X), fitted["model"].predict(X))
        assert served.one(X[0]) == served.batch(X)[0]


def test_a_search_judges_every_number_of_rounds():
    problem = load("digits", 300)

    def staged(problem, rate, leaves, rounds, parts):
        return [0.5, 0.3, 0.4, 0.2, 0.6, 0.6, 0.6, 0.6][:rounds]

    assert [one.rounds for one in boosting.search(problem, True, staged)] == [2, 4]
    assert len(boosting.search(problem, True, lambda *_: [0.1] * 8)) == 1  # more rounds do not help


def test_categories_are_ordered_by_their_target_and_rare_values_are_not_lost():
    column = np.array(["b", "a", "c", "a", "b", "d"], object)
    y = np.array([1.0, 3.0, 2.0, 3.0, 1.0, 9.0])
    trees, rows = _encoded([column, np.array([1.0, np.nan, 3.0, 2.0, 2.0, 5.0])], y, np.arange(5))
    assert trees[0, 0] < trees[2, 0] < trees[1, 0]
    assert np.isnan(trees[1, 1])
    assert rows.shape == (6, 5)
    assert np.isfinite(rows).all()
    assert rows.dtype == trees.dtype == np.float32


def test_times_are_those_of_a_row():
    rows = np.zeros((5, 3), np.float32)
    seen = []
    assert batch_nanoseconds(lambda X: seen.append(X.shape), rows, 7, 0.0) > 0
    assert set(seen) == {(7, 3)}
    seen.clear()
    assert single_nanoseconds(lambda x: seen.append(x.shape), rows, 0.0) > 0
    assert set(seen) == {(3,)}


@pytest.mark.parametrize("make", [peers.lightgbm, peers.catboost], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["breast_cancer", "digits", "diabetes"])
def test_peers_answer_one_row_as_in_a_batch(make, name):
    pytest.importorskip(make.__name__)
    problem = load(name, 300)
    by_method: dict[str, Served] = {one.method: one for one in make(problem, True)}
    X = problem.test.trees
    answers = {method: served.batch(X) for method, served in by_method.items()}
    for method, served in by_method.items():
        assert answers[method].shape == (len(X),)
        for row in range(5):
            value = np.asarray(served.one(X[row])).ravel()
            if not problem.regression and not (method.endswith("Runtime")):
                value = value.argmax(keepdims=True) if len(value) > 1 else (value > 0).astype(int)
            np.testing.assert_allclose(value[0], answers[method][row], rtol=1e-5)
        # The compiled forest and ONNX are the same forest.
        first = answers["LightGBM" if make is peers.lightgbm else "CatBoost"]
        assert np.mean(np.abs(answers[method] - first) > 1e-4) < 0.01


def test_wrong_names_are_answered_with_the_known_ones(capsys, tmp_path):
    out = ["--quick", "--out", str(tmp_path / "lines.jsonl")]
    assert frontier.main([*out, "--methods", "lightgmb"]) == 2
    assert "Did you mean 'lightgbm'" in capsys.readouterr().err
    assert frontier.main([*out, "--methods", "linear", "--sets", "adlut"]) == 2
    assert "Did you mean 'adult'" in capsys.readouterr().err


def test_an_absent_table_says_where_it_belongs(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAMIAN_DATA", str(tmp_path / "data"))
    with pytest.raises(InputError, match=r"there is no file .*tables/adult\.parquet"):
        load("adult", 100)


# ---- what is stored in the repository -----------------------------------------------------------


def test_stored_lines_are_complete_and_of_one_run():
    texts = frontier.RESULTS.read_text(encoding="utf-8").splitlines() if frontier.RESULTS.exists() else []
    lines = [json.loads(text) for text in texts]
    for line in lines:
        check(line)
    if lines:
        assert len({(line["commit"], line["machine"]) for line in lines}) == 1
        assert {line["set"] for line in lines} == set(SETS)


def test_the_page_shows_the_stored_run():
    wrong = "run python benchmarks/frontier.py --report docs: the page is not what the stored lines say"
    shown = set()
    for page in (PAGE, EVERY_MODEL):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert filled(text, read(frontier.RESULTS)) == text, wrong
        shown |= {found[2] for found in MARKED.finditer(text)}
    assert shown == {*PICTURES, "summary", "better", "table", "origin"}


def test_prose_of_the_page_has_no_measured_numbers():
    text = "".join(MARKED.sub("", (DOCS / page).read_text(encoding="utf-8")) for page in (PAGE, EVERY_MODEL))
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert not re.findall(r"\b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|x|%|kB)?\b", text)
