"""More rows do not hurt: the error at n rows is at most that at n/2, also where the kind of model changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import gramian as gm

pytestmark = [pytest.mark.slow, pytest.mark.whole]

#: Numbers of training rows. Memory allows an exact model of the first two, and none of the last.
SIZES, MEMORY, N_TEST = (1_000, 2_000, 4_000), "25MB", 4_000
#: An error may be this much higher by chance.
MARGIN = 0.03


def _table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.empty((n, 4), object)
    X[:, :3], X[:, 3] = rng.normal(size=(n, 3)), rng.choice(["Bath", "Hull", "York"], n)
    rises = np.where(X[:, 3] == "Hull", 2.0, 1.0)
    return X, np.sin(2.0 * X[:, 0].astype(float)) * rises + np.abs(X[:, 1].astype(float))


@pytest.mark.parametrize("classes", [False, True])
def test_errors_fall_with_more_rows(classes):
    X, f = _table(max(SIZES) + N_TEST)
    rng = np.random.default_rng(1)
    y = f > 0.8 + 0.5 * rng.logistic(size=len(f)) if classes else f + 0.3 * rng.standard_normal(len(f))
    X_test, y_test = X[-N_TEST:], y[-N_TEST:]
    errors, kinds = [], []
    for n in SIZES:
        kind = gm.TabularClassifier if classes else gm.TabularRegressor
        model = kind(memory_budget=MEMORY, random_state=0).fit(X[:n], y[:n])
        kinds.append(model.model_.plan_.method)
        if classes:
            chances = model.predict_proba(X_test)[np.arange(N_TEST), y_test.astype(int)]
            errors.append(-float(np.log(chances).mean()))
        else:
            errors.append(float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))))
    assert kinds[0] == "exact" != kinds[-1]
    for fewer, more in pairwise(errors):
        assert more < (1.0 + MARGIN) * fewer, errors
