"""Rounds of a learned metric: the loop against a dense oracle, what it keeps, and what it undoes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la

import gramian as gm
from gramian.estimator.input import Input
from gramian.metric.learning import learn_metric
from gramian.metric.metric import FLOOR, Metric


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
