"""Factors of rows on a Gaussian process's deviations, against a general optimiser and on known noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from scipy.stats import t as student_t

import gramian as gm
from gramian.gp.calibration import AGREEING_ROWS, RowScale

RNG = np.random.default_rng(5)
MEANS, DEVIATIONS = RNG.normal(2.0, 3.0, (900, 2)), np.exp(RNG.normal(-1.0, 0.3, 900))
#: The first output's errors grow with its mean; the second's are as predicted, but half as large again.
TRUE = np.column_stack([np.exp(0.25 * (MEANS[:, 0] - 2.0)), np.full(900, 1.5)])
ERRORS = TRUE * DEVIATIONS[:, None] * RNG.standard_normal((900, 2))


def terms(means, deviations, wanted):
    """1, a, m and m² − 1 of one output, standardised by the rows that are checked."""
    sizes = np.log(DEVIATIONS)
    a = np.clip((np.log(deviations) - sizes.mean()) / sizes.std(), -2.5, 2.5)
    m = np.clip((means[:, wanted] - MEANS[:, wanted].mean()) / MEANS[:, wanted].std(), -2.5, 2.5)
    return np.column_stack([np.ones(len(m)), a, m, m * m - 1.0])


def test_weights_are_those_of_largest_penalised_density():
    F, squares = terms(MEANS, DEVIATIONS, 0), (ERRORS[:, 0] / DEVIATIONS) ** 2

    def loss(w):
        density = student_t.logpdf(np.sqrt(squares) * np.exp(-F @ w), 4) - F @ w
        return 0.5 * AGREEING_ROWS * (w[1:] ** 2).sum() - density.sum()

    found = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    np.testing.assert_allclose(scale.weights[1:, 0], found[1:], atol=1e-4)
    # The least mean square of the rows with the smallest factors, and the level beside it.
    smallest = squares[np.argsort(F[:, 1:] @ found[1:])]
    means = (np.cumsum(smallest) + AGREEING_ROWS) / (np.arange(1, 901) + AGREEING_ROWS)
    assert scale.least[0] == pytest.approx(np.sqrt(means.min()), rel=1e-3)
    factors = scale.factor(MEANS, DEVIATIONS)[:, 0]
    np.testing.assert_allclose(factors, np.maximum(np.exp(F @ scale.weights[:, 0]), scale.least[0]))
    level = np.exp(2.0 * scale.weights[0, 0])
    assert (squares / factors**2).sum() + AGREEING_ROWS / level == pytest.approx(900 + AGREEING_ROWS)


def near_copies(seed, n, odd):
    """Errors, means and deviations of rows, most near-copies; one of ``odd`` copies has another target."""
    rng = np.random.default_rng(seed)
    copy = rng.random(n) < 0.7
    means = rng.standard_t(3, (n, 1))
    deviations = np.where(copy, 0.1, 1.0) * np.exp(0.2 * rng.standard_normal(n))
    errors = deviations * np.where(copy, 0.1, 1.0) * rng.standard_normal(n)
    wrong = copy & (rng.random(n) < 1.0 / odd)
    errors[wrong] = rng.standard_normal(wrong.sum())
    return errors[:, None], means, deviations


def density(scale, errors, means, deviations):
    wide = deviations * scale.factor(means, deviations)[:, 0]
    return float(np.mean(0.5 * np.square(errors[:, 0] / wide) + np.log(wide)))


@pytest.mark.parametrize("odd", [20, 60, 1e9])
def test_factors_of_rows_are_no_smaller_than_unseen_copies_allow(odd):
    losses = []
    for seed in range(8):
        known, new = near_copies(seed, 1_000, odd), near_copies(100 + seed, 20_000, odd)
        one = replace(scale := RowScale.of(*known), weights=np.zeros((4, 1)), least=np.zeros(1))
        score = np.square(known[0][:, 0] / known[2]).sum()
        one.weights[0] = 0.5 * np.log((score + AGREEING_ROWS) / (1_000 + AGREEING_ROWS))
        losses.append(density(scale, *new) - density(one, *new))
    assert max(losses) < 0.02, losses
    if odd == 1e9:  # factors of rows still pay where copies agree
        assert max(losses) < -0.3, losses


def test_a_factor_differs_from_row_to_row_only_where_errors_do():
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    assert scale.by_row
    found = scale.factor(MEANS, DEVIATIONS)
    assert np.corrcoef(np.log(found[:, 0]), np.log(TRUE[:, 0]))[0, 1] > 0.95
    squares = np.square(ERRORS[:, 1] / DEVIATIONS).sum()
    np.testing.assert_allclose(found[:, 1], np.sqrt((squares + AGREEING_ROWS) / (900 + AGREEING_ROWS)))
    few = RowScale.of(ERRORS[:60], MEANS[:60], DEVIATIONS[:60])
    assert not few.by_row


def test_factors_far_from_the_checked_rows_are_those_of_the_nearest():
    scale = RowScale.of(ERRORS, MEANS, DEVIATIONS)
    far = scale.factor(np.array([[1e3, 0.0], [1e9, 0.0]]), np.array([0.3, 0.3]))
    assert far[0, 0] == far[1, 0] <= 1.2 * scale.factor(MEANS, DEVIATIONS)[:, 0].max()


@pytest.mark.parametrize("errors", [np.zeros((300, 1)), 1e-150 * RNG.standard_normal((300, 1))])
def test_errors_of_nothing_have_a_factor(errors):
    scale = RowScale.of(errors, MEANS[:300, :1], np.ones(300))
    assert np.isfinite(scale.factor(MEANS[:, :1], DEVIATIONS)).all()
    assert (scale.factor(MEANS[:, :1], DEVIATIONS) > 0).all()


@pytest.fixture(scope="module")
def grows():
    """A process of targets whose noise grows with their level, and further rows of the same kind."""
    rng = np.random.default_rng(2)
    X = rng.random((3_600, 2))
    level = np.sin(3.0 * X[:, 0]) + X[:, 1]
    y = level + 0.3 * level**2 * rng.standard_normal(3_600)
    return gm.GaussianProcessRegressor(learning_rows=300, random_state=0).fit(X[:1_600], y[:1_600]), X, y


def test_bands_follow_noise_that_grows_with_the_level(grows):
    model, X, y = grows
    assert model.calibration_.scale.by_row
    mean, deviation = model.predict(X[1_600:], return_std=True, include_noise=True)
    ends = model.predict_interval(X[1_600:], 0.9)
    inside = (ends[:, 0] <= y[1_600:]) & (y[1_600:] <= ends[:, 1])
    thirds = np.array_split(np.argsort(mean), 3)
    assert [0.82 < inside[third].mean() < 0.97 for third in thirds] == [True, True, True]
    # One deviation for all rows covers nearly all of the first third and far less of the last.
    one = np.quantile(np.abs(y[1_600:] - mean), 0.9)
    alike = np.abs(y[1_600:] - mean) <= one
    assert alike[thirds[0]].mean() - alike[thirds[2]].mean() > 0.15
    assert deviation[thirds[2]].mean() > 3.0 * deviation[thirds[0]].mean()


def test_answers_agree_and_files_keep_them(grows, tmp_path):
    model, X, _ = grows
    rows = X[1_600:1_640]
    mean, deviation = model.predict(rows, return_std=True, include_noise=True)
    covariance = model.predict(rows, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), deviation, rtol=1e-6)
    ends = model.predict_interval(rows, 0.8)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / deviation, (ends[0] @ [-1, 1]) / deviation[0])
    upper = model.predict_quantiles(rows, 0.9) - mean
    np.testing.assert_allclose(upper / deviation, upper[0] / deviation[0])
    gm.save(model, tmp_path / "process.gramian")
    again = gm.load(tmp_path / "process.gramian")
    np.testing.assert_array_equal(again.predict_interval(rows, 0.8), ends)
    plain = gm.GaussianProcessRegressor(calibration=None, optimizer=None, random_state=0).fit(
        X[:300], X[:300, 0]
    )
    assert plain.calibration_.scale is None
