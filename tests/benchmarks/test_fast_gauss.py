"""The improved fast Gauss transform against dense sums and its own bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from papers.fast_gauss import ImprovedFastGauss, _bounds, _monomials, _weights
from scipy.special import factorial

import gramian as gm


def exact(Y, X, lengthscale):
    return np.exp(-((Y[:, None] - X[None]) ** 2).sum(axis=2) / (2 * lengthscale**2))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("lengthscale", [0.2, 1.5])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-7])
def test_every_value_is_within_the_bound(d, lengthscale, epsilon):
    if (d, lengthscale, epsilon) == (4, 0.2, 1e-7):
        pytest.skip("too many terms: see test_too_many_terms")
    rng = np.random.default_rng(d)
    X, Y = rng.random((150, d)), 1.5 * rng.random((60, d)) - 0.2
    transform = ImprovedFastGauss(X, lengthscale, epsilon=epsilon)
    found = transform.matvec(np.eye(150), Y)
    assert 0 <= transform.bound <= epsilon
    assert np.abs(found - exact(Y, X, lengthscale)).max() <= epsilon
    assert transform.n_terms == math.comb(transform.degree - 1 + d, d)
    assert transform.nbytes >= 8 * (X.size + transform.n_clusters * transform.n_terms)


def test_the_bound_is_of_the_right_size():
    """One cluster, source and target opposite to each other at the worst distance."""
    for p in (2, 5, 9):
        *_, bound = (value for value, _ in zip(_bounds(0.7, 9.0), range(p)))
        b = (0.7 + math.sqrt(0.7**2 + 2 * p)) / 2
        partial = sum((2 * 0.7 * b) ** k / math.factorial(k) for k in range(p))
        gap = math.exp(-(0.7**2) - b**2) * (math.exp(2 * 0.7 * b) - partial)
        assert gap <= bound <= 30 * gap


def test_by_default_the_sources_are_the_targets():
    rng = np.random.default_rng(0)
    X, q = rng.random((400, 2)), rng.standard_normal((400, 3))
    transform = ImprovedFastGauss(X, 0.25, epsilon=1e-8)
    np.testing.assert_allclose(transform.matvec(q), exact(X, X, 0.25) @ q, atol=1e-6)
    np.testing.assert_array_equal(transform.matvec(q[:, 0]).shape, (400,))
    np.testing.assert_allclose(transform.matvec(q, X), transform.matvec(q), atol=1e-12)
    np.testing.assert_allclose(
        transform.matvec(q[:, 1]), gm.Gaussian(0.25)(X, dtype=np.float64) @ q[:, 1], atol=1e-6
    )


def test_more_clusters_take_a_lower_degree():
    X = np.random.default_rng(1).random((500, 2))
    few, many = (ImprovedFastGauss(X, 0.3, epsilon=1e-6, n_clusters=k) for k in (4, 60))
    assert (few.n_clusters, many.n_clusters) == (4, 60)
    assert few.degree > many.degree
    q = np.ones(500)
    np.testing.assert_allclose(few.matvec(q), many.matvec(q), atol=1e-3)
    rough = ImprovedFastGauss(X, 0.05, epsilon=1e-6)
    assert rough.n_clusters > ImprovedFastGauss(X, 1.0, epsilon=1e-6).n_clusters


def test_monomials_and_weights_by_degree():
    x = np.random.default_rng(0).random((5, 3))
    exponents = [
        (a, b, c)
        for n in range(5)
        for a in range(n, -1, -1)
        for b in range(n - a, -1, -1)
        for c in [n - a - b]
    ]
    expected = np.stack([np.prod(x ** np.array(e), axis=1) for e in exponents], axis=1)
    np.testing.assert_allclose(_monomials(x, 5), expected)
    np.testing.assert_allclose(
        _weights(5, 3), [2.0 ** sum(e) / np.prod(factorial(np.array(e))) for e in exponents]
    )


def test_repeated_points_have_radius_zero():
    X = np.repeat(np.random.default_rng(0).random((3, 2)), 10, axis=0)
    transform = ImprovedFastGauss(X, 0.1, epsilon=1e-6, n_clusters=9)
    assert (transform.n_clusters, transform.degree, transform.bound) == (3, 1, 0.0)
    np.testing.assert_allclose(transform.matvec(np.ones(30)), exact(X, X, 0.1).sum(axis=1), atol=1e-4)


def test_far_clusters_are_left_out_and_far_targets_get_nothing():
    X = np.concatenate(
        [np.random.default_rng(0).random((50, 2)), 100 + np.random.default_rng(1).random((50, 2))]
    )
    transform = ImprovedFastGauss(X, 0.5, epsilon=1e-6)
    np.testing.assert_allclose(transform.matvec(np.ones(100)), exact(X, X, 0.5).sum(axis=1), atol=1e-4)
    np.testing.assert_array_equal(transform.matvec(np.ones(100), np.full((1, 2), 50.0)), [0.0])


def test_too_many_terms():
    X = np.random.default_rng(0).random((3000, 8))
    with pytest.raises(
        gm.InputError,
        match=r"With 1000 clusters, an expansion of total degree 9 in 8 features has 2\.43e\+04 terms a "
        r"cluster and errs by up to .*: epsilon=1e-06 is out of reach of max_terms=20000\. The transform is "
        r"for few",
    ):
        ImprovedFastGauss(X, 0.2)
    with pytest.raises(gm.InputError, match=r"out of reach of max_terms=10\."):
        ImprovedFastGauss(X[:200, :2], 0.5, n_clusters=5, max_terms=10)
