"""Landmarks: how many, from where, by which rule, and how rows are drawn with unequal chances."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from approximation_market import gram

import gramian as gm
from gramian.compression.row_sampling import design_variance, draw, inclusion, interval, sum_variance
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
from gramian.landmarks.rules import (
    AVERAGED,
    LEVERAGED,
    LLOYD_ROUNDS,
    METHODS,
    check_method,
    lloyd,
    select_landmarks,
    selection_bytes,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def objective(X, Z) -> float:
    X, Z = (np.asarray(A.toarray() if sp.issparse(A) else A, np.float64) for A in (X, Z))
    return float(((X[:, None] - Z[None]) ** 2).sum(axis=2).min(axis=1).mean())


def plain_lloyd(X, centers, rounds):
    centers = centers.copy()
    for _ in range(rounds):
        labels = ((X[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        for s in range(len(centers)):
            if (labels == s).any():
                centers[s] = X[labels == s].mean(axis=0)
    return centers


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["uniform", "kmeans"])
def test_counts_types_and_read_only(method, sparse, dtype):
    X = (20 * rng().random((500, 4))).astype(dtype)
    before = X.copy()
    X.setflags(write=False)
    rows = sp.csr_matrix(X) if sparse else X
    for count in (1, 7, 60, 499):
        Z = select_landmarks(rows, count, method, rng(1))
        assert Z.shape == (count, 4)
        again = select_landmarks(rows, count, method, rng(1))
        np.testing.assert_array_equal(*(A.toarray() if sp.issparse(A) else A for A in (Z, again)))
        assert Z.dtype == (dtype if method == "uniform" else np.result_type(dtype, np.float32))
    np.testing.assert_array_equal(X, before)


def test_uniform_rows_are_rows_without_repeats():
    X = rng().normal(size=(300, 3))
    Z = select_landmarks(X, 40, "uniform", rng(2))
    numbers = [int(np.flatnonzero((z == X).all(axis=1))[0]) for z in Z]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("method", ["uniform", "kmeans"])
def test_few_rows_are_all_taken(method):
    X = rng().normal(size=(5, 3))
    for count in (5, 6, 100):
        assert select_landmarks(X, count, method, rng()) is X
    sparse = sp.csr_matrix(X)
    assert select_landmarks(sparse, 9, method, rng()) is sparse


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kmeans_stands_for_the_rows_better_than_uniform(dtype, shift):
    X = (rng().normal(size=(2000, 6)) + shift).astype(dtype)
    uniform = objective(X, select_landmarks(X, 40, "uniform", rng(3)))
    kmeans = objective(X, select_landmarks(X, 40, "kmeans", rng(3)))
    assert kmeans < 0.95 * uniform  # 0.87 where this was written
    sparse = objective(X, select_landmarks(sp.csr_matrix(X), 40, "kmeans", rng(3)))
    if not shift:
        assert sparse == pytest.approx(kmeans, rel=1e-3)


def test_lloyd_is_the_plain_rule():
    X = rng().normal(size=(400, 3)) + 50
    start = X[np.sort(rng(5).choice(400, 15, replace=False))]
    np.testing.assert_allclose(lloyd(X, 15, 4, rng(5)), plain_lloyd(X, start, 4), rtol=1e-12)
    np.testing.assert_allclose(lloyd(sp.csr_array(X), 15, 4, rng(5)), plain_lloyd(X, start, 4), rtol=1e-12)
    np.testing.assert_allclose(lloyd(X, 15, 0, rng(5)), start, rtol=1e-12)


def test_float32_agrees_with_float64_far_from_the_origin():
    X = np.round(64 * rng().normal(size=(3000, 4))) / 64 + 2.0**12
    in32 = lloyd(X.astype(np.float32), 5, LLOYD_ROUNDS, rng(6))
    in64 = lloyd(X, 5, LLOYD_ROUNDS, rng(6))
    assert in32.dtype == np.float32
    # The spread is 1 and one unit in the last place at 4096 is 2⁻¹¹.
    np.testing.assert_allclose(in32, in64, rtol=0, atol=2.0**-10)


def test_centres_that_lose_their_rows_stay():
    X = np.repeat([[1.0, 2.0], [3.0, 5.0]], [30, 30], axis=0)
    Z = lloyd(X, 10, 4, rng())
    assert Z.shape == (10, 2)
    np.testing.assert_allclose(np.unique(Z.round(12), axis=0), [[1, 2], [3, 5]])
    constant = np.full((50, 3), 0.1, np.float32)
    np.testing.assert_allclose(
        select_landmarks(constant, 7, "kmeans", rng()), np.full((7, 3), 0.1), rtol=1e-6
    )


def test_errors():
    X = np.zeros((9, 2))
    with pytest.raises(
        InputError, match=r"landmarks='kmean' is unknown\. .*array of points\. Did you mean 'kmeans'"
    ):
        select_landmarks(X, 3, "kmean", rng())
    with pytest.raises(InputError, match="landmarks=7 is unknown"):
        check_method(7)
    with pytest.raises(InputError, match=r"is unknown\. Choose one of uniform, kmeans"):
        check_method(X)
    for count in (0, -2):
        with pytest.raises(InputError, match=f"{count} landmarks were asked for; a basis needs at least 1"):
            select_landmarks(X, count, "kmeans", rng())
    check_method("uniform")


# ---- rules that look at the kernel ------------------------------------------------------------------

GAMMA = 8.0
KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)
BY_KERNEL = [m for m in METHODS if m not in ("uniform", "kmeans")]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    return np.concatenate([rng.random((350, 3)), 0.02 * rng.random((150, 3))])


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


# ---- laws of drawing rows with unequal chances ------------------------------------------------------


def test_inclusion_probabilities_add_up_and_stop_at_one():
    size = np.array([100.0, 1.0, 2.0, 0.0, 3.0])
    chance = inclusion(size, 3)
    assert chance[0] == 1.0
    np.testing.assert_allclose(chance.sum(), 3.0)
    np.testing.assert_allclose(chance[[1, 2, 4]], np.array([1.0, 2.0, 3.0]) / 3.0)
    np.testing.assert_array_equal(inclusion(np.array([5.0, 0.0]), 1), [1.0, 0.0])


def test_draws_have_their_probabilities_and_no_row_twice():
    chance = inclusion(np.arange(1.0, 21.0), 8)
    counts = np.zeros(20)
    rng = np.random.default_rng(0)
    for _ in range(4000):
        rows = draw(chance, rng)
        assert len(rows) == 8
        assert np.all(np.diff(rows) > 0)
        counts[rows] += 1
    np.testing.assert_allclose(counts / 4000, chance, atol=0.03)


def test_variances_are_those_of_repeated_draws():
    rng = np.random.default_rng(1)
    values = rng.random(60) * np.arange(1.0, 61.0)
    chance = inclusion(np.arange(1.0, 61.0), 20)
    sums, estimates = [], []
    for _ in range(3000):
        rows = draw(chance, rng)
        sums.append(float((values[rows] / chance[rows]).sum()))
        estimates.append(sum_variance(values[rows], chance[rows])[0])
    assert np.mean(sums) == pytest.approx(values.sum(), rel=0.01)
    assert np.var(sums) == pytest.approx(np.mean(estimates), rel=0.1)
    assert np.var(sums) == pytest.approx(design_variance(values, chance, np.ones(60)), rel=0.1)
    assert sum_variance(np.ones(3), np.ones(3)) == (0.0, 0)
    assert sum_variance(np.array([2.0]), np.array([0.5])) == (8.0, 1)
    assert design_variance(np.ones(3), np.ones(3), np.ones(3)) == 0.0


def test_interval_of_a_ratio():
    low, high = interval(0.04, 0.002, 50)
    assert low < 0.04 < high
    assert low * high == pytest.approx(0.04**2)
    assert interval(0.0, 0.0, 50, 0.3) == (0.0, 0.3)
    assert interval(0.04, 1e9, 50) == (0.0, np.inf)
    wider = interval(0.04, 0.002, 50, 0.01)
    assert wider[0] < low
    assert high < wider[1]
