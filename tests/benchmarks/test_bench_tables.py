"""The benchmark of tables: its splits, its run, the bar and the page, with made lines and bundled sets."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from gramian.exceptions import InputError

pytest.importorskip("matplotlib", reason="needs the extra plot")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
from suite import peers, results, sets, table_methods, table_run
from suite.table_job import TableJob
from suite.table_methods import BOOSTING, OURS, TUNED, SearchedBoosting, TableMethod, Terms
from suite.table_report import line_text, text_of, write_report
from suite.table_sets import LEAST_OF_CLASS, split_of
from suite.table_summary import Tables, bar, duels, lost, not_compared, places

MACHINE = {
    "day": "2026-01-01",
    "processor": "a processor",
    "threads": 2,
    "python": "3.11",
    "commit": None,
    "versions": {"numpy": "2"},
    "limit_seconds": 300.0,
    "limit_bytes": 1e9,
}


def line(name, method, split, error, *, fit=1.0, rows=100, left_out=0):
    one = {"set": name, "method": method, "split": split, "machine": MACHINE}
    if error is None:
        return one | {"failure": "not done in 300 s"}
    return one | {
        "task": "regression" if name == "numbers" else "classification",
        "n_train": 4 * rows // 5,
        "n_test": rows // 5,
        "n_features": 3,
        "classes_left_out": left_out,
        "rows_left_out": 3 * left_out,
        "error": error,
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
    *lines_of("numbers", BOOSTING, [0.4, 0.5]),
    *lines_of("numbers", TUNED, [0.1, 0.1], fit=5.0),
    # Worse by less than a half per cent, in twelve times the time; rows beyond the limit of seconds.
    *lines_of("near", OURS, [0.2008, 0.2], fit=120.0, rows=60_000),
    *lines_of("near", BOOSTING, [0.2, 0.2], fit=10.0, rows=60_000),
    # Worse; forests fail.
    *lines_of("classes", OURS, [0.3, 0.3], fit=70.0, rows=50_000, left_out=2),
    *lines_of("classes", BOOSTING, [0.2, 0.25], fit=10.0, rows=50_000),
    *lines_of("classes", "forest", [0.1, None], rows=50_000, left_out=2),
    # Boosting fails: no duel.
    *lines_of("hard", OURS, [0.1, 0.1]),
    *lines_of("hard", BOOSTING, [0.1, None]),
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

    def dummy(shape, terms):
        return DummyRegressor() if shape.task == "regression" else DummyClassifier()

    monkeypatch.setattr(table_run, "in_fresh_process", run)
    monkeypatch.setitem(table_methods.TABLE_METHODS, OURS, TableMethod("gramian", "a dummy", dummy))
    return jobs


OPTIONS = {"splits": 2, "limit": 60.0, "memory": 20e9, "threads": 1}


def test_duels_by_hand():
    found = {duel.set: duel for duel in duels(Tables.of(LINES))}
    assert set(found) == {"numbers", "near", "classes"}
    numbers = found["numbers"]
    assert (numbers.ours, numbers.theirs) == (pytest.approx(0.3), pytest.approx(0.45))
    shares = np.array([0.2005 / 0.4005, 0.4005 / 0.5005]) - 1
    assert numbers.difference == pytest.approx(shares.mean())
    assert numbers.spread == pytest.approx(abs(shares[0] - shares[1]) / 2)
    assert (numbers.times, numbers.longest, numbers.n_rows) == (4.0, 4.0, 100)
    assert [(found[name].no_worse, found[name].better) for name in ("numbers", "near", "classes")] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert not_compared(Tables.of(LINES)) == ["hard"]


def test_a_split_on_which_gramian_fails_is_no_better_and_never_within_the_time():
    lines = [*lines_of("numbers", OURS, [0.1, None]), *lines_of("numbers", BOOSTING, [0.4, 0.5])]
    (duel,) = duels(Tables.of(lines))
    assert not duel.no_worse
    assert not duel.better
    assert bar([duel])[-1].measured == "a fit failed (numbers)"
    assert not bar([duel])[-1].met
    assert lost(Tables.of(lines), (BOOSTING,)) == [("numbers", np.inf, [(BOOSTING, pytest.approx(0.45))])]


def test_the_bar_by_hand():
    no_worse, better, times, seconds = bar(duels(Tables.of(LINES)))
    assert (no_worse.measured, no_worse.met) == ("2 of 3: 67%", False)
    assert (better.measured, better.met) == ("1 of 3: 33%", False)
    assert (times.measured, times.met) == ("12 (near); above on 1 of 3", False)
    assert (seconds.measured, seconds.met) == ("70.0 s (classes)", False)
    assert [part.met for part in bar(duels(Tables.of(LINES))[:1])] == [True] * 4


def test_places_by_hand():
    found = {place.method: place for place in places(Tables.of(LINES))}
    ours, boosting, forest = found[OURS], found[BOOSTING], found["forest"]
    # numbers: tuned, gramian, boosting; near: boosting, gramian; classes: boosting, gramian, forest failed.
    assert ours.rank == pytest.approx((2 + 2 + 2 + 1) / 4)
    assert boosting.rank == pytest.approx((3 + 1 + 1 + 2) / 4)
    assert (forest.rank, forest.failures, forest.n_sets, forest.wins) == (3.0, 1, 1, 0)
    assert (ours.wins, boosting.wins, found[TUNED].wins) == (2, 2, 1)
    assert ours.costs["fit_seconds"] == pytest.approx((4 * 12 * 7 * 1) ** 0.25)
    assert boosting.error == pytest.approx(1.0)


def test_lost_sets_are_named_with_who_wins_and_why():
    assert lost(Tables.of(LINES), (BOOSTING, TUNED)) == [
        ("numbers", pytest.approx(0.3), [(TUNED, pytest.approx(0.1))]),
        ("classes", pytest.approx(0.3), [(BOOSTING, pytest.approx(0.225))]),
    ]
    page = text_of(LINES, {"classes": "Steps.", "near": "No reason is needed here."})
    assert "- **classes**: HistGB 0.2250; gramian 0.3000. Steps.\n" in page
    assert "- **numbers**: HistGB, tuned 0.1000; gramian 0.3000.\n" in page
    assert "No reason" not in page


@pytest.mark.slow
def test_the_page_has_errors_failures_and_what_was_left_out(tmp_path):
    page = text_of(LINES, {})
    assert (
        "| numbers | 100 | 3 | 0.3000 ± 0.1000 | 0.4500 ± 0.0500 | **0.1000** ± 0.0000 |  | -35.0% ± 15.0% |"
        in page
    )
    assert "- hard, HistGB, of split 1: not done in 300 s\n" in page
    assert "Classes with fewer than 5 rows are left out: classes 2 with 6 rows in all." in page
    assert "hard is not counted: HistGradientBoosting with defaults failed there." in page
    assert "4 sets, 2 random splits of each" in page
    assert [path.name for path in write_report(LINES, tmp_path, {})] == [
        "tables_errors.png",
        "tables_time.png",
        "tables-benchmark.md",
    ]
    # Before gramian was measured there is no duel to draw.
    peers_alone = [one for one in LINES if one["method"] != OURS]
    assert [path.name for path in write_report(peers_alone, tmp_path, {})] == [
        "tables_time.png",
        "tables-benchmark.md",
    ]
    assert "gramian was not run." in text_of(peers_alone, {})
    with pytest.raises(InputError, match=r"there are no results yet: run benchmarks/tables\.py"):
        list(write_report([LINES[-1]], tmp_path, {}))


def test_fits_on_a_busy_machine_are_counted():
    assert "other work" not in text_of(LINES, {})
    busy = [LINES[0] | {"load": 3.5}, LINES[1] | {"load": 2.1}, *LINES[2:]]
    page = text_of(busy, {})
    assert f"The machine had other work when 1 of the {len(LINES)} fits began" in page


def test_splits_are_the_same_for_all_and_differ_by_number(no_folder):
    first, same, other = (split_of("breast_cancer", number).problem for number in (0, 0, 1))
    np.testing.assert_array_equal(first.X, same.X)
    assert not np.array_equal(first.X, other.X)
    assert len(first.X_test) == 114
    assert first.y.mean() == pytest.approx(first.y_test.mean(), abs=0.01)


def test_classes_of_few_rows_are_left_out(monkeypatch):
    y = np.repeat([0, 1, 2, 3], [40, LEAST_OF_CLASS, LEAST_OF_CLASS - 1, 1])
    X = np.arange(len(y), dtype=np.uint8)[:, None]
    monkeypatch.setattr("suite.table_sets.whole", lambda name: sets.Whole("classification", X, y))
    found = split_of("made", 3)
    assert (found.classes_left_out, found.rows_left_out) == (2, LEAST_OF_CLASS)
    problem = found.problem
    assert set(problem.y) == set(problem.y_test) == {0, 1}
    assert problem.X.dtype == np.uint8
    np.testing.assert_array_equal(y[problem.X[:, 0]], problem.y)


def test_methods_unknown_or_not_installed(monkeypatch):
    assert table_methods.check([TUNED, "forest", OURS]) == [OURS, TUNED, "forest"]
    with pytest.raises(InputError, match=r"'forrest' is unknown. Did you mean 'forest'"):
        table_methods.check(["forrest"])
    monkeypatch.setattr("suite.methods.installed", lambda: dict.fromkeys(peers.PEERS))
    assert table_methods.available() == [name for name in table_methods.TABLE_METHODS if name != "xrfm"]
    with pytest.raises(InputError, match=r"'xrfm' needs xRFM, which is not installed\. Install it with: pip"):
        table_methods.check(["xrfm"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nystroem", "forest", BOOSTING])
@pytest.mark.parametrize("name", ["diabetes", "breast_cancer"])
def test_a_job_measures_a_peer(method, name, no_folder):
    found = TableJob(name, method, 0, 1).run()
    assert 0 < found["error"] < (1.0 if name == "diabetes" else 0.1)
    assert found["fit_seconds"] > 0
    assert (found["classes_left_out"], found["chosen"]) == (0, None)


@pytest.mark.slow
def test_searched_boosting_is_that_of_the_settings_it_found(no_folder):
    problem = split_of("diabetes", 0).problem
    model = SearchedBoosting("regression", 0.5).fit(problem.X, problem.y)
    assert model.found_.tried >= 1
    again = table_methods.SEARCHED.make(
        model.found_.settings, table_methods.Shape.of("regression", problem.X)
    ).fit(problem.X, problem.y)
    np.testing.assert_array_equal(model.predict(problem.X_test), again.predict(problem.X_test))
    drawn = table_methods.SEARCHED.candidates(table_methods.Shape.of("regression", problem.X), 0)
    assert next(drawn) == {}  # the defaults come first
    trees = next(drawn)["trees"]
    assert 30 <= trees <= 500
    built = table_methods.SEARCHED.build({"trees": 7}, 100, table_methods.Shape("regression", 9, 2))
    assert built.max_iter == 7


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(in_this_process, tmp_path):
    out = tmp_path / "lines.jsonl"
    made = list(table_run.run_tables(["diabetes"], [OURS, TUNED, "forest"], out=out, **OPTIONS))
    assert [(one["method"], one["split"]) for one in made] == [
        (method, split) for split in (0, 1) for method in (OURS, TUNED, "forest")
    ]
    assert all(line_text(one).startswith("diabetes") for one in made)
    ours, tuned = made[0], made[1]
    assert tuned["search_seconds"] == max(ours["fit_seconds"], 1e-3)
    # The seconds of a search come on top of the limit.
    job, limit = in_this_process[1]
    assert limit == 60.0 + job.seconds
    assert list(table_run.run_tables(["diabetes"], [OURS, TUNED, "forest"], out=out, **OPTIONS)) == []
    assert [json.loads(text) for text in out.read_text().splitlines()] == json.loads(json.dumps(made))
    assert len(list(table_run.run_tables(["diabetes"], ["forest"], out=out, again=True, **OPTIONS))) == 2
    # Where gramian has become slower since, the search gets its seconds too.
    results.append(out, ours | {"fit_seconds": 2.0 * tuned["search_seconds"]})
    again = list(table_run.run_tables(["diabetes"], [TUNED], out=out, **OPTIONS))
    assert [(one["split"], one["search_seconds"]) for one in again] == [(0, 2.0 * tuned["search_seconds"])]


def test_a_search_without_the_seconds_of_gramian_waits(in_this_process, tmp_path):
    out = tmp_path / "lines.jsonl"
    assert list(table_run.run_tables(["diabetes"], [TUNED], out=out, **OPTIONS)) == []
    results.append(out, line("diabetes", OURS, 0, None))
    assert list(table_run.run_tables(["diabetes"], [TUNED], out=out, **OPTIONS)) == []


def test_gramian_competes_with_its_defaults():
    for task in ("regression", "classification"):
        model = table_methods.TABLE_METHODS[OURS].build(table_methods.Shape(task, 100, 3, 4), Terms(2))
        defaults = type(model)().get_params()
        assert model.get_params() == defaults | {"random_state": 4}


@pytest.mark.slow
def test_the_script_measures_and_reports(in_this_process, monkeypatch, capsys, tmp_path):
    # The script sets the threads of its process.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    main = runpy.run_path(str(BENCHMARKS / "tables.py"))["main"]
    out = tmp_path / "lines.jsonl"
    given = ["--quick", "--sets", "diabetes", "--methods", f"{OURS},{BOOSTING}", "--out", str(out)]
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
