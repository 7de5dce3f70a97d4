"""MEKA's published algorithm without a ridge: equal to its formulas, loud where they break down."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from approximation_market import gram

import gramian as gm
from gramian.compression.cores import determined_columns, pseudo_inverse

LITERAL = {"core": "literal", "landmarks": "uniform", "oversampling": 2.0, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(4).random((260, 3))


def error(fitted, X, gamma):
    K = gram(X, X, gamma)
    return np.linalg.norm(K - fitted.operator_.to_dense()) / np.linalg.norm(K)


def test_literal_core_is_least_squares_on_sampled_rows(X):
    """With every row of the blocks sampled, L is the minimiser of the paper over the whole blocks."""
    a = gm.MEKA(gamma=2.0, rank=8, n_blocks=3, core_oversampling=100.0, **LITERAL).fit(X)
    K, core = gram(X, X, 2.0), a.features_.core
    members = [np.flatnonzero(a.features_.partition.route(X) == s) for s in range(3)]
    W = [
        gram(X[m], node.landmarks, 2.0) @ node.vectors
        for m, node in zip(members, a.features_.nodes, strict=True)
    ]
    for s in range(3):
        np.testing.assert_allclose(core.block(s, s), np.eye(core.ranks[s]))
        for t in range(s + 1, 3):
            left, right = np.linalg.pinv(W[s]), np.linalg.pinv(W[t])
            expected = left @ K[np.ix_(members[s], members[t])] @ right.T
            np.testing.assert_allclose(core.block(s, t), expected, atol=1e-7)
            # The normal equations: what the core leaves has no part in the bases.
            rest = K[np.ix_(members[s], members[t])] - W[s] @ core.block(s, t) @ W[t].T
            np.testing.assert_allclose(W[s].T @ rest @ W[t], 0.0, atol=1e-6)


def test_the_ridge_is_the_only_difference_to_the_sampled_core(X):
    """On bases that leave nothing out, the ridge is 0 and both are the same."""
    settings = {"gamma": 0.5, "n_blocks": 2, "rank": 40, "landmarks": "uniform", "random_state": 0}
    literal, sampled = (gm.MEKA(core=core, **settings).fit(X) for core in ("literal", "sampled"))
    assert error(literal, X, 0.5) < 1e-4
    gap = literal.operator_.to_dense() - sampled.operator_.to_dense()
    assert np.abs(gap).max() < 1e-3


def test_with_the_landmarks_as_sampled_rows_the_core_is_the_projection_core(X):
    """The paper does not say how it samples rows. If it takes the columns that it has, it gets this core."""
    a = gm.MEKA(gamma=2.0, rank=8, n_blocks=3, landmarks="uniform", oversampling=2.0, random_state=0).fit(X)
    Z = [node.landmarks for node in a.features_.nodes]
    inverse = [
        np.linalg.pinv(gram(z, z, 2.0) @ node.vectors) for z, node in zip(Z, a.features_.nodes, strict=True)
    ]
    for s in range(3):
        for t in range(s + 1, 3):
            expected = inverse[s] @ gram(Z[s], Z[t], 2.0) @ inverse[t].T
            np.testing.assert_allclose(a.features_.core.block(s, t), expected, atol=1e-8)


def test_few_sampled_rows_blow_up_with_a_warning_that_says_how_far(X):
    few = {"gamma": 8.0, "rank": 30, "n_blocks": 4, "core_oversampling": 0.05}
    with pytest.warns(
        gm.NumericalWarning, match=r"core='literal'.*blew up.*entry of [\d.e+]+, where.*exceeds 1"
    ):
        literal = gm.MEKA(**few, **LITERAL).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampled = gm.MEKA(**few, **{**LITERAL, "core": "sampled"}).fit(X)
    assert error(literal, X, 8.0) > 10 * error(sampled, X, 8.0)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300])
def test_a_singular_sample_is_an_error_without_a_ridge_and_a_warning_with_one(X, epsilon):
    """At this gamma the kernel is the identity: rows that are no landmarks say nothing about the basis."""
    narrow = {"gamma": 1e7, "rank": 20, "n_blocks": 3, "core_oversampling": 0.5, "epsilon": epsilon}
    with pytest.raises(
        gm.NumericalError, match=r"core='literal': the least squares of block \d are singular: its 30"
    ):
        gm.MEKA(**narrow, **LITERAL).fit(X)
    with pytest.warns(
        gm.NumericalWarning, match=r"determine \d+ of 20 columns.*a ridge of 0\.\d+ determines the others"
    ):
        fitted = gm.MEKA(**narrow, **{**LITERAL, "core": "sampled"}).fit(X)
    assert np.isfinite(fitted.operator_.to_dense()).all()


def test_a_failed_fit_leaves_the_estimator_as_it_was(X):
    a = gm.MEKA(gamma=2.0, rank=8, n_blocks=3, **LITERAL).fit(X)
    before = a.operator_
    a.set_params(gamma=1e7, core_oversampling=0.5)
    with pytest.raises(gm.NumericalError, match="singular"):
        a.fit(X)
    assert a.operator_ is before


def test_determined_columns_and_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    W = rng.random((12, 4))
    np.testing.assert_allclose(pseudo_inverse(W), np.linalg.pinv(W), atol=1e-12)
    assert pseudo_inverse(np.zeros((5, 0))).shape == (0, 5)
    assert determined_columns(W) == 4
    assert determined_columns(np.column_stack([W, W[:, 0]])) == 4
    assert determined_columns(W[:3]) == 3
    assert determined_columns(np.zeros((3, 2))) == determined_columns(np.zeros((0, 2))) == 0
