"""Gains on held-out rows: their standard errors, of means and of other losses."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.tables.training.gain import Gain


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_a_mean_is_the_usual_one(weighted):
    rng = np.random.default_rng(0)
    before, gains = rng.random(4000), 0.1 + rng.standard_normal(4000)
    weights = rng.uniform(0.5, 2.0, 4000) if weighted else None
    found = Gain.of_rows(before, before - gains, weights)
    w = np.ones(4000) if weights is None else weights
    assert found.loss == pytest.approx(np.average(gains, weights=w))
    usual = np.sqrt(((w * (gains - found.loss)) ** 2).sum()) / w.sum()
    assert 0.5 * usual < found.error < 2.0 * usual  # 20 parts tell it to about a sixth
    assert found.clear


def test_noise_is_rarely_clear():
    rng = np.random.default_rng(0)
    gains = rng.standard_normal((400, 100))
    clear = np.mean([Gain.of_rows(each, np.zeros(100), None).clear for each in gains])
    assert 0.08 < clear < 0.26  # one standard error: 16 %


def test_rows_that_follow_each_other_and_are_alike_count_as_few():
    alike = np.repeat(np.random.default_rng(0).standard_normal(20), 50)
    found = Gain.of_rows(alike, np.zeros(1000), None)
    assert found.error == pytest.approx(alike.std() / np.sqrt(19))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows(n):
    found = Gain.of(n, lambda some: 1.0 + some.sum())
    assert found == [Gain(0.0, np.inf), Gain(1.0, np.inf), Gain(2.0, 0.5)][n]
