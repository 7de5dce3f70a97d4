"""scikit-learn's CalibratedClassifierCV gives KernelSVC probabilities as good as its own."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV

import gramian as gm


@pytest.mark.parametrize("classes", [2, 3])
def test_both_calibrations_agree(classes):
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.minimum((classes * X[:, 0] + 0.2 * rng.standard_normal(300)).astype(int).clip(0), classes - 1)
    machine = gm.KernelSVC(C=1.0, gamma=2.0, random_state=0)
    theirs = CalibratedClassifierCV(machine, cv=3, ensemble=False).fit(X, y).predict_proba(X)
    own = gm.KernelSVC(C=1.0, gamma=2.0, probability=True, random_state=0).fit(X, y).predict_proba(X)
    assert np.abs(theirs - own).mean() < 0.03


@pytest.mark.parametrize("n", [20, 60])
def test_units_of_weights_do_not_matter_where_c_is_searched(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    y, w = X[:, 0] + 0.3 * X[:, 1] ** 3 > 0, np.random.default_rng(1).random(n)
    found = [
        gm.KernelSVC(C="auto", probability=True, random_state=0).fit(X, y, weights).predict_proba(X)
        for weights in (w, 4.0 * w)
    ]
    assert np.array_equal(*found)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_of_weight_zero_are_in_no_fold(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=80), [0.0, 0.7][: classes - 1])
    machine = gm.KernelSVC(probability=True, random_state=0)
    want = machine.fit(X, y).predict_proba(X)
    more, labels = np.vstack([X, 9.0 + X[:7]]), np.append(y, y[:7])
    found = machine.fit(more, labels, np.append(np.ones(80), np.zeros(7))).predict_proba(X)
    np.testing.assert_allclose(found, want, atol=1e-6)
