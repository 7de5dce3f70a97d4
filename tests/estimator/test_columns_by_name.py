"""Columns are matched by name: every estimator, every kind of table at fit, every kind at prediction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, QUICK
from sklearn.base import is_classifier

import gramian as gm
from gramian.data.source import as_source
from gramian.exceptions import AccuracyWarning

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

NAMES = ["a", "b", "c"]
ORDER = ["c", "a", "b"]  # the columns at prediction
RNG = np.random.default_rng(0)
#: Whole numbers, so that they are the same in every type.
ROWS = RNG.integers(0, 50, (40, 3))
Y = 3.0 * ROWS[:, 0] - ROWS[:, 1]
LABELS = np.where(np.median(Y) < Y, "yes", "no")


class Source:
    """A row source of somebody else, with names."""

    def __init__(self, rows, names):
        self._rows, self.feature_names = rows, np.array(names)
        self.shape, self.dtype = rows.shape, rows.dtype

    def rows(self, where):
        return self._rows[where]

    def take(self, indices):
        return self._rows[indices]


def matrix(rows, names):
    """Return the columns with these names, of rows with the columns NAMES."""
    return rows[:, [NAMES.index(name) for name in names]]


def framed(rows, names):
    return pd.DataFrame(matrix(rows, names), columns=names)


#: Kinds of tables with names, made from a pandas frame.
OF_FRAME = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "lazy": lambda table: pl.from_pandas(table).lazy(),
    "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "batch": lambda table: pa.RecordBatch.from_pandas(table, preserve_index=False),
    "records": lambda table: table.to_dict("records"),
    "opened": gm.open_data,
    "source": lambda table: Source(table.to_numpy(), list(table.columns)),
    "dask": lambda table: dd.from_pandas(table, npartitions=2),
}
UNNAMED = {
    "array": matrix,
    "list": lambda rows, names: matrix(rows, names).tolist(),
    "sparse": lambda rows, names: sp.csr_array(matrix(rows, names)),
    "numbers": lambda rows, names: pd.DataFrame(matrix(rows, names)),
    "nameless source": lambda rows, names: as_source(matrix(rows, names)),
}
#: Estimators that work on Dask collections; others refuse them.
CLUSTER = ("KernelRidge", "KernelRidgeClassifier")
MODELS = [name for name in ESTIMATORS if name not in HOSTS and hasattr(ESTIMATORS[name], "fit")]
#: One of each way in which rows are opened.
THREE = ("KernelRidge", "TabularRegressor", "FastKernelRegressor")
METHODS = ("predict", "decision_function", "predict_proba", "transform")


def fitted(name, X):
    model = ESTIMATORS[name](**QUICK.get(name, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)  # 40 rows are too few to compare settings
        return model.fit(X, LABELS if is_classifier(model) else Y)


def asked(model, X):
    """Return what the model says of rows, by method."""
    found = {}
    for method in METHODS:
        if hasattr(model, method):
            said = getattr(model, method)(X)
            found[method] = said.toarray() if sp.issparse(said) else np.asarray(said)
    assert found
    return found


def close(found, expected, where):
    for method, values in expected.items():
        if values.dtype.kind == "f":
            text = f"{where}, {method}"
            np.testing.assert_allclose(found[method], values, rtol=1e-3, atol=1e-3, err_msg=text)
        else:
            assert (found[method] == values).all(), (where, method)


def tables_for(name):
    """Return the kinds of tables that an estimator takes."""
    return {kind: make for kind, make in OF_FRAME.items() if kind != "dask" or name in CLUSTER}


def check_permuted(name, at_fit):
    make = OF_FRAME[at_fit]
    model = fitted(name, make(framed(ROWS, NAMES)))
    assert model.feature_names_in_.tolist() == NAMES
    expected = asked(model, make(framed(ROWS, NAMES)))
    for number, (kind, other) in enumerate(tables_for(name).items()):
        dtype = (np.int64, np.float32)[number % 2]
        close(asked(model, other(framed(ROWS.astype(dtype), ORDER))), expected, f"{at_fit}, {kind}, {dtype}")


@pytest.mark.parametrize("name", MODELS)
def test_permuted_columns_are_matched_by_name(name):
    check_permuted(name, "pandas")


@pytest.mark.parametrize("at_fit", OF_FRAME)
def test_permuted_columns_are_matched_by_name_after_a_fit_to_any_table(at_fit):
    for name in THREE:
        if at_fit in tables_for(name):
            check_permuted(name, at_fit)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_permuted_columns_are_matched_by_name_after_every_fit(name):
    for at_fit in tables_for(name):
        check_permuted(name, at_fit)


@pytest.mark.parametrize("kind", OF_FRAME)
def test_scores_explanations_and_streams_match_by_name(kind):
    make = OF_FRAME[kind]
    straight, permuted = make(framed(ROWS, NAMES)), make(framed(ROWS, ORDER))
    model = gm.KernelRidge(gamma=0.001, random_state=0).fit(straight, Y)
    assert model.score(permuted, Y) == pytest.approx(model.score(straight, Y))
    if kind != "dask":
        by_name = model.explain(permuted)
        own = model.explain(straight)
        np.testing.assert_allclose(by_name.values, own.values, atol=1e-8)
        assert list(by_name.names) == NAMES
        if own.data is not None:  # cells of frames, in the order of the names
            np.testing.assert_array_equal(by_name.data, own.data)
    found = [gm.KernelRidge(gamma=0.001, random_state=0).partial_fit(straight, Y) for _ in range(2)]
    found[0].partial_fit(permuted, Y)
    found[1].partial_fit(straight, Y)
    rows = framed(ROWS, NAMES)
    np.testing.assert_allclose(found[0].predict(rows), found[1].predict(rows), rtol=1e-6)
    labels = gm.KernelRidgeClassifier(gamma=0.001, random_state=0).fit(straight, LABELS)
    assert labels.score(permuted, LABELS) == labels.score(straight, LABELS)


def test_a_score_of_dask_frames_takes_targets_and_weights_of_dask():
    rows, y = dd.from_pandas(framed(ROWS, ORDER), npartitions=2), dd.from_pandas(pd.Series(Y), npartitions=2)
    model = gm.KernelRidge(gamma=0.001, random_state=0).fit(framed(ROWS, NAMES), Y)
    weights = np.arange(len(Y))
    expected = model.score(framed(ROWS, NAMES), Y, weights)
    assert model.score(rows, y, dd.from_pandas(pd.Series(weights), npartitions=2)) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in CLUSTER])
def test_estimators_without_an_engine_refuse_dask(name):
    rows = OF_FRAME["dask"](framed(ROWS, NAMES))
    with pytest.raises(gm.InputError, match=r"of Dask, which .* read as a whole. Pass X.compute\(\)"):
        fitted(name, rows)
    with pytest.raises(gm.InputError, match=r"of Dask, which .* read as a whole. Pass X.compute\(\)"):
        asked(fitted(name, framed(ROWS, NAMES)), rows)


@pytest.mark.parametrize("name", MODELS)
def test_tables_of_which_one_has_no_names_are_matched_by_place_with_a_warning(name):
    named, plain = fitted(name, framed(ROWS, NAMES)), fitted(name, ROWS)
    assert not hasattr(plain, "feature_names_in_")
    assert fitted(name, UNNAMED["numbers"](ROWS, NAMES)).feature_names_in_.tolist() == ["0", "1", "2"]
    expected = asked(plain, ROWS)
    for kind, make in UNNAMED.items():
        with pytest.warns(UserWarning, match="X does not have valid feature names, but .* was fitted with"):
            found = asked(named, make(ROWS, NAMES))
        close(found, asked(named, framed(ROWS, NAMES)), kind)
        close(asked(plain, make(ROWS, NAMES)), expected, kind)
    for kind, make in tables_for(name).items():
        with pytest.warns(UserWarning, match="X has feature names, but .* was fitted without"):
            close(asked(plain, make(framed(ROWS, NAMES))), expected, kind)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in THREE for kind in tables_for(name)])
def test_missing_and_additional_columns_are_refused(name, kind):
    rows, names = np.hstack([ROWS] * 4), [f"{letter}{i}" for i in range(4) for letter in "abc"]
    table = pd.DataFrame(rows, columns=names)
    model = fitted(name, OF_FRAME[kind](table))
    with pytest.raises(gm.InputError, match=r"feature names should match .* X has no column 'b1', which"):
        model.predict(OF_FRAME[kind](table.drop(columns="b1")))
    text = "X has no columns 'a0', 'b0', 'c0', 'a1' and 2 more, which the training rows had"
    with pytest.raises(gm.InputError, match=text):
        model.predict(OF_FRAME[kind](table[names[6:]]))
    with pytest.raises(gm.InputError, match="X has a column 'id', which the training rows did not have"):
        model.predict(OF_FRAME[kind](table.assign(id=1)))


@pytest.mark.parametrize("kind", ["pandas", "arrow", "source"])
@pytest.mark.parametrize("name", THREE)
def test_a_name_that_occurs_twice_is_refused(name, kind):
    twice = {
        "pandas": lambda: pd.DataFrame(ROWS, columns=["a", "b", "a"]),
        "arrow": lambda: pa.Table.from_arrays(list(ROWS.T.copy()), names=["a", "b", "a"]),
        "source": lambda: Source(ROWS, ["a", "b", "a"]),
    }[kind]()
    with pytest.raises(gm.InputError, match="X names the column 'a' more than once"):
        fitted(name, twice)
    with pytest.raises(gm.InputError, match="X names the column 'a' more than once"):
        fitted(name, framed(ROWS, NAMES)).predict(twice)


@pytest.mark.parametrize("name", THREE)
def test_labels_of_which_only_some_are_text_are_refused(name):
    with pytest.raises(gm.InputError, match="names some columns by text, and one by 1 of type int"):
        fitted(name, pd.DataFrame(ROWS, columns=["a", 1, "c"]))


def test_records_say_what_is_wrong_with_them():
    model = fitted("KernelRidge", framed(ROWS, NAMES))
    with pytest.raises(gm.InputError, match="Column 'b' of X has 1 missing value in 2 rows"):
        model.predict([{"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3}])
    with pytest.raises(gm.InputError, match="Column 'b' of X holds text"):
        model.predict([{"a": 1, "b": "x", "c": 3}])
    with pytest.raises(gm.InputError, match=r"row 1 is a list. Pass a dict for each row"):
        model.predict([{"a": 1, "b": 2, "c": 3}, [1, 2, 3]])
    with pytest.raises(gm.InputError, match=r"a list of dicts with the key 1. Name the columns by text"):
        model.predict([{1: 1, 2: 2, 3: 3}])
    with pytest.raises(gm.InputError, match="Column 'a' of the dicts mixes values"):
        gm.open_data([{"a": 1}, {"a": "x"}])


def test_a_frame_stays_as_it_is():
    table = framed(ROWS, ORDER)
    fitted("KernelRidge", framed(ROWS, NAMES)).predict(table)
    pd.testing.assert_frame_equal(table, framed(ROWS, ORDER))


@pytest.mark.parametrize("name", THREE)
def test_integers_of_128_bits_are_read_if_they_fit_in_64(name):
    wide = pl.from_pandas(framed(ROWS, NAMES)).with_columns(pl.col("a").cast(pl.Int128))
    model = fitted(name, wide)
    close(asked(model, wide), asked(model, framed(ROWS, NAMES)), name)
    assert gm.open_data(wide).dtype == np.int64
    with pytest.raises(gm.InputError, match=r"Column 'a' of X holds integers beyond 64 bits \(Int128\)"):
        fitted(name, wide.with_columns(a=pl.lit(2**70, dtype=pl.Int128)))
