"""The block basis factorization paper's items on small sets: the algorithm as written, its rule, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from papers.bbf_accuracy import ideal_error
from papers.bbf_methods import (
    METHODS,
    PLAIN,
    PRINTED,
    Blocks,
    Matrix,
    Methods,
    Written,
    as_written,
    gaussian,
    minres,
    search,
)
from papers.bbf_search import bisected
from papers.bbf_structure import inner, members_of
from papers.meka_methods import numbers

from gramian.operators import BlockOperator

RNG = np.random.default_rng(0)
X = RNG.random((400, 3))
KERNEL = gaussian(4.0)


def dense(operator, n):
    return operator @ np.eye(n)


def test_the_algorithm_as_written_is_exact_where_blocks_have_its_ranks():
    few = X[:12][RNG.integers(12, size=200)]
    members = [np.arange(0, 80), np.arange(80, 200)]
    found = as_written(few, KERNEL, Blocks(members, np.array([12, 12])), 0)
    np.testing.assert_allclose(dense(found, 200), KERNEL(few), atol=1e-7)
    assert found.numbers == 12 * 200 + 24**2
    for U in found.bases:
        np.testing.assert_allclose(U.T @ U, np.eye(12), atol=1e-10)


def test_blocks_without_a_rank_are_zero():
    members = [np.arange(0, 100), np.arange(100, 400)]
    found = as_written(X, KERNEL, Blocks(members, np.array([0, 30])), 0)
    K = dense(found, 400)
    assert not K[:100].any()
    assert np.linalg.norm(K[100:, 100:] - KERNEL(X[100:])) < 0.1 * np.linalg.norm(K)


def test_minres_solves_the_system():
    y = RNG.random(400)
    found = as_written(X, KERNEL, Blocks(members_of(X, 3), np.array([20, 20, 20])), 0)
    expected = np.linalg.solve(dense(found, 400) + 0.1 * np.eye(400), y)
    np.testing.assert_allclose(minres(found, y, 0.1), expected, atol=1e-4)


def test_the_plain_rule_has_no_factor():
    for plain in (False, True):
        found = search(X, KERNEL, plain).for_tolerance(0.05, n_blocks=5)
        blocks = Blocks.of(X, found.partition, found.ranks)
        for mine, rank in zip(blocks.members, blocks.ranks, strict=True):
            squares = np.sort(np.linalg.eigvalsh(KERNEL(X[mine])) ** 2)[::-1]
            factor = 1.0 if plain else len(mine) / 400
            wanted = (0.05 * factor) ** 2 * squares.sum()
            assert squares[rank:].sum() < wanted <= squares[rank - 1 :].sum()


def test_the_search_is_no_worse_than_the_bisection():
    for tol in (0.3, 0.05):
        literal = bisected(search(X, KERNEL, False), tol)
        assert search(X, KERNEL, False).for_tolerance(tol).size <= literal.size


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_memory_that_it_is_given(method):
    methods = Methods(X, KERNEL, 40.0, 4)
    a, _ = methods.fit(method, 0)
    stored = a.numbers if isinstance(a, Written) else numbers(a)
    assert stored <= 1.1 * 40.0 * 400
    if method != PRINTED:
        assert stored >= 0.8 * 40.0 * 400
    if isinstance(a.operator_, BlockOperator) and "printed" not in method and "own" not in method:
        assert a.operator_.n_blocks in (1, 4)


def test_errors_of_blocks_are_those_of_projections():
    K, members = KERNEL(X), members_of(X, 3)
    bases = [np.linalg.qr(RNG.random((len(m), 7)))[0] for m in members]
    left = inner(K, members, bases)
    for s, (mine, U) in enumerate(zip(members, bases, strict=True)):
        for t, (other, V) in enumerate(zip(members, bases, strict=True)):
            exact = K[np.ix_(mine, other)]
            gap = np.square(exact - U @ (U.T @ exact @ V) @ V.T).sum() / np.square(K).sum()
            assert left[s, t] == pytest.approx(gap, rel=1e-8)


def test_no_factorization_on_a_partition_is_below_the_ideal():
    matrix = Matrix(X, KERNEL)
    labels = np.zeros(400, int)
    methods = Methods(X, KERNEL, 30.0, 4)
    for s, mine in enumerate(methods.plain.members):
        labels[mine] = s
    a, _ = methods.fit(PLAIN, 0)
    assert ideal_error(matrix.K, labels, 30.0 * 400) < matrix.error(a)
    assert ideal_error(matrix.K, labels, 1e9) < 1e-6
