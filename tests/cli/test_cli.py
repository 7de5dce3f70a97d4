"""The command line from files to files; every error by its text and exit code."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import Pipeline

import gramian as gm
from gramian.model_file import describe

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from command_line import bad, good, run

from gramian.cli import files
from gramian.data.formats import text
from gramian.reporting import rows as cli_rows

RNG = np.random.default_rng(0)
N = 150
#: Features on scales of their own, so that standardisation is what makes the kernel work.
FRAME = pd.DataFrame(
    RNG.standard_normal((N, 3)) * [1.0, 100.0, 0.01] + [0.0, 1e4, 5.0], columns=["a", "b", "c"]
)
FRAME["y"] = np.sin(2 * FRAME.a) + (FRAME.b - 1e4) / 200 + 0.05 * RNG.standard_normal(N)
TEXT = FRAME.assign(y=np.where(FRAME.y > 0, "yes", "no"))
GIVEN = ["--gamma", "0.2", "--alpha", "0.1"]


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".npz":
        X, y = frame.drop(columns="y").to_numpy(), frame["y"].to_numpy()
        np.savez(path, X=X, y=y.astype(str) if y.dtype.kind not in "biuf" else y)
    elif path.suffix == ".svmlight":
        dump_svmlight_file(frame.drop(columns="y").to_numpy(), frame["y"].to_numpy(), str(path))
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression model of FRAME with the names of its columns."""
    folder = tmp_path_factory.mktemp("model")
    good("fit", write(FRAME, folder / "t.csv"), "--target", "y", *GIVEN, "--out", folder / "m.gramian")
    return folder / "m.gramian"


# ---- fit and predict, end to end ---------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".npz", ".svmlight"])
def test_regression_from_every_format(suffix: str, tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / f"t{suffix}")
    target = [] if suffix in (".npz", ".svmlight") else ["--target", "y"]
    said = good("fit", table, *target, *GIVEN, "--out", tmp_path / "m.gramian")
    assert "150 × 3" in said
    assert "regression (the target holds numbers, 150 distinct ones)" in said
    assert "30 rows" in said
    assert "The saved model was fitted on all rows" in said
    said = good("predict", tmp_path / "m.gramian", table, "--out", tmp_path / "p.csv")
    assert "Wrote 150 predictions" in said
    assert "Score on the 150 values of 'y' in the file: R² 0.9" in said
    predicted = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert np.corrcoef(predicted, FRAME.y)[0, 1] > 0.97


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_classes_from_text(suffix: str, tmp_path: Path) -> None:
    table = write(TEXT, tmp_path / f"t{suffix}")
    said = good("fit", table, "--target", "y", *GIVEN, "--out", tmp_path / "m.gramian")
    assert "classification (the target holds text)" in said
    assert "most frequent class: 0.5" in said
    said = good("predict", tmp_path / "m.gramian", table, "--out", tmp_path / "p.parquet")
    assert "of 'y' in the file: accuracy 0.9" in said
    assert set(pd.read_parquet(tmp_path / "p.parquet")["prediction"]) == {"yes", "no"}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.arange(N) % 3, "classification (the target holds 3 distinct whole numbers)"),
        ((np.arange(N) % 3).astype(float), "classification (the target holds 3 distinct whole numbers)"),
        (FRAME.y.to_numpy() > 0, "classification (the target holds booleans)"),
        (np.arange(N) % 21, "regression (the target holds numbers, 21 distinct ones)"),
        ((np.arange(N) % 3) / 2, "regression (the target holds numbers, 3 distinct ones)"),
    ],
)
def test_the_task_is_seen_from_the_target(labels: Any, said: str, tmp_path: Path) -> None:
    table = write(FRAME.assign(y=labels), tmp_path / "t.csv")
    assert said in good("fit", table, "--target", "y", *GIVEN, "--out", tmp_path / "m.gramian")
    good("predict", tmp_path / "m.gramian", table, "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")["prediction"]
    if said.startswith("classification"):
        assert set(predicted) <= set(labels.tolist())


