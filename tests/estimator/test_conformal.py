"""Quantiles of held-out errors, with and without weights."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.estimator.conformal import held_out_quantile, sort_errors
from gramian.exceptions import InputError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("count", [59, 800])
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9])
def test_equal_weights_give_the_rank_of_no_weights(count: int, coverage: float) -> None:
    errors = RNG.standard_normal((count, 2))
    rank = int(np.ceil(round(coverage * (count + 1), 9)))  # safe from rounding (0.9·10)
    want = np.sort(errors, axis=0)[min(count, rank + 1) - 1]  # one more for three hyperparameters
    for weights in (None, np.full(errors.shape, 3.7), np.full(errors.shape, 1e-30)):
        np.testing.assert_array_equal(held_out_quantile(errors, weights, coverage, "", 3), want)
    # Rows whose weight vanishes are absent, in whatever order the rows come.
    order = RNG.permutation(2 * count)
    more = np.vstack([errors, 100.0 + RNG.standard_normal((count, 2))])[order]
    weights = np.repeat([[2.3], [1e-12]], count, axis=0)[order] * np.ones(2)
    np.testing.assert_array_equal(held_out_quantile(more, weights, coverage, "", 3), want)


def test_weights_are_shares_of_the_rows_to_come() -> None:
    errors, weights = np.abs(RNG.standard_normal(4_000)), RNG.uniform(0.1, 2.0, 4_000)
    errors *= weights
    for coverage in (0.5, 0.9):
        found = held_out_quantile(errors, weights, coverage, "")
        assert np.average(errors <= found, weights=weights) == pytest.approx(coverage, abs=2e-3)
    ordered, own = sort_errors(errors, weights)
    np.testing.assert_array_equal(held_out_quantile(ordered, own, 0.9, ""), found)


def test_too_few_rows_are_counted_by_their_weights() -> None:
    weights = np.where(np.arange(100) < 5, 1.0, 1e-9)
    text = r"coverage=0\.9 needs 9 held-out rows, but there were 100, which count as 5 by their weights\. Ask"
    with pytest.raises(InputError, match="there were 0"):
        held_out_quantile(np.zeros((0, 1)), None, 0.9, "")
    with pytest.raises(InputError, match=text):
        held_out_quantile(np.arange(100.0), weights, 0.9, "coverage=0.9")
