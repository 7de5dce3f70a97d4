"""Units of fast models: their values against the formula, at the limits of the float types too."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.fast.serving.predictor import FEW, bumps_in_place, denominators


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("many", [False, True])
def test_bumps_are_reciprocals_that_exceed_one_nowhere(dtype, many):
    special = np.array([1.0, 1.0 - 1e-4, -3.0, 0.0, np.inf, -np.inf, np.nan, 4.0, 1e37], dtype)
    found = np.tile(special, FEW if many else 1)
    bumps_in_place(found)
    expected = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, np.nan, 0.25, dtype(1) / dtype(1e37)], dtype)
    np.testing.assert_array_equal(found, np.tile(expected, FEW if many else 1))
    # A parent's slice, as the engine passes it, is written in place.
    whole = np.full((3, 4), 2.0, dtype)
    bumps_in_place(whole[:2])
    np.testing.assert_array_equal(whole, [[0.5] * 4] * 2 + [[2.0] * 4])


def test_denominators_are_one_plus_the_scaled_square_distance():
    rng = np.random.default_rng(0)
    centers, log_scales, z = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    terms = np.column_stack([z, np.ones(9), z**2])
    expected = [
        [1.0 + sum((np.exp(s) * (a - c)) ** 2 for s, a, c in zip(scales, row, center, strict=True))
         for center, scales in zip(centers, log_scales, strict=True)]
        for row in z
    ]  # fmt: skip
    np.testing.assert_allclose(terms @ denominators(centers, log_scales).T, expected, rtol=1e-12)
