"""Targets of one column and of any size: answers have their shape and their unit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import gramian as gm
from gramian.data.column import StoredColumn

SMALL = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
SHAPED = {
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


@pytest.mark.parametrize("name", [*list(SHAPED)[:-1], pytest.param("tabular", marks=pytest.mark.slow)])
def test_one_column_is_answered_by_one_column(data, name, tmp_path):
    X, y = data
    model = SHAPED[name].fit(X, y)
    found = model.predict(X)
    assert found.shape == (y - found).shape == y.shape
    gm.save(model, tmp_path / "model.gramian")
    np.testing.assert_array_equal(gm.load(tmp_path / "model.gramian").predict(X), found)
    flat = SHAPED[name].fit(X, y[:, 0]).predict(X)
    assert flat.shape == (200,)
    if name != "fast":  # a fast model's shape may be chosen by the clock
        np.testing.assert_allclose(found[:, 0], flat, atol=1e-9)


@pytest.mark.slow
def test_models_made_from_others_answer_alike(data):
    X, y = data
    teacher = gm.KernelRidge(gamma=3.0).fit(X, y)
    assert gm.compress(teacher, X, **SMALL).predict(X).shape == (200, 1)
    table = SHAPED["tabular"].fit(X, y)
    assert table.compress(X, n_levels=0, n_units=4, n_directions=2).predict(X).shape == (200, 1)
    assert table.predict_interval(X).shape == (200, 1, 2)
    assert gm.KernelRidge().partial_fit(X, y).predict(X).shape == (200, 1)
    assert SHAPED["cv"].fit(X, y).loo_residuals_.shape == (200, 1)
    process = SHAPED["gp"].fit(X, y)
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


# ---- targets of any size ----------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60) + 0.5
NEW = X[:9] + 0.01
#: The last two are beyond what float32 holds.
FACTORS = (2.0**-20, 2.0**460, 2.0**-140, 2.0**-460)
RBF = {"gamma": 0.5, "random_state": 0}
SINGLE = RBF | {"tile_dtype": "float32"}
FAST = {"learn": "labels", "n_levels": 1, "n_units": 3, "n_directions": 2, "random_state": 0}
SQUARED = {
    "loss": "squared_epsilon_insensitive",
    "epsilon": 0.0,
}  # the other loss sees the size of y beside C
SCALED = {
    "ridge": gm.KernelRidge(alpha=0.1, **SINGLE),
    "ridge with a chosen penalty": gm.KernelRidge(alpha="auto", **RBF),
    "levels": gm.KernelRidge(
        approximation=gm.MultiResolution(root_rank=8, rank=4, n_blocks=4), fit_intercept=True, **SINGLE
    ),
    "iterations": gm.KernelRidge(alpha=0.1, approximation=gm.Exact(solver="cg"), **RBF),
    "leave-one-out": gm.KernelRidgeCV(**RBF),
    "folds": gm.KernelRidgeCV(cv=3, **RBF),
    "SVR": gm.KernelSVR(**SQUARED, **SINGLE),
    "Gaussian process": gm.GaussianProcessRegressor(gamma=0.5, optimizer=None),
    "DC-Pred": gm.DCPredRegressor(random_state=0, dtype="float32"),
    "fast": gm.FastKernelRegressor(**FAST),
}


LONG = [pytest.param(name, marks=[pytest.mark.slow] * (name == "fast")) for name in SCALED]


@pytest.mark.whole
@pytest.mark.parametrize("name", LONG)
def test_scaled_targets_scale_the_answers(name):
    model = SCALED[name]
    expected = model.fit(X, Y).predict(NEW)
    alpha = getattr(model, "alpha_", None)
    for factor in FACTORS:
        found = model.fit(X, factor * Y).predict(NEW)
        np.testing.assert_allclose(found / factor, expected, rtol=0, atol=1e-5, err_msg=str(factor))
        assert getattr(model, "alpha_", None) == alpha


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gramian.AccuracyWarning")  # there is no time to compare settings
def test_a_table_takes_targets_of_every_size():
    fits = [gm.TabularRegressor(random_state=0, time_limit=1e-3).fit(X, c * Y) for c in (1.0, 1e-300, 1e300)]
    expected, tiny, large = (model.predict(NEW) for model in fits)
    np.testing.assert_allclose(1e300 * tiny, expected, rtol=1e-6)
    np.testing.assert_allclose(large / 1e300, expected, rtol=1e-6)


def test_landmarks_are_weighted_alike_for_small_targets():
    leaves = [gm.DCPredRegressor(random_state=0).fit(X, c * Y).model_.leaves for c in (1.0, 2.0**-20)]
    np.testing.assert_array_equal(leaves[0][0].landmarks, leaves[1][0].landmarks)


class Column(StoredColumn):
    """Targets that a source reads from elsewhere."""

    shape, dtype = Y.shape, Y.dtype

    def __init__(self, values):
        self.values = values

    def __getitem__(self, where):
        return self.values[where]


@pytest.mark.parametrize("name", SCALED)
def test_squares_that_underflow_are_refused(name):
    with pytest.raises(
        gm.InputError, match=r"y holds values of size up to .*e-170, other than 0.*Divide y by"
    ):
        SCALED[name].fit(X, 1e-170 * Y)


def test_which_targets_are_tiny():
    model = gm.KernelRidge(**RBF)
    with pytest.raises(gm.InputError, match=r"column 1 of y holds values of size up to .*e-170"):
        model.fit(X, np.column_stack([Y, 1e-170 * Y, 0.0 * Y]))
    with pytest.raises(gm.InputError, match=r"y holds values of size up to 4\.94e-324"):
        model.fit(X, np.where(np.arange(60) == 7, 5e-324, 0.0))
    with pytest.raises(gm.InputError, match="y holds values of size up to"):
        model.fit(X, Column(1e-170 * Y))
    density = np.where(X[:, 0] > 1.0, 1e-170, Y)  # tiny values beside others are as good as 0
    for y in (density, Column(density), np.zeros(60)):
        model.fit(X, y)


def test_rows_of_a_stream_may_have_tiny_targets():
    y = np.where(np.arange(60) < 30, 1e-170, Y)
    model = gm.KernelRidge(**RBF).partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert np.isfinite(model.predict(NEW)).all()
