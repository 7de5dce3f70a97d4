"""The items on bandwidths and classes: made data, radii, and what the verdicts say of given lines."""

from __future__ import annotations

import numpy as np
from papers.bbf_classes import squared_radius
from papers.bbf_clusters import MADE, checkerboard, disc, last_best, svm_scores

RNG = np.random.default_rng(0)


def test_balls_are_filled_and_radii_are_medians():
    points = disc(RNG, 20_000, (1.0, -2.0, 0.5), 0.4)
    distances = np.linalg.norm(points - np.asarray((1.0, -2.0, 0.5)), axis=1)
    assert distances.max() <= 0.4
    # Half of a ball in dimension 3 lies within 2^(-1/3) of its radius.
    np.testing.assert_allclose(squared_radius(points), (0.4 * 0.5 ** (1 / 3)) ** 2, rtol=0.02)


def test_clusters_alternate_and_made_classes_have_names():
    X, y = checkerboard(RNG, 3, 0.001)
    cells = np.floor(X * 3).astype(int).sum(axis=1) % 2
    np.testing.assert_array_equal(cells, y)
    for make, _, names in MADE.values():
        X, y = make(RNG, 1)
        assert len(X) == len(y)
        assert len(np.unique(y)) == len(names)


def test_the_largest_of_equal_bandwidths_is_best():
    assert last_best(np.asarray([0.5, 0.9, 0.9, 0.1])) == 2
    X, y = checkerboard(RNG, 2, 0.02)
    accuracy, f1 = svm_scores(X, X, y, y, (0.1, 0.2))
    assert accuracy.tolist() == [1.0, 1.0]
    assert f1.shape == (2, 2)
