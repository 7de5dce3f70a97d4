"""The published block basis factorization: Algorithm 5 written naively, its laws, sizes and errors."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as la
from approximation_market import GAMMA, gram
from market_block_basis_sampled import sampled_block_basis

import gramian as gm
from gramian._random import children
from gramian.approximations.block_basis_sampled import SampledBasisBuilder, large_blocks
from gramian.compression.builder import BuildSettings, block_members
from gramian.compression.cores import ridge_inverse
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.landmarks.partition import fit_partition

KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.random((260, 3)), rng.random((70, 3))


def error(fitted, K):
    return np.linalg.norm(K - fitted.operator_.to_dense()) / np.linalg.norm(K)


def pivots(matrix, count):
    return la.qr(matrix, mode="r", pivoting=True)[1][: min(count, *matrix.shape)]


def drawn(n, count, rng):
    return np.sort(rng.choice(n, count, replace=False)) if count < n else np.arange(n)


def algorithm_5(X, members, rank, oversampling, important, rng):
    """K̃ by full matrices: Algorithms 1, 2 or 3, exact singular vectors, normal equations for the core."""
    K, n, m = gram(X, X), len(X), round(oversampling * rank)
    picking, _, streams = (children(stream, len(members)) for stream in children(rng, 3))
    candidates = np.arange(n)
    if important:
        columns = [drawn(n, m, picking[s]) for s in range(len(members))]
        picked = [mine[pivots(K[np.ix_(mine, c)].T, m)] for mine, c in zip(members, columns)]
        candidates = np.sort(np.concatenate(picked))
    U, H, fitted = [], [], []
    for mine, stream in zip(members, streams):
        M = K[np.ix_(mine, candidates)]
        kept, before = np.zeros(0, int), None
        for _ in range(2):
            kept = np.union1d(kept, drawn(len(mine), m, stream))
            best = np.sort(pivots(M[kept], m))
            if before is not None and np.array_equal(best, before):
                break
            before = best
            columns = np.union1d(best, drawn(len(candidates), m, stream))
            kept = pivots(M[:, columns].T, m)
        P, values, _ = la.svd(M[:, columns], full_matrices=False)
        # The randomized SVD of the package draws nothing where it takes all directions.
        some = np.union1d(kept, drawn(len(mine), rank, stream))
        left_out = (values[rank:] ** 2).sum() / len(mine)
        V = P[some, :rank]
        H.append(np.linalg.inv(V.T @ V + left_out * np.diag(values[:rank] ** -2.0)) @ V.T)
        U.append(P[:, :rank])
        fitted.append(mine[some])
    out = np.zeros((n, n))
    for s, a in enumerate(members):
        for t, b in enumerate(members):
            C = H[s] @ K[np.ix_(fitted[s], fitted[t])] @ H[t].T
            out[np.ix_(a, b)] = U[s] @ C @ U[t].T
    return out


@pytest.mark.parametrize("important", [False, True])
def test_algorithm_5_equals_its_naive_form(rows, important):
    X, _ = rows
    partition = fit_partition(X, 4, rng=np.random.default_rng(0))
    builder = SampledBasisBuilder(
        rank=6, n_blocks=4, n_extra=99, sampling="important" if important else "full"
    )
    settings = BuildSettings(KERNEL, np.dtype(np.float64), np.random.default_rng(9), Engine(1))
    features = builder.assemble(X, partition, settings)
    members = block_members(partition.route(X), 4)
    expected = algorithm_5(X, members, 6, builder.oversampling, important, np.random.default_rng(9))
    blocks = [gram(X, node.landmarks) @ node.vectors for node in features.nodes]
    found = np.zeros_like(expected)
    for s, a in enumerate(members):
        for t, b in enumerate(members):
            found[np.ix_(a, b)] = blocks[s][a] @ features.core.block(s, t) @ blocks[t][b].T
    np.testing.assert_allclose(found, expected, atol=1e-9)
    for s, mine in enumerate(members):
        np.testing.assert_allclose(blocks[s][mine].T @ blocks[s][mine], np.eye(6), atol=1e-9)


def test_the_surrogate_kernel_predicts_by_the_papers_formulas(rows):
    r"""α̃ = C Uᵀ α, and K(x, Y_s) A_s α̃_s in the cluster s of x: the sampled columns are the surrogate."""
    X, new = rows
    fitted = sampled_block_basis().fit(X)
    alpha = fitted.operator_.solve(np.sin(5 * X[:, 0]), alpha=0.1)
    features, partition = fitted.features_, fitted.features_.partition
    U = np.zeros((len(X), fitted.rank_))
    offsets = features.core.offsets
    for s, node in enumerate(features.nodes):
        mine = partition.route(X) == s
        U[mine, offsets[s] : offsets[s + 1]] = gram(X[mine], node.landmarks) @ node.vectors
    tilde = features.core.to_dense() @ (U.T @ alpha)
    expected = np.zeros(len(new))
    for s, node in enumerate(features.nodes):
        mine = partition.route(new) == s
        weights = node.vectors @ tilde[offsets[s] : offsets[s + 1]]
        expected[mine] = gram(new[mine], node.landmarks) @ weights
    cross = fitted.cross(new)
    assert cross.shape == (70, 260)
    np.testing.assert_allclose(cross @ alpha, expected, atol=1e-10)
    # The asymmetric factorization of the test block costs n_new·r numbers beside the training side's.
    K = gram(new, X)
    assert np.linalg.norm(K - cross @ np.eye(260)) < 2 * error(fitted, gram(X, X)) * np.linalg.norm(K)
    np.testing.assert_allclose(cross.T @ np.ones(70), (cross @ np.eye(260)).sum(axis=0), atol=1e-10)


def test_error_falls_with_rank_and_no_seed_blows_up(rows):
    X, _ = rows
    K = gram(X, X, 30.0)
    errors = [
        [error(sampled_block_basis(gamma=30.0, rank=r, random_state=s).fit(X), K) for s in range(4)]
        for r in (4, 10, 25, 120)
    ]
    assert (np.diff(np.mean(errors, axis=1)) < 0).all()
    assert max(errors[0]) < 1.0
    assert max(errors[3]) < 1e-6
    # One pivot a rank, as printed, is where a pseudo-inverse blows up.
    thin = [
        error(sampled_block_basis(gamma=30.0, rank=12, oversampling=1.0, random_state=s).fit(X), K)
        for s in range(4)
    ]
    assert max(thin) < 1.0


def test_near_the_recompressed_core(rows):
    X, _ = rows
    K = gram(X, X)
    best = error(gm.BlockBasis(gamma=GAMMA, rank=10, n_blocks=4, random_state=0).fit(X), K)
    assert best < error(sampled_block_basis(rank=10).fit(X), K) < 6 * best


def test_small_blocks_are_cut_off_within_the_tolerance():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (60, 2)) for c in 6 * rng.random((5, 2))])
    K = gram(X, X)
    whole = sampled_block_basis(n_blocks=5).fit(X)
    for cutoff in (1e-6, 0.05):
        cut = sampled_block_basis(n_blocks=5, cutoff=cutoff).fit(X)
        assert not cut.plan_.builder.bounds.definite
        gap = np.linalg.norm(whole.operator_.to_dense() - cut.operator_.to_dense())
        assert gap <= cutoff * np.linalg.norm(K)
        dropped = cut.features_.notes["pairs of blocks set to zero"]
        assert dropped > 0
        assert whole.nbytes_ - cut.nbytes_ >= 8 * 60 * dropped
        assert f"pairs of blocks set to zero  {dropped:.0f}" in str(cut.report())
    assert "pairs of blocks set to zero" not in whole.features_.notes


def test_which_blocks_are_large():
    blocks = {(0, 0): np.eye(2), (0, 1): np.full((2, 1), 1e-3), (1, 1): np.full((1, 1), 1e-9)}
    assert set(large_blocks(blocks, 1e-3, 2)) == {(0, 0), (0, 1), (1, 1)}
    assert set(large_blocks(blocks, 1e-2, 2)) == {(0, 0), (1, 1)}


def test_coefficients_from_samples_are_least_squares():
    rng = np.random.default_rng(0)
    W, ridge = rng.standard_normal((12, 4)), np.array([0.0, 1.0, 0.1, 3.0])
    expected = np.linalg.solve(W.T @ W + np.diag(ridge), W.T)
    np.testing.assert_allclose(ridge_inverse(W, ridge), expected, atol=1e-11)
    np.testing.assert_allclose(ridge_inverse(W, 0.0), np.linalg.pinv(W), atol=1e-11)
    repeated = np.repeat(W[:, :1], 2, axis=1)
    assert np.abs(ridge_inverse(repeated, 0.0)).max() < 1.0
    assert ridge_inverse(np.zeros((5, 0)), 0.0).shape == (0, 5)


@pytest.mark.parametrize("tile_dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_blocks", [None, 5])
def test_a_budget_is_kept_and_used(rows, tile_dtype, n_blocks):
    X, _ = rows
    for budget in (25_000, 80_000):
        fitted = sampled_block_basis(
            rank=None, n_blocks=n_blocks, max_bytes=budget, tile_dtype=tile_dtype
        ).fit(X)
        assert 0.7 * budget < fitted.nbytes_ <= budget
    stored = sampled_block_basis(rank=None, n_blocks=4, max_bytes=25_000, diagonal=True).fit(X)
    assert stored.nbytes_ <= 25_000
    # K̃ is no projection of K: it may be above K on the diagonal, where nothing is added.
    assert stored.operator_.diagonal().min() > 1 - 1e-12
    assert stored.operator_.excess_ > 0


def test_a_budget_is_kept_by_rows_that_the_sample_lacks():
    """Blocks of the sample and of all rows differ in size; last directions go where they would not fit."""
    X = np.random.default_rng(0).random((4000, 2))
    source = ArraySource(X)
    builder = SampledBasisBuilder(max_bytes=1_200_000, n_blocks=6)
    settings = BuildSettings(KERNEL, np.dtype(np.float64), np.random.default_rng(0), Engine(1), 1000)
    features = builder.settle(source, settings).build(source, replace(settings, sample_rows=300))
    counts = np.bincount(features.partition.route(X), minlength=6)
    ranks = np.array([node.rank for node in features.nodes])
    assert 8 * (counts @ ranks + ranks.sum() ** 2 + 4000) <= 1_200_000
    assert features.core.psd
    assert features.core.ranks == tuple(ranks)


def test_a_tolerance_by_the_papers_rule(rows):
    X, _ = rows
    K = gram(X, X)
    for tol in (0.2, 0.02):
        fitted = sampled_block_basis(rank=None, n_blocks=None, tol=tol).fit(X)
        assert fitted.plan_.builder.predicted_tol < tol
        assert error(fitted, K) < 2 * tol
    one = sampled_block_basis(rank=20, n_blocks=None).fit(X)
    assert one.plan_.builder.predicted_tol > 0
    default = gm.BlockBasis(gamma=GAMMA, core="sampled", n_blocks=2, random_state=0).fit(X)
    assert default.plan_.rank == 100


@pytest.mark.repeat
@pytest.mark.slow
def test_flat_spectra_are_told():
    X = np.random.default_rng(0).random((3200, 2))
    fitted = gm.BlockBasis(
        gamma=1e8, core="sampled", n_blocks=1, tol=0.81, sampling="important", random_state=0
    ).fit(X)
    assert fitted.features_.notes["blocks with ranks too large to tell"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"rank": 30, "n_blocks": 8},
        {"rank": 30, "n_blocks": 8, "sampling": "important"},
        {"rank": 60, "n_blocks": 1},
    ],
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_peak_is_what_the_plan_says(parameters, n_jobs):
    X = np.random.default_rng(0).standard_normal((8_000, 10), dtype=np.float32)
    model = gm.KernelRidge(
        0.1,
        gamma=0.05,
        approximation=gm.BlockBasis(core="sampled", **parameters),
        random_state=0,
        n_jobs=n_jobs,
    )
    tracemalloc.start()
    model.fit(X, X[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # What several threads hold at once varies from run to run.
    assert model.plan_.peak_bytes / 6 < peak < (1.05 if n_jobs == 1 else 1.5) * model.plan_.peak_bytes


def test_duplicates_few_rows_and_a_vanishing_kernel():
    X = np.repeat(np.random.default_rng(0).random((5, 2)), 40, axis=0)
    fitted = sampled_block_basis(rank=10, n_blocks=2).fit(X)
    assert error(fitted, gram(X, X)) < 1e-7
    assert fitted.rank_ <= 5
    alone = gm.BlockBasis(core="sampled", random_state=0, rank=1, n_blocks=1).fit(X[:1])
    assert alone.operator_.to_dense() == pytest.approx(1.0)
    nothing = gm.BlockBasis("linear", core="sampled", rank=3, n_blocks=2).fit(np.zeros((6, 2)))
    assert nothing.rank_ == 0
    np.testing.assert_array_equal(nothing.operator_.to_dense(), np.zeros((6, 6)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"core": "sample"}, r"core='sample' is unknown.*Did you mean 'sampled'"),
        ({"sampling": "ful"}, r"sampling='ful' is unknown.*Did you mean 'full'"),
        ({"n_rounds": 0}, "n_rounds=0 must be a whole number of at least 1"),
        ({"cutoff": -0.1}, r"cutoff=-0\.1 must be"),
        ({"landmarks": "kmeans"}, "landmarks='kmeans' would have no effect: core='sampled' does not take it"),
        ({"core": "recompressed", "cutoff": 0.1}, r"cutoff=0\.1 would have no effect: core='recompressed'"),
        (
            {"rank": None, "n_blocks": None, "tol": 1e-4, "max_bytes": 15_000},
            r"tol=0\.0001 needs .*kB by .* more than the 12\.9 kB allowed: the best that fits is tol=0\.14",
        ),
        (
            {"rank": None, "n_blocks": 50, "max_bytes": 20_000},
            r"holds no column of each of 50 blocks: at least 22.*kB is needed\. Raise it, or",
        ),
        (
            {"rank": None, "n_blocks": None, "tol": 1e-3, "gamma": 1e6},
            r"tol=0\.001 needs .* numbers of K itself: the best that fits .* Raise tol\.",
        ),
    ],
)
def test_bad_input(rows, parameters, message):
    with pytest.raises((gm.InputError, gm.BudgetError), match=message):
        sampled_block_basis(**parameters).fit(rows[0])


def test_a_builder_without_sizes_says_so():
    with pytest.raises(gm.InputError, match=r"sizes are not chosen yet; call settle first\."):
        _ = SampledBasisBuilder(tol=0.1).bounds