def test_the_task_can_be_named(tmp_path: Path) -> None:
    table = write(FRAME.assign(y=np.arange(N) % 3), tmp_path / "t.csv")
    said = good(
        "fit", table, "--target", "y", *GIVEN, "--task", "regression", "--out", tmp_path / "m.gramian"
    )
    assert "regression (as asked)" in said
    assert isinstance(gm.load(tmp_path / "m.gramian")[-1], gm.KernelRidge)


def test_the_model_is_a_pipeline_that_takes_raw_rows(model: Path) -> None:
    loaded = gm.load(model)
    assert isinstance(loaded, Pipeline)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    assert loaded.score(FRAME[["a", "b", "c"]], FRAME.y) > 0.95
    notes = describe(model)["notes"]
    assert (notes["task"], notes["target"]) == ("regression", "y")
    assert re.fullmatch(r"R² [\d.]+, RMSE [\d.]+ on 30 rows, before the fit to all rows", notes["held out"])


@pytest.mark.filterwarnings("ignore:Columns .* differ in scale")
def test_without_standardisation_or_held_out_rows_it_is_the_library_s_own_fit(tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / "t.parquet")
    options = ["--no-standardize", "--holdout", "0", "--seed", "3", "--threads", "1"]
    said = good("fit", table, "--target", "y", *GIVEN, *options, "--out", tmp_path / "m.gramian")
    assert "held out" not in said
    assert "The saved model" not in said
    # Row by row in memory, as files are read; sums over columns would round differently.
    X, y = np.ascontiguousarray(FRAME[["a", "b", "c"]]), FRAME.y.to_numpy()
    own = gm.KernelRidge(0.1, gamma=0.2, fit_intercept=True, random_state=3, n_jobs=1).fit(X, y)
    loaded = gm.load(tmp_path / "m.gramian")
    assert type(loaded) is gm.KernelRidge
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(loaded.predict(X), own.predict(X))


def test_same_seed_same_file(model: Path, tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / "t.csv")
    first, second = tmp_path / "1.gramian", tmp_path / "2.gramian"
    for out in (first, second):
        good("fit", table, "--target", "y", *GIVEN, "--threads", 1, "--out", out)
    X = FRAME[["a", "b", "c"]]
    np.testing.assert_array_equal(gm.load(first).predict(X), gm.load(second).predict(X))
    np.testing.assert_array_equal(gm.load(first).predict(X), gm.load(model).predict(X))


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "poly", "linear"])
def test_parameters_are_chosen_by_a_search(kernel: str, tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / "t.csv")
    said = good("fit", table, "--target", "y", "--kernel", kernel, "--out", tmp_path / "m.gramian")
    chosen = "alpha" if kernel in ("poly", "linear") else "gamma and alpha"
    assert f"{chosen} by leave-one-out errors on 120 rows" in said
    assert gm.load(tmp_path / "m.gramian")[-1].kernel == kernel


def test_the_search_for_classes_and_for_one_parameter(tmp_path: Path) -> None:
    table = write(FRAME.assign(y=np.digitize(FRAME.y, [-1, 1])), tmp_path / "t.csv")
    arguments = ["fit", table, "--target", "y", "--kernel", "rbf", "--out", tmp_path / "m.gramian"]
    assert "gamma and alpha by leave-one-out errors on 120 rows" in good(*arguments)
    assert " alpha by leave-one-out errors" in good(*arguments, "--gamma", "0.3")
    assert "alpha 0.5 gamma by leave-one-out errors" in good(*arguments, "--alpha", "0.5")


def test_meka_within_a_budget(tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / "t.csv")
    options = ["--approximation", "meka", "--memory", "500MB"]
    said = good("fit", table, "--target", "y", *GIVEN, *options, "--out", tmp_path / "m.gramian")
    assert "meka" in said
    assert "predicted peak, of 500 MB" in said


