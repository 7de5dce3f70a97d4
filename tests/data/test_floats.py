"""Sampled rows as float32: only where the kernel does not see the rounding."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.data.floats import as_float

ROWS = np.random.default_rng(3).standard_normal((80, 4))


@pytest.mark.parametrize(
    ("kernel", "narrow"),
    [
        (gm.Gaussian(1.0), True),
        (gm.Gaussian(1e-7), False),
        (gm.Exponential(1e-3), False),
        (gm.Linear(), True),
    ],
    ids=str,
)
def test_rows_are_rounded_where_the_kernel_does_not_see_it(kernel, narrow):
    found = as_float(ROWS, np.float32, kernel)
    assert found.dtype == (np.float32 if narrow else np.float64)
    error = np.abs(np.diagonal(kernel(ROWS, found.astype(np.float64))) / kernel.diagonal(ROWS) - 1.0)
    assert error.max() <= 2e-5


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("model", [gm.KernelRidge, gm.KernelSVR])
def test_rows_of_any_size_are_known_again(model, size):
    # All other rows are too far to count: the answer for a row is its own target's.
    y = np.where(np.arange(80) % 2, 1.0, -1.0)
    fits = [
        model(kernel=gm.Matern(2.0, nu=2.5), tile_dtype=kind, random_state=0).fit(size * ROWS, y)
        for kind in ("float32", "float64")
    ]
    found, wanted = (fit.predict(size * ROWS) for fit in fits)
    assert np.abs(wanted).min() > 0.1
    np.testing.assert_allclose(found, wanted, atol=1e-3)
