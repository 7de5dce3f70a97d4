"""Level means of categories: the obvious sums, their place in encoded rows, and when a search takes them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import gramian as gm
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.level_means import ADDED, level_groups, level_means, with_means


def mixed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), object)
    X[:, 0] = rng.choice(["low", "middle", "high"], n)
    X[:, 1] = rng.standard_normal(n)
    X[:, 2] = np.where(rng.random(n) < 0.97, "usual", rng.choice(["a", "b"], n))
    return X


def learned(X, targets, weights=None):
    columns = TableColumns.learn(X, sample_weight=weights)
    rows, every = EncodedRows(columns, X), np.arange(len(X))
    groups = level_groups(columns.features, rows.take, every)
    return columns, level_means(groups, rows.take, every, targets, weights)


def distribution(t, w):
    return np.array([w[t < value].sum() + 0.5 * w[t == value].sum() for value in t]) / w.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_means_are_shrunken_means_of_ranks(weighted):
    X, rng = mixed(), np.random.default_rng(1)
    t = np.exp(3.0 * rng.standard_normal(len(X))) * np.where(X[:, 0] == "high", 9.0, 1.0)
    w = rng.integers(1, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    columns, (means,) = learned(X, t[:, None], w if weighted else None)
    rank = distribution(t, w)
    rank -= np.average(rank, weights=w)
    expected = []
    for level in columns.columns[0].categories:
        own = X[:, 0] == level
        expected.append((w * rank)[own].sum() / (w[own].sum() + ADDED))
    # The third column has a single level of 20 rows or more.
    assert (means.column, means.places) == ("0", slice(0, 3))
    np.testing.assert_allclose(np.array(means.values) * np.sign(means.axis[0]), expected, rtol=1e-5)


def test_several_outputs_give_their_principal_axis():
    X = mixed()
    order = np.select([X[:, 0] == "low", X[:, 0] == "middle"], [0, 1], 2)
    targets = np.column_stack([order == 0, order == 1, order == 2]).astype(float)
    columns, (means,) = learned(X, targets)
    assert np.linalg.norm(means.axis) == pytest.approx(1.0)
    assert len(set(means.values)) == 3
    # The axis of the same targets is taken for other rows.
    rows = EncodedRows(columns, X)
    groups = level_groups(columns.features, rows.take, np.arange(400))
    (few,) = level_means(groups, rows.take, np.arange(100), targets[:100], None, (means,))
    assert few.axis == means.axis
    assert few.values != means.values


def test_encoded_rows_have_means_behind_all_columns():
    X = mixed()
    columns, means = learned(X, (X[:, 0] == "high").astype(float)[:, None])
    wide = replace(columns, means=means)
    rows = np.array([["high", 0.5, "usual"], ["unknown", 0.5, "a"]], object)
    plain, encoded = columns.encode(rows), wide.encode(rows)
    np.testing.assert_array_equal(encoded[:, :-1], plain)
    level = columns.columns[0].categories.index("high")
    np.testing.assert_array_equal(encoded[:, -1], np.array([means[0].values[level], 0.0], encoded.dtype))
    np.testing.assert_array_equal(encoded, with_means(plain, means).astype(encoded.dtype))
    feature = wide.features[-1]
    assert (feature.kind, feature.column, wide.feature_names[-1]) == ("levels", "0", "0 (level means)")
    assert wide.width - 1 in wide.numeric
    low, high = wide.ranges
    assert low[-1] == min(0.0, *means[0].values)
    assert high[-1] == max(0.0, *means[0].values)


def test_rows_of_weight_2_count_as_two():
    X = np.array([["a"], ["b"], ["c"]] * 10, object)
    columns = TableColumns.learn(X)
    read, every = EncodedRows(columns, X).take, np.arange(30)
    assert level_groups(columns.features, read, every) == []
    assert level_groups(columns.features, read, every, np.full(30, 2.0)) == [columns.features[0]]


def test_tables_without_such_categories_have_none():
    assert learned(np.random.default_rng(0).random((50, 2)), np.zeros((50, 1)))[1] == ()
    few = mixed(30)
    assert learned(few, np.zeros((30, 1)))[1] == ()


def ordered():
    """Rows of five ordered categories, and a number that depends on pairs of their places."""
    places = np.array(list(itertools.product(range(5), repeat=5)))
    places = places[np.random.default_rng(0).permutation(len(places))[:900]]
    X = np.array(["k", "c", "z", "a", "m"], object)[places]
    return X, (places[:, 0] * places[:, 1] + places[:, 2] * places[:, 3]).astype(float)


@pytest.mark.slow
def test_ordered_categories_are_found_and_help():
    X, total = ordered()
    y = np.where(total > 7, "above", "below")
    model = gm.TabularClassifier(include=(), random_state=0).fit(X[:700], y[:700])
    assert model.search_.setting.levels
    assert [each.column for each in model.columns_.means] == list("01234")
    assert model.score(X[700:], y[700:]) >= 0.96
    assert model.feature_importances_.shape == (5,)
    assert len(model.columns_.feature_names) == model.transform_rows(X[:2]).shape[1] == 30
    numbers = gm.TabularRegressor(include=(), random_state=0).fit(X[:700], total[:700])
    assert numbers.score(X[700:], total[700:]) >= 0.99


def test_categories_without_an_order_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.choice(list("abcd"), (400, 3)).astype(object)
    y = np.where((X[:, 0] == X[:, 1]) ^ (rng.random(400) < 0.05), "same", "other")
    model = gm.TabularClassifier(include=(), random_state=0).fit(X, y)
    assert not model.columns_.means
    assert model.columns_.width == 12


@pytest.mark.slow
def test_models_with_means_are_stored_and_compressed(tmp_path):
    X, total = ordered()
    model = gm.TabularClassifier(include=(), random_state=0).fit(X, total > 7)
    assert model.columns_.means
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict_proba(X[:50]), model.predict_proba(X[:50]))
    fast = model.compress(X, cost="20x", n_levels=0, n_units=4, n_directions=2)
    assert (fast.predict(X) == model.predict(X)).mean() > 0.9
