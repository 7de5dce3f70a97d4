"""DC-Pred++ against a dense oracle of Algorithms 1 and 2."""

from __future__ import annotations

import numpy as np
import pytest
from dcpred_models import KINDS, LABELS, NEW, TARGET, THREE, X, classifier, members, regressor
from sklearn.svm import SVC

import gramian as gm
from gramian._numerics import design_cutoff
from gramian.fast.dcpred.leaves import bounded_values
from gramian.fast.dcpred.local_models import LocalLoss
from gramian.kernels import Cauchy


def test_answers_far_from_the_rows_stay_within_what_their_leaf_has_seen():
    rows = np.random.default_rng(0).normal(size=(80, 2))
    target = np.sin(rows[:, 0]) + rows[:, 1]
    far = np.random.default_rng(1).normal(size=(4000, 2)) * np.logspace(0, 3, 4000)[:, None]
    for pseudo in KINDS:
        model = gm.DCPredRegressor(pseudo=pseudo, random_state=0).fit(rows, target)
        for leaf, members_ in zip(model.model_.leaves, members(model, far), strict=True):
            low, high = leaf.limits[:, 0]
            answers = model.predict(far[members_])
            assert low <= answers.min()
            assert answers.max() <= high
            np.testing.assert_array_equal(answers[-1], leaf(far[members_][-1:])[0, 0])


class TestAlgorithm1:
    """Every leaf: C̄ by its columns, W̄ = C̄⁺ G C̄⁺ᵀ, ᾱ by dense algebra on Ḡ, β = W̄ C̄ᵀ ᾱ."""

    @pytest.mark.parametrize("pseudo", KINDS)
    def test_regression(self, pseudo):
        model = regressor(pseudo=pseudo).fit(X, TARGET)
        expected = np.empty(len(NEW))
        for leaf, rows, new in zip(model.model_.leaves, members(model), members(model, NEW), strict=True):
            C = leaf.columns(X[rows])
            inverse = np.linalg.pinv(C, rcond=design_cutoff(np.float64))
            W = inverse @ gm.Gaussian(6.0**-0.5)(X[rows]) @ inverse.T
            n = len(rows)
            system = np.block(
                [[C @ W @ C.T + 1e-3 * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
            )
            *alpha, bias = np.linalg.solve(system, np.append(TARGET[rows], 0.0))
            beta = W @ C.T @ np.array(alpha)
            f = leaf.columns(NEW[new]) @ beta + bias
            seen = np.concatenate([TARGET[rows], C @ beta + bias])
            low, high = (seen.min(), seen.max()) if pseudo else (-np.inf, np.inf)
            # Beyond what the leaf has seen: from the limit towards the bias, which is reached a range away.
            for k in np.flatnonzero((f < low) | (f > high)):
                limit = low if f[k] < low else high
                share = min(abs(f[k] - limit) / (high - low), 1.0)
                f[k] = limit + share * (np.clip(bias, low, high) - limit)
            expected[new] = f
            np.testing.assert_allclose(C @ leaf.beta[:, 0], C @ beta, atol=1e-6)
        np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-5)

    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "ridge"])
    @pytest.mark.parametrize("pseudo", KINDS)
    def test_classification_is_stationary_on_the_approximate_kernel(self, loss, pseudo):
        model = classifier(loss=loss, pseudo=pseudo).fit(X, LABELS)
        y = np.where(LABELS == "yes", 1.0, -1.0)[:, None]
        for leaf, rows in zip(model.model_.leaves, members(model), strict=True):
            if leaf.columns is None:
                continue
            C = leaf.columns(X[rows])
            inverse = np.linalg.pinv(C, rcond=design_cutoff(np.float64))
            W = inverse @ gm.Gaussian(6.0**-0.5)(X[rows]) @ inverse.T
            f = C @ leaf.beta + leaf.bias
            # The optimum on Ḡ: ᾱ = −C ℓ′(f), f = Ḡ ᾱ + b, Σ ᾱ = 0.
            alpha = -10.0 * LocalLoss(loss, 0.01).slopes(y[rows], f)[0]
            np.testing.assert_allclose(C @ W @ C.T @ alpha + leaf.bias, f, atol=1e-4)
            assert abs(alpha.sum()) < 1e-3

    def test_hinge_is_the_svm_of_the_approximate_kernel(self):
        model = classifier(loss="hinge", n_leaves=1).fit(X, LABELS)
        (leaf,) = model.model_.leaves
        C = leaf.columns(X)
        inverse = np.linalg.pinv(C, rcond=design_cutoff(np.float64))
        approximate = C @ (inverse @ gm.Gaussian(6.0**-0.5)(X) @ inverse.T) @ C.T
        svm = SVC(C=10.0, kernel="precomputed", tol=1e-6).fit(approximate, LABELS)
        np.testing.assert_allclose(
            model.decision_function(X), svm.decision_function(approximate), atol=0.05, rtol=0.02
        )

    def test_core_is_fitted_on_sampled_rows(self, monkeypatch):
        whole = classifier(n_leaves=1).fit(X, LABELS)
        monkeypatch.setattr("gramian.fast.dcpred.training.CORE_ROWS", 50)
        model = classifier(n_leaves=1).fit(X, LABELS)
        assert model.leaves_[0].rank <= 50
        assert np.abs(model.decision_function(X) - whole.decision_function(X)).max() > 1e-6
        assert model.score(X, LABELS) > 0.8


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["two", "three"])
def test_a_prediction_is_its_leaf_s_formula(labels):
    model = classifier().fit(X, labels)
    q = 1 if labels is LABELS else 3
    expected = np.empty((len(NEW), q))
    for leaf, rows in zip(model.model_.leaves, members(model, NEW), strict=True):
        expected[rows] = leaf.bias
        if leaf.columns is not None:
            c = gm.Gaussian(6.0**-0.5)(NEW[rows], leaf.columns.landmarks)
            products = c[:, leaf.columns.left] * c[:, leaf.columns.right]
            expected[rows] += np.hstack([c, products]) @ leaf.beta
            expected[rows] = bounded_values(expected[rows], leaf.bias, *leaf.limits)
    found = model.decision_function(NEW)
    np.testing.assert_allclose(found.reshape(len(NEW), q), expected, atol=1e-10)
    chosen = (expected[:, 0] > 0).astype(int) if q == 1 else expected.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[chosen])


