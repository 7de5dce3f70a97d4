"""The benchmark of tables: splits, run, what was to be reached and the page, of made lines."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from gramian.exceptions import InputError

pytest.importorskip("matplotlib", reason="needs the extra plot")
pd = pytest.importorskip("pandas")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
from suite import results, sets, table_full, table_methods, table_run
from suite.table_boosting import SearchedBoosting
from suite.table_columns import MISSING, Columns, dense_columns
from suite.table_elo import elo
from suite.table_job import TableJob, scores
from suite.table_methods import BEST, FAST, OURS, REFERENCE, TableMethod, Terms
from suite.table_report import filled, line_text, text_of, write_report
from suite.table_sets import LEAST_OF_CLASS, MIXED, NUMBERS, Split, split_of
from suite.table_summary import Tables, bar, lost, places

MACHINE = {
    "day": "2026-01-01",
    "processor": "a processor",
    "threads": 2,
    "python": "3.11",
    "commit": "abc",
    "versions": {"numpy": "2"},
    "limit_seconds": 300.0,
    "limit_bytes": 1e9,
}
TASKS = {"numbers": "regression", "near": "regression", "classes": "binary", "hard": "multiclass"}


def line(name, method, split, error, *, fit=1.0, rows=100, left_out=0, loss=None):
    one = {"set": name, "method": method, "split": split, "most_rows": None, "machine": MACHINE}
    if error is None:
        return one | {"failure": "not done in 300 s"}
    return one | {
        "task": TASKS[name],
        "kind": MIXED if name == "hard" else NUMBERS,
        "n_rows": rows,
        "n_train": 4 * rows // 5,
        "n_test": rows // 5,
        "n_features": 3,
        "classes_left_out": left_out,
        "rows_left_out": 3 * left_out,
        "error": error,
        **({} if TASKS[name] == "regression" else {"log_loss": error if loss is None else loss}),
        "fit_seconds": fit,
        "predict_seconds": 0.1,
        "peak_bytes": 2e6,
        "model_bytes": 1000,
        "chosen": None,
    }


def lines_of(name, method, errors, **options):
    return [line(name, method, split, error, **options) for split, error in enumerate(errors)]


LINES = [
    # Better on both splits, in four times the time.
    *lines_of("numbers", OURS, [0.2, 0.4], fit=4.0),
    *lines_of("numbers", REFERENCE, [0.4, 0.5]),
    *lines_of("numbers", "lightgbm", [0.1, 0.1]),
    *lines_of("near", "lightgbm", [0.5, 0.5], rows=60_000),
    *lines_of("classes", "lightgbm", [0.5, 0.5], rows=50_000),
    *lines_of("hard", "lightgbm", [0.5, 0.5]),
    # Worse by less than a half per cent, in twelve times the time.
    *lines_of("near", OURS, [0.2008, 0.2], fit=120.0, rows=60_000),
    *lines_of("near", REFERENCE, [0.2, 0.2], fit=10.0, rows=60_000),
    # Worse; forests fail.
    *lines_of("classes", OURS, [0.3, 0.3], fit=20.0, rows=50_000, left_out=2, loss=0.5),
    *lines_of("classes", REFERENCE, [0.2, 0.25], fit=10.0, rows=50_000, loss=0.4),
    *lines_of("classes", "extra_trees", [0.1, None], rows=50_000, left_out=2),
    *lines_of("numbers", "extra_trees", [0.9, 0.9]),
    *lines_of("near", "extra_trees", [0.9, 0.9], rows=60_000),
    *lines_of("hard", "extra_trees", [0.9, 0.9]),
    # CatBoost fails.
    *lines_of("hard", OURS, [0.1, 0.1]),
    *lines_of("hard", REFERENCE, [0.1, None]),
    # Not ranked.
    *lines_of("numbers", FAST, [0.01, 0.01], fit=1.2),
    *lines_of("numbers", "ebm", [0.01, 0.01]),
    *lines_of("classes", BEST, [0.2, 0.2], rows=50_000, left_out=2, loss=0.3),
]


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("GRAMIAN_DATA", raising=False)


@pytest.fixture
def in_this_process(monkeypatch, no_folder):
    """Run jobs here, gramian's place taken by a dummy."""
    jobs = []

    def run(job, *, limit, memory):
        jobs.append((job, limit))
        return job.run()

    def dummy(terms):
        return DummyRegressor() if terms.regression else DummyClassifier()

    monkeypatch.setattr(table_run, "in_fresh_process", run)
    monkeypatch.setitem(table_methods.TABLE_METHODS, OURS, TableMethod("gramian", "a dummy", dummy))
    return jobs


