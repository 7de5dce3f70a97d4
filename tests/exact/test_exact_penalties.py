"""PenaltyTrials: exact models of one penalty after another, against the dense bordered system."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.engine import Engine
from gramian.exact import penalties
from gramian.exact.penalties import IterativeTrials, PenaltyTrials


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
