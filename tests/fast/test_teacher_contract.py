"""Teachers of fast models: the default one's choices, and the classes that the teacher predicts."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from suite.datasets import load_dataset

import gramian as gm
from gramian.exact.exact import Exact
from gramian.fast import default_teacher as module
from gramian.fast import estimators
from gramian.fast.default_teacher import default_teacher
from gramian.fast.fit import TEACHER_PART
from gramian.kernels import Gaussian, Laplacian

RNG = np.random.default_rng(0)
X = RNG.random((800, 3))


def taught(kind, rows, targets, weights=None):
    return default_teacher(kind, rows, targets, np.ones(len(rows)) if weights is None else weights, 0)


def test_smooth_targets_get_a_gaussian_kernel_and_steps_a_laplacian():
    smooth = taught(gm.KernelRidge, X, np.sin(4 * X[:, 0]) * X[:, 1])
    assert isinstance(smooth.kernel, Gaussian)
    assert smooth.alpha == module.ALPHAS[0]
    assert smooth.score(X, np.sin(4 * X[:, 0]) * X[:, 1]) > 0.999
    steps = np.floor(4 * X[:, 0]) + np.floor(3 * X[:, 1])
    stepped = taught(gm.KernelRidge, X, steps + 0.1 * RNG.normal(size=800))
    assert isinstance(stepped.kernel, Laplacian)
    assert stepped.score(X, steps) > 0.9


def test_noise_gets_a_larger_penalty():
    noisy = taught(gm.KernelRidge, X, X[:, 0] + RNG.normal(size=800))
    assert noisy.alpha == module.ALPHAS[-1]


def test_classes_weights_and_targets_that_do_not_vary():
    digits, y = load_digits(return_X_y=True)
    model = taught(gm.KernelRidgeClassifier, digits[:1200], y[:1200])
    assert model.score(digits[1200:], y[1200:]) > 0.93
    two = taught(gm.KernelRidgeClassifier, X, X[:, 0] > 0.5)
    assert two.score(X, X[:, 0] > 0.5) > 0.98
    many = np.column_stack([X[:, 0], X[:, 1] ** 2])
    assert taught(gm.KernelRidge, X, many).score(X, many) > 0.999
    weights = np.r_[np.ones(400), np.zeros(400)]
    wrong = np.where(weights > 0, X[:, 0], 1000.0)
    assert taught(gm.KernelRidge, X, wrong, weights).score(X[:400], X[:400, 0]) > 0.99
    for n in (1, 2, 3):
        assert np.isfinite(taught(gm.KernelRidge, X[:n], X[:n, 0]).predict(X)).all()
    assert np.isfinite(taught(gm.KernelRidge, np.ones((20, 2)), X[:20, 0]).predict(X[:, :2])).all()


def test_more_rows_are_solved_exactly_if_memory_holds_them(monkeypatch):
    monkeypatch.setattr(module, "FEW_ROWS", 500)
    y = np.sin(9 * X[:, 0]) * X[:, 1]
    assert isinstance(taught(gm.KernelRidge, X, y).approximation, Exact)
    monkeypatch.setattr(module, "MEMORY", 1_000)
    assert taught(gm.KernelRidge, X, y).approximation == "auto"


def test_a_time_that_is_over_leaves_one_candidate_and_few_rows(monkeypatch):
    tried = []

    class Counted(module.PenaltyTrials):
        def values(self, alpha):
            tried.append(alpha)
            return super().values(alpha)

    monkeypatch.setattr(module, "PenaltyTrials", Counted)
    monkeypatch.setattr(module, "FEW_ROWS", 100)
    rare = np.where(np.arange(800) == 7, "rare", np.where(X[:, 0] > 0.5, "right", "left"))
    model = default_teacher(gm.KernelRidgeClassifier, X, rare, np.ones(800), 0, deadline=0.0)
    assert len(tried) == len(module.ALPHAS)
    assert list(model.classes_) == ["left", "rare", "right"]
    assert model.score(X, rare) > 0.85
    numbers = default_teacher(gm.KernelRidge, X, X[:, 0], np.ones(800), 0, deadline=0.0)
    assert numbers.approximation == "auto"
    assert numbers.score(X, X[:, 0]) > 0.9


def test_the_time_limit_of_a_fit_reaches_the_default_teacher(monkeypatch):
    seen = []

    def teacher(*args):
        seen.append(args[-1])
        return default_teacher(*args)

    monkeypatch.setattr(estimators, "default_teacher", teacher)
    sizes = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
    for limit in (None, 1000.0):
        gm.FastKernelRegressor(time_limit=limit, **sizes).fit(X, X[:, 0])
    now = time.perf_counter()
    assert seen[0] == np.inf
    assert now < seen[1] < now + 1000.0 * TEACHER_PART


@pytest.mark.repeat
@pytest.mark.slow
@pytest.mark.data
def test_letter_of_26_classes():
    letter = load_dataset("letter")
    order = np.random.default_rng(0).permutation(len(letter.y))
    rows, y = np.asarray(letter.X, float), np.asarray(letter.y)
    train, test = order[:12_000], order[12_000:18_000]
    model = taught(gm.KernelRidgeClassifier, rows[train], y[train])
    assert model.score(rows[test], y[test]) > 0.96


# ---- fast models have the classes that their teacher's ``predict`` gives ----------------------------

SMALL = {"n_levels": 1, "n_units": 8, "n_directions": 3, "random_state": 0}
DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(600, 3))
SUMS = np.sin(2.0 * ROWS[:, 0]) + ROWS[:, 1]
RARE = (SUMS + 0.7 * DRAW.normal(size=600) > 1.3).astype(int)
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
    fast = gm.compress(teacher.fit(ROWS, y), ROWS, **SMALL)
    told = teacher.predict(ROWS)
    assert np.mean(fast.predict(ROWS) == told) > 0.93
    share = np.mean(told == told.max())
    assert abs(np.mean(fast.predict(ROWS) == told.max()) - share) < 0.2 * share + 0.02


def test_an_unfitted_teacher_learns_from_weighted_rows():
    weights = np.where(RARE == 1, 20.0, 1.0)
    plain = gm.FastKernelClassifier(LogisticRegression(), learn="teacher", **SMALL)
    even = plain.fit(ROWS, RARE).predict(ROWS).mean()
    heavy = plain.fit(ROWS, RARE, sample_weight=weights).predict(ROWS).mean()
    balanced = gm.FastKernelClassifier(LogisticRegression(), learn="teacher", class_weight={1: 20.0}, **SMALL)
    assert heavy > 2.0 * even
    np.testing.assert_allclose(balanced.fit(ROWS, RARE).predict(ROWS).mean(), heavy, atol=0.02)
    up = gm.FastKernelRegressor(Ridge(), learn="teacher", **SMALL).fit(
        ROWS, 1.0 * RARE, sample_weight=weights
    )
    assert up.predict(ROWS).mean() > 2.0 * RARE.mean()


def test_a_teacher_without_weights_is_named():
    model = gm.FastKernelClassifier(KNeighborsClassifier(), **SMALL)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight.*pass a fitted"):
        model.fit(ROWS, RARE, sample_weight=1.0 + RARE)
    model.fit(ROWS, RARE, sample_weight=np.full(600, 3.0))  # warns of nothing


def test_labels_of_several_columns_are_refused():
    both = np.column_stack([RARE, THREE])
    with pytest.raises(gm.InputError, match=r"labels of shape \(600, 2\).*a classifier for each column"):
        gm.compress(KNeighborsClassifier().fit(ROWS, both), ROWS, **SMALL)
