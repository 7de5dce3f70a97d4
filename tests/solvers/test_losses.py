"""Losses against their definitions and against difference quotients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramian.solvers.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Softmax,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from gramian.svm.newton_check import FIXED

SIGNS = [SquaredHinge(), Hinge(0.6), Hinge(1e-3), Logistic()]
NUMBERS = [SquaredEpsilonInsensitive(0.2), EpsilonInsensitive(0.2, 0.1), EpsilonInsensitive(0.05, 3.0)]


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    f = rng.normal(0, 2, (60, 3))
    y = np.full((60, 3), -1.0)
    y[np.arange(60), rng.integers(0, 3, 60)] = 1.0
    return y, rng.normal(0, 1, (60, 3)), f


@pytest.mark.parametrize("loss", [*SIGNS, *NUMBERS, Softmax()], ids=repr)
def test_slope_and_curvature_are_derivatives(loss, values):
    signs, numbers, f = values
    y = numbers if loss in NUMBERS else signs
    terms = loss.terms(y, f)
    step = 1e-6
    for column in range(3):
        moved = np.zeros_like(f)
        moved[:, column] = step
        up, down = loss.terms(y, f + moved), loss.terms(y, f - moved)
        rise = (up.value - down.value).sum(axis=1) / (2 * step)
        np.testing.assert_allclose(terms.slope[:, column], rise, atol=2e-4)
        bend = (up.slope - down.slope)[:, column] / (2 * step)
        smooth = np.abs(up.curvature - down.curvature)[:, column] < 1e-2  # no kink between the two
        np.testing.assert_allclose(terms.curvature[smooth, column], bend[smooth], atol=1e-4)
    assert (terms.curvature >= 0).all()


def test_values_by_definition(values):
    y, t, f = values
    np.testing.assert_allclose(SquaredHinge().terms(y, f).value, np.maximum(0, 1 - y * f) ** 2)
    np.testing.assert_allclose(Logistic().terms(y, f).value, np.log1p(np.exp(-y * f)))
    excess = np.maximum(0, np.abs(f - t) - 0.2)
    np.testing.assert_allclose(SquaredEpsilonInsensitive(0.2).terms(t, f).value, excess**2)
    own = np.exp(f)[y > 0] / np.exp(f).sum(axis=1)
    np.testing.assert_allclose(Softmax().terms(y, f).value[:, 0], -np.log(own))


@pytest.mark.parametrize("loss", [Hinge(0.7), EpsilonInsensitive(0.2, 0.7)], ids=repr)
def test_proximal_losses_by_their_definition_as_a_maximum(loss, values):
    signs, numbers, f = values
    y = signs if isinstance(loss, Hinge) else numbers
    anchor = np.random.default_rng(1).uniform(0 if isinstance(loss, Hinge) else -1, 1, f.shape)
    grid = np.linspace(0 if isinstance(loss, Hinge) else -1, 1, 2001)[:, None, None]
    u, cost = (1 - y * f, 0 * grid) if isinstance(loss, Hinge) else (f - y, 0.2 * np.abs(grid))
    tried = grid * u - cost - 0.35 * (grid - anchor) ** 2
    np.testing.assert_allclose(loss.terms(y, f, anchor).value, tried.max(axis=0), atol=1e-5)
    dual = loss.dual(y, f, anchor)
    np.testing.assert_allclose(dual, grid[tried.argmax(axis=0), 0, 0], atol=2e-3)
    np.testing.assert_allclose(np.abs(loss.terms(y, f, anchor).slope), np.abs(dual))
    best = (grid * u - cost).max(axis=0)
    gap = best - dual * u + (0 if isinstance(loss, Hinge) else 0.2 * np.abs(dual))
    np.testing.assert_allclose(loss.gap(y, f, dual), gap, atol=1e-9)
    assert loss.gap(y, f, dual).min() >= -1e-15
    assert loss.sharper(0.5).rho == pytest.approx(0.35)


@pytest.mark.parametrize("loss", [Hinge(0.7), EpsilonInsensitive(0.2, 0.7)], ids=repr)
def test_contracts_of_proximal_losses(loss, values):
    signs, numbers, f = values
    y = signs if isinstance(loss, Hinge) else numbers
    excess = np.maximum(0, 1 - y * f if isinstance(loss, Hinge) else np.abs(f - y) - 0.2)
    np.testing.assert_array_equal(loss.gap(y, f, np.zeros_like(f)), excess)  # c(0) = 0
    anchor = np.random.default_rng(1).uniform(0.01, 1, f.shape)
    np.testing.assert_array_equal(replace(loss, rho=FIXED).dual(y, f, anchor), anchor)


def test_large_values_do_not_overflow(values):
    y, _, f = values
    with np.errstate(all="raise", under="ignore"):
        for loss in (Logistic(), Softmax()):
            for part in loss.terms(y, 1e4 * f):
                assert np.isfinite(part).all()