# ---- rows to predict ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_go_by_name_in_any_order(suffix: str, model: Path, tmp_path: Path) -> None:
    mixed = FRAME[["c", "a", "b"]].assign(more="text")
    said = good("predict", model, write(mixed, tmp_path / f"r{suffix}"), "--out", tmp_path / "p.npz")
    assert "Left out: the model was not trained on column 'more' of" in said
    assert "Score" not in said
    assert "Not scored" not in said
    predicted = np.load(tmp_path / "p.npz")["prediction"]
    np.testing.assert_allclose(predicted, gm.load(model).predict(FRAME[["a", "b", "c"]]), rtol=1e-9)


def test_columns_go_by_position_without_names(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", X=FRAME[["a", "b", "c"]].to_numpy())
    good("predict", model, tmp_path / "r.npz", "--out", tmp_path / "p.npz")
    expected = gm.load(model).predict(FRAME[["a", "b", "c"]])
    np.testing.assert_array_equal(np.load(tmp_path / "p.npz")["prediction"], expected)
    np.savez(tmp_path / "r.npz", X=FRAME[["c", "a", "b"]].to_numpy(), feature_names=["c", "a", "b"])
    good("predict", model, tmp_path / "r.npz", "--out", tmp_path / "p.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "p.npz")["prediction"], expected)


def test_a_model_without_names_takes_columns_by_position(tmp_path: Path) -> None:
    train, rows = write(FRAME, tmp_path / "t.npz"), write(FRAME, tmp_path / "r.csv")
    good("fit", train, *GIVEN, "--out", tmp_path / "m.gramian")
    assert "R² 0.9" in good("predict", tmp_path / "m.gramian", rows, "--out", tmp_path / "p.csv")


def test_targets_that_cannot_be_scored_are_left_alone(model: Path, tmp_path: Path) -> None:
    holes = FRAME.assign(y=FRAME.y.where(FRAME.index > 5))
    said = good("predict", model, write(holes, tmp_path / "r.csv"), "--out", tmp_path / "p.csv")
    assert "Wrote 150 predictions" in said
    assert "Not scored: Row 0 of" in said
    assert "has a missing value or NaN in the target 'y'" in said
    for y in (0.0, "text"):
        rows = write(FRAME.assign(y=y), tmp_path / "r.csv")
        assert "Not scored: the target" in good("predict", model, rows, "--out", tmp_path / "p.csv")


# ---- plan, demo, help --------------------------------------------------------------------------


def test_plan_fits_nothing(tmp_path: Path) -> None:
    options = ["--target", "y", "--memory", "200MB", "--kernel", "rbf"]
    said = good("plan", write(FRAME, tmp_path / "t.csv"), *options)
    assert "150 rows × 3 features, regression" in said
    assert "alpha 0.1 (fit searches for those that are not given)" in said
    assert "multiresolution: root rank" in said
    assert "budget 200 MB, predicted peak" in said
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_demo_is_called_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("gramian.demo.main", lambda *arguments: calls.append(arguments))
    good("demo", "--rows", 1000, "--memory", "100MB", "--out", tmp_path)
    assert calls == [(1000, "100MB", tmp_path)]


def test_help_names_the_commands() -> None:
    said = good("--help")
    assert all(word in said for word in ("fit", "predict", "plan", "demo"))


# ---- errors ------------------------------------------------------------------------------------


def test_errors_of_fit(tmp_path: Path) -> None:
    table, out = write(FRAME, tmp_path / "t.csv"), ("--out", tmp_path / "m.gramian")
    text = write(TEXT, tmp_path / "text.csv")
    odd = write(FRAME.assign(c="red", b=np.nan), tmp_path / "odd.csv")
    holes = write(FRAME.assign(b=FRAME.b.where(FRAME.index > 0)), tmp_path / "holes.csv")
    one = write(FRAME.assign(y="same"), tmp_path / "one.csv")
    few = write(FRAME[:5], tmp_path / "few.csv")
    np.savez(tmp_path / "two.npz", X=np.ones((20, 2)), y=np.ones((20, 2)))
    y, rbf = ("--target", "y"), ("--kernel", "rbf")
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((tmp_path / "x.csv", *y, *out), "Error: There is no file"),
        (
            (table, *out),
            "contains no target to learn. Pass --target NAME (one of its columns: 'a', 'b', 'c', 'y')",
        ),
        ((table, "--target", "Y", *out), "has no target column 'Y'. Did you mean 'y'?"),
        ((odd, *y, *rbf, *out), "column 'c' holds text (such as 'red')"),
        ((holes, *y, *rbf, *out), "has a missing value or NaN in column 'b'"),
        ((text, *y, "--task", "regression", *out), "the target holds text, which regression cannot predict"),
        ((one, *y, *rbf, *out), "the target has one class ('same'); a classifier needs at least 2 classes"),
        ((few, *y, *out), "5 rows are too few to hold out a part of them. Pass --holdout 0."),
        ((tmp_path / "two.npz", *out), "the target has shape (20, 2). Store one number a row"),
        ((table, *y, "--out", tmp_path / "no" / "m.gramian"), "does not exist. Create it first"),
        ((table, *y, "--memory", "lots", *out), "--memory 'lots' is not a size"),
        ((table, *y, *GIVEN, "--memory", "1kB", *out), "--memory 1 kB is too small"),
        ((table, *y, "--kernel", "rfb", *out), "--kernel 'rfb' is not a known name. Did you mean 'rbf'?"),
        ((table, *y, "--gamma", "-1", *out), "--gamma -1.0"),
        ((table, *y, "--alpha", "0", *out), "--alpha 0.0 must be a positive, finite number"),
        ((table, *y, "--approximation", "mega", *out), "--approximation 'mega' is unknown"),
    ]
    for arguments, said in cases:
        error = bad("fit", *arguments)
        assert error.startswith("Error: "), arguments
        assert said in error, arguments
    assert not (tmp_path / "m.gramian").exists()


def test_errors_of_predict(model: Path, tmp_path: Path) -> None:
    rows, out = write(FRAME, tmp_path / "r.csv"), ("--out", tmp_path / "p.csv")
    (tmp_path / "m.gramian").write_bytes(model.read_bytes()[:500])
    narrow = write(FRAME[["a", "c"]].assign(y=0), tmp_path / "narrow.csv")
    np.savez(tmp_path / "narrow.npz", X=np.ones((4, 2)))
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((tmp_path / "x.gramian", rows, *out), "cannot be loaded: the file does not exist"),
        ((rows, rows, *out), "expected a zip archive"),
        ((tmp_path / "m.gramian", rows, *out), "cannot be loaded: its directory cannot be read"),
        ((model, tmp_path / "x.csv", *out), "There is no file"),
        ((model, narrow, *out), "has no feature column 'b'"),
        ((model, tmp_path / "narrow.npz", *out), "has 2 features, but 3 were expected"),
        ((model, rows, "--out", tmp_path / "p.txt"), "is not a known format"),
        ((model, rows, "--out", tmp_path / "p.svmlight"), "Predictions cannot be written as p.svmlight"),
        ((model, rows, "--out", tmp_path / "no" / "p.csv"), "does not exist. Create it first"),
    ]
    for arguments, said in cases:
        assert said in bad("predict", *arguments), arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "t.csv"], "Missing option '--out'"),
        (["fit", "t.csv", "--out", "m", "--gama", "1"], "No such option"),
        (["fit", "t.csv", "--out", "m", "--task", "rank"], "'rank' is not one of"),
        (["fit", "t.csv", "--out", "m", "--holdout", "1"], "Invalid value for '--holdout'"),
        (["fit", "t.csv", "--out", "m", "--threads", "0"], "Invalid value for '--threads'"),
        (["predict", "m.gramian"], "Missing argument"),
        (["train"], "No such command 'train'"),
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], said: str) -> None:
    assert said in bad(*arguments, code=2)


