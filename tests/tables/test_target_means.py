"""Predictions of transformed targets are means, and quantiles of one half are medians."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import make_scorer

import gramian as gm
from gramian.exceptions import InputError
from gramian.tables import TargetTransform
from gramian.tables.scoring import HeldOutScore, MappedTarget

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
