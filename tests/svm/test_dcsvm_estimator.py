"""DCSVC against scikit-learn's SVC: attributes, decision values, weights, early prediction, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from rounded_checks import run_check
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from suite.datasets import load_dataset

import gramian as gm
import gramian.svm.dcsvc_training
from gramian.svm.dcsvc import DCSVC

#: Why a row of weight 2 is not the same as the row twice.
BALANCED = "balanced class weights count rows, not their weights, as in scikit-learn's SVC"
EARLY = "repeated rows are clustered otherwise, and an early model is one of the clusters"
NO_INTERCEPT = "without an intercept f stays near 0 far from the class of weight"


def expected_failures(model):
    if not (model.early or model.class_weight):
        return {}
    reason = EARLY if model.early else BALANCED
    failures = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    return failures if model.fit_intercept else failures | {"check_class_weight_classifiers": NO_INTERCEPT}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        DCSVC(),
        DCSVC(leaf_size=20, branching=3, class_weight="balanced"),
        DCSVC(leaf_size=15, early=True, fit_intercept=False),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_check(estimator, check):
    # Its solver ends within tol of the minimum, 1e-3 as SVC's.
    run_check(estimator, check, tolerance=1e-2)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (700, 3))
    y = np.digitize(np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(700), [-0.2, 0.6])
    return X, np.array(["low", "mid", "top"])[y]


SETTINGS = {"C": 20.0, "gamma": 2.0, "tol": 1e-4}


def pair(X, y, sample_weight=None, **parameters):
    """SVC and DCSVC, fitted alike; ours by levels."""
    shape = {"decision_function_shape": "ovo"}
    theirs = SVC(**SETTINGS, **shape, **parameters).fit(X, y, sample_weight=sample_weight)
    ours = DCSVC(**SETTINGS, **shape, leaf_size=80, branching=3, random_state=0, **parameters)
    return theirs, ours.fit(X, y, sample_weight=sample_weight)


def agree(theirs, ours, X, atol=1e-3):
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=atol)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.998
    # Coefficients that are all but zero may be zero in the other.
    size = np.abs(theirs.dual_coef_).max(axis=0)
    assert set(theirs.support_[size > 0.05 * size.max()]) <= set(ours.support_)
    size = np.abs(ours.dual_coef_).max(axis=0)
    assert set(ours.support_[size > 0.05 * size.max()]) <= set(theirs.support_)


class TestAgainstSVC:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_attributes_and_values(self, table, classes):
        X, y = table
        y = np.where(y == "low", "mid", y) if classes == 2 else y
        theirs, ours = pair(X, y)
        agree(theirs, ours, X)
        assert ours.violation_.max() <= 1e-4
        assert ours.kernel_entries_ > 0
        for name in ("intercept_", "dual_coef_", "n_support_", "support_", "support_vectors_"):
            assert getattr(ours, name).ndim == getattr(theirs, name).ndim
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
        np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
        assert ours.n_support_.sum() == len(ours.support_)
        both = np.intersect1d(ours.support_, theirs.support_)
        mine, other = np.isin(ours.support_, both), np.isin(theirs.support_, both)
        np.testing.assert_array_equal(ours.support_[mine], theirs.support_[other])
        gap = ours.dual_coef_[:, mine] - theirs.dual_coef_[:, other]
        assert np.abs(gap).max() < 0.05 * SETTINGS["C"]

    def test_votes_are_those_of_svc(self, table):
        theirs, ours = pair(*table)
        ours.decision_function_shape = theirs.decision_function_shape = "ovr"
        np.testing.assert_allclose(
            ours.decision_function(table[0]), theirs.decision_function(table[0]), atol=1e-3
        )

    def test_weights(self, table):
        X, y = table
        weights = np.random.default_rng(1).integers(1, 4, len(y)) / 2.0
        theirs, ours = pair(X, y, weights, class_weight={"mid": 3.0})
        agree(theirs, ours, X, atol=2e-3)

    def test_rows_of_weight_zero_have_no_part(self, table):
        X, y = table
        weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0
        whole = DCSVC(**SETTINGS, leaf_size=80, random_state=0).fit(X, y, sample_weight=weights)
        kept = weights > 0
        part = clone(whole).fit(X[kept], y[kept], sample_weight=weights[kept])
        np.testing.assert_allclose(whole.decision_function(X), part.decision_function(X), atol=1e-3)
        assert kept[whole.support_].all()

    @pytest.mark.slow
    def test_sparse_rows_and_tables(self, table):
        X, y = table
        _, dense = pair(X, y)
        _, thin = pair(sp.csr_matrix(X), y)
        assert sp.issparse(thin.support_vectors_)
        np.testing.assert_allclose(thin.decision_function(X), dense.decision_function(X), atol=1e-3)
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        named = clone(dense).fit(frame, y)
        np.testing.assert_allclose(named.decision_function(frame), dense.decision_function(X), atol=1e-3)

    def test_kernels(self, table):
        X, y = table
        whole = DCSVC(C=20.0, kernel=gm.Gaussian(0.5), leaf_size=80, tol=1e-4).fit(X, y)
        named = DCSVC(C=20.0, gamma=2.0, leaf_size=80, tol=1e-4).fit(X, y)
        np.testing.assert_allclose(whole.decision_function(X), named.decision_function(X), atol=1e-3)
        gram = rbf_kernel(X, gamma=2.0)
        given = DCSVC(C=20.0, kernel="precomputed", leaf_size=80, tol=1e-4).fit(gram, y)
        np.testing.assert_allclose(given.decision_function(gram), named.decision_function(X), atol=1e-3)
        assert given.support_vectors_.shape == (0, 0)
        assert given.predictor_.kernel.matrix is None
        assert cross_val_score(DCSVC(C=20.0, kernel="precomputed"), gram, y, cv=3).mean() > 0.8

    def test_no_intercept_holds_its_own_conditions(self, table):
        X, y = table
        y = np.where(y == "low", "mid", y)
        model = DCSVC(**SETTINGS, fit_intercept=False, leaf_size=80).fit(X, y)
        assert model.intercept_.tolist() == [0.0]
        sign = np.where(y == "top", 1.0, -1.0)
        margin = sign * model.decision_function(X)
        alpha = np.zeros(len(y))
        alpha[model.support_] = np.abs(model.dual_coef_[0])
        assert (margin[alpha < 20.0] > 1 - 2e-4).all()
        assert (margin[alpha > 0] < 1 + 2e-4).all()

    @pytest.mark.data
    @pytest.mark.parametrize(("name", "gamma", "n_rows"), [("letter", 10.0, 1200), ("usps", 0.01, 1500)])
    def test_letter_and_usps(self, name, gamma, n_rows):
        data = load_dataset(name)
        # Of repeated rows, either may carry the coefficient.
        X, where = np.unique(np.asarray(data.X, np.float64)[:4000], axis=0, return_index=True)
        order = np.random.default_rng(0).permutation(len(X))
        X, where = X[order], where[order]
        X = (X - X.min()) / np.ptp(X) if name == "letter" else X
        y = (data.y[where] < (13 if name == "letter" else 5)).astype(int)
        options = {"C": 10.0, "gamma": gamma, "tol": 1e-4}
        theirs = SVC(**options).fit(X[:n_rows], y[:n_rows])
        ours = DCSVC(**options, leaf_size=500, random_state=0).fit(X[:n_rows], y[:n_rows])
        agree(theirs, ours, X[n_rows:])


class TestEarly:
    def test_each_cluster_has_its_own_exact_model(self, table):
        X, y = table
        model = DCSVC(**SETTINGS, leaf_size=150, early=True, random_state=0).fit(X, y)
        labels = model.predictor_.partition.route(X)
        values = model.set_params(decision_function_shape="ovo").decision_function(X)
        assert model.intercept_.shape == (labels.max() + 1, 3)
        for block in range(labels.max() + 1):
            rows = labels == block
            present = np.unique(y[rows])
            if len(present) < 3:
                continue
            local = SVC(**SETTINGS, decision_function_shape="ovo").fit(X[rows], y[rows])
            np.testing.assert_allclose(values[rows], local.decision_function(X[rows]), atol=1e-3)
        assert model.score(X, y) > 0.9

    def test_a_cluster_of_one_class_answers_with_it(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((90, 2)) + np.repeat([[0, 0], [40, 0], [0, 40]], 30, axis=0)
        y = np.repeat(["a", "b", "c"], 30)
        y[:30:2] = "b"
        model = DCSVC(gamma=0.5, leaf_size=30, early=True, random_state=0).fit(X, y)
        assert (model.predict(X[30:]) == y[30:]).all()
        assert (model.n_support_ > 0).tolist() == [True, True, False]

    @pytest.mark.slow
    def test_merged_levels(self, table):
        X, y = table
        first = DCSVC(**SETTINGS, leaf_size=60, branching=3, early=0, random_state=0).fit(X, y)
        merged = clone(first).set_params(early=1).fit(X, y)
        assert 1 < len(merged.intercept_) < len(first.intercept_)
        assert merged.score(X, y) > 0.9
        with pytest.raises(gm.InputError, match=r"early=9 is not a level .* from 0 to"):
            clone(first).set_params(early=9).fit(X, y)


@pytest.mark.slow
def test_same_answer_whatever_the_threads(table):
    X, y = table
    model = DCSVC(**SETTINGS, leaf_size=80, random_state=0)
    one, two = (clone(model).set_params(n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-12)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.decision_function(X), one.decision_function(X))


@pytest.mark.slow
def test_float32_tiles_reach_the_tolerance(table):
    X, y = table
    model = DCSVC(C=20.0, gamma=2.0, leaf_size=80, tile_dtype="float32").fit(X.astype(np.float32), y)
    exact = DCSVC(C=20.0, gamma=2.0, leaf_size=80, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=5e-3)


def test_max_iter_warns_with_what_was_reached():
    X, y = load_digits(return_X_y=True)
    model = DCSVC(C=10.0, gamma=1e-3, leaf_size=100, max_iter=1, tol=1e-9, random_state=1)
    with pytest.warns(gm.AccuracyWarning, match=r"violation of .*, above tol=1e-09.*max_iter=1"):
        model.fit(X[:600], y[:600] < 5)
    assert model.score(X[600:], y[600:] < 5) > 0.9


@pytest.mark.filterwarnings("ignore::gramian.AccuracyWarning", "ignore:Columns 4:UserWarning")
@pytest.mark.parametrize(("kernel", "C"), [("linear", 0.1), (gm.Gaussian(2.0) + gm.Linear(), 10.0)])
def test_a_leaf_that_libsvm_does_not_solve_is_solved(monkeypatch, kernel, C):
    """Features of scales from 1e-5 to 1e5, where libsvm's steps have no end in sight."""

    class Bounded(SVC):
        def fit(self, X, y, sample_weight=None):
            assert 0 < self.max_iter <= 1000 * len(y)
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(gramian.svm.dcsvc_training, "SVC", Bounded)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((142, 5)) * np.logspace(-5, 5, 5)
    y = rng.random(142) > 0.5
    model = DCSVC(C=C, kernel=kernel).fit(X, y)
    u = np.zeros(142)
    u[model.support_] = model.dual_coef_[0]
    K = model.kernel_(X, dtype=np.float64)
    hinge = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * (K @ u + model.intercept_))
    primal, dual = C * hinge.sum() + 0.5 * u @ K @ u, np.abs(u).sum() - 0.5 * u @ K @ u
    assert primal - dual < 0.01 * primal
    assert model.n_iter_.max() < 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "C=0.0 must be a positive"),
        ({"C": "big"}, "C='big' must be a positive"),
        ({"tol": -1.0}, "tol=-1.0 must be"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number of at least 1"),
        ({"leaf_size": 1}, "leaf_size=1 must be a whole number of at least 2"),
        ({"branching": 1}, "branching=1 must be"),
        ({"early": "yes"}, "early='yes' is not a level"),
        ({"decision_function_shape": "ovvo"}, "Did you mean 'ovo'"),
        ({"tile_dtype": "float16"}, "tile_dtype='float16' is unknown"),
        ({"memory_budget": "1MB"}, "memory_budget='1MB' is under 67.1 MB"),
        ({"kernel": "sigmoid"}, "not positive semi-definite"),
    ],
)
def test_bad_parameters(table, parameters, message):
    X, y = table
    with pytest.raises(gm.InputError, match=message.replace("(", r"\(")):
        DCSVC(**parameters).fit(X, y)


def test_bad_rows(table):
    X, y = table
    with pytest.raises(gm.InputError, match="one class"):
        DCSVC().fit(X, np.full(len(y), "mid"))
    with pytest.raises(gm.InputError, match="y to be passed"):
        DCSVC().fit(X, None)
    with pytest.raises(gm.InputError, match="700 rows, but y has 699"):
        DCSVC().fit(X, y[1:])
    with pytest.raises(ValueError, match="expecting 3 features"):
        DCSVC().fit(X, y).predict(X[:, :2])
    frozen = X.copy()
    frozen.setflags(write=False)
    weights = np.ones(len(y))
    DCSVC().fit(frozen, y, sample_weight=weights)
    assert (weights == 1).all()


def test_too_many_pairs_of_classes_are_refused():
    X = np.random.default_rng(0).random((600, 2))
    with pytest.raises(
        gm.InputError, match=r"300 classes, so 44,850 pairs .* at most 19,900. Use KernelRidge"
    ):
        DCSVC().fit(X, np.repeat(np.arange(300), 2))
