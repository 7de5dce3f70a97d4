"""Laws of every approximation, against the dense oracles of ``approximation_market``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from approximation_market import GAMMA, MARKET, gram, settings, tree
from sklearn.base import clone

import gramian as gm

EVERY = pytest.mark.parametrize("case", MARKET.values(), ids=MARKET.keys())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.random((260, 3)), rng.random((70, 3))


def features(fitted, X):
    F = fitted.transform(X)
    return F.toarray() if sp.issparse(F) else F


def error(fitted, X, gamma=GAMMA):
    K = gram(X, X, gamma)
    return np.linalg.norm(K - fitted.operator_.to_dense()) / np.linalg.norm(K)


@EVERY
def test_positive_semidefinite_and_below_the_diagonal(case, rows):
    X, _ = rows
    fitted = clone(case.estimator).fit(X)
    assert np.linalg.eigvalsh(fitted.operator_.to_dense())[0] > -1e-9
    # A projection never lengthens φ(x).
    assert fitted.operator_.diagonal().max() < 1 + 1e-9


@EVERY
def test_sampled_error_equals_the_dense_one_with_all_rows(case, rows):
    X, _ = rows
    fitted = clone(case.estimator).fit(X)
    found = fitted.relative_error(X, n_rows=1000)
    assert found.standard_error == 0.0
    assert found.n_rows == 260
    assert float(found) == pytest.approx(error(fitted, X), rel=1e-6)


@pytest.mark.slow
@EVERY
def test_standard_error_covers_the_truth(case, rows):
    X, _ = rows
    fitted = clone(case.estimator).fit(X)
    truth = error(fitted, X)
    draws = [fitted.relative_error(X, n_rows=80, random_state=seed) for seed in range(40)]
    assert len(set(map(float, draws))) == 40
    # A few rows carry much of the error: a sample that misses them is too sure of itself.
    assert sum(abs(d - truth) < 2.5 * d.standard_error for d in draws) >= 30
    spread = np.std([float(d) for d in draws])
    assert 0.5 < np.mean([d.standard_error for d in draws]) / spread < 2.0


@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
def test_errors_fall_with_rank_to_nothing(rows):
    X, _ = rows
    for make in (
        lambda r: gm.MEKA(**settings(gamma=100.0, rank=r, n_blocks=4)),
        lambda r: tree(rank=r, root_rank=3 * r),
        lambda r: tree(rank=r, root_rank=3 * r, n_levels=3),
        lambda r: tree(root_rank=3 * r, n_levels=1),
    ):
        gamma = make(2).gamma
        errors = [error(make(rank).fit(X), X, gamma) for rank in (2, 6, 18, 260)]
        assert errors[0] > errors[1] > errors[2] > errors[3]
        assert errors[3] < 1e-6


def test_sampled_core_is_near_the_projection_and_its_features_are_clipped(rows):
    X, _ = rows
    errors = [
        error(gm.MEKA(**settings(rank=12, n_blocks=4, core="sampled", random_state=seed)).fit(X), X)
        for seed in range(10)
    ]
    best = error(gm.MEKA(**settings(rank=12, n_blocks=4)).fit(X), X)
    assert max(errors) < 4 * best
    fitted = gm.MEKA(**settings(gamma=8.0, rank=20, n_blocks=6, core="sampled", core_oversampling=0.5)).fit(X)
    assert np.linalg.eigvalsh(fitted.operator_.to_dense())[0] < -1e-6
    with pytest.warns(gm.NumericalWarning, match="the core is indefinite: negative eigenvalues with sum"):
        F = fitted.transform(X)
    clipped = np.linalg.norm(F @ F.T - fitted.operator_.to_dense()) / np.linalg.norm(gram(X, X, 8.0))
    assert 0 < clipped < 0.2


def test_singular_rule_shares_the_same_total(rows):
    X = np.concatenate([rows[0] * 0.3, 3 + rows[0]])
    equal = gm.MEKA(**settings(rank=10, n_blocks=2)).fit(X)
    shared = gm.MEKA(**settings(rank=10, n_blocks=2, rank_rule="singular")).fit(X)
    ranks = sorted(shared.features_.forest.ranks)
    assert equal.features_.forest.ranks == (10, 10)
    assert sum(ranks) == shared.rank_ == 20
    assert ranks[0] < 9
    assert error(shared, X) < error(equal, X)


def test_epsilon_drops_blocks_of_the_core(rows):
    X = np.concatenate([rows[0], 5 + rows[0]])
    whole = gm.MEKA(**settings(rank=10, n_blocks=6)).fit(X)
    thin = gm.MEKA(**settings(rank=10, n_blocks=6, epsilon=1e-6)).fit(X)
    assert thin.nbytes_ < whole.nbytes_
    assert thin.features_.core.is_zero(*np.argwhere(far_pairs(thin))[0])
    assert error(thin, X) == pytest.approx(error(whole, X), abs=1e-5)


def far_pairs(fitted):
    Z = np.stack([node.landmarks.mean(axis=0) for node in fitted.features_.nodes])
    return gram(Z, Z) < 1e-8


def test_given_landmarks(rows):
    X, points = rows
    array = gm.MEKA(**settings(rank=30, n_blocks=3, landmarks=points)).fit(X)
    nodes = array.features_.nodes
    assert sorted(map(tuple, np.concatenate([n.landmarks for n in nodes]))) == sorted(map(tuple, points))
    each = gm.MEKA(**settings(rank=30, n_blocks=3, landmarks=[n.landmarks for n in nodes])).fit(X)
    np.testing.assert_allclose(each.operator_.to_dense(), array.operator_.to_dense(), atol=1e-12)
    root = tree(root_rank=100, landmarks=points).fit(X)
    np.testing.assert_array_equal(root.features_.nodes[0].landmarks, points)
    assert root.plan_.root_rank == 70
    with pytest.raises(gm.InputError, match=r"landmarks lists 2 arrays, but the partition has 3 blocks"):
        gm.MEKA(**settings(n_blocks=3, landmarks=[points, points])).fit(X)
    for make in (gm.MEKA, gm.MultiResolution):
        with pytest.raises(gm.InputError, match=r"landmarks has shape \(70, 2\); expected \(m, 3\)"):
            make(landmarks=points[:, :2]).fit(X)


HARD = {
    "one row": np.ones((1, 2)),
    "two rows": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "constant": np.full((50, 2), 3.0),
    "duplicates": np.repeat(np.random.default_rng(0).random((5, 2)), 20, axis=0),
    "constant column": np.column_stack([np.arange(40.0), np.ones(40)]),
    "far from the origin": 1e6 + np.random.default_rng(0).random((60, 2)),
    "few rows": np.random.default_rng(0).random((20, 2)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning")
@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
@EVERY
@pytest.mark.parametrize("X", HARD.values(), ids=HARD.keys())
@pytest.mark.parametrize("gamma", [1e-12, 1.0, 1e12])
def test_hard_tables_have_an_answer(case, X, gamma):
    fitted = clone(case.estimator).set_params(gamma=gamma).fit(X)
    found = fitted.operator_.to_dense()
    assert np.isfinite(found).all()
    assert fitted.rank_ <= 4 * len(X)
    assert np.isfinite(features(fitted, X)).all()
    value = fitted.relative_error(X)
    assert 0 <= value <= 1 + 1e-9
    if len(np.unique(X, axis=0)) <= 5 or gamma == 1e-12:
        np.testing.assert_allclose(found, gram(X, X, gamma), atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:n_blocks=100 is more than the")
@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning")
@pytest.mark.parametrize("core", ["projection", "sampled"])
@pytest.mark.parametrize("rank_rule", ["equal", "singular"])
def test_more_blocks_and_ranks_than_rows(core, rank_rule):
    for X in HARD.values():
        a = gm.MEKA(gamma=1.0, rank=50, n_blocks=100, core=core, rank_rule=rank_rule, epsilon=1e-3)
        fitted = a.fit(X)
        assert np.isfinite(fitted.operator_.to_dense()).all()
        fitted = gm.MultiResolution(gamma=1.0, root_rank=80, rank=50, n_blocks=100, n_levels=4).fit(X)
        np.testing.assert_allclose(fitted.operator_.to_dense(), gram(X, X, 1.0), atol=1e-6)


def test_bytes_are_those_of_bases_and_core(rows):
    X, _ = rows
    fitted = gm.MEKA(**settings(rank=10, n_blocks=4)).fit(X)
    ranks = fitted.features_.forest.ranks
    counts = np.bincount(fitted.features_.partition.route(X))
    least = 8 * (sum(n * r for n, r in zip(counts, ranks, strict=True)) + sum(ranks) ** 2)
    assert least <= fitted.nbytes_ <= least + 8 * 260 + 1000
    assert fitted.nbytes_ == fitted.operator_.nbytes
    narrow = clone(fitted).set_params(tile_dtype="float32").fit(X)
    assert narrow.nbytes_ < 0.8 * fitted.nbytes_


def test_three_levels_are_a_tree_below_one_root(rows):
    forest = tree(n_levels=3, n_blocks=9).fit(rows[0]).features_.forest
    assert [level.stop - level.start for level in forest.levels] == [1, 3, 9]
    assert forest.parent[0] == -1


def test_block_errors_are_those_of_the_diagonal_blocks():
    X = np.random.default_rng(0).random((300, 3))
    a = gm.MEKA(gamma=3.0, rank=8, n_blocks=4, random_state=0).fit(X)
    errors = a.block_errors(X)
    exact, built = a.kernel_(X), a.operator_.to_dense()
    for s, error in enumerate(errors):
        rows = a.operator_.block_rows(s)
        block = np.ix_(rows, rows)
        expected = np.linalg.norm(exact[block] - built[block]) / np.linalg.norm(exact[block])
        assert error == pytest.approx(expected, rel=1e-6)
    few = a.block_errors(X, n_rows=20)
    assert few.shape == errors.shape
    assert np.all(few < 10 * errors.max())
    with pytest.raises(gm.InputError, match=r"X has 10 rows, but MEKA was fitted with 300\."):
        a.block_errors(X[:10])
