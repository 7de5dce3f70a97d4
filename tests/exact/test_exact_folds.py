"""Models of the exact K without folds of the rows: against Newton's method on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import gramian as gm
from gramian.exact import folds as folds_module
from gramian.exact.folds import LOGISTIC, SPREAD, SQUARED, FoldModels


def problem(n_classes, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    codes = (np.floor(n_classes * X[:, 0]) + (rng.random(n) < 0.2)).astype(int) % n_classes
    chances = np.eye(n_classes)[codes]
    return gm.Gaussian(0.5)(X), chances[:, 1:] if n_classes == 2 else chances


def dense(K, chances, weights, penalty, start):
    """Newton's method with the whole Hessian, in coefficients c of f = (K + SPREAD) c + start."""
    n, outputs = chances.shape
    K = K + SPREAD
    both = np.column_stack([1 - chances[:, 0], chances[:, 0]]) if outputs == 1 else chances
    c = np.zeros((n, outputs))
    big = np.kron(K, np.eye(outputs))
    for _ in range(60):
        f = K @ c + start
        p = softmax(np.column_stack([np.zeros(n), f]) if outputs == 1 else f, axis=1)
        gap = (weights[:, None] * (p - both))[:, 1 - (outputs > 1) :]
        hessian = np.zeros((n * outputs, n * outputs))
        for i in range(n):
            own = p[i, 1 - (outputs > 1) :]
            block = weights[i] * (np.diag(own) - np.outer(own, own))
            hessian[i * outputs : (i + 1) * outputs, i * outputs : (i + 1) * outputs] = block
        gradient = big @ (penalty * c + gap).ravel()
        full = big @ hessian @ big + penalty * big
        c = c - np.linalg.lstsq(full, gradient, rcond=1e-13)[0].reshape(n, outputs)
    return K @ c + start


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_without_folds_are_those_of_newtons_method(n_classes, monkeypatch):
    monkeypatch.setattr(folds_module, "TOL", 1e-13)
    monkeypatch.setattr(folds_module, "GAIN", 1e-7)
    monkeypatch.setattr(folds_module, "MOST_PRODUCTS", 5_000)
    K, chances = problem(n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    folds = [*np.array_split(np.random.default_rng(2).permutation(60), 3), np.array([], int)]
    fits = FoldModels(lambda v: K @ v, LOGISTIC, chances, weights, folds)
    fits.fit(0.3)
    found = fits.fit(0.05)  # from the coefficients of another penalty
    mean = np.average(chances, axis=0, weights=weights)
    start = np.log(mean / (1 - mean)) if n_classes == 2 else np.log(mean)
    for j, fold in enumerate(folds):
        own = weights.copy()
        own[fold] = 0.0
        np.testing.assert_allclose(found[:, j], dense(K, chances, own, 0.05, start), atol=2e-4)
        assert not fits.coefficients[fold, j].any()
    again = np.einsum("ij,jmo->imo", K, fits.coefficients) + fits.offsets
    np.testing.assert_allclose(again, found, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_default_accuracy_takes_few_products(n_classes):
    K, chances = problem(n_classes, 300)
    count = 0

    def product(values):
        nonlocal count
        count += 1
        return K @ values

    fits = FoldModels(product, LOGISTIC, chances, None, [np.array([], int)])
    loose = fits.fit(0.01)
    assert count <= 150
    mean = chances.mean(axis=0)
    start = np.log(mean / (1 - mean)) if n_classes == 2 else np.log(mean)
    best = dense(K, chances, np.ones(300), 0.01, start) if n_classes == 2 else loose[:, 0]
    assert LOGISTIC.loss(loose[:, 0], chances).mean() <= LOGISTIC.loss(best, chances).mean() + 0.02


def test_separated_classes_end_at_finite_values():
    X = np.concatenate([np.linspace(0, 1, 50), np.linspace(3, 4, 50)])[:, None]
    chances = np.repeat([0.0, 1.0], 50)[:, None]
    K = gm.Gaussian(1.0)(X)
    values = FoldModels(lambda v: K @ v, LOGISTIC, chances, None, [np.array([], int)]).fit(1e-6)
    assert np.isfinite(values).all()
    assert ((values[:, 0, 0] > 0) == (chances[:, 0] > 0)).all()


def test_ridge_models_without_folds_solve_their_systems():
    K, chances = problem(3, 200)
    targets = 2.0 * chances - 1.0
    folds = np.array_split(np.random.default_rng(2).permutation(200), 5)
    found = FoldModels(lambda v: K @ v, SQUARED, targets, None, folds).fit(0.1)
    for j, fold in enumerate(folds):
        rest = np.setdiff1d(np.arange(200), fold)
        full, mean = K + SPREAD, targets.mean(axis=0)
        solved = np.linalg.solve(full[np.ix_(rest, rest)] + 0.1 * np.eye(len(rest)), targets[rest] - mean)
        expected = full[np.ix_(fold, rest)] @ solved + mean
        assert np.abs(found[fold, j] - expected).max() < 0.05 * np.abs(expected).max()
