"""Learned metrics beside chosen penalties and budgets of their rounds."""

from __future__ import annotations

import numpy as np

import gramian as gm

X = np.random.default_rng(0).random((300, 4))
Y = np.sin(5.0 * X[:, 0])
QUICK = gm.LearnedMetric(rounds=1, powers=(1.0,), bandwidth=False)


def test_a_penalty_that_is_chosen_goes_with_a_learned_metric():
    model = gm.KernelRidge("auto", metric=QUICK, random_state=0).fit(X, Y)
    assert model.alpha_ > 0
    assert model.feature_importances_.argmax() == 0


def test_rounds_of_a_metric_do_not_compare_their_smaller_budget_with_an_instance():
    inner = gm.Nystrom(rank=40, memory_budget="300MB")
    model = gm.KernelRidge(0.1, approximation=inner, memory_budget="300MB", metric=QUICK, random_state=0)
    assert model.fit(X, Y).rank_ == 40
