"""Choice of penalties on the exact K: by trials, by models without folds of rows, by leaving one out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import gramian as gm
from gramian.engine import Engine
from gramian.exact import folds as folds_module
from gramian.exact import penalties
from gramian.exact.folds import LOGISTIC, SPREAD, SQUARED, FoldModels
from gramian.exact.loo import leave_one_out, refine_kernel
from gramian.exact.penalties import IterativeTrials, PenaltyTrials
from gramian.exceptions import InputError
from gramian.kernels import Cosine
from gramian.kernels.gradient import log_parameters, with_log_parameters


def table(n: int = 240, m: int = 60, outputs: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + m, 3))
    Y = 3.0 + np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2], axis=1)[:, :outputs]
    return X[:n], X[n:], Y[:n]


def dense(kernel: Any, X: Any, new: Any, Y: Any, weights: Any, alpha: float) -> Any:
    """Values of new rows by the system of an intercept: [[K + alpha/W, 1], [1ᵀ, 0]]."""
    n = len(X)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = kernel(X) + np.diag(np.full(n, alpha) / weights)
    system[n, n] = 0.0
    solved = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return kernel(new, X) @ solved[:n] + solved[n]


@pytest.mark.parametrize("kernel", [gm.Laplacian(4.0), gm.Gaussian(1.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_the_bordered_system(kernel, weighted):
    X, new, Y = table()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(X)) if weighted else np.ones(len(X))
    trials = PenaltyTrials(kernel, X, new, Y, weights if weighted else None, Engine(1))
    # float32 first, then float64, then float32 again.
    for alpha, tolerance in ((1.0, 1e-4), (0.1, 1e-3), (1e-5, 1e-7), (0.5, 1e-4)):
        found = trials.values(alpha)
        assert found.shape == (len(new), 2)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, dense(kernel, X, new, Y, weights, alpha), rtol=0, atol=tolerance)


def test_penalties_in_float32_share_one_matrix(monkeypatch):
    made = []
    whole = PenaltyTrials._matrices

    def counted(self, dtype):
        made.append(np.dtype(dtype).name)
        return whole(self, dtype)

    monkeypatch.setattr(PenaltyTrials, "_matrices", counted)
    X, new, Y = table()
    trials = PenaltyTrials(gm.Laplacian(4.0), X, new, Y, None, Engine(1))
    before = trials.values(1.0)
    trials.values(0.11)
    np.testing.assert_array_equal(trials.values(1.0), before)
    assert made == ["float32"]
    trials.values(1e-6)
    trials.values(1e-7)
    assert made == ["float32", "float64", "float64"]


def test_they_are_what_the_estimator_predicts():
    X, new, Y = table(outputs=1)
    trials = PenaltyTrials(gm.Laplacian(4.0), X, new, Y, None, Engine(2))
    model = gm.KernelRidge(1e-4, kernel=gm.Laplacian(4.0), approximation="exact", fit_intercept=True)
    model.fit(X, Y.ravel())
    np.testing.assert_allclose(trials.values(1e-4).ravel(), model.predict(new), rtol=0, atol=1e-8)


def test_a_matrix_without_a_factor_has_infinite_values():
    X = np.zeros((50, 2))  # K of ones
    trials = PenaltyTrials(gm.Gaussian(1.0), X, X[:5], np.ones((50, 1)), None, Engine(1))
    assert np.isinf(trials.values(-1.0)).all()
    assert np.isfinite(trials.values(0.1)).all()


def iterative(kernel: Any, X: Any, new: Any, Y: Any, weights: Any, dtype: str = "float64") -> IterativeTrials:
    rng = np.random.default_rng(0)
    return IterativeTrials(kernel, X, new, Y, weights, Engine(2), dtype, 10**8, rng)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [gm.Laplacian(4.0), gm.Gaussian(1.5)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-5), ("float32", 1e-3)])
def test_iterative_values_are_those_of_the_bordered_system(kernel, weighted, dtype, tolerance):
    X, new, Y = table(n=1500)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(X)) if weighted else np.ones(len(X))
    trials = iterative(kernel, X, new, Y, weights if weighted else None, dtype)
    trials.tol = 1e-2 * tolerance
    for alpha in (0.3, 0.1, 1.0, 0.1):
        found = trials.values(alpha)
        assert found.shape == (len(new), 2)
        truth = dense(kernel, X, new, Y, weights, alpha)
        np.testing.assert_allclose(found, truth, rtol=0, atol=tolerance)


def test_a_penalty_begins_with_what_others_computed(monkeypatch):
    iterations = []
    solve = penalties.conjugate_gradient

    def counted(*args, **options):
        found = solve(*args, **options)
        iterations.append(found.iterations)
        return found

    monkeypatch.setattr(penalties, "conjugate_gradient", counted)
    X, new, Y = table(n=1500)
    trials, alone = (iterative(gm.Laplacian(4.0), X, new, Y, None) for _ in range(2))
    trials.tol = alone.tol = 1e-4
    trials.values(0.1)
    values = trials.values(0.1)
    trials.values(0.11)
    alone.values(0.11)
    again, near, far = iterations[1], iterations[2], iterations[3]
    assert again == 1
    assert near < far
    assert trials._system is not None
    assert trials._system.evaluations < 2.5 * 1500**2  # K once, and the preconditioner
    np.testing.assert_allclose(values, trials.values(0.1), rtol=0, atol=1e-3)


def test_a_solve_that_takes_too_long_ends_without_a_warning(monkeypatch):
    monkeypatch.setattr(penalties, "TRIAL_STEPS", 3)
    X, new, Y = table(n=1500)
    trials = iterative(gm.Gaussian(1.5), X, new, Y, None)
    trials.tol = 1e-12
    assert np.isfinite(trials.values(1e-9)).all()


# ---- models of the exact K without folds of the rows ------------------------------------------------


def problem(n_classes, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    codes = (np.floor(n_classes * X[:, 0]) + (rng.random(n) < 0.2)).astype(int) % n_classes
    chances = np.eye(n_classes)[codes]
    return gm.Gaussian(0.5)(X), chances[:, 1:] if n_classes == 2 else chances


def dense_newton(K, chances, weights, penalty, start):
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
        np.testing.assert_allclose(found[:, j], dense_newton(K, chances, own, 0.05, start), atol=2e-4)
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
    best = dense_newton(K, chances, np.ones(300), 0.01, start) if n_classes == 2 else loose[:, 0]
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


# ---- the dense leave-one-out error ------------------------------------------------------------------

KERNELS = {
    "gaussian": gm.Gaussian(0.8),
    "lengthscales": gm.Gaussian((0.5, 0.9, 2.0)),
    "matern": gm.Matern(0.9, nu=1.5),
    "laplacian": gm.Laplacian((1.0, 0.6, 1.5)),
    "sum": 0.5 * gm.Gaussian(0.4) + gm.Linear(1.5),
}


def weighted_table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    Y = np.column_stack([np.sin(6 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.standard_normal((n, 2))
    return X, Y, rng.uniform(0.3, 2.0, n)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_residuals_equal_n_refits(weighted, intercept):
    X, Y, w = weighted_table()
    kernel, alpha = gm.Gaussian(0.6), 0.05
    found = leave_one_out(kernel, X, Y, alpha, weights=w if weighted else None, intercept=intercept)
    for i in range(len(X)):
        on = np.delete(np.arange(len(X)), i)
        model = gm.KernelRidge(alpha, kernel=kernel, fit_intercept=intercept, tile_dtype="float64", n_jobs=1)
        model.fit(X[on], Y[on], sample_weight=w[on] if weighted else None)
        np.testing.assert_allclose(found.residuals[i], Y[i] - model.predict(X[i : i + 1])[0], atol=1e-7)
    weights = w if weighted else np.ones(len(X))
    assert found.loss == pytest.approx(float((weights @ found.residuals**2).sum()), rel=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_equals_differences(name, weighted, intercept):
    X, Y, w = weighted_table()
    kernel, options = KERNELS[name], {"weights": w if weighted else None, "intercept": intercept}
    theta = np.append(log_parameters(kernel), np.log(0.07))
    found = leave_one_out(kernel, X, Y, 0.07, **options)

    def loss(t):
        return leave_one_out(with_log_parameters(kernel, t[:-1]), X, Y, np.exp(t[-1]), **options).loss

    step = 1e-5
    expected = [(loss(theta + step * u) - loss(theta - step * u)) / (2 * step) for u in np.eye(len(theta))]
    gradient = np.append(found.by_kernel, found.by_alpha)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8 * found.loss)


def test_refinement_finds_which_feature_matters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    Y = np.sin(3 * X[:, :1]) + 0.05 * rng.standard_normal((200, 1))
    found = refine_kernel(gm.Gaussian((1.0,) * 4), X, Y, 0.1)
    assert found.after < 0.1 * found.before
    assert found.n_rows == 200
    scale = np.asarray(found.kernel.lengthscale)
    assert (scale[1:] > 10 * scale[0]).all()
    again = leave_one_out(found.kernel, X, Y, found.alpha)
    assert again.loss / 200 == pytest.approx(found.after, rel=1e-9)
    # At a minimum that no bound holds, alpha's derivative vanishes beside the error.
    assert abs(again.by_alpha) < 1e-2 * again.loss


def test_targets_without_error_are_left_as_they_are():
    X = weighted_table()[0]
    found = refine_kernel(gm.Gaussian(1.0), X, np.zeros((40, 1)), 0.1)
    assert found.kernel == gm.Gaussian(1.0)
    assert (found.before, found.after, found.evaluations) == (0.0, 0.0, 1)


def test_kernels_without_a_gradient_are_refused():
    X, Y, _ = weighted_table()
    with pytest.raises(InputError, match="no known gradient with respect to its parameters"):
        refine_kernel(Cosine(), X, Y, 0.1)
