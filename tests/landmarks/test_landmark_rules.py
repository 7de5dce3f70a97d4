"""Rules that look at the kernel: pivots and leverage scores against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from approximation_market import gram

import gramian as gm
from gramian.exceptions import InputError
from gramian.landmarks.picking import (
    bless,
    leverage_sample,
    pivot_columns,
    pivoted_cholesky,
    pivoted_qr,
    ridge_leverage_scores,
    rpcholesky,
)
from gramian.landmarks.rules import AVERAGED, LEVERAGED, METHODS, lloyd, select_landmarks, selection_bytes

GAMMA = 8.0
KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)
BY_KERNEL = [m for m in METHODS if m not in ("uniform", "kmeans")]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    return np.concatenate([rng.random((350, 3)), 0.02 * rng.random((150, 3))])


def rng(seed=0):
    return np.random.default_rng(seed)


def trace_left(K, picked):
    """tr(K − K_:,Z K_ZZ⁻¹ K_Z,:) by solving, densely."""
    solved = np.linalg.lstsq(K[np.ix_(picked, picked)], K[picked], rcond=1e-12)[0]
    return float(np.trace(K) - np.einsum("ij,ji->", K[:, picked], solved))


def test_pivoted_cholesky_is_the_greedy_loop(X):
    left, expected = gram(X, X, GAMMA), []
    for _ in range(30):
        new = int(left.diagonal().argmax())
        expected.append(new)
        left = left - np.outer(left[:, new], left[:, new]) / left[new, new]
    np.testing.assert_array_equal(pivoted_cholesky(KERNEL, X, 30), expected)


def test_incomplete_cholesky_ends_at_the_trace_that_is_asked_for(X):
    K = gram(X, X, GAMMA)
    picked = pivoted_cholesky(KERNEL, X, len(X), tol=0.05)
    assert trace_left(K, picked) <= 0.05 * np.trace(K) < trace_left(K, picked[:-1])


@pytest.mark.parametrize("rule", [rpcholesky, pivoted_cholesky])
def test_tol_after_counts_from_the_trace_that_the_first_pivots_leave(rule):
    X = np.random.default_rng(5).random((300, 2))
    streams = [np.random.default_rng(1)] if rule is rpcholesky else []
    picked = rule(KERNEL, X, len(X), *streams, tol=0.1, tol_after=12)

    def left(m):
        Z = X[picked[:m]]
        return len(X) - np.trace(KERNEL(X, Z) @ np.linalg.pinv(KERNEL(Z)) @ KERNEL(Z, X))

    assert 12 < len(picked) < 100
    assert left(len(picked)) <= 0.1 * left(12)
    assert left(len(picked) - 30 if rule is rpcholesky else len(picked) - 1) > 0.1 * left(12)


@pytest.mark.slow
def test_rpcholesky_draws_by_the_residual_diagonal():
    # Three points: K − F Fᵀ is known by hand, so that the law of two pivots is.
    X = np.array([[0.0], [0.3], [1.0]])
    K = gram(X, X, GAMMA)
    law = {}
    for i in range(3):
        left = K.diagonal() - K[:, i] ** 2 / K[i, i]
        for j in range(3):
            if j != i:
                law[i, j] = 1 / 3 * left[j] / left.sum()
    stream, trials = rng(1), 2000
    seen = dict.fromkeys(law, 0)
    for _ in range(trials):
        seen[tuple(rpcholesky(KERNEL, X, 2, stream).tolist())] += 1
    for pair, chance in law.items():
        assert abs(seen[pair] / trials - chance) < 4 * np.sqrt(chance / trials), pair


def test_rpcholesky_comes_near_the_best_trace(X):
    K = gram(X, X, GAMMA)
    values = np.linalg.eigvalsh(K)[::-1]
    found = [trace_left(K, rpcholesky(KERNEL, X, 60, rng(s))) for s in range(5)]
    uniform = [trace_left(K, rng(s).choice(len(X), 60, replace=False)) for s in range(5)]
    # By the theorem some r log(1/η) + r pivots do for twice the tail of rank r.
    assert np.mean(found) < 2 * values[12:].sum()
    assert np.mean(found) < 0.9 * np.mean(uniform)


def test_pivoted_qr_spans_the_columns(X):
    K = gram(X, X, GAMMA)
    picked = pivoted_qr(KERNEL, X, 60, rng())
    assert len(set(picked)) == 60
    assert trace_left(K, picked) < trace_left(K, rng(5).choice(len(X), 60, replace=False))
    matrix = rng().normal(size=(8, 3)) @ rng(1).normal(size=(3, 20))
    assert len(pivot_columns(matrix, 9)) == 3


def test_leverage_scores_are_those_of_the_dense_inverse(X):
    K = gram(X, X, GAMMA)
    found = ridge_leverage_scores(KERNEL, X, X, 25.0)
    assert found.sum() == pytest.approx(25.0, rel=1e-6)
    values = np.linalg.eigvalsh(K)
    ridges = np.exp(np.linspace(-20, 8, 4000))
    ridge = ridges[np.abs([(values / (values + r)).sum() - 25.0 for r in ridges]).argmin()]
    exact = np.diag(K @ np.linalg.inv(K + ridge * np.eye(len(K))))
    np.testing.assert_allclose(found, exact, rtol=0.02, atol=1e-4)
    pilot = ridge_leverage_scores(KERNEL, X, X[rng().choice(len(X), 120, replace=False)], 25.0)
    assert np.corrcoef(pilot, exact)[0, 1] > 0.9


@pytest.mark.parametrize("rule", [bless, leverage_sample])
def test_leverage_rules_prefer_rows_that_others_do_not_explain(rule, X):
    # The last 150 rows are nearly one point.
    share = np.mean([(rule(KERNEL, X, 50, rng(s)) >= 350).mean() for s in range(10)])
    assert share < 0.5 * 150 / 500
    assert len(np.unique(rule(KERNEL, X, 50, rng()))) == 50


def test_weighted_kmeans_is_the_weighted_loop(X):
    weights = rng(2).random(len(X))
    weights[:200] = 0.0
    found = lloyd(X, 9, 3, rng(4), weights=weights)
    drawn = np.sort(rng(4).choice(len(X), 9, replace=False, p=weights / weights.sum()))
    centers = X[drawn].copy()
    for _ in range(3):
        labels = ((X[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        for s in range(9):
            if weights[labels == s].sum() > 0:
                centers[s] = np.average(X[labels == s], axis=0, weights=weights[labels == s])
    np.testing.assert_allclose(found, centers, rtol=1e-10)
    assert len(lloyd(X, 9, 3, rng(4), weights=np.r_[np.ones(4), np.zeros(len(X) - 4)])) == 4


@pytest.mark.parametrize("method", BY_KERNEL)
@pytest.mark.parametrize("sparse", [False, True])
def test_every_rule_on_types_and_repeats(method, sparse):
    X = rng().random((300, 4)).astype(np.float32)
    X.setflags(write=False)
    rows = sp.csr_array(X) if sparse else X
    Z = select_landmarks(rows, 40, method, rng(1), kernel=KERNEL)
    again = select_landmarks(rows, 40, method, rng(1), kernel=KERNEL)
    Z, again = (A.toarray() if sp.issparse(A) else A for A in (Z, again))
    np.testing.assert_array_equal(Z, again)
    assert Z.shape == (40, 4)
    if method not in AVERAGED:
        assert (np.abs(X[:, None] - Z[None]).sum(axis=2).min(axis=0) == 0).all()
    # Twelve different rows only.
    repeated = np.repeat(rng().random((12, 4)), 25, axis=0)
    Z = select_landmarks(repeated, 40, method, rng(1), kernel=KERNEL)
    K = gram(repeated, repeated, GAMMA)
    solved = np.linalg.lstsq(gram(Z, Z, GAMMA), gram(Z, repeated, GAMMA), rcond=1e-10)[0]
    left = np.trace(K) - np.einsum("ij,ji->", gram(repeated, Z, GAMMA), solved)
    # Draws may miss a point; centres and pivots hardly can.
    assert left < (0.2 if method in LEVERAGED else 0.05) * np.trace(K)
    if method in ("rpcholesky", "cholesky", "pivoted-qr"):
        assert len(Z) == 12


def test_a_kernel_that_vanishes_still_gives_points():
    rows = np.zeros((50, 2))
    for method in BY_KERNEL:
        if method in ("rpcholesky", "cholesky", "pivoted-qr"):
            assert select_landmarks(rows, 5, method, rng(), kernel=gm.Linear()).shape[0] <= 1, method
        else:
            assert select_landmarks(rows, 5, method, rng(), kernel=gm.Linear()).shape[0] <= 5, method


def test_any_threads_same_pivots(X):
    assert la.norm(rpcholesky(KERNEL, X, 90, rng(), n_jobs=3) - rpcholesky(KERNEL, X, 90, rng())) == 0


@pytest.mark.parametrize("method", BY_KERNEL)
def test_rules_serve_every_method_with_blocks(method, X):
    for a in (
        gm.MEKA(gamma=GAMMA, rank=8, n_blocks=3, landmarks=method, random_state=0),
        gm.MultiResolution(gamma=GAMMA, root_rank=20, rank=8, n_blocks=3, landmarks=method, random_state=0),
    ):
        assert a.fit(X).relative_error(X, random_state=0) < 0.4


def test_bytes_and_errors(X):
    assert selection_bytes("rpcholesky", 100, 10**4, 5, 8) > selection_bytes("kmeans", 100, 10**4, 5, 8) > 0
    with pytest.raises(InputError, match=r"landmarks='bless' needs the kernel\. Pass kernel="):
        select_landmarks(X, 5, "bless", rng())
