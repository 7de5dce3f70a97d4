"""Text that says missing, such as NA: the same from files, frames, records and single rows, and keepable."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import gramian as gm
from gramian.data.file_options import FileOptions
from gramian.data.missing import MISSING
from gramian.data.opening import open_table

pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
pytest.importorskip("pyarrow")
N = 60
RNG = np.random.default_rng(0)


def frame(name):
    found = pandas.DataFrame({"x": RNG.normal(size=N).round(3), "c": RNG.choice([name, "DE", "FR"], N)})
    return found, found.x + found.c.map({name: 5, "DE": 0, "FR": 1})


def forms(X, folder):
    X.to_csv(folder / "a.csv", index=False)
    X.to_parquet(folder / "a.parquet", index=False)
    yield X
    yield X.assign(c=X.c.astype("category"))
    yield polars.from_pandas(X)
    yield polars.from_pandas(X).to_arrow()
    yield X.to_dict("records")
    for path in (folder / "a.csv", folder / "a.parquet"):
        yield open_table(path, FileOptions())


@pytest.mark.parametrize("name", ["NA", "null", "n/a", "-999"])
def test_predictions_are_those_of_every_form(name, tmp_path):
    """Trained on one form, asked for another; with missing=() and other text too."""
    X, y = frame(name)
    model = gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0)
    given = [*forms(X, tmp_path)]
    for missing in (None, (), ("-999",)):
        fits = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for form in (given[0], given[-2]):
                fits.append(clone(model).set_params(missing=missing).fit(form, y))
        expected = fits[0].predict(X)
        assert np.corrcoef(expected, y)[0, 1] > 0.95
        for fitted in fits:
            for form in given:
                np.testing.assert_allclose(fitted.predict(form), expected, atol=1e-9)
            np.testing.assert_allclose(fitted.predict_one({"x": X.x[0], "c": X.c[0]}), expected[0], atol=1e-9)
        kept = f"c={name}" in fits[0].columns_.feature_names
        assert kept == (name not in (MISSING if missing is None else missing))


def test_what_is_taken_as_missing_is_counted():
    X, y = frame("NA")
    model = gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0)
    with pytest.warns(
        UserWarning, match=rf"Column 'c': {(X.c == 'NA').sum()} cells 'NA' taken as missing.*missing=\(\)"
    ):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).set_params(missing=["NA"]).fit(X, y)
    with pytest.raises(gm.InputError, match=r"missing='NA' is no list of texts"):
        clone(model).set_params(missing="NA").fit(X, y)


def test_numbers_that_say_missing_are_missing_from_every_form(tmp_path):
    X = pandas.DataFrame({"x": [1.0, -999.0, 3.0, 4.0] * 9, "c": ["a", "b", "a", "b"] * 9})
    y = np.where(X.x < 0, 7.0, X.x)
    model = gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0, missing=["-999"]).fit(X, y)
    assert "x is missing" in model.columns_.feature_names
    for form in forms(X, tmp_path):
        np.testing.assert_allclose(model.predict(form), model.predict(X), atol=1e-9)


def test_one_hot_sources_and_targets(tmp_path):
    X, _ = frame("NA")
    for form in (X, tmp_path / "a.csv", tmp_path / "a.parquet"):
        X.to_csv(tmp_path / "a.csv", index=False)
        X.to_parquet(tmp_path / "a.parquet", index=False)
        with pytest.warns(UserWarning, match=f"{(X.c == 'NA').sum()} of {N} rows have a missing value"):
            assert gm.open_data(form, categorical="onehot", nan="drop").feature_names == ("x", "c=DE", "c=FR")
        kept = gm.open_data(form, categorical="onehot", missing=())
        assert kept.feature_names == ("x", "c=DE", "c=FR", "c=NA")
        source = gm.open_data(form, target="c")
        with pytest.raises(
            gm.InputError, match=r"in the target 'c' \(the cell holds 'NA', which counts.*missing=\(\)"
        ):
            gm.KernelRidgeClassifier().fit(source)
        fitted = gm.KernelRidgeClassifier().fit(gm.open_data(form, target="c", missing=()))
        assert fitted.classes_.tolist() == ["DE", "FR", "NA"]


@pytest.mark.filterwarnings("ignore:.*was too short for the whole search")  # on a machine with much to do
@pytest.mark.parametrize("option", [("--missing", ""), ("--text", "c")])
def test_the_command_line_keeps_a_class_called_na(tmp_path, option):
    from typer.testing import CliRunner

    from gramian.cli.app import app

    frame("NA")[0].to_csv(tmp_path / "a.csv", index=False)
    words = ["fit", str(tmp_path / "a.csv"), "--target", "c", "--out", str(tmp_path / "m.gramian")]
    found = CliRunner().invoke(app, [*words, "--time-limit", "1", "--holdout", "0", *option])
    assert found.exit_code == 0, found.output
    assert gm.load(tmp_path / "m.gramian").classes_.tolist() == ["DE", "FR", "NA"]
