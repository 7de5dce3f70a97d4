"""The command line on tables as they are: words, dates, gaps; which model is meant; errors by column."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.model_file import describe

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from command_line import bad, good, run

from gramian.cli import app as cli_app
from gramian.cli import table_training
from gramian.cli.options import TrainingOptions, check_settings, for_tables
from gramian.data.formats.numpy_files import read_arrays

RNG = np.random.default_rng(0)
N = 300
TOWN = RNG.choice(["Bath", "Hull", "York"], N)
FRAME = pd.DataFrame(
    {
        "size": np.exp(RNG.standard_normal(N)),
        "town": TOWN,
        "lift": RNG.random(N) < 0.5,
        "built": pd.Timestamp("2000-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), unit="D"),
        "code": RNG.choice([11, 22, 33], N),
        "same": 1,
    }
)
PRICE = np.log(FRAME["size"]) + 2 * (TOWN == "Hull") + FRAME.lift + 0.1 * RNG.standard_normal(N)
FRAME.loc[::11, "size"] = np.nan
FRAME.loc[::13, "town"] = None
REGRESSION = FRAME.assign(price=PRICE)
CLASSES = FRAME.assign(kind=np.where(PRICE > 1, "dear", "cheap"))
#: The cheapest search that is one.
QUICK = ["--kernel", "laplacian", "--metric", "none", "--threads", "1"]


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression of REGRESSION."""
    folder = tmp_path_factory.mktemp("model")
    table = write(REGRESSION, folder / "t.csv")
    good("fit", table, "--target", "price", *QUICK, "--out", folder / "m.gramian")
    return folder / "m.gramian"


# ---- fit, predict, report ------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", pytest.param(".parquet", marks=pytest.mark.slow)])
def test_regression_of_a_table_as_it_is(suffix: str, tmp_path: Path) -> None:
    table = write(REGRESSION, tmp_path / f"t{suffix}")
    said = good("fit", table, "--target", "price", *QUICK, "--out", tmp_path / "m.gramian")
    for text in (
        "300 × 6",
        "2 numeric, 1 category, 1 boolean, 1 date",
        "Column 'same' is constant and is not used.",
        "laplacian kernel with no metric",
        "importance",
        "60 rows",
    ):
        assert text in said
    assert float(re.search(r"R² ([\d.]+)", said)[1]) > 0.6
    loaded = gm.load(tmp_path / "m.gramian")
    assert type(loaded) is gm.TabularRegressor
    # What was asked for, and not what the first fit chose for the second.
    assert (loaded.kernel, loaded.metric, loaded.scaling, loaded.target) == (
        "laplacian",
        None,
        "auto",
        "auto",
    )
    notes = describe(tmp_path / "m.gramian")["notes"]
    assert (notes["task"], notes["target"]) == ("regression", "price")
    assert "on 60 rows" in notes["held out"]


@pytest.mark.slow
def test_the_default_is_the_search_over_all(tmp_path: Path) -> None:
    table = write(CLASSES, tmp_path / "t.csv")
    said = good("fit", table, "--target", "kind", "--out", tmp_path / "m.gramian")
    assert "classification (the target holds text)" in said
    loaded = gm.load(tmp_path / "m.gramian")
    assert type(loaded) is gm.TabularClassifier
    assert (loaded.kernel, loaded.metric) == ("auto", "auto")
    said = good("predict", tmp_path / "m.gramian", table, "--out", tmp_path / "p.csv", "--probabilities")
    assert "accuracy 0.9" in said
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found) == ["prediction", "probability of cheap", "probability of dear"]
    np.testing.assert_allclose(found.iloc[:, 1] + found.iloc[:, 2], 1.0)
    assert ((found["probability of dear"] > 0.5) == (found.prediction == "dear")).mean() > 0.95


@pytest.mark.slow
def test_without_held_out_rows_it_is_the_library_s_own_fit(tmp_path: Path) -> None:
    table = write(REGRESSION, tmp_path / "t.parquet")
    options = [*QUICK, "--holdout", "0", "--seed", "3", "--categorical", "code"]
    said = good("fit", table, "--target", "price", *options, "--out", tmp_path / "m.gramian")
    assert "held out" not in said
    assert "2 category" in said
    own = gm.TabularRegressor(kernel="laplacian", metric=None, categorical=["code"], random_state=3, n_jobs=1)
    own.fit(FRAME, PRICE)
    np.testing.assert_allclose(gm.load(tmp_path / "m.gramian").predict(FRAME), own.predict(FRAME), rtol=1e-8)


