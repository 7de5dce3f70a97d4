"""Display of plans: sizes, bytes and the reasons for them, and no seconds that were not measured."""

import re

import numpy as np
import pytest

import gramian as gm
from gramian.summary.html import fragment


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    return X, np.sin(4 * X[:, 0])


@pytest.mark.parametrize("approximation", ["auto", "exact", "meka", "nystrom"])
def test_seconds_are_shown_where_they_were_measured_only(data, approximation):
    model = gm.KernelRidge(gamma=3.0, approximation=approximation, random_state=0)
    plan = model.plan(*data)
    for text in (str(plan), re.sub("<[^>]*>", " ", fragment(plan.summary()))):
        assert not re.search(r"[0-9] s\b|predicted time", text)
    assert plan.total_seconds > 0
    shown = str(model.fit(*data).plan_)
    assert len(re.findall(r" s\b", shown)) == len(re.findall("took", shown)) > 0


@pytest.mark.slow
def test_the_reason_is_the_users_where_the_user_asked(data):
    X, y = data
    assert gm.KernelRidge(approximation="exact").fit(X, y).plan_.reason == "approximation='exact'"
    assert gm.KernelRidge(approximation="nystrom").fit(X, y).plan_.reason == "as asked"
    assert gm.KernelRidge().fit(X, y).plan_.reason == "few rows: exact"
    table = gm.TabularRegressor(kernel="gaussian", metric=None, random_state=0).fit(X, y)
    assert table.plan_.reason == "memory and time allow the exact model"
    assert gm.KernelPCA(2).fit(X).plan_.reason == "few rows"
    assert gm.KernelPCA(2, approximation="exact").fit(X).plan_.reason == "approximation='exact'"
