"""scikit-learn's own contract: its checks for every estimator, and its tools around ours."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from rounded_checks import FLOAT32, run_check
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian.data.source import as_source


def small_meka(**parameters):
    return gm.MEKA(rank=5, n_blocks=2, **parameters)


def small_tree(**parameters):
    return gm.MultiResolution(root_rank=5, rank=3, n_blocks=4, **parameters)


ESTIMATORS = [
    small_meka(),
    small_meka(tile_dtype="float64", kernel="laplacian"),
    small_meka(core="sampled", tile_dtype="float32"),
    small_tree(),
    small_tree(n_levels=3, sparse_output=False, partition="tree"),
    gm.KernelRidge(approximation="meka", fit_intercept=True),
    gm.KernelRidge(approximation=gm.Exact(solver="cg"), fit_intercept=True),
    gm.KernelRidge(
        alpha=0.1, approximation=gm.MultiResolution(root_rank=60, rank=3, n_blocks=4), tile_dtype="float32"
    ),
    # A list of alphas is for the weights as they are: a weight of 2 is two rows.
    gm.KernelRidgeCV((0.001, 0.1, 10.0), gammas=(0.1, 1.0), cv=3, fit_intercept=True),
    gm.KernelRidgeCV(kernel="rbf", approximation="meka", cv="gcv", scoring="r2", refine="lengthscales"),
    gm.KernelPCA(2, approximation=gm.Nystrom(rank=8), fit_inverse_transform=True),
    gm.KernelRidgeClassifier(approximation="meka", tile_dtype="float32", class_weight="balanced"),
    gm.KernelRidgeClassifier(approximation=gm.MultiResolution(root_rank=40, rank=5, n_blocks=3, n_levels=3)),
    gm.GaussianProcessRegressor(ard=True, approximation=gm.MultiResolution(root_rank=10, rank=4, n_blocks=3)),
]


@pytest.mark.slow  # every class is checked by its defaults in test_check_estimator.py
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:the learned kernel explains nothing")  # the checks' targets are random
@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_check(estimator, check):
    # A search for lengthscales ends at a tolerance of its own.
    if estimator.tile_dtype == "float32" or getattr(estimator, "refine", None):
        run_check(estimator, check, FLOAT32)
    else:
        check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.random((240, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


def fitted_pairs():
    return [
        gm.MEKA(gamma=1.0, rank=8, n_blocks=3, random_state=0),
        gm.MultiResolution(gamma=1.0, root_rank=15, rank=6, n_blocks=5, random_state=0),
        gm.KernelRidge(gamma=1.0, alpha=0.1, random_state=0),
        gm.KernelRidge(gamma=1.0, alpha=0.1, approximation=gm.MEKA(rank=8, n_blocks=3), random_state=0),
        gm.KernelRidgeClassifier(gamma=1.0, alpha=0.1, random_state=0),
        gm.GaussianProcessRegressor(
            approximation=gm.MultiResolution(root_rank=15, rank=6, n_blocks=5), random_state=0
        ),
        gm.KernelRidgeCV((0.01, 1.0), gamma=1.0, approximation=gm.Nystrom(rank=15), random_state=0),
        gm.KernelSVC(gamma=1.0, tol=1e-6, random_state=0),
        gm.KernelSVR(gamma=1.0, tol=1e-6, random_state=0),
        gm.KernelLogisticRegression(gamma=1.0, approximation=gm.Nystrom(rank=15), tol=1e-8, random_state=0),
        gm.KernelPCA(3, gamma=1.0, approximation=gm.Nystrom(rank=15), random_state=0),
    ]


def answer(estimator, X):
    """What the fitted estimator says of X, as a dense array."""
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(X)
    out = estimator.predict(X) if hasattr(estimator, "predict") else estimator.transform(X)
    return out.toarray() if sp.issparse(out) else np.asarray(out)


def target_of(estimator, y):
    return (y > y.mean()).astype(int) if is_classifier(estimator) else y


@pytest.mark.whole
@pytest.mark.parametrize("estimator", fitted_pairs(), ids=lambda e: repr(e)[:40])
class TestEveryEstimator:
    def test_clone_fits_to_the_same_result_and_pickles(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        first = clone(estimator).fit(X, y)
        again = clone(first).fit(X, y)
        np.testing.assert_array_equal(answer(first, X), answer(again, X))
        np.testing.assert_array_equal(answer(first, X), answer(pickle.loads(pickle.dumps(first)), X))

    def test_any_number_of_threads_gives_the_same_result(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        one, two, three = (
            answer(clone(estimator).set_params(n_jobs=jobs).fit(X, y), X) for jobs in (1, 2, 3)
        )
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)

    def test_read_only_and_csr_rows_give_what_dense_rows_give(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        # Blocks must not hinge on the last digit: one that CSR sums in another order.
        X = np.round(X, 2)
        frozen_X, frozen_y = X.copy(), y.copy()
        frozen_X.setflags(write=False)
        frozen_y.setflags(write=False)
        dense = clone(estimator).fit(X, y)
        np.testing.assert_array_equal(answer(dense, X), answer(clone(estimator).fit(frozen_X, frozen_y), X))
        thin = clone(estimator).fit(sp.csr_array(X), y)
        assert answer(thin, sp.csr_array(X)).shape == answer(dense, X).shape
        np.testing.assert_allclose(answer(dense, sp.csr_array(X)), answer(dense, X), atol=1e-9)

    def test_whole_numbers_are_read_as_they_are(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        whole = np.round(X * 20)
        expected = answer(clone(estimator).set_params(gamma=0.01).fit(whole, y), whole)
        for dtype in (np.uint8, np.int16, np.int64):
            model = clone(estimator).set_params(gamma=0.01).fit(whole.astype(dtype), y)
            found = answer(model, whole.astype(dtype))
            if hasattr(estimator, "transform"):
                # Bytes give float32 centres: a row halfway between two may go to the other.
                np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.05)
            else:
                np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_refit_forgets_the_first_table(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        model = clone(estimator).fit(np.hstack([X, X]), y)
        model.fit(X[:200], y[:200])
        assert model.n_features_in_ == 3
        fresh = clone(estimator).fit(X[:200], y[:200])
        np.testing.assert_array_equal(answer(model, X), answer(fresh, X))

    def test_random_states(self, estimator, table):
        X, y = table
        y = target_of(estimator, y)
        draws = [
            clone(estimator).set_params(random_state=np.random.RandomState(5)).fit(X, y) for _ in range(2)
        ]
        np.testing.assert_array_equal(answer(draws[0], X), answer(draws[1], X))
        assert np.isfinite(answer(clone(estimator).set_params(random_state=None).fit(X, y), X)).all()
        state = np.random.default_rng(1)
        assert np.isfinite(answer(clone(estimator).set_params(random_state=state).fit(X, y), X)).all()

    def test_plan_changes_nothing(self, estimator, table):
        X, y = table
        state = np.random.RandomState(5)
        model = clone(estimator).set_params(random_state=state)
        if isinstance(model, gm.KernelPCA):
            pytest.skip("it has no plan")
        before = state.get_state()[1].copy()
        plan = model.plan(X)
        assert plan.peak_bytes > 0
        assert not hasattr(model, "n_features_in_")
        np.testing.assert_array_equal(before, state.get_state()[1])
        model.fit(X, target_of(estimator, y)).plan(X[:, :2])
        assert model.n_features_in_ == 3

    def test_callers_dicts_are_never_written_to(self, estimator, table):
        X, y = table
        params = {"power": 2.0}
        model = clone(estimator).set_params(kernel=laplace_power, kernel_params=params, gamma=None)
        model.fit(X, target_of(estimator, y))
        assert params == {"power": 2.0}
        assert model.kernel_params == {"power": 2.0}


def laplace_power(X, Z, power):
    return np.exp(-(np.abs(X[:, None, :] - Z[None, :, :]) ** power).sum(axis=2))


def test_grid_search_reaches_into_the_approximation(table):
    X, y = table
    model = gm.KernelRidge(gamma=1.0, approximation=gm.MEKA(n_blocks=2), random_state=0)
    grid = {"alpha": [0.01, 10.0], "approximation__rank": [2, 12]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.01, "approximation__rank": 12}
    assert model.approximation.rank == 128
    labels = np.where(y > 1, "high", "low")
    classifier = gm.KernelRidgeClassifier(gamma=1.0, alpha=0.1)
    assert cross_val_score(classifier, X, labels, cv=3).mean() > 0.85


def test_pipelines_end_in_any_linear_model(table):
    X, y = table
    for features in (
        gm.MultiResolution(root_rank=30, rank=9, n_blocks=4, gamma=1.0),
        gm.MEKA(rank=20, n_blocks=2, gamma=1.0),
    ):
        pipeline = make_pipeline(StandardScaler(), features, Ridge(1e-3))
        assert pipeline.fit(X, y).score(X, y) > 0.9


def test_set_output_gives_named_columns(table):
    pd = pytest.importorskip("pandas")
    X, _ = table
    for estimator in (small_meka(), small_tree(sparse_output=False)):
        out = clone(estimator).set_output(transform="pandas").fit(X).transform(X)
        name = type(estimator).__name__.lower()
        assert isinstance(out, pd.DataFrame)
        assert out.columns[0] == f"{name}0"
        assert out.shape[1] == clone(estimator).fit(X).rank_
    with pytest.raises(ValueError, match="sparse"):
        small_tree().set_output(transform="pandas").fit(X).transform(X)


@pytest.mark.parametrize("classifier", [False, True])
def test_weights_equal_repetition_and_zero_weights_removal(table, classifier):
    X, y = table
    model = gm.KernelRidge(alpha=0.5, gamma=2.0, fit_intercept=True)
    if classifier:
        model = gm.KernelRidgeClassifier(alpha=0.5, gamma=2.0)
    y = target_of(model, y)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(answer(weighted, X), answer(repeated, X), atol=1e-8)
    kept = clone(model).fit(X, y, sample_weight=(weights > 0).astype(float))
    removed = clone(model).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(answer(kept, X), answer(removed, X), atol=1e-8)


def test_a_number_as_weight_counts_for_every_row(table):
    X, y = table
    twice = gm.KernelRidge(alpha=1.0, gamma=2.0).fit(X, y, sample_weight=2.0)
    half = gm.KernelRidge(alpha=0.5, gamma=2.0).fit(X, y)
    np.testing.assert_allclose(twice.predict(X), half.predict(X), atol=1e-9)


def test_a_row_source_is_read_like_its_array(table):
    X, y = table
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = gm.KernelRidge(alpha=0.1, gamma=1.0, approximation=small_meka(), random_state=0)
    model.fit(frame, y).fit(as_source(X), y)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(as_source(X)), model.fit(X, y).predict(X))
    with pytest.raises(gm.InputError, match="X has 2 features, but KernelRidge is expecting 3 features"):
        model.predict(as_source(X[:, :2].copy()))
