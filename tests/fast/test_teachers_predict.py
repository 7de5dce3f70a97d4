"""Fast models have the classes that their teacher's ``predict`` gives, and learn from weighted rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import gramian as gm

SMALL = {"n_levels": 1, "n_units": 8, "n_directions": 3, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
SUMS = np.sin(2.0 * X[:, 0]) + X[:, 1]
RARE = (SUMS + 0.7 * RNG.normal(size=600) > 1.3).astype(int)
THREE = np.digitize(SUMS, [-0.7, 0.8])

#: Models whose most likely class is not the one that they predict, or whose values are not one for a class.
TEACHERS = {
    "a threshold of its own": (FixedThresholdClassifier(LogisticRegression(), threshold=0.1), RARE),
    "probabilities beside votes": (make_pipeline(StandardScaler(), SVC(probability=True)), RARE),
    "found by a search": (GridSearchCV(SVC(probability=True), {"C": [1.0]}, cv=2), RARE),
    "calibrated": (gm.KernelSVC(probability=True, random_state=0), RARE),
    "pairs of classes": (SVC(kernel="poly", decision_function_shape="ovo"), THREE),
}


@pytest.mark.parametrize("name", TEACHERS)
@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_the_class_is_the_one_that_the_teacher_predicts(name):
    teacher, y = TEACHERS[name]
    fast = gm.compress(teacher.fit(X, y), X, **SMALL)
    told = teacher.predict(X)
    assert np.mean(fast.predict(X) == told) > 0.93
    share = np.mean(told == told.max())
    assert abs(np.mean(fast.predict(X) == told.max()) - share) < 0.2 * share + 0.02


def test_an_unfitted_teacher_learns_from_weighted_rows():
    weights = np.where(RARE == 1, 20.0, 1.0)
    plain = gm.FastKernelClassifier(LogisticRegression(), learn="teacher", **SMALL)
    even = plain.fit(X, RARE).predict(X).mean()
    heavy = plain.fit(X, RARE, sample_weight=weights).predict(X).mean()
    balanced = gm.FastKernelClassifier(LogisticRegression(), learn="teacher", class_weight={1: 20.0}, **SMALL)
    assert heavy > 2.0 * even
    np.testing.assert_allclose(balanced.fit(X, RARE).predict(X).mean(), heavy, atol=0.02)
    up = gm.FastKernelRegressor(Ridge(), learn="teacher", **SMALL).fit(X, 1.0 * RARE, sample_weight=weights)
    assert up.predict(X).mean() > 2.0 * RARE.mean()


def test_a_teacher_without_weights_is_named():
    model = gm.FastKernelClassifier(KNeighborsClassifier(), **SMALL)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight.*pass a fitted"):
        model.fit(X, RARE, sample_weight=1.0 + RARE)
    model.fit(X, RARE, sample_weight=np.full(600, 3.0))  # warns of nothing


def test_labels_of_several_columns_are_refused():
    both = np.column_stack([RARE, THREE])
    with pytest.raises(gm.InputError, match=r"labels of shape \(600, 2\).*a classifier for each column"):
        gm.compress(KNeighborsClassifier().fit(X, both), X, **SMALL)
