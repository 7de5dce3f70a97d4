"""Scorers that decide the choices of a table's estimators, and scorers that cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score, root_mean_squared_error

import gramian as gm
from gramian.exceptions import InputError
from gramian.tables.scoring import HeldOutScore

QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": None,
    "scaling": "standard",
    "random_state": 0,
    "include": (),
}


def numbers(n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, np.exp(3 * X[:, 0]) + rng.standard_normal(n)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("neg_mean_absolute_error", mean_absolute_error),
        ("neg_root_mean_squared_error", root_mean_squared_error),
        ("r2", lambda y, guess, sample_weight: 1.0 - r2_score(y, guess, sample_weight=sample_weight)),
    ],
)
def test_errors_of_numbers_are_the_scorers(name: str, error: Any) -> None:
    rng = np.random.default_rng(0)
    y, guess, weights = rng.random((50, 1)), rng.random((50, 1)), rng.random(50)
    score = HeldOutScore.of(name, None)
    assert score is not None
    assert score.error(y, guess, weights) == pytest.approx(error(y, guess, sample_weight=weights))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "roc_auc_ovr", "neg_log_loss"])
def test_errors_of_classes_are_positive_and_fall_with_better_values(name: str, n_classes: int) -> None:
    if n_classes == 2 and name == "roc_auc_ovr":
        name = "roc_auc"
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 300)
    signs = 2.0 * np.eye(n_classes)[codes] - 1.0
    signs = signs[:, 1:] if n_classes == 2 else signs
    score = HeldOutScore.of(name, None, np.array(["a", "b", "c"][:n_classes]))
    assert score is not None
    noise = rng.standard_normal(signs.shape)
    errors = [score.error(signs, signs + size * noise, None) for size in (0.0, 1.0, 3.0)]
    assert 0.0 <= errors[0] < errors[1] < errors[2]
    halves = score.error(0.5 * signs, 0.5 * (signs + noise), None)
    assert halves == pytest.approx(errors[1])


def test_a_users_function_that_is_larger_for_better_values_decides() -> None:
    X, y = numbers()
    asked = []

    def closeness(model: Any, rows: Any, wanted: Any) -> float:
        asked.append(len(wanted))
        return 10.0 - float(np.abs(model.predict(rows) - wanted).max())

    model = gm.TabularRegressor(**QUICK, scoring=closeness).fit(X, y)
    assert len(asked) > 10
    assert model.score(X, y) > 0.9


@pytest.mark.slow
def test_scorers_decide_fits() -> None:
    X, y = numbers()
    squared = gm.TabularRegressor(**QUICK).fit(X, y)
    absolute = gm.TabularRegressor(**QUICK, scoring="neg_median_absolute_error").fit(X, y)
    assert squared.search_.best is not None
    assert absolute.search_.best is not None
    assert absolute.search_.best.error != squared.search_.best.error
    classes = np.where(y > np.median(y), "high", "low")
    for name in ("roc_auc", "neg_log_loss", "accuracy", "f1_macro"):
        assert gm.TabularClassifier(**QUICK, scoring=name).fit(X, classes).score(X, classes) > 0.8


def _nothing(*_: Any) -> float:
    return float("nan")


def _failing(*_: Any) -> float:
    raise ValueError("no such column")


@pytest.mark.parametrize(
    ("scoring", "match"),
    [
        ("neg_log_los", r"scoring='neg_log_los' is not a scorer.*Did you mean 'neg_log_loss'"),
        ("RMSE", "scoring='RMSE' is not a scorer. Did you mean 'neg_root_mean_squared_error'"),
        (3, "scoring=3 must be|scoring=3 is not a scorer"),
        (_nothing, r"scoring='_nothing' gave nan on \d+ held-out rows"),
        (_failing, r"scoring='_failing' failed on \d+ held-out rows: no such column"),
        ("roc_auc", r"scoring='roc_auc' failed on \d+ held-out rows"),
        (make_scorer(lambda y, p: np.inf), "gave inf on"),
    ],
)
def test_scorers_that_cannot_be_used(scoring: Any, match: str) -> None:
    X, y = numbers()
    model: Any = gm.TabularRegressor(**QUICK, scoring=scoring)
    with pytest.raises(InputError, match=match):
        model.fit(X, y)
    assert not hasattr(model, "model_")
