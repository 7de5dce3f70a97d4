"""Compressed models of CatBoost, LightGBM and XGBoost; they run where these packages are installed."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 3))
SUMS = X[:, 0] + np.sin(2.0 * X[:, 1])
THREE = np.digitize(SUMS, [-0.7, 0.7])
SMALL = {"n_levels": 1, "n_units": 8, "n_directions": 3, "random_state": 0}
#: Package, its classifier, regressor, and options of both.
PEERS = [
    ("catboost", "CatBoostClassifier", "CatBoostRegressor", {"iterations": 40, "verbose": 0}),
    ("lightgbm", "LGBMClassifier", "LGBMRegressor", {"n_estimators": 40, "verbose": -1}),
    ("xgboost", "XGBClassifier", "XGBRegressor", {"n_estimators": 40}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("package", "classifier", "regressor", "options"), PEERS)
def test_by_the_interface_of_scikit_learn(package, classifier, regressor, options):
    peer = pytest.importorskip(package)
    model = getattr(peer, classifier)(**options).fit(X, THREE)
    fast = gm.compress(model, X, **SMALL)
    assert (fast.predict(X) == np.ravel(model.predict(X))).mean() > 0.85
    assert np.sqrt(np.mean((fast.predict_proba(X) - model.predict_proba(X)) ** 2)) < 0.15
    numbers = gm.compress(getattr(peer, regressor)(**options).fit(X, SUMS), X, **SMALL)
    assert isinstance(numbers, gm.FastKernelRegressor)
    assert numbers.fidelity_.value > 0.85


@pytest.mark.slow
def test_boosters_are_judged_by_their_answers():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    settings = {"objective": "multiclass", "num_class": 3, "verbose": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, THREE), 40)
    assert gm.compress(booster, X, **SMALL).classes_.tolist() == [0, 1, 2]
    trees = xgboost.train({}, xgboost.DMatrix(X, SUMS), 40)
    assert gm.compress(trees, X, **SMALL).fidelity_.value > 0.85


@pytest.mark.slow
def test_categories_of_catboost_and_lightgbm():
    pd = pytest.importorskip("pandas")
    catboost, lightgbm = pytest.importorskip("catboost"), pytest.importorskip("lightgbm")
    frame = pd.DataFrame({"a": X[:, 0], "kind": RNG.integers(0, 3, 900)})
    y = frame["a"] + (frame["kind"] == 1)
    model = catboost.CatBoostRegressor(iterations=60, verbose=0, cat_features=["kind"]).fit(frame, y)
    assert gm.compress(model, frame, **SMALL).score(frame, model.predict(frame)) > 0.85
    typed = frame.assign(kind=frame["kind"].astype("category"))
    typed.loc[::7, "a"] = np.nan
    leaves = lightgbm.LGBMRegressor(n_estimators=40, verbose=-1).fit(typed, y)
    assert gm.compress(leaves, typed, **SMALL).score(typed, leaves.predict(typed)) > 0.8
