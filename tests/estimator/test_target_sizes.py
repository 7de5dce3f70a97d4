"""Targets of any size: c times the targets give c times the answers, or an error that names y."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.data.column import StoredColumn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60) + 0.5
NEW = X[:9] + 0.01
#: The last two are beyond what float32 holds.
FACTORS = (2.0**-20, 2.0**460, 2.0**-140, 2.0**-460)
SMALL = {"gamma": 0.5, "random_state": 0}
SINGLE = SMALL | {"tile_dtype": "float32"}
FAST = {"learn": "labels", "n_levels": 1, "n_units": 3, "n_directions": 2, "random_state": 0}
SQUARED = {
    "loss": "squared_epsilon_insensitive",
    "epsilon": 0.0,
}  # the other loss sees the size of y beside C
MODELS = {
    "ridge": gm.KernelRidge(alpha=0.1, **SINGLE),
    "ridge with a chosen penalty": gm.KernelRidge(alpha="auto", **SMALL),
    "levels": gm.KernelRidge(
        approximation=gm.MultiResolution(root_rank=8, rank=4, n_blocks=4), fit_intercept=True, **SINGLE
    ),
    "iterations": gm.KernelRidge(alpha=0.1, approximation=gm.Exact(solver="cg"), **SMALL),
    "leave-one-out": gm.KernelRidgeCV(**SMALL),
    "folds": gm.KernelRidgeCV(cv=3, **SMALL),
    "SVR": gm.KernelSVR(**SQUARED, **SINGLE),
    "Gaussian process": gm.GaussianProcessRegressor(gamma=0.5, optimizer=None),
    "DC-Pred": gm.DCPredRegressor(random_state=0, dtype="float32"),
    "fast": gm.FastKernelRegressor(**FAST),
}


LONG = [pytest.param(name, marks=[pytest.mark.slow] * (name == "fast")) for name in MODELS]


@pytest.mark.whole
@pytest.mark.parametrize("name", LONG)
def test_scaled_targets_scale_the_answers(name):
    model = MODELS[name]
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


@pytest.mark.parametrize("name", MODELS)
def test_squares_that_underflow_are_refused(name):
    with pytest.raises(
        gm.InputError, match=r"y holds values of size up to .*e-170, other than 0.*Divide y by"
    ):
        MODELS[name].fit(X, 1e-170 * Y)


def test_which_targets_are_tiny():
    model = gm.KernelRidge(**SMALL)
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
    model = gm.KernelRidge(**SMALL).partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert np.isfinite(model.predict(NEW)).all()