OPTIONS = {"splits": 2, "most_rows": 400, "limit": 60.0, "memory": 20e9, "threads": 1}


def test_errors_over_the_reference_by_hand():
    tables = Tables.of(LINES)
    assert tables.over("numbers", OURS) == pytest.approx(0.3 / 0.45, rel=2e-3)
    assert tables.over("classes", OURS, "log_loss") == pytest.approx(0.5 / 0.4, rel=2e-3)
    assert np.isnan(tables.over("near", OURS, "log_loss"))
    assert tables.over("hard", OURS) == 1.0  # of the split on which both succeeded
    assert tables.times("near", OURS) == 12.0
    mean, spread = tables.mean("numbers", OURS)
    assert (mean, spread) == (pytest.approx(0.3), pytest.approx(0.1))
    assert tables.mean("classes", "extra_trees")[0] == np.inf
    assert np.isnan(tables.mean("near", "ebm")[0])


def test_what_was_to_be_reached_by_hand():
    regression, auc, of_best, loss, best, rank, time, fast = bar(Tables.of(LINES))
    assert regression.measured.startswith("1 of 2: 50%; 0.81")
    assert (auc.measured, auc.met) == ("0 of 1: 0%; -0.0750", False)
    assert of_best.measured == "1 of 1: 100%; +0.0250"
    # Of two classes 1.25, of more 1 on the split on which both succeeded.
    assert loss.measured == "1.118 (2 sets)"
    assert (best.measured, best.met) == ("0.750 (1 sets)", True)
    assert rank.measured == "1.75"
    assert (time.measured, time.met) == ("3; 12 (near)", False)
    assert (fast.measured, fast.met) == ("1.2; 1.2 (numbers)", True)


def test_places_by_hand():
    found = {place.method: place for place in places(Tables.of(LINES))}
    ours, theirs, forest = found[OURS], found[REFERENCE], found["extra_trees"]
    # numbers: LightGBM, gramian, CatBoost, trees; near: CatBoost, gramian, LightGBM, trees;
    # classes: CatBoost, gramian, LightGBM, trees failed; hard: gramian, LightGBM, trees, CatBoost failed.
    assert ours.rank == pytest.approx((2 + 2 + 2 + 1) / 4)
    assert theirs.rank == pytest.approx((3 + 1 + 1 + 4) / 4)
    assert (forest.rank, forest.failures, forest.n_sets, forest.wins) == (3.75, 1, 4, 0)
    assert (ours.wins, theirs.wins, found["lightgbm"].wins) == (2, 2, 1)
    assert ours.costs["fit_seconds"] == pytest.approx((4 * 12 * 2 * 1) ** 0.25)
    assert theirs.error == pytest.approx(1.0)
    assert np.isnan(found[FAST].rank)
    assert found[FAST].elo is None
    assert [place.method for place in places(Tables.of(LINES))][-3:] == [FAST, BEST, "ebm"]


def test_elo_by_hand():
    # Nine wins of ten are 400 log10(9) points, less the small penalty.
    a, b = np.r_[np.zeros(90), np.full(10, 2.0)], np.ones(100)
    found = elo({"a": a, "b": b}, "b")
    assert found["b"].value == 1000.0
    assert found["a"].value == pytest.approx(1000 + 400 * np.log10(9.0), abs=2.0)
    assert found["a"].low < found["a"].value < found["a"].high
    # Equal errors are half a win each; sets where one was not run are left out; a failure loses.
    assert elo({"a": np.ones(5), "b": np.ones(5)}, "b")["a"].value == pytest.approx(1000.0, abs=1e-6)
    partly = elo({"a": np.array([0.0, 2.0, np.nan]), "b": np.ones(3)}, "b")
    assert partly["a"].value == pytest.approx(1000.0, abs=1e-3)
    assert elo({"a": np.array([np.inf, np.inf]), "b": np.ones(2)}, "b")["a"].value < 900
    assert elo({"a": np.ones(2)}, "a") == {}


def test_lost_sets_are_named_with_who_wins():
    assert lost(Tables.of(LINES)) == [
        ("numbers", pytest.approx(0.3), [("lightgbm", pytest.approx(0.1))]),
        ("classes", pytest.approx(0.3), [(REFERENCE, pytest.approx(0.225))]),
    ]
    page = text_of(LINES)
    assert "- **classes**: CatBoost 0.2250; gramian 0.3000.\n" in page
    assert (
        "lower than CatBoost's on 1 of 2 regressions, 0 of 1 two-class sets and 0 of 1 multiclass sets."
        in page
    )


