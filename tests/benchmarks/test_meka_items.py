"""The MEKA paper's items on small sets: equation (5) against dense algebra, sizes, what verdicts say."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from papers.meka_methods import BASELINES, LITERAL, MEKA_LITERAL, OURS, Sizes, fitted, numbers
from papers.meka_regression import spectrum

RNG = np.random.default_rng(0)
X, NEW = RNG.random((300, 3)).astype(np.float32), RNG.random((40, 3)).astype(np.float32)
Y = np.sin(5.0 * X[:, 0]) + X[:, 1]
METHODS = (*BASELINES, MEKA_LITERAL, *OURS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_both_regressions_equal_the_dense_solves(method):
    a, _ = fitted(method, Sizes(X, 40.0, 3, 0), 1.0)
    values, own, mapped = spectrum(a, X, Y, NEW)
    if hasattr(a, "operator_"):
        K, cross = a.operator_.to_dense(), np.asarray(a.cross(NEW) @ np.eye(len(X)))
    else:
        F, G = a.transform(X).astype(float), a.transform(NEW).astype(float)
        K, cross = F @ F.T, G @ F.T
    five = cross @ np.linalg.solve(K @ K + 0.1 * np.eye(300), K @ Y)
    np.testing.assert_allclose(mapped @ (values**2 / (values**2 + 0.1) * own), five, atol=2e-3)
    if method.name not in (LITERAL, "MEKA, sampled with a ridge"):  # whose core need not be definite
        ridge = cross @ np.linalg.solve(K + 0.1 * np.eye(300), Y)
        np.testing.assert_allclose(mapped @ (values / (values + 0.1) * own), ridge, atol=2e-3)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_the_memory_that_it_is_given(method):
    a, _ = fitted(method, Sizes(X, 40.0, 3, 0), 5.0)
    assert 0.85 * 40.0 <= numbers(a) / len(X) <= 1.1 * 40.0


def test_a_singular_literal_core_is_no_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(MEKA_LITERAL, Sizes(X, 20.0, 3, 0), 1e7) is None
