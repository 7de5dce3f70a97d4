"""Warning about columns of very different scales under one bandwidth."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, LABELS, QUICK, Y, parameters
from sklearn.base import is_classifier

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.input import column_scales, warn_of_scales
from gramian.kernels import OnFeatures

RNG = np.random.default_rng(0)
X = RNG.random((60, 3)) * [1.0, 5e4, 2.0]
FACTOR = "Columns 1 .from 0. and 0 .from 0. of X differ in scale by a factor of"
#: Estimators that learn a lengthscale for each column, or have no kernel of distances.
OTHER = {"GaussianProcessRegressor", "RandomMaclaurin", "TensorSketch", *HOSTS}
ONE = [name for name, kind in ESTIMATORS.items() if name not in OTHER and "gamma" in parameters(kind)]


def quiet(call):
    """Return what a call returns; any warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("name", ONE)
def test_one_bandwidth_for_unscaled_columns_is_told(name):
    kind = ESTIMATORS[name]
    options = QUICK.get(name, {}) | ({"random_state": 0} if "random_state" in parameters(kind) else {})
    if "kernel" in parameters(kind):
        options["kernel"] = "rbf"
    model, y = kind(gamma=1.0, **options), LABELS if is_classifier(kind()) else Y
    if "standardize" not in parameters(kind):
        with pytest.warns(UserWarning, match=f"{FACTOR}.* Scale the columns first"):
            model.fit(X, y)
        return
    with pytest.warns(UserWarning, match=f"{FACTOR}.* Pass standardize=True"):
        model.fit(X, y)
    quiet(lambda: model.set_params(standardize=True).fit(X, y))


def test_columns_are_named():
    frame = pd.DataFrame(X, columns=["rate", "income", "age"])
    text = r"Columns 'income' and 'rate' of X .* \(they vary by 2\.\de\+04 and 0\.\d+\), but one bandwidth"
    with pytest.warns(UserWarning, match=text):
        gm.KernelRidge().fit(frame, Y)


@pytest.mark.parametrize(
    "model",
    [
        gm.KernelRidge(kernel="linear"),
        gm.KernelRidge(kernel=gm.Gaussian((1.0, 5e4, 2.0))),
        gm.KernelRidge(kernel=OnFeatures(gm.Gaussian(), (0,)) + OnFeatures(gm.Gaussian(), (1, 2))),
        gm.KernelRidge(metric=gm.Metric(scales=np.array([1.0, 2e-5, 1.0]))),
        gm.GaussianProcessRegressor(max_iter=500, random_state=0),
    ],
)
def test_scales_for_each_column_or_no_distances_are_quiet(model):
    quiet(lambda: model.fit(X, Y))


@pytest.mark.parametrize(
    "model",
    [
        gm.KernelRidge(kernel=2.0 * gm.Laplacian() + gm.Linear()),
        gm.KernelRidgeCV(gammas=(0.1, 1.0), random_state=0),
        gm.GaussianProcessRegressor(ard=False, optimizer=None, random_state=0),
    ],
)
def test_one_bandwidth_in_a_sum_in_a_list_of_gammas_or_in_a_process_is_told(model):
    with pytest.warns(UserWarning, match=FACTOR):
        model.fit(X, Y)


def test_rows_of_weight_0_are_not_looked_at():
    far = RNG.random((60, 2))
    far[::2, 1] *= 1e9
    weights = np.arange(60) % 2
    quiet(lambda: gm.KernelRidge().fit(far, Y, sample_weight=weights))


def test_rare_ones_constants_and_sparse_rows_are_of_no_other_scale():
    rows = np.zeros((5000, 4))
    rows[1000, 0] = rows[:2500, 1] = 1.0
    rows[:, 2] = 1e6 + 1e-11
    rows[:, 3] = 40.0 * RNG.random(5000)
    quiet(lambda: warn_of_scales(as_source(rows), gm.Gaussian()))
    rows[:, 3] *= 1e4
    quiet(lambda: warn_of_scales(as_source(sp.csr_array(rows)), gm.Gaussian()))
    with pytest.warns(UserWarning, match="Columns 3 .from 0. and 1 .from 0. of X"):
        warn_of_scales(as_source(rows), gm.Gaussian())


def test_sorted_rows_are_looked_at_in_several_places():
    rows = np.column_stack([np.linspace(0.0, 1.0, 1_000_000), np.tile([0.0, 1.0], 500_000)])
    quiet(lambda: warn_of_scales(as_source(rows), gm.Gaussian()))


def test_scales_are_interquartile_ranges_or_ranges():
    rows = np.column_stack([np.arange(101.0), np.r_[np.zeros(100), 7.0], np.full(101, 3.0)])
    np.testing.assert_allclose(column_scales(rows), [50.0, 7.0, 0.0])
