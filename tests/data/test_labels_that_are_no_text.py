"""Labels of columns that are no text (numbers, tuples, dates): matched as text labels are."""

from __future__ import annotations

import runpy
import warnings

import numpy as np
import pytest

import gramian as gm

pandas = pytest.importorskip("pandas")
X = pandas.DataFrame(np.random.default_rng(0).random((60, 4)))
Y = X[0] + 2.0 * X[2]
LABELS = {
    "counted": [0, 1, 2, 3],
    "years": [2019, 2020, 2021, 2022],
    "tuples": [("u", k) for k in "abcd"],
    "dates": list(pandas.date_range("2020", periods=4, freq="MS")),
}
MODELS = {
    "ridge": lambda: gm.KernelRidge(random_state=0),
    "process": lambda: gm.GaussianProcessRegressor(random_state=0),
    "table": lambda: gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0),
}


def silently(call, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", gm.exceptions.AccuracyWarning)
        return call(*args)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", MODELS)
def test_columns_are_found_by_labels_of_any_type(labels, kind, tmp_path):
    """In any order, by models, saved models and row sources; an absent one is an error with its label."""
    rows = X.set_axis(pandas.Index(LABELS[labels], tupleize_cols=False), axis=1)
    some, other = rows.iloc[:, [0, 1, 2]], rows.iloc[:, [0, 2, 3]]
    fitted = silently(MODELS[kind]().fit, some, Y)
    gm.save(fitted, tmp_path / "m.gramian")
    expected = fitted.predict(some)
    for model in (fitted, gm.load(tmp_path / "m.gramian")):
        np.testing.assert_allclose(silently(model.predict, some.iloc[:, [2, 0, 1]]), expected, rtol=1e-12)
        with pytest.raises(gm.InputError, match=r"X has no column .*, which the training rows had.* It has"):
            model.predict(other)
    np.testing.assert_allclose(
        silently(fitted.predict, gm.open_data(some.iloc[:, [1, 2, 0]])), expected, rtol=1e-12
    )
    if labels == "counted":  # pandas' labels of an array
        np.testing.assert_allclose(silently(fitted.predict, some.to_numpy()), expected, rtol=1e-12)


def test_frames_of_arrays_beside_names():
    """The labels 0, 1, 2 are no names beside text, and not beside an array."""
    array = X.to_numpy()
    fitted = silently(gm.KernelRidge().fit, array, Y)
    np.testing.assert_array_equal(silently(fitted.predict, X), fitted.predict(array))
    with pytest.warns(UserWarning, match="X has feature names, but KernelRidge was fitted without"):
        fitted.predict(X[[2, 0, 1, 3]])
    fitted = gm.KernelRidge().fit(X.set_axis(list("abcd"), axis=1), Y)
    with pytest.warns(
        UserWarning, match="X does not have valid feature names, but KernelRidge was fitted with"
    ):
        fitted.predict(X)


def test_exported_models_find_columns_by_such_labels(tmp_path):
    fitted = gm.FastKernelRegressor(n_levels=1, n_units=3, n_directions=2, random_state=0).fit(
        X[[0, 1, 2]], Y
    )
    gm.export(fitted, tmp_path / "m.py")
    predict = runpy.run_path(str(tmp_path / "m.py"))["predict"]
    np.testing.assert_array_equal(predict(X[[2, 1, 0]]), predict(X[[0, 1, 2]].to_numpy()))
    with pytest.raises(ValueError, match="are missing: '1'"):
        predict(X[[0, 2, 3]])
