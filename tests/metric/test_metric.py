"""Metric as a value, the rule that makes one of gradients, and rows mapped by it as they are read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import gramian as gm
from gramian.data.distributed import Partitioned
from gramian.data.fingerprint import fingerprint
from gramian.data.mapped import MappedRows, map_rows
from gramian.data.scaled import Moments, Scaler
from gramian.data.source import ArraySource, row_blocks
from gramian.exceptions import InputError
from gramian.metric.gradients import Differentiable
from gramian.metric.metric import FLOOR, Metric, metric_of
from gramian.metric.outer_product import outer_product

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 4)) * [1.0, 2.0, 0.5, 3.0]
A = RNG.standard_normal((4, 3))


def test_maps_rows_dense_and_sparse():
    s = np.array([1.0, 0.0, 2.0, 0.5])
    np.testing.assert_allclose(Metric(scales=s).apply(X), X * s)
    np.testing.assert_allclose(Metric(matrix=A).apply(X), X @ A)
    sparse = sp.csr_array(X * (X > 0))
    kept = Metric(scales=s).apply(sparse)
    assert sp.issparse(kept)
    assert kept.format == "csr"
    np.testing.assert_allclose(kept.toarray(), sparse.toarray() * s)
    mixed = Metric(matrix=A).apply(sparse)
    assert isinstance(mixed, np.ndarray)
    np.testing.assert_allclose(mixed, sparse.toarray() @ A)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, np.float64])
def test_types_of_mapped_rows(dtype):
    rows = np.abs(X * 10).astype(dtype)
    expected = np.float32 if dtype in (np.float32, np.uint8) else np.float64
    for metric in (Metric(scales=np.ones(4)), Metric(matrix=A)):
        assert metric.apply(rows).dtype == expected
        np.testing.assert_allclose(metric.apply(rows[:1]), metric.apply(rows)[:1], rtol=1e-5)


def test_importances_weigh_scales_by_spreads():
    metric = Metric(scales=[2.0, 1.0, 0.0, 1.0], spreads=[1.0, 2.0, 9.0, 0.0])
    np.testing.assert_allclose(metric.importances, [0.5, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(metric.lengthscales, [0.5, 1.0, np.inf, 1.0])
    full = Metric(matrix=A)
    np.testing.assert_allclose(full.importances, np.diag(A @ A.T) / np.trace(A @ A.T))
    # Features that count and do not vary: by the metric alone.
    np.testing.assert_allclose(Metric(scales=[2.0, 0.0], spreads=[0.0, 1.0]).importances, [1.0, 0.0])


def test_is_a_value():
    scales = np.array([1.0, 2.0])
    metric = Metric(scales=scales)
    scales[0] = 5.0
    assert metric.scales is not None
    assert metric.scales[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        metric.scales[0] = 3.0
    assert metric == Metric(scales=[1.0, 2.0])
    assert hash(metric) == hash(Metric(scales=[1.0, 2.0]))
    assert metric != Metric(scales=[1.0, 2.5])
    assert metric != Metric(matrix=np.diag([1.0, 2.0]))
    assert metric != "diagonal"
    assert metric != Metric(scales=[1.0, 2.0], spreads=[1.0, 1.0])
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert repr(metric) == "<Metric of 2 features, diagonal; importances 1: 80%, 0: 20%>"
    assert metric.times(3.0) == Metric(scales=[3.0, 6.0])
    assert metric.nbytes == 16


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "either scales"),
        ({"scales": [1.0], "matrix": [[1.0]]}, "either scales"),
        ({"scales": [[1.0]]}, r"scales has shape \(1, 1\); expected \(d,\)"),
        ({"matrix": [1.0]}, r"matrix has shape \(1,\); expected \(d, r\)"),
        ({"scales": []}, r"scales has shape \(0,\)"),
        ({"scales": [1.0, np.nan]}, "NaN or infinity"),
        ({"scales": [1.0, -1.0]}, "at least 0"),
        ({"scales": ["wide"]}, "cannot be read as numbers"),
        ({"scales": [0.0, 0.0]}, "0 everywhere"),
        ({"scales": [1.0, 1.0], "spreads": [1.0]}, "spreads has length 1"),
    ],
)
def test_what_is_no_metric(parts, text):
    with pytest.raises(InputError, match=text):
        Metric(**parts)


def test_rows_of_another_width():
    with pytest.raises(InputError, match="the rows have 4 features, but the metric is of 2"):
        Metric(scales=[1.0, 2.0]).apply(X)


def test_mapped_rows_compose_and_read_alike():
    scaler = Scaler.of(Moments.of(X))
    rows = map_rows(map_rows(ArraySource(X), scaler), Metric(matrix=A))
    expected = ((X - X.mean(axis=0)) / X.std(axis=0)) @ A
    assert rows.shape == (50, 3)
    assert rows.dtype == np.float64
    np.testing.assert_allclose(np.vstack([b for _, b in row_blocks(rows, 7)]), expected)
    np.testing.assert_allclose(rows.take(np.array([4, 1])), expected[[4, 1]])
    assert isinstance(rows, MappedRows)
    assert not isinstance(rows, Partitioned)
    assert rows.row_bytes >= 8 * (4 + 3)


def test_mapped_rows_of_files_are_told_apart():
    class Stored(ArraySource):
        identity = ("file", 1)

    source = Stored(X)
    prints = {
        fingerprint(rows)
        for rows in (
            source,
            map_rows(source, Scaler.of(Moments.of(X))),
            map_rows(source, Metric(scales=[1.0, 1.0, 1.0, 2.0])),
            map_rows(source, Metric(scales=[1.0, 1.0, 1.0, 3.0])),
        )
    }
    assert len(prints) == 4


# ---- the rule -----------------------------------------------------------------------------------


def mean_squared_distance(rows):
    return ((rows[:, None] - rows[None]) ** 2).sum(axis=2).mean()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_rule_of_a_diagonal_metric(power):
    m = np.array([4.0, 1.0, 0.01, 0.0])
    metric = metric_of(m, power, X.var(axis=0))
    squared = np.maximum((m / 4.0) ** power if power else np.ones(4), FLOOR)
    assert metric.scales is not None
    np.testing.assert_allclose(metric.scales**2 / metric.scales[0] ** 2, squared)
    np.testing.assert_allclose(mean_squared_distance(metric.apply(X)), mean_squared_distance(X))
    np.testing.assert_allclose(metric.spreads, X.std(axis=0))


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_rule_of_a_full_metric(power):
    G = RNG.standard_normal((30, 4)) * [1.0, 0.1, 0.5, 0.0]
    M = G.T @ G
    metric = metric_of(M, power, np.cov(X.T, ddof=0))
    T = metric.matrix
    values, vectors = np.linalg.eigh(M)
    squared = np.maximum((np.maximum(values, 0) / values[-1]) ** power, FLOOR)
    expected = vectors @ np.diag(squared) @ vectors.T
    np.testing.assert_allclose(T @ T / (T @ T)[0, 0], expected / expected[0, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(T, T.T, atol=1e-12)  # nearest to leaving features as they are
    np.testing.assert_allclose(mean_squared_distance(metric.apply(X)), mean_squared_distance(X))


def test_a_crushed_direction_keeps_the_floor():
    # y does not depend on feature 1, and two rows differ in nothing else.
    metric = metric_of(np.array([1.0, 0.0]), 1.0, np.ones(2))
    assert metric.scales is not None
    np.testing.assert_allclose(metric.scales[1] / metric.scales[0], np.sqrt(FLOOR))
    twice = metric_of(np.array([1.0, 0.0]) * metric.scales**2, 1.0, np.ones(2))
    assert twice == metric  # however many rounds crush it


def test_nothing_to_learn_from():
    assert metric_of(np.zeros(3), 1.0, np.ones(3)).scales.tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(metric_of(np.zeros((2, 2)), 1.0, np.eye(2)).matrix, np.eye(2))
    assert metric_of(np.array([1.0, 1.0]), 1.0, np.zeros(2)).scales.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="not finite"):
        metric_of(np.array([1.0, np.inf]), 1.0, np.ones(2))


@given(
    st.lists(st.just(0.0) | st.floats(1e-9, 1e6), min_size=2, max_size=6),
    st.floats(0, 2),
    st.floats(1e-3, 1e3),
)
def test_rule_keeps_order_and_does_not_see_units_of_f(m, power, unit):
    m = np.asarray(m)
    metric = metric_of(m, power, np.ones(len(m)))
    assert metric.scales is not None
    assert (np.diff(metric.scales[np.argsort(m)]) >= -1e-12).all()
    other = metric_of(unit * m, power, np.ones(len(m)))
    np.testing.assert_allclose(other.scales, metric.scales, rtol=1e-9)
    np.testing.assert_allclose((metric.scales**2).sum(), len(m))


def test_gradients_through_a_metric():
    def f(u):
        return np.stack([np.sin(u[:, 0]) * u[:, 1], u[:, 2] ** 2], axis=1)

    found = outer_product(Differentiable(f, metric=Metric(matrix=A)), X)
    gradients = np.stack([np.cos(X @ A[:, 0]) * (X @ A[:, 1]), np.sin(X @ A[:, 0]), np.zeros(len(X))], axis=1)
    second = np.stack([np.zeros(len(X)), np.zeros(len(X)), 2 * (X @ A[:, 2])], axis=1)
    G = np.vstack([gradients @ A.T, second @ A.T])
    np.testing.assert_allclose(found, G.T @ G / len(X), rtol=2e-2, atol=2e-2)


def test_a_metric_by_hand_is_a_map_before_the_fit():
    y = np.sin(X[:, 0])
    metric = gm.Metric(scales=[1.0, 0.1, 0.1, 0.1])
    model = gm.KernelRidge(0.1, gamma=0.5, metric=metric, random_state=0).fit(X, y)
    plain = gm.KernelRidge(0.1, gamma=0.5, random_state=0).fit(metric.apply(X), y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(metric.apply(X)))
    assert model.metric_ is metric
    assert not hasattr(model, "metric_rounds_")
