"""The estimators of DC-Pred++: scikit-learn's contract, input of every kind, errors, and real data."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from dcpred_models import KINDS, LABELS, NEW, TARGET, THREE, X, classifier, regressor
from rounded_checks import FLOAT32, run_check
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from suite.datasets import load_dataset

import gramian as gm
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor


class TestInterface:
    def test_many_outputs_are_columns_of_their_own(self):
        both = np.column_stack([TARGET, X[:, 0]])
        model = regressor(landmarks="kmeans").fit(X, both)
        assert model.predict(NEW).shape == (400, 2)
        single = regressor(landmarks="kmeans").fit(X, TARGET)
        np.testing.assert_allclose(model.predict(NEW)[:, 0], single.predict(NEW), atol=1e-8)

    def test_threads_pickles_and_tables(self):
        base = classifier().fit(X, THREE)
        values = base.decision_function(NEW)
        for jobs in (2, 3):
            np.testing.assert_array_equal(
                classifier(n_jobs=jobs).fit(X, THREE).decision_function(NEW), values
            )
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(base)).decision_function(NEW), values)
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = classifier().fit(frame, THREE)
        np.testing.assert_allclose(model.decision_function(frame), base.decision_function(X), atol=1e-8)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame.rename(columns={"a": "z"}))

    @pytest.mark.parametrize("pseudo", KINDS)
    def test_sparse_read_only_and_whole_numbers(self, pseudo):
        whole = np.round(X * 20)
        model = classifier(pseudo=pseudo, gamma=0.01).fit(whole, LABELS)
        values = model.decision_function(whole)
        np.testing.assert_allclose(model.decision_function(sp.csr_array(whole)), values, atol=1e-7)
        thin = classifier(pseudo=pseudo, gamma=0.01).fit(sp.csr_array(whole), LABELS)
        assert thin.score(sp.csr_array(whole), LABELS) > 0.8
        frozen = whole.astype(np.int64)
        frozen.setflags(write=False)
        again = classifier(pseudo=pseudo, gamma=0.01).fit(frozen, LABELS)
        np.testing.assert_allclose(again.decision_function(frozen), values, atol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("pseudo", KINDS)
    def test_float32(self, pseudo):
        wide = classifier(pseudo=pseudo).fit(X, LABELS)
        model = classifier(pseudo=pseudo, dtype="float32").fit(X, LABELS)
        assert model.model_(NEW).dtype == np.float32
        assert model.nbytes_ < 0.8 * wide.nbytes_
        assert (model.predict(NEW) == wide.predict(NEW)).mean() > 0.99
        auto = classifier(pseudo=pseudo, dtype="auto")
        assert auto.fit(X, LABELS).model_.dtype == np.float64
        assert auto.fit(X.astype(np.float32), LABELS).model_.dtype == np.float32

    def test_memmaps_are_read_by_chunks(self, tmp_path):
        np.save(tmp_path / "rows.npy", X)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
        np.testing.assert_array_equal(
            regressor().fit(rows, TARGET).predict(rows), regressor().fit(X, TARGET).predict(X)
        )

    @pytest.mark.parametrize("kernel", ["laplacian", "poly", "matern32", gm.Gaussian() + gm.Linear()])
    def test_kernels(self, kernel):
        gamma = 0.5 if isinstance(kernel, str) else None
        assert classifier(kernel=kernel, gamma=gamma).fit(X, LABELS).score(X, LABELS) > 0.85

    def test_features_computed_again_are_those_held(self, monkeypatch):
        held = classifier().fit(X, THREE).decision_function(NEW)
        monkeypatch.setattr("gramian.fast.dcpred.training.FEATURE_BYTES", 0)
        monkeypatch.setattr("gramian.fast.dcpred.training.FIT_ROWS", 40)
        np.testing.assert_allclose(classifier().fit(X, THREE).decision_function(NEW), held, atol=1e-6)

    @pytest.mark.slow
    def test_memory_does_not_grow_with_the_features_of_a_leaf(self, monkeypatch):
        monkeypatch.setattr("gramian.fast.dcpred.training.FEATURE_BYTES", 1 << 20)
        monkeypatch.setattr("gramian.fast.dcpred.training.CORE_ROWS", 300)
        rows = np.random.default_rng(0).random((40_000, 4)).astype(np.float32)
        names = np.sin(9 * rows[:, 0]) > rows[:, 1]
        model = classifier(n_leaves=1, n_landmarks=16, n_pseudo=100, exact_rows=300)
        tracemalloc.start()
        model.fit(rows, names)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # All features would take 40,000 · 100 · 8 bytes = 32 MB.
        assert peak < 24e6
        assert model.score(rows, names) > 0.9

    @pytest.mark.slow
    def test_exact_models_of_many_classes_are_refused_with_what_works(self, monkeypatch):
        monkeypatch.setattr("gramian.fast.dcpred.training.MOST_EXACT_WORK", 2e8)
        names = np.arange(len(X)) // 2
        with pytest.raises(InputError, match=r"[0-9,]+ models, which would take hours") as caught:
            classifier(n_leaves=3).fit(X, names)
        rows = int(str(caught.value).split("exact_rows=")[2].split(",")[0])
        model = classifier(n_leaves=3, exact_rows=rows).fit(X, names)
        assert model.exact_from_sample_.all()
        classifier(n_leaves=3, landmarks="kmeans").fit(X, names)
        classifier(n_leaves=3, loss="ridge").fit(X, names)
        classifier(n_leaves=3).fit(X, LABELS)

    def test_monomials_of_degree_3_answer_as_their_leaves_do(self):
        model = classifier(pseudo_degree=3, n_pseudo=30).fit(X, THREE)
        at = model.model_.partition.route(NEW)
        by_leaf = np.stack([model.model_.leaves[leaf](NEW[i : i + 1])[0] for i, leaf in enumerate(at)])
        np.testing.assert_allclose(model.decision_function(NEW), by_leaf, atol=1e-9)
        assert max((leaf.columns.right >= 6).sum() for leaf in model.model_.leaves if leaf.columns) == 0
        assert any((leaf.columns.left >= 6).any() for leaf in model.model_.leaves if leaf.columns)

    def test_no_bias(self):
        model = classifier(fit_intercept=False, n_leaves=2).fit(X, LABELS)
        assert all((leaf.bias == 0.0).all() for leaf in model.model_.leaves)

    def test_a_missed_tolerance_warns(self, monkeypatch):
        monkeypatch.setattr("gramian.fast.dcpred.local_models.MOST_STEPS", 1)
        with pytest.warns(
            AccuracyWarning, match=r"6 of 6 local models missed .* 1e-4 was the target\. Scale"
        ):
            classifier(n_leaves=6, loss="logistic", C=100.0).fit(X, np.tile(LABELS[:2], 450))


BAD = [
    ({"n_leaves": 0}, r"n_leaves=0 must be a whole number of at least 1"),
    ({"n_leaves": "many"}, r"n_leaves='many' is unknown\. Give a whole number of at least 1, or 'auto'"),
    ({"n_levels": 0}, r"n_levels=0 must be"),
    ({"n_landmarks": 2.5}, r"n_landmarks=2\.5 must be"),
    ({"n_pseudo": -1}, r"n_pseudo=-1 must be a whole number of at least 0"),
    ({"pseudo": "monomial"}, r"Did you mean 'monomials'"),
    ({"pseudo_degree": 1}, r"pseudo_degree=1 must be a whole number of at least 2"),
    ({"landmarks": "kmean"}, r"landmarks='kmean' is unknown.*Did you mean 'kmeans'"),
    ({"partition": "kernel"}, r"partition='kernel' is unknown\. Choose one of kmeans"),
    ({"loss": "absolute"}, r"loss='absolute' is unknown"),
    ({"exact_rows": 1}, r"exact_rows=1 must be a whole number of at least 2"),
    ({"dtype": "float16"}, r"dtype='float16' is unknown\. Choose one of auto, float32, float64"),
    ({"kernel": "precomputed", "gamma": None}, r"kernel='precomputed' has no points"),
    ({"kernel": "linear", "pseudo": "triangle-upper", "gamma": None}, r"not a function of one distance"),
    ({"random_state": "x"}, r"random_state='x' cannot seed"),
]


def indefinite(A, B):
    return np.cos(3.0 * np.sqrt(((A[:, None] - B) ** 2).sum(axis=2)))


class TestBadInput:
    def test_a_kernel_that_is_not_semi_definite(self):
        with pytest.raises(InputError, match=r"not positive semi-definite.*Take landmarks='kmeans'"):
            classifier(kernel=indefinite, gamma=None).fit(X, LABELS)

    @pytest.mark.filterwarnings("ignore:Solver terminated early:sklearn.exceptions.ConvergenceWarning")
    def test_a_cost_that_the_data_cannot_meet_ends(self, monkeypatch):
        monkeypatch.setattr("gramian.fast.dcpred.local_models.LEAST_SVM_STEPS", 1000)
        model = classifier(loss="hinge", C=1e6, n_leaves=3).fit(X[:90], np.tile(LABELS[:2], 45))
        assert np.isfinite(model.decision_function(X)).all()

    @pytest.mark.parametrize(
        ("parameters", "text"), BAD, ids=[next(iter(p)) + str(i) for i, (p, _) in enumerate(BAD)]
    )
    def test_parameters(self, parameters, text):
        for model, y in ((classifier(), LABELS), (regressor(), TARGET)):
            model.set_params(**parameters)
            before = dict(vars(model))
            with pytest.raises(InputError, match=text):
                model.fit(X, y)
            assert vars(model) == before

    @pytest.mark.parametrize("C", [0.0, -1.0, np.inf, np.nan, "1", True])
    def test_costs(self, C):
        with pytest.raises(InputError, match=r"C=.* must be a positive, finite number"):
            classifier(C=C).fit(X, LABELS)
        with pytest.raises(InputError, match=r"alpha=.* must be a positive, finite number"):
            regressor(alpha=C).fit(X, TARGET)

    def test_a_regressor_has_one_loss(self):
        with pytest.raises(InputError, match=r"loss='hinge' is unknown\. Choose one of ridge"):
            regressor(loss="hinge").fit(X, TARGET)

    def test_data(self):
        with pytest.raises(InputError, match="y has one class"):
            classifier().fit(X, np.full(900, "a"))
        with pytest.raises(InputError, match="requires y to be passed"):
            classifier().fit(X, None)
        with pytest.raises(InputError, match="sample_weight holds negative"):
            regressor().fit(X, TARGET, -np.ones(900))
        with pytest.raises(ValueError, match="expecting 3 features"):
            regressor().fit(X, TARGET).predict(X[:, :2])
        with pytest.raises(NotFittedError):
            classifier().predict(X)


DRAWN = "landmarks and pseudo-landmarks are drawn from the rows, and a repeated row may be drawn twice"


def expected_failures(estimator):
    if estimator.pseudo is None:
        return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": DRAWN for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        DCPredClassifier(),
        DCPredClassifier(loss="hinge", pseudo=None, n_landmarks=60, landmarks="kmeans"),
        DCPredRegressor(),
        DCPredRegressor(dtype="float32", n_leaves=2, pseudo="triangle-upper", alpha=0.1),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_check(estimator, check):
    if estimator.dtype == "float32":
        run_check(estimator, check, FLOAT32)
    else:
        check(estimator)


@pytest.mark.data
class TestRealData:
    def letters(self):
        data = load_dataset("letter")
        X, y = data.X.astype(np.float32) / 15, np.where(data.y < 13, "A to M", "N to Z")
        order = np.random.default_rng(0).permutation(len(X))[:18_000]
        train, test = order[:12_000], order[12_000:]
        return X[train], y[train], X[test], y[test]

    @pytest.mark.parametrize(
        ("options", "least"),
        [
            # 43 products a feature, of which 11 route; half the kernel values of the next but one.
            ({"gamma": 3.0, "n_leaves": 64, "n_landmarks": 12, "n_pseudo": 64, "landmarks": "kmeans"}, 0.928),
            ({"gamma": 3.0, "n_leaves": 64, "n_landmarks": 12, "n_pseudo": 0, "landmarks": "kmeans"}, 0.87),
            ({"gamma": 15.0, "n_leaves": 100, "n_landmarks": 96, "n_pseudo": 0}, 0.953),
        ],
    )
    def test_letter(self, options, least):
        X, y, X_test, y_test = self.letters()
        model = DCPredClassifier(C=3.0, random_state=0, n_jobs=1, **options).fit(X, y)
        assert model.score(X_test, y_test) >= least

    def test_cadata(self):
        data = load_dataset("cadata")
        y = (data.y - data.y.min()) / np.ptp(data.y)
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[:16_521], order[16_521:]
        X = (data.X - data.X[train].mean(axis=0)) / data.X[train].std(axis=0)
        model = DCPredRegressor(
            alpha=0.01, gamma=0.05, n_leaves=32, n_landmarks=8, landmarks="kmeans", random_state=0, n_jobs=1
        ).fit(X[train], y[train])
        error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
        # Linear: 0.145.
        assert error < 0.122
