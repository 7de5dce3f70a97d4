"""The paper's choice of blocks and ranks against its formulas written as loops."""

from __future__ import annotations

import numpy as np
import pytest
from approximation_market import GAMMA, gram

import gramian as gm
from gramian.approximations.block_basis_search import (
    DENSE_ROWS,
    MOST_PIVOTS,
    BlockSearch,
    Spectra,
    Spectrum,
    block_spectrum,
    least_count,
)
from gramian.compression.builder import block_members
from gramian.compression.recompression import Size
from gramian.engine import Engine

KERNEL = gm.Gaussian((0.5 / GAMMA) ** 0.5)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(2).random((240, 3))


@pytest.fixture
def search(X):
    return BlockSearch(X, len(X), KERNEL, np.random.default_rng(5), Engine(1))


def naive_rank(K, share, tol):
    squares = np.sort(np.linalg.svd(K, compute_uv=False) ** 2)[::-1]
    for m in range(len(squares)):
        if squares[m:].sum() < share**2 * squares.sum() * tol**2:
            return m
    return len(squares)


def test_ranks_for_a_tolerance_follow_the_formula(search, X):
    for tol in (0.5, 0.1, 1e-3):
        found = search.for_tolerance(tol, n_blocks=5)
        members = block_members(found.partition.route(X), 5)
        expected = [naive_rank(gram(X[m], X[m]), len(m) / len(X), tol) for m in members]
        np.testing.assert_array_equal(found.ranks, expected)
        counts = np.array([len(m) for m in members])
        np.testing.assert_array_equal(found.counts, counts)
        assert found.size == pytest.approx(counts @ found.ranks + found.ranks.sum() ** 2)
        assert found.tol < tol
        assert found.unresolved == 0


def test_the_number_of_blocks_has_the_least_size(search):
    found = search.for_tolerance(0.02)
    sizes = [search.for_tolerance(0.02, n_blocks=k).size for k in range(1, search.most_blocks + 1)]
    assert search.most_blocks == 15
    # g is only nearly convex.
    assert found.size <= 1.1 * min(sizes)


def test_a_minimum_far_from_the_middle_is_found():
    """The paper's bisection compares 7 with 8 blocks first, and never comes back from a flat stretch."""
    cost = {k: 10.0 - 0.1 * k for k in range(1, 16)} | {2: 4.0, 3: 3.0, 4: 3.5}
    assert least_count(cost.__getitem__, 15) == 3
    assert least_count(lambda k: abs(k - 11), 15) == 11


def test_far_clusters_of_a_rough_kernel_get_a_block_each():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.05, (40, 2)) for c in 20 * rng.random((6, 2))])
    search = BlockSearch(X, len(X), gm.Gaussian(0.5), np.random.default_rng(0), Engine(1))
    assert search.for_tolerance(0.3).n_blocks > 1


def test_ranks_for_a_size_are_those_of_the_least_tolerance_that_fits(search):
    size = Size(240 * 12.0)
    found = search.for_size(size, n_blocks=4)
    assert found.size <= size.limit
    _, spectra = search.spectra(4)
    levels = np.sort(np.concatenate([block.levels for block in spectra.blocks]))
    fitting = [
        level
        for level in levels
        if spectra.size(spectra.for_tolerance(np.nextafter(level, 9.0)), size) <= size.limit
    ]
    np.testing.assert_array_equal(found.ranks, spectra.for_tolerance(np.nextafter(min(fitting), 9.0)))
    assert found.tol == min(fitting)
    larger = search.for_size(Size(240 * 24.0), n_blocks=4)
    assert larger.tol < found.tol
    assert (larger.ranks >= found.ranks).all()


def test_bytes_and_numbers_of_one_size(search):
    numbers = search.for_size(Size(2000.0), n_blocks=3)
    in_bytes = search.for_size(Size(16_000.0, 8.0, 8.0), n_blocks=3)
    np.testing.assert_array_equal(numbers.ranks, in_bytes.ranks)
    assert in_bytes.size == pytest.approx(8 * numbers.size)


def test_order_of_trials_and_threads_make_no_difference(X):
    first = BlockSearch(X, len(X), KERNEL, np.random.default_rng(5), Engine(1))
    other = BlockSearch(X, len(X), KERNEL, np.random.default_rng(5), Engine(3))
    other.spectra(9)
    other.spectra(2)
    for k in (2, 6, 9):
        a, b = first.for_tolerance(0.1, n_blocks=k), other.for_tolerance(0.1, n_blocks=k)
        np.testing.assert_array_equal(a.ranks, b.ranks)
        np.testing.assert_array_equal(a.partition.route(X), b.partition.route(X))


