"""Block basis factorization by recompression: sizes kept, near the ideal, chosen blocks, tolerances."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
from approximation_market import GAMMA, gram
from market_block_basis import block_basis

import gramian as gm
from gramian._numerics import rank_cutoff
from gramian.compression.recompression import Size
from gramian.kernels.base import Kernel


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.random((260, 3)), rng.random((70, 3))


def error(fitted, K):
    return np.linalg.norm(K - fitted.operator_.to_dense()) / np.linalg.norm(K)


def numbers(fitted):
    return sum(block.size for block in fitted.operator_.levels[0].blocks) + fitted.rank_**2


def test_error_falls_with_rank_to_nothing(rows):
    X, _ = rows
    K = gram(X, X)
    errors = [error(block_basis(rank=rank, n_blocks=3).fit(X), K) for rank in (3, 8, 20, 80)]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    # What a block leaves out under the cutoff meets the other blocks with its root.
    assert errors[3] < np.sqrt(rank_cutoff(np.float64, coupled=True))


@pytest.mark.parametrize("gamma", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("n_blocks", [1, 6])
def test_near_the_ideal_factorization(gamma, n_blocks):
    """Exact eigenvectors of every block row, exact core, the same size: at most a tenth better."""
    X = np.random.default_rng(1).random((900, 4))
    fitted = block_basis(rank=12, n_blocks=n_blocks, gamma=gamma, oversampling=8.0).fit(X)
    K = gram(X, X, gamma)
    labels = fitted.features_.partition.route(X)
    members = [np.flatnonzero(labels == s) for s in range(n_blocks)]
    pairs = [la.eigh(K[mine] @ K[mine].T) for mine in members]
    size = Size.of_equal_ranks(900, 12, n_blocks)
    ranks = size.share([w[::-1] for w, _ in pairs], np.asarray([len(m) for m in members], float))
    U = np.zeros((900, ranks.sum()))
    for mine, (_, P), r, end in zip(members, pairs, ranks, np.cumsum(ranks)):
        U[mine, end - r : end] = P[:, ::-1][:, :r]
    best = np.linalg.norm(K - U @ (U.T @ K @ U) @ U.T) / np.linalg.norm(K)
    assert numbers(fitted) <= size.limit
    # 1.06 at most where this was written.
    assert error(fitted, K) < 1.2 * best


@pytest.mark.slow
def test_size_is_kept_and_used(rows):
    X, _ = rows
    for budget in (20_000, 60_000, "100kB"):
        for dtype in ("float32", "float64"):
            fitted = block_basis(rank=None, n_blocks=None, max_bytes=budget, tile_dtype=dtype).fit(X)
            limit = 100_000 if budget == "100kB" else budget
            assert 0.8 * limit < fitted.nbytes_ <= limit
    plain = block_basis(rank=30, n_blocks=None).fit(X)
    assert 0.9 * 30 * 260 < numbers(plain) <= 30 * 260


@pytest.mark.slow
def test_smooth_kernels_get_one_block_and_rough_ones_more():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (150, 2)) for c in rng.uniform(-9, 9, (12, 2))])
    smooth = block_basis(rank=20, n_blocks=None, gamma=3e-3).fit(X)
    rough = block_basis(rank=20, n_blocks=None, gamma=3.0).fit(X)
    assert smooth.operator_.n_blocks <= 2
    assert rough.operator_.n_blocks >= 6
    assert smooth.plan_.builder.trial_error == pytest.approx(error(smooth, gram(X, X, 3e-3)), rel=0.5)
    assert rough.plan_.builder.trial_error == pytest.approx(error(rough, gram(X, X, 3.0)), rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("tol", [0.1, 0.01, 0.001])
def test_tolerance_is_reached_without_waste(tol):
    X = np.random.default_rng(2).random((700, 3))
    fitted = block_basis(rank=None, n_blocks=None, tol=tol).fit(X)
    assert 0.5 * tol < error(fitted, gram(X, X)) < 1.1 * tol


def test_ranks_are_shared_by_gain_per_byte():
    size = Size(100.0)
    ranks = size.share([np.array([9.0, 1.0, 0.1]), np.array([9.0, 5.0])], np.array([10.0, 20.0]))
    # Costs 10 + 1, 20 + 3, 20 + 5, 10 + 7 and, of the last 24, 10 + 9.
    np.testing.assert_array_equal(ranks, [3, 2])
    np.testing.assert_array_equal(Size(5.0).share([np.ones(3)], np.array([10.0])), [0])
    np.testing.assert_array_equal(Size(1e9).share([np.ones(3), np.zeros(0)], np.ones(2)), [3, 0])
    assert Size.of_equal_ranks(1000, 20, 7).equal_rank(1000, 7) == pytest.approx(20.0)


def test_uneven_blocks_get_uneven_ranks():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(0, 0.02, (300, 3)), rng.normal(6, 1.0, (300, 3))])
    ranks = block_basis(rank=12, n_blocks=2, gamma=1.0).fit(X).features_.forest.ranks
    assert max(ranks) > 2 * min(ranks)


def test_a_budget_of_its_own_keeps_its_meaning_in_a_ridge(rows):
    X, _ = rows
    a = gm.BlockBasis(max_bytes=30_000, n_blocks=3)
    model = gm.KernelRidge(gamma=GAMMA, approximation=a, random_state=0).fit(X, X[:, 0])
    assert model.plan_.builder.max_bytes == 30_000
    assert model.plan_.memory_budget == 1_000_000_000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 10, "tol": 0.1}, r"rank=10 and tol=0\.1 both say how large"),
        ({"rank": 10, "max_bytes": "1MB"}, "rank=10 and max_bytes='1MB' both say how large"),
        ({"rank": 0}, "rank=0 must be a whole number of at least 1"),
        ({"rank": None, "tol": -1.0}, r"tol=-1\.0 must be a positive, finite number"),
        ({"oversampling": 0.5}, "oversampling=0.5 must be at least 1"),
        ({"rank": None, "max_bytes": 2_000}, "is too small for one column of 260 rows"),
        (
            {"rank": None, "n_blocks": None, "tol": 1e-4, "max_bytes": 15_000},
            r"tol=0\.0001 cannot be reached within .*: the best that fits, \d+ blocks?, has a relative error",
        ),
        (
            {"rank": None, "n_blocks": None, "tol": 1e-3, "gamma": 1e6},
            r"tol=0\.001 cannot be reached within .* Raise tol\.",
        ),
        ({"memory_budget": "10kB"}, "memory_budget=10 kB is too small for n_blocks=4, rank=8"),
    ],
)
def test_bad_input(rows, parameters, message):
    with pytest.raises((gm.InputError, gm.BudgetError), match=message):
        block_basis(**parameters).fit(rows[0])


def test_duplicates_and_few_rows():
    X = np.repeat(np.random.default_rng(0).random((5, 2)), 40, axis=0)
    fitted = block_basis(rank=10, n_blocks=2).fit(X)
    assert error(fitted, gram(X, X)) < 1e-7
    assert fitted.rank_ <= 5
    alone = gm.BlockBasis(random_state=0, rank=1).fit(X[:1])
    assert alone.operator_.shape == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [20.0, 500.0])
def test_a_stored_diagonal_beats_both_the_factors_and_the_diagonal_alone(gamma):
    X = np.random.default_rng(0).random((700, 4))
    K = gram(X, X, gamma)
    sizes = {"gamma": gamma, "max_bytes": 700 * 40 * 8, "random_state": 0}
    plain = gm.BlockBasis(**sizes).fit(X)
    stored = gm.BlockBasis(**sizes, diagonal=True).fit(X)
    assert stored.nbytes_ <= 700 * 40 * 8
    alone = np.linalg.norm(K - np.eye(700)) / np.linalg.norm(K)
    assert error(stored, K) < 0.9 * min(error(plain, K), alone)
    np.testing.assert_allclose(stored.operator_.diagonal(), 1.0, atol=1e-12)
    np.testing.assert_allclose(stored.relative_error(X), error(stored, K), rtol=1e-6)


def test_a_stored_diagonal_solves_like_the_dense_matrix(rows):
    X, _ = rows
    fitted = gm.BlockBasis(gamma=GAMMA, rank=20, diagonal=True, random_state=0).fit(X)
    dense = fitted.operator_.to_dense()
    assert np.linalg.eigvalsh(dense)[0] > -1e-9
    y = np.sin(np.arange(len(X)))
    expected = np.linalg.solve(dense + 0.1 * np.eye(len(X)), y)
    np.testing.assert_allclose(fitted.operator_.solve(y, alpha=0.1), expected, atol=1e-8)


@pytest.mark.parametrize("core", ["recompressed", "sampled"])
@pytest.mark.parametrize("n_blocks", [None, 2])
def test_a_rank_above_the_number_of_rows_is_cut(core, n_blocks):
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.warns(UserWarning, match="rank=300 is larger than n_samples = 30"):
        a = gm.BlockBasis(gamma=1.0, rank=300, n_blocks=n_blocks, core=core, random_state=0).fit(X)
    # Without n_blocks the core takes a part of the n·rank numbers, and one direction or two are left out.
    exact = gm.Gaussian(0.5**0.5)(X)
    assert np.linalg.norm(a.operator_.to_dense() - exact) < 0.05 * np.linalg.norm(exact)
    gm.BlockBasis(core=core, n_blocks=n_blocks, random_state=0).fit(X)  # the default says nothing


@pytest.mark.parametrize("method", ["block_basis", "meka", "sampled"])
def test_blocks_of_few_rows_share_kernel_tiles(monkeypatch, method):
    rows = np.random.default_rng(0).standard_normal((200, 3))
    made = {
        "block_basis": gm.BlockBasis(n_blocks=200, random_state=0),
        "meka": gm.MEKA(n_blocks=200, random_state=0),
        "sampled": gm.MEKA(n_blocks=200, core="sampled", random_state=0),
    }
    tiles = []
    whole = Kernel.__call__

    def counted(self, X, *args, **kwargs):
        tiles.append(X.shape)
        return whole(self, X, *args, **kwargs)

    monkeypatch.setattr(Kernel, "__call__", counted)
    made[method].fit(rows)
    # A tile a pair of blocks would be 20,100; a few a block are needed.
    assert len(tiles) <= 1_000


@pytest.mark.parametrize("core", ["recompressed", "sampled"])
def test_a_single_row_is_kept(core):
    X = np.array([[1.0, 2.0]])
    found = gm.BlockBasis(gamma=0.5, core=core, random_state=0).fit(X)
    np.testing.assert_allclose(found.operator_.to_dense(), [[1.0]], rtol=1e-12)
    assert (found.rank_, found.operator_.shape) == (1, (1, 1))