@pytest.mark.slow
def test_the_page_has_errors_failures_and_what_was_left_out(tmp_path):
    page = text_of(LINES)
    assert "| numbers | 100 | 3 | 0.3000 ± 0.1000 | 0.0100 ± 0.0000 |" in page.replace("**", "")
    assert "- hard, CatBoost, of split 1: not done in 300 s\n" in page
    assert "Classes with fewer than 5 rows are left out: classes 2 with 6 rows in all." in page
    assert "4 sets, 2 random splits of each" in page
    assert [path.name for path in write_report(LINES, tmp_path)] == [
        "tables_overview.png",
        "tables_cost.png",
        "tables_errors.png",
        "tables_time.png",
        "tables-benchmark.md",
    ]
    # Before gramian was measured there is nothing of it to draw.
    peers_alone = [one for one in LINES if one["method"] not in (OURS, FAST, BEST)]
    assert len(list(write_report(peers_alone, tmp_path))) == 5
    assert "gramian was not run." in text_of(peers_alone)
    failed = [one for one in LINES if "failure" in one]
    with pytest.raises(InputError, match=r"there are no results yet: run benchmarks/tables\.py"):
        list(write_report(failed, tmp_path))


@pytest.mark.slow
def test_the_pages_are_those_of_the_stored_lines():
    lines = results.read(BENCHMARKS / "results" / "tables.jsonl", table_run.TABLE_KEY)
    docs = BENCHMARKS.parent / "docs"
    assert (docs / "tables-benchmark.md").read_text(encoding="utf-8") == text_of(lines)
    for page, way in ((BENCHMARKS.parent / "README.md", "docs/"), (docs / "tables.md", "")):
        text = page.read_text(encoding="utf-8")
        assert "<!-- measured: tables -->" in text
        assert filled(text, lines, way) == text


def full_lines():
    """Lines of two large sets, of which the second is lost."""
    errors = {"adult": (0.30, 0.28, 0.29), "letter": (0.10, 0.20, 0.30)}
    facts = {
        "adult": {"task": "binary", "kind": MIXED, "n_features": 14},
        "letter": {"task": "multiclass", "kind": NUMBERS, "n_features": 16},
    }
    return [
        facts[name]
        | {"set": name, "method": method, "split": 0, "most_rows": 50_000, "machine": MACHINE}
        | {"n_rows": 40_000, "n_train": 32_000, "n_test": 8_000, "classes_left_out": 0, "rows_left_out": 0}
        | {"error": error / 4, "log_loss": error, "fit_seconds": 10.0 * error}
        for name, found in errors.items()
        for method, error in zip(table_full.METHODS, found, strict=True)
    ]


def test_the_page_of_full_size_says_first_where_another_is_better():
    page = table_full.page_of(full_lines())
    assert page.startswith(
        "# Tables at full size\n\nOn 2 sets with all their rows (up to 50,000), gramian's error is more "
        "than 3% above CatBoost's on 1: adult (1.07).\nThe error is RMSE over the targets' deviation, or "
        "log-loss; defaults on both sides, 1 split, 2 threads.\nOn the 1 with categories "
        "it is 1.071 times CatBoost's in the geometric mean, and lower on 0.\nOn the 1 of numbers alone it "
        "is 0.500 times CatBoost's in the geometric mean, and lower on 1.\nTraining takes 0.8 times as long "
        "in the median.\n"
    )
    assert "| adult | 32,000 | 14 with categories | log-loss | 0.3000 | **0.2800** | 0.2900 | 0.9250," in page
    readme = "a <!-- measured: tables at full size -->old<!-- end --> b"
    assert table_full.filled(readme, full_lines()).startswith(
        "a <!-- measured: tables at full size -->\n\nOn 2 sets"
    )


@pytest.mark.slow
def test_the_page_of_full_size_is_that_of_the_stored_lines():
    lines = results.read(BENCHMARKS / "results" / "tables_full.jsonl", table_run.TABLE_KEY)
    docs = BENCHMARKS.parent / "docs"
    assert (docs / "tables-full-size.md").read_text(encoding="utf-8") == table_full.page_of(lines)
    for page, way in ((BENCHMARKS.parent / "README.md", "docs/"), (docs / "tables.md", "")):
        text = page.read_text(encoding="utf-8")
        assert "<!-- measured: tables at full size -->" in text
        assert table_full.filled(text, lines, way) == text


