"""Nyström: near the best rank, growing, randomized, ensembles; sizes and errors."""

from __future__ import annotations

import numpy as np
import pytest
from approximation_market import GAMMA, gram, settings

import gramian as gm
from gramian.compression.randomized_svd import randomized_eigh, randomized_svd
from gramian.exceptions import InputError


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(4)
    return rng.random((400, 4))


def spectral(a, K):
    return np.linalg.norm(K - a.operator_.to_dense(), 2)


@pytest.mark.parametrize("gamma", [0.5, 3.0, 10.0])
def test_recompressed_pivots_are_within_a_twentieth_of_the_best_rank(X, gamma):
    K = gram(X, X, gamma)
    best = np.linalg.eigvalsh(K)[::-1][30]
    a = gm.Nystrom(gamma=gamma, rank=30, tile_dtype="float64", random_state=0).fit(X)
    assert a.rank_ == 30
    assert len(a.landmarks_) == 150
    # 1.042 at most where this was written; k-means and pivots differ by the processor.
    assert spectral(a, K) < 1.1 * best
    plain = gm.Nystrom(gamma=gamma, rank=30, oversampling=1.0, tile_dtype="float64", random_state=0).fit(X)
    assert spectral(plain, K) > 1.5 * spectral(a, K)


def test_recompression_beats_the_landmarks_own_eigenvectors(X):
    K = gram(X, X)
    cut = gm.Nystrom(rank=20, **settings()).fit(X)
    classical = gm.Nystrom(rank=20, recompress=False, **settings()).fit(X)
    np.testing.assert_array_equal(cut.landmarks_, classical.landmarks_)
    assert np.linalg.norm(K - cut.operator_.to_dense()) < np.linalg.norm(K - classical.operator_.to_dense())


def test_error_falls_with_rank_to_nothing(X):
    K = gram(X, X)
    errors = [spectral(gm.Nystrom(rank=r, **settings()).fit(X), K) for r in (5, 20, 80, 400)]
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 1e-8


def test_randomized_svd_is_near_the_exact_one(X):
    K = gram(X, X)
    for recompress in (True, False):
        exact = gm.Nystrom(rank=25, recompress=recompress, **settings()).fit(X)
        fast = gm.Nystrom(rank=25, recompress=recompress, svd="randomized", **settings()).fit(X)
        assert fast.rank_ == 25
        assert spectral(fast, K) < 1.2 * spectral(exact, K)


def test_randomized_eigenpairs_and_singular_triplets():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 60)) * 0.8 ** np.arange(60)
    K = A @ A.T
    values, vectors = randomized_eigh(K, 8, 3, 10, rng)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(K)[::-1][:8], rtol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-10)
    U, s, V = randomized_svd(A[:, :20], 20, 0, 0, rng)
    np.testing.assert_allclose(U * s @ V.T, A[:, :20], atol=1e-10)
    with pytest.raises(InputError, match=r"rank=0, n_power=1 and n_extra=1 were given. Pass rank >= 1"):
        randomized_svd(A, 0, 1, 1, rng)


def test_growing_keeps_the_landmarks_and_reaches_the_same_accuracy(X):
    K = gram(X, X)
    a = gm.Nystrom(rank=10, warm_start=True, **settings()).fit(X)
    old = a.landmarks_.copy()
    a.set_params(rank=30).fit(X)
    np.testing.assert_array_equal(a.landmarks_[: len(old)], old)
    assert len(a.landmarks_) == 150
    assert len(np.unique(a.landmarks_, axis=0)) == 150
    fresh = gm.Nystrom(rank=30, **settings()).fit(X)
    assert spectral(a, K) < 1.03 * spectral(fresh, K)
    # Nothing to add: the same model again.
    before = a.operator_.to_dense()
    np.testing.assert_array_equal(a.fit(X).landmarks_[:150], a.landmarks_)
    np.testing.assert_allclose(a.operator_.to_dense(), before, atol=1e-9)
    given = gm.Nystrom(rank=10, landmarks="kmeans", oversampling=1.0, warm_start=True, **settings()).fit(X)
    assert len(given.set_params(rank=14).fit(X).landmarks_) == 14


