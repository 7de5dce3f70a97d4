"""Minimal residuals against dense solutions, of indefinite systems above all."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import minres

from gramian._tiles import one_blas_thread
from gramian.exceptions import AccuracyWarning, InputError
from gramian.solvers.krylov import minimal_residual
from gramian.solvers.solution import Status


@pytest.fixture(scope="module", autouse=True)
def _one_blas_thread():
    with one_blas_thread():
        yield


def spectrum(rng, values):
    q = la.qr(rng.standard_normal((len(values), len(values))))[0]
    return (q * values) @ q.T


def run(a, b, tol=1e-10, limit=2000, **options):
    return minimal_residual(lambda v: a @ v, b, tol=tol, max_iterations=limit, **options)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_matches_the_dense_solution(seed, n, p, definite):
    rng = np.random.default_rng(seed)
    signs = np.ones(n) if definite else rng.choice([-1.0, 1.0], n)
    a = spectrum(rng, signs * np.geomspace(1.0, 50.0, n))
    b = rng.standard_normal((n, p))
    found = run(a, b)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.value, la.solve(a, b), rtol=0, atol=1e-8)


def test_as_many_steps_as_scipy():
    rng = np.random.default_rng(0)
    a = spectrum(rng, np.concatenate([-np.geomspace(0.1, 1.0, 100), np.geomspace(0.1, 3.0, 100)]))
    b, steps = rng.standard_normal(200), []
    theirs, _ = minres(a, b, rtol=1e-9, callback=lambda _: steps.append(1), maxiter=2000)
    found = run(a, b, tol=float(np.linalg.norm(b - a @ theirs) / np.linalg.norm(b)))
    assert found.iterations <= 1.1 * len(steps) + 5


def test_zero_columns_scales_and_vectors():
    rng = np.random.default_rng(2)
    a = spectrum(rng, np.linspace(-1, 2, 41))
    b = np.column_stack([np.zeros(41), 1e-9 * rng.standard_normal(41), 1e9 * rng.standard_normal(41)])
    found = run(a, b, tol=1e-9)
    assert not found.value[:, 0].any()
    assert (np.linalg.norm(a @ found.value - b, axis=0) <= 1e-9 * np.linalg.norm(b, axis=0)).all()
    assert run(a, b[:, 2]).value.shape == (41,)
    assert run(a, np.ones((41, 0))).value.shape == (41, 0)


def test_limit_and_rounding_warn():
    rng = np.random.default_rng(3)
    a = spectrum(rng, np.geomspace(1e-6, 1.0, 60) * rng.choice([-1.0, 1.0], 60))
    b = rng.standard_normal(60)
    with pytest.warns(AccuracyWarning, match=r"above the target 1e-10, after 3 iterations: stopped at the"):
        assert run(a, b, limit=3).status is Status.LIMIT
    with pytest.warns(AccuracyWarning, match="rounding level"):
        assert run(a, b, tol=1e-17, limit=50_000).status is Status.STAGNATED
    with pytest.raises(InputError, match="tol=-1"):
        run(a, b, tol=-1)


def test_a_step_that_leads_away_is_not_taken():
    """Products that rounding ruins left x with 17 times the residual of x = 0."""
    rng = np.random.default_rng(4)
    a = np.eye(50) + 1e-3 * spectrum(rng, np.linspace(-1.0, 1.0, 50))
    b = rng.standard_normal((50, 2))
    calls = []

    def multiply(v):
        calls.append(1)
        # True residuals are computed of all columns; the first products are wrong.
        return a @ v if len(calls) > 6 else -3.0 * v + rng.standard_normal(v.shape)

    with pytest.warns(AccuracyWarning):
        found = minimal_residual(multiply, b, tol=1e-10, max_iterations=5)
    assert found.residual <= 1.0
    left = np.linalg.norm(b - a @ found.value, axis=0) / np.linalg.norm(b, axis=0)
    assert left.max() == pytest.approx(found.residual)