def test_splits_are_the_same_for_all_and_differ_by_number(no_folder):
    first, same, other = (split_of("breast_cancer", number) for number in (0, 0, 1))
    pd.testing.assert_frame_equal(first.X, same.X)
    assert not np.array_equal(first.X, other.X)
    assert len(first.X_test) == 114
    assert first.y.mean() == pytest.approx(first.y_test.mean(), abs=0.01)
    assert (first.measured_by, first.kind, split_of("digits", 0).measured_by) == (
        "binary",
        NUMBERS,
        "multiclass",
    )
    few = split_of("breast_cancer", 0, 200)
    assert (len(few.X), len(few.X_test), few.n_rows) == (160, 40, 569)


def test_classes_of_few_rows_are_left_out(monkeypatch, no_folder):
    y = np.repeat([0, 1, 2, 3], [40, LEAST_OF_CLASS, LEAST_OF_CLASS - 1, 1])
    X = np.arange(len(y), dtype=np.uint8)[:, None]
    monkeypatch.setattr("suite.table_sets.whole", lambda name: sets.Whole("classification", X, y))
    found = split_of("made", 3)
    assert (found.classes_left_out, found.rows_left_out) == (2, LEAST_OF_CLASS)
    assert set(found.y) == set(found.y_test) == {0, 1}
    np.testing.assert_array_equal(y[found.X["x0"]], found.y)


