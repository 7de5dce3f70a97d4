"""Laws of drawing rows with unequal chances, by repetition, and of the intervals made of them."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.compression.row_sampling import design_variance, draw, inclusion, interval, sum_variance


def test_inclusion_probabilities_add_up_and_stop_at_one():
    size = np.array([100.0, 1.0, 2.0, 0.0, 3.0])
    chance = inclusion(size, 3)
    assert chance[0] == 1.0
    np.testing.assert_allclose(chance.sum(), 3.0)
    np.testing.assert_allclose(chance[[1, 2, 4]], np.array([1.0, 2.0, 3.0]) / 3.0)
    np.testing.assert_array_equal(inclusion(np.array([5.0, 0.0]), 1), [1.0, 0.0])


def test_draws_have_their_probabilities_and_no_row_twice():
    chance = inclusion(np.arange(1.0, 21.0), 8)
    counts = np.zeros(20)
    rng = np.random.default_rng(0)
    for _ in range(4000):
        rows = draw(chance, rng)
        assert len(rows) == 8
        assert np.all(np.diff(rows) > 0)
        counts[rows] += 1
    np.testing.assert_allclose(counts / 4000, chance, atol=0.03)


def test_variances_are_those_of_repeated_draws():
    rng = np.random.default_rng(1)
    values = rng.random(60) * np.arange(1.0, 61.0)
    chance = inclusion(np.arange(1.0, 61.0), 20)
    sums, estimates = [], []
    for _ in range(3000):
        rows = draw(chance, rng)
        sums.append(float((values[rows] / chance[rows]).sum()))
        estimates.append(sum_variance(values[rows], chance[rows])[0])
    assert np.mean(sums) == pytest.approx(values.sum(), rel=0.01)
    assert np.var(sums) == pytest.approx(np.mean(estimates), rel=0.1)
    assert np.var(sums) == pytest.approx(design_variance(values, chance, np.ones(60)), rel=0.1)
    assert sum_variance(np.ones(3), np.ones(3)) == (0.0, 0)
    assert sum_variance(np.array([2.0]), np.array([0.5])) == (8.0, 1)
    assert design_variance(np.ones(3), np.ones(3), np.ones(3)) == 0.0


def test_interval_of_a_ratio():
    low, high = interval(0.04, 0.002, 50)
    assert low < 0.04 < high
    assert low * high == pytest.approx(0.04**2)
    assert interval(0.0, 0.0, 50, 0.3) == (0.0, 0.3)
    assert interval(0.04, 1e9, 50) == (0.0, np.inf)
    wider = interval(0.04, 0.002, 50, 0.01)
    assert wider[0] < low
    assert high < wider[1]
