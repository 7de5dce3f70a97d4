"""The compressed likelihood and its gradient, beside the dense formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.approximations.block_diagonal import BlockDiagonalBuilder, LowRankPlusBlocksBuilder
from gramian.approximations.meka import MEKABuilder
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.builder import BuildSettings
from gramian.compression.storage import operator_of
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.gp.likelihood import MarginalLikelihood, Observations, gradient, log_evidence
from gramian.gp.prior import with_kernel
from gramian.kernels import Cauchy, Gaussian, Laplacian, Linear, Matern, Polynomial
from gramian.kernels.gradient import contracted_diagonal, log_parameters, with_log_parameters
from gramian.solvers.arrowhead import PathFactor

ENGINE = Engine(1)
RNG = np.random.default_rng(0)
X = RNG.random((150, 3))
Y = np.c_[np.sin(5 * X[:, 0]) + X[:, 1], X[:, 2] ** 2] + 0.1 * RNG.standard_normal((150, 2))
KERNELS = {
    "features": 2.0 * Gaussian((0.5, 0.7, 1.2)),
    "sum": 1.5 * Matern(0.6, nu=1.5) + Linear(2.0),
    "product": Laplacian((1.0, 2.0, 0.5)) * Cauchy(0.9),
}
BUILDERS = {
    "root": MultiResolutionBuilder(25, 0, 1, 1, 1.0),
    "two levels": MultiResolutionBuilder(20, 5, 6, 2, 1.0),
    "three levels": MultiResolutionBuilder(10, 4, 8, 3, 1.0, partition="tree"),
    "whole blocks": LowRankPlusBlocksBuilder(10, n_blocks=5),
    "blocks alone": BlockDiagonalBuilder(n_blocks=4, rank=6),
}


def built(builder, kernel, rows=X):
    source = as_source(rows)
    settings = BuildSettings(kernel, np.dtype(np.float64), np.random.default_rng(1), ENGINE)
    return builder.settle(source, settings).build(source, settings)


def at(features, kernel, theta, data) -> MarginalLikelihood:
    there = with_kernel(features, with_log_parameters(kernel, theta[:-1]), ENGINE)
    return log_evidence(there, float(np.exp(theta[-1])), data)


def dense_covariance(found: MarginalLikelihood) -> np.ndarray:
    source = as_source(X)
    operator = operator_of(found.features, source, chunk_rows=64, engine=ENGINE, stored_diagonal=True)
    return operator.to_dense() + found.noise * np.eye(len(X))


@pytest.mark.parametrize("method", BUILDERS)
@pytest.mark.parametrize("name", KERNELS)
def test_likelihood_and_gradient_are_those_of_the_dense_formulas(name, method):
    kernel = KERNELS[name]
    features = built(BUILDERS[method], kernel)
    data = Observations(as_source(X), Y, 64, ENGINE)
    theta = np.append(log_parameters(kernel), np.log(0.05))
    found = at(features, kernel, theta, data)

    covariance = dense_covariance(found)
    inverse = np.linalg.inv(covariance)
    a = inverse @ Y
    logdet = np.linalg.slogdet(covariance)[1]
    dense = -0.5 * np.vdot(Y, a) - logdet - len(X) * np.log(2 * np.pi)
    assert found.value == pytest.approx(dense, rel=1e-10)

    # ½ tr((a aᵀ − p Σ⁻¹) dΣ), and differences of the likelihood itself.
    M, h = 0.5 * (a @ a.T - 2.0 * inverse), 1e-5
    fast = gradient(found, data)
    traces, differences = [], []
    for step in h * np.eye(len(theta)):
        above, below = (at(features, kernel, theta + sign * step, data) for sign in (1, -1))
        traces.append(np.vdot(M, dense_covariance(above) - dense_covariance(below)) / (2 * h))
        differences.append((above.value - below.value) / (2 * h))
    scale = np.abs(fast).max()
    np.testing.assert_allclose(fast, traces, atol=1e-7 * scale)
    np.testing.assert_allclose(fast, differences, atol=1e-7 * scale)


def fits(found: MarginalLikelihood) -> np.ndarray:
    operator = operator_of(found.features, as_source(X), chunk_rows=64, engine=ENGINE)
    return operator.diagonal()


def test_chunks_threads_and_csr_rows_change_nothing():
    kernel = KERNELS["features"]
    features = built(BUILDERS["two levels"], kernel)
    theta = np.append(log_parameters(kernel), np.log(0.05))
    first = at(features, kernel, theta, Observations(as_source(X), Y, 1000, ENGINE))
    for rows, chunk, threads in ((X, 40, 1), (X, 1000, 3), (sp.csr_array(X), 64, 1)):
        data = Observations(as_source(rows), Y, chunk, Engine(threads))
        found = at(features, kernel, theta, data)
        assert found.value == pytest.approx(first.value, rel=1e-10)
        plain = Observations(as_source(X), Y, 1000, ENGINE)
        np.testing.assert_allclose(gradient(found, data), gradient(first, plain), rtol=1e-7)


def test_paths_solve_what_the_dense_factor_solves():
    kernel = KERNELS["features"]
    features = built(BUILDERS["three levels"], kernel)
    found = at(
        features, kernel, np.append(log_parameters(kernel), np.log(0.05)), Observations(as_source(X), Y, 64)
    )
    factor, forest = found.factor, found.features.forest
    assert factor.nbytes > 0
    inverse = np.zeros((forest.total_rank, forest.total_rank))
    offsets = found.features.offsets
    lower = np.zeros_like(inverse)  # rows eliminated last come last: the transpose of L in the forest's order
    for node, rank in enumerate(forest.ranks):
        own = slice(offsets[node], offsets[node] + rank)
        lower[own, own] = factor.lower[node]
        start = 0
        for a in forest.path(node):
            other = slice(offsets[a], offsets[a] + forest.ranks[a])
            lower[other, own] = factor.cross[node][:, start : start + forest.ranks[a]].T
            start += forest.ranks[a]
    inverse = np.linalg.inv(lower @ lower.T)
    leaf = forest.levels[-1].start
    path = (*forest.path(leaf), leaf)
    columns = np.concatenate([offsets[a] + np.arange(forest.ranks[a]) for a in path])
    f = np.random.default_rng(0).standard_normal((4, len(columns)))
    z = f.copy()
    for node in reversed(path):
        factor.forward(node, z)
    np.testing.assert_allclose(z @ z.T, f @ inverse[np.ix_(columns, columns)] @ f.T, atol=1e-10)
    for node in path:
        factor.backward(node, z)
    np.testing.assert_allclose(z, f @ inverse[np.ix_(columns, columns)], atol=1e-10)
    drawn = np.concatenate(factor.drawn(np.eye(forest.total_rank)))
    np.testing.assert_allclose(drawn @ drawn.T, inverse, atol=1e-10)
    assert isinstance(factor, PathFactor)


@pytest.mark.parametrize(
    "kernel", [3.0 * Polynomial((0.5, 1.0, 2.0), degree=2) + Gaussian(1.0) * Linear(0.7), Matern(1.0)]
)
def test_the_diagonal_s_gradient_is_that_of_differences(kernel):
    weights = RNG.standard_normal(len(X))
    theta, h = log_parameters(kernel), 1e-6
    expected = [
        weights
        @ (
            with_log_parameters(kernel, theta + step).diagonal(X)
            - with_log_parameters(kernel, theta - step).diagonal(X)
        )
        / (2 * h)
        for step in h * np.eye(len(theta))
    ]
    np.testing.assert_allclose(contracted_diagonal(kernel, X, weights), expected, atol=1e-6)


def test_a_coupled_core_is_refused():
    features = built(MEKABuilder(rank=5, n_blocks=3), Gaussian(1.0))
    with pytest.raises(InputError, match="needs nested bases of landmarks"):
        with_kernel(features, Gaussian(1.0), ENGINE)


@pytest.mark.parametrize("dress", [np.array, pd.DataFrame])
def test_the_likelihood_of_rows_that_were_written_over_is_refused(dress):
    rng = np.random.default_rng(0)
    rows, targets = dress(rng.random((60, 2))), rng.random(60)
    model = gm.GaussianProcessRegressor(normalize_y=False, optimizer=None).fit(rows, targets)
    other, kept = model.theta_ + 0.3, rows.copy()
    known, before = model.predict(rows), model.log_marginal_likelihood(other)
    targets *= 2.0  # the fit has its own
    assert model.log_marginal_likelihood(other) == before
    rows[:] *= 2.0
    with pytest.raises(gm.InputError, match=r"fit was given have been changed since.*Pass a copy"):
        model.log_marginal_likelihood(other)
    np.testing.assert_array_equal(model.predict(kept), known)
