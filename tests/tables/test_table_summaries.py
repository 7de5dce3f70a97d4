"""Summaries of table models, and the bar of their search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.fast.probabilities import Calibration
from gramian.summary import round_decimals

QUICK: dict[str, Any] = {
    "kernel": "gaussian",
    "metric": None,
    "scaling": "standard",
    "effort": "fast",
    "include": (),
    "random_state": 0,
}


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


def facts_of(model: Any) -> dict[str, str]:
    return dict(model.summary().facts)


def test_the_time_and_the_budget_are_those_of_the_whole_fit() -> None:
    X, y = table(120)
    model = gm.TabularRegressor(**QUICK, memory_budget="300MB").fit(X, y)
    facts = facts_of(model)
    assert facts["budget"] == "300 MB"
    assert facts["fit took"] == f"{model.fit_seconds_:.3g} s"
    assert model.fit_seconds_ > model.search_.seconds + sum(model.model_.plan_.used_seconds.values())
    assert facts["method"] == f"exact ({model.plan_.reason})"
    assert "time allow" in model.plan_.reason


def test_a_streamed_model_counts_the_rows_that_judged_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(1500)
    model = gm.TabularRegressor(**QUICK, memory_budget="12MB").fit(X, y)
    assert model.plan_.method == "multiresolution"
    assert model.plan_.n_rows == 1500
    assert "of the 18 MB of K" in facts_of(model)["model"]
    assert "as large as memory and time allow" in facts_of(model)["method"]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Calibration(0.5, 0.25), "0.5 v + 0.25 L(v) (values v of the ridge models, their log odds L(v)"),
        (Calibration(2.0, boosting=0.5), "2 v + 0.5 h (values v of the ridge models, log odds h of"),
    ],
)
def test_log_odds_name_the_terms_that_are_there(weights: Calibration, expected: str) -> None:
    X, y = table(120)
    model = gm.TabularClassifier(**QUICK).fit(X, y > np.median(y))
    model.model_.calibration_ = weights
    assert facts_of(model)["log odds"].startswith(expected)


def test_numbers_are_rounded_to_what_matters() -> None:
    assert round_decimals("k(l=1.2247448713915892, m=0.5) v1.1234567") == "k(l=1.2247, m=0.5) v1.1234567"
    assert round_decimals("3.00000001e-07 12345678.1234567") == "3e-07 1.2346e+07"
    X, y = table(60)
    model = gm.KernelRidge(alpha=0.1 + 0.2, kernel=gm.Gaussian(2**0.5)).fit(X, y)
    assert facts_of(model)["kernel"] == "Gaussian(lengthscale=1.4142)"
    assert "0.30000000000000004" not in str(model.summary())
    assert "as asked" not in str(gm.Nystrom().fit(X).summary())


def test_a_search_counts_in_the_seconds_of_its_fit() -> None:
    X, y = table(80)
    spent = gm.KernelRidgeCV(random_state=0).fit(X, y).plan_.used_seconds
    assert spent["choice"] > 0.0
    assert gm.KernelRidge(metric="diagonal", random_state=0).fit(X, y).plan_.used_seconds["metric"] > 0.0


# ---- progress of the search of a model of tables ----------------------------------------------------


def test_verbose_shows_the_best_error_so_far(capfd: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).random((80, 2))
    gm.TabularRegressor(random_state=0, verbose=1).fit(X, X[:, 0])
    shown = capfd.readouterr().err
    assert "search on" in shown
    assert "best error" in shown
    gm.TabularRegressor(random_state=0).fit(X, X[:, 0])
    assert capfd.readouterr().err == ""