def test_tables_beside_the_data_folder_keep_their_columns(monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "data").mkdir()
    (tmp_path / "tables").mkdir()
    n = 40
    frame = pd.DataFrame(
        {
            "size": np.arange(n, dtype=float),
            "town": pd.Categorical(["Bath", "Ulm"] * (n // 2)),
            "built": pd.Timestamp("2001-01-31"),
            "__target__": pd.Categorical(["yes", "no", "no", "no"] * (n // 4)),
        }
    )
    frame.to_parquet(tmp_path / "tables" / "made.parquet")
    monkeypatch.setenv("GRAMIAN_DATA", str(tmp_path / "data"))
    found = split_of("made", 0)
    assert (found.measured_by, found.kind, found.X.shape) == ("binary", MIXED, (32, 3))
    # The unit of dates depends on the version of pyarrow.
    assert [str(each).partition("[")[0] for each in found.X.dtypes] == ["float64", "category", "datetime64"]
    np.testing.assert_array_equal(found.y, (found.X["size"] % 4 == 0).astype(int))  # "no" is 0


FRAME = pd.DataFrame(
    {
        "size": [1.0, np.nan, 3.0, 4.0],
        "lift": [True, False, True, True],
        "town": ["Ulm", None, "Bath", "Bath"],
        "built": pd.to_datetime(["2000-01-02", None, "2000-01-01", "2000-01-01"]),
    }
)


def test_columns_are_learned_from_the_training_rows():
    new = FRAME.assign(town=["Bath", "Rome", None, "Ulm"])
    text = Columns("text").fit(FRAME)
    assert list(text.transform(new)["town"]) == ["Bath", "Rome", MISSING, "Ulm"]
    assert text.text_columns_ == ["town"]
    np.testing.assert_array_equal(text.transform(FRAME)["built"], [1.0, np.nan, 0.0, 0.0])
    codes = Columns("codes").fit(FRAME).transform(new)
    np.testing.assert_array_equal(codes["town"], [0.0, np.nan, np.nan, 1.0])
    as_category = Columns("category").fit(FRAME).transform(new)["town"]
    assert list(as_category.cat.categories) == ["Bath", "Ulm"]
    assert list(as_category.isna()) == [False, True, True, False]
    np.testing.assert_array_equal(
        Columns("category", most=1).fit(FRAME).transform(new)["town"], codes["town"]
    )
    dense = dense_columns().fit(FRAME)
    assert np.isfinite(dense.transform(new)).all()
    np.testing.assert_allclose(dense.transform(FRAME)[:, 0].mean(), 0.0, atol=1e-12)


def test_scores_are_those_of_the_field():
    class Model:
        def predict(self, X):
            return np.array([1.0, 2.0, 5.0, 4.0])

        def predict_proba(self, X):
            return np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])

    empty = pd.DataFrame(index=range(4))
    y = np.array([1.0, 2.0, 3.0, 4.0])
    numbers = Split("s", "regression", empty, y, empty, y, 8, NUMBERS, 0, 0)
    assert scores(numbers, Model()) == {"error": pytest.approx(1.0 / y.std())}
    y = np.array([0, 1, 0, 1])
    found = scores(Split("s", "classification", empty, y, empty, y, 8, NUMBERS, 0, 0), Model())
    # Pairs (0.2, 0.6), (0.2, 0.5) are right, (0.7, 0.6) and (0.7, 0.5) are not.
    assert found["error"] == pytest.approx(0.5)
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.6, 0.3, 0.5]).mean())
    assert found["wrong"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nystroem", "linear", "extra_trees", "histgb", "catboost", "xgboost"])
@pytest.mark.parametrize("name", ["diabetes", "breast_cancer"])
def test_a_job_measures_a_peer(method, name, no_folder):
    for module in table_methods.TABLE_METHODS[method].needs:
        pytest.importorskip(module)
    found = TableJob(name, method, 0, 1).run()
    assert 0 < found["error"] < (1.0 if name == "diabetes" else 0.02)
    assert found["fit_seconds"] > 0
    assert (found["classes_left_out"], found["chosen"]) == (0, None)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_searched_boosting_is_that_of_the_settings_it_found(library, no_folder):
    pytest.importorskip(library)
    split = split_of("breast_cancer", 0)
    model = SearchedBoosting(library, "classification", 0, 1, trials=3).fit(split.X, split.y)
    assert 1 <= model.found_["n_estimators"] <= 1000
    assert scores(split, model)["log_loss"] < 0.2
    drawn = list(model._drawn())
    assert (len(drawn), drawn[0]) == (3, {})
    assert all(5e-3 <= one["learning_rate"] <= 0.3 for one in drawn[1:])


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(in_this_process, tmp_path):
    out = tmp_path / "lines.jsonl"
    made = list(table_run.run_tables(["diabetes"], [OURS, "linear"], out=out, **OPTIONS))
    assert [(one["method"], one["split"]) for one in made] == [
        (method, split) for split in (0, 1) for method in (OURS, "linear")
    ]
    assert all(line_text(one).startswith("diabetes") for one in made)
    assert (made[0]["n_train"], made[0]["n_rows"]) == (320, 442)
    assert [limit for _, limit in in_this_process] == [60.0] * 4
    assert list(table_run.run_tables(["diabetes"], [OURS, "linear"], out=out, **OPTIONS)) == []
    assert [json.loads(text) for text in out.read_text().splitlines()] == json.loads(json.dumps(made))
    assert len(list(table_run.run_tables(["diabetes"], ["linear"], out=out, again=True, **OPTIONS))) == 2
    # Another number of rows is another measurement.
    more = OPTIONS | {"most_rows": 300}
    assert len(list(table_run.run_tables(["diabetes"], ["linear"], out=out, **more))) == 2
    assert len(results.read(out, table_run.TABLE_KEY)) == 4


def test_gramian_competes_with_its_defaults():
    for task in ("regression", "classification"):
        for method, effort in ((OURS, "default"), (FAST, "fast"), (BEST, "best")):
            model = table_methods.TABLE_METHODS[method].build(Terms(task, 4, 2))
            defaults = type(model)().get_params()
            assert model.get_params() == defaults | {"random_state": 4, "effort": effort}


@pytest.mark.slow
def test_the_script_measures_and_reports(in_this_process, monkeypatch, capsys, tmp_path):
    # The script sets the threads of its process.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    main = runpy.run_path(str(BENCHMARKS / "tables.py"))["main"]
    out = tmp_path / "lines.jsonl"
    given = ["--quick", "--sets", "diabetes", "--methods", f"{OURS},linear", "--out", str(out)]
    assert main(given) == 0
    assert "tables-benchmark.md" in capsys.readouterr().out
    assert (tmp_path / "figures" / "tables_errors.png").stat().st_size > 0
    assert main(["--out", str(tmp_path / "none.jsonl"), "--report", str(tmp_path)]) == 2
    assert "there are no results yet" in capsys.readouterr().err
    assert main(["--quick", "--splits", "0"]) == 2
    assert "--splits 0 is too few" in capsys.readouterr().err
    assert main(["--quick", "--methods", "nothing"]) == 2
    assert "method 'nothing' is unknown" in capsys.readouterr().err
    assert main([]) == 2
    assert "GRAMIAN_DATA names no folder" in capsys.readouterr().err
