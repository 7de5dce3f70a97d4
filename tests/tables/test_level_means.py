"""Numbers for levels and for pairs of levels: the obvious sums, which are kept, and when they help."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import gramian as gm
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.boosting.boosted import group_codes, join_groups
from gramian.tables.empirical import centred_ranks
from gramian.tables.level_means import (
    ADDED,
    FOLDS,
    SWEEPS,
    level_groups,
    level_means,
    level_pairs,
    with_means,
)


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


# ---- numbers for pairs of levels --------------------------------------------------------------------

SIZES = (4, 5, 3)


def levels(n=3000, seed=0):
    """Three categories; some rows of the first are of no level."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(1, size + 1, n) for size in SIZES])
    codes[rng.random(n) < 0.1, 0] = 0
    return codes, rng


def interaction(codes, rng, noise=0.5):
    table = rng.standard_normal((SIZES[0] + 1, SIZES[1] + 1))
    return table[codes[:, 0], codes[:, 1]] + codes[:, 2] + noise * rng.standard_normal(len(codes))


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_effects_and_shrunken_means_of_the_other_parts(weighted):
    codes, rng = levels()
    y = interaction(codes, rng)
    weights = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    w = np.ones(len(y)) if weights is None else weights
    (pair,), own = level_pairs(codes, SIZES, y[:, None], weights, np.random.default_rng(1))
    assert (pair.first, pair.second) == (0, 1)
    rest = centred_ranks(y[:, None], weights)[:, 0]
    effects = [np.zeros(size + 1) for size in SIZES]
    for _ in range(SWEEPS):
        for j, size in enumerate(SIZES):
            rest += effects[j][codes[:, j]]
            for level in range(size + 1):
                here = codes[:, j] == level
                effects[j][level] = w[here] @ rest[here] / (w[here].sum() + ADDED)
            rest -= effects[j][codes[:, j]]
    parts = np.random.default_rng(1).permutation(len(y)) % FOLDS

    def sums(level, some):
        here = some & (codes[:, 0] == level[0]) & (codes[:, 1] == level[1])
        return w[here] @ rest[here], w[here].sum()

    every = np.ones(len(y), bool)
    base = effects[0][1] + effects[1][2]
    total, count = sums((1, 2), every)
    # The sign of the axis, and the rows that are added, follow from one number.
    sign = np.sign(np.corrcoef(own[:, 0], y)[0, 1])
    added = total / (sign * pair.values[1, 2] - base) - count
    assert 0.999 <= added <= 100.1
    for a in range(SIZES[0] + 1):
        for b in range(SIZES[1] + 1):
            total, count = sums((a, b), every)
            expected = effects[0][a] + effects[1][b] + total / (count + added)
            assert sign * pair.values[a, b] == pytest.approx(expected, abs=1e-9)
    for i in (0, 100, 2500):
        total, count = sums(codes[i, :2], parts != parts[i])
        expected = effects[0][codes[i, 0]] + effects[1][codes[i, 1]] + total / (count + added)
        assert sign * own[i, 0] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(pair.look_up(codes[:5]), pair.values[codes[:5, 0], codes[:5, 1]])


def test_pairs_that_only_add_up_are_not_kept():
    kept = 0
    for seed in range(5):
        codes, rng = levels(seed=seed)
        y = codes @ np.array([0.3, 0.2, 0.5]) + 2.0 * rng.standard_normal(len(codes))
        kept += len(level_pairs(codes, SIZES, y[:, None], None, rng)[0])
    assert kept <= 1


def test_classes_take_one_axis_and_rows_of_other_levels_their_effects():
    codes, rng = levels()
    y = (codes[:, 0] + codes[:, 1] + (rng.random(len(codes)) < 0.2)) % 2
    pairs, own = level_pairs(codes, SIZES, np.eye(2)[y], None, rng)
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1)]
    assert abs(np.corrcoef(own[:, 0], y)[0, 1]) > 0.5
    rows = np.zeros((2, 12))
    rows[0, [2, 6]] = 1.0
    groups = ((0, 1, 2, 3), (4, 5, 6, 7, 8), (9, 10, 11))
    assert group_codes(rows, groups).tolist() == [[3, 3, 0], [0, 0, 0]]
    seen = join_groups(rows, groups, np.zeros(12), pairs)
    np.testing.assert_array_equal(seen[:, -1], pairs[0].values[[3, 0], [3, 0]])


def test_boosting_sees_pairs_where_they_help(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (1500, 3)).astype(str).astype(object)
    table = rng.standard_normal((8, 8))
    y = table[X[:, 0].astype(int), X[:, 1].astype(int)] + 0.3 * rng.standard_normal(len(X))
    model = gm.TabularRegressor(include=("boosting",), random_state=0).fit(X[:1000], y[:1000])
    pairs = model.model_.boosted_.pairs
    assert (pairs[0].first, pairs[0].second) == (0, 1)
    assert model.score(X[1000:], y[1000:]) > 0.85
    gm.save(model, tmp_path / "model.gm")
    np.testing.assert_array_equal(gm.load(tmp_path / "model.gm").predict(X[1000:]), model.predict(X[1000:]))
