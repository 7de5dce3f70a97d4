"""The parameter metric of the estimators: given or learned, in pipelines, files, streams and summaries."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian.exceptions import BudgetError, InputError
from gramian.kernels import FunctionKernel

QUICK = gm.LearnedMetric(rounds=2, powers=(1.0,), bandwidth=False)
RIDGE = gm.KernelRidge(0.1, metric=QUICK, random_state=0)
ESTIMATORS = [
    RIDGE,
    gm.KernelRidgeClassifier(0.1, metric=QUICK, random_state=0),
    gm.KernelLogisticRegression(10.0, metric=QUICK, random_state=0),
    gm.KernelSVC(10.0, metric=QUICK, random_state=0),
    gm.KernelSVR(10.0, metric=QUICK, loss="squared_epsilon_insensitive", random_state=0),
    gm.GaussianProcessRegressor(metric=QUICK, random_state=0),
]


def table(n=400, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 2]) + 0.5 * X[:, 5]
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = table()
LABELS = np.digitize(Y, [-0.5, 0.5])
LABELS.flags.writeable = False


def target(model):
    return LABELS if hasattr(model, "predict_proba") or hasattr(model, "decision_function") else Y


@pytest.mark.slow
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_every_estimator_finds_the_features(model, tmp_path):
    y = target(model)
    model = clone(model).fit(X, y)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {2, 5}
    np.testing.assert_allclose(model.feature_importances_.sum(), 1.0)
    before, after = model.metric_rounds_[0].error, min(r.error for r in model.metric_rounds_)
    assert after < before
    plain = clone(model).set_params(metric=None).fit(X, y)
    fresh, known = table(seed=1)
    known = np.digitize(known, [-0.5, 0.5]) if y is LABELS else known
    assert model.score(fresh, known) > plain.score(fresh, known)
    assert not hasattr(plain, "metric_")
    assert not hasattr(plain, "feature_importances_")
    # Everything that a model goes through keeps the metric.
    expected = model.predict(fresh)
    gm.save(model, tmp_path / "model.gramian")
    for again in (gm.load(tmp_path / "model.gramian"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(fresh), expected)
        assert again.metric_ == model.metric_
        assert again.metric_rounds_ == model.metric_rounds_
    assert again.get_params(deep=False)["metric"].rounds == 2
    assert gm.load(tmp_path / "model.gramian").metric.powers == (1.0,)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_support_vectors_are_judged_by_their_loss(loss):
    model = gm.KernelSVC(10.0, loss=loss, metric=QUICK, random_state=0).fit(X, LABELS > 0)
    order = np.random.default_rng(0).choice(400, 400, replace=False)
    plain = gm.KernelSVC(10.0, loss=loss, random_state=0).fit(X[order[80:]], LABELS[order[80:]] > 0)
    signs = np.where(LABELS[order[:80]] > 0, 1.0, -1.0)
    hinge = np.maximum(1.0 - signs * plain.decision_function(X[order[:80]]), 0.0)
    expected = np.mean(hinge if loss == "hinge" else hinge**2)
    assert model.metric_rounds_[0].error == pytest.approx(expected, rel=1e-2)


@pytest.mark.slow
@parametrize_with_checks(
    [gm.KernelRidge(metric="diagonal"), gm.KernelRidgeClassifier(metric=QUICK), gm.KernelSVC(metric=QUICK)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_same_seed_same_metric_and_refit_forgets():
    first, second = clone(RIDGE).fit(X, Y), clone(RIDGE).fit(X, Y)
    assert first.metric_ == second.metric_
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    first.set_params(metric=None).fit(X, Y)
    assert not hasattr(first, "metric_")
    assert not hasattr(first, "metric_rounds_")
    given = gm.Metric(scales=np.ones(8))
    assert first.set_params(metric=given).fit(X, Y).metric_ is given
    assert clone(first).metric == given


def test_form_full_by_name_and_grid_search():
    model = gm.KernelRidge(0.1, random_state=0)
    search = GridSearchCV(model, {"metric": [None, QUICK]}, cv=2).fit(X, Y)
    assert search.best_params_["metric"] is not None
    model = gm.KernelRidge(0.1, gamma=0.1, metric="full", random_state=0).fit(X[:150], Y[:150])
    assert model.metric_.matrix is not None
    assert model.metric_.matrix.shape == (8, 8)
    assert all(r.bandwidth == 1.0 for r in model.metric_rounds_)  # gamma was given


def test_scaled_first():
    wide = X * 10.0 ** np.arange(-4, 4) + 7.0
    model = clone(RIDGE).set_params(standardize=True).fit(wide, Y)
    other = clone(RIDGE).fit((X - X.mean(axis=0)) / X.std(axis=0), Y)
    np.testing.assert_allclose(model.metric_.scales, other.metric_.scales, rtol=1e-6)
    np.testing.assert_allclose(
        model.predict(wide), other.predict((X - X.mean(axis=0)) / X.std(axis=0)), atol=1e-6
    )


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_sparse_rows(form):
    rows = sp.csr_array(X * (X > 0))
    metric = clone(QUICK).set_params(form=form)
    model = clone(RIDGE).set_params(metric=metric).fit(rows, Y)
    dense = clone(model).fit(rows.toarray(), Y)
    np.testing.assert_allclose(model.predict(rows), dense.predict(rows.toarray()), atol=1e-5)
    np.testing.assert_allclose(model.metric_.squared, dense.metric_.squared, rtol=1e-4, atol=1e-7)


def test_rows_of_weight_zero_do_not_count():
    rng = np.random.default_rng(3)
    y, weights = Y.copy(), np.ones(400)
    wrong = rng.choice(400, 150, replace=False)
    y[wrong], weights[wrong] = 50.0 * X[wrong, 0], 0.0
    model = clone(RIDGE).fit(X, y, weights)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {2, 5}
    misled = clone(RIDGE).fit(X, y)
    assert np.argmax(misled.feature_importances_) == 0


def test_weights_count_in_the_held_out_error():
    # Under weights that see one half of the rows, that half's feature is what counts.
    y = np.where(X[:, 0] > 0, np.sin(3 * X[:, 1]), np.sin(3 * X[:, 4]))
    right = np.where(X[:, 0] > 0, 1.0, 1e-6)
    first, second = clone(RIDGE).fit(X, y, right), clone(RIDGE).fit(X, y, 1.0 + 1e-6 - right)
    assert np.argmax(first.feature_importances_[1:]) + 1 == 1
    assert np.argmax(second.feature_importances_[1:]) + 1 == 4


def test_two_values_are_switched():
    # Of two values far apart a local kernel has no slope at either.
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((600, 4)), 6.0 * rng.integers(0, 2, 600)])
    y = np.where(rows[:, 4] > 0, 1.0, -1.0) + 0.2 * rows[:, 0]
    model = gm.KernelRidge(0.1, gamma=0.5, metric=QUICK, random_state=0).fit(rows, y)
    assert np.argmax(model.feature_importances_) == 4


def test_streams_learn_from_the_first_rows(monkeypatch):
    monkeypatch.setattr("gramian.ridge.streaming.FIRST_ROWS", 200)
    model = clone(RIDGE).partial_fit(X[:200], Y[:200])
    metric = model.metric_
    assert metric == clone(RIDGE).partial_fit(X[:200], Y[:200]).metric_
    model.partial_fit(X[200:], Y[200:])
    assert model.metric_ is metric
    assert model.n_rows_seen_ == 400
    assert model.score(X, Y) > 0.95
    given = gm.KernelRidge(0.1, gamma=0.3, metric=gm.Metric(scales=metric.scales), random_state=0)
    assert given.partial_fit(X, Y).score(X, Y) > 0.95


def test_few_rows_learn_nothing():
    model = clone(RIDGE).fit(X[:59], Y[:59])
    assert model.metric_rounds_ == ()
    assert (model.metric_.scales == 1.0).all()
    plain = clone(RIDGE).set_params(metric=None).fit(X[:59], Y[:59])
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    assert "too few rows" in str(model.summary())


def test_constant_targets_and_columns():
    rows = X.copy()
    rows[:, 3] = 5.0
    model = clone(RIDGE).fit(rows, np.full(400, 2.0))
    assert np.isfinite(model.predict(rows)).all()
    model = clone(RIDGE).fit(rows, Y)
    assert model.feature_importances_[3] == 0.0
    assert np.isfinite(model.metric_.scales).all()


def test_plans_and_summaries():
    model = clone(RIDGE)
    assert model.plan(X, Y).n_rows == 400
    assert not hasattr(model, "metric_")
    assert clone(model).set_params(metric="full").plan(sp.csr_array(X), Y).n_rows == 400
    assert gm.KernelSVC(metric="diagonal").plan(X, LABELS).n_rows == 400
    text = str(model.fit(X, Y).summary())
    assert "diagonal, round" in text
    assert "held-out error" in text
    assert "x2" in text
    assert "Rounds of the metric" in text
    assert "Features in the metric" in text
    given = model.set_params(metric=gm.Metric(scales=np.ones(8))).fit(X, Y)
    assert "diagonal, given" in str(given.summary())


@pytest.mark.slow
def test_other_kernels_and_approximations():
    product = FunctionKernel(lambda a, b: np.exp(-0.1 * ((a[:, None] - b[None]) ** 2).sum(axis=2)))
    for changes in (
        {"kernel": product},
        {"kernel": "laplacian"},
        {"kernel": "poly"},
        {"approximation": gm.RandomFourier(rank=200)},
        {"approximation": gm.MultiResolution(root_rank=60, rank=20, n_blocks=3)},
        {"approximation": "exact"},
        {"memory_budget": "60MB"},
    ):
        model = clone(RIDGE).set_params(**changes).fit(X, Y)
        assert model.metric_rounds_[0].error >= min(r.error for r in model.metric_rounds_)
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metric": "diagnal"}, "metric='diagnal' is unknown.*diagonal"),
        ({"metric": 3.0}, "metric=3.0 is unknown"),
        ({"metric": gm.Metric(scales=[1.0, 2.0])}, "X has 8 features, but metric is of 2"),
        ({"metric": gm.LearnedMetric("round")}, "form='round' is unknown"),
        ({"metric": gm.LearnedMetric(rounds=0)}, "rounds=0 must be a whole number"),
        ({"metric": gm.LearnedMetric(powers=())}, "powers=.* must be numbers"),
        ({"metric": gm.LearnedMetric(powers=(-1.0,))}, r"powers\[0\]=-1.0 must be a positive"),
        ({"metric": gm.LearnedMetric(bandwidth="wide")}, "bandwidth='wide' is unknown"),
        ({"metric": gm.LearnedMetric(held_out=1.5)}, "held_out=1.5 must be under 1"),
        ({"metric": gm.LearnedMetric(floor=1.0)}, "floor=1.0 must be under 1"),
        ({"metric": gm.LearnedMetric(rows=10)}, "rows=10 must be a whole number of at least 60"),
        ({"metric": gm.LearnedMetric(switched=3)}, "switched=3 must be groups"),
        ({"metric": gm.LearnedMetric(switched=[(1, 99)])}, "columns from 0 to 7"),
    ],
)
def test_what_is_no_parameter(changes, text):
    model = clone(RIDGE).set_params(**changes)
    with pytest.raises(InputError, match=text):
        model.fit(X, Y)
    assert not hasattr(model, "metric_")


def test_what_does_not_go_with_a_metric():
    model = clone(RIDGE).set_params(kernel="precomputed")
    with pytest.raises(InputError, match="metric is a map of the features"):
        model.fit(X @ X.T, Y)
    frozen = FrozenEstimator(gm.Nystrom(rank=20, random_state=0).fit(X))
    with pytest.raises(InputError, match="metric would map the rows anew"):
        clone(RIDGE).set_params(approximation=frozen).fit(X, Y)
    wide = np.random.default_rng(0).standard_normal((80, 600))
    small = clone(RIDGE).set_params(metric="full", memory_budget="10MB")
    with pytest.raises(BudgetError, match="too small to learn metric='full' of 600") as error:
        small.fit(wide, wide[:, 0])
    assert error.value.least_bytes == 8 * 6 * 600**2
    with pytest.raises(AttributeError, match="has no metric_"):
        _ = gm.KernelLogisticRegression().feature_importances_


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_rounds_stay_within_the_budget(form):
    rows = np.random.default_rng(0).standard_normal((20_000, 50))
    y = np.sin(rows[:, 0])
    metric = gm.LearnedMetric(form, rounds=1, powers=(1.0,), bandwidth=False)
    model = gm.KernelRidge(0.1, metric=metric, memory_budget="40MB", random_state=0, n_jobs=1)
    tracemalloc.start()
    try:
        model.fit(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6
    assert model.metric_rounds_[1].error < model.metric_rounds_[0].error


def test_held_out_rows_leave_one_to_train_on():
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = gm.KernelRidge(metric=gm.LearnedMetric(held_out=0.999), random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


# ---- learned metrics beside chosen penalties and budgets of their rounds ----------------------------

ROWS = np.random.default_rng(0).random((300, 4))
SINES = np.sin(5.0 * ROWS[:, 0])
ONE_ROUND = gm.LearnedMetric(rounds=1, powers=(1.0,), bandwidth=False)


def test_a_penalty_that_is_chosen_goes_with_a_learned_metric():
    model = gm.KernelRidge("auto", metric=ONE_ROUND, random_state=0).fit(ROWS, SINES)
    assert model.alpha_ > 0
    assert model.feature_importances_.argmax() == 0


def test_rounds_of_a_metric_do_not_compare_their_smaller_budget_with_an_instance():
    inner = gm.Nystrom(rank=40, memory_budget="300MB")
    model = gm.KernelRidge(0.1, approximation=inner, memory_budget="300MB", metric=ONE_ROUND, random_state=0)
    assert model.fit(ROWS, SINES).rank_ == 40