def test_traceback_is_shown_on_request(tmp_path: Path) -> None:
    result = run("plan", tmp_path / "x.csv", "--traceback")
    assert result.exit_code == 1
    assert isinstance(result.exception, gm.InputError)


def test_warnings_take_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(*_: object) -> None:
        warnings.simplefilter("always")
        warnings.warn("mind the gap", gm.AccuracyWarning, stacklevel=2)

    monkeypatch.setattr("gramian.demo.main", noisy)
    result = run("demo", "--out", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "Warning: mind the gap\n")


def test_what_is_chosen_goes_into_the_fit_on_all_rows(tmp_path: Path) -> None:
    table = write(FRAME, tmp_path / "t.csv")
    options = ["--target", "y", "--kernel", "rbf", "--out", tmp_path / "m.gramian"]
    said = good("fit", table, *options)
    model = gm.load(tmp_path / "m.gramian")[-1]
    assert f"rbf, gamma {model.gamma:.4g}, alpha {model.alpha:.4g}" in said
    few = write(FRAME[:12], tmp_path / "few.csv")  # too few for a search, which leaves the usual gamma
    assert "rbf, gamma 0.3333" in good("fit", few, *options, "--holdout", "0")


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('no typer', name='typer')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gramian.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    expected = "Error: the command line needs the package typer. Run: pip install 'gramian[cli,files]'\n"
    assert done.stderr == expected


