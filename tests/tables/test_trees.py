"""Sums of trees: the same numbers as scikit-learn's, and nodes that are none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian.exceptions import InputError
from gramian.tables.boosting.trees import Trees


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of several tests that wait for each other are slow."""
    with threadpool_limits(1):
        yield


def drawn(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    X[:, 3] = rng.integers(0, 3, n)
    return X


def one_by_one(trees, rows):
    """Lead each row through each tree: the oracle."""
    out = np.tile(trees.starts, (len(rows), 1))
    ends = np.cumsum(trees.lengths)

    def end_of(node):
        return node + 1 if trees.columns[node] < 0 else end_of(end_of(node + 1))

    for first, output in zip(ends - trees.lengths, trees.outputs, strict=True):
        for i, row in enumerate(rows):
            node = first
            while trees.columns[node] >= 0:
                node = node + 1 if row[trees.columns[node]] <= trees.numbers[node] else end_of(node + 1)
            out[i, output] += trees.numbers[node]
    return out


@pytest.mark.parametrize("leaves", [2, 5, 31, 32])
def test_values_are_those_of_the_model(leaves):
    X = drawn()
    y = np.sin(2.0 * X[:, 0]) + X[:, 3] * (X[:, 1] > 0)
    model = HistGradientBoostingRegressor(max_iter=70, max_leaf_nodes=leaves, min_samples_leaf=5).fit(X, y)
    trees, new = Trees.of_boosting([model]), drawn(1500, 1)
    np.testing.assert_allclose(trees.of(new)[:, 0], model.predict(new), atol=1e-12)
    np.testing.assert_allclose(trees.of(new[:20]), one_by_one(trees, new[:20]), atol=1e-12)
    np.testing.assert_allclose(trees.of(X)[:, 0], model.predict(X), atol=1e-12)  # values at thresholds too
    few = Trees.of_boosting([model], 3)
    *_, third = zip(range(3), model.staged_predict(new), strict=False)
    np.testing.assert_allclose(few.of(new)[:, 0], third[1], atol=1e-12)
    again = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(again.of(new), trees.of(new))
    assert trees.of(new[:0]).shape == (0, 1)


def test_outputs_side_by_side():
    X = drawn()
    y = np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])
    model = HistGradientBoostingClassifier(max_iter=25).fit(X, y)
    np.testing.assert_allclose(Trees.of_boosting([model]).of(X), model.decision_function(X), atol=1e-12)
    two = [HistGradientBoostingRegressor(max_iter=m).fit(X, X[:, m]) for m in (1, 4)]
    found = Trees.of_boosting(two).of(X)
    np.testing.assert_allclose(found, np.column_stack([model.predict(X) for model in two]), atol=1e-12)


def test_no_trees():
    np.testing.assert_array_equal(Trees.none().of(drawn(3)), np.zeros((3, 1)))


GOOD = {"columns": [0, -1, -1], "numbers": [0.5, 1.0, 2.0], "lengths": [3], "outputs": [0], "starts": [0.0]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": [0, -1, 0]},
        {"columns": [-1, 0, -1]},
        {"columns": [0, -2, -1]},
        {"numbers": [0.5]},
        {"lengths": [2]},
        {"lengths": [1, 2], "outputs": [0, 0]},
        {"lengths": [3, 0], "outputs": [0, 0]},
        {"outputs": [1]},
        {"outputs": [-1]},
        {"columns": [0, *[-1, 0] * 32, -1], "numbers": [0.0] * 66, "lengths": [66]},
    ],
)
def test_nodes_that_are_no_trees(wrong):
    Trees(*map(np.array, GOOD.values()))
    with pytest.raises(InputError, match=r"do not make|are no tree"):
        Trees(*map(np.array, (GOOD | wrong).values()))


def test_a_tree_of_33_leaves_is_refused():
    columns = np.array([*[0, -1] * 32, -1])
    numbers, one = np.zeros(65), np.array([0])
    with pytest.raises(InputError, match="at most 32 leaves"):
        Trees(columns, numbers, np.array([65]), one, np.zeros(1))
