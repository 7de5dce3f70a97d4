"""Progress of the search of a model of tables: the bar shows the least error so far."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm


def test_verbose_shows_the_best_error_so_far(capfd: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).random((80, 2))
    gm.TabularRegressor(random_state=0, verbose=1).fit(X, X[:, 0])
    shown = capfd.readouterr().err
    assert "search on" in shown
    assert "best error" in shown
    gm.TabularRegressor(random_state=0).fit(X, X[:, 0])
    assert capfd.readouterr().err == ""
