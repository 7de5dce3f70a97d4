"""Elimination of a forest of nested bases against the dense FᵀF + alpha·I."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.linalg as la
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.engine import Engine
from gramian.exceptions import InputError, NumericalWarning
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums, multiply

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def grow(seed: int, depth: int = 3, most: int = 4, top: int = 5) -> Forest:
    """A random forest: up to ``most`` children a node and ``top`` columns, zeros included."""
    rng = np.random.default_rng(seed)
    ranks = [rng.integers(0, top, rng.integers(1, most)).tolist()]
    parents = []
    for _ in range(depth - 1):
        up = rng.integers(0, len(ranks[-1]), rng.integers(1, most * len(ranks[-1]) + 1))
        parents.append(up.tolist())  # not sorted: siblings need not be neighbours
        ranks.append(rng.integers(0, top, len(up)).tolist())
    return Forest.from_levels(ranks, parents)


def leaves_of(forest: Forest) -> list[int]:
    return [b for b in range(len(forest.ranks)) if b not in forest.parent]


def sums_of(
    forest: Forest, seed: int, n_outputs: int = 2
) -> tuple[list[NodeSums], np.ndarray, list[np.ndarray]]:
    """Sums, dense FᵀF, and right-hand sides of random rows: some on each leaf, on its whole path."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(forest.ranks)])
    leaves = leaves_of(forest)
    owner = np.repeat(leaves, rng.integers(0, 9, len(leaves)))
    f = np.zeros((len(owner), forest.total_rank))
    for row, leaf in enumerate(owner):
        for b in (*forest.path(leaf), leaf):
            f[row, starts[b] : starts[b + 1]] = rng.standard_normal(forest.ranks[b])
    y = rng.standard_normal((len(owner), n_outputs))
    gram, right = f.T @ f, f.T @ y
    sums = []
    for b in range(len(forest.ranks)):
        own = slice(starts[b], starts[b + 1])
        path = [np.arange(starts[a], starts[a + 1]) for a in forest.path(b)]
        above = np.concatenate([np.empty(0, int), *path])
        sums.append(NodeSums(gram[own, own].copy(), gram[own][:, above].copy(), right[own].copy()))
    return sums, gram, [s.rhs for s in sums]


def check(forest: Forest, seed: int, alpha: float, engine: Engine | None = None) -> None:
    sums, gram, rhs = sums_of(forest, seed)
    system = gram + alpha * np.eye(len(gram))
    factor = ArrowheadFactor(forest, sums, alpha, engine)
    beta = factor.solve(rhs)
    flat = np.concatenate(beta)
    want = la.solve(system, np.concatenate(rhs), assume_a="pos") if len(gram) else flat
    np.testing.assert_allclose(flat, want, rtol=0, atol=1e-9 * np.abs(want).max(initial=1.0))
    np.testing.assert_allclose(factor.blocks.logdet, np.linalg.slogdet(system)[1], rtol=1e-9, atol=1e-9)
    product = np.concatenate(multiply(forest, sums, beta, alpha))
    np.testing.assert_allclose(product, system @ flat, rtol=0, atol=1e-9 * np.abs(system).max(initial=1.0))
    assert factor.jitter == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([1e-2, 1.0, 100.0]))
@settings(max_examples=40, deadline=None)
def test_random_forests(seed, depth, alpha):
    check(grow(seed, depth), seed, alpha)


def test_many_siblings_share_a_task():
    forest = Forest.from_levels([[6], [2, 3] * 20], [[0] * 40])
    check(forest, 0, 0.1)
    check(forest, 0, 0.1, Engine(2))


@pytest.mark.parametrize("ranks", [[[0], [3, 0]], [[3], [0, 0]], [[0], [0, 0]], [[1], [1, 1]]])
def test_ranks_zero_and_one(ranks):
    check(Forest.from_levels(ranks, [[0, 0]]), 1, 1.0)


def test_path_and_counts():
    forest = Forest.from_levels([[2, 3], [4, 5], [6]], [[1, 0], [0]])
    assert forest.parent == (-1, -1, 1, 0, 2)
    assert forest.path(4) == (1, 2)
    assert forest.path(0) == ()
    assert forest.path_rank(4) == 7
    assert forest.total_rank == 20
    assert forest.levels == (slice(0, 2), slice(2, 4), slice(4, 5))
    zeros = NodeSums.zeros(forest, 4, 3)
    assert (zeros.gram.shape, zeros.cross.shape, zeros.rhs.shape) == ((6, 6), (6, 7), (6, 3))
    assert zeros.nbytes == 8 * (36 + 42 + 18)


