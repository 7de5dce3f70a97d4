"""Kernel values too small to matter are exactly 0: subnormal numbers slow every product that meets them."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian._numerics import drop_tiny
from gramian.kernels.compiled import exp_in_place


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -69.0), (np.float64, -650.0)])
def test_an_exponential_is_zero_before_it_loses_digits(dtype: type, least: float) -> None:
    t = np.linspace(1.2 * least, 0.0, 2001).astype(dtype)
    found, floor = t.copy(), np.exp(dtype(least))
    exp_in_place(found)
    assert not found[t <= least].any()
    assert not ((found > 0) & (found < np.finfo(dtype).tiny)).any()
    assert (np.abs(found - np.exp(t)) <= floor + np.finfo(dtype).eps * np.exp(t)).all()
    large = np.exp(t) > 1e8 * floor if dtype is np.float32 else np.exp(t) > 1e17 * floor
    np.testing.assert_array_equal(found[large], np.exp(t[large]))
    strided = np.repeat(t, 3).reshape(-1, 3)[:, 1]
    exp_in_place(strided)
    np.testing.assert_array_equal(strided, found)
    only = t[t >= least]  # without a smaller value, all keep their digits
    expected = np.exp(only)
    exp_in_place(only)
    np.testing.assert_array_equal(only, expected)
    odd = np.array([np.nan, -np.inf, 0.0], dtype)
    exp_in_place(odd)
    np.testing.assert_array_equal(odd, np.array([np.nan, 0.0, 1.0], dtype))


@pytest.mark.parametrize(
    "kernel", [gm.Gaussian(), gm.Laplacian(), gm.Matern(nu=1.5), gm.Matern(nu=2.5), gm.Exponential()]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_hold_no_subnormal_numbers(kernel: gm.Kernel, dtype: type) -> None:
    far = 160.0 if dtype is np.float32 else 1600.0
    distances = np.linspace(0.0, far if kernel != gm.Gaussian() else np.sqrt(2.0 * far), 3000)[:, None]
    tile = kernel(distances.astype(dtype), np.zeros((1, 1), dtype))
    assert tile.dtype == dtype
    assert not ((tile > 0) & (tile < np.finfo(dtype).tiny)).any()
    assert (tile == 0).any()
    assert tile[0, 0] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_features_are_dropped_and_others_stay(dtype: type) -> None:
    rng = np.random.default_rng(0)
    about = np.finfo(dtype)
    values = rng.standard_normal(4000).astype(dtype)
    values *= (10.0 ** rng.uniform(np.log10(about.tiny), 0.0, 4000)).astype(dtype)
    found = values.copy()
    drop_tiny(found)
    least = np.abs(found[found != 0]).min()
    assert about.tiny <= least**2 < 1e6 * about.tiny
    assert (np.abs(found - values) <= least + about.eps * np.abs(values)).all()
    np.testing.assert_array_equal(found[np.abs(values) > 1e-2], values[np.abs(values) > 1e-2])


def test_features_of_a_wide_table_hold_no_numbers_that_slow_their_products() -> None:
    X = np.random.default_rng(0).standard_normal((600, 30)) * 2.0
    root = gm.MultiResolution(gamma=0.5, root_rank=60, n_blocks=4, rank=20, random_state=0).fit(X)
    Phi = np.abs(root.transform(X.astype(np.float32)).data)
    assert not ((Phi > 0) & (Phi < np.finfo(Phi.dtype).tiny)).any()