def one_by_one(model, rows):
    """The decision values without the batch."""
    out = np.empty((len(rows), model.model_.n_outputs))
    for leaf, own in zip(model.model_.leaves, members(model, rows), strict=True):
        out[own] = leaf(rows[own])
    return out


def batched(model):
    return model.model_._batch is not None


class TestBatch:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("pseudo", [None, "monomials"])
    @pytest.mark.parametrize(
        "kernel",
        [
            gm.Gaussian((0.4, 0.6, 0.5)),
            3.0 * gm.Gaussian(0.5),
            gm.Matern(0.7, nu=2.5),
            gm.RationalQuadratic(0.5),
            Cauchy(0.5),
        ],
        ids=repr,
    )
    def test_the_batch_is_its_leaves(self, kernel, pseudo, dtype):
        # Leaves of one class, and of fewer rows than landmarks, among the others.
        rows = np.vstack([X[:300], X[300:308] + 30.0, X[308:340] - 30.0])
        names = np.concatenate([THREE[:300], THREE[300:308], np.full(32, "red")])
        model = classifier(kernel=kernel, gamma=None, pseudo=pseudo, dtype=dtype, n_landmarks=9).fit(
            rows, names
        )
        assert batched(model)
        assert {0, 8, 9} == {leaf.n_landmarks for leaf in model.leaves_}
        found = model.decision_function(rows)
        np.testing.assert_allclose(found, one_by_one(model, rows), atol=1e-8 if dtype == "float64" else 5e-3)

    def test_what_is_not_batched(self):
        for parameters in ({"pseudo": "triangle-upper"}, {"kernel": "laplacian"}, {"kernel": "exponential"}):
            model = classifier(**parameters).fit(X, LABELS)
            assert not batched(model)
            np.testing.assert_allclose(model.decision_function(NEW), one_by_one(model, NEW)[:, 0], atol=1e-10)
        wide = classifier(dtype="float32", gamma=1e6, n_leaves=1).fit(X, LABELS)
        assert not batched(wide)
        many = classifier(n_landmarks=12, n_pseudo=2, n_leaves=1).fit(X, THREE)
        assert not batched(many)

    def test_rows_beyond_the_range_of_the_type(self):
        model = classifier(dtype="float32").fit(X, LABELS)
        far = NEW.copy()
        far[7] = 1e30
        values = model.decision_function(far)
        assert np.isfinite(values).all()
        np.testing.assert_allclose(
            np.delete(values, 7), np.delete(model.decision_function(NEW), 7), atol=1e-3
        )


def test_no_rows_at_all_are_predicted_by_the_engine():
    model = regressor().fit(X, TARGET).model_
    assert model(X[:0]).shape == (0, 1)