@pytest.mark.slow
def test_the_installed_command_runs(model: Path, tmp_path: Path) -> None:
    rows = write(FRAME, tmp_path / "r.csv")
    command = [sys.executable, "-m", "gramian.cli", "predict", str(model), str(rows), "--out"]
    done = subprocess.run([*command, str(tmp_path / "p.csv")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Wrote 150 predictions" in done.stdout


# ---- files that do not fit into memory ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_rows_that_do_not_stay_in_memory_give_the_same_model(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first kernel means plain kernel ridge regression, the other one the model for tables."""
    monkeypatch.setattr(text, "TEXT_BYTES", 1000)
    table = write(FRAME, tmp_path / "t.csv")
    found = []
    for keep in (1e9, 0.0):
        monkeypatch.setattr(files, "parse_bytes", lambda _, keep=keep: keep)
        arguments = ["--kernel", kernel, *(["--metric", "none"] if kernel == "laplacian" else [])]
        good("fit", table, "--target", "y", *arguments, "--threads", "1", "--out", tmp_path / "m.gramian")
        found.append(gm.load(tmp_path / "m.gramian").predict(FRAME[["a", "b", "c"]]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".npz"])
def test_predictions_are_written_block_by_block(
    suffix: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, out = write(FRAME, tmp_path / "r.csv"), tmp_path / f"p{suffix}"
    monkeypatch.setattr(cli_rows, "STEP", 40)
    assert "Score on the 150 values of 'y' in the file: R² 0.9" in good("predict", model, rows, "--out", out)
    readers = {".parquet": pd.read_parquet, ".npz": np.load}
    predicted = readers.get(suffix, pd.read_csv)(out)["prediction"]
    np.testing.assert_allclose(predicted, gm.load(model).predict(FRAME[["a", "b", "c"]]), rtol=1e-12)


def test_an_error_in_the_last_block_leaves_the_old_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_rows, "STEP", 40)
    out = tmp_path / "p.csv"
    out.write_text("old")
    holes = write(FRAME.assign(b=FRAME.b.where(FRAME.index < N - 1)), tmp_path / "r.csv")
    assert "Row 149 of" in bad("predict", model, holes, "--out", out)
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "r.csv"]
