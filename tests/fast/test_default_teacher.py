"""The default teacher of fast models: the kernel and the penalty that it chooses, and how good it is."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits
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
    model = default_teacher(gm.KernelRidgeClassifier, X, rare, np.ones(800), 0, until=0.0)
    assert len(tried) == len(module.ALPHAS)
    assert list(model.classes_) == ["left", "rare", "right"]
    assert model.score(X, rare) > 0.85
    numbers = default_teacher(gm.KernelRidge, X, X[:, 0], np.ones(800), 0, until=0.0)
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
