"""The leaves of DC-Pred++: how rows find them, their landmarks, weights, and leaves with little in them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from dcpred_models import KINDS, LABELS, NEW, RNG, TARGET, THREE, X, classifier, regressor
from sklearn.base import clone
from sklearn.svm import SVC

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.fast.dcpred import local_models
from gramian.fast.dcpred.center_tree import CenterTree, fit_tree
from gramian.fast.dcpred.local_models import exact_svm
from gramian.fast.dcpred.training import ROUNDS, DCPredParameters, choose_landmarks, for_rows
from gramian.landmarks.rules import lloyd


class TestTree:
    def test_rows_go_from_centre_to_centre(self):
        tree = fit_tree(X, 12, n_levels=2, method="kmeans", rng=np.random.default_rng(0))
        assert isinstance(tree, CenterTree)
        at = tree.route(NEW)
        for i in range(50):
            child = int(((NEW[i] - tree.root.centers) ** 2).sum(axis=1).argmin())
            before = sum(part.n_blocks for part in tree.children[:child])
            inner = tree.children[child].centers
            assert at[i] == before + ((NEW[i] - inner) ** 2).sum(axis=1).argmin()
        assert tree.ancestors[0][at[0]] == ((NEW[0] - tree.root.centers) ** 2).sum(axis=1).argmin()
        np.testing.assert_array_equal(np.unique(at), np.arange(tree.n_blocks))

    @pytest.mark.parametrize("method", ["kmeans", "minibatch", "kcenters", "tree"])
    @pytest.mark.parametrize("n_levels", [1, 2, 3])
    def test_every_leaf_has_rows(self, method, n_levels):
        tree = fit_tree(X, 20, n_levels=n_levels, method=method, rng=np.random.default_rng(0))
        assert 15 <= tree.n_blocks <= 20
        assert (np.bincount(tree.route(X), minlength=tree.n_blocks) > 0).all()
        np.testing.assert_array_equal(tree.route(sp.csr_array(X)), tree.route(X))
        np.testing.assert_array_equal(tree.route(X, Engine(3)), tree.route(X))

    def test_repeated_rows_give_fewer_leaves(self):
        tree = fit_tree(np.repeat(X[:3], 50, axis=0), 20, n_levels=2, method="kmeans", rng=RNG)
        assert tree.n_blocks == 3


class TestLandmarks:
    def test_weighted_kmeans_lowers_the_objective_of_theorem_3(self):
        model = classifier(landmarks="weighted-kmeans", n_leaves=1, loss="hinge").fit(X, LABELS)
        svm = SVC(C=10.0, gamma=3.0).fit(X, LABELS)
        squares = np.zeros(len(X))
        squares[svm.support_] = svm.dual_coef_[0] ** 2

        def objective(points):
            return squares @ ((X[:, None] - points) ** 2).sum(axis=2).min(axis=1)

        weighted = objective(model.model_.leaves[0].columns.landmarks)
        for seed in range(5):
            assert weighted < 0.9 * objective(lloyd(X, 6, ROUNDS, np.random.default_rng(seed)))
        # What k-means of all restarts reaches with these weights.
        best = min(
            objective(lloyd(X, 6, 50, np.random.default_rng(seed), weights=squares)) for seed in range(10)
        )
        assert weighted < 1.6 * best

    @pytest.mark.parametrize("rule", ["weighted-kmeans", "kmeans", "uniform", "rpcholesky"])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "ridge"])
    def test_rules(self, rule, loss):
        model = classifier(landmarks=rule, loss=loss, n_leaves=2).fit(X, THREE)
        for leaf, report in zip(model.model_.leaves, model.leaves_, strict=True):
            assert leaf.columns.landmarks.shape == (6, 3)
            assert report.exact_rows == (report.n_rows if rule == "weighted-kmeans" else 0)
            picked = (leaf.columns.landmarks[:, None] == X).all(axis=2).any(axis=1).all()
            assert picked == (rule in ("uniform", "rpcholesky"))

    def test_a_large_leaf_s_exact_model_is_sampled_and_says_so(self):
        model = classifier(n_leaves=2, exact_rows=100).fit(X, LABELS)
        assert model.exact_from_sample_.all()
        assert [leaf.exact_rows for leaf in model.leaves_] == [100, 100]
        assert not classifier(n_leaves=2).fit(X, LABELS).exact_from_sample_.any()

    def test_a_row_of_weight_two_weighs_as_two(self, monkeypatch):
        seen = []

        def spy(gram, y, costs):
            seen.append(exact_svm(gram, y, costs))
            return seen[-1]

        monkeypatch.setattr(local_models, "exact_svm", spy)
        settings = settings_of(classifier(loss="hinge", C=0.3))
        y = np.where(LABELS[:200] == "yes", 1.0, -1.0)[:, None]
        kernel = gm.Gaussian(0.4)
        for rows, costs in ((X[:200], np.full(200, 0.6)), (np.repeat(X[:200], 2, axis=0), np.full(400, 0.3))):
            targets = y if len(costs) == 200 else np.repeat(y, 2, axis=0)
            choose_landmarks(as_source(rows), targets, costs, kernel, settings, np.random.default_rng(0))
        once, twice = seen
        # Σ over copies of α² is α²/2.
        np.testing.assert_allclose(
            (twice.reshape(200, 2) ** 2).sum(axis=1).sum(), (once**2 / 2).sum(), rtol=0.05
        )


def settings_of(model):
    return for_rows(DCPredParameters.of(model, float(model.C)), as_source(X), len(X), wide=False)


class TestLeaves:
    def test_one_class(self):
        centre = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 40, axis=0)
        rows = centre + RNG.normal(size=centre.shape)
        names = np.repeat(["a", "b", "c"], 40)
        model = classifier(n_leaves=3, n_levels=1).fit(rows, names)
        assert all(leaf.columns is None for leaf in model.model_.leaves)
        np.testing.assert_array_equal(model.predict(rows), names)
        np.testing.assert_array_equal(
            model.decision_function(rows), np.where(names[:, None] == ["a", "b", "c"], 1.0, -1.0)
        )
        two = classifier(n_leaves=3, n_levels=1).fit(rows, names == "b")
        np.testing.assert_array_equal(two.decision_function(rows), np.where(names == "b", 1.0, -1.0))

    def test_a_missing_class_has_the_value_minus_one(self):
        rows = np.vstack([RNG.random((60, 2)), RNG.random((60, 2)) + 20])
        names = np.concatenate(
            [np.where(rows[:60, 0] > 0.5, "a", "b"), np.where(rows[60:, 0] > 20.5, "b", "c")]
        )
        model = classifier(n_leaves=2).fit(rows, names)
        values = model.decision_function(rows)
        np.testing.assert_array_equal(values[:60, 2], -1.0)
        np.testing.assert_array_equal(values[60:, 0], -1.0)
        assert model.score(rows, names) > 0.9

    def test_fewer_rows_than_landmarks_takes_all_rows(self):
        model = classifier(n_leaves=1, n_landmarks=50, pseudo=None).fit(X[:20], LABELS[:20])
        (leaf,) = model.leaves_
        assert (leaf.n_landmarks, leaf.n_pseudo, leaf.exact_rows) == (20, 0, 0)
        svm = SVC(C=10.0, gamma=3.0).fit(X[:20], LABELS[:20])
        hinge = classifier(n_leaves=1, n_landmarks=50, pseudo=None, loss="hinge").fit(X[:20], LABELS[:20])
        np.testing.assert_allclose(hinge.decision_function(NEW), svm.decision_function(NEW), atol=0.03)

    @pytest.mark.parametrize("pseudo", KINDS)
    @pytest.mark.parametrize("rule", ["weighted-kmeans", "kmeans", "uniform", "rpcholesky"])
    def test_all_features_constant(self, pseudo, rule):
        rows = np.ones((60, 3))
        names = np.array(["few", "many", "many"] * 20)
        model = classifier(n_leaves=4, pseudo=pseudo, landmarks=rule).fit(rows, names)
        assert model.n_leaves_ == 1
        assert (model.predict(rows) == "many").all()
        numbers = regressor(n_leaves=4, pseudo=pseudo, landmarks=rule).fit(rows, np.arange(60.0))
        np.testing.assert_allclose(numbers.predict(rows), 29.5)

    def test_constant_target(self):
        np.testing.assert_array_equal(regressor().fit(X, np.full(900, 3.5)).predict(NEW), 3.5)

    def test_one_row(self):
        np.testing.assert_array_equal(regressor().fit(X[:1], [2.0]).predict(NEW), 2.0)

    def test_rare_class_that_the_exact_model_s_sample_misses(self):
        names = np.full(900, "common")
        names[17] = "rare"
        model = classifier(n_leaves=1, exact_rows=5).fit(X, names)
        assert np.isfinite(model.decision_function(NEW)).all()

    @pytest.mark.parametrize("gamma", [1e-12, 1e12])
    @pytest.mark.parametrize("pseudo", KINDS)
    def test_extreme_kernels(self, gamma, pseudo):
        values = classifier(gamma=gamma, pseudo=pseudo).fit(X, LABELS).decision_function(NEW)
        assert np.isfinite(values).all()


class TestWeights:
    def test_rows_of_weight_zero_are_as_if_not_there(self):
        weights = np.repeat([1.0, 0.0], [700, 200])
        wild = X.copy()
        wild[700:] *= 1e3
        for model, y in ((classifier(), LABELS), (regressor(), TARGET)):
            np.testing.assert_array_equal(
                clone(model).fit(wild, y, weights).predict(NEW),
                clone(model).fit(X[:700], y[:700]).predict(NEW),
            )

    def test_weights_scale_the_cost(self):
        heavy = classifier(C=1.0).fit(X, LABELS, np.full(900, 10.0))
        np.testing.assert_allclose(
            heavy.decision_function(NEW), classifier().fit(X, LABELS).decision_function(NEW), atol=1e-6
        )

    def test_class_weights(self):
        plain = classifier().fit(X, LABELS)
        more = classifier(class_weight={"yes": 50.0}, C=0.1).fit(X, LABELS)
        assert (more.predict(NEW) == "yes").mean() > (plain.predict(NEW) == "yes").mean()
        by_hand = classifier().fit(X, LABELS, np.where(LABELS == "yes", 2.0, 1.0))
        by_class = classifier(class_weight={"yes": 2.0}).fit(X, LABELS)
        np.testing.assert_array_equal(by_hand.decision_function(NEW), by_class.decision_function(NEW))

    def test_classes_without_weight(self):
        assert "yes" not in classifier(class_weight={"yes": 0.0}).fit(X, LABELS).predict(NEW)
