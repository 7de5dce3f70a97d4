"""Conjugate gradients and minimal residuals: answers, evidence, and what they say when they fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import minres

from gramian.exceptions import AccuracyWarning, InputError
from gramian.solvers.krylov import conjugate_gradient, minimal_residual
from gramian.solvers.solution import Solution, Status, relative_residual

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def spectrum(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    q = la.qr(rng.standard_normal((len(values), len(values))))[0]
    return (q * values) @ q.T


def run(a: np.ndarray, b: np.ndarray, tol: float = 1e-10, limit: int = 500, **options) -> Solution:
    return conjugate_gradient(lambda v: a @ v, b, tol=tol, max_iterations=limit, **options)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(0, 4))
@settings(max_examples=25, deadline=None)
def test_matches_the_dense_solution(seed, n, p):
    rng = np.random.default_rng(seed)
    a = spectrum(rng, np.geomspace(1.0, 100.0, n))
    b = rng.standard_normal((n, p))
    found = run(a, b)
    np.testing.assert_allclose(found.value, la.solve(a, b, assume_a="pos"), rtol=0, atol=1e-9)
    assert found.status is Status.CONVERGED
    assert found.residual <= 1e-10


def test_columns_end_one_by_one_and_vectors_stay_vectors():
    rng = np.random.default_rng(0)
    a = np.diag(np.arange(1.0, 41.0))
    b = np.column_stack([np.eye(40)[0], np.zeros(40), rng.standard_normal(40), 1e8 * rng.standard_normal(40)])
    widths = []

    def multiply(v):
        widths.append(v.shape[1])
        return a @ v

    found = conjugate_gradient(multiply, b, tol=1e-12, max_iterations=100)
    np.testing.assert_allclose(a @ found.value, b, rtol=0, atol=1e-3)
    assert found.residual <= 1e-12
    assert not found.value[:, 1].any()
    assert widths[0] == 3  # the zero column never takes part
    assert widths[-1] < 3  # the eigenvector is done after one step
    alone = run(a, b[:, 2], tol=1e-12)
    assert alone.value.shape == (40,)
    np.testing.assert_allclose(alone.value, found.value[:, 2], rtol=0, atol=1e-10)


def test_a_preconditioner_saves_iterations():
    rng = np.random.default_rng(1)
    a = spectrum(rng, np.ones(60)) + np.diag(np.geomspace(1.0, 1e6, 60))
    b = rng.standard_normal((60, 2))
    plain = run(a, b, tol=1e-8, limit=2000)
    scaled = run(a, b, tol=1e-8, precondition=lambda r: r / np.diag(a)[:, None])
    np.testing.assert_allclose(scaled.value, la.solve(a, b), rtol=0, atol=1e-6)
    assert scaled.iterations < plain.iterations / 5


def test_the_true_residual_is_what_counts_on_long_runs():
    rng = np.random.default_rng(2)
    a = spectrum(rng, np.geomspace(1e-5, 1.0, 200))
    b = rng.standard_normal(200)
    found = run(a, b, tol=1e-9, limit=5000)
    assert found.iterations > 100  # so that the residual was replaced on the way
    assert np.linalg.norm(b - a @ found.value) <= 1e-9 * np.linalg.norm(b)


def test_the_limit_warns_with_residual_target_and_remedy():
    rng = np.random.default_rng(3)
    a = spectrum(rng, np.geomspace(1e-6, 1.0, 50))
    text = (
        r"ended with relative residual \d.*, above the target 1e-10, after 3 iterations: stopped at the "
        r"iteration limit: raise max_iterations or alpha"
    )
    with pytest.warns(AccuracyWarning, match=text):
        found = run(a, rng.standard_normal((50, 2)), limit=3)
    assert found.status is Status.LIMIT
    assert found.iterations == 3


def test_negative_curvature_warns():
    a = np.diag([1.0, 2.0, -1.0])
    with pytest.warns(
        AccuracyWarning, match=r"negative curvature, so the matrix is not positive definite: raise"
    ):
        found = run(a, np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 3.0]]))
    assert found.status is Status.INDEFINITE
    assert np.isfinite(found.value).all()


@pytest.mark.parametrize("condition", [1e3, 1e9])
def test_a_target_below_rounding_warns(condition):
    # With 1e3 the recursion claims convergence that the truth denies; with 1e9 it never does.
    rng = np.random.default_rng(4)
    a = spectrum(rng, np.geomspace(1.0 / condition, 1.0, 40))
    with pytest.warns(AccuracyWarning, match=r"stopped falling at the rounding level of float64: accept"):
        found = run(a, rng.standard_normal(40), tol=1e-17, limit=20_000)
    assert found.status is Status.STAGNATED
    assert found.iterations < 20_000
    assert found.residual < 1e-13 * condition


def test_right_hand_side_is_not_written_to():
    b = np.ones((5, 2))
    b.flags.writeable = False
    run(np.diag(np.arange(1.0, 6.0)), b)
    np.testing.assert_array_equal(b, 1.0)


@pytest.mark.parametrize("shape", [(0,), (0, 2), (3, 0)])
def test_empty_systems(shape):
    found = run(np.eye(shape[0]), np.ones(shape))
    assert found.value.shape == shape
    assert found.residual == 0.0


def test_bad_tolerance():
    with pytest.raises(
        InputError, match=r"tol=0 must be a positive, finite number: the target of the relative"
    ):
        run(np.eye(2), np.ones(2), tol=0)


def test_relative_residual_of_a_zero_column_is_what_is_left():
    assert relative_residual(np.zeros((3, 2)), np.zeros((3, 2))) == 0.0
    assert relative_residual(np.array([0.5, 0.0]), np.array([1.0, 0.0])) == 0.5


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_relative_residuals_hold_squares_that_overflow_or_vanish(unit):
    right = np.array([[3.0, 0.0], [4.0, 1.0]])
    assert relative_residual(0.01 * unit * right, unit * right) == pytest.approx(0.01)


class TestBlock:
    @pytest.mark.slow
    def test_columns_help_each_other(self):
        rng = np.random.default_rng(5)
        a = spectrum(rng, np.geomspace(1e-4, 1.0, 300))
        b = rng.standard_normal((300, 8))
        alone = max(run(a, column, tol=1e-8, limit=3000).iterations for column in b.T)
        together = run(a, b, tol=1e-8, limit=3000)
        assert together.iterations < 0.6 * alone
        np.testing.assert_allclose(a @ together.value, b, atol=1e-7)

    def test_dependent_columns_do_no_harm(self):
        rng = np.random.default_rng(6)
        a = spectrum(rng, np.geomspace(0.01, 1.0, 80))
        b = rng.standard_normal((80, 2))
        b = np.column_stack([b, b[:, 0] - 3.0 * b[:, 1], 1e5 * b[:, 0], b[:, 1]])
        found = run(a, b)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.value, la.solve(a, b, assume_a="pos"), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("p", [1, 3])
    def test_rounded_products_reach_the_accuracy_of_the_others(self, p):
        rng = np.random.default_rng(7)
        a = spectrum(rng, np.geomspace(0.05, 100.0, 200))
        rounded = a.astype(np.float32)
        b = rng.standard_normal((200, p))
        count = {"accurate": 0, "rounded": 0}

        def multiply(v):
            count["rounded"] += 1
            return np.asarray(rounded @ v.astype(np.float32), np.float64)

        def accurate(v):
            count["accurate"] += 1
            return a @ v

        found = conjugate_gradient(multiply, b, accurate=accurate, tol=1e-10, max_iterations=2000)
        assert found.status is Status.CONVERGED
        assert np.linalg.norm(b - a @ found.value, axis=0).max() <= 1e-10 * np.linalg.norm(b, axis=0).max()
        assert count["accurate"] <= 0.2 * count["rounded"]
        plain = run(a, b, tol=1e-10, limit=2000)
        assert found.iterations <= 2 * plain.iterations


class TestEnds:
    def test_a_start_near_the_answer_saves_iterations(self):
        rng = np.random.default_rng(8)
        a = spectrum(rng, np.geomspace(0.01, 1.0, 100))
        b = rng.standard_normal((100, 2))
        whole = run(a, b)
        with pytest.warns(AccuracyWarning, match="iteration limit"):
            part = run(a, b, limit=whole.iterations // 2)
        rest = run(a, b, start=part.value)
        assert rest.iterations < whole.iterations
        np.testing.assert_allclose(rest.value, whole.value, atol=1e-8)
        assert run(a, b, start=whole.value).iterations == 0

    def test_time_limit(self):
        rng = np.random.default_rng(9)
        a = spectrum(rng, np.geomspace(1e-6, 1.0, 50))
        with pytest.warns(AccuracyWarning, match="stopped at the time limit: raise time_limit"):
            found = run(a, rng.standard_normal(50), time_limit=0.0)
        assert found.status is Status.TIME
        assert (found.iterations, found.residual) == (0, 1.0)

    def test_an_interrupt_is_raised_again(self):
        rng = np.random.default_rng(10)
        a = spectrum(rng, np.geomspace(1e-4, 1.0, 80))
        b, seen = rng.standard_normal((80, 2)), []

        def progress(state):
            seen.append(state)
            if state.iterations == 9:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(a, b, progress=progress)
        assert [state.iterations for state in seen] == list(range(1, 10))
        left = np.linalg.norm(b - a @ seen[-1].value, axis=0) / np.linalg.norm(b, axis=0)
        assert left.max() == pytest.approx(seen[-1].residual, rel=1e-6)

    @pytest.mark.parametrize("size", [1e30, -1.0], ids=["overflow", "indefinite"])
    def test_a_failure_of_rounded_products_alone_is_none(self, size):
        rng = np.random.default_rng(11)
        a = spectrum(rng, np.geomspace(1e-2, 1.0, 40))
        # Adds what float32 would get wrong: infinity, or an eigenvalue of -1.
        off = np.float64(np.inf) if size > 0 else -2.0
        worst = np.linalg.eigh(a)[1][:, -1:]

        def rounded(v):
            return a @ v + off * worst * (worst.T @ v)

        b = rng.standard_normal((40, 2))
        found = conjugate_gradient(rounded, b, accurate=lambda v: a @ v, tol=1e-10, max_iterations=200)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.value, la.solve(a, b), rtol=0, atol=1e-6)

    def test_numbers_that_are_not_finite(self):
        with pytest.warns(AccuracyWarning, match="not finite"):
            found = conjugate_gradient(lambda v: v * np.nan, np.ones(2), tol=1e-8, max_iterations=5)
        assert found.status is Status.NOT_FINITE


# ---- minimal residuals against dense solutions ------------------------------------------------------


def signed_spectrum(rng, values):
    q = la.qr(rng.standard_normal((len(values), len(values))))[0]
    return (q * values) @ q.T


def run_minres(a, b, tol=1e-10, limit=2000, **options):
    return minimal_residual(lambda v: a @ v, b, tol=tol, max_iterations=limit, **options)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_minres_matches_the_dense_solution(seed, n, p, definite):
    rng = np.random.default_rng(seed)
    signs = np.ones(n) if definite else rng.choice([-1.0, 1.0], n)
    a = signed_spectrum(rng, signs * np.geomspace(1.0, 50.0, n))
    b = rng.standard_normal((n, p))
    found = run_minres(a, b)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.value, la.solve(a, b), rtol=0, atol=1e-8)


def test_as_many_steps_as_scipy():
    rng = np.random.default_rng(0)
    a = signed_spectrum(rng, np.concatenate([-np.geomspace(0.1, 1.0, 100), np.geomspace(0.1, 3.0, 100)]))
    b, steps = rng.standard_normal(200), []
    theirs, _ = minres(a, b, rtol=1e-9, callback=lambda _: steps.append(1), maxiter=2000)
    found = run_minres(a, b, tol=float(np.linalg.norm(b - a @ theirs) / np.linalg.norm(b)))
    assert found.iterations <= 1.1 * len(steps) + 5


def test_zero_columns_scales_and_vectors():
    rng = np.random.default_rng(2)
    a = signed_spectrum(rng, np.linspace(-1, 2, 41))
    b = np.column_stack([np.zeros(41), 1e-9 * rng.standard_normal(41), 1e9 * rng.standard_normal(41)])
    found = run_minres(a, b, tol=1e-9)
    assert not found.value[:, 0].any()
    assert (np.linalg.norm(a @ found.value - b, axis=0) <= 1e-9 * np.linalg.norm(b, axis=0)).all()
    assert run_minres(a, b[:, 2]).value.shape == (41,)
    assert run_minres(a, np.ones((41, 0))).value.shape == (41, 0)


def test_limit_and_rounding_warn():
    rng = np.random.default_rng(3)
    a = signed_spectrum(rng, np.geomspace(1e-6, 1.0, 60) * rng.choice([-1.0, 1.0], 60))
    b = rng.standard_normal(60)
    with pytest.warns(AccuracyWarning, match=r"above the target 1e-10, after 3 iterations: stopped at the"):
        assert run_minres(a, b, limit=3).status is Status.LIMIT
    with pytest.warns(AccuracyWarning, match="rounding level"):
        assert run_minres(a, b, tol=1e-17, limit=50_000).status is Status.STAGNATED
    with pytest.raises(InputError, match="tol=-1"):
        run_minres(a, b, tol=-1)


def test_a_step_that_leads_away_is_not_taken():
    """Products that rounding ruins left x with 17 times the residual of x = 0."""
    rng = np.random.default_rng(4)
    a = np.eye(50) + 1e-3 * signed_spectrum(rng, np.linspace(-1.0, 1.0, 50))
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
