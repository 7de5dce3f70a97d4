"""Exported Python files find the columns of frames, Arrow tables and dicts by name."""

from __future__ import annotations

import runpy
from functools import cache

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore:These columns are not used")
SIZES = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=200), "b": RNG.normal(size=200), "c": RNG.normal(size=200)})
Y = FRAME.a - 2 * FRAME.b
FORMS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "lazy": lambda table: pl.from_pandas(table).lazy(),
    "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "batch": lambda table: pa.RecordBatch.from_pandas(table, preserve_index=False),
    "records": lambda table: table.to_dict("records"),
}


@cache
def model(kind):
    fast = gm.FastKernelRegressor(**SIZES)
    if kind == "numbers":
        return fast.fit(FRAME, Y)
    if kind == "pipeline":
        return make_pipeline(StandardScaler(), fast).fit(FRAME, Y)
    gaps = FRAME.assign(c=1.0)  # is not used
    gaps.loc[::9, "a"] = np.nan
    whole = gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0)
    return gm.compress(whole.fit(gaps, Y), gaps, **SIZES)


@pytest.fixture(params=["numbers", "pipeline", "table"])
def exported(request, tmp_path):
    fitted = model(request.param)
    gm.export(fitted, tmp_path / "model.py")
    return fitted, runpy.run_path(str(tmp_path / "model.py"))["predict"]


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_found_by_name(exported, form):
    fitted, predict = exported
    new = FRAME[:20].assign(c=1.0)
    expected = fitted.predict(new)
    for order in (["a", "b", "c"], ["c", "b", "a"]):
        np.testing.assert_allclose(predict(FORMS[form](new[order])), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(predict(new.to_numpy()), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="Columns of the rows are missing: 'b'"):
        predict(FORMS[form](new.drop(columns="b")))
    with pytest.raises(ValueError, match="not those of the training, or there twice: 'id'"):
        predict(FORMS[form](new.assign(id=1)))


def test_an_unused_column_of_a_table_may_be_absent_and_a_name_may_not_occur_twice(tmp_path):
    gm.export(model("table"), tmp_path / "model.py")
    predict = runpy.run_path(str(tmp_path / "model.py"))["predict"]
    new = FRAME[["b", "a"]][:20]
    np.testing.assert_allclose(predict(new), model("table").predict(new), rtol=1e-4, atol=1e-5)
    twice = pd.DataFrame(FRAME.to_numpy(), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="or there twice: 'a', 'a'"):
        predict(twice)


def test_columns_go_by_place_where_the_training_had_no_names(tmp_path):
    fast = gm.FastKernelRegressor(**SIZES).fit(FRAME.to_numpy(), Y)
    gm.export(fast, tmp_path / "model.py")
    predict = runpy.run_path(str(tmp_path / "model.py"))["predict"]
    for form in FORMS.values():
        np.testing.assert_allclose(predict(form(FRAME)), fast.predict(FRAME.to_numpy()), rtol=1e-4, atol=1e-5)