@pytest.mark.parametrize("rule", ["rpcholesky", "cholesky"])
def test_a_tolerance_ends_the_pivots(X, rule):
    a = gm.Nystrom(rank=400, oversampling=1.0, landmarks=rule, tol=0.02, **settings()).fit(X)
    assert len(a.landmarks_) < 200
    assert 0.002 < a.trace_error(X) <= 0.02


def test_given_points_and_their_rank(X):
    a = gm.Nystrom(rank=12, landmarks=X[:30], **settings()).fit(X)
    np.testing.assert_array_equal(a.landmarks_, X[:30])
    assert a.rank_ == 12
    K, Z = gram(X, X), X[:30]
    span = gram(X, Z) @ np.linalg.pinv(gram(Z, Z), rcond=1e-13) @ gram(Z, X)
    values, vectors = np.linalg.eigh(span)
    cut = (vectors[:, -12:] * values[-12:]) @ vectors[:, -12:].T
    np.testing.assert_allclose(a.operator_.to_dense(), cut, atol=1e-7)
    assert spectral(a, K) > 0


def test_ridge_weights_are_no_worse_on_the_entries(X):
    K = gram(X, X)
    equal = gm.EnsembleNystrom(rank=8, n_experts=6, **settings()).fit(X)
    fitted = gm.EnsembleNystrom(rank=8, n_experts=6, weights="ridge", **settings()).fit(X)
    assert np.linalg.norm(K - fitted.operator_.to_dense()) <= np.linalg.norm(K - equal.operator_.to_dense())
    assert (fitted.expert_weights_ >= 0).all()
    # 400 rows are all validation rows: the weights are the least squares of the whole matrix.
    parts = []
    for Z in fitted.expert_landmarks_:
        parts.append((gram(X, Z) @ np.linalg.pinv(gram(Z, Z), rcond=1e-13) @ gram(Z, X)).ravel())
    best = np.linalg.lstsq(np.array(parts).T, K.ravel(), rcond=None)[0]
    if (best > 0).all():
        np.testing.assert_allclose(fitted.expert_weights_, best, atol=1e-5)


@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
def test_duplicates_and_more_rank_than_rows():
    X = np.repeat(np.random.default_rng(0).random((9, 2)), 20, axis=0)
    for a in (gm.Nystrom(gamma=2.0, rank=50), gm.Nystrom(gamma=2.0, rank=500, landmarks="kmeans")):
        a.fit(X)
        assert a.rank_ <= 9
        assert a.relative_error(X) < 1e-6
    assert gm.EnsembleNystrom(gamma=2.0, rank=500, n_experts=2).fit(X).relative_error(X) < 1e-6


def test_on_its_own_budget():
    X = np.random.default_rng(0).random((3000, 5))
    with pytest.raises(gm.BudgetError, match=r"memory_budget=.* is too small"):
        gm.Nystrom(rank=300, memory_budget="3MB").fit(X)
    a = gm.Nystrom(gamma=GAMMA, rank=40, memory_budget="30MB", random_state=0).fit(X)
    assert a.nbytes_ == a.operator_.nbytes < 1.1 * 3000 * 40 * 8


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (gm.Nystrom(landmarks="kmean"), r"landmarks='kmean' is unknown.*Did you mean 'kmeans'"),
        (gm.Nystrom(svd="random"), r"svd='random' is unknown\. Choose one of exact, randomized"),
        (gm.Nystrom(rank=0), r"rank=0"),
        (gm.Nystrom(oversampling=0.5), r"oversampling=0.5 must be at least 1"),
        (gm.Nystrom(landmarks="kmeans", tol=0.1), r"tol=0.1 has no effect on landmarks='kmeans'"),
        (
            gm.Nystrom(landmarks=np.ones((3, 4)), tol=0.1),
            r"tol=0.1 has no effect on landmarks='given points'",
        ),
        (gm.Nystrom(landmarks=np.ones((3, 7))), r"landmarks has shape \(3, 7\); expected \(m, 4\)"),
        (gm.EnsembleNystrom(weights="best"), r"weights='best' is unknown\. Choose one of uniform, ridge"),
        (gm.EnsembleNystrom(n_experts=0), r"n_experts=0"),
        (gm.EnsembleNystrom(landmarks=np.ones((3, 4))), r"is unknown\. Choose one of uniform"),
    ],
)
def test_bad_input(X, estimator, message):
    with pytest.raises(InputError, match=message):
        estimator.fit(X)
    assert not hasattr(estimator, "operator_")
