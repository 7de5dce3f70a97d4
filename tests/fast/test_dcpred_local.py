"""Local models: losses by differences, fits against scikit-learn and SciPy, and the edges of a leaf."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, LinearSVC

import gramian as gm
from gramian._tiles import row_slices
from gramian.fast.dcpred import local_models
from gramian.fast.dcpred.local_models import WIDTHS, LocalLoss, exact_duals, fit_linear

LOSSES = ("ridge", "squared_hinge", "logistic", "hinge")
RNG = np.random.default_rng(2)
PHI = RNG.normal(size=(300, 12)) * np.geomspace(1.0, 1e-2, 12)
COSTS = RNG.uniform(0.5, 2.0, 300)
SIGN = np.where(PHI @ RNG.normal(size=12) + 0.4 * RNG.normal(size=300) > 0.3, 1.0, -1.0)


def tiles(features=PHI, size=70):
    return lambda: ((rows, features[rows]) for rows in row_slices(len(features), size))


def fit(name, y=SIGN, costs=COSTS, features=PHI, **options):
    y = y if y.ndim == 2 else y[:, None]
    return fit_linear(tiles(features), features.shape[1], y, costs, name, **options)


def objective(loss, w, b, y=SIGN, costs=COSTS, features=PHI):
    return 0.5 * w @ w + costs @ loss.value(y, features @ w + b)


@pytest.mark.parametrize("loss", [LocalLoss(name, 0.3) for name in LOSSES], ids=LOSSES)
def test_slopes_are_the_derivatives(loss):
    f = np.linspace(-3, 3, 41)[:, None] + 0.007
    y, h = np.array([[-1.0, 1.0]]), 1e-6
    first, second = loss.slopes(y, f)
    np.testing.assert_allclose(first, (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h), atol=1e-6)
    change = (loss.slopes(y, f + h)[0] - loss.slopes(y, f - h)[0]) / (2 * h)
    np.testing.assert_allclose(second + np.zeros_like(change), change, atol=1e-6)


def test_the_rounded_hinge_exceeds_the_hinge_by_a_quarter_of_its_width():
    f, y = np.linspace(-2, 3, 1001), np.ones(1001)
    over = LocalLoss("hinge", 0.2).value(y, f) - np.maximum(0.0, 1.0 - f)
    assert over.min() >= 0
    assert over.max() == pytest.approx(0.05)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_losses_of_wild_scores_are_finite(name):
    y, f = np.array([1.0, 1.0, -1.0]), np.array([1e4, -1e4, 1e4])
    loss = LocalLoss(name)
    assert np.isfinite([loss.value(y, f), *loss.slopes(y, f)]).all()


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_linear_fits_agree_with_scikit_learn(C, intercept):
    costs = C * COSTS
    ours = {name: fit(name, costs=costs, intercept=intercept) for name in LOSSES}
    assert all(f.converged and f.gradient < 1e-6 for f in ours.values())
    ridge = Ridge(alpha=0.5, fit_intercept=intercept).fit(PHI, SIGN, costs)
    logistic = LogisticRegression(tol=1e-10, max_iter=5000, fit_intercept=intercept).fit(PHI, SIGN, costs)
    for name, peer in (("ridge", ridge), ("logistic", logistic)):
        np.testing.assert_allclose(ours[name].weights[:, 0], np.ravel(peer.coef_), atol=2e-4)
        np.testing.assert_allclose(ours[name].bias[0], np.ravel(peer.intercept_)[0], atol=2e-4)
    if intercept:
        svc = SVC(kernel="linear", tol=1e-8).fit(PHI, SIGN, costs)
        hinge = ours["hinge"]
        found = objective(LocalLoss("hinge", 1e-12), hinge.weights[:, 0], hinge.bias[0], costs=costs)
        best = objective(LocalLoss("hinge", 1e-12), svc.coef_[0], svc.intercept_[0], costs=costs)
        assert best <= found <= best + costs.sum() * WIDTHS[-1] / 4
    else:
        # liblinear would penalise the bias.
        peer = LinearSVC(loss="squared_hinge", fit_intercept=False, tol=1e-10, dual=False).fit(
            PHI, SIGN, costs
        )
        np.testing.assert_allclose(ours["squared_hinge"].weights[:, 0], peer.coef_[0], atol=1e-4)
        assert ours["squared_hinge"].bias[0] == 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_vanishes_and_scipy_finds_nothing_lower(name):
    found = fit(name)
    loss = LocalLoss(name, WIDTHS[-1])
    start = np.append(found.weights[:, 0], found.bias[0])
    least = minimize(lambda p: objective(loss, p[:-1], p[-1]), start, method="BFGS", options={"gtol": 1e-8})
    assert objective(loss, start[:-1], start[-1]) <= least.fun + 1e-8


@pytest.mark.parametrize("name", LOSSES)
def test_columns_are_independent_and_tiles_do_not_matter(name):
    y = np.column_stack([SIGN, -SIGN, np.where(PHI[:, 0] > 0.5, 1.0, -1.0)])
    together = fit(name, y)
    assert together.weights.shape == (12, 3)
    for c in range(3):
        np.testing.assert_allclose(together.weights[:, c], fit(name, y[:, c]).weights[:, 0], atol=1e-7)
    np.testing.assert_allclose(together.weights[:, 1], -together.weights[:, 0], atol=1e-7)
    whole = fit_linear(tiles(size=300), 12, y, COSTS, name)
    np.testing.assert_allclose(whole.weights, together.weights, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_cost_two_is_a_row_twice(name):
    doubled = fit(name, np.concatenate([SIGN, SIGN]), np.concatenate([COSTS, COSTS]), np.vstack([PHI, PHI]))
    np.testing.assert_allclose(doubled.weights, fit(name, costs=2 * COSTS).weights, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_small_and_flat_leaves_converge(name):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, r = int(rng.choice([2, 3, 5, 30])), int(rng.choice([0, 1, 4]))
        features = np.repeat(rng.normal(size=(1, r)), n, axis=0) if seed % 3 else rng.normal(size=(n, r))
        y = np.where(np.arange(n) % 5 == 0, 1.0, -1.0)
        found = fit(name, y, 10.0 ** rng.uniform(-3, 4, n), features)
        assert found.converged, (seed, found.gradient)
        assert np.isfinite(found.weights).all()
        assert np.isfinite(found.bias).all()


@pytest.mark.parametrize("lengthscale", [0.1, 0.3, 1.0])
def test_one_row_against_all_on_as_many_features_as_rows(lengthscale):
    rows = np.random.default_rng(0).random((197, 3))
    values, vectors = np.linalg.eigh(gm.Gaussian(lengthscale)(rows))
    y = -np.ones(197)
    y[3] = 1.0
    found = fit("hinge", y, np.full(197, 3.0), vectors * np.sqrt(np.maximum(values, 0.0)))
    assert found.gradient < 1e-6


class TestExactDuals:
    X = np.random.default_rng(4).random((120, 2))
    gram = gm.Gaussian(0.3)(X)
    y = np.where(np.sin(7 * X[:, 0]) > X[:, 1], 1.0, -1.0)
    costs = np.random.default_rng(5).uniform(1.0, 5.0, 120)

    def alpha(self, name):
        return exact_duals(self.gram, self.y[:, None], self.costs, name)[:, 0]

    @pytest.mark.parametrize("name", LOSSES)
    def test_optimality(self, name):
        alpha = self.alpha(name)
        assert abs(alpha.sum()) < 1e-6 * np.abs(alpha).sum()
        # Up to the bias, α = −c ℓ′(K α + b).
        f = self.gram @ alpha
        if name == "hinge":
            share = self.y * alpha / self.costs
            assert share.min() >= 0
            assert share.max() <= 1 + 1e-9
            free = (share > 1e-6) & (share < 1 - 1e-6)
            bias = np.median((self.y - f)[free])
            np.testing.assert_allclose((self.y * (f + bias))[free], 1.0, atol=2e-3)
            return
        loss = LocalLoss(name)
        bias = minimize(
            lambda b: self.costs @ loss.value(self.y, f + b[0]), [0.0], method="Powell", tol=1e-14
        )
        np.testing.assert_allclose(
            alpha, -self.costs * loss.slopes(self.y, f + bias.x[0])[0], atol=1e-3 * self.costs.max()
        )

    def test_ridge_is_the_bordered_system(self):
        n = len(self.y)
        system = np.block(
            [[self.gram + np.diag(0.5 / self.costs), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
        )
        expected = np.linalg.solve(system, np.append(self.y, 0.0))[:n]
        np.testing.assert_allclose(self.alpha("ridge"), expected, atol=1e-8)

    @pytest.mark.parametrize("name", LOSSES)
    def test_linear_fit_on_the_features_of_the_gram_matrix_is_the_same_model(self, name):
        values, vectors = np.linalg.eigh(self.gram)
        features = vectors * np.sqrt(np.maximum(values, 0.0))
        found = fit(name, self.y, self.costs, features)
        scores, exact = features @ found.weights[:, 0], self.gram @ self.alpha(name)
        np.testing.assert_allclose(scores - scores.mean(), exact - exact.mean(), atol=0.05)


@pytest.mark.parametrize("name", ["squared_hinge", "logistic", "ridge"])
def test_first_step_of_all_classes_has_one_factor(monkeypatch, name):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3))
    gram = np.exp(-np.square(points[:, None] - points).sum(axis=-1))
    y = np.where(np.arange(60)[:, None] // 2 == np.arange(30), 1.0, -1.0)
    costs = 0.5 + rng.random(60)
    alone = [local_models.exact_duals(gram, y[:, [c]], costs, name)[:, 0] for c in range(30)]
    starts = []
    whole = local_models._system_factor

    def counted(matrix, d, s):
        starts.append(d)
        return whole(matrix, d, s)

    monkeypatch.setattr(local_models, "_system_factor", counted)
    together = local_models.exact_duals(gram, y, costs, name)
    np.testing.assert_array_equal(together, np.column_stack(alone))
    first = starts[0]
    assert sum(np.array_equal(first, d) for d in starts) == 1
