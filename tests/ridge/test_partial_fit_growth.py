"""Streams that come to new territory: blocks are added where the map represents too little."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator

import gramian as gm
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.ridge.growth import ROWS_PER_RANK, residual_shares

SIZES = {"root_rank": 40, "rank": 20, "n_blocks": 6}
NOISE = 0.1


def truth(X):
    return np.sin(6 * X[:, 0]) * np.cos(7 * X[:, 1])


def square(rng, n, shift=0.0):
    return rng.random((n, 2)) + np.array([shift, 0.0])


def drifting(rng, n=200):
    """First a square, then squares further and further to the right."""
    return [square(rng, 2000), *(square(rng, n, shift) for shift in np.linspace(0.25, 2, 8))]


def model(**parameters):
    return gm.KernelRidge(
        0.05, gamma=20.0, approximation=gm.MultiResolution(**SIZES), random_state=0, **parameters
    )


def train(estimator, chunks, **more):
    rng = np.random.default_rng(5)
    for X in chunks:
        estimator.partial_fit(X, truth(X) + NOISE * rng.standard_normal(len(X)), **more)
    return estimator


def error(estimator, X):
    return float(np.sqrt(np.mean((estimator.predict(X) - truth(X)) ** 2)))


@pytest.mark.slow
def test_the_error_in_new_territory_is_near_that_of_a_fit_to_all_rows():
    rng = np.random.default_rng(0)
    chunks = drifting(rng)
    old, new = square(rng, 1000), square(rng, 1000, 1.2)
    rows = np.concatenate(chunks)
    whole = gm.KernelRidge(0.05, gamma=20.0, approximation=gm.MultiResolution(**SIZES), random_state=0)
    whole.fit(rows, truth(rows) + NOISE * np.random.default_rng(5).standard_normal(len(rows)))
    staying, growing = train(model(), chunks), train(model(), chunks, grow_landmarks=True)
    assert error(staying, new) > 10 * error(whole, new)
    assert error(growing, new) < 2.5 * error(whole, new)
    assert error(growing, old) < 1.5 * error(whole, old)
    assert staying.n_blocks_ == 6
    assert (
        growing.n_blocks_ == growing.plan_.n_blocks == growing._stream.summed.features.partition.n_blocks > 6
    )
    assert growing.rank_ == growing._stream.summed.features.rank > staying.rank_
    again = train(model(), chunks, grow_landmarks=True)
    assert np.array_equal(again.predict(new), growing.predict(new))


def test_a_stream_that_stays_hardly_grows():
    rng = np.random.default_rng(1)
    chunks = [square(rng, 2000) for _ in range(4)]
    staying, growing = train(model(), chunks), train(model(), chunks, grow_landmarks=True)
    assert growing.n_blocks_ <= 9  # of 6; rounding moves k-means and with it the rows that look new
    new = square(rng, 1000)
    assert error(growing, new) < 1.2 * error(staying, new)


def test_small_chunks_wait_until_there_are_enough():
    rng = np.random.default_rng(2)
    estimator = train(model(), [square(rng, 2000)])
    needed = ROWS_PER_RANK * SIZES["rank"]
    before = estimator._stream.summed
    for start in range(0, needed, 5):
        assert estimator.n_blocks_ == 6
        assert estimator._stream.summed.coverage.n_rows == start
        train(estimator, [5.0 + 0.2 * square(rng, 5)], grow_landmarks=True)
    assert estimator.n_blocks_ > 6
    assert estimator._stream.summed.coverage.n_rows == 0
    # The bases that were there are as they were.
    after = estimator._stream.summed
    assert after.features.nodes[:7] == before.features.nodes
    known = residual_shares(after.features, 5.0 + 0.2 * square(rng, 200), Engine(1))
    assert np.quantile(known, 0.9) < 0.1
    other = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(other.predict(np.ones((1, 2))), estimator.predict(np.ones((1, 2))))


def test_rows_that_wait_are_a_bounded_sample_and_merge():
    rng = np.random.default_rng(3)
    stream = train(model(memory_budget="40MB"), [square(rng, 2000)])._stream.summed
    assert stream.coverage.most_rows == 20_000
    coverage = replace(stream.coverage, most_rows=500)
    rows = 100.0 + np.column_stack([np.arange(3000) / 3000, rng.random(3000)])
    far = ArraySource(rows)
    found = coverage.with_badly_represented(stream.features, far, None, 1000, Engine(1))
    assert (found.n_new, found.n_rows) == (3000, 500)
    assert abs(found.rows[:, 0].mean() - 100.5) < 0.05
    joined = found.joined(found)
    assert (joined.n_new, joined.n_rows) == (6000, 500)
    assert coverage.with_badly_represented(stream.features, far, np.zeros(3000), 1000, Engine(1)).n_rows == 0


def test_growth_ends_at_the_memory_budget_and_says_so():
    rng = np.random.default_rng(4)
    chunks = [square(rng, 2000), *(square(rng, 300, 3.0 * k) for k in range(1, 6))]
    estimator = model(n_jobs=2)
    needed = estimator.plan(chunks[0]).peak_bytes
    estimator.set_params(memory_budget=int(1.1 * needed))
    with pytest.warns(
        gm.AccuracyWarning, match=r"stops growing at \d+ blocks: memory_budget=.* holds no more"
    ):
        train(estimator, chunks, grow_landmarks=True)
    ended = estimator.n_blocks_
    assert max(estimator.plan_.bytes.values()) <= 1.1 * needed  # the budget: kept, whatever rounding does
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        train(estimator, chunks[-1:], grow_landmarks=True)
        assert estimator.n_blocks_ == ended
        train(estimator.set_params(memory_budget="1GB"), chunks[-1:], grow_landmarks=True)
    assert estimator.n_blocks_ > ended


def test_a_frozen_map_grows_from_the_first_rows_on():
    rng = np.random.default_rng(6)
    fitted = gm.MultiResolution(gamma=20.0, random_state=0, **SIZES).fit(square(rng, 1000))
    estimator = gm.KernelRidge(0.05, approximation=FrozenEstimator(fitted), random_state=0)
    X = square(rng, 600, 2.0)
    train(estimator, [X], grow_landmarks=True)
    assert estimator.n_blocks_ > fitted.features_.partition.n_blocks == 6
    assert error(estimator, X) < 0.1
    with pytest.raises(gm.InputError, match="feature maps: the ranks or numbers of blocks"):
        estimator.merge(train(gm.KernelRidge(approximation=FrozenEstimator(fitted)), [X]))


def test_sparse_rows_grow_as_dense_ones():
    rng = np.random.default_rng(7)
    chunks = [square(rng, 2000), *(square(rng, 150, 2.0) for _ in range(3))]
    dense = train(model(tile_dtype="float64"), chunks, grow_landmarks=True)
    sparse = model(tile_dtype="float64")
    noise = np.random.default_rng(5)
    for X in chunks:
        y = truth(X) + NOISE * noise.standard_normal(len(X))
        sparse.partial_fit(sp.csr_array(X), y, grow_landmarks=True)
    assert sparse.n_blocks_ > 6
    assert abs(error(sparse, chunks[-1]) - error(dense, chunks[-1])) < 0.05


@pytest.mark.parametrize(
    "approximation",
    [
        gm.Nystrom(rank=20),
        gm.MEKA(rank=8, n_blocks=3),
        gm.MultiResolution(**SIZES, n_levels=3),
        gm.MultiResolution(**SIZES, partition="tree"),
    ],
    ids=["nystrom", "meka", "levels", "tree"],
)
def test_maps_that_cannot_grow_are_refused(approximation):
    X = np.random.default_rng(8).random((400, 2))
    estimator = gm.KernelRidge(gamma=20.0, approximation=approximation, random_state=0)
    with pytest.raises(gm.InputError, match="adds blocks below a root, but this map is of method"):
        estimator.partial_fit(X, truth(X), grow_landmarks=True)
    assert not hasattr(estimator, "n_rows_seen_")
    estimator.partial_fit(X, truth(X))


def test_blocks_without_rows_say_nothing():
    rng = np.random.default_rng(9)
    estimator = train(model(), [square(rng, 2000)])
    stream = estimator._stream.summed
    far = 50.0 + square(rng, 100)
    grown = stream.explored(ArraySource(far), None, Engine(1), 10**9)
    assert grown.n_blocks > 6
    assert all(not part.any() for s in grown.sums.nodes[7:] for part in (s.gram, s.cross, s.rhs))
    solved = grown.solved(0.05, Engine(1))
    assert np.abs(solved.predictor.chunk(far, Engine(1))).max() < 1e-6
