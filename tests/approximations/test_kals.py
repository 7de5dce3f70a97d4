"""KALS: rounds as written in the paper, accuracy, sizes and errors."""

from __future__ import annotations

import numpy as np
import pytest
from approximation_market import GAMMA, gram, settings
from suite.datasets import load_dataset

import gramian as gm
from gramian.approximations.kals import TILE_ROWS, Entries, half_step
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.exceptions import InputError

KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(4).random((300, 3))


@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("landmarks", ["kmeans", "uniform"])
def test_a_diagonal_matrix_has_a_map(X, rank, landmarks):
    # No sampled column says anything of another row: U is 0 on all of them.
    a = gm.KALS(rank=rank, gamma=1e12, landmarks=landmarks, random_state=0).fit(X)
    K = a.operator_.to_dense()
    assert np.isfinite(K).all()
    assert np.abs(K - np.diag(np.diag(K))).max() < 1e-8
    model = gm.KernelRidge(approximation=gm.KALS(rank=rank), gamma=1e12, alpha=0.1).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_half_step_is_the_least_squares_of_each_row(X, n_jobs):
    rng = np.random.default_rng(0)
    U = rng.standard_normal((300, 6))
    chosen = np.sort(rng.choice(300, 20, replace=False))
    entries = Entries(as_source(X), KERNEL, chosen, X[chosen], 15, 7)
    found = half_step(entries, U, Engine(n_jobs))
    K = gram(X, X)
    for i in range(300):
        J = np.union1d(np.union1d(chosen, entries.columns(i // TILE_ROWS)), [i])
        expected = np.linalg.lstsq(U[J], K[J, i], rcond=None)[0]
        np.testing.assert_allclose(found[i], expected, atol=1e-6)


def test_entries_are_the_same_each_round_and_never_repeat(X):
    chosen = np.arange(0, 300, 10)
    entries = Entries(as_source(X), KERNEL, chosen, X[chosen], 25, 7)
    seen = [entries.columns(tile) for tile in range(entries.n_tiles)]
    assert entries.n_tiles == 5
    for tile, columns in enumerate(seen):
        np.testing.assert_array_equal(columns, entries.columns(tile))
        assert len(np.unique(columns)) == 25
        assert not np.isin(columns, chosen).any()
    assert not np.array_equal(seen[0], seen[1])


def test_all_entries_give_the_best_rank(X):
    K = gram(X, X)
    best = np.linalg.eigvalsh(K)[::-1][10]
    a = gm.KALS(rank=10, n_iter=30, n_entries=300**2, **settings()).fit(X)
    assert np.linalg.norm(K - a.operator_.to_dense(), 2) < 1.01 * best


def test_better_than_its_start_by_far_and_falls_with_rank(X):
    K = gram(X, X)
    errors = []
    for rank in (16, 32, 64):
        start = gm.Nystrom(rank=rank, landmarks="kmeans", oversampling=1.0, **settings()).fit(X)
        a = gm.KALS(rank=rank, **settings()).fit(X)
        errors.append(np.linalg.norm(K - a.operator_.to_dense(), 2))
        assert errors[-1] < np.linalg.norm(K - start.operator_.to_dense(), 2) / 1.5
    assert (np.diff(errors) < 0).all()


def test_outlying_rows_do_not_make_it_run_away():
    rng = np.random.default_rng(1)
    X = rng.standard_t(2, size=(600, 4))
    K = gram(X, X, 0.05)
    best = np.linalg.eigvalsh(K)[::-1][40]
    a = gm.KALS(gamma=0.05, rank=40, tile_dtype="float64", random_state=0).fit(X)
    assert np.linalg.norm(K - a.operator_.to_dense(), 2) < 2.0 * best


@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
def test_duplicates_and_more_rank_than_rows(X):
    few = np.repeat(X[:9], 20, axis=0)
    assert gm.KALS(gamma=2.0, rank=40, random_state=0).fit(few).relative_error(few) < 1e-4
    small = gm.KALS(rank=500, **settings()).fit(X[:30])
    assert small.rank_ <= 30
    assert small.relative_error(X[:30]) < 1e-3


def test_plan_counts_what_the_rounds_hold(X):
    plan = gm.KALS(rank=50).plan(np.random.default_rng(0).random((20_000, 3)))
    assert plan.peak_bytes > 2 * 8 * 20_000 * 50
    with pytest.raises(gm.BudgetError, match="memory_budget=10 MB is too small"):
        gm.KALS(rank=50, memory_budget="10MB").fit(np.random.default_rng(0).random((20_000, 3)))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            gm.KALS(rank=20, n_entries=300 * 19),
            r"n_entries=5700 gives each of 300 rows 19 entries, which do not determine rank=20 numbers\. "
            r"Give at least n_samples · rank = 6000, or a lower rank",
        ),
        (gm.KALS(columns="kmeans"), r"columns='kmeans' is unknown\. Choose one of uniform, leverage"),
        (gm.KALS(landmarks="kmean"), r"Did you mean 'kmeans'"),
        (gm.KALS(rank=0), r"rank=0"),
        (gm.KALS(n_iter=-1), r"n_iter=-1"),
    ],
)
def test_bad_input(X, estimator, message):
    with pytest.raises(InputError, match=message):
        estimator.fit(X)
    assert not hasattr(estimator, "operator_")


@pytest.mark.data
@pytest.mark.parametrize(("name", "rank", "log2_gamma"), [("german", 50, -4.4), ("satimage", 100, -3.75)])
def test_table_2_of_the_paper(name, rank, log2_gamma):
    X = load_dataset(name).X.astype(np.float64)[:4435]
    low, high = X.min(axis=0), X.max(axis=0)
    X = 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0
    same = {"gamma": 2.0**log2_gamma, "rank": rank, "tile_dtype": "float64"}
    ratios = []
    for seed in range(3):
        S = np.random.default_rng(seed).choice(len(X), min(1000, len(X)), replace=False)
        K = gm.Gaussian((0.5 / same["gamma"]) ** 0.5)(X[S])
        both = []
        for a in (gm.Nystrom(landmarks="kmeans", oversampling=1.0), gm.KALS()):
            F = a.set_params(random_state=seed, **same).fit(X).transform(X[S])
            both.append(np.linalg.norm(K - F @ F.T, 2))
        ratios.append(both[0] / both[1])
    assert np.mean(ratios) >= 2.5
