"""Metric as a value, the rule that makes one of gradients, and rows mapped by it as they are read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import gramian as gm
from gramian.data.distributed import Partitioned
from gramian.data.fingerprint import fingerprint
from gramian.data.mapped import MappedRows, map_rows
from gramian.data.scaled import Moments, Scaler
from gramian.data.source import ArraySource, row_blocks
from gramian.estimator.input import Input
from gramian.exceptions import InputError
from gramian.metric.gradients import Differentiable
from gramian.metric.learning import learn_metric
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


# ---- rounds of a learned metric ---------------------------------------------------------------------


class Scripted:
    """A learner whose errors are given by a function of the scales; M is constant."""

    def __init__(self, error, M=(1.0, 0.25), fault=lambda metric: "", screen=None):
        self.error_of, self.M, self.fault_of, self.screen_of = error, np.asarray(M), fault, screen
        self.covariance = np.ones(len(self.M))
        self.seen = []

    def fit(self, metric, before):
        self.seen.append((metric, before))
        learner = self

        class Fitted:
            error, fault = learner.error_of(metric), learner.fault_of(metric)

            def outer_product(self):
                return learner.M

        return Fitted()

    def screen(self, metric, before):
        return (self.screen_of or self.error_of)(metric)


START = Metric(scales=[1.0, 1.0])


def learned(learner, start, settings):
    return Input(None, *learn_metric(learner, start, settings))


def ratio(metric):
    return float(metric.scales[1] / metric.scales[0])


def test_the_best_round_is_kept_and_the_others_told():
    learner = Scripted(ratio)
    found = learned(learner, START, gm.LearnedMetric(rounds=4, powers=(1.0,), bandwidth=False))
    assert ratio(found.metric) == pytest.approx(0.5)
    assert [r.kept for r in found.rounds] == [False, True, False, False]
    assert [r.power for r in found.rounds] == [0.0, 1.0, 1.0, 1.0]
    assert found.rounds[0].error == 1.0
    assert not any(r.undone for r in found.rounds)
    assert learner.seen[1][1] is not None  # each round may start from the one before


def test_a_round_that_blows_up_is_undone_and_tried_half_as_far():
    # Beyond a ratio of 0.6 predictions run away, 4,000-fold.
    learner = Scripted(lambda m: ratio(m) if ratio(m) > 0.6 else 4000.0, screen=ratio)
    found = learned(learner, START, gm.LearnedMetric(rounds=3, powers=(1.0,), bandwidth=False))
    assert "above the 1 of no metric" in found.rounds[1].undone
    assert found.rounds[2].power == 0.5
    assert found.rounds[2].kept
    assert ratio(found.metric) == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("error", [np.nan, np.inf])
def test_errors_that_are_not_finite_are_undone(error):
    learner = Scripted(lambda m: 1.0 if m is START else error)
    found = learned(learner, START, gm.LearnedMetric(rounds=5, patience=1, bandwidth=False))
    assert found.metric is START
    assert found.rounds[0].kept
    assert [bool(r.undone) for r in found.rounds] == [False, True, True]


def test_a_fault_is_undone_whatever_the_error():
    learner = Scripted(ratio, fault=lambda m: "" if m is START else "out of range")
    found = learned(learner, START, gm.LearnedMetric(rounds=1, powers=(1.0,), bandwidth=False))
    assert found.metric is START
    assert found.rounds[1].undone == "out of range"


def test_a_constant_model_ends_the_rounds():
    found = learned(Scripted(ratio, M=(0.0, 0.0)), START, gm.LearnedMetric())
    assert found.metric is START
    assert len(found.rounds) == 1


def test_bandwidths_are_climbed_to():
    learner = Scripted(lambda m: ratio(m) + abs(np.log(m.scales[0] * 0.3)))
    found = learned(learner, START, gm.LearnedMetric(rounds=1, powers=(1.0,)))
    fixed = learned(learner, START, gm.LearnedMetric(rounds=1, powers=(1.0,), bandwidth=False))
    assert found.rounds[1].bandwidth < 1.0 == fixed.rounds[1].bandwidth
    assert found.rounds[1].error < fixed.rounds[1].error
    np.testing.assert_allclose(found.metric.scales * found.rounds[1].bandwidth, fixed.metric.scales)


# ---- against a dense oracle ---------------------------------------------------------------------


def table(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(0.5, 2.0, d)
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]


def oracle(X, y, T, alpha, gamma, form):
    """Return f and M of a dense ridge fit under T, by the features as they were."""
    U = X @ T
    difference = U[:, None] - U[None]
    K = np.exp(-gamma * (difference**2).sum(axis=2))
    a = la.solve(K + alpha * np.eye(len(K)), y)
    gradients = -2 * gamma * np.einsum("ij,ijk,j->ik", K, difference, a) @ T.T
    M = gradients.T @ gradients / len(X)
    return M if form == "full" else np.diag(M)


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_round_equals_the_dense_one(form, power):
    X, y = table()
    metric = gm.LearnedMetric(form, rounds=1, powers=(power,), bandwidth=False, patience=5)
    model = gm.KernelRidge(0.1, gamma=0.2, approximation="exact", metric=metric, random_state=0)
    model.fit(X, y)
    assert len(model.metric_rounds_) == 2
    assert model.metric_rounds_[1].kept
    # The rows that it learned from, as they were drawn: the copies' seed does not matter for exact fits.
    order = np.random.default_rng(0).choice(200, 200, replace=False)
    train = X[order[40:]]
    M = oracle(train, y[order[40:]], np.eye(5), 0.1, 0.2, form)
    S = np.cov(train.T, ddof=0)
    if form == "diagonal":
        squared = np.maximum((M / M.max()) ** power, FLOOR)
        T = np.diag(np.sqrt(squared))
    else:
        values, vectors = la.eigh(M)
        squared = np.maximum((np.maximum(values, 0) / values[-1]) ** power, FLOOR)
        T = vectors @ np.diag(np.sqrt(squared)) @ vectors.T
    T *= np.sqrt(np.trace(S) / np.trace(T @ S @ T))
    found = model.metric_
    got = np.diag(found.scales) if form == "diagonal" else found.matrix
    np.testing.assert_allclose(got, T, atol=2e-3 * np.abs(T).max())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_two_features_of_twenty(form):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1500, 20))
    y = np.sin(2 * X[:, 3]) * X[:, 7]
    errors = []
    for metric in (None, gm.LearnedMetric(form, rounds=3)):
        model = gm.KernelRidge(0.1, metric=metric, random_state=0).fit(X[:1000], y[:1000])
        errors.append(np.mean((model.predict(X[1000:]) - y[1000:]) ** 2))
    assert errors[1] < 0.5 * errors[0]
    assert set(np.argsort(model.feature_importances_)[-2:]) == {3, 7}
    assert model.metric_rounds_[0].error > 2 * min(r.error for r in model.metric_rounds_)