@pytest.mark.slow
def test_rows_to_predict_may_be_otherwise(model: Path, tmp_path: Path) -> None:
    loaded = gm.load(model)
    rows = FRAME[:40].assign(town=FRAME.town[:40].replace("York", "Leeds"))
    other = rows[["built", "town", "code", "lift", "size"]].assign(more="text", price="unknown")
    said = good("predict", model, write(other, tmp_path / "r.csv"), "--out", tmp_path / "p.csv")
    assert "Wrote 40 predictions" in said
    assert "Not scored: the target in the file is constant, or of another type" in said
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, loaded.predict(rows), rtol=1e-9)


@pytest.mark.slow
def test_a_category_that_looks_like_a_number_is_text(tmp_path: Path) -> None:
    codes = np.where(FRAME.code == 11, "A1", FRAME.code.astype(str))
    table = write(FRAME.assign(code=codes, price=PRICE), tmp_path / "t.csv")
    good("fit", table, "--target", "price", *QUICK, "--holdout", "0", "--out", tmp_path / "m.gramian")
    rows = FRAME.assign(code=22)
    good("predict", tmp_path / "m.gramian", write(rows, tmp_path / "r.csv"), "--out", tmp_path / "p.csv")
    expected = gm.load(tmp_path / "m.gramian").predict(FRAME.assign(code="22"))
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y"])
def test_dates_in_files_are_those_that_pandas_reads_as_text(form: str, tmp_path: Path) -> None:
    rows = FRAME.assign(built=FRAME.built.dt.strftime(form))
    table = write(rows.assign(price=PRICE), tmp_path / "t.csv")
    good("fit", table, "--target", "price", *QUICK, "--holdout", "0", "--out", tmp_path / "m.gramian")
    loaded, text = gm.load(tmp_path / "m.gramian"), pd.read_csv(table).drop(columns="price")
    assert not pd.api.types.is_datetime64_any_dtype(text["built"])
    own = gm.TabularRegressor(kernel="laplacian", metric=None, random_state=0, n_jobs=1).fit(text, PRICE)
    assert own.columns_.feature_names == loaded.columns_.feature_names
    assert "built: season (sin)" in own.columns_.feature_names
    np.testing.assert_allclose(loaded.predict(text), own.predict(text), rtol=1e-8)
    # One unreadable cell makes text of the file's whole column; it is missing, and the others are dates.
    rows["built"] = rows.built.astype(object)
    expected = own.predict(rows.assign(built=rows.built.where(rows.index != 7, None)))
    rows.loc[7, "built"] = "soon"
    file = write(rows, tmp_path / "r.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        told = run("predict", tmp_path / "m.gramian", file, "--out", tmp_path / "p.csv")
    assert "values such as 'soon' are treated as missing" in " ".join(told.stderr.split())
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected, rtol=1e-8)


@pytest.mark.slow
def test_intervals_are_columns(model: Path, tmp_path: Path) -> None:
    table = write(REGRESSION, tmp_path / "t.csv")
    good("predict", model, table, "--out", tmp_path / "p.npz", "--coverage", "0.8")
    found = read_arrays(tmp_path / "p.npz")
    assert (found["low"] < found["prediction"]).all()
    assert (found["prediction"] < found["high"]).all()
    inside = (found["low"] <= PRICE) & (found["high"] >= PRICE)
    assert inside.mean() > 0.7


