"""The items of DC-Pred++: how parameters are chosen, and what their verdicts say."""

from __future__ import annotations

import numpy as np
import pytest
from fast_prediction import SETS, Setting, Tuned, dcpred, kernel_grid
from papers.dcpred_pseudo import figure_1_verdict, meka_verdict
from papers.dcpred_sweeps import candidates, figure_3_verdict, table_1_verdict
from papers.dcpred_weights import weights_verdict

SETTING = Setting(2.0, 1.0, "100ns", 0.9)


class Threshold:
    """Predicts 1 above a threshold, whatever it is fitted to."""

    def __init__(self, at):
        self.at = at

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.at, 1, -1)


def line(name, method, measure, value, **setting):
    return {"set": name, "method": method, "measure": measure, "value": value, "setting": setting}


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


@pytest.mark.parametrize("method", ["random features", "Fastfood"])
def test_random_features_of_the_sweep_learn(method):
    X = np.random.default_rng(0).random((500, 2))
    y = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.35
    one = next(one for one in candidates(SETTING, 500, 0) if one.method == method)
    assert one.model.make(gamma=5.0, C=10.0).fit(X, y).score(X, y) > 0.95


def test_verdicts_name_losses():
    lines = []
    for method, value, cost in (("DC-Pred++", 0.95, 80.0), ("LDKL", 0.94, 60.0), ("LDKL", 0.99, 90.0)):
        lines.append(line("letter", method, "accuracy", value, size=cost))
        lines.append(line("letter", method, "x linear", cost, size=cost))
    said = table_1_verdict(lines)
    row = "| letter | 0.95 at 80 | 0.959 at 12.8 | LDKL: 0.94 at 60, worse | LDKL: 0.99 at 90 |"
    assert said.splitlines()[-1] == row
    lines = []
    for method, value, cost in (("DC-Pred++", 0.11, 80.0), ("Fastfood", 0.10, 60.0), ("gm.compress", 0, 1.0)):
        lines.append(line("cadata", method, "rmse", value, size=cost))
        lines.append(line("cadata", method, "x linear", cost, size=cost))
    assert "| cadata | 0.11 at 80 | Fastfood: 0.1 at 60, better |  |" in figure_3_verdict(lines)
    lines = [
        line("usps", method, measure, value, landmarks=5)
        for method in ("MEKA", "MEKA, pseudo-landmarks", "Nyström", "Nys-triangle, upper", "Nys-dp, all")
        for measure, value in (("relative error", len(method) / 8), ("x linear", 2.0))
    ]
    assert meka_verdict(lines).endswith("| 5.5 to 5.5 | 1 to 1 |")
    lines += [
        {**one, "method": method}
        for one in lines[-2:]
        for method in ("Nys-triangle, lower", "Nys-dp, 4 m drawn")
    ]
    assert len(figure_1_verdict(lines).splitlines()) == 6
    lines = [
        line("letter", method, "accuracy", value, landmarks=m)
        for m in (4, 8)
        for method, value in (("α²-weighted k-means", 0.8), ("k-means", 0.4 * m / 4), ("drawn rows", 0.1))
    ]
    assert "| accuracy | 1 of 2 | 1 | 1.5 | 2 |" in weights_verdict(lines)
