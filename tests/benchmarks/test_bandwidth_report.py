"""Report on bandwidths: F1 by class, costs beside exact spectra, kinds of rows, samples, unusable input."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from papers.bandwidth_report import _BandwidthProblem, _draw_rows, bandwidth_report
from sklearn.metrics import f1_score

import gramian as gm

GRID = (0.1, 0.4, 1.6)


def clusters(n=360, seed=0):
    """Return a wide class with a tight one of a tenth of its rows inside."""
    rng = np.random.default_rng(seed)
    small = n // 12
    X = np.concatenate([rng.normal(size=(n - small, 2)), 0.05 * rng.normal(size=(small, 2)) + 0.6])
    y = np.repeat(["wide", "tight"], [n - small, small])
    order = rng.permutation(n)
    return X[order], y[order]


@pytest.fixture(scope="module")
def report():
    X, y = clusters()
    return bandwidth_report(X, y, bandwidths=GRID, standardize=False, random_state=0, n_jobs=1)


def test_the_tight_class_has_the_smaller_bandwidth(report):
    tight, wide = report.classes
    assert (tight.label, tight.n_rows) == ("tight", 30)
    assert (wide.label, wide.n_rows) == ("wide", 330)
    assert tight.bandwidth < 1.6
    assert tight.radius < 0.1 < wide.radius
    assert report.f1.shape == (3, 2)
    for k, each in enumerate(report.classes):
        assert each.f1 == report.f1[:, k].max()
        assert each.f1_overall == report.f1[list(report.bandwidths).index(report.best.bandwidth), k]
        assert 0 <= each.standard_error < 0.2


def test_costs_are_those_of_exact_spectra(report):
    X, _ = clusters()
    for cost in report.costs:
        squares = ((X[:, None] - X[None, :]) ** 2).sum(axis=2)
        values = np.linalg.eigvalsh(np.exp(-squares / cost.bandwidth**2))[::-1]
        tails = np.append(np.cumsum(values[::-1] ** 2)[::-1], 0.0)
        assert cost.rank == int(np.argmax(tails < (report.tol * np.sqrt(tails[0])) ** 2))
        assert cost.numbers <= min(len(X) * cost.rank + cost.rank**2, len(X) * (len(X) + 1) // 2)
        assert not cost.upper_bound
    assert report.cost(0.4) is report.costs[1]
    ranks = [cost.rank for cost in report.costs]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] > ranks[-1]


def test_f1_is_scikit_learns_with_weights_too():
    X, y = clusters()
    codes = (y == "wide").astype(np.intp)
    rng = np.random.default_rng(3)
    found, w = np.where(rng.random(len(y)) < 0.2, 1 - codes, codes), rng.random(len(y))
    for weights in (None, w):
        problem = _BandwidthProblem(X, codes, weights, 2, gm.KernelSVC(), 0)
        ours = problem._f1(found, np.arange(len(y)))
        np.testing.assert_allclose(ours, f1_score(codes, found, average=None, sample_weight=weights))


@pytest.mark.slow
def test_sparse_rows_frames_and_sources_give_the_same():
    pd = pytest.importorskip("pandas")
    X, y = clusters(150)
    X[np.abs(X) < 0.3] = 0.0

    def of(rows, labels=y):
        return bandwidth_report(
            rows, labels, bandwidths=[0.3, 1.0], standardize=False, folds=2, random_state=0, n_jobs=1
        )

    want = of(X)
    for rows, labels in (
        (sp.csr_array(X), y),
        (pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)),
        (gm.data.as_source(X), y),
    ):
        found = of(rows, labels)
        np.testing.assert_allclose(found.f1, want.f1)
        assert [each.numbers for each in found.costs] == [each.numbers for each in want.costs]


def test_small_classes_of_a_sample_are_topped_up_and_weighted():
    codes = np.repeat([0, 1, 2], [9000, 900, 100])
    numbers, weights = _draw_rows(codes, np.arange(3), 5, 600, np.random.default_rng(0))
    assert np.bincount(codes[numbers]).tolist() == [540, 100, 100]
    mass = np.bincount(codes[numbers], weights)
    np.testing.assert_allclose(mass / mass.sum(), [0.9, 0.09, 0.01])
    assert len(set(numbers)) == len(numbers)


@pytest.mark.slow
def test_a_million_rows_are_sampled_within_bounded_memory():
    n = 1_000_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    y = (rng.random(n) < 1e-3).astype(np.int8)
    X[y == 1] = 0.05 * X[y == 1] + 1.0
    tracemalloc.start()
    found = bandwidth_report(X, y, bandwidths=[0.5], folds=2, n_rows=200, random_state=0, n_jobs=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * 2**20  # the exact K of a sample of 12,000 rows would be more
    assert found.n_sampled < 400
    assert found.n_rows == n
    assert sum(each.n_rows for each in found.classes) == n
    assert found.costs[0].numbers > n
