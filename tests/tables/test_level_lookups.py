"""Numbers for the levels of categories of many levels, and how training rows get theirs."""

from __future__ import annotations

import runpy
from dataclasses import replace

import numpy as np
import pytest

import gramian as gm
from gramian.data.tables import as_table
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.empirical import distribution
from gramian.tables.level_means import level_lookups

pytestmark = pytest.mark.filterwarnings("ignore:Column .* values, of which")  # many rare levels are the point
QUICK = {"kernel": "laplacian", "scaling": "standard", "random_state": 0, "n_jobs": 1}


def table(n_levels=200, n=2000, seed=0, between=1.0):
    """A category of many levels and a number; half of the target's variance is the levels'."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_levels, n)
    X = np.empty((n, 2), object)
    X[:, 0], X[:, 1] = np.char.add("L", codes.astype(str)), rng.standard_normal(n)
    return X, between * rng.standard_normal(n_levels)[codes] + rng.standard_normal(n), codes


def found_for(X, y, weights=None, n_folds=5):
    columns = TableColumns.learn(X)
    rows = EncodedRows(columns, X)
    folds = np.array_split(np.random.default_rng(1).permutation(len(y)), n_folds)
    own = level_lookups(columns.columns, rows.order, as_table(X), y[:, None], weights, folds)
    return columns, rows, folds, *own


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_shrunken_means_of_the_other_folds(weighted):
    X, y, _ = table()
    weights = np.random.default_rng(2).integers(1, 4, len(y)).astype(float) if weighted else None
    w = np.ones(len(y)) if weights is None else weights
    _, _, folds, (lookup,), own = found_for(X, y, weights)
    t = np.interp(y, *distribution(y, weights))
    t -= np.average(t, weights=w)

    def moments(level, some):
        here = some & (X[:, 0] == level)
        return w[here] @ t[here], w[here].sum()

    every = np.ones(len(y), bool)
    whole = np.array([moments(level, every) for level in lookup.levels])
    # The rows that are added, from one level's number; its sign is the axis's.
    sign = np.sign(whole[0, 0] / lookup.values[0])
    added = sign * whole[0, 0] / lookup.values[0] - whole[0, 1]
    assert 0.999 <= added <= 100.1
    np.testing.assert_allclose(lookup.values, sign * whole[:, 0] / (whole[:, 1] + added), atol=1e-5)
    for i in (0, 7, 1234):
        others = every.copy()
        others[next(fold for fold in folds if i in fold)] = False
        total, count = moments(X[i, 0], others)
        assert own[i, 0] == pytest.approx(sign * total / (count + added), abs=1e-5)


def test_encoded_rows_have_them_behind_all_others():
    X, y, _ = table()
    columns, rows, _, lookups, own = found_for(X, y)
    wide = rows.with_columns(replace(columns, lookups=lookups), own)
    assert wide.feature_names[-1] == "0 (level means)"
    np.testing.assert_allclose(wide.rows(slice(3, 9))[:, -1], own[3:9, 0])
    np.testing.assert_allclose(wide.take(np.array([5, 1]))[:, -1], own[[5, 1], 0])
    new = np.array([["L3", 1.0], ["never seen", 1.0], [None, 1.0]], object)
    numbers = wide.columns.encode(new)[:, -1]
    assert numbers[0] == lookups[0].values[lookups[0].levels.index("L3")]
    np.testing.assert_array_equal(numbers[1:], 0.0)
    gone = np.array([[None, 1.0]], object)
    assert wide.columns.encode(gone)[0, -1] == 0.0
    low, high = wide.columns.ranges
    assert low[-1] == lookups[0].values.min()
    assert high[-1] == lookups[0].values.max()


def test_a_level_of_one_row_says_nothing_of_that_row():
    X, y, _ = table()
    X[:100, 0] = [f"single {j}" for j in range(100)]
    *_, own = found_for(X, y)
    np.testing.assert_array_equal(own[:100, 0], 0.0)


def test_no_numbers_where_levels_do_not_differ_or_are_few():
    X, y, codes = table()
    same = y.copy()
    for level in np.unique(codes):  # the same mean in each level
        same[codes == level] -= same[codes == level].mean()
    assert found_for(X, same)[3] == ()
    few, y, _ = table(n_levels=20)
    assert found_for(few, y)[3] == ()  # each level has a one-hot place


@pytest.mark.parametrize(
    ("values", "otherwise"),
    [
        (np.arange(150) * 0.1 + 0.05, lambda x: x.astype(np.float32)),
        ((np.arange(150) * 0.1 + 0.05).astype(np.float32), lambda x: x.astype(float).round(3)),
        (np.datetime64("2020-01-01") + np.arange(150), lambda x: np.char.add(x.astype(str), " 00:00:00")),
    ],
    ids=["float64-float32", "float32-float64", "dates-midnight"],
)
def test_a_level_written_otherwise_has_its_number(values, otherwise):
    _, y, codes = table(n_levels=150)
    levels = values if values.dtype.kind == "f" else values.astype(str)
    X = levels[codes][:, None]
    columns = TableColumns.learn(X, categorical=[0])
    found, _ = level_lookups(columns.columns, (0,), as_table(X), y[:, None], None, [np.arange(len(y))])
    assert len(found) == 1
    columns = replace(columns, lookups=found)
    np.testing.assert_array_equal(columns.encode(otherwise(X)), columns.encode(X))


def test_half_of_the_variance_in_rare_levels():
    X, y, _ = table(n_levels=300, n=2400)
    model = gm.TabularRegressor(include=(), metric=None, **QUICK).fit(X[:2000], y[:2000])
    assert len(model.columns_.lookups) == 1
    # At best 0.5 - 0.5/8 for levels of seven rows; without the numbers nothing: the hundred most frequent
    # levels have a place each.
    assert model.score(X[2000:], y[2000:]) > 0.3


@pytest.mark.slow
def test_files_and_exports_keep_them(tmp_path):
    X, y, _ = table(n_levels=150, n=1200, between=2.0)
    labels = np.where(y > 0, "up", "down")
    model = gm.TabularClassifier(include=(), metric=None, **QUICK).fit(X, labels)
    assert len(model.columns_.lookups) == 1
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    fast = gm.compress(model, X, cost="1us", random_state=0)
    gm.export(fast, tmp_path / "fast.py")
    exported = runpy.run_path(str(tmp_path / "fast.py"))
    np.testing.assert_allclose(exported["predict_proba"](X[:50]), fast.predict_proba(X[:50]), atol=1e-5)


@pytest.mark.slow
def test_a_category_of_100000_levels_is_quick_and_harmless():
    n = 3000
    rng = np.random.default_rng(0)
    X = np.empty((n, 2), object)
    X[:, 0], X[:, 1] = [f"L{j}" for j in rng.integers(0, 100_000, n)], rng.standard_normal(n)
    X[:1000, 0] = [f"L{j}" for j in rng.integers(0, 30, 1000)]
    y = X[:, 1].astype(float) + 0.1 * rng.standard_normal(n)
    model = gm.TabularRegressor(include=(), metric=None, **QUICK).fit(X[:2500], y[:2500])
    assert model.score(X[2500:], y[2500:]) > 0.9


@pytest.mark.slow
def test_times_have_none():
    X, y, _ = table(n_levels=150, n=900)
    model = gm.TabularRegressor(include=(), metric=None, **QUICK).fit(X, y, time=np.arange(900.0))
    assert model.columns_.lookups == ()
