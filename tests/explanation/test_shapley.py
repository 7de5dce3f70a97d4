"""Shapley values of columns against their definition over all coalitions."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from shapley_oracle import shapley_values

import gramian as gm
from gramian.explanation.separable import product_terms
from gramian.explanation.shapley import product_shares, sampled_shares
from gramian.kernels import Constant, PoweredExponential

RNG = np.random.default_rng(5)
X = RNG.random((120, 4))
Y = np.sin(5 * X[:, 0]) * X[:, 1] + X[:, 2]
BACKGROUND = X[:3]
SINGLE = [np.array([j]) for j in range(4)]
BOTH = (gm.Gaussian(0.5) + 2.0 * Constant()) * gm.Laplacian((1.0, 2.0, 1.0, 4.0))
EXACT = {
    "gaussian": gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True),
    "laplacian": gm.KernelRidge(0.1, kernel="laplacian", gamma=1.0, approximation="exact"),
    "powered": gm.KernelRidge(0.1, kernel=PoweredExponential(0.7, p=1.5, q=1.5), approximation="exact"),
    "sums and products": gm.KernelRidge(0.1, kernel=BOTH, approximation="exact"),
    "standardized": gm.KernelRidge(0.1, gamma=0.3, approximation="exact", standardize=True),
    "metric": gm.KernelRidge(0.1, metric=gm.Metric(scales=[2.0, 1.0, 0.0, 3.0]), approximation="exact"),
    "nystrom": gm.KernelRidge(0.1, gamma=4.0, approximation=gm.Nystrom(rank=30), random_state=0),
    "svr": gm.KernelSVR(C=10.0, gamma=4.0),
    "process": gm.GaussianProcessRegressor(kernel="rbf", max_iter=30, n_restarts_optimizer=0, random_state=0),
}
CLASSIFIERS = {
    "ridge": gm.KernelRidgeClassifier(gamma=4.0, approximation="exact"),
    "svc": gm.KernelSVC(gamma=4.0),
    "logistic": gm.KernelLogisticRegression(gamma=4.0, C=10.0),
}


def fitted(model: Any, y: Any = Y) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("players", [1, 2, 5, 6])
def test_values_of_products_are_those_of_all_coalitions(players: int) -> None:
    rng = np.random.default_rng(players)
    a, b = rng.standard_normal((players, 2, 3)), rng.standard_normal((players, 1, 3))
    a[0, 0, 0] = b[0, 0, 0] = 0.0  # a factor of 0 is no division by 0
    c = rng.standard_normal((2, 3))
    found = product_shares(a, b, c)
    for i in range(2):

        def value(rows: np.ndarray, i: int = i) -> np.ndarray:
            """Rows of zeros and ones say which players are there."""
            factors = np.where(rows[:, :, None] > 0, a[None, :, i], b[None, :, 0])
            return factors.prod(axis=1) @ c[i]

        own = [np.array([p]) for p in range(players)]
        base, expected = shapley_values(value, np.ones(players), np.zeros((1, players)), own)
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[i].sum(), value(np.ones((1, players)))[0] - base, atol=1e-10)


@pytest.mark.parametrize("name", EXACT)
def test_exact_values_are_those_of_all_coalitions(name: str) -> None:
    model = fitted(EXACT[name])
    found = model.explain(X[5:8], X_train=BACKGROUND)
    assert found.errors is None
    assert found.background == "3 rows of X_train"
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(X[5:8]), rtol=1e-10)
    scale = (
        np.abs(model.predictor_.coefficients).sum()
        if hasattr(model, "predictor_") and hasattr(model.predictor_, "coefficients")
        else 1.0
    )
    for i, row in enumerate(X[5:8]):
        base, values = shapley_values(model.predict, row, BACKGROUND, SINGLE)
        # Predictions of the oracle are rounded as their tiles are.
        np.testing.assert_allclose(found.values[i], values, atol=1e-8 * max(1.0, scale))
        np.testing.assert_allclose(found.base[i], base, atol=1e-8 * max(1.0, scale))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_decision_values_of_classes_have_exact_values(name: str) -> None:
    labels = np.digitize(Y, [0.4, 1.0])
    model = fitted(CLASSIFIERS[name], labels)
    found = model.explain(X[:2], X_train=BACKGROUND, output=2)
    _, values = shapley_values(lambda rows: model.decision_function(rows)[:, 2], X[0], BACKGROUND, SINGLE)
    np.testing.assert_allclose(found.values[0], values, atol=1e-6)
    two = fitted(CLASSIFIERS[name], labels == 1)
    _, values = shapley_values(two.decision_function, X[0], BACKGROUND, SINGLE)
    np.testing.assert_allclose(
        two.explain(X[:2], X_train=BACKGROUND, output=True).values[0], values, atol=1e-6
    )
    other = two.explain(X[:2], X_train=BACKGROUND, output=False)
    np.testing.assert_allclose(other.values[0], -values, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", ["exponential", PoweredExponential(0.7, p=1.5, q=1.0), gm.Gaussian() + gm.Matern(1.0)]
)
def test_other_kernels_are_estimated_within_their_errors(kernel: Any) -> None:
    model = fitted(gm.KernelRidge(0.1, kernel=kernel, approximation="exact"))
    found = model.explain(X[5:25], X_train=BACKGROUND)
    assert found.errors is not None
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), found.prediction, rtol=1e-12)
    assert np.ptp(found.base) < 1e-6
    expected = [shapley_values(model.predict, row, BACKGROUND, SINGLE)[1] for row in X[5:25]]
    apart = (found.values - expected) / np.maximum(found.errors, 1e-9)
    assert np.sqrt(np.mean(apart**2)) < 2.0
    more = model.explain(X[5:25], X_train=BACKGROUND, n_draws=512)
    assert more.errors.mean() < 0.5 * found.errors.mean()
    with pytest.raises(gm.InputError, match="n_draws=3"):
        model.explain(X[:2], n_draws=3)


def test_blocks_of_a_row_are_held_fixed() -> None:
    blocks = gm.MultiResolution(root_rank=15, rank=6, n_blocks=4)
    model = fitted(gm.KernelRidge(0.1, gamma=4.0, approximation=blocks, random_state=0))
    found = model.explain(X[:10], X_train=BACKGROUND)
    terms = list(model.predictor_.terms(X[:10], gm.engine.Engine(1)))
    for group in terms:
        Z = np.concatenate(model.predictor_.landmarks)[group.points]

        def value(rows: np.ndarray, Z: np.ndarray = Z, c: np.ndarray = group.weights[:, 0]) -> np.ndarray:
            return np.exp(-4.0 * ((rows[:, None] - Z[None]) ** 2).sum(axis=2)) @ c

        for i in group.rows:
            _, values = shapley_values(value, X[i], BACKGROUND, SINGLE)
            np.testing.assert_allclose(found.values[i], values, atol=1e-8 * np.abs(group.weights).sum())


def test_an_additive_function_gives_each_column_its_own_part() -> None:
    rng = np.random.default_rng(0)
    rows, background = rng.random((6, 3)), rng.random((40, 3))
    parts = lambda x: np.column_stack([np.exp(x[:, 0]), x[:, 1] ** 2, 3.0 * x[:, 2]])  # noqa: E731
    players = [np.array([0]), np.array([1, 2])]
    values, errors = sampled_shares(
        lambda x, numbers: parts(x).sum(axis=1), rows, background, players, 4096, 10_000
    )
    centred = parts(rows) - parts(background).mean(axis=0)
    expected = np.column_stack([centred[:, 0], centred[:, 1:].sum(axis=1)])
    assert (errors < 0.02).all()
    assert (np.abs(values - expected) < 5.0 * errors + 1e-12).all()


def test_terms_of_a_kernel_make_it_up() -> None:
    Z = X[:7]
    for kernel in (EXACT["powered"].kernel, BOTH, 3.0 * gm.Gaussian((1.0, 2.0, 0.5, 1.0))):
        terms = product_terms(kernel, 4)
        K = sum(term.scale * math.prod(term.factors(X, Z, own) for own in SINGLE) for term in terms)
        np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-7)
    for kernel in (gm.Matern(1.0), gm.Linear(), gm.Gaussian() * gm.Exponential(), PoweredExponential()):
        assert product_terms(kernel, 4) == ()


def test_columns_that_say_nothing_are_worth_nothing() -> None:
    rows = np.column_stack([X, np.ones(120)])
    model = gm.KernelRidge(0.1, gamma=4.0, approximation="exact").fit(rows, Y)
    found = model.explain(rows[:6], X_train=rows)
    assert not found.values[:, 4].any()
    assert np.ptp(found.base) < 1e-9
    flat = gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True).fit(X, np.full(120, 7.0))
    found = flat.explain(X[:3])
    np.testing.assert_allclose(found.values, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.base, 7.0)
    one = model.explain(rows[:3], X_train=rows[:1])
    assert one.background == "1 row of X_train"
    assert not one.values[0].any()  # the row is its own background
    with pytest.raises(ValueError, match="minimum of 1"):
        model.explain(rows[:3], X_train=rows[:0])
    single = gm.KernelRidge(0.1, gamma=4.0, approximation="exact").fit(X[:, :1], Y)
    found = single.explain(X[:3, :1], X_train=X[:, :1])
    np.testing.assert_allclose(found.values[:, 0], single.predict(X[:3, :1]) - found.base)
