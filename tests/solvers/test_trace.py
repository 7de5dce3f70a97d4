"""Traces, diagonals and log-determinants by random vectors: dense oracles, honest standard errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gramian as gm
from gramian.engine import Engine
from gramian.exact.preconditioner import RootAndBlocks
from gramian.landmarks.picking import rpcholesky_factor
from gramian.operators import KernelOperator
from gramian.solvers.trace import LeaveOneOutTrace, StochasticValue, lanczos_quadrature
from gramian.spectra import effective_dimension, leverage_scores, log_determinant

N = 300
SEEDS = range(60)


def points(n=N, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def matrix(lengthscale, n=N):
    return gm.Gaussian(lengthscale)(points(n))


LENGTHSCALES = (0.15, 0.8, 4.0)


class TestLeaveOneOut:
    @pytest.mark.parametrize("lengthscale", LENGTHSCALES)
    def test_trace_and_its_standard_error(self, lengthscale):
        A = matrix(lengthscale)
        found = [LeaveOneOutTrace(A.__matmul__, N, 16, np.random.default_rng(s)).trace() for s in SEEDS]
        gaps = np.array([f - N for f in found])
        errors = np.array([f.standard_error for f in found])
        assert (np.abs(gaps) < 4 * errors).mean() >= 0.98
        assert (np.abs(gaps) < 2.1 * errors).mean() >= 0.88
        # And not by saying too much: they are what they say, within a factor of two.
        assert np.sqrt((errors**2).mean()) < 2.0 * np.sqrt((gaps**2).mean())

    @pytest.mark.parametrize("lengthscale", LENGTHSCALES)
    def test_diagonal_and_its_standard_error(self, lengthscale):
        A = matrix(lengthscale) + np.diag(np.linspace(0.0, 1.0, N))
        covered = []
        for seed in range(20):
            value, error = LeaveOneOutTrace(A.__matmul__, N, 24, np.random.default_rng(seed)).diagonal()
            covered.append(np.abs(value - np.diag(A)) < 2.1 * error)
        assert np.mean(covered) >= 0.9

    def test_low_rank_is_exact(self):
        F = points(d=5)
        seen = LeaveOneOutTrace((F @ F.T).__matmul__, N, 12, np.random.default_rng(0))
        assert seen.exact
        assert seen.trace() == pytest.approx((F**2).sum(), rel=1e-12)
        np.testing.assert_allclose(seen.diagonal()[0], (F**2).sum(axis=1), rtol=1e-9)
        zero = LeaveOneOutTrace(np.zeros((N, N)).__matmul__, N, 12, np.random.default_rng(0))
        assert zero.trace() == 0.0

    def test_low_rank_beats_a_plain_sample(self):
        A = matrix(4.0)
        plain = np.sqrt(2.0 * (A**2).sum() / 32)
        found = LeaveOneOutTrace(A.__matmul__, N, 16, np.random.default_rng(0)).trace()
        assert found.standard_error < 0.01 * plain

    def test_bad_input(self):
        with pytest.raises(gm.InputError, match="take 2 to 300"):
            LeaveOneOutTrace(matrix(1.0).__matmul__, N, 1, np.random.default_rng(0))


class TestQuadrature:
    @pytest.mark.slow
    @pytest.mark.parametrize("lengthscale", LENGTHSCALES)
    def test_log_determinant_and_its_standard_error(self, lengthscale):
        A = matrix(lengthscale) + 0.05 * np.eye(N)
        M = np.diag(np.linspace(0.5, 2.0, N))
        want = np.linalg.slogdet(A)[1] - np.linalg.slogdet(M)[1]
        gaps = []
        for seed in SEEDS:
            probes = np.sqrt(M) @ np.random.default_rng(seed).standard_normal((N, 10))
            found = lanczos_quadrature(
                A.__matmul__, lambda v: v / np.diag(M)[:, None], probes, np.log, max_steps=150
            )
            gaps.append((found - want) / found.standard_error)
        assert (np.abs(gaps) < 4).mean() >= 0.95
        assert 0.5 < np.std(gaps) < 1.6

    def test_a_perfect_preconditioner_leaves_nothing(self):
        A = matrix(0.8) + 0.05 * np.eye(N)
        probes = np.linalg.cholesky(A) @ np.random.default_rng(0).standard_normal((N, 4))
        found = lanczos_quadrature(
            A.__matmul__, lambda v: np.linalg.solve(A, v), probes, np.log, max_steps=50
        )
        # One step in exact arithmetic; rounding adds 3 to 5, by the processor. Without a preconditioner: 15.
        assert found.products <= 10
        assert abs(found) < 1e-8

    def test_a_limit_warns_with_what_is_missing(self):
        A = matrix(0.8) + 1e-6 * np.eye(N)
        probes = np.random.default_rng(0).standard_normal((N, 4))
        with pytest.warns(gm.AccuracyWarning, match="stopped after 4 steps"):
            lanczos_quadrature(A.__matmul__, np.copy, probes, np.log, max_steps=4)

    def test_an_indefinite_matrix_is_told(self):
        probes = np.random.default_rng(0).standard_normal((N, 4))
        with pytest.raises(gm.InputError, match="not positive definite"):
            lanczos_quadrature((-np.eye(N)).__matmul__, np.copy, probes, np.log, max_steps=9)
        with pytest.raises(gm.InputError, match="at least 2"):
            lanczos_quadrature(np.eye(N).__matmul__, np.copy, probes[:, :1], np.log, max_steps=9)


class TestPreconditioner:
    @pytest.fixture(params=["nystrom", "jacobi", "pitc", "diagonal"])
    def made(self, request):
        X, kernel, shift = points(120), gm.Gaussian(0.6), np.linspace(0.1, 0.5, 120)
        factor = rpcholesky_factor(kernel, X, 20, np.random.default_rng(0)).factor
        if request.param in ("jacobi", "diagonal"):
            factor = np.zeros((0, 120))
        slices = [slice(0, 50), slice(50, 120)] if request.param in ("jacobi", "pitc") else []
        M = factor.T @ factor + np.diag(shift)
        for s in slices:
            M[s, s] = kernel(X)[s, s] + np.diag(shift[s])
        return RootAndBlocks(kernel, X, shift, factor.copy(), slices, Engine(1)), M

    def test_diagonal_of_the_inverse(self, made):
        found, M = made
        np.testing.assert_allclose(found.inverse_diagonal(), np.diag(np.linalg.inv(M)), rtol=1e-9)

    def test_draws_have_its_covariance(self, made):
        found, M = made
        z = found.draw(20_000, np.random.default_rng(0))
        white = np.linalg.solve(np.linalg.cholesky(M), z)
        assert np.linalg.norm(white @ white.T / 20_000 - np.eye(120), 2) < 0.25


ALPHAS = (1.0, 0.02)


def exact(lengthscale, alpha, n=N):
    K = matrix(lengthscale, n)
    inverse = np.linalg.inv(K + alpha * np.eye(n))
    return np.linalg.slogdet(K + alpha * np.eye(n))[1], 1.0 - alpha * np.diag(inverse)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("lengthscale", LENGTHSCALES)
class TestExactKernel:
    def test_direct(self, lengthscale, alpha):
        K = KernelOperator(gm.Gaussian(lengthscale), points())
        logdet, scores = exact(lengthscale, alpha)
        np.testing.assert_allclose(log_determinant(K, alpha), logdet, rtol=1e-10)
        np.testing.assert_allclose(effective_dimension(K, alpha), scores.sum(), rtol=1e-8)
        np.testing.assert_allclose(leverage_scores(K, alpha).values, scores, atol=1e-10)
        assert log_determinant(K, alpha).standard_error == 0.0

    def test_stochastic(self, lengthscale, alpha):
        n = 700
        K = KernelOperator(gm.Gaussian(lengthscale), points(n), n_jobs=1)
        logdet, scores = exact(lengthscale, alpha, n)
        options = {"method": "stochastic", "random_state": 1}
        found = log_determinant(K, alpha, **options)
        assert abs(found - logdet) <= 4 * found.standard_error + 1e-6 * abs(logdet)
        found = effective_dimension(K, alpha, **options)
        assert abs(found - scores.sum()) <= 4 * found.standard_error + 1e-3
        found = leverage_scores(K, alpha, **options)
        off = np.abs(found.values - scores) > 4 * found.standard_error + 1e-5
        assert off.mean() < 0.02
        assert found.values.min() >= 0.0


@pytest.mark.slow
def test_standard_errors_of_the_exact_kernel_are_honest():
    K = KernelOperator(gm.Gaussian(0.3), points(400), n_jobs=1)
    logdet, scores = exact(0.3, 0.1, 400)
    gaps = []
    for seed in range(25):
        options = {"method": "stochastic", "random_state": seed, "n_probes": 8}
        for found, want in (
            (log_determinant(K, 0.1, **options), logdet),
            (effective_dimension(K, 0.1, **options), scores.sum()),
        ):
            gaps.append((found - want) / found.standard_error)
    assert np.mean(np.abs(gaps) < 4) >= 0.94
    assert 0.3 < np.std(gaps) < 2.0


@pytest.mark.slow
def test_the_preconditioner_takes_the_variance():
    X = points(3000)
    K = KernelOperator(gm.Gaussian(1.0), X, n_jobs=1)
    found = log_determinant(K, 0.1, random_state=0)
    logdet, _ = exact(1.0, 0.1, 3000)
    assert 0 < found.standard_error < 5e-3 * abs(logdet)
    assert abs(found - logdet) < 4 * found.standard_error
    assert found.products <= 20


def test_a_diagonal_for_alpha():
    K = KernelOperator(gm.Gaussian(0.5), points())
    shift = np.linspace(0.1, 1.0, N)
    want = np.linalg.slogdet(matrix(0.5) + np.diag(shift))[1]
    assert log_determinant(K, shift) == pytest.approx(want, rel=1e-10)
    found = log_determinant(K, shift, method="stochastic", random_state=0)
    assert abs(found - want) < 4 * found.standard_error


@pytest.mark.parametrize("operator", ["nested", "coupled", "diagonal"])
def test_operators_of_the_library_are_exact(operator):
    made = {
        "nested": gm.MultiResolution(root_rank=20, rank=6, n_blocks=4, gamma=0.5, random_state=0),
        "coupled": gm.MEKA(rank=8, n_blocks=3, gamma=0.5, random_state=0),
        "diagonal": gm.BlockBasis(rank=8, n_blocks=3, gamma=0.5, random_state=0, diagonal=True),
    }[operator]
    op = made.fit(points()).operator_
    K = op.to_dense()
    scores = np.diag(np.linalg.solve(K + 0.3 * np.eye(N), K))
    np.testing.assert_allclose(effective_dimension(op, 0.3), scores.sum(), rtol=1e-9)
    np.testing.assert_allclose(leverage_scores(op, 0.3).values, scores, atol=1e-9)
    want = np.linalg.slogdet(K + 0.3 * np.eye(N))[1]
    np.testing.assert_allclose(log_determinant(op, 0.3), want, rtol=1e-9)


@pytest.mark.slow
def test_threads_and_seeds():
    values = []
    for jobs in (1, 3, 1):
        K = KernelOperator(gm.Gaussian(0.5), points(600), n_jobs=jobs)
        options = {"method": "stochastic", "random_state": 3}
        scores = leverage_scores(K, 0.2, **options).values
        logdet, dimension = log_determinant(K, 0.2, **options), effective_dimension(K, 0.2, **options)
        values.append((float(logdet), float(dimension), *scores))
    assert values[0] == values[1] == values[2]


def test_float32_rows():
    X = points(600).astype(np.float32)
    K = KernelOperator(gm.Gaussian(0.5), X)
    for alpha in (1.0, 1e-4):
        want = np.linalg.slogdet(gm.Gaussian(0.5)(X.astype(float)) + alpha * np.eye(600))[1]
        found = log_determinant(K, alpha, method="stochastic", random_state=0)
        assert abs(found - want) < 4 * found.standard_error


def test_values_print_and_travel():
    value = StochasticValue(12.5, 0.25, 16, 9)
    assert repr(value) == "12.5 ± 0.25 (16 probes)"
    assert repr(StochasticValue(12.5)) == "12.5"
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value)):
        assert (twin, twin.standard_error, twin.n_probes, twin.products) == (12.5, 0.25, 16, 9)


def test_bad_input():
    K = KernelOperator(gm.Gaussian(1.0), points(50))
    with pytest.raises(gm.InputError, match=r"alpha=0.0 must be a positive"):
        effective_dimension(K, 0.0)
    with pytest.raises(gm.InputError, match="expected one positive number"):
        leverage_scores(K, np.ones(50))
    with pytest.raises(gm.InputError, match="50 positive, finite numbers"):
        log_determinant(K, np.zeros(50))
    with pytest.raises(gm.InputError, match="Did you mean 'direct'"):
        log_determinant(K, 1.0, method="dirct")
    with pytest.raises(gm.InputError, match="n_probes=1"):
        log_determinant(K, 1.0, method="stochastic", n_probes=1)
    with pytest.raises(gm.BudgetError, match="method='stochastic'"):
        log_determinant(K, 1.0, method="direct", memory_budget=1000)
