"""The default teacher of fast models: the kernel and the penalty that it chooses, and how good it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gramian as gm
from gramian.data import load_dataset
from gramian.exact.exact import Exact
from gramian.fast import default_teacher as module
from gramian.fast.default_teacher import default_teacher
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


@pytest.mark.slow
@pytest.mark.data
def test_letter_of_26_classes():
    letter = load_dataset("letter")
    order = np.random.default_rng(0).permutation(len(letter.y))
    rows, y = np.asarray(letter.X, float), np.asarray(letter.y)
    train, test = order[:12_000], order[12_000:18_000]
    model = taught(gm.KernelRidgeClassifier, rows[train], y[train])
    assert model.score(rows[test], y[test]) > 0.96
