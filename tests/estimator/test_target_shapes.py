"""Targets of one column, shape (n, 1), are answered by (n, 1), so that ``y - model.predict(X)`` is (n, 1)."""

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import gramian as gm

SMALL = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
MODELS = {
    "ridge": gm.KernelRidge(gamma=3.0, fit_intercept=True),
    "exact": gm.KernelRidge(gamma=3.0, approximation="exact"),
    "meka": gm.KernelRidge(gamma=3.0, approximation=gm.MEKA(rank=10, n_blocks=2), random_state=0),
    "cv": gm.KernelRidgeCV(gammas=[1.0, 3.0], store_cv_results=True),
    "gp": gm.GaussianProcessRegressor(random_state=0),
    "dcpred": gm.DCPredRegressor(n_levels=1, random_state=0),
    "fast": gm.FastKernelRegressor(**SMALL),
    "tabular": gm.TabularRegressor(kernel="gaussian", metric=None, random_state=0),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    return X, np.sin(4 * X[:, :1]) + X[:, 1:2]


@pytest.mark.parametrize("name", [*list(MODELS)[:-1], pytest.param("tabular", marks=pytest.mark.slow)])
def test_one_column_is_answered_by_one_column(data, name, tmp_path):
    X, y = data
    model = MODELS[name].fit(X, y)
    found = model.predict(X)
    assert found.shape == (y - found).shape == y.shape
    gm.save(model, tmp_path / "model.gramian")
    np.testing.assert_array_equal(gm.load(tmp_path / "model.gramian").predict(X), found)
    flat = MODELS[name].fit(X, y[:, 0]).predict(X)
    assert flat.shape == (200,)
    if name != "fast":  # a fast model's shape may be chosen by the clock
        np.testing.assert_allclose(found[:, 0], flat, atol=1e-9)


@pytest.mark.slow
def test_models_made_from_others_answer_alike(data):
    X, y = data
    teacher = gm.KernelRidge(gamma=3.0).fit(X, y)
    assert gm.compress(teacher, X, **SMALL).predict(X).shape == (200, 1)
    table = MODELS["tabular"].fit(X, y)
    assert table.compress(X, n_levels=0, n_units=4, n_directions=2).predict(X).shape == (200, 1)
    assert table.predict_interval(X).shape == (200, 1, 2)
    assert gm.KernelRidge().partial_fit(X, y).predict(X).shape == (200, 1)
    assert MODELS["cv"].fit(X, y).loo_residuals_.shape == (200, 1)
    process = MODELS["gp"].fit(X, y)
    assert process.predict(X, return_std=True)[1].shape == (200, 1)


def test_svr_takes_one_column_as_scikit_learns_does(data):
    X, y = data
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = gm.KernelSVR(gamma=3.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), gm.KernelSVR(gamma=3.0).fit(X, y[:, 0]).predict(X))


def test_dask_columns_keep_their_axis(data):
    da = pytest.importorskip("dask.array")
    X, y = (da.from_array(part, chunks=(50, -1)) for part in data)
    model = gm.KernelRidge(gamma=3.0, random_state=0).fit(X, y)
    assert model.predict(X).compute().shape == (200, 1)
    assert gm.KernelRidge(gamma=3.0, random_state=0).fit(X, y[:, 0]).predict(X).compute().shape == (200,)
    labels = y > 1.0
    found = gm.KernelRidgeClassifier(gamma=3.0, random_state=0).fit(X, labels, sample_weight=y * y).predict(X)
    assert found.compute().shape == (200,)
