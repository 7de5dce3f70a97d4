"""Weights of rows in columns, scales and maps of tables: weight 0 is absent, whole weights are repeats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gramian as gm
from gramian.tables import EncodedRows, Scaling, TableColumns, TargetTransform
from gramian.tables.empirical import distribution, quantiles
from gramian.tables.scaling import HOWS
from gramian.tables.target import HOWS as TARGETS

RNG = np.random.default_rng(0)
N = 200
WEIGHTS = RNG.integers(0, 4, N).astype(float)
REPEATED = np.repeat(np.arange(N), WEIGHTS.astype(int))


def table() -> np.ndarray:
    rng = np.random.default_rng(1)
    found = np.empty((N, 4), object)
    found[:, 0] = np.exp(2 * rng.standard_normal(N))
    found[:, 1] = rng.choice(["a", "b", "c", "d", "e"], N, p=[0.55, 0.3, 0.1, 0.03, 0.02])
    found[:, 2] = np.where(rng.random(N) < 0.2, None, rng.integers(0, 9, N))
    found[:, 3] = np.datetime64("2020-01-01", "us") + rng.integers(0, 800, N).astype("timedelta64[D]")
    return found


def scales(X: np.ndarray, how: str, weights: np.ndarray | None) -> tuple[TableColumns, Scaling]:
    columns = TableColumns.learn(X, sample_weight=weights)
    return columns, Scaling.learn(EncodedRows(columns, X), columns, how, sample_weight=weights)


@pytest.mark.parametrize("how", HOWS)
def test_whole_weights_are_repeated_rows_in_columns_and_scales(how: str) -> None:
    X = table()
    columns, scaling = scales(X, how, WEIGHTS)
    expected, other = scales(X[REPEATED], how, None)
    assert columns.columns == expected.columns
    assert scaling.methods == other.methods
    Z = expected.encode(X)
    np.testing.assert_allclose(scaling.apply(Z), other.apply(Z), rtol=1e-9, atol=1e-12)
    same, ones = scales(X, how, None), scales(X, how, np.ones(N))
    assert same[0].columns == ones[0].columns
    Z = same[0].encode(X)
    np.testing.assert_allclose(same[1].apply(Z), ones[1].apply(Z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("how", HOWS)
def test_rows_of_weight_0_move_no_scale(how: str) -> None:
    X = table()
    columns, scaling = scales(X, how, WEIGHTS)
    gone = WEIGHTS == 0
    X[gone, 0] *= 1000.0
    X[gone, 1], X[gone, 2] = "rare", None
    assert scales(X, how, WEIGHTS)[0].columns == columns.columns
    moved = scales(X, how, WEIGHTS)[1]
    np.testing.assert_array_equal(moved.shift, scaling.shift)
    np.testing.assert_array_equal(moved.scale, scaling.scale)


@pytest.mark.parametrize("how", TARGETS)
def test_weights_of_targets(how: str) -> None:
    y = np.exp(RNG.standard_normal(N)) - (0.5 if how == "yeo-johnson" else 0.0)
    found = TargetTransform.learn(y, how, sample_weight=WEIGHTS)
    expected = TargetTransform.learn(y[REPEATED], how)
    at = np.linspace(y[REPEATED].min(), y[REPEATED].max(), 50)
    np.testing.assert_allclose(found.forward(at), expected.forward(at), rtol=1e-6, atol=1e-9)
    other = np.where(WEIGHTS == 0, 1000.0 * y, y)
    assert TargetTransform.candidates(other, sample_weight=WEIGHTS) == TargetTransform.candidates(
        y, sample_weight=WEIGHTS
    )
    moved = TargetTransform.learn(other, how, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(moved.forward(at), found.forward(at))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12), st.floats(0.0, 1.0)
)
def test_weighted_quantiles_and_distributions_are_those_of_repeats(
    pairs: list[tuple[int, int]], q: float
) -> None:
    x, w = np.array(pairs, float).T
    repeated = np.repeat(x, w.astype(int))
    np.testing.assert_allclose(quantiles(x, [q], w), np.quantile(repeated, [q]), atol=1e-9)
    lower = quantiles(x, [0.5], w, lower=True)
    np.testing.assert_array_equal(lower, np.quantile(repeated, [0.5], method="lower"))
    for found, expected in zip(distribution(x, w), distribution(repeated), strict=True):
        np.testing.assert_allclose(found, expected)


def test_small_weights_make_no_category_rare_and_no_scale_another() -> None:
    X = table()
    weights = RNG.random(N) + 0.5
    columns, scaling = scales(X, "robust", weights / 1e4)
    assert columns.columns[1].categories == TableColumns.learn(X).columns[1].categories
    other = scales(X, "robust", weights / 1e5)[1]
    np.testing.assert_allclose(scaling.scale, other.scale)


def test_estimators_learn_scales_and_maps_with_their_weights() -> None:
    X, y = table(), np.exp(RNG.standard_normal(N))
    options = {"kernel": "laplacian", "metric": None, "random_state": 0}
    model = gm.TabularRegressor(**options).fit(X, y, sample_weight=WEIGHTS)
    # An estimator knows no unit of weights: it divides them by the mean of those above 0.
    columns = TableColumns.learn(X, sample_weight=WEIGHTS / WEIGHTS[WEIGHTS > 0].mean()).columns
    assert model.columns_.columns == columns
    expected = TargetTransform.learn(y[REPEATED], model.target_.outputs[0].how)
    at = np.linspace(y.min(), y.max())
    np.testing.assert_allclose(model.target_.forward(at), expected.forward(at), rtol=1e-6, atol=1e-9)
    other, gone = X.copy(), WEIGHTS == 0
    other[gone, 0] *= 1000.0
    moved = gm.TabularRegressor(**options).fit(other, np.where(gone, 1000 * y, y), sample_weight=WEIGHTS)
    np.testing.assert_array_equal(moved.predict(X), model.predict(X))
    labels = np.where(y > 1.0, "high", "low")
    classes = gm.TabularClassifier(**options).fit(X, labels, sample_weight=WEIGHTS)
    assert classes.columns_.columns == columns


def test_bands_and_sets_count_rows_by_their_weights() -> None:
    rng = np.random.default_rng(0)
    X, odd = rng.standard_normal((300, 2)), np.arange(300) % 2 == 0
    y = X[:, 0] + np.where(odd, 30.0, 0.1) * rng.standard_normal(300)
    classes = np.where(odd, rng.integers(0, 2, 300), X[:, 0] > 0)
    options = {"kernel": "gaussian", "metric": None, "effort": "fast", "random_state": 0}
    widths, sizes = [], []
    for weight in (0.0, 1e-9):
        weights = np.where(odd, weight, 1.0)
        numbers = gm.TabularRegressor(**options).fit(X, y, sample_weight=weights)
        low, high = numbers.predict_interval(X, 0.8).T
        first, last = numbers.predict_quantiles(X, (0.1, 0.9)).T
        widths.append((np.mean(high - low), np.mean(last - first)))
        sets = gm.TabularClassifier(**options).fit(X, classes, sample_weight=weights).predict_set(X, 0.9)
        sizes.append(sets.sum(axis=1).mean())
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.3)  # not 100 times as wide
    assert sizes[1] == pytest.approx(sizes[0], abs=0.15)
