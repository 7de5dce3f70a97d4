"""Sums of trees: the same numbers as scikit-learn's, and nodes that are none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian.exceptions import InputError
from gramian.kernels import compiled
from gramian.tables.boosting import trees as trees_module
from gramian.tables.boosting.trees import CODES, NONE, Trees


@pytest.fixture(
    autouse=True,
    params=[
        "NumPy",
        pytest.param("numba", marks=pytest.mark.skipif(not compiled.available(), reason="no numba")),
    ],
)
def one_thread(request, monkeypatch):
    """By NumPy and by compiled loops; threads of several tests that wait for each other are slow."""
    monkeypatch.setattr(trees_module, "at_hand", lambda steps: request.param == "numba")
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
                value, left = row[trees.columns[node]], row[trees.columns[node]] <= trees.numbers[node]
                if trees.sets[node] >= 0:
                    left = int(trees.lefts[trees.sets[node], int(value) // 32]) >> int(value) % 32 & 1
                node = node + 1 if left else end_of(node + 1)
            out[i, output] += trees.numbers[node]
    return out


@pytest.mark.parametrize("leaves", [2, 5, 31, 32])
def test_values_are_those_of_the_model(leaves):
    X = drawn()
    y = np.sin(2.0 * X[:, 0]) + X[:, 3] * (X[:, 1] > 0)
    model = HistGradientBoostingRegressor(max_iter=70, max_leaf_nodes=leaves, min_samples_leaf=5).fit(X, y)
    trees, new = Trees.of_boosting([model]), drawn(1500, 1)
    np.testing.assert_array_equal(trees.predict(new)[:, 0], model.predict(new))
    np.testing.assert_array_equal(trees.predict(new[:20]), one_by_one(trees, new[:20]))
    np.testing.assert_array_equal(trees.predict(X)[:, 0], model.predict(X))  # values at thresholds too
    few = Trees.of_boosting([model], 3)
    *_, third = zip(range(3), model.staged_predict(new), strict=False)
    np.testing.assert_array_equal(few.predict(new)[:, 0], third[1])
    again = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(again.predict(new), trees.predict(new))
    assert trees.predict(new[:0]).shape == (0, 1)


def test_outputs_side_by_side():
    X = drawn()
    y = np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])
    model = HistGradientBoostingClassifier(max_iter=25).fit(X, y)
    np.testing.assert_array_equal(Trees.of_boosting([model]).predict(X), model.decision_function(X))
    two = [HistGradientBoostingRegressor(max_iter=m).fit(X, X[:, m]) for m in (1, 4)]
    found = Trees.of_boosting(two).predict(X)
    np.testing.assert_array_equal(found, np.column_stack([model.predict(X) for model in two]))


@pytest.mark.parametrize("classes", [False, True])
def test_categories_seen_unseen_and_missing(classes):
    rng = np.random.default_rng(0)
    X = drawn(600)
    X[:, 1], X[:, 4] = rng.choice([0, 2, 3, 7, 40, 254], 600), rng.choice([5.0, 6.0, np.nan], 600)
    steps = np.isin(X[:, 1], (2, 40)) + 2.0 * np.isnan(X[:, 4]) + (X[:, 0] > 0)
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(max_iter=70, max_leaf_nodes=16, min_samples_leaf=5, categorical_features=[1, 4])
    model.fit(X, steps.astype(int))
    trees, new = Trees.of_boosting([model]), drawn(900, 1)
    assert (trees.sets >= 0).sum() == len(trees.lefts) > 70
    new[:, 1], new[:, 4] = rng.choice([0, 1, 2, 7, 40, 41, 254], 900), rng.choice([5, 6, 9, np.nan], 900)
    coded = np.where(np.isnan(new), NONE, new)
    expected = (model.decision_function if classes else model.predict)(new).reshape(900, -1)
    np.testing.assert_array_equal(trees.predict(coded), expected)
    np.testing.assert_array_equal(trees.predict(coded[:20]), one_by_one(trees, coded[:20]))
    strange = coded.copy()
    strange[coded == NONE] = rng.choice([-1.0, 300.0, np.inf, np.nan], (coded == NONE).sum())
    np.testing.assert_array_equal(trees.predict(strange), expected)  # what is no code is no known category


def test_no_trees():
    np.testing.assert_array_equal(Trees.none().predict(drawn(3)), np.zeros((3, 1)))


GOOD = {
    "columns": [0, -1, -1],
    "numbers": [0.5, 1.0, 2.0],
    "sets": [-1, -1, -1],
    "lefts": np.zeros((0, CODES // 32), np.uint32),
    "lengths": [3],
    "outputs": [0],
    "starts": [0.0],
}


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
        {"columns": [0, *[-1, 0] * 32, -1], "numbers": [0.0] * 66, "sets": [-1] * 66, "lengths": [66]},
        {"sets": [-1, -1]},
        {"sets": [0, -1, -1]},
        {"sets": [-2, -1, -1]},
        {"lefts": np.zeros((1, 7), np.uint32)},
        {"lefts": np.zeros(8, np.uint32)},
    ],
)
def test_nodes_that_are_no_trees(wrong):
    Trees(*map(np.array, GOOD.values()))
    with pytest.raises(InputError, match=r"do not make|are no tree"):
        Trees(*map(np.array, (GOOD | wrong).values()))


def test_a_tree_of_33_leaves_is_refused():
    columns = np.array([*[0, -1] * 32, -1])
    numbers, one, lefts = np.zeros(65), np.array([0]), GOOD["lefts"]
    with pytest.raises(InputError, match="at most 32 leaves"):
        Trees(columns, numbers, np.full(65, -1), lefts, np.array([65]), one, np.zeros(1))
