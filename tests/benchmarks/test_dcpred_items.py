"""The items of DC-Pred++: how parameters are chosen, and what their verdicts say."""

from __future__ import annotations

import numpy as np
from fast_prediction import SETS, Setting, Tuned, dcpred, kernel_grid
from papers.dcpred_sweeps import candidates

SETTING = Setting(2.0, 1.0, "100ns", 0.9)


class Threshold:
    """Predicts 1 above a threshold, whatever it is fitted to."""

    def __init__(self, at):
        self.at = at

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.at, 1, -1)


def test_parameters_are_those_of_the_best_held_out_score():
    X = np.random.default_rng(0).random((2000, 1))
    y = np.where(X[:, 0] > 0.5, 1, -1)
    fitted = []

    def make(at, other):
        fitted.append((at, other))
        return Threshold(at)

    tuned = Tuned(make, {"at": (0.1, 0.25, 0.9), "other": (1.0, 2.0)})
    found, held_out = tuned.best(SETTING, X, y, 0)
    # 0.25 is nearest to 0.5, and twice of it is tried at the end. Of equal scores the first counts.
    assert found == {"at": 0.5, "other": 1.0}
    assert held_out == 1.0
    assert len(fitted) == len(set(fitted)) == 6
    with_errors, rmse = tuned.best(Setting(2.0, 1.0, "100ns", 0.9, regression=True), X, y, 0)
    assert with_errors["at"] == 0.5
    assert rmse == 0.0


def test_dcpred_is_tuned_as_its_competitors_are():
    every = list(candidates(SETTING, 1000, 0))
    methods = {one.method for one in every}
    assert {"DC-Pred++", "LDKL", "k-means Nyström", "random features", "Fastfood", "AESVM"} <= methods
    assert {one.method for one in every if not isinstance(one.model, Tuned)} == {"AESVM"}
    assert dcpred(SETTING, 8, 4, 0).grid == kernel_grid(SETTING)
    # The models are those of their sizes, with the chosen parameters.
    for one in every:
        if one.method.startswith("DC-Pred++"):
            model = one.model.make(gamma=0.5, C=3.0)
            assert (model.gamma, model.C) == (0.5, 3.0)
            assert {"leaves": model.n_leaves, "landmarks": model.n_landmarks} == one.sizes
    numbers = {one.method for one in candidates(SETS["cadata"], 1000, 0)}
    assert numbers == {"DC-Pred++", "k-means Nyström", "random features", "Fastfood"}
    assert {one.method for one in candidates(SETTING, 30_000, 0)} == methods - {"AESVM", "reduced set"}
