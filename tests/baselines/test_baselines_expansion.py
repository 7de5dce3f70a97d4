"""The float32 expansion against float64 sums, where float32 is enough and where it is not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from baselines.expansion import Expansion
from scipy.spatial.distance import cdist


def dense_sum(X, Z, beta, b, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean")) @ beta + b


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize(("m", "d"), [(1, 3), (40, 7), (3000, 2)])
def test_it_is_the_sum(m, d, outputs):
    rng = np.random.default_rng(m)
    Z, X = rng.standard_normal((m, d)), rng.standard_normal((2500, d))
    beta, b = rng.standard_normal((m, outputs)) / m, rng.standard_normal(outputs)
    model = Expansion.of(Z, beta, b, 0.3)
    expected = dense_sum(X, Z, beta, b, 0.3)
    np.testing.assert_allclose(model.decide(X), expected, atol=1e-5)
    np.testing.assert_allclose(model.decide(sp.csr_array(X)), expected, atol=1e-5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decide(X), model.decide(X))
    assert model.nbytes == 4 * (m * d + m * outputs + outputs + d)
    assert model.decide(X[:0]).shape == (0, outputs)


@pytest.mark.parametrize(("spread", "gamma"), [(1.0, 1e12), (1e4, 1.0), (1.0, 1e-12), (1e-3, 1e5)])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_it_keeps_its_digits(spread, gamma, offset):
    rng = np.random.default_rng(0)
    Z = offset + spread * rng.standard_normal((30, 4)).astype(np.float32).astype(np.float64)
    X = np.concatenate([Z, Z + 0.3 / np.sqrt(gamma) * rng.standard_normal(Z.shape)])
    beta = rng.standard_normal((30, 1))
    model = Expansion.of(Z, beta, np.zeros(1), gamma)
    # The units as they are stored, rounded to float32 about their centre.
    units = model.units.astype(np.float64) + model.centre
    tolerance = 3e-4
    np.testing.assert_allclose(model.decide(X), dense_sum(X, units, beta, 0.0, gamma), atol=tolerance)


def test_no_units_leave_the_intercept():
    model = Expansion.of(np.zeros((0, 3)), np.zeros((0, 2)), np.array([1.0, -2.0]), 1.0)
    np.testing.assert_array_equal(model.decide(np.ones((5, 3))), np.tile([1.0, -2.0], (5, 1)))
