"""Scores on held-out rows: scorers that decide, standard errors of gains, and predictions that are means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score, root_mean_squared_error

import gramian as gm
from gramian.exceptions import InputError
from gramian.tables import TargetTransform
from gramian.tables.scoring import HeldOutScore, MappedTarget
from gramian.tables.training.gain import Gain

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


# ---- gains on held-out rows -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_a_mean_is_the_usual_one(weighted):
    rng = np.random.default_rng(0)
    before, gains = rng.random(4000), 0.1 + rng.standard_normal(4000)
    weights = rng.uniform(0.5, 2.0, 4000) if weighted else None
    found = Gain.of_rows(before, before - gains, weights)
    w = np.ones(4000) if weights is None else weights
    assert found.loss == pytest.approx(np.average(gains, weights=w))
    usual = np.sqrt(((w * (gains - found.loss)) ** 2).sum()) / w.sum()
    assert 0.5 * usual < found.error < 2.0 * usual  # 20 parts tell it to about a sixth
    assert found.clear


def test_noise_is_rarely_clear():
    rng = np.random.default_rng(0)
    gains = rng.standard_normal((400, 100))
    clear = np.mean([Gain.of_rows(each, np.zeros(100), None).clear for each in gains])
    assert 0.08 < clear < 0.26  # one standard error: 16 %


def test_rows_that_follow_each_other_and_are_alike_count_as_few():
    alike = np.repeat(np.random.default_rng(0).standard_normal(20), 50)
    found = Gain.of_rows(alike, np.zeros(1000), None)
    assert found.error == pytest.approx(alike.std() / np.sqrt(19))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows(n):
    found = Gain.of(n, lambda some: 1.0 + some.sum())
    assert found == [Gain(0.0, np.inf), Gain(1.0, np.inf), Gain(2.0, 0.5)][n]


# ---- predictions of transformed targets are means ---------------------------------------------------

#: Noise of ln y at a prediction m, and the largest error of the learned means, as a share.
NOISES: dict[str, tuple[Any, float]] = {
    "the same": (lambda m: 0.0 * m + 0.9, 0.08),
    "growing": (lambda m: 0.5 + 0.4 * (m > 0), 0.15),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("how", ["log", "yeo-johnson", "quantile"])
def test_smeared_predictions_are_the_means_of_what_comes(how: str, noise: str, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    spread, most = NOISES[noise]
    m = rng.uniform(-1.5, 1.5, 8_000)
    y = np.exp(m + spread(m) * rng.standard_normal(8_000))
    weights = rng.uniform(0.5, 2.0, 8_000) if weighted else None
    plain = TargetTransform.learn(y, how, sample_weight=weights)
    z = plain.forward(np.exp(m))
    found = plain.smeared(z, plain.forward(y) - z, sample_weight=weights)
    np.testing.assert_array_equal(found.backward(z), plain.backward(z))
    at = np.array([-1.2, -0.6, 0.6, 1.2])
    want = np.exp(at + spread(at) ** 2 / 2)
    np.testing.assert_allclose(found.expected(plain.forward(np.exp(at))), want, rtol=most)
    assert found.expected(z).mean() == pytest.approx(np.exp(m + spread(m) ** 2 / 2).mean(), rel=0.05)
    assert (np.diff(found.expected(np.linspace(-9.0, 9.0, 100))) >= 0).all()


def test_a_few_far_residuals_decide_no_mean_and_tiny_ones_none() -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(-1.0, 1.0, 2_000)
    plain = TargetTransform.learn(np.exp(3.0 * rng.standard_normal(2_000)), "log")
    residuals = 0.2 * rng.standard_normal(2_000)
    usual = plain.smeared(z, residuals).expected(z)
    residuals[:4] = 5.0
    np.testing.assert_allclose(plain.smeared(z, residuals).expected(z), usual, rtol=0.1)
    assert plain.smeared(z, 1e-3 * residuals) is not plain
    np.testing.assert_array_equal(plain.smeared(z, 1e-3 * residuals).expected(z), plain.backward(z))


@pytest.mark.parametrize(
    ("scoring", "means"),
    [
        *((name, True) for name in (None, "r2", "neg_root_mean_squared_error", "neg_mean_gamma_deviance")),
        *((name, False) for name in ("neg_mean_absolute_error", "neg_mean_squared_log_error")),
        ("explained_variance", True),
    ],
)
def test_scores_that_prefer_medians_get_them(scoring: str | None, means: bool) -> None:
    y = np.exp(np.random.default_rng(0).standard_normal((400, 1)))
    transform = TargetTransform.learn(y, "log")
    assert MappedTarget.of(transform.forward(y), y, transform, HeldOutScore.of(scoring, None)).smears is means


def test_scores_that_a_constant_has_not_mean_means() -> None:
    def correlation(y: Any, values: Any) -> float:
        if np.ptp(values) == 0:
            raise InputError("values are constant")
        return float(np.corrcoef(y, values)[0, 1])

    y = np.exp(np.random.default_rng(0).standard_normal((400, 1)))
    transform = TargetTransform.learn(y, "log")
    score = HeldOutScore.of(make_scorer(correlation), None)
    assert MappedTarget.of(transform.forward(y), y, transform, score).smears


def skewed(n: int, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.exp(0.8 * X[:, 0] + rng.standard_normal(n)), np.exp(0.8 * X[:, 0] + 0.5)


def test_totals_are_right_in_the_model_its_file_and_its_copies(tmp_path: Path) -> None:
    X, y, _ = skewed(800, 0)
    new, _, mean = skewed(8_000, 1)
    options = {"kernel": "gaussian", "metric": None, "scaling": "standard"}
    model = gm.TabularRegressor(**options, target="log", random_state=0).fit(X, y)
    found = model.predict(new)
    assert found.sum() / mean.sum() == pytest.approx(1.0, abs=0.15)  # medians: 0.6
    assert (model.predict_quantiles(new, 0.5).sum() / mean.sum()) < 0.75
    assert model.oof_predictions_.sum() / y.sum() == pytest.approx(1.0, abs=0.1)
    gm.save(model, tmp_path / "m.gramian")
    np.testing.assert_array_equal(gm.load(tmp_path / "m.gramian").predict(new), found)
    assert model.explain(new[:3], columns=False).prediction == pytest.approx(found[:3])
    sizes = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
    for learn, y_or_none, want in (("teacher", None, found), ("labels", y, mean)):
        fast = model.compress(X, y_or_none, learn=learn, **sizes)
        assert fast.predict(new).sum() / want.sum() == pytest.approx(1.0, abs=0.15)
    medians = gm.TabularRegressor(
        **options, target="log", scoring="neg_mean_absolute_error", random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(medians.predict(new), medians.target_.backward(medians._values(new))[:, 0])


@pytest.mark.parametrize("how", ["none", "log"])
def test_units_that_are_no_powers_of_two_change_no_model(how: str) -> None:
    X, y, _ = skewed(250, 2)
    options = {"kernel": "gaussian", "scaling": "standard", "target": how}
    found = []
    for unit, weight in ((1.0, None), (1000.0, np.full(250, 3.7))):
        model = gm.TabularRegressor(**options, random_state=0).fit(X, unit * y, sample_weight=weight)
        found.append(np.column_stack([model.oof_predictions_, model.predict_interval(X, 0.8)]) / unit)
    width = np.diff(found[0][:, 1:]).mean()
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6 * width)