def test_threads_do_not_change_a_bit():
    forest = grow(5, depth=3, most=9, top=9)
    sums, _, rhs = sums_of(forest, 5)
    one, two = (ArrowheadFactor(forest, sums, 0.5, Engine(jobs)) for jobs in (1, 2))
    assert one.blocks.logdet == two.blocks.logdet
    for a, b in zip(one.solve(rhs), two.solve(rhs), strict=True):
        np.testing.assert_array_equal(a, b)


class OnDemand(list):
    """A sequence that notes which items were read."""

    def __init__(self, items):
        super().__init__(items)
        self.read = []

    def __getitem__(self, node):
        self.read.append(node)
        return super().__getitem__(node)


def test_each_sum_is_read_once_from_the_last_level_up_and_not_written_to():
    forest = grow(11, depth=3, most=5)
    sums, _, rhs = sums_of(forest, 11)
    for s in sums:
        for a in (s.gram, s.cross, s.rhs):
            a.flags.writeable = False
    watched = OnDemand(sums)
    factor = ArrowheadFactor(forest, watched, 1.0)
    level = {b: k for k, nodes in enumerate(forest.levels) for b in range(nodes.start, nodes.stop)}
    assert sorted(watched.read) == list(range(len(sums)))
    assert [level[b] for b in watched.read] == sorted((level[b] for b in watched.read), reverse=True)
    factor.solve(rhs)


def test_factor_holds_the_factor_only():
    forest = Forest.from_levels([[50], [20] * 30], [[0] * 30])
    sums, _, _ = sums_of(forest, 0)
    factor = ArrowheadFactor(forest, sums, 1.0)
    numbers = 50 * 50 + 30 * (20 * 20 + 20 * 50)
    assert factor.blocks.nbytes == 8 * numbers
    # Pickled, each array is written out whole: views of a group's stack must not carry it along twice.
    assert len(pickle.dumps(factor, protocol=5)) < 8 * numbers + 30_000


class Computed:
    """Sums made when they are read, as a streaming trainer makes them."""

    def __init__(self, forest: Forest):
        self.forest = forest

    def __len__(self):
        return len(self.forest.ranks)

    def __getitem__(self, node):
        sums = NodeSums.zeros(self.forest, node, 1)
        np.fill_diagonal(sums.gram, 2.0)
        return sums


def test_peak_memory_is_the_factor_and_a_few_nodes():
    rank, root, leaves = 60, 120, 128
    forest = Forest.from_levels([[root], [rank] * leaves], [[0] * leaves])
    tracemalloc.start()
    factor = ArrowheadFactor(forest, Computed(forest), 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # In flight: a node's sums, two copies of its Gram matrix, two updates of the root.
    flight = 8 * (rank * (rank + root) + 2 * rank**2 + 4 * root**2)
    assert peak < factor.blocks.nbytes + flight + 100_000


def test_jitter_is_reported():
    forest = Forest.from_levels([[2], [1]], [[0]])
    ones = np.full((2, 2), 1e10)
    sums = [NodeSums(ones, np.zeros((2, 0)), np.zeros((2, 1))), NodeSums.zeros(forest, 1, 1)]
    with pytest.warns(NumericalWarning, match=r"FᵀF \+ alpha·I was not positive definite .* was added to"):
        factor = ArrowheadFactor(forest, sums, 1e-12)
    assert factor.jitter > 0


def test_an_indefinite_system_raises():
    forest = Forest.from_levels([[2]], [])
    sums = [NodeSums(np.diag([1.0, -1.0]), np.zeros((2, 0)), np.zeros((2, 1)))]
    with pytest.raises(la.LinAlgError, match=r"FᵀF \+ alpha·I is indefinite: a jitter of .* Raise alpha"):
        ArrowheadFactor(forest, sums, 0.5)


def test_bad_arguments():
    forest = Forest.from_levels([[2]], [])
    with pytest.raises(
        InputError, match=r"sums has 0 nodes, but the forest has 1\. Pass one NodeSums per node"
    ):
        ArrowheadFactor(forest, [], 1.0)
    with pytest.raises(InputError, match=r"alpha=0\.0 must be a positive, finite number"):
        ArrowheadFactor(forest, [NodeSums.zeros(forest, 0, 1)], 0.0)
