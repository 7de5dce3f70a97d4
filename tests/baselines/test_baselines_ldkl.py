"""Local deep kernel learning against all nodes with their indicators, and its slopes against differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from baselines.base import moments
from baselines.ldkl import LDKLClassifier, PathTrees, _Descent


def all_nodes(model, X):
    """f with every node evaluated in float64, times the indicator of the paths through it."""
    rows = np.hstack([X - model.centre.astype(np.float64), np.ones((len(X), 1))])
    out = np.zeros((len(X), model.n_outputs))
    for tree in range(model.n_outputs):
        indicator = {0: np.ones(len(X))}
        for node in range(model.weights.shape[1]):
            gate = np.tanh(model.sigma * (rows @ model.theta_prime[tree, node].astype(float)))
            out[:, tree] += indicator[node] * gate * (rows @ model.weights[tree, node].astype(float))
            if node < model.theta.shape[1]:
                left = rows @ model.theta[tree, node].astype(float) > 0
                indicator[2 * node + 1] = indicator[node] * left
                indicator[2 * node + 2] = indicator[node] * ~left
    return out


def random_trees(depth, d, outputs, rng):
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    draw = [rng.standard_normal((outputs, size, d + 1)).astype(np.float32) for size in (inner, nodes, nodes)]
    return PathTrees(*draw, 0.7, rng.standard_normal(d).astype(np.float32))


@pytest.mark.parametrize("depth", [0, 1, 3, 7])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_path_gives_what_all_nodes_give(depth, outputs):
    rng = np.random.default_rng(depth)
    trees = random_trees(depth, 6, outputs, rng)
    assert trees.depth == depth
    X = rng.standard_normal((5000, 6))
    np.testing.assert_allclose(trees.decide(X), all_nodes(trees, X), atol=2e-4)
    np.testing.assert_array_equal(trees.decide(sp.csr_array(X)), trees.decide(X))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_slopes_equal_differences_of_the_smooth_value(depth):
    rng = np.random.default_rng(1)
    descent = _Descent(depth, 0.0, 0.0, 0.0, sigma=0.8, n_epochs=1, batch_size=1, step=1.0)
    columns = 2**depth - 1 + 2 * (2 ** (depth + 1) - 1)
    products = rng.standard_normal((4, columns))
    _, slopes = descent.value_and_slopes(products, 1.3)
    for column in range(columns):
        moved = [products.copy() for _ in range(2)]
        moved[0][:, column] -= 1e-5
        moved[1][:, column] += 1e-5
        low, high = (descent.value_and_slopes(p, 1.3)[0] for p in moved)
        np.testing.assert_allclose(slopes[:, column], (high - low) / 2e-5, atol=1e-7)


def test_the_smooth_value_becomes_that_of_the_path():
    rng = np.random.default_rng(2)
    trees = random_trees(4, 3, 1, rng)
    X = rng.standard_normal((300, 3))
    rows = np.hstack([X - trees.centre, np.ones((300, 1))])
    products = rows @ np.concatenate([trees.theta[0], trees.theta_prime[0], trees.weights[0]]).T
    descent = _Descent(4, 0.0, 0.0, 0.0, sigma=trees.sigma, n_epochs=1, batch_size=1, step=1.0)
    values, _ = descent.value_and_slopes(products, 1e4)
    clear = (np.abs(products[:, :15]) > 1e-2).all(axis=1)
    assert clear.sum() > 200
    np.testing.assert_allclose(values[clear], trees.decide(X)[clear, 0], atol=1e-4)


def testmoments_are_weighted_and_know_constant_features():
    rng = np.random.default_rng(3)
    X = np.hstack([rng.random((500, 2)) + 1e4, np.full((500, 1), 7.0), np.zeros((500, 1))])
    weights = rng.integers(1, 4, 500).astype(float)
    mean, scale = moments(X, weights)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    np.testing.assert_allclose(mean, repeated.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scale, [*repeated.std(axis=0)[:2], 1.0, 1.0], rtol=1e-4)


def test_units_of_the_features_do_not_matter():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((600, 3))
    y = X[:, 0] * X[:, 1] > 0
    fit = [
        LDKLClassifier(3, n_epochs=10, random_state=0).fit(rows, y).decision_function(rows)
        for rows in (X, X * [1e-3, 1.0, 64.0], X + 100.0)
    ]
    for other in fit[1:]:
        assert np.mean((fit[0] > 0) == (other > 0)) > 0.97