def exact_levels(kernel, X):
    squares = np.sort(np.linalg.eigvalsh(kernel(X)) ** 2)[::-1]
    return np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0) / squares.sum())


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", [0.02, 0.1, 0.5])
def test_spectra_of_large_blocks_are_near_the_exact_ones(lengthscale):
    kernel = gm.Gaussian(lengthscale)
    X = np.random.default_rng(0).random((DENSE_ROWS + 200, 2))
    exact = exact_levels(kernel, X)
    for tol in (0.3, 0.1, 0.03):
        found = block_spectrum(kernel, X, np.random.default_rng(1), 1.0, tol, np.inf)
        wanted = int(np.count_nonzero(exact >= tol))
        assert found.rank(tol) >= 0.98 * wanted - 1
        if found.rank(tol) <= found.computed:
            # The rank of the factor's approximation, a little too large.
            assert found.rank(tol) <= 1.15 * wanted + 2
            # Where the last level is rounding, so is its error, and other versions of NumPy differ.
            assert found.error < 0.1 or found.levels[-1] < 1e-12
        else:
            assert wanted > MOST_PIVOTS // 2


@pytest.mark.slow
def test_the_block_of_a_sample_has_the_spectrum_of_all_rows():
    kernel = gm.Gaussian(0.15)
    X = np.random.default_rng(0).random((3000, 2))
    exact = exact_levels(kernel, X)
    found = block_spectrum(kernel, X[:1000], np.random.default_rng(1), 3.0, 0.02, np.inf)
    for tol in (0.3, 0.1, 0.03):
        wanted = int(np.count_nonzero(exact >= tol))
        assert 0.85 * wanted - 2 <= found.rank(tol) <= 1.2 * wanted + 2


def test_a_flat_spectrum_has_a_bound_and_says_so():
    kernel = gm.Gaussian(1e-4)
    n = 2 * MOST_PIVOTS + 100
    X = np.random.default_rng(0).random((n, 2))
    found = block_spectrum(kernel, X, np.random.default_rng(1), 1.0, 0.1, np.inf)
    wanted = int(np.count_nonzero(np.sqrt(1.0 - np.arange(n) / n) >= 0.1))  # K is almost the identity
    assert found.computed < wanted
    assert wanted <= found.rank(0.1) <= 1.01 * wanted
    rough = BlockSearch(X, n, kernel, np.random.default_rng(0), Engine(1))
    assert rough.for_tolerance(0.1, n_blocks=1).unresolved == 1
    smooth = BlockSearch(X, n, gm.Gaussian(3.0), np.random.default_rng(0), Engine(1))
    assert smooth.for_tolerance(0.1, n_blocks=1).unresolved == 0


def test_ranks_on_the_chord_descend_to_zero():
    spectrum = Spectrum(np.array([1.0, 0.9, 0.8]), 10.0)
    assert [spectrum.rank(tol) for tol in (2.0, 0.95, 0.85, 0.8, 1e-9)] == [0, 1, 2, 3, 10]
    assert [spectrum.level(rank) for rank in (1, 2, 10)] == [0.9, 0.8, 0.0]
    for tol in (0.75, 0.4, 0.1):
        rank = spectrum.rank(tol)
        assert spectrum.level(rank) < tol <= spectrum.level(rank - 1)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "inverse_square", "tol", "least"),
    [("abalone", 25.0, 0.1, 15), ("abalone", 25.0, 0.03, 15), ("pendigits", 25.0, 0.1, 10)],
)
def test_the_rule_takes_many_blocks_of_narrow_kernels(name, inverse_square, tol, least):
    """On 500 rows the uncapped rule took 20 to 22 blocks of abalone and 16 of pendigits."""
    from suite.datasets import load_dataset

    X = load_dataset(name).X.astype(np.float64)
    X = X[np.random.default_rng(0).choice(len(X), 500, replace=False)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = gm.Gaussian((0.5 / inverse_square) ** 0.5)
    search = BlockSearch(X, len(X), kernel, np.random.default_rng(0), Engine(1))
    assert search.for_tolerance(tol).n_blocks >= least


def test_an_empty_block_has_no_rank():
    members = [np.arange(4), np.zeros(0, np.intp)]
    streams = [np.random.default_rng(0), np.random.default_rng(1)]
    spectra = Spectra.of(KERNEL, np.eye(4), members, 4, streams, Engine(1))
    np.testing.assert_array_equal(spectra.for_tolerance(1e-6), [4, 0])
    np.testing.assert_array_equal(spectra.for_size(Size(1e9)), [4, 0])
    assert spectra.tolerance(np.array([4, 0])) == 0.0


def test_a_size_that_cannot_reach_the_tolerance_names_the_best_that_fits(search):
    with pytest.raises(
        gm.BudgetError,
        match=r"tol=0\.001 needs .* numbers by the spectra of the diagonal blocks, more than the 2400 "
        r"numbers allowed: the best that fits is tol=0\.\d+ with \d+ blocks?\. Raise max_bytes or tol\.",
    ) as caught:
        search.for_tolerance(1e-3, Size(2400.0))
    assert caught.value.least_bytes > 2400
    with pytest.raises(gm.BudgetError, match=r"needs [\d.]+ kB by .* more than the 19 kB allowed"):
        search.for_tolerance(1e-3, Size(19_000.0, 8.0, 8.0))


def test_bad_tolerances_and_sizes(search):
    for tol in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(gm.InputError, match=r"is not a tolerance\. Give a positive, finite number"):
            search.for_tolerance(tol)
    with pytest.raises(
        gm.BudgetError, match=r"5 numbers hold no column of any block: at least .* is needed\. Raise"
    ):
        search.for_size(Size(5.0))