@pytest.mark.slow
def test_the_report_judges_and_draws(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table = write(REGRESSION, tmp_path / "t.csv")
    said = good("report", model, "--data", table, "--html", tmp_path / "r.html")
    assert "TabularRegressor" in said
    assert re.search(r"intervals 50% hold [\d.]+%, 80% hold [\d.]+%, 90% hold", said)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for text in ("What the model looks at", "Predicted against true", "Seconds per phase"):
        assert text in page


def test_plan_says_what_columns_become(tmp_path: Path) -> None:
    said = good("plan", write(REGRESSION, tmp_path / "t.csv"), "--target", "price", "--memory", "200MB")
    assert "300 rows × 6 columns, regression" in said
    assert "2 numeric, 1 category, 1 boolean, 1 date, encoded as " in said
    assert "search rounds of" in said
    assert "exact" in said
    assert "budget 200 MB, predicted peak" in said
    many = pd.DataFrame({"a": RNG.random(9000), "b": RNG.random(9000) > 0.5}).assign(y=RNG.random(9000))
    table = write(many, tmp_path / "many.parquet")
    assert "exact: " in good("plan", table, "--target", "y")
    blocks = good("plan", table, "--target", "y", "--memory", "235MB")
    assert "multiresolution: root rank 400, 9 blocks of rank 500" in blocks
    small = good("plan", table, "--target", "y", "--memory", "25MB")
    assert "budget 25 MB" in small
    assert "root rank 400" not in small
    assert "exact: " in good("plan", table, "--target", "b")
    assert "--memory 1 kB" in bad("plan", table, "--target", "y", "--memory", "1kB")


# ---- time -------------------------------------------------------------------------------------------


@pytest.mark.repeat
@pytest.mark.slow
def test_a_time_limit_is_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    real = gm.TabularRegressor.fit

    def fit(self: gm.TabularRegressor, *arguments: Any) -> gm.TabularRegressor:
        limits.append(self.time_limit)
        return real(self.set_params(time_limit=None), *arguments)

    monkeypatch.setattr(gm.TabularRegressor, "fit", fit)
    table = write(REGRESSION, tmp_path / "t.csv")
    arguments = ["fit", table, "--target", "price", *QUICK, "--out", tmp_path / "m.gramian"]
    good(*arguments, "--time-limit", "100")
    assert 45 < limits[0] < table_training.SCORE_TIME * 100
    assert 50 < limits[1] < 100
    assert gm.load(tmp_path / "m.gramian").time_limit == 100
    good(*arguments, "--time-limit", "100", "--holdout", "0")
    assert 90 < limits[2] < 100


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "n_fits"), [((40.0, 20.0), 2), ((10.0, 80.0), 1)])
def test_a_time_limit_holds_for_reading_judging_and_both_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], n_fits: int
) -> None:
    """By a clock that only reading and fits move; without time for a second fit the first model is saved."""
    now, limits = 1000.0, []
    real_fit, real_rows = gm.TabularRegressor.fit, cli_app.rows_to_train

    def fit(self: gm.TabularRegressor, *arguments: Any) -> gm.TabularRegressor:
        nonlocal now
        limits.append(self.time_limit)
        now += seconds[1]
        return real_fit(self.set_params(time_limit=None), *arguments)

    def rows_to_train(*arguments: Any, **options: Any) -> Any:
        nonlocal now
        now += seconds[0]
        return real_rows(*arguments, **options)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(gm.TabularRegressor, "fit", fit)
    monkeypatch.setattr(cli_app, "rows_to_train", rows_to_train)
    table = write(REGRESSION, tmp_path / "t.csv")
    out = tmp_path / "m.gramian"
    arguments = ["fit", table, "--target", "price", *QUICK, "--out", out, "--time-limit", "100"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert limits == pytest.approx([0.5 * (100 - seconds[0]), 100 - sum(seconds)][:n_fits])
    told = "left no time for a fit on all rows: the saved model was fitted on the 240 rows" in result.stderr
    assert told == ("was fitted on all rows" not in result.stdout) == (n_fits == 1)
    assert gm.load(out).time_limit == 100


def test_too_little_time_is_told_once(tmp_path: Path) -> None:
    table = write(REGRESSION, tmp_path / "t.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        arguments = ["--target", "price", "--time-limit", "0.001", "--out", tmp_path / "m.gramian"]
        result = run("fit", table, *arguments)
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    assert any("too short" in line for line in lines)
    assert len(set(lines)) == len(lines)
    good("predict", tmp_path / "m.gramian", table, "--out", tmp_path / "p.csv")


# ---- which model is meant ------------------------------------------------------------------------


def asked(**changes: Any) -> TrainingOptions:
    usual: dict[str, Any] = {
        "task": "auto",
        "kernel": "auto",
        "gamma": None,
        "alpha": None,
        "approximation": "auto",
        "memory": "1GB",
        "standardize": True,
        "holdout": 0.2,
        "seed": 0,
        "threads": None,
        "verbose": False,
    }
    return TrainingOptions(**(usual | changes))


def test_options_say_which_model_is_meant() -> None:
    table = Path("t.csv")
    for own in ({}, {"kernel": "laplacian"}, {"metric": "full"}, {"time_limit": 3.0}):
        assert for_tables(asked(**own), table)
    plain: tuple[dict[str, Any], ...] = (
        {"kernel": "rbf"},
        {"gamma": 0.1},
        {"alpha": 0.1},
        {"approximation": "meka"},
        {"standardize": False},
        {"kernel": "laplacian", "gamma": 0.1},
    )
    for options in plain:
        assert not for_tables(asked(**options), table)
    assert not for_tables(asked(), Path("t.npz"))
    assert check_settings(asked(), Path("t.svm"))[0].kernel == "rbf"
    for own, said in (({"metric": "full"}, "--metric"), ({"time_limit": 1.0}, "--time-limit")):
        with pytest.raises(gm.InputError, match=f"{said} belongs to the table model, but --gamma selects"):
            for_tables(asked(gamma=0.1, **own), table)
    with pytest.raises(gm.InputError, match=r"--categorical belongs .* but a file of format npz selects"):
        for_tables(asked(categorical=("a",)), Path("t.npz"))


# ---- errors ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_errors_of_fit_name_the_column(tmp_path: Path) -> None:
    out = ("--target", "price", *QUICK, "--out", tmp_path / "m.gramian")
    infinite = REGRESSION.assign(size=REGRESSION["size"].where(REGRESSION.index != 5, np.inf))
    empty = pd.DataFrame({"a": [1] * 30, "price": RNG.random(30)})
    cases: list[tuple[pd.DataFrame, tuple[Any, ...], str]] = [
        (infinite, (), "'size'"),
        (REGRESSION.assign(price=np.nan), (), "has a missing value or NaN in the target 'price'"),
        (REGRESSION.assign(price=FRAME.built), (), "target column 'price' holds dates or times"),
        (empty, (), "No column of the table can be used: 1 constant"),
        (REGRESSION.assign(price="one"), (), "class"),
        (REGRESSION[:5], (), "5 rows are too few to hold out a part of them. Pass --holdout 0."),
        (REGRESSION, ("--categorical", "kode"), "--categorical names 'kode', which is not a column of"),
        (REGRESSION, ("--time-limit", "-1"), "--time-limit -1.0 must be"),
        (REGRESSION, ("--memory", "lots"), "--memory 'lots' is not a size"),
    ]
    for frame, options, said in cases:
        error = bad("fit", write(frame, tmp_path / "t.parquet"), *out, *options)
        assert "Error: " in error, said
        assert said in error, error
    assert not (tmp_path / "m.gramian").exists()


def test_errors_of_predict_name_the_column(model: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "p.csv")
    rows = write(FRAME, tmp_path / "r.csv")
    assert "has no feature column 'town'" in bad(
        "predict", model, write(FRAME.drop(columns="town"), tmp_path / "n.csv"), *out
    )
    words = bad("predict", model, write(FRAME.assign(size="big"), tmp_path / "w.csv"), *out)
    assert "'size'" in words
    assert "--coverage 2 must be a number between 0 and 1" in bad(
        "predict", model, rows, *out, "--coverage", "2"
    )
    assert "--probabilities needs a model with class probabilities, but TabularRegressor has none" in bad(
        "predict", model, rows, *out, "--probabilities"
    )
    plain = gm.KernelRidge().fit(FRAME[["code"]], PRICE)
    gm.save(plain, tmp_path / "plain.gramian")
    assert "--coverage needs a model with prediction intervals, but KernelRidge has none" in bad(
        "predict", tmp_path / "plain.gramian", rows, *out, "--coverage", "0.9"
    )
