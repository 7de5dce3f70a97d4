"""Copies are told from rows of few values, whatever holds the rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from gramian.data.source import as_source
from gramian.estimator.repeats import find_repeats

RNG = np.random.default_rng(0)
FREE = RNG.normal(size=(300, 3))
LEVELS = RNG.integers(1, 11, (300, 1)).astype(float)
GRID = np.tile(np.stack(np.meshgrid(*[range(3)] * 4), -1).reshape(-1, 4), (4, 1)).astype(float)
TWICE = RNG.permutation(np.tile(np.arange(300), 2))
PEOPLE = np.c_[RNG.integers(0, 2, 900), RNG.integers(1, 80, 900), RNG.poisson(0.5, (900, 2))].astype(float)


def n_groups(X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = find_repeats(as_source(X), np.asarray(y))
    return None if found is None else (found.groups.max() + 1, found.copies.max() + 1)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (FREE, FREE[:, 0]),
        (np.round(FREE, 1), FREE[:, 0] > 0),
        (LEVELS, RNG.normal(size=300)),
        (LEVELS, RNG.random(300) < 0.3),
        (LEVELS, LEVELS > 5),
        (GRID, RNG.normal(size=len(GRID))),
        (GRID, GRID.sum(axis=1) > 4),
        (PEOPLE, RNG.random(900) < 0.4),
        (PEOPLE[:, 1:2], RNG.random(900) < 0.05),
        ((RNG.random((500, 100)) < 0.01).astype(float), RNG.random(500) < 0.5),
        (np.zeros((40, 2)), np.zeros(40)),
    ],
)
def test_rows_of_few_values_are_measurements_of_their_own(X, y):
    assert n_groups(X, y) is None


def test_a_target_is_no_feature():
    a, b = RNG.normal(size=(2, 200))
    X, y = np.tile(np.r_[a, b], 2)[:, None], np.tile(np.r_[b, a], 2)
    assert n_groups(X, y) == (400, 400)  # (a, b) is another row than (b, a)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (FREE, FREE[:, 0]),
        (FREE, FREE[:, 0] > 0),
        (FREE[:, :1], FREE[:, 0] > 0),
        (np.round(FREE, 1), FREE[:, 0] > 0.2),
        (LEVELS, RNG.normal(size=300)),
        (np.c_[FREE, np.full(300, np.nan)], FREE[:, 0]),
    ],
)
def test_copies_are_found(X, y):
    assert n_groups(X[TWICE], y[TWICE]) == (300, 300)


def test_it_makes_no_difference_what_holds_the_rows():
    X = (FREE * (RNG.random(FREE.shape) < 0.7))[TWICE]
    y = np.c_[FREE[:, 0], FREE[:, 1]][TWICE]
    with pytest.warns(UserWarning, match="300 of 600 rows repeat one of the 300 others"):
        dense = find_repeats(as_source(X), y)
    with pytest.warns(UserWarning, match="300 of 600 rows"):
        thin = find_repeats(as_source(sp.csr_array(X)), y)
    assert dense is not None
    assert thin is not None
    np.testing.assert_array_equal(dense.copies, thin.copies)
    first, weights = dense.merged(None)
    assert first.tolist() == sorted(np.unique(TWICE, return_index=True)[1].tolist())
    assert (weights == 2).all()
