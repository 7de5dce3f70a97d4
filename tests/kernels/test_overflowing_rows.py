"""Rows whose kernel values overflow are refused by name, in every method and without NumPy's warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm

X = np.random.default_rng(0).standard_normal((60, 3))
Y = X[:, 0].copy()
LABELS = np.where(Y > 0, "yes", "no")
POLY = {"kernel": "poly", "degree": 3}
#: Models, and the methods that have to name the row.
MODELS = {
    "ridge": (gm.KernelRidge(**POLY), ["predict"]),
    "ridge exact": (gm.KernelRidge(approximation="exact", **POLY), ["predict"]),
    "ridge of a sum": (gm.KernelRidge(kernel=gm.Gaussian(1.0) + gm.Polynomial(degree=3)), ["predict"]),
    "ridge classifier": (gm.KernelRidgeClassifier(**POLY), ["predict", "decision_function"]),
    "ridge cv": (gm.KernelRidgeCV(**POLY), ["predict"]),
    "svc": (gm.KernelSVC(**POLY), ["predict", "decision_function"]),
    "svr": (gm.KernelSVR(**POLY), ["predict"]),
    "logistic": (gm.KernelLogisticRegression(**POLY), ["predict", "predict_proba"]),
    "dcsvc": (gm.DCSVC(**POLY), ["predict", "decision_function"]),
    "dcpred": (gm.DCPredClassifier(random_state=0, **POLY), ["predict", "decision_function"]),
    "gp": (gm.GaussianProcessRegressor(optimizer=None, **POLY), ["predict"]),
    "pca": (gm.KernelPCA(n_components=2, **POLY), ["transform"]),
    "nystrom": (gm.Nystrom(rank=5, random_state=0, **POLY), ["transform"]),
    "meka": (gm.MEKA(rank=5, n_blocks=2, random_state=0, **POLY), ["transform"]),
    "multiresolution": (
        gm.MultiResolution(root_rank=8, rank=4, n_blocks=2, random_state=0, **POLY),
        ["transform"],
    ),
    "tensor sketch": (gm.TensorSketch(rank=10, random_state=0, **POLY), ["transform"]),
    "maclaurin": (gm.RandomMaclaurin(rank=10, random_state=0, **POLY), ["transform"]),
}


@pytest.fixture(scope="module", autouse=True)
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits to few rows
        for model, methods in MODELS.values():
            model.set_params(n_jobs=2)  # threads have NumPy's error state for themselves
            labels = "decision_function" in methods or "predict_proba" in methods
            model.fit(X, LABELS if labels else Y)


@pytest.mark.parametrize("as_rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_the_row_is_named(name, as_rows):
    model, methods = MODELS[name]
    far = np.tile(X, (30, 1))  # of several blocks
    far[7, 1] = 1e120
    for method in methods:
        with pytest.raises(gm.InputError, match=r"X has the value 1e\+120 in row 7, feature 1: .* overflow"):
            getattr(model, method)(as_rows(far))


def test_variances_and_draws_name_the_row():
    model = MODELS["gp"][0]
    far = X[:10].copy()
    far[7, 1] = 1e60  # the mean is finite, its variance is not
    for ask in (
        lambda: model.predict(far, return_std=True),
        lambda: model.predict(far, return_cov=True),
        lambda: model.sample_y(far),
    ):
        with pytest.raises(gm.InputError, match=r"1e\+60 in row 7, feature 1: the prediction overflows"):
            ask()


def test_a_later_block_of_rows_counts_from_the_first_row():
    far = np.tile(X, (400, 1))
    far[20_000, 2] = -1e120
    for name in ("ridge classifier", "svc", "dcpred"):
        with pytest.raises(gm.InputError, match=r"-1e\+120 in row 20000, feature 2"):
            MODELS[name][0].predict(far)
